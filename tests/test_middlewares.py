"""How the middlewares handle spiders that do unusual things; other files test the usual ones."""

import asyncio
import logging
import threading

import pytest
from crawls import ADDON, BREADTH_FIRST, Answer, Site, page, run_spider
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from scrapy.utils.reactor import is_reactor_installed
from spiders import OneByOne, Pairing

from crawlprio.items import LinkPairs
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.requests import Identities
from crawlprio.middlewares import LinksMiddleware, visits
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store


def links(store):
    """Return the links of each page in a store, by URL; a page visited twice is an error."""
    with Store.open(store, readonly=True) as opened:
        pages = opened.load_pages()
        visits = [visit for visit in opened.visits() if visit.page >= 0]
        found = {pages.url(v.page): pages.urls(v.targets.tolist()) for v in visits}
    assert len(found) == len(visits)
    return found


class ConcurrencyLimit:
    """A download handler whose responses are all there in the turn in which they are asked for."""

    lazy = False

    def __init__(self, crawler):
        pass

    from_crawler = classmethod(lambda cls, crawler: cls(crawler))

    async def download_request(self, request):
        return HtmlResponse(request.url, body=b"<a href=/x>x</a>", request=request)

    async def close(self):
        pass


@pytest.mark.parametrize(("seconds", "is_one_a_turn"), [(0.0, True), (60.0, False)])
def test_pages_that_arrive_at_once_are_read_in_turns_of_the_event_loop(
    monkeypatch, seconds, is_one_a_turn
):
    turns, is_over = [0], threading.Event()

    class Read(SiteSpider):
        turns_of_pages = []

        def parse(self, response):
            if not self.turns_of_pages:
                count()
            self.turns_of_pages.append(turns[0])
            yield from super().parse(response)

    def count():
        turns[0] += 1
        if not is_over.is_set():
            asyncio.get_running_loop().call_soon(count)

    monkeypatch.setattr(visits, "LONG_TURN", seconds)
    settings = {
        **ADDON,
        "ORDERING": "breadth-first",
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_HANDLERS": {"http": ConcurrencyLimit},
    }
    seeds = ",".join(f"http://{site}.test/" for site in range(8))
    try:
        finished(run_spider(Read, settings, seeds=seeds))
    finally:
        is_over.set()
    pages = Read.turns_of_pages
    assert len(pages) == 16
    assert (len(set(pages)) == len(pages)) == is_one_a_turn


def finished(run):
    assert run.reason == "finished"
    assert run.messages(logging.ERROR) == []
    return run


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_callback_that_fails_halfway_leaves_the_links_it_had_yielded(path, seconds):
    """This includes links that were scheduled long before it failed."""

    class Failing(OneByOne):
        async def parse(self, response):
            if response.url == "http://a.test/":
                yield response.follow("/1")
                yield response.follow("/2")
                if seconds:
                    await asyncio.sleep(seconds)
                raise ValueError("half way")

    with Site({"/": page(), "/1": page(), "/2": page()}) as site:
        run = run_spider(Failing, {**BREADTH_FIRST, "CRAWLPRIO_STORE": path}, site=site)
    assert run.stats["spider_exceptions/ValueError"] == 1
    assert links(path) == {
        "http://a.test/": ["http://a.test/1", "http://a.test/2"],
        "http://a.test/1": [],
        "http://a.test/2": [],
    }
    with Store.open(path, readonly=True) as opened:
        errors = [visit.error for visit in opened.visits() if visit.page >= 0]
    assert errors == ["ValueError", "", ""]


def test_links_that_a_later_middleware_or_signal_drops_do_not_prolong_a_lease(path):
    """A yielded request never reaches the scheduler; the page is done all the same."""

    class DroppingTwo:
        async def process_spider_output(self, response, result):
            async for output in result:
                if not (isinstance(output, Request) and output.url.endswith("/2")):
                    yield output

    class DroppingThree(OneByOne):
        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.drop, signal=signals.request_scheduled)
            return spider

        def drop(self, request):
            if request.url.endswith("/3"):
                raise IgnoreRequest

    settings = {**BREADTH_FIRST, "CRAWLPRIO_STORE": path, "SPIDER_MIDDLEWARES": {DroppingTwo: 1}}
    pages = {"/": page("/1", "/2", "/3", "/4"), "/1": page("/5")}
    with Site(pages) as site:
        finished(run_spider(DroppingThree, settings, site=site))
        assert site.paths() == ["/", "/1", "/4", "/5"]
    assert links(path)["http://a.test/"] == ["http://a.test/1", "http://a.test/4"]


def test_a_slow_pipeline_does_not_delay_the_links_yielded_before_its_item():
    last_asked = asyncio.Event()

    class Slow:
        async def process_item(self, item):
            await last_asked.wait()
            return item

    def answer(host, path):
        if path == "/3":
            last_asked.set()

    class ItemLast(OneByOne):
        def parse(self, response):
            yield from response.follow_all(css="a")
            yield {"url": response.url}

    settings = {**BREADTH_FIRST, "ITEM_PIPELINES": {Slow: 1}}
    web = {"/": page("/1"), "/1": page("/2"), "/2": page("/3"), "/3": page()}
    run = finished(run_spider(ItemLast, settings, site=(web, answer)))
    assert len(run.items) == 4


