"""No site is fetched from sooner than promised, and none is kept waiting for nothing.

The first part tests the rules, the second the log of a server that real crawls were sent to.
"""

import asyncio
import logging
import math
from collections import defaultdict
from email.utils import formatdate
from itertools import pairwise
from statistics import median
from time import monotonic, time

import pytest
from crawls import ADDON, Answer, Site, page, run_spider
from scrapy import Request, signals
from scrapy.extensions.throttle import AutoThrottle
from spiders import OneByOne

from crawlprio.frontier import Politeness, SiteClock
from crawlprio.live.clock import AwaitedClock


class Queue:
    """Sites whose times a `SiteClock` sets, and their pages; each may have one fetch at a time."""

    def __init__(self):
        self.ready_at = {}
        self.n_pages = 0

    def site(self, host):
        return host

    def site_size(self, site):
        return self.n_pages

    def site_limit(self, site):
        return 1

    def site_ready_at(self, site):
        return self.ready_at.get(site, -math.inf)

    def set_ready_at(self, site, ready_at):
        self.ready_at[site] = ready_at

    def set_site(self, site, **said):
        pass

    def end_fetch(self, site, ready_at, *, ends_visit=False):
        self.ready_at[site] = ready_at

    def hold(self, site, n_fetches=1):
        pass


class Pauses:
    """Asks a clock for the pause after each of a series of fetches that end at time 0."""

    def __init__(self, **rules):
        self.sites = Queue()
        self.clock = SiteClock(Politeness(**rules), self.sites, self.sites, lambda: 0.0)

    def pause(self, site, *, status=200, elapsed=0.0, n_pages=0, **said):
        self.sites.n_pages = n_pages
        self.clock.started(site, was_handed_out=True)
        self.clock.ended(site, was_handed_out=True, status=status, elapsed=elapsed, **said)
        return self.clock.next_start(site)


class OneAtATime(AwaitedClock):
    """A clock of one site, with one fetch at a time and a delay after each."""

    def __init__(self, delay):
        super().__init__()
        self.delay, self.ready_at = delay, -math.inf
        self.is_busy = False
        self.began = []

    def has_room(self, site):
        return not self.is_busy

    def next_start(self, site):
        return self.ready_at

    async def fetch(self, name):
        await self.turn("a.test", lambda: self.may_start("a.test"))
        self.is_busy = True
        self.began.append((name, monotonic()))

    def end(self):
        self.is_busy = False
        self.ready_at = monotonic() + self.delay
        self.wake("a.test")


@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_fetches_that_wait_for_a_site_begin_one_by_one_in_their_order_and_after_its_delay(delay):
    async def crawl():
        clock = OneAtATime(delay)
        fetches = [asyncio.ensure_future(clock.fetch(name)) for name in "abcd"]
        ends = []
        for fetch in fetches:
            await fetch
            assert clock.is_busy
            clock.end()
            ends.append(clock.ready_at)
        return clock.began, ends

    began, ends = asyncio.run(asyncio.wait_for(crawl(), 10))
    assert [name for name, _ in began] == [*"abcd"]
    assert all(at >= ready_at for (_, at), ready_at in zip(began[1:], ends[:-1], strict=True))


def test_a_fetch_gives_its_turn_up_while_its_site_is_busy():
    async def crawl():
        clock, ends = OneAtATime(0.0), []
        clock.is_busy = True
        waiting = asyncio.ensure_future(clock.turn("a.test", lambda: bool(ends)))
        await asyncio.sleep(0)
        ends.append(True)  # of which nobody tells the clock
        await waiting

    asyncio.run(asyncio.wait_for(crawl(), 10))


def test_crawl_delay_only_lengthens_the_delay_and_is_bounded():
    pauses = Pauses(delay=5.0, max_crawl_delay=60.0)
    clock = pauses.clock
    obeyed = [clock.obey_crawl_delay(n, seconds) for n, seconds in enumerate((1.0, 30.0, 1e9))]
    assert obeyed == [1.0, 30.0, 60.0]
    assert [pauses.pause(site) for site in range(4)] == [5.0, 30.0, 60.0, 5.0]
    assert clock.obey_crawl_delay(0, -1.0) == 0.0


