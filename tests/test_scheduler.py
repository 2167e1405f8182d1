"""Scrapy's promises to a spider, kept by crawlprio's scheduler and priority queues."""

import asyncio
import itertools
import logging
import pickle
import random
from collections import Counter

import pytest
from crawls import ADDON, BREADTH_FIRST, Answer, Site, page, run_spider
from scrapy import Request, Spider
from scrapy.utils.engine import get_engine_status
from scrapy.utils.misc import load_object
from spiders import Follower, OneByOne

from crawlprio.live import dispatch
from crawlprio.orderings import ORDERINGS

ONE = {**ADDON, "CONCURRENT_REQUESTS": 1}
OPIC_QUEUE = {
    "SCHEDULER_PRIORITY_QUEUE": "crawlprio.schedulers.OpicQueue",
    "SPIDER_MIDDLEWARES": {"crawlprio.middlewares.LinksMiddleware": 10},
    "DOWNLOADER_MIDDLEWARES": {"crawlprio.middlewares.PolitenessMiddleware": 990},
    "REDIRECT_PRIORITY_ADJUST": 0,
    "RETRY_PRIORITY_ADJUST": 0,
}
"""Settings of a project that keeps Scrapy's own scheduler."""


@pytest.mark.parametrize("name", ORDERINGS)
def test_every_ordering_has_a_queue_class_that_settings_and_pickles_find_by_name(name):
    path = f"crawlprio.schedulers.{ORDERINGS[name].__name__}Queue"
    cls = load_object(path)
    assert cls.ordering == name
    assert cls.__doc__.endswith(".")
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert f"{cls.__module__}.{cls.__qualname__}" == path


TREE = {
    "/": page("/1", "/2", "/3"),
    "/1": page("/11", "/12", "/"),
    "/2": page("/21", "/1"),
    "/3": page("/31", "/32"),
    **{f"/{leaf}": page() for leaf in (11, 12, 21, 31, 32)},
}


def visits(run):
    """Return the requested paths, in a crawl that ended well."""
    assert run.reason == "finished"
    assert run.messages(logging.ERROR) == []
    return run.site.paths()


def test_more_yielded_requests_than_scrapy_queues_are_all_links_of_the_page():
    links = [f"/{n}" for n in range(300)]
    settings = {**ONE, "CONCURRENT_ITEMS": 1, "ORDERING": "depth-first"}
    with Site({"/": page(*links), "/0": page("/last")}) as site:
        run = run_spider(OneByOne, {**settings, "CLOSESPIDER_PAGECOUNT": 4}, site=site)
        assert run.reason == "closespider_pagecount"
        assert site.paths()[:4] == ["/", "/0", "/last", "/1"]


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_failed_fetch_is_retried_in_its_place_and_logged_once(concurrency):
    left = {"/1": 2, "/2": 99}

    def answer(host, path):
        left[path] = left.get(path, 0) - 1
        return Answer(status=500) if left[path] >= 0 else None

    settings = {
        **BREADTH_FIRST,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "RETRY_ENABLED": True,
        "RETRY_TIMES": 2,
    }
    run = run_spider(OneByOne, settings, site=(TREE, answer))
    order = ["/", "/1", "/1", "/1", "/2", "/2", "/2", "/3", "/11", "/12", "/31", "/32"]
    assert run.reason == "finished"
    assert run.site.paths() == order
    assert (run.stats["retry/count"], run.stats["retry/max_reached"]) == (4, 1)
    assert run.stats["crawlprio/pages_fetched"] == 7, "all but /2, which failed"


def test_a_redirect_moves_its_cash_on():
    """/1, /2 and /3 have a share of 1.25 cash each; /1 leads to /target, which has 2.25."""
    pages = {
        "/": page("/1", "/2", "/3", "/4"),
        "/1": Answer(status=301, headers={"Location": "/target"}),
    }
    run = run_spider(OneByOne, {**ONE, "ORDERING": "opic"}, site=pages)
    assert visits(run) == ["/", "/1", "/target", "/2", "/3", "/4"]


def test_a_redirect_to_a_waiting_page_leaves_it_its_callback():
    class Careful(OneByOne):
        def parse(self, response):
            if response.url.endswith("/"):
                yield response.follow("/1")
                yield response.follow("/2", self.parse_two)

        def parse_two(self, response):
            yield {"two": response.url}

    pages = {"/": page(), "/1": Answer(status=302, headers={"Location": "/2"}), "/2": page()}
    run = run_spider(Careful, BREADTH_FIRST, site=pages)
    assert visits(run) == ["/", "/1", "/2"]
    assert run.items == [{"two": "http://a.test/2"}]


