"""Crawls with crawlprio's downloader and with Scrapy's own have the same results and delays."""

from itertools import pairwise

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
    with Site(PAGES) as site:
        return run_spider(Following, {**ADDON, **own}, site=site)


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
    with Site(PAGES) as site:
        settings = {
            **ADDON,
            "DOWNLOADER": downloader,
            "DOWNLOAD_DELAY": 0.1,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        }
        run_spider(Following, settings, site=site)
    fetches = sorted((f for f in site.fetches if f.host == "a.test"), key=lambda f: f.start)
    assert len(fetches) == 6
    assert min(later.start - earlier.end for earlier, later in pairwise(fetches)) >= 0.1


def test_without_crawlprios_middleware_the_delays_are_those_of_scrapys_downloader():
    settings = {"DOWNLOADER": OURS, "DOWNLOAD_DELAY": 0.1, "DOWNLOAD_DELAY_JITTER": 0}
    with Site(PAGES) as site:
        run = run_spider(Following, settings, site=site)
    assert "a.test" in run.crawler.engine.downloader.slots
    starts = sorted(fetch.start for fetch in site.fetches if fetch.host == "a.test")
    # Scrapy reads the clock for a start before the connection is made, the server after.
    assert len(starts) == 6
    assert all(later - earlier > 0.05 for earlier, later in pairwise(starts))
