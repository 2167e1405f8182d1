"""An endless synthetic web, a download handler that makes its pages, and spiders for stock Scrapy.

Every page has 20 links: 7 to pages that nothing else links to, and 13 to pages among the 4,000 most
popular, whose popularity varies. A page always has the same links, and every crawl order finds new
pages at about the same rate: 8 per page fetched.
"""

from __future__ import annotations

from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.crawler import Crawler

N_NEW, N_KNOWN = 7, 13
N_BEST_KNOWN, N_OTHERS = 4_000, 10**9
TEXT = "<p>" + "The quick brown fox jumps over the lazy dog. " * 20 + "</p>"
SEED_PAGE = N_BEST_KNOWN


class Clock:
    """Records when the first and the last required response were made; notifies listeners."""

    on_start: Callable[[], None] | None = None
    on_end: Callable[[], None] | None = None
    n_wanted = 0
    n_answers = 0
    started = ended = 0.0
    cpu_started = cpu_ended = 0.0

    @classmethod
    def tick(cls) -> None:
        """Count one response."""
        cls.n_answers += 1
        if cls.n_answers == 1:
            cls.started, cls.cpu_started = perf_counter(), process_time()
            if cls.on_start is not None:
                cls.on_start()
        elif cls.n_answers == cls.n_wanted:
            cls.ended, cls.cpu_ended = perf_counter(), process_time()
            if cls.on_end is not None:
                cls.on_end()


def links_of(page: int) -> list[int]:
    """Return the distinct pages that a page links to, in HTML order."""
    mixed = (page * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    mixed ^= mixed >> 32
    links = [N_BEST_KNOWN + (mixed + at * 77_777_777) % N_OTHERS for at in range(N_NEW)]
    for at in range(N_KNOWN):
        rank = (mixed // N_OTHERS + at * 307) % N_BEST_KNOWN
        links.append(rank * rank // N_BEST_KNOWN)
    return links


def page_url(page: int, n_sites: int) -> str:
    return f"http://site{page * 2654435761 % 4294967291 % n_sites}.example/pages/{page}.html"


def page_body(page: int, n_sites: int) -> bytes:
    anchors = "".join(
        f'<li><a href="{page_url(link, n_sites)}">Page number {link}</a></li>'
        for link in links_of(page)
    )
    return (
        f"<!doctype html><html><head><title>Page {page}</title></head><body><h1>Page {page}</h1>"
        f"{TEXT}<ul>{anchors}</ul></body></html>"
    ).encode()


def html_response(request: Request, body: bytes) -> HtmlResponse:
    """Return the response that Scrapy's own handler would have made."""
    return HtmlResponse(
        request.url,
        body=body,
        headers={"Content-Type": "text/html; charset=utf-8"},
        request=request,
    )


class NoNetwork:
    """A download handler that generates the requested page at once."""

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        self._n_sites = crawler.settings.getint("BENCHMARK_SITES")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> NoNetwork:
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        Clock.tick()
        page = int(request.url.rpartition("/")[2].removesuffix(".html"))
        return html_response(request, page_body(page, self._n_sites))

    async def close(self) -> None:
        return None


class FollowSpider(Spider):
    """A spider that follows all links, as written without crawlprio."""

    name = "follow"
    extractor = LinkExtractor()

    def __init__(self, seeds: str, **others: Any) -> None:
        super().__init__(**others)
        self.start_urls = seeds.split(",")

    async def start(self) -> AsyncIterator[Request]:
        for url in self.start_urls:
            yield Request(url)

    def parse(self, response: Response, **_: Any) -> Iterator[Request]:
        if isinstance(response, HtmlResponse):
            for link in self.extractor.extract_links(response):
                yield Request(link.url)


class RulesSpider(CrawlSpider):
    """The same as a Scrapy `CrawlSpider`: one rule and no callback."""

    name = "rules"
    rules = (Rule(LinkExtractor(), follow=True),)

    def __init__(self, seeds: str, **others: Any) -> None:
        super().__init__(**others)
        self.start_urls = seeds.split(",")


class StartsSpider(Spider):
    """A spider that knows its pages beforehand, scrapes their titles and follows nothing."""

    name = "starts"

    async def start(self) -> AsyncIterator[Request]:
        n_sites = self.settings.getint("BENCHMARK_SITES")
        for page in range(self.settings.getint("CLOSESPIDER_PAGECOUNT") + 100):
            yield Request(page_url(page, n_sites))

    def parse(self, response: Response, **_: Any) -> Iterator[dict[str, Any]]:
        if isinstance(response, HtmlResponse):
            yield {"title": response.css("title::text").get()}
