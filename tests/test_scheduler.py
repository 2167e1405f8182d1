"""Scrapy's promises to a spider, kept by crawlprio's scheduler and priority queues."""

from __future__ import annotations

import asyncio
import logging
import pickle
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crawls import ADDON, Answer, Run, Site, page, run_spider
from scrapy import FormRequest, Request, signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http import Response, TextResponse
from scrapy.utils.engine import get_engine_status
from scrapy.utils.misc import load_object
from spiders import Follower

from crawlprio.live import dispatch
from crawlprio.orderings import ORDERINGS

ONE = {**ADDON, "CONCURRENT_REQUESTS": 1}
BREADTH_FIRST = {**ONE, "ORDERING": "breadth-first"}
OPIC_QUEUE = {
    "SCHEDULER_PRIORITY_QUEUE": "crawlprio.schedulers.OpicQueue",
    "SPIDER_MIDDLEWARES": {"crawlprio.middlewares.LinksMiddleware": 10},
    "DOWNLOADER_MIDDLEWARES": {"crawlprio.middlewares.PolitenessMiddleware": 990},
    "REDIRECT_PRIORITY_ADJUST": 0,
    "RETRY_PRIORITY_ADJUST": 0,
}
"""Settings of a project that keeps Scrapy's own scheduler."""


@pytest.mark.parametrize("name", ORDERINGS)
def test_every_ordering_has_a_queue_class_that_settings_and_pickles_find_by_name(name: str) -> None:
    path = f"crawlprio.schedulers.{ORDERINGS[name].__name__}Queue"
    cls = load_object(path)
    assert cls.ordering == name
    assert cls.__doc__.endswith(".")
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert f"{cls.__module__}.{cls.__qualname__}" == path.replace("schedulers", "schedulers.queues")


class OneByOne(Follower):
    """Starts without dont_filter, so that no page is fetched twice."""

    async def start(self) -> AsyncIterator[Any]:
        for url in self.start_urls:
            yield Request(url)


TREE = {
    "/": page("/1", "/2", "/3"),
    "/1": page("/11", "/12", "/"),
    "/2": page("/21", "/1"),
    "/3": page("/31", "/32"),
    **{f"/{leaf}": page() for leaf in (11, 12, 21, 31, 32)},
}


def visits(run: Run, site: Site) -> list[str]:
    """Return the requested paths, in a crawl that ended well."""
    assert run.reason == "finished"
    assert run.messages(logging.ERROR) == []
    return site.paths()


