"""The private names of Scrapy that `live.engine` uses exist and behave as it expects.

If one of these tests fails after an update of Scrapy, change only `crawlprio/live/engine.py`.
"""

from functools import partial
from time import monotonic

import pytest
from crawls import ADDON, Answer, _in_loop, page, run_spider
from pydispatch import dispatcher
from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.utils.defer import maybe_deferred_to_future
from spiders import OneByOne

from crawlprio.errors import ConfigError
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.pipelines import LinkPairPipeline


class HoldingScheduler(BaseScheduler):
    """Hands out its only request at `opens_at`, and records when it is asked."""

    asked_at: list[float]
    opens_at: float

    def open(self, spider):
        type(self).asked_at = []
        self._crawler = spider.crawler
        self._requests = []

    def has_pending_requests(self):
        return bool(self._requests)

    def enqueue_request(self, request):
        self._requests.append(request)
        type(self).opens_at = monotonic() + 0.5
        alarm = engine.Alarm(partial(engine.wake, self._crawler))
        alarm.set(self.opens_at + 60)
        alarm.set(self.opens_at)
        alarm.set(self.opens_at + 30)
        self._alarm = alarm
        return True

    def next_request(self):
        self.asked_at.append(monotonic())
        is_open = bool(self._requests) and monotonic() >= self.opens_at
        return self._requests.pop() if is_open else None


def test_the_alarm_makes_the_engine_ask_at_once_and_the_earliest_time_counts():
    """On its own, the engine asks only every 5 s."""
    run = run_spider(OneByOne, {"SCHEDULER": HoldingScheduler}, site={"/": page()})
    assert (run.reason, len(run.items)) == ("finished", 1)
    asked_at, opens_at = HoldingScheduler.asked_at, HoldingScheduler.opens_at
    assert sum(at < opens_at for at in asked_at) < 20, "it was asked all the time"
    assert min(at for at in asked_at if at >= opens_at) - opens_at < 2.5


def test_a_cancelled_alarm_does_not_fire():
    rung = []

    class Cancelling(OneByOne):
        def parse(self, response):
            alarm = engine.Alarm(lambda: rung.append(monotonic()))
            alarm.set(monotonic() + 0.02)
            alarm.cancel()
            yield from super().parse(response)

        async def start(self):
            yield Request("http://a.test/")
            await self.crawler.signals.wait_for(signals.item_scraped)
            yield Request("http://a.test/slow")

    run = run_spider(Cancelling, {}, site={"/": page(), "/slow": page()._replace(seconds=0.1)})
    assert (len(run.items), rung) == (2, [])


class WatchedScheduler(Scheduler):
    """Scrapy's own scheduler, which also records what happens to its requests."""

    told: list[tuple[str, str]]

    def open(self, spider):
        type(self).told = []
        engine.watch_requests(
            spider.crawler,
            outcome=lambda request, outcome: self.told.append(
                (request.url, type(outcome).__name__)
            ),
            done=lambda request: self.told.append((request.url, "done")),
        )
        return super().open(spider)


def test_the_outcome_of_a_request_is_reported_and_its_end_after_its_items():
    told = []

    class Pipeline:
        def process_item(self, item):
            told.append(("item", list(WatchedScheduler.told)))
            return item

    class Asking(OneByOne):
        start_urls = ("http://a.test/", "http://a.test/moved")

        def parse(self, response):
            yield {"url": response.url}
            if not response.url.endswith("/there"):
                yield Request("http://a.test/refused", errback=lambda failure: None)

    class Refusing:
        def process_request(self, request):
            if request.url.endswith("/refused"):
                raise IgnoreRequest

    settings = {
        "SCHEDULER": WatchedScheduler,
        "ITEM_PIPELINES": {Pipeline: 1},
        "DOWNLOADER_MIDDLEWARES": {Refusing: 1},
        "CONCURRENT_REQUESTS": 1,
    }
    moved = Answer(status=302, headers={"Location": "/there"})
    run_spider(Asking, settings, site={"/": page(), "/moved": moved, "/there": page()})
    of = {
        path: [what for url, what in WatchedScheduler.told if url == f"http://a.test{path}"]
        for path in ("/", "/moved", "/there", "/refused")
    }
    assert of == {
        "/": ["HtmlResponse", "done"],
        "/moved": ["Request", "done"],
        "/there": ["HtmlResponse", "done"],
        "/refused": ["Failure", "done"],
    }
    assert next(before.count(("http://a.test/", "done")) for _, before in told) == 0


