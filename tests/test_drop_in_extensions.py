"""A project's duplicate filters, fingerprints and extensions work the same with the add-on."""

import contextlib

import pytest
from crawls import Answer
from drop_in import ROOT, WEB, SpiderCase, Web, assert_alike, html, kinds
from scrapy import Request, Spider, signals
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import CloseSpider, NotConfigured, StopDownload
from scrapy.utils.request import fingerprint


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
