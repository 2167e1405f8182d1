"""Callbacks, errbacks, `start()` and idle handlers have the same effect with the add-on.

`drop_in.py` says what is compared with Scrapy alone.
"""

import pytest
from crawls import Answer
from drop_in import ROOT, SpiderCase, assert_alike, html, kinds
from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, DontCloseSpider

SHOP = {
    "/": html("home", "/list/1"),
    "/list/1": html("one", "/item/1", "/item/2"),
    "/item/1": html("first"),
    "/item/2": html("second"),
}


class Errbacks(SpiderCase, Spider):
    """Failures of every kind, each with an errback that continues the crawl."""

    pages = {
        "/ok": html("fine"),
        "/busy": [Answer("", 503), Answer("", 503), html("fine again")],
        "/broken": Answer("", 500),
        "/drop": Answer(status=0),
        "/teapot": Answer("", 418),
    }
    options = {"RETRY_ENABLED": True, "RETRY_TIMES": 2, "CRAWLPRIO_MAX_BACK_OFF": 0.05}

    async def start(self):
        for path in ("/ok", "/busy", "/broken", "/drop", "/teapot", "/gone"):
            yield Request(f"{ROOT}{path}", errback=self.failed)
        yield Request(f"{ROOT}/gone2")

    def parse(self, response):
        yield {"url": response.url}

    def failed(self, failure):
        yield {"failed": failure.request.url, "why": failure.type.__name__}
        yield Request(f"{ROOT}/ok?after={failure.request.url[-4:]}", self.after)

    def after(self, response):
        yield {"after": response.url}


class Arguments(SpiderCase, Spider):
    """cb_kwargs, meta, flags and priority arrive as they were sent."""

    pages = {f"/{n}": html(str(n)) for n in range(5)}

    async def start(self):
        for n in range(5):
            yield Request(
                f"{ROOT}/{n}",
                priority=n,
                flags=[f"flag {n}"],
                meta={"mine": {"n": n}, "shared": self.notes},
                cb_kwargs={"n": n, "extra": [n]},
            )

    def parse(self, response, n, extra):
        request = response.request
        assert response.meta["shared"] is self.notes
        keys = sorted(key for key in response.meta if key not in ("download_latency", "shared"))
        yield {"n": n, "extra": extra, "meta": keys, "flags": request.flags, "p": request.priority}


class NoStart(SpiderCase, Spider):
    pages = SHOP

    async def start(self):
        yield {"only": "an item"}


class StartFails(SpiderCase, Spider):
    pages = SHOP

    async def start(self):
        yield Request(f"{ROOT}/item/1")
        raise RuntimeError("start fails")

    def parse(self, response):
        yield {"url": response.url}


class InlineStart(SpiderCase, Spider):
    pages = SHOP

    async def start(self):
        response = await self.crawler.engine.download_async(Request(f"{ROOT}/list/1"))
        for link in response.css("a::attr(href)"):
            yield response.follow(link)

    def parse(self, response):
        yield {"url": response.url}


class Idle(SpiderCase, Spider):
    """Requests more pages each time it becomes idle, three times over."""

    pages = {f"/{n}": html(str(n)) for n in range(4)}
    start_urls = (f"{ROOT}/0",)

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signal=signals.spider_idle)
        return spider

    def idle(self):
        self.notes.append("idle")
        if len(self.notes) < 4:
            self.crawler.engine.crawl(Request(f"{ROOT}/{len(self.notes)}"))
            raise DontCloseSpider

    def parse(self, response):
        yield {"url": response.url}


class IdleReason(Idle):
    def idle(self):
        raise CloseSpider("had enough")


class Closing(SpiderCase, Spider):
    """Closes itself from a callback, with nothing else in flight."""

    pages = SHOP
    start_urls = (f"{ROOT}/",)
    options = {"CONCURRENT_REQUESTS": 1}

    def parse(self, response):
        yield {"url": response.url}
        raise CloseSpider("seen all")


@pytest.mark.parametrize("kind", kinds(vars()))
def test_it_has_the_same_effect_as_with_scrapy_alone(kind, tmp_path):
    assert_alike(kind, tmp_path)
