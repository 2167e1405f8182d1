"""What is read of a page, from which one visit is made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import NO_DIRECTIVES, Directives, LinkPairs, content_hash
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.requests import USAGES
from crawlprio.measure.stored_crawl import HASH_ROUTE, UNRENDERED
from crawlprio.store.side_tables import BODIES
from crawlprio.web.anchors import ParsedPage, read_anchors, read_robots, read_title
from crawlprio.web.content import MediaType, computed_type
from crawlprio.web.robots_txt import joined
from crawlprio.web.shells import MANY_LINKS, hash_routes, looks_made_by_script
from crawlprio.web.urls import MAX_LINK_CHARACTERS, MAX_LINKS, without_credentials

if TYPE_CHECKING:
    import zstandard

YIELDED: WeakKeyDictionary[Request, list[Request]] = WeakKeyDictionary()
"""By request, the requests that its callback yielded, before any middleware drops some."""


@cache
def _compressor() -> zstandard.ZstdCompressor:
    import zstandard

    return zstandard.ZstdCompressor(level=3)


def type_of(response: Response) -> MediaType:
    """Return the type of a response, by its headers, or else by its body."""
    lines = response.headers.getlist
    return computed_type(lines("Content-Type"), lines("X-Content-Type-Options"), response.body)


def _wants_text(crawl: CrawlContext) -> bool:
    return crawl.config.topic is not None or crawl.parts.any("reads_text")


def _wants_anchors(crawl: CrawlContext) -> bool:
    """Return whether visits need anchor texts."""
    config = crawl.config
    is_stored = crawl.recorder.store is not None
    is_sent = crawl.is_recorded_elsewhere and config.store_path is not None
    return is_stored or is_sent or _wants_text(crawl) or config.ordering.needs_anchors


def read_page(
    crawl: CrawlContext,
    response: Response,
    content_type: str | None = None,
    robot: Collection[str] = (),
) -> ParsedPage:
    """Parse an HTML page, with its text if the crawl wants texts; `robot` as in `parse_page`."""
    from crawlprio.web.html import parse_page

    return parse_page(
        response.body,
        response.url,
        content_type=type_of(response).header if content_type is None else content_type,
        robot=robot,
        want_text=_wants_text(crawl),
        without_navigation=crawl.config.topic is None or crawl.parts.any("stores_text"),
    )


def pairs_of(crawl: CrawlContext, response: Response, page: ParsedPage, n_links: int) -> LinkPairs:
    """Return what was read of a page, once each part of the crawl has read it; without links.

    `n_links` is how many it has: one with few is looked at for whether a script would make more.
    """
    if isinstance(response, HtmlResponse) and 200 <= response.status < 300:
        _note_scripts(crawl, response, n_links)
    pairs = LinkPairs(
        source=response.url,
        targets=[],
        status=response.status,
        title=page.title,
        text=page.text,
        content_hash=content_hash(response.body),
        n_bytes=len(response.body),
        directives=_directives_of(response, page.robots),
    )
    for read in crawl.parts.defining("read"):
        read(pairs, response, page)
    if crawl.config.topic is None and not crawl.parts.any("stores_text"):
        pairs.text = ""
    return pairs


def _note_scripts(crawl: CrawlContext, response: Response, n_links: int) -> None:
    """Count hash routes, and a page that looks made by script in a crawl that renders none."""
    is_plain = n_links <= MANY_LINKS and not crawl.parts.any("renders")
    if is_plain and looks_made_by_script(response.body):
        crawl.refuse_links(UNRENDERED, 1, (response.url,))
    if routes := hash_routes(response.body):
        examples = map(response.urljoin, sorted(routes)[:3])
        crawl.refuse_links(HASH_ROUTE, len(routes), examples)


def _directives_of(response: Response, robots: Sequence[str]) -> Directives:
    """Return the directives of a page; `NO_DIRECTIVES` itself if there are none.

    `robots` is what its `meta name=robots` say.
    """
    headers, request = response.headers, response.request
    usage = USAGES.get(request, "") if USAGES and request is not None else ""
    if not (usage or robots or "X-Robots-Tag" in headers or "Content-Usage" in headers):
        return NO_DIRECTIVES
    tags, preferences = (
        joined(value.decode("latin-1") for value in headers.getlist(name))
        for name in ("X-Robots-Tag", "Content-Usage")
    )
    found = Directives(tags, joined(robots), preferences, usage)
    return found if any(found) else NO_DIRECTIVES


def dropped_links(yielded: list[Request], kept: list[Request]) -> Iterator[tuple[str, Request]]:
    """Yield URL and request for each request that was yielded and not kept.

    Only plain links count (GET, without a body), up to the limits for the links of one page
    (`MAX_LINKS`, `MAX_LINK_CHARACTERS`).
    """
    kept_ids = set(map(id, kept))
    n_links = n_characters = 0
    for request in yielded:
        if id(request) in kept_ids or request.method != "GET" or request.body:
            continue
        url = without_credentials(request.url.partition("#")[0])
        n_links += 1
        n_characters += len(url)
        if n_links > MAX_LINKS or n_characters > MAX_LINK_CHARACTERS:
            return
        yield url, request


class ResponseParser:
    """What a callback makes of a response, for the one visit of its page.

    A `LinkPairs` item is the whole content of the page. Without one, the `requests` that the
    callback yields are the links, and the rest is read from the response once it is asked for.
    The body is kept if the crawl keeps bodies, and this one is to be.
    """

    def __init__(self, crawl: CrawlContext, response: Response, *, keeps_body: bool = True) -> None:
        self._crawl = crawl
        self._response = response
        self.requests: list[Request] = []
        self.item: LinkPairs | None = None
        self._body = response.body if crawl.config.keeps_bodies and keeps_body else b""

    def visit(self, error: str = "") -> PageVisit:
        """Return the visit; its links are entries of the frontier if they came as requests.

        `error` is why the callback failed.
        """
        if self._body:  # 0.1 ms for a page of 21 kB, which then takes 5 kB
            self.pairs.extras[BODIES.name] = (_compressor().compress(self._body),)
        return PageVisit(self.pairs, links_are_entries=self.item is None, error=error)

    @property
    def pairs(self) -> LinkPairs:
        return self._read_pairs if self.item is None else self.item

    @cached_property
    def _read_pairs(self) -> LinkPairs:
        """The link pairs of a page whose callback yields requests."""
        crawl, response, requests = self._crawl, self._response, self.requests
        identity_of = crawl.identities.of_request
        targets: dict[str, Request] = {}
        for request in requests:
            targets.setdefault(identity_of(request), request)
        yielded = YIELDED.pop(response.request, []) if response.request else []
        dropped = dict(dropped_links(yielded, requests)) if len(yielded) > len(requests) else {}
        page = ParsedPage()
        texts: dict[str, str] = {}
        if _wants_anchors(crawl) and isinstance(response, HtmlResponse):
            page, texts = self._read(response, [*targets.values(), *dropped.values()])

        def anchor(request: Request) -> str:
            found = request.meta.get("link_text") or texts.get(request.url.partition("#")[0], "")
            return str(found).strip()

        pairs = pairs_of(crawl, response, page, len(targets))
        pairs.targets = list(targets)
        pairs.anchors = [anchor(request) for request in targets.values()]
        pairs.outside = [(url, anchor(request)) for url, request in dropped.items()]
        return pairs

    def _read(
        self, response: HtmlResponse, requests: list[Request]
    ) -> tuple[ParsedPage, dict[str, str]]:
        """Return what a page says, and the texts of links by their URLs."""
        if _wants_text(self._crawl):
            page = read_page(self._crawl, response)
            return page, dict(zip(page.urls, page.anchors, strict=True))
        # The spider has nearly always parsed the page already.
        root = response.selector.root
        wanted = {
            request.url.partition("#")[0]
            for request in requests
            if not request.meta.get("link_text")
        }
        texts = read_anchors(root, response.url, response.encoding, wanted) if wanted else {}
        return ParsedPage(title=read_title(root), robots=read_robots(root)), texts