def test_pairs_that_nothing_processes_are_still_recorded_and_counted(tmp_path):
    quiet = "crawlprio.live.engine.QuietLogFormatter"
    pages = {"/": page("/1", "/2"), "/1": page("/2"), "/2": page("/3"), "/3": page()}
    found = []
    for keeps_items in (True, False):
        store = tmp_path / f"{keeps_items}.sqlite"
        settings = {**BREADTH_FIRST, "CRAWLPRIO_STORE": store, "LOG_FORMATTER": quiet}
        run = finished(run_spider(Pairing, settings, site=pages, keeps_items=keeps_items))
        assert len(run.items) == (4 if keeps_items else 0)
        found.append((run.stats["item_scraped_count"], links(store)))
    assert found[0] == found[1]
    assert found[0][0] == 4


def test_only_the_first_pairs_of_a_page_count_and_pairs_take_precedence_over_requests(tmp_path):
    class Twice(OneByOne):
        def parse(self, response):
            if response.url == "http://a.test/":
                yield LinkPairs(response.url, ["http://a.test/1", "http://a.test/2"])
                yield LinkPairs(response.url, ["http://a.test/3"])
                yield response.follow("/2", self.parse_two)
                yield response.follow("/4", self.parse_two)

        def parse_two(self, response):
            yield {"with a callback": response.url}

    store = tmp_path / "crawl.sqlite"
    with Site({}, lambda host, path: page()) as site:
        run = finished(run_spider(Twice, {**BREADTH_FIRST, "CRAWLPRIO_STORE": store}, site=site))
        assert site.paths() == ["/", "/1", "/2", "/4"]
    assert links(store)["http://a.test/"] == ["http://a.test/1", "http://a.test/2"]
    called = [item for item in run.items if isinstance(item, dict)]
    assert called == [{"with a callback": f"http://a.test/{n}"} for n in (2, 4)]


def test_a_start_request_is_a_seed_and_a_request_with_its_meta_is_not(path):
    class Copying(OneByOne):
        def parse(self, response):
            if response.url == "http://a.test/home":
                yield response.follow("/1", meta=response.meta)
                yield response.follow("/moved")

    pages = {
        "/": Answer(status=302, headers={"Location": "/home"}),
        "/moved": Answer(status=302, headers={"Location": "/2"}),
    }
    with Site({**pages, "/home": page(), "/1": page(), "/2": page()}) as site:
        finished(run_spider(Copying, {**BREADTH_FIRST, "CRAWLPRIO_STORE": path}, site=site))
        assert site.paths() == ["/", "/home", "/1", "/moved", "/2"]
    with Store.open(path, readonly=True) as opened:
        assert opened.load_pages().urls(opened.seeds()) == ["http://a.test/"]


class Renamed(LinksMiddleware):
    """Scrapy ignores both methods of a class like this."""

    async def process_spider_output_async(self, response, result):
        async for output in result:
            yield output


def test_a_middleware_that_scrapy_leaves_out_stops_the_crawl():
    middlewares = {"crawlprio.middlewares.LinksMiddleware": None, Renamed: 10}
    run = run_spider(OneByOne, {**BREADTH_FIRST, "SPIDER_MIDDLEWARES": middlewares}, site={})
    assert run.site.fetches == []
    assert run.crawler.spider is None
    assert any("LinksMiddleware" in message for message in run.messages())


def test_no_lease_remains_at_the_end():
    seen = []

    class Counting(OneByOne):
        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.count, signal=signals.spider_idle)
            return spider

        def count(self):
            scheduler = self.crawler.engine.scheduler
            dispatcher, frontier = scheduler.dispatcher, CrawlContext.of(self.crawler).frontier
            queue = frontier.queue
            seen.extend([len(dispatcher), len(dispatcher.leases._replacements), queue.n_leased])
            seen.extend([int(queue._sites["n_leased"].sum()), len(frontier.leases)])

    pages = {"/": page("/1", "/2", "/moved", "/gone"), "/1": page("/2", "/3")}
    moved = Answer(status=302, headers={"Location": "http://b.test/"})
    settings = {**ADDON, "RETRY_ENABLED": True, "ROBOTSTXT_OBEY": True, "RETRY_TIMES": 1}
    with Site({**pages, "/moved": moved, "/2": Answer(status=500)}) as site:
        assert run_spider(Counting, settings, site=site).reason == "finished"
    assert seen == [0, 0, 0, 0, 0]


def test_links_and_requests_have_the_same_identity():
    crawler = Crawler(OneByOne, Settings({"TWISTED_REACTOR_ENABLED": is_reactor_installed()}))
    crawler._apply_settings()
    identities = Identities(crawler)
    assert identities.of_url("http://a.test/x?b=1&a=2#top") == "http://a.test/x?a=2&b=1"
    assert identities.of_request(Request("http://a.test/x?b=1&a=2")) == "http://a.test/x?a=2&b=1"
    plain = identities.of_request(Request("http://a.test/"))
    others = [
        Request("http://a.test/", method="POST"),
        Request("http://a.test/", body=b"x"),
        Request("http://a.test/", method="POST", body=b"x"),
    ]
    found = [plain, *map(identities.of_request, others)]
    assert len(set(found)) == 4
