"""What is read of a page, from which one visit is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import NO_DIRECTIVES, Directives, LinkPairs, TextNotes, content_hash
from crawlprio.live.running import RunningCrawl
from crawlprio.web.anchors import read_anchors, read_robots, read_title
from crawlprio.web.robots_txt import joined
from crawlprio.web.urls import MAX_LINK_CHARACTERS, MAX_LINKS, without_credentials

if TYPE_CHECKING:
    from crawlprio.web.html import ParsedPage

YIELDED: WeakKeyDictionary[Request, list[Request]] = WeakKeyDictionary()
"""By request, the requests that its callback yielded, before any middleware drops some."""

USAGES: WeakKeyDictionary[Request, str] = WeakKeyDictionary()
"""By request, the preferences of robots.txt on the use of its page."""


def content_type_of(response: Response) -> str:
    """Return the Content-Type header of a response; empty without one."""
    return (response.headers.get("Content-Type") or b"").decode("latin-1")


def read_page(
    crawl: RunningCrawl, response: Response, content_type: str | None = None
) -> ParsedPage:
    """Parse an HTML page, with its text if the crawl wants texts."""
    from crawlprio.web.html import parse_page

    return parse_page(
        response.body,
        response.url,
        content_type=content_type_of(response) if content_type is None else content_type,
        want_text=crawl.config.wants_text,
        without_navigation=crawl.config.leaves_out_navigation,
    )


class PageHead(NamedTuple):
    """What a `ParsedPage` says beside its links, of a page that is not parsed for crawlprio."""

    title: str = ""
    text: str = ""
    robots: Sequence[str] = ()
    language: str = ""
    licences: Sequence[str] = ()


def pairs_of(crawl: RunningCrawl, response: Response, page: ParsedPage | PageHead) -> LinkPairs:
    """Return what was read of a page, once each part of the crawl has read it; without links."""
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
    if crawl.config.keeps_text:  # a part of the crawl detects the language
        pairs.notes = TextNotes("", page.language, joined(page.licences))
    for read in crawl.parts.defining("read"):
        read(pairs)
    crawl.config.set_fingerprint(pairs)
    return pairs


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


class Reading:
    """What a callback makes of a response, for the one visit of its page.

    A `LinkPairs` item is the whole content of the page. Without one, the `requests` that the
    callback yields are the links, and the rest is read from the response once it is asked for.
    `error` is why the callback failed; empty once it has ended. If it is `refused` the response,
    the body is not kept.
    """

    def __init__(self, crawl: RunningCrawl, response: Response, refused: str = "") -> None:
        self._crawl = crawl
        self._response = response
        self.requests: list[Request] = []
        self.item: LinkPairs | None = None
        self.error = refused or "callback did not end"
        self._body = response.body if crawl.config.keeps_bodies and not refused else b""

    def visit(self) -> PageVisit:
        """Return the visit; its links are entries of the frontier if they came as requests."""
        return PageVisit(
            self.pairs,
            links_are_entries=self.item is None,
            error=self.error,
            body=self._body,
        )

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
        page: ParsedPage | PageHead = PageHead()
        texts: dict[str, str] = {}
        if crawl.wants_anchors and isinstance(response, HtmlResponse):
            page, texts = self._read(response, [*targets.values(), *dropped.values()])

        def anchor(request: Request) -> str:
            found = request.meta.get("link_text") or texts.get(request.url.partition("#")[0], "")
            return str(found).strip()

        pairs = pairs_of(crawl, response, page)
        pairs.targets = list(targets)
        pairs.anchors = [anchor(request) for request in targets.values()]
        pairs.outside = [(url, anchor(request)) for url, request in dropped.items()]
        return pairs

    def _read(
        self, response: HtmlResponse, requests: list[Request]
    ) -> tuple[ParsedPage | PageHead, dict[str, str]]:
        """Return what a page says, and the texts of links by their URLs."""
        if self._crawl.config.wants_text:
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
        return PageHead(read_title(root), robots=read_robots(root)), texts