@pytest.mark.parametrize(
    ("rules", "answers", "pauses"),
    [
        ({"delay": 2, "max_back_off": 20}, [429, 429, 429, 429, 200, 429], [4, 8, 16, 20, 2, 4]),
        ({"delay": 2, "max_back_off": 20}, [503, 503, 503, 503, 200, 503], [4, 8, 16, 20, 2, 4]),
        ({"delay": 0}, [503, 503, 503], [2, 4, 8]),
        # A failed connection neither adds to the refusals nor ends them.
        ({"delay": 1}, [503, 0, 503], [2, 1, 4]),
        (
            {"delay": 5, "max_back_off": 100},
            [(503, 0.0), (503, 4.0), (503, 30.0), (503, 1e9), (503, -1.0)],
            [5, 5, 30, 100, 5],
        ),
        # A redirect or an error may ask for a pause, which the next response ends.
        (
            {"delay": 1, "max_back_off": 20},
            [(302, 7.0), (301, 70.0), (404, 7.0), (200, 7.0), 302, 503],
            [7, 20, 7, 1, 1, 2],
        ),
        ({"max_back_off": 3600}, [429] * 2000, [min(3600, 2**n) for n in range(1, 2001)]),
    ],
    ids=["429", "503", "below a second", "failed", "Retry-After", "asked", "endless"],
)
def test_the_pause_after_refusals_doubles_or_is_as_long_as_asked_within_bounds(
    rules, answers, pauses
):
    asked = Pauses(**rules)
    found = []
    for answer in answers:
        status, seconds = answer if isinstance(answer, tuple) else (answer, None)
        found.append(asked.pause(0, status=status, retry_after=seconds))
    assert found == pauses


ONE_PER_SITE = {**ADDON, "CONCURRENT_REQUESTS_PER_DOMAIN": 1, "DOWNLOAD_DELAY_JITTER": 0.5}


def fan(n):
    """A home page with links to n pages."""
    return {"/": page(*(f"/{k}" for k in range(n))), **{f"/{k}": page() for k in range(n)}}


def by_host(fetches):
    hosts = defaultdict(list)
    for fetch in sorted(fetches, key=lambda fetch: fetch.start):
        hosts[fetch.host].append(fetch)
    return hosts


def gaps(fetches):
    """Return the seconds from the end of each fetch to the start of the next on the same host."""
    return [b.start - a.end for host in by_host(fetches).values() for a, b in pairwise(host)]


CONNECTING = 0.2
"""Seconds by which a request may reach the server late on a busy machine: starts differ by them."""


def steps(fetches):
    """Return the seconds from the start of each fetch to the next start, on any host."""
    return [b - a for a, b in pairwise(sorted(fetch.start for fetch in fetches))]


def crawl(site, settings, spider=OneByOne, **more):
    run = run_spider(spider, {**ONE_PER_SITE, **settings}, site=site, **more)
    assert run.reason == "finished"
    assert run.messages(logging.ERROR) == []
    return run


def test_sites_with_long_and_short_delays_do_not_wait_for_each_other():
    """Four sites at a second per page and eight at 0.1 s, with eight fetches in flight."""
    slow = [f"slow{k}.test" for k in range(4)]
    fast = [f"fast{k}.test" for k in range(8)]
    pages = {f"{host}/{path}": found for host in slow for path, found in _under(fan(5))}
    pages |= {f"{host}/{path}": found for host in fast for path, found in _under(fan(30))}
    settings = {
        "DOWNLOAD_DELAY": 0.1,
        "DOWNLOAD_SLOTS": {host: {"delay": 1.0} for host in slow},
        "CONCURRENT_REQUESTS": 8,
    }

    run = crawl(pages, settings, start_urls=[f"http://{host}/" for host in [*slow, *fast]])
    hosts = by_host(run.site.fetches)
    assert {host: len(hosts[host]) for host in hosts} == {
        **dict.fromkeys(slow, 6),
        **dict.fromkeys(fast, 31),
    }
    assert min(min(gaps(hosts[host])) for host in slow) >= 1.0
    assert min(min(gaps(hosts[host])) for host in fast) >= 0.1
    # A site that waited for a slow one would have its second between all pages.
    assert all(median(gaps(hosts[host])) < 1.0 for host in fast)


def _under(pages):
    return [(path.removeprefix("/"), found) for path, found in pages.items()]