def test_a_redirect_to_another_host_counts_for_that_host():
    class Slots(OneByOne):
        def parse(self, response):
            yield {"slot": response.meta["download_slot"], "url": response.url}
            if response.url == "http://a.test/":
                yield response.follow("/1")
                yield response.follow("/2", meta={"download_slot": "own"})

    def answer(host, path):
        if host == "a.test" and path != "/":
            return Answer(status=301, headers={"Location": f"http://b.test{path}"})
        return page()

    run = run_spider(Slots, BREADTH_FIRST, site=({}, answer))
    assert visits(run) == ["/", "/1", "/2", "/1", "/2"]
    assert run.items == [
        {"slot": "a.test", "url": "http://a.test/"},
        {"slot": "b.test", "url": "http://b.test/1"},
        {"slot": "own", "url": "http://b.test/2"},
    ]


class Starting(Spider):
    """Starts with many pages, each of which links to `n_children` others without links."""

    name = "starting"
    custom_settings = {"CONCURRENT_REQUESTS": 1, "CLOSESPIDER_PAGECOUNT": 60}
    n_starts = 40
    n_children = 3
    priorities = itertools.repeat(0)

    async def start(self):
        numbers = itertools.count() if self.n_starts is None else range(self.n_starts)
        for number, priority in zip(numbers, self.priorities, strict=False):
            yield Request(f"http://a.test/{number}", priority=priority)

    def parse(self, response):
        for number in range(self.n_children):
            yield response.follow(f"{response.url}/{number}", self.parse_child)

    def parse_child(self, response):
        pass


def starts_and_children(cls, ordering, **settings):
    """Return which of the fetches of a `Starting` spider were of children, in order."""
    with Site({}, lambda host, path: page()) as site:
        run_spider(cls, {**ADDON, "ORDERING": ordering, **settings}, site=site)
    return [path.count("/") > 1 for path in site.paths()]


@pytest.mark.parametrize("ordering", ["breadth-first", "opic", "backlink-count"])
@pytest.mark.parametrize("delay", [0, 0.01])
def test_requests_of_callbacks_do_not_wait_behind_all_start_requests(ordering, delay):
    settings = {"DOWNLOAD_DELAY": delay, "CONCURRENT_REQUESTS": 1}
    are_children = starts_and_children(Starting, ordering, **settings)
    assert are_children[:2] == [False, True], "the first start request, then what it led to"


@pytest.mark.parametrize("ordering", ["breadth-first", "opic"])
def test_an_endless_start_shares_the_crawl_with_what_its_pages_lead_to(ordering):
    class Endless(Starting):
        n_starts = None
        n_children = 1

    are_children = starts_and_children(Endless, ordering)
    assert 60 <= len(are_children) < 65
    assert abs(sum(are_children) - 30) <= 3, "30 of 60 with Scrapy alone"


def test_start_requests_of_a_higher_priority_precede_what_callbacks_yield():
    class Hasty(Starting):
        priorities = itertools.repeat(1)

    class Deep(Starting):
        custom_settings = {**Starting.custom_settings, "DEPTH_PRIORITY": 1}

    for cls in (Hasty, Deep):
        are_children = starts_and_children(cls, "breadth-first")
        assert are_children == [False] * 40 + [True] * 20


def test_start_requests_of_many_sites_are_fetched_side_by_side():
    """No site has to be finished before the next one begins."""

    class Wide(Follower):
        async def start(self):
            for number in range(40):
                yield Request(f"http://h{number}.test/")

    settings = {**ADDON, "CONCURRENT_REQUESTS": 2, "DOWNLOAD_DELAY": 1000}
    with Site({}, lambda host, path: page(*(f"/{n}" for n in range(5)))) as site:
        run_spider(Wide, {**settings, "CLOSESPIDER_PAGECOUNT": 40}, site=site)
    # Two fetches are under way at once, so that neighbours may arrive in either order.
    assert sorted(fetch.host for fetch in site.fetches) == sorted(f"h{n}.test" for n in range(40))


def test_an_endless_start_does_not_flood_the_frontier(monkeypatch):
    monkeypatch.setattr(dispatch, "MAX_WAITING", 20)
    most = 0

    class Endless(Starting):
        n_starts = None
        priorities = itertools.repeat(1)

        async def start(self):
            nonlocal most
            async for request in super().start():
                assert self.crawler.engine.scheduler is not None
                most = max(most, len(self.crawler.engine.scheduler))
                yield request

    run = run_spider(Endless, ADDON, site=({}, lambda host, path: page()))
    assert run.reason == "closespider_pagecount"
    assert 60 <= len(run.site.fetches) < 100
    assert most > 10
    assert len([fetch for fetch in run.site.fetches if fetch.path.count("/") > 1]) == 0