@pytest.mark.parametrize(
    ("settings", "taken"),
    [
        ({}, False),
        ({"LOG_FORMATTER": "scrapy.logformatter.LogFormatter"}, True),
        ({"ITEM_PIPELINES": {f"{__name__}.Passing": 500}}, True),
        ({"FEEDS": {"/dev/null": {"format": "jsonlines"}}}, True),
        ({"CLOSESPIDER_ITEMCOUNT": 100}, True),
    ],
)
def test_items_are_consumed_by_pipelines_listeners_and_log_lines(settings, taken):
    found = []

    class Looking(OneByOne):
        def parse(self, response):
            found.append(engine.items_are_consumed(self.crawler, LinkPairPipeline))
            self.crawler.signals.connect(self.listen, signals.item_scraped)
            found.append(engine.items_are_consumed(self.crawler, LinkPairPipeline))
            yield {}

        def listen(self, item):
            pass

    quiet = {"LOG_FORMATTER": "crawlprio.live.engine.QuietLogFormatter"}
    run_spider(Looking, {**ADDON, **quiet, **settings}, site={"/": page()}, keeps_items=False)
    assert found == [taken, True]


def test_a_signal_has_receivers_if_it_or_any_is_connected_from_this_crawler_or_any():
    found = []

    class Looking(OneByOne):
        def parse(self, response):
            one, other = object(), object()

            def look():
                found.append(engine.has_receivers(self.crawler, one))

            def listen():
                pass

            look()
            for signal, sender in (
                (other, self.crawler),
                (one, object()),
                (one, self.crawler),
                (dispatcher.Any, self.crawler),
                (one, dispatcher.Any),
                (dispatcher.Any, dispatcher.Any),
            ):
                dispatcher.connect(listen, signal, sender)
                look()
                dispatcher.disconnect(listen, signal, sender)
            look()
            yield {}

    run_spider(Looking, ADDON, site={"/": page()})
    assert found == [False, False, False, True, True, True, True, False]


class Passing:
    """A pipeline that does nothing."""

    def process_item(self, item):
        return item


def test_the_downloaders_delays_can_be_switched_off():
    delays = {}

    class Looking(OneByOne):
        start_urls = ("http://a.test/", "http://b.test/")

        def parse(self, response):
            slots = self.crawler.engine.downloader.slots
            delays.update({name: (slot.delay, slot.jitter) for name, slot in slots.items()})
            request = Request("http://c.test/", meta={"download_slot": "a.test"})
            assert engine.slot_of(self.crawler.engine.downloader, request) is slots["a.test"]
            yield {}

    settings = {
        **ADDON,
        "DOWNLOADER": "scrapy.core.downloader.Downloader",
        "DOWNLOAD_DELAY": 0.01,
        "DOWNLOAD_SLOTS": {"b.test": {"delay": 0.02, "concurrency": 3}},
    }
    run = run_spider(Looking, settings, site={"/": page()})
    assert run.messages() == []
    assert delays == {"a.test": (0.0, 0.0), "b.test": (0.0, 0.0)}


def test_a_refused_crawl_ends_without_a_spider_and_reports_it_once():
    """Without a spider the command exits with an error."""

    class Refused(OneByOne):
        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            crawl = CrawlContext.of(crawler)
            crawl.refuse(ConfigError("X is 1; give 2."))
            crawl.refuse(ConfigError("Y is 1; give 2."))
            return super().from_crawler(crawler, *args, **kwargs)

    run = run_spider(Refused, {}, site={"/": page()})
    assert run.crawler.spider is None
    assert run.messages() == ["X is 1; give 2."]
    assert run.site.fetches == []