@pytest.mark.parametrize(
    ("crawl_delay", "request_rate", "least"), [("0.02", "5/1", 0.2), ("0.2", "50/1", 0.2)]
)
def test_the_slower_of_crawl_delay_and_request_rate_applies(crawl_delay, request_rate, least):
    robots = Answer(f"User-agent: *\nCrawl-delay: {crawl_delay}\nRequest-rate: {request_rate}")
    run = crawl({**fan(3), "/robots.txt": robots}, {"ROBOTSTXT_OBEY": True})
    assert [gap >= least for gap in gaps(run.site.fetches)] == [True] * 4
    assert min(gaps(run.site.fetches)) < least + 3


def test_a_crawl_delay_above_the_bound_is_capped_with_a_warning():
    robots = Answer("User-agent: *\nCrawl-delay: 100")
    settings = {"ROBOTSTXT_OBEY": True, "CRAWLPRIO_MAX_CRAWL_DELAY": 0.05}
    run = crawl({**fan(1), "/robots.txt": robots}, settings)
    assert all(0.05 <= gap < 30 for gap in gaps(run.site.fetches))
    assert run.messages() == [
        "a.test asks for a crawl delay of 100 s; it is obeyed up to 0.05 s "
        "(CRAWLPRIO_MAX_CRAWL_DELAY)."
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({}, 2.0),
        ({"Retry-After": "3"}, 3.0),
        ({"Retry-After": "date"}, 2.9),
        ({"Retry-After": "soon"}, 2.0),
    ],
)
def test_a_refusing_site_is_left_alone_while_others_are_crawled(headers, least):
    refused = 0

    def answer(host, path):
        nonlocal refused
        if host == "a.test" and path == "/1" and not refused:
            refused += 1
            after = {
                name: formatdate(time() + 4, usegmt=True) if value == "date" else value
                for name, value in headers.items()
            }
            return Answer(status=503, headers=after)
        return None

    settings = {"RETRY_ENABLED": True, "RETRY_TIMES": 1}
    run = crawl((fan(3), answer), settings, start_urls=["http://a.test/", "http://b.test/"])
    hosts = by_host(run.site.fetches)
    assert sorted(fetch.path for fetch in hosts["a.test"]) == ["/", "/0", "/1", "/1", "/2"]
    assert hosts["b.test"][-1].end < hosts["a.test"][-1].start
    assert max(gaps(hosts["a.test"])) >= least


@pytest.mark.sampled(4)
@pytest.mark.parametrize("status", [301, 302, 307, 403, 404, 500])
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_redirect_or_an_error_may_ask_for_a_pause(status, at_once):
    asks = Answer("", status, {"Retry-After": "2", "Location": "/target"})
    # Others take their time: a busy machine may be late with the answer, but not later than all.
    others = {path: answer._replace(seconds=0.1) for path, answer in fan(12).items()}
    with Site({**others, "/1": asks, "/target": page()}) as site:
        crawl(site, {"CONCURRENT_REQUESTS_PER_DOMAIN": at_once, "CONCURRENT_REQUESTS": at_once})
    fetches = sorted(site.fetches, key=lambda fetch: fetch.start)
    at = next(n for n, fetch in enumerate(fetches) if fetch.path == "/1")
    # One more may leave while the answer is on its way.
    pause = max(b.start - a.start for a, b in pairwise(fetches[at : at + 3]))
    assert pause >= 2.0 - CONNECTING


def test_the_pause_of_a_redirect_is_that_of_the_site_that_sent_it():
    moved = Answer("", 302, {"Retry-After": "2", "Location": "http://b.test/"})
    run = crawl({"a.test/": page("/1", "/2"), "/1": moved, "/2": page(), "b.test/": page()}, {})
    hosts = by_host(run.site.fetches)
    assert max(gaps(hosts["a.test"])) >= 2.0 - CONNECTING
    assert hosts["b.test"][0].end < hosts["a.test"][-1].start


def test_the_adaptive_delay_follows_the_duration_of_the_last_fetch():
    pages = {"/": page("/1", "/2")._replace(seconds=0.5), "/1": page()}
    run = crawl({**pages, "/2": page()}, {"CRAWLPRIO_ADAPTIVE_DELAY": 4})
    first, second = gaps(run.site.fetches)
    assert first >= 2
    assert second < first


