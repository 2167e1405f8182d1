"""Each kind of spider has the same results with the add-on as with Scrapy alone.

Items, requests to the server, Scrapy's stats and warnings are compared; see `drop_in.py`.
"""

from pathlib import Path

import pytest
from crawls import Answer
from drop_in import FIRST_LINK, ROOT, SpiderCase, assert_alike, html, kinds
from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider

SHOP = {
    "/": html("home", "/list/1", "/list/2", "/list/1", "/about", "http://other.test/away"),
    "/list/1": html("one", "/item/1", "/item/2", "/list/2", "/", "/item/1?b=2&a=1"),
    "/list/2": html("two", "/item/2", "/item/3", "/item/1?b=2&a=1", "/gone", "/list/1"),
    "/item/1": html("first", "/"),
    "/item/1?b=2&a=1": html("first, sorted", "/"),
    "/item/2": html("second", "/item/1"),
    "/item/3": html("third", "/item/3"),
    "/about": html("about us"),
    "other.test/away": html("elsewhere", f"{ROOT}/"),
}


class AllLinks(SpiderCase, Spider):
    """Follows every link, and lets Scrapy drop the duplicates."""

    pages = SHOP
    start_urls = (f"{ROOT}/",)
    unlike = FIRST_LINK

    def parse(self, response):
        yield {"url": response.url, "text": response.css("body::text").get()}
        for link in response.css("a::attr(href)"):
            yield response.follow(link, self.parse)


class Respelled(AllLinks):
    """Several spellings of the same page's URL, all on one page, so that the first one counts."""

    pages = {
        "/": html("home", "/x?b=2&a=1", "/x?a=1&b=2", "/y#top", "/y", "/Y", "/y?"),
        "/x?b=2&a=1": html("x"),
        "/y": html("y"),
    }


class Rules(SpiderCase, CrawlSpider):
    """CrawlSpider with a rule that follows and one that parses."""

    pages = SHOP
    start_urls = (f"{ROOT}/",)
    allowed_domains = ("shop.test",)
    rules = (
        Rule(LinkExtractor(allow="/list/")),
        Rule(LinkExtractor(allow="/item/"), callback="parse_item", follow=True),
    )

    def parse_start_url(self, response):
        yield {"start": response.url}

    def parse_item(self, response):
        yield {"url": response.url, "text": response.meta.get("link_text")}


class Sitemap(SpiderCase, SitemapSpider):
    """A sitemap index in robots.txt, with a sitemap that links to alternates."""

    pages = {
        **SHOP,
        "/robots.txt": Answer("User-agent: *\nSitemap: http://shop.test/index.xml\n"),
        "/index.xml": Answer(
            '<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
            "<sitemap><loc>http://shop.test/map.xml</loc></sitemap></sitemapindex>",
            headers={"Content-Type": "application/xml"},
        ),
        "/map.xml": Answer(
            '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
            "<url><loc>http://shop.test/item/1</loc></url>"
            "<url><loc>http://shop.test/item/2</loc></url>"
            "<url><loc>http://shop.test/about</loc></url></urlset>",
            headers={"Content-Type": "application/xml"},
        ),
    }
    sitemap_urls = (f"{ROOT}/robots.txt",)
    sitemap_rules = (("/item/", "parse_item"), ("/about", "parse"))

    def parse_item(self, response):
        yield {"item": response.url}

    def parse(self, response):
        yield {"page": response.url}


class OddUrls(SpiderCase, Spider):
    """Fragments, other alphabets, spaces, credentials and schemes that never reach a server."""

    pages = {"/": html("home"), "/%C3%BC": html("u"), "/a%20b": html("ab"), "/x": html("x")}
    urls = ("/#a", "/#b", "/ü", "/a b", "/x?", "/x?q=ä&q=b", "/x;p=1", "/./x", "//x")

    async def start(self):
        for url in self.urls:
            yield Request(f"{ROOT}{url}", errback=self.failed)
        yield Request("data:text/plain,hello")
        yield Request("nosuch://shop.test/", errback=self.failed)
        yield Request(Path(__file__).as_uri(), self.file)

    def parse(self, response):
        yield {"url": response.url, "length": len(response.body)}

    def file(self, response):
        yield {"file": Path(response.url).name}

    def failed(self, failure):
        yield {"failed": failure.request.url, "why": failure.type.__name__}


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
def test_it_has_the_same_results_as_with_scrapy_alone(kind, tmp_path):
    assert_alike(kind, tmp_path)
