"""Crawls with crawlprio's downloader and with Scrapy's own have the same results and delays."""

import contextlib
import random
from itertools import pairwise
from time import monotonic

import pytest
from crawls import ADDON, Answer, Site, page, run_spider
from scrapy import Request, Spider, signals
from scrapy.exceptions import IgnoreRequest

from crawlprio.live.downloader import Downloader

STOCK = "scrapy.core.downloader.Downloader"
OURS = "crawlprio.live.downloader.Downloader"
PAGES = {
    "/": page("/a", "/moved", "/gone", "/broken"),
    "/a": page("/b"),
    "/b": page(),
    "/moved": Answer("", 302, {"Location": "http://b.test/"}),
    "b.test/": page("http://a.test/"),
}


class Following(Spider):
    name = "following"
    starts = ("http://a.test/",)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.events = []

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        for name in ("request_reached_downloader", "request_left_downloader"):
            crawler.signals.connect(spider.listener(name), getattr(signals, name), weak=False)
        crawler.signals.connect(spider.downloaded, signals.response_downloaded)
        return spider

    def listener(self, name):
        def listen(request):
            self.events.append((name, request.url))

        return listen

    def downloaded(self, response, request):
        self.events.append((f"response_downloaded {response.status}", request.url))

    async def start(self):
        for url in self.starts:
            yield Request(url)

    def parse(self, response):
        yield {"url": response.url, "slot": response.request.meta["download_slot"]}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


class Fails:
    """A downloader middleware that fails on one page's response and one page's request."""

    def process_request(self, request):
        if request.url.endswith("/b"):
            raise IgnoreRequest

    def process_response(self, request, response):
        if request.url.endswith("/broken"):
            raise OSError("broken")
        return response


def crawl(downloader, **settings):
    own = {"DOWNLOADER": downloader, "CONCURRENT_REQUESTS": 1, **settings}
    return run_spider(Following, {**ADDON, **own}, site=PAGES)


def test_both_downloaders_fetch_the_same_and_send_the_same_signals():
    settings = {"DOWNLOADER_MIDDLEWARES": {Fails: 300}}
    ours, stock = crawl(OURS, **settings), crawl(STOCK, **settings)
    assert isinstance(ours.crawler.engine.downloader, Downloader)
    assert not isinstance(stock.crawler.engine.downloader, Downloader)
    assert ours.spider.events == stock.spider.events
    assert ours.items == stock.items
    assert [item["slot"] for item in ours.items] == ["a.test", "a.test", "b.test"]
    names = [name for name, _ in ours.spider.events]
    assert names[:3] == [
        "request_reached_downloader",
        "response_downloaded 200",
        "request_left_downloader",
    ]
    assert len(names) == 3 * len({url for _, url in ours.spider.events})
    counted = [
        {name: value for name, value in run.stats.items() if name.startswith("downloader/")}
        for run in (ours, stock)
    ]
    assert counted[0] == counted[1]


@pytest.mark.parametrize("downloader", [OURS, STOCK])
def test_no_request_is_active_at_the_end(downloader):
    run = crawl(downloader, CONCURRENT_REQUESTS=16)
    assert run.reason == "finished"
    assert run.crawler.engine.downloader.active == set()


@pytest.mark.parametrize("downloader", [OURS, STOCK])
def test_the_delay_is_kept_under_either_downloader(downloader):
    settings = {
        **ADDON,
        "DOWNLOADER": downloader,
        "DOWNLOAD_DELAY": 0.1,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    }
    run = run_spider(Following, settings, site=PAGES)
    fetches = sorted((f for f in run.site.fetches if f.host == "a.test"), key=lambda f: f.start)
    assert len(fetches) == 6
    assert min(later.start - earlier.end for earlier, later in pairwise(fetches)) >= 0.1


def test_without_crawlprios_middleware_the_delays_are_those_of_scrapys_downloader():
    settings = {"DOWNLOADER": OURS, "DOWNLOAD_DELAY": 0.4, "DOWNLOAD_DELAY_JITTER": 0}
    run = run_spider(Following, settings, site=PAGES)
    assert "a.test" in run.crawler.engine.downloader.slots
    starts = sorted(fetch.start for fetch in run.site.fetches if fetch.host == "a.test")
    # Scrapy reads the clock for a start before the connection is made, the server after.
    assert len(starts) == 6
    assert all(later - earlier > 0.05 for earlier, later in pairwise(starts))


class SlotPerProxy:
    """Sets a random download slot of three, as middlewares that rotate proxies do, and counts."""

    n_passes = 0

    def process_request(self, request):
        type(self).n_passes += 1
        request.meta["download_slot"] = random.choice(("one", "two", "three"))


class Fan(Spider):
    """Fetches twelve pages and notes their slots."""

    name = "fan"

    async def start(self):
        yield Request("http://a.test/")

    def parse(self, response):
        yield {"slot": response.meta["download_slot"]}
        if response.url.endswith("/"):
            for number in range(11):
                yield response.follow(f"/{number}")