def test_a_crawl_that_cannot_continue_closes_its_spider_and_reports_it_once():
    class Failing(OneByOne):
        start_urls = tuple(f"http://a.test/{number}" for number in range(50))

        def parse(self, response):
            for _ in range(2):
                CrawlContext.of(self.crawler).fail(ConfigError("The disk is full."))
            yield {}

    settings = {"CONCURRENT_REQUESTS": 1, "HTTPERROR_ALLOW_ALL": True, "CRAWLPRIO_STORE": None}
    run = run_spider(Failing, settings, site={})
    assert run.reason == "crawlprio_failed"
    assert run.crawler.spider is None
    assert run.messages() == ["The disk is full."]
    assert len(run.site.fetches) <= 2


def test_waking_an_engine_after_its_end_does_nothing():
    run = run_spider(OneByOne, {}, site={"/": page()})
    engine.wake(run.crawler)
    assert run.reason == "finished"
    assert len(run.site.fetches) == 1


def test_before_the_spider_is_closed_responses_can_be_fetched_that_nobody_counts():
    told = []

    class Finishing(OneByOne):
        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.opened, signal=signals.spider_opened)
            return spider

        def opened(self):
            engine.before_closing(self.crawler, self.finish)

        async def finish(self, reason):
            engine.hand_out_no_more(self.crawler)
            self.crawler.engine.crawl(Request("http://a.test/waits"))
            assert not engine.is_fetching(self.crawler)
            told.append(reason)
            more = Request("http://a.test/more")
            response = await engine.fetch_once(self.crawler, more, is_counted=False)
            told.append((response.url, engine.is_fetching(self.crawler)))

    run = run_spider(Finishing, {}, site={"/": page(), "/more": page()})
    assert run.site.paths() == ["/", "/more"]
    assert (run.reason, told) == ("finished", ["finished", ("http://a.test/more", False)])
    assert run.stats["response_received_count"] == 1
    assert run.stats["downloader/response_count"] == 2


def test_a_spider_that_is_closed_already_may_be_closed_once_more():
    run = run_spider(OneByOne, {}, site={"/": page()})
    assert run.crawler.engine.spider is None

    async def close():
        await maybe_deferred_to_future(engine.close_spider(run.crawler, "late"))

    _in_loop(close(), 60.0)
    assert run.reason == "finished"


class Project:
    """A middleware that notes each call of it, by its `place`."""

    place = "project"

    @classmethod
    def from_crawler(cls, crawler):
        middleware = cls()
        middleware.notes = crawler.spider.notes
        return middleware

    def note(self, method):
        self.notes.append((method, self.place))

    async def process_start(self, start):
        async for output in start:
            self.note("start")
            yield output

    def process_spider_input(self, response):
        self.note("input")

    async def process_spider_output(self, response, result):
        async for output in result:
            self.note("output")
            yield output

    def process_request(self, request):
        self.note("request")

    def process_response(self, request, response):
        self.note("response")
        return response


class Outer(Project):
    place = "outer"


class Inner(Project):
    place = "inner"


class Disabled(Project):
    @classmethod
    def from_crawler(cls, crawler):
        raise NotConfigured


class AddingScheduler(Scheduler):
    """Scrapy's own scheduler, which adds middlewares as it opens, and some in vain."""

    def open(self, spider):
        for setting in ("SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES"):
            for added in (Outer, Inner, Inner, Disabled):
                is_outermost = added is Outer and setting == "SPIDER_MIDDLEWARES"
                engine.add_middleware(spider.crawler, setting, added, is_outermost=is_outermost)
        outer = spider.crawler.get_downloader_middleware(Outer)
        engine.ask_last(spider.crawler, outer.process_request)
        return super().open(spider)


def test_middlewares_are_added_around_those_of_the_project_and_each_class_once():
    class Noting(OneByOne):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.notes = []

    settings = {
        "SCHEDULER": AddingScheduler,
        "SPIDER_MIDDLEWARES": {Project: 1},
        "DOWNLOADER_MIDDLEWARES": {Project: 9_999},
    }
    run = run_spider(Noting, settings, site={"/": page()})
    assert len(run.items) == 1
    calls = {}
    for method, place in run.spider.notes:
        calls.setdefault(method, []).append(place)
    assert calls == {
        "start": ["project", "outer"],
        "request": ["project", "inner", "outer"],
        "response": ["inner", "outer", "project"],
        "input": ["outer", "project", "inner"],
        "output": ["inner", "project", "outer"],
    }