def test_one_at_a_time_waits_for_callbacks():
    """The best page has its link on the page with the slow callback."""

    class Slow(OneByOne):
        async def parse(self, response):
            await asyncio.sleep(0.05)
            for url in response.css("a::attr(href)").getall():
                yield response.follow(url)

    pages = {"/": page("/1", "/2", "/3"), "/1": page("/3"), "/2": page(), "/3": page("/4")}
    run = run_spider(Slow, {**ONE, "ORDERING": "depth-first"}, site={**pages, "/4": page()})
    assert visits(run) == ["/", "/1", "/2", "/3", "/4"]


def test_scrapys_scheduler_stats_and_telnet_console_work():
    seen = []

    class Looking(OneByOne):
        def parse(self, response):
            seen.append(dict(get_engine_status(self.crawler.engine)))
            yield from super().parse(response)

    run = run_spider(Looking, BREADTH_FIRST, site=TREE)
    visits(run)
    n_waiting = [status["len(engine.scheduler.mqs)"] for status in seen]
    assert n_waiting == [0, 2, 3, 3, 4, 3, 2, 1, 0]
    assert [text for status in seen for text in status.values() if "exception" in str(text)] == []
    for key in ("enqueued", "enqueued/memory", "dequeued", "dequeued/memory"):
        assert run.stats[f"scheduler/{key}"] == 9
    assert run.stats["dupefilter/filtered"] == 2


def test_requests_that_are_stored_are_counted_as_on_disk(tmp_path):
    class Mixed(OneByOne):
        def parse(self, response):
            yield from super().parse(response)
            if response.url.endswith("/"):
                yield response.follow("/own", lambda response: None)  # JSON cannot hold it

    job = {"JOBDIR": str(tmp_path / "job"), "CRAWLPRIO_STORE": "crawl.sqlite"}
    run = run_spider(Mixed, {**BREADTH_FIRST, **job}, site={**TREE, "/own": page()})
    for what in ("enqueued", "dequeued"):
        counts = [run.stats.get(f"scheduler/{what}/{where}", 0) for where in ("disk", "memory")]
        assert counts == [9, 1]
        assert run.stats[f"scheduler/{what}"] == 10


def test_extensions_find_the_dupefilter_which_has_seen_what_is_queued():
    seen = []

    class Asking(OneByOne):
        def parse(self, response):
            if response.url.endswith("/"):
                df = self.crawler.engine.scheduler.df
                seen.extend(df.request_seen(response.follow(path)) for path in ("/", "/2", "/2"))
            yield from super().parse(response)

    run = run_spider(Asking, BREADTH_FIRST, site=TREE)
    assert seen == [True, False, True]
    assert "/2" not in visits(run), "the extension took it"


def test_the_priority_queue_loses_nothing_that_has_to_wait():
    """The first page of each site comes too soon after its robots.txt, and is put back."""

    class Wide(Follower):
        async def start(self):
            for host in "abcdef":
                yield Request(f"http://{host}.test/")

        def parse(self, response):
            assert not response.request.dont_filter
            yield from super().parse(response)

    settings = {
        **OPIC_QUEUE,
        "DOWNLOAD_DELAY": 0.05,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "ROBOTSTXT_OBEY": True,
    }
    run = run_spider(Wide, settings, site={"/": page("/1", "/2"), "/1": page(), "/2": page()})
    assert sorted(visits(run)) == ["/"] * 6 + ["/1"] * 6 + ["/2"] * 6


def random_web(seed):
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

    def answer(host, path):
        failures[host + path] = failures.get(host + path, 0) - 1
        return Answer(status=500) if failures[host + path] >= 0 else None

    return pages, answer


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_any_web_is_crawled_as_completely_as_by_scrapy(seed):
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


def test_the_priority_queue_keeps_requests_in_memory_despite_a_job_directory(tmp_path):
    settings = {**OPIC_QUEUE, "JOBDIR": tmp_path, "CONCURRENT_REQUESTS": 1}
    run = run_spider(OneByOne, settings, site=TREE)
    assert sorted(visits(run)) == sorted(TREE)
    assert run.stats["scheduler/enqueued/memory"] == 9
    assert "scheduler/enqueued/disk" not in run.stats


def test_no_other_page_of_a_site_is_handed_out_while_one_is_retried():
    """The retry takes longer than the scheduler waits for a callback."""
    failures = iter([Answer(status=500)])

    def answer(host, path):
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
        assert visits(run) == ["/", "/1", "/1", "/2"]
    assert run.stats["scheduler/dequeued"] == 4