def gaps_by_slot(run, site):
    """Return the seconds between the fetches of each slot, if pages came in the order sent."""
    starts = sorted(fetch.start for fetch in site.fetches)
    by_slot = {}
    for item, start in zip(run.items, starts, strict=True):
        by_slot.setdefault(item["slot"], []).append(start)
    return [later - earlier for times in by_slot.values() for earlier, later in pairwise(times)]


@pytest.mark.parametrize("downloader", [OURS, STOCK])
@pytest.mark.parametrize("per_domain", [1, 8])
@pytest.mark.parametrize("options", [{}, {"JOBDIR": "job", "CRAWLPRIO_STORE": "crawl.sqlite"}])
def test_a_slot_that_a_middleware_sets_is_waited_for_once_and_its_site_is_not(
    downloader, per_domain, options, tmp_path
):
    random.seed(per_domain)
    SlotPerProxy.n_passes = 0
    settings = {
        **ADDON,
        "DOWNLOADER": downloader,
        "DOWNLOADER_MIDDLEWARES": {SlotPerProxy: 700},
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_domain,
        "DOWNLOAD_DELAY": 1000,
        "DOWNLOAD_SLOTS": {
            name: {"delay": delay, "concurrency": per_domain}
            for name, delay in (("one", 0.1), ("two", 0.05), ("three", 0.05))
        },
        **options,
    }
    with contextlib.chdir(tmp_path), Site({}, lambda host, path: page()) as site:
        run = run_spider(Fan, settings, site=site)
    assert run.reason == "finished"
    assert len(run.items) == len(site.fetches) == SlotPerProxy.n_passes == 12
    assert "crawlprio/given_back" not in run.stats
    if downloader == OURS and per_domain == 1:
        assert min(gaps_by_slot(run, site)) >= 0.04


def test_a_crawl_that_is_stopped_does_not_wait_for_slots():
    settings = {
        **ADDON,
        "DOWNLOADER_MIDDLEWARES": {SlotPerProxy: 700},
        "DOWNLOAD_DELAY": 1000,
        "CLOSESPIDER_ITEMCOUNT": 2,
    }
    run = run_spider(Fan, settings, site=({}, lambda host, path: page()))
    assert run.reason == "closespider_itemcount"


class Tuning(Spider):
    name = "tuning"

    def __init__(self):
        super().__init__()
        self.seen, self.starts = [], []

    async def start(self):
        self.crawler.signals.connect(self.reached, signals.request_reached_downloader)
        yield Request("http://a.test/0")

    def reached(self, request):
        # A busy machine may take a request out of its socket long after it was sent.
        self.starts.append(monotonic())

    def parse(self, response):
        number = int(response.url[-1])
        slots = self.crawler.engine.downloader.slots
        self.seen.append([(name, slot.delay, slot.concurrency) for name, slot in slots.items()])
        slot = slots[response.meta["download_slot"]]
        assert not slot.active
        assert not slot.queue
        if number == 1:
            slot.delay = 0.2
        elif number == 3:
            slot.delay = 0.0
        if number < 5:
            yield response.follow(f"/{number + 1}")


@pytest.mark.parametrize("per_domain", [1, 4])
def test_a_delay_that_a_callback_sets_on_a_slot_is_that_of_its_site_at_once(per_domain):
    settings = {
        **ADDON,
        "DOWNLOAD_DELAY": 0.01,
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_domain,
        "DOWNLOAD_DELAY_JITTER": 0,
    }
    run = run_spider(Tuning, settings, site=({}, lambda host, path: page()))
    assert len(run.site.fetches) == len(run.spider.starts) == 6
    gaps = [later - earlier for earlier, later in pairwise(run.spider.starts)]
    assert min(gaps[1:3]) >= 0.19
    assert run.spider.seen == [
        [("a.test", delay, per_domain)] for delay in (0.01, 0.01, 0.2, 0.2, 0.0, 0.0)
    ]


class OneByOneFromNow:
    """An extension that allows each site one fetch at a time, once it is known."""

    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        self.crawler, self.most = crawler, 0
        crawler.signals.connect(self.reached, signals.request_reached_downloader, weak=False)
        crawler.extension = self
        return self

    def reached(self, request):
        for slot in self.crawler.engine.downloader.slots.values():
            self.most = max(self.most, len(slot.transferring))
            slot.concurrency = 1


def test_a_concurrency_that_an_extension_sets_on_a_slot_is_that_of_its_site():
    settings = {**ADDON, "EXTENSIONS": {OneByOneFromNow: 1}, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}
    run = run_spider(Fan, settings, site=({}, lambda host, path: page()))
    fetches = sorted(run.site.fetches, key=lambda fetch: fetch.start)
    assert len(fetches) == 12
    assert all(later.start >= earlier.end for earlier, later in pairwise(fetches))
    assert run.crawler.extension.most == 1
