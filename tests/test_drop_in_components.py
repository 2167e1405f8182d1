"""A project's settings, middlewares, pipelines and extensions work the same with the add-on."""

import contextlib
from collections import Counter

import pytest
from crawls import Answer
from drop_in import ROOT, WEB, SpiderCase, Web, assert_alike, html, kinds
from scrapy import Request, Spider, signals
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import CloseSpider, NotConfigured, StopDownload
from scrapy.pipelines.files import FilesPipeline
from scrapy.utils.request import fingerprint


class Files(SpiderCase, Spider):
    """Files fetched by the pipeline: one is missing, one is requested twice."""

    pages = {"/": html("files"), "/a.txt": Answer("aaa"), "/b.txt": Answer("bbb")}
    start_urls = (f"{ROOT}/",)

    @classmethod
    def settings(cls, folder):
        return {"ITEM_PIPELINES": {FilesPipeline: 1}, "FILES_STORE": str(folder / "files")}

    def parse(self, response):
        names = ("a.txt", "b.txt", "c.txt", "a.txt")
        yield {"file_urls": [response.urljoin(name) for name in names]}
        yield {"file_urls": [response.urljoin("b.txt")]}


class OutputMiddleware:
    """A spider middleware that adds, drops and recovers."""

    async def process_spider_output(self, response, result):
        async for output in result:
            if isinstance(output, Request) and output.url.endswith("/5"):
                continue
            yield output
        yield Request(f"{response.url}?more", callback=None, meta={"more": True})

    def process_spider_exception(self, response, exception):
        return [{"recovered": response.url}, Request(f"{ROOT}/9")]

    async def process_start(self, start):
        async for output in start:
            yield output
        yield Request(f"{ROOT}/8")
        yield {"start": "done"}


class SpiderMiddlewares(Web):
    pages = WEB
    options = {"SPIDER_MIDDLEWARES": {OutputMiddleware: 543}}

    def parse(self, response):
        if "more" in response.meta:
            return
        yield {"url": response.url}
        yield from response.follow_all(css="a")
        if response.url.endswith("/2"):
            raise ValueError("callback fails")


class InputMiddleware:
    """A spider middleware that refuses a response before its callback."""

    def process_spider_input(self, response):
        if response.url.endswith("/4"):
            raise ValueError("not parsed")


class RefusedResponse(Web):
    pages = WEB
    options = {"SPIDER_MIDDLEWARES": {InputMiddleware: 543}}


class HttpCache(Web):
    """A second crawl from the cache of the first."""

    pages = WEB

    @classmethod
    def settings(cls, folder):
        return {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(folder / "cache")}

    @classmethod
    def crawl(cls, folder, settings):
        first = super().crawl(folder, settings)
        second = super().crawl(folder, settings)
        return second._replace(notes=[sorted(first.asked_for)])


class ItemCount(Web):
    """Closed by a limit with one fetch at a time; Scrapy alone may have one more page in flight."""

    pages = {f"/{n}": html(f"page {n}", f"/{n + 1}") for n in range(30)}
    options = {"CLOSESPIDER_ITEMCOUNT": 3, "CONCURRENT_REQUESTS": 1}

    @classmethod
    def brought(cls, run, site):
        found = super().brought(run, site)
        notes = [run.reason]
        return found._replace(items=Counter(), asked_for=Counter(), stats={}, notes=notes)


class PageCount(ItemCount):
    pages = ItemCount.pages
    options = {"CLOSESPIDER_PAGECOUNT": 5, "CONCURRENT_REQUESTS": 1}


class TimedOut(SpiderCase, Spider):
    """Closed after a time without items, while a page is slow."""

    pages = {"/": html("slow")._replace(seconds=2.5)}
    start_urls = (f"{ROOT}/",)
    options = {"CLOSESPIDER_TIMEOUT": 1}

    def parse(self, response):
        yield {"url": response.url}


class DupeFilterDebug(Web):
    pages = {"/0": html("home", "/1", "/1", "/2", "/2"), "/1": html("one"), "/2": html("two", "/1")}
    options = {"DUPEFILTER_DEBUG": True}
    logged = r"^Filtered duplicate request: <GET \S+>"


class DupeFilterLog(DupeFilterDebug):
    """By default only the first duplicate is logged, and the message says so."""

    pages = {"/0": html("home", "/1", "/1"), "/1": html("one", "/0")}
    options = {}


class TalkativeFilter(RFPDupeFilter):
    """A custom filter that identifies pages by number, whatever follows, and logs by itself."""

    def request_fingerprint(self, request):
        return request.url.partition("?")[0]

    def request_seen(self, request):
        known = self.__dict__.setdefault("known", set())
        number = self.request_fingerprint(request)
        return number in known or bool(known.add(number))

    def log(self, request, spider):
        spider.notes.append(f"dropped {request.url}")


