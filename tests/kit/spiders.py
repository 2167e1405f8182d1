"""Spiders that know nothing of crawlprio, as those of most projects, and one that does."""

from typing import Any

from scrapy import Request, Spider
from scrapy.http import TextResponse

from crawlprio.items import LinkPairs


class Follower(Spider):
    """Yields an item for each page, and a request for each of its links."""

    name = "follower"
    start_urls: Any = ("http://a.test/",)
    links = "a"

    def parse(self, response):
        yield {"url": response.url}
        if isinstance(response, TextResponse):
            yield from response.follow_all(css=self.links)


class OneByOne(Follower):
    """Starts without dont_filter, so that no page is fetched twice."""

    async def start(self):
        for url in self.start_urls:
            yield Request(url)


class Pairing(Follower):
    """Yields the links of each page as pairs alone, to be fetched by whoever reads them."""

    name = "pairing"

    def parse(self, response):
        if isinstance(response, TextResponse):
            links = response.css("a::attr(href)").getall()
            yield LinkPairs(response.url, list(dict.fromkeys(map(response.urljoin, links))))


class Plain(Spider):
    """Yields items and requests, as ordinary spiders do."""

    name = "plain"

    async def start(self):
        yield Request("http://a.test/")

    def parse(self, response):
        yield {"url": response.url}
        if isinstance(response, TextResponse):
            for link in response.css("a"):
                meta = {"link_text": " said "} if link.attrib["href"] == "/2" else None
                yield response.follow(link, meta=meta)


class OfCrawler:
    """A middleware or pipeline that knows its crawler."""

    @classmethod
    def from_crawler(cls, crawler):
        component = cls()
        component.crawler = crawler
        return component