def test_a_plain_spider_crawls_in_the_order_of_the_ordering() -> None:
    with Site(TREE) as site:
        run = run_spider(OneByOne, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/", "/1", "/2", "/3", "/11", "/12", "/21", "/31", "/32"]
    with Site(TREE) as site:
        run = run_spider(OneByOne, {**ONE, "ORDERING": "depth-first"}, site=site)
        assert visits(run, site) == ["/", "/1", "/11", "/12", "/2", "/21", "/3", "/31", "/32"]


def test_the_first_link_to_a_page_is_evidence_too() -> None:
    """/1 and /2 have 1.5 cash; /1 gives all of it to /3, which is new."""
    pages = {"/": page("/1", "/2"), "/1": page("/3"), "/2": page(), "/3": page()}
    with Site(pages) as site:
        run = run_spider(OneByOne, {**ONE, "ORDERING": "opic"}, site=site)
        assert visits(run, site) == ["/", "/1", "/3", "/2"]


def test_more_yielded_requests_than_scrapy_queues_are_all_links_of_the_page() -> None:
    links = [f"/{n}" for n in range(300)]
    settings = {**ONE, "CONCURRENT_ITEMS": 1, "ORDERING": "depth-first"}
    with Site({"/": page(*links), "/0": page("/last")}) as site:
        run = run_spider(OneByOne, {**settings, "CLOSESPIDER_PAGECOUNT": 4}, site=site)
        assert run.reason == "closespider_pagecount"
        assert site.paths()[:4] == ["/", "/0", "/last", "/1"]


def test_a_request_with_a_higher_priority_leaves_first() -> None:
    class Hasty(OneByOne):
        def parse(self, response: Response) -> Iterator[Any]:
            if response.url.endswith("/"):
                for n in (1, 2, 3):
                    yield response.follow(f"/{n}", priority={3: 5, 1: -5}.get(n, 0))

    with Site(TREE) as site:
        run = run_spider(Hasty, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/", "/3", "/2", "/1"]


@pytest.mark.parametrize("settings", [ADDON, {}], ids=["crawlprio", "scrapy"])
def test_dont_filter_refetches_a_page_as_often_as_in_scrapy(
    settings: dict[str, object],
) -> None:
    class Again(OneByOne):
        def parse(self, response: Response) -> Iterator[Any]:
            if response.meta.get("depth", 0) < 3:
                yield response.follow("/1", dont_filter=True)
                yield response.follow("/1")

    with Site(TREE) as site:
        run = run_spider(Again, settings, site=site)
        assert visits(run, site) == ["/", "/1", "/1", "/1", "/1", "/1", "/1"]
    assert run.stats["dupefilter/filtered"] == 4


class ByPath:
    """A fingerprinter that ignores the query."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.partition("?")[0].encode()


def test_a_custom_fingerprinter_decides_which_requests_are_duplicates() -> None:
    pages = {"/": page("/1?a", "/1?b", "/2"), "/1?a": page("/2?c")}
    settings = {**BREADTH_FIRST, "REQUEST_FINGERPRINTER_CLASS": ByPath}
    with Site(pages) as site:
        run = run_spider(OneByOne, settings, site=site)
        assert visits(run, site) == ["/", "/1?a", "/2"]


class NoTwos(BaseDupeFilter):
    """A dupe filter that has seen every page except one, and page 2 always."""

    def __init__(self) -> None:
        self._seen = {"http://a.test/2"}

    def request_seen(self, request: Request) -> bool:
        known = request.url in self._seen
        self._seen.add(request.url)
        return known


def test_a_custom_dupe_filter_is_consulted() -> None:
    with Site(TREE) as site:
        run = run_spider(OneByOne, {**BREADTH_FIRST, "DUPEFILTER_CLASS": NoTwos}, site=site)
        assert visits(run, site) == ["/", "/1", "/3", "/11", "/12", "/31", "/32"]


def test_a_dupe_filter_that_filters_nothing_filters_nothing() -> None:
    pages = {"/": page("/1", "/2"), "/1": page("/2"), "/2": page()}
    settings = {**BREADTH_FIRST, "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}
    with Site(pages) as site:
        run = run_spider(OneByOne, settings, site=site)
        assert visits(run, site) == ["/", "/1", "/2", "/2"]


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_failed_fetch_is_retried_in_its_place_and_logged_once(concurrency: int) -> None:
    left = {"/1": 2, "/2": 99}

    def answer(host: str, path: str) -> Answer | None:
        left[path] = left.get(path, 0) - 1
        return Answer(status=500) if left[path] >= 0 else None

    settings = {
        **BREADTH_FIRST,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "RETRY_ENABLED": True,
        "RETRY_TIMES": 2,
    }
    with Site(TREE, answer) as site:
        run = run_spider(OneByOne, settings, site=site)
    order = ["/", "/1", "/1", "/1", "/2", "/2", "/2", "/3", "/11", "/12", "/31", "/32"]
    assert run.reason == "finished"
    assert site.paths() == order
    assert (run.stats["retry/count"], run.stats["retry/max_reached"]) == (4, 1)
    assert run.stats["crawlprio/pages_fetched"] == 7, "all but /2, which failed"


def test_a_redirect_moves_its_cash_on() -> None:
    """/1, /2 and /3 have a share of 1.25 cash each; /1 leads to /target, which has 2.25."""
    pages = {
        "/": page("/1", "/2", "/3", "/4"),
        "/1": Answer(status=301, headers={"Location": "/target"}),
    }
    with Site(pages) as site:
        run = run_spider(OneByOne, {**ONE, "ORDERING": "opic"}, site=site)
        assert visits(run, site) == ["/", "/1", "/target", "/2", "/3", "/4"]


def test_a_redirect_to_a_known_page_does_not_refetch_it() -> None:
    pages = {
        "/": page("/2", "/1", "/3"),
        "/1": Answer(status=302, headers={"Location": "/2"}),
        "/3": Answer(status=302, headers={"Location": "/4"}),
        "/4": Answer(status=302, headers={"Location": "/4"}),
    }
    with Site(pages) as site:
        run = run_spider(OneByOne, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/", "/2", "/1", "/3", "/4"]


def test_a_redirect_to_a_waiting_page_leaves_it_its_callback() -> None:
    class Careful(OneByOne):
        def parse(self, response: Response) -> Iterator[Any]:
            if response.url.endswith("/"):
                yield response.follow("/1")
                yield response.follow("/2", self.parse_two)

        def parse_two(self, response: Response) -> Iterator[Any]:
            yield {"two": response.url}

    pages = {"/": page(), "/1": Answer(status=302, headers={"Location": "/2"}), "/2": page()}
    with Site(pages) as site:
        run = run_spider(Careful, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/", "/1", "/2"]
        assert run.items == [{"two": "http://a.test/2"}]


def test_a_chain_of_redirects_is_followed_and_a_loop_abandoned() -> None:
    pages = {
        "/": page("/chain", "/loop"),
        "/chain": Answer(status=301, headers={"Location": "/chain2"}),
        "/chain2": Answer(status=301, headers={"Location": "/end"}),
        "/loop": Answer(status=302, headers={"Location": "/loop2"}),
        "/loop2": Answer(status=302, headers={"Location": "/loop"}),
        "/end": page(),
    }
    with Site(pages) as site:
        run = run_spider(OneByOne, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/", "/chain", "/loop", "/chain2", "/loop2", "/end"]


def test_a_start_request_redirected_to_itself_is_abandoned_after_some_times() -> None:
    """A start request has dont_filter, and so do its redirects, as in Scrapy."""
    pages = {"/": Answer(status=302, headers={"Location": "/"})}
    settings = {**ADDON, "REDIRECT_MAX_TIMES": 3}
    with Site(pages) as site:
        run = run_spider(Follower, settings, site=site)
        assert visits(run, site) == ["/"] * 4


def test_a_redirect_to_another_host_counts_for_that_host() -> None:
    class Slots(OneByOne):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"slot": response.meta["download_slot"], "url": response.url}
            if response.url == "http://a.test/":
                yield response.follow("/1")
                yield response.follow("/2", meta={"download_slot": "own"})

    def answer(host: str, path: str) -> Answer:
        if host == "a.test" and path != "/":
            return Answer(status=301, headers={"Location": f"http://b.test{path}"})
        return page()

    with Site({}, answer) as site:
        run = run_spider(Slots, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/", "/1", "/2", "/1", "/2"]
    assert run.items == [
        {"slot": "a.test", "url": "http://a.test/"},
        {"slot": "b.test", "url": "http://b.test/1"},
        {"slot": "own", "url": "http://b.test/2"},
    ]


def test_meta_arguments_method_and_body_reach_server_and_callback() -> None:
    class Poster(OneByOne):
        def parse(self, response: Response) -> Iterator[Any]:
            form = FormRequest(
                response.urljoin("/form"),
                formdata={"q": "1"},
                callback=self.posted,
                cb_kwargs={"number": 7},
                meta={"mine": [1, 2], "depth": 0},
                headers={"X-Mine": "yes"},
                flags=["flag"],
            )
            yield form
            yield form.replace(body=b"q=2", cb_kwargs={"number": 8})
            yield form.replace(body=b"q=2", cb_kwargs={"number": 9})
            yield Request(response.urljoin("/form"), self.posted, method="HEAD")

        def posted(self, response: Response, number: int = 0) -> Iterator[Any]:
            request = response.request
            assert request is not None
            assert request.headers.get("X-Mine") == (b"yes" if number else None)
            mine = response.meta.get("mine")
            yield {"number": number, "mine": mine, "body": request.body, "flags": request.flags}

    with Site({"/": page(), "/form": page()}) as site:
        run = run_spider(Poster, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/", "/form", "/form", "/form"]
    asked = [(fetch.method, fetch.body) for fetch in site.fetches]
    assert asked == [("GET", b""), ("POST", b"q=1"), ("POST", b"q=2"), ("HEAD", b"")]
    assert run.items == [
        {"number": 7, "mine": [1, 2], "body": b"q=1", "flags": ["flag"]},
        {"number": 8, "mine": [1, 2], "body": b"q=2", "flags": ["flag"]},
        {"number": 0, "mine": None, "body": b"", "flags": []},
    ]


def test_an_endless_start_does_not_flood_the_frontier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MAX_WAITING", 20)
    most = 0

    class Endless(Follower):
        async def start(self) -> AsyncIterator[Any]:
            nonlocal most
            number = 0
            while True:
                assert self.crawler.engine.scheduler is not None
                most = max(most, len(self.crawler.engine.scheduler))  # type: ignore[arg-type]
                yield Request(f"http://a.test/{number}")
                number += 1

    settings = {**ADDON, "CLOSESPIDER_PAGECOUNT": 60}
    with Site({}, lambda host, path: page("/x")) as site:
        run = run_spider(Endless, settings, site=site)
    assert run.reason == "closespider_pagecount"
    assert 60 <= len(site.fetches) < 100
    assert 10 < most <= 21


def test_a_start_that_waits_for_an_empty_scheduler_continues_during_site_delays() -> None:
    class Lazy(Follower):
        async def start(self) -> AsyncIterator[Any]:
            for number in range(5):
                await self.crawler.signals.wait_for(signals.scheduler_empty)
                yield Request(f"http://a.test/{number}")

    with Site({}, lambda host, path: page()) as site:
        run = run_spider(Lazy, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/0", "/1", "/2", "/3", "/4"]


def nothing(response: Response) -> None:
    """A callback that does nothing."""


class Stumbling(OneByOne):
    """Fails in every possible way."""

    def parse(self, response: Response) -> Any:
        if response.url.endswith("/"):
            return self.fan_out(response)
        raise ValueError("callback")

    def fan_out(self, response: Response) -> Iterator[Any]:
        yield response.follow("/sync")
        yield response.follow("/mid", self.mid)
        yield response.follow("/late", self.late)
        yield response.follow("/item", self.item)
        yield response.follow("/errback", errback=self.errback, meta={"dont_retry": True})
        yield Request("http://refused.test/", errback=self.errback)
        yield response.follow("/after", nothing)
        raise ValueError("after the links")

    def mid(self, response: Response) -> Iterator[Any]:
        yield response.follow("/from-mid", nothing)
        raise ValueError("in the middle")

    async def late(self, response: Response) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        yield response.follow("/from-late", nothing)
        raise ValueError("late")

    def item(self, response: Response) -> Iterator[Any]:
        yield {"drop": True}

    def errback(self, failure: Any) -> Iterator[Any]:
        yield Request("http://a.test/from-errback", nothing, dont_filter=True)
        raise ValueError("errback")


class FailingPipeline:
    def process_item(self, item: Any) -> Any:
        raise ValueError("pipeline")


class Refusing:
    """A downloader middleware that makes some requests fail before they are fetched."""

    def process_request(self, request: Request) -> None:
        if "refused" in request.url:
            raise IgnoreRequest


@pytest.mark.parametrize("concurrency", [1, 4])
def test_every_failure_ends_its_lease_and_keeps_its_links(concurrency: int) -> None:
    settings = {
        **BREADTH_FIRST,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "ITEM_PIPELINES": {FailingPipeline: 1},
        "DOWNLOADER_MIDDLEWARES": {Refusing: 1},
    }
    pages = {
        path: page()
        for path in ["/", "/sync", "/mid", "/late", "/item", "/after", "/from-mid", "/from-late"]
    }
    with Site({**pages, "/errback": Answer(status=500)}) as site:
        run = run_spider(Stumbling, settings, site=site)
    assert run.reason == "finished"
    first = ["/", "/sync", "/mid", "/late", "/item", "/errback", "/after"]
    assert site.paths()[:7] == first
    rest = ["/from-errback", "/from-errback", "/from-late", "/from-mid"]
    assert sorted(site.paths()[7:]) == rest
    assert run.stats["spider_exceptions/ValueError"] >= 5


def test_a_middleware_that_recovers_a_failed_callback_adds_its_links_once() -> None:
    class Recovering:
        def process_spider_exception(self, response: Response, exception: Exception) -> list[Any]:
            return [Request("http://a.test/recovered", nothing)]

    settings = {**BREADTH_FIRST, "SPIDER_MIDDLEWARES": {Recovering: 500}}
    with Site({}, lambda host, path: page()) as site:
        run = run_spider(Stumbling, settings, site=site, start_urls=("http://a.test/x",))
    assert run.reason == "finished"
    assert site.paths() == ["/x", "/recovered"]
    assert run.stats["crawlprio/pages_fetched"] == 2


@pytest.mark.parametrize("settings", [ADDON, {}], ids=["crawlprio", "scrapy"])
def test_slow_callbacks_do_not_hold_up_fetches(settings: dict[str, object]) -> None:
    """Eight pages of one site, whose callbacks take two seconds each, are fetched in a row."""

    class Slow(Follower):
        async def start(self) -> AsyncIterator[Any]:
            for number in range(8):
                yield Request(f"http://a.test/{number}")

        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            await asyncio.sleep(2)
            yield {"url": response.url}

    every = {**settings, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    with Site({}, lambda host, path: page()) as site:
        run = run_spider(Slow, every, site=site)
    assert len(run.items) == 8
    starts = sorted(fetch.start for fetch in site.fetches)
    assert starts[-1] - starts[0] < 2


def test_one_at_a_time_waits_for_callbacks() -> None:
    """The best page has its link on the page with the slow callback."""

    class Slow(OneByOne):
        async def parse(self, response: TextResponse) -> AsyncIterator[Any]:  # type: ignore[override]
            await asyncio.sleep(0.05)
            for url in response.css("a::attr(href)").getall():
                yield response.follow(url)

    pages = {"/": page("/1", "/2", "/3"), "/1": page("/3"), "/2": page(), "/3": page("/4")}
    with Site({**pages, "/4": page()}) as site:
        run = run_spider(Slow, {**ONE, "ORDERING": "depth-first"}, site=site)
        assert visits(run, site) == ["/", "/1", "/2", "/3", "/4"]


@pytest.mark.parametrize(
    ("limit", "reason", "paths"),
    [
        ({"CLOSESPIDER_PAGECOUNT": 3}, "closespider_pagecount", ["/", "/1", "/2"]),
        ({"CLOSESPIDER_ITEMCOUNT": 2}, "closespider_itemcount", ["/", "/1"]),
        ({"DEPTH_LIMIT": 1}, "finished", ["/", "/1", "/2", "/3"]),
    ],
)
def test_scrapys_limits_apply(limit: dict[str, object], reason: str, paths: list[str]) -> None:
    with Site(TREE) as site:
        run = run_spider(OneByOne, {**BREADTH_FIRST, **limit}, site=site)
    assert run.reason == reason
    assert site.paths()[: len(paths)] == paths
    assert len(site.paths()) <= len(paths) + 1


def test_an_idle_handler_can_add_requests_and_the_spider_closes_by_itself() -> None:
    class Idler(OneByOne):
        left = 3

        @classmethod
        def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.more, signal=signals.spider_idle)
            return spider

        def more(self) -> None:
            if self.left:
                self.left -= 1
                self.crawler.engine.crawl(Request(f"http://a.test/more/{self.left}"))
                raise DontCloseSpider

    with Site({}, lambda host, path: page()) as site:
        run = run_spider(Idler, BREADTH_FIRST, site=site)
        assert visits(run, site) == ["/", "/more/2", "/more/1", "/more/0"]


def test_scrapys_scheduler_stats_and_telnet_console_work() -> None:
    seen: list[dict[str, Any]] = []

    class Looking(OneByOne):
        def parse(self, response: Response) -> Iterator[Any]:
            seen.append(dict(get_engine_status(self.crawler.engine)))
            yield from super().parse(response)

    with Site(TREE) as site:
        run = run_spider(Looking, BREADTH_FIRST, site=site)
        visits(run, site)
    n_waiting = [status["len(engine.scheduler.mqs)"] for status in seen]
    assert n_waiting == [0, 2, 3, 3, 4, 3, 2, 1, 0]
    assert [text for status in seen for text in status.values() if "exception" in str(text)] == []
    for key in ("enqueued", "enqueued/memory", "dequeued", "dequeued/memory"):
        assert run.stats[f"scheduler/{key}"] == 9
    assert run.stats["dupefilter/filtered"] == 2


def test_pages_from_the_http_cache_are_ordered_like_others(tmp_path: Any) -> None:
    settings = {
        **BREADTH_FIRST,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path),
        "DOWNLOAD_DELAY": 0.02,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    }
    with Site(TREE) as site:
        run = run_spider(OneByOne, settings, site=site)
        assert visits(run, site) == ["/", "/1", "/2", "/3", "/11", "/12", "/21", "/31", "/32"]
        again = run_spider(OneByOne, settings, site=site)
        assert len(site.paths()) == 9
    assert again.items == run.items
    assert again.stats["httpcache/hit"] == 9


def test_the_priority_queue_orders_under_scrapys_scheduler() -> None:
    pages = {
        "/": page("/1", "/2", "/3", "/4"),
        "/1": page("/3", "/5"),
        "/2": page("/4", "/3"),
        "/3": page("/1"),
        "/4": Answer(status=301, headers={"Location": "/6"}),
    }
    orders = []
    for settings in (OPIC_QUEUE, {**ADDON, "ORDERING": "opic"}):
        with Site(pages) as site:
            run = run_spider(OneByOne, {**settings, "CONCURRENT_REQUESTS": 1}, site=site)
            orders.append(visits(run, site))
    assert orders[0] == orders[1]
    assert orders[0] == ["/", "/1", "/3", "/5", "/2", "/4", "/6"]


def test_the_priority_queue_loses_nothing_that_has_to_wait() -> None:
    """The first page of each site comes too soon after its robots.txt, and is put back."""

    class Wide(Follower):
        async def start(self) -> AsyncIterator[Any]:
            for host in "abcdef":
                yield Request(f"http://{host}.test/")

        def parse(self, response: Response) -> Iterator[Any]:
            assert response.request is not None
            assert not response.request.dont_filter
            yield from super().parse(response)

    settings = {
        **OPIC_QUEUE,
        "DOWNLOAD_DELAY": 0.05,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "ROBOTSTXT_OBEY": True,
    }
    with Site({"/": page("/1", "/2"), "/1": page(), "/2": page()}) as site:
        run = run_spider(Wide, settings, site=site)
        assert sorted(visits(run, site)) == ["/"] * 6 + ["/1"] * 6 + ["/2"] * 6


def test_the_site_spider_crawls_under_scrapys_scheduler_with_the_queue() -> None:
    from crawlprio.spiders.site import SiteSpider

    settings = {**OPIC_QUEUE, "CONCURRENT_REQUESTS": 1}
    with Site(TREE) as site:
        run = run_spider(SiteSpider, settings, site=site, seeds="http://a.test/")
        assert sorted(visits(run, site)) == sorted(TREE)


def random_web(seed: int) -> tuple[dict[str, Answer], Callable[[str, str], Answer | None]]:
    """Sixty pages on five hosts: redirects, dead ends, temporary and permanent errors."""
    generator = random.Random(seed)
    names = [f"http://h{generator.randrange(5)}.test/{n}" for n in range(60)]
    names[0] = "http://a.test/"
    pages, failures = {}, {}
    for name in names:
        n_links = generator.randrange(8) if name != names[0] else 8
        links = [*generator.choices(names, k=n_links), f"{names[1]}?{seed}"]
        key = name.removeprefix("http://")
        kind = generator.random()
        if name != names[0] and kind < 0.1:
            pages[key] = Answer(status=302, headers={"Location": generator.choice(names[1:])})
        elif name != names[0] and kind < 0.2:
            failures[key] = generator.choice([1, 99])
            pages[key] = page(*links)
        elif name == names[0] or kind < 0.9:
            pages[key] = page(*links)._replace(seconds=generator.choice([0.0, 0.0, 0.01]))

    def answer(host: str, path: str) -> Answer | None:
        failures[host + path] = failures.get(host + path, 0) - 1
        return Answer(status=500) if failures[host + path] >= 0 else None

    return pages, answer


@pytest.mark.parametrize("seed", range(12))
def test_any_web_is_crawled_as_completely_as_by_scrapy(seed: int) -> None:
    print(f"seed {seed}")
    many = {"CONCURRENT_REQUESTS": 6, "RETRY_ENABLED": True, "RETRY_TIMES": 2}
    fetched = []
    for settings in ({}, ADDON, OPIC_QUEUE, {**ADDON, "ORDERING": "larger-sites-first"}):
        delay = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1 + seed % 3, "DOWNLOAD_DELAY": 0.001}
        pages, answer = random_web(seed)
        with Site(pages, answer) as site:
            run = run_spider(Follower, {**many, **delay, **settings}, site=site)
        assert run.reason == "finished"
        fetched.append(Counter(fetch.host + fetch.path for fetch in site.fetches))
    assert fetched[0].total() > 10
    assert fetched[1:] == [fetched[0]] * 3


def test_the_priority_queue_keeps_requests_in_memory_despite_a_job_directory(
    tmp_path: Path,
) -> None:
    settings = {**OPIC_QUEUE, "JOBDIR": tmp_path, "CONCURRENT_REQUESTS": 1}
    with Site(TREE) as site:
        run = run_spider(OneByOne, settings, site=site)
        assert sorted(visits(run, site)) == sorted(TREE)
    assert run.stats["scheduler/enqueued/memory"] == 9
    assert "scheduler/enqueued/disk" not in run.stats


def test_no_other_page_of_a_site_is_handed_out_while_one_is_retried() -> None:
    """The retry takes longer than the scheduler waits for a callback."""
    failures = iter([Answer(status=500)])

    def answer(host: str, path: str) -> Answer | None:
        return next(failures, None) if path == "/1" else None

    settings = {
        **ADDON,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "ORDERING": "breadth-first",
        "RETRY_ENABLED": True,
    }
    slow = page()._replace(seconds=3 * dispatch.PATIENCE * dispatch.TICK)
    with Site({"/": page("/1", "/2"), "/1": slow, "/2": page()}, answer) as site:
        run = run_spider(OneByOne, settings, site=site)
        assert visits(run, site) == ["/", "/1", "/1", "/2"]
    assert run.stats["scheduler/dequeued"] == 4