class OwnFilter(Web):
    pages = {
        "/0": html("home", "/1?a", "/1?b", "/2"),
        "/1?a": html("one", "/0?x"),
        "/2": html("two"),
    }
    options = {"DUPEFILTER_CLASS": TalkativeFilter}


class NoFilter(SpiderCase, Spider):
    pages = WEB
    options = {"DUPEFILTER_CLASS": BaseDupeFilter}

    async def start(self):
        for _ in range(3):
            yield Request(f"{ROOT}/1")
        for n in range(3):
            yield Request(f"{ROOT}/2", cb_kwargs={"n": n})

    def parse(self, response, n=9):
        yield {"url": response.url, "n": n}


class HeaderFingerprints:
    """Requests that differ by a header are different."""

    def fingerprint(self, request):
        return fingerprint(request, include_headers=["X-Shop"])


class OwnFingerprints(SpiderCase, Spider):
    pages = WEB
    options = {"REQUEST_FINGERPRINTER_CLASS": HeaderFingerprints}

    async def start(self):
        for shop in ("a", "b", "a"):
            yield Request(f"{ROOT}/1", headers={"X-Shop": shop})

    def parse(self, response):
        yield {"shop": response.request.headers["X-Shop"]}


class Listener:
    """An extension that records which signals come for a request, in order."""

    def __init__(self, crawler):
        self._crawler = crawler
        for name in (
            *("engine_started", "spider_opened", "spider_idle", "spider_closed", "engine_stopped"),
            *("request_scheduled", "request_dropped", "request_reached_downloader"),
            *("request_left_downloader", "response_received", "response_downloaded"),
            *("headers_received", "bytes_received", "item_scraped", "item_dropped", "item_error"),
            *("spider_error", "robots_parsed"),
        ):
            crawler.signals.connect(self._listener(name), signal=getattr(signals, name), weak=False)

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def _listener(self, name):
        def note(request=None, response=None, **_):
            url = getattr(request or response, "url", "")
            spider = self._crawler.spider
            spider.heard.setdefault(url, []).append(name)
            spider.notes[:] = [sorted(spider.heard.items())]

        return note


class Signals(SpiderCase, Spider):
    """Each signal is sent equally often, and in the same order for a single request."""

    pages = {"/0": html("home", "/1", "/gone"), "/1": html("one", "/0"), "/robots.txt": Answer("")}
    options = {"EXTENSIONS": {Listener: 500}, "ROBOTSTXT_OBEY": True}
    start_urls = (f"{ROOT}/0",)

    def __init__(self):
        super().__init__()
        self.heard = {}

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")
        if response.url.endswith("/1"):
            raise ValueError("callback fails")


class Stopper:
    """An extension that stops downloads at the headers or at the first bytes."""

    @classmethod
    def from_crawler(cls, crawler):
        extension = cls()
        crawler.signals.connect(extension.headers, signal=signals.headers_received)
        crawler.signals.connect(extension.bytes, signal=signals.bytes_received)
        return extension

    def headers(self, request):
        if request.url.endswith("/2"):
            raise StopDownload(fail=False)
        if request.url.endswith("/3"):
            raise StopDownload(fail=True)

    def bytes(self, request):
        if request.url.endswith("/4"):
            raise StopDownload(fail=False)


class StoppedDownloads(SpiderCase, Spider):
    pages = WEB
    options = {"EXTENSIONS": {Stopper: 500}}

    async def start(self):
        for n in range(1, 6):
            yield Request(f"{ROOT}/{n}", errback=self.failed)

    def parse(self, response):
        yield {"url": response.url, "flags": response.flags}

    def failed(self, failure):
        yield {"failed": failure.request.url, "why": failure.type.__name__}


class Broken:
    """An extension that is not configured, and one that ends the crawl as it opens."""

    def __init__(self):
        raise NotConfigured("no key")


class Ender:
    @classmethod
    def from_crawler(cls, crawler):
        extension = cls()
        crawler.signals.connect(extension.opened, signal=signals.spider_opened)
        return extension

    def opened(self):
        raise CloseSpider("no licence")


class NotConfiguredExtension(Web):
    pages = WEB
    options = {"EXTENSIONS": {Broken: 500}}


class ClosedAsItOpens(Web):
    pages = WEB
    options = {"EXTENSIONS": {Ender: 500}}

    @classmethod
    def brought(cls, run, site):
        return super().brought(run, site)._replace(notes=[run.reason])


@pytest.mark.parametrize("kind", kinds(vars()))
def test_it_works_the_same_as_with_scrapy_alone(kind, tmp_path):
    with contextlib.chdir(tmp_path):
        assert_alike(kind, tmp_path)