def test_the_pages_of_a_visit_are_fetched_on_one_connection_before_the_delay():
    settings = {"DOWNLOAD_DELAY": 2, "CRAWLPRIO_PAGES_PER_VISIT": 3}
    with Site(fan(6)) as site:
        every = {**ONE_PER_SITE, **settings}
        run = run_spider(OneByOne, every, start_urls=[f"http://{site.address}/"])
        assert run.reason == "finished"
        assert len(site.fetches) == 7
        assert [gap >= 2 for gap in gaps(site.fetches)] == [
            True,  # nothing more was known when the first page was done
            False,
            False,
            True,
            False,
            False,
        ]
        assert {fetch.connection for fetch in site.fetches} == {1}


def test_with_several_fetches_at_once_the_delay_runs_from_start_to_start():
    pages = {path: found._replace(seconds=1) for path, found in fan(8).items()}
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 3, "DOWNLOAD_DELAY": 0.25}
    run = crawl(pages, settings)
    rest = sorted(run.site.fetches, key=lambda fetch: fetch.start)[1:]
    assert min(steps(rest)) >= 0.25 - CONNECTING
    assert max(_at_once(rest)) == 3


def _at_once(fetches):
    """Return how many fetches are in flight at the start of each."""
    return [sum(a.start <= b.start < a.end for a in fetches) for b in fetches]


def test_pages_that_waited_together_for_robots_txt_do_not_start_together():
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 4, "DOWNLOAD_DELAY": 0.4, "ROBOTSTXT_OBEY": True}
    slow_robots = Answer("", seconds=0.3)
    with Site({**fan(4), "/robots.txt": slow_robots}) as site:
        crawl(site, settings, start_urls=[f"http://a.test/{k}" for k in range(4)])
    assert len(site.fetches) == 5
    assert min(steps(site.fetches)) >= 0.4 - CONNECTING


def test_a_refusal_stops_a_site_with_several_fetches_at_once():
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    refusal = Answer(status=429, headers={"Retry-After": "2"})
    run = crawl({**fan(40), "/1": refusal}, settings)
    fetches = sorted(run.site.fetches, key=lambda fetch: fetch.start)
    at = next(n for n, fetch in enumerate(fetches) if fetch.path == "/1")
    assert len(fetches) == 41
    # A few more may leave while the refusal is on its way.
    assert max(b.start - a.start for a, b in pairwise(fetches[at : at + 9])) >= 2.0


def test_requests_that_bypass_the_scheduler_keep_the_delay():
    class Media(OneByOne):
        async def parse(self, response):
            if response.url.endswith("/"):
                yield response.follow("/0")
                engine = self.crawler.engine
                images = [Request(f"http://a.test/image/{k}") for k in range(4)]
                answers = await asyncio.gather(*(engine.download_async(r) for r in images))
                yield {"images": [answer.url for answer in answers]}
                yield response.follow("/1")

    pages = {**fan(2), **{f"/image/{k}": Answer("image") for k in range(4)}}
    for concurrency in (1, 8):
        with Site(pages) as site:
            settings = {"CONCURRENT_REQUESTS": concurrency}
            run = crawl(site, {**settings, "DOWNLOAD_DELAY": 0.08}, Media)
        assert len(run.items[0]["images"]) == 4
        assert len(site.fetches) == 7
        assert min(gaps(site.fetches)) >= 0.08


def test_a_redirect_that_bypasses_the_scheduler_counts_for_its_target_host():
    class Media(OneByOne):
        async def parse(self, response):
            engine = self.crawler.engine
            for k in range(3):
                await engine.download_async(Request(f"http://b.test/{k}"))
            yield {}

    def answer(host, path):
        if host == "b.test":
            return Answer(status=302, headers={"Location": f"http://c.test{path}"})
        return None

    run = crawl((fan(3), answer), {"DOWNLOAD_DELAY": 0.1}, Media)
    hosts = by_host(run.site.fetches)
    assert [len(hosts[host]) for host in ("a.test", "b.test", "c.test")] == [1, 3, 3]
    assert min(gaps(run.site.fetches)) >= 0.1
    hops = [c.start - b.end for b, c in zip(hosts["b.test"], hosts["c.test"], strict=True)]
    assert min(hops) < 0.1


SLOWER = {f"/{n}": page()._replace(seconds=0.05 + 0.03 * n) for n in range(8)}
"""Pages that a site takes longer and longer to serve."""

THROTTLE = {
    "AUTOTHROTTLE_ENABLED": True,
    "AUTOTHROTTLE_START_DELAY": 0.4,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_DELAY_JITTER": 0,
}


class Watching(AutoThrottle):
    """AutoThrottle, which notes the delays that it reads and sets, and starts of fetches.

    `in_force` says of each start how often the delay had been adjusted.
    """

    def _spider_opened(self, spider):
        super()._spider_opened(spider)
        self.starts = []
        self.in_force = []
        self.adjusted = []
        connect = self.crawler.signals.connect
        connect(self._started, signal=signals.request_reached_downloader)

    def _started(self, request):
        self.starts.append(monotonic())
        self.in_force.append(len(self.adjusted))

    def _adjust_delay(self, slot, latency, response):
        before = slot.delay
        super()._adjust_delay(slot, latency, response)
        self.adjusted.append((before, slot.delay))


class Turns:
    """Notes when each request comes to the middleware that starts its fetch.

    The start that counts is between this moment and the signal, however long a busy machine takes
    from one to the other.
    """

    @classmethod
    def from_crawler(cls, crawler):
        turns = cls()
        turns.came = crawler.came = {}
        return turns

    def process_request(self, request):
        self.came.pop(request.url, None)
        self.came[request.url] = monotonic()


@pytest.mark.parametrize("n_at_once", [1, 8])
def test_autothrottle_delays_a_site_as_it_does_in_scrapy(n_at_once):
    """Its delay comes down from the start delay to the latency, and then rises with it."""
    throttled = {
        **THROTTLE,
        "EXTENSIONS": {AutoThrottle: None, Watching: 0},
        "DOWNLOADER_MIDDLEWARES": {Turns: 950},
        "CONCURRENT_REQUESTS_PER_DOMAIN": n_at_once,
        "LOG_ENABLED": False,
    }
    ours = {**ADDON, "ORDERING": "breadth-first"}
    other = {**ours, "DOWNLOADER": "scrapy.core.downloader.Downloader"}
    seconds = []
    for own in ({}, ours, other):
        urls = [f"http://a.test{path}" for path in SLOWER]
        run = run_spider(OneByOne, {**own, **throttled}, site=SLOWER, start_urls=urls)
        assert run.site.paths() == list(SLOWER)
        watching = run.crawler.get_extension(Watching)
        starts = sorted(fetch.start for fetch in run.site.fetches)
        seconds.append(starts[-1] - starts[0])
        before, after = zip(*watching.adjusted, strict=True)
        assert before == (0.4, *after[:-1])
        if own is ours:
            delays = [before[0], *after]
            least = [
                # What arrives between a page's turn and its start may raise the delay.
                delays[now] if n_at_once == 1 else min(delays[earlier : now + 1])
                for earlier, now in pairwise(watching.in_force)
            ]
            came = list(run.crawler.came.values())
            waits = zip(came[:-1], watching.starts[1:], least, strict=True)
            assert [wait for wait in waits if wait[1] - wait[0] < 0.999 * wait[2]] == []
    print(f"seconds with Scrapy alone, with crawlprio, with Scrapy's downloader: {seconds}")
    assert min(seconds[1:]) > seconds[0] / 3


def test_download_slots_give_a_host_its_own_delay_and_number_of_fetches():
    settings = {
        "DOWNLOAD_DELAY": 0.1,
        "DOWNLOAD_SLOTS": {"b.test": {"delay": 0.02}, "c.test": {"delay": 0, "concurrency": 4}},
    }
    pages = {path: found._replace(seconds=0.6) for path, found in fan(4).items()}
    run = crawl(pages, settings, start_urls=[f"http://{host}.test/" for host in "abc"])
    hosts = by_host(run.site.fetches)
    assert min(gaps(hosts["a.test"])) >= 0.1
    assert 0.02 <= min(gaps(hosts["b.test"])) < 0.1
    assert max(_at_once(hosts["c.test"])) == 4


def test_a_slot_named_by_a_request_is_a_separate_site():
    class Slots(OneByOne):
        async def start(self):
            for k in range(3):
                yield Request(f"http://a.test/{k}", meta={"download_slot": "one"})
                yield Request(f"http://b.test/{k}", meta={"download_slot": "one"})

    run = crawl(fan(3), {"DOWNLOAD_DELAY": 0.05}, Slots)
    assert len(run.site.fetches) == 6
    assert min(steps(run.site.fetches)) >= 0.05
