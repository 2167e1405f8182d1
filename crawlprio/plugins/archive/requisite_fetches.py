"""What pages need to look like themselves: found in each page, fetched after the last one."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from time import time

from scrapy import Request, signals
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import BaseSettings
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawlprio.frontier.protocol import HttpRecord
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.downloader import SIDE_FETCH
from crawlprio.live.engine import sleep
from crawlprio.live.response_parser import type_of
from crawlprio.live.side_fetches import LOOK_SECONDS, SideFetches
from crawlprio.measure.stored_crawl import COVERED, ENOUGH_PAGES
from crawlprio.plugins.archive.archiver import Archiver
from crawlprio.settings_table.config import read_setting, require_extras
from crawlprio.store import TransactionParticipant
from crawlprio.store.files import store_errors
from crawlprio.store.side_tables import SideRow, SideTable
from crawlprio.store.visit_rows import storable
from crawlprio.web.anchors import Resolver, rebase
from crawlprio.web.encodings import decode
from crawlprio.web.html import SHADOW_ROOTS, base_in, declared_encoding, decoded, open_shadow_roots
from crawlprio.web.html_splitter import pieces
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of, location_url, normalise_url, parse_url

MAX_STYLE = 1_000_000
"""Maximum number of characters read of a style sheet, or of all styles inside a page."""

MAX_TOKENS = 200_000
"""Maximum number of strings, functions, rules and the like that are read of one style."""

MAX_NAMES = 5_000
"""Maximum number of URLs, distinct as they are written, taken from a page or style sheet."""

_MAX_DEPTH = 64
_NAMING = (
    "img,source[srcset],input[src],link[href],script[src],style,[style],video[poster],image,use,"
    "[background]"
)
_LINKS = frozenset(
    ("stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon")
)
_PRELOADS = frozenset(("preload", "modulepreload"))
_PRELOADED = frozenset((None, "", "style", "script", "font", "image"))
_USES_URL = re.compile(r"url\(|@import|image-set\(", re.IGNORECASE).search
_CHARSET = re.compile(rb'@charset "([^"]{1,40})";').match
_TOKENS = re.compile(
    # The tokens of CSS Syntax that matter here. Each alternative that begins to match either
    # matches or ends where the next may begin, so the time is linear in the length.
    r"/\*.*?(?:\*/|\Z)"
    r"|\"(?P<double>(?:\\.|[^\\\n\"])*+)(?:[\"\n\\]|\Z)"
    r"|'(?P<single>(?:\\.|[^\\\n'])*+)(?:['\n\\]|\Z)"
    r"|(?<![\w-])url\(\s*+(?P<url>(?:\\(?:[0-9a-f]{1,6}\s?|.)|[^\\\"'()\s])++)\s*+\)"
    r"|@(?P<rule>[\w-]++)"
    r"|(?<![\w-])(?P<function>[\w-]*+)\("
    r"|(?P<end>[){};])",
    re.DOTALL | re.IGNORECASE,
).finditer
_ESCAPES = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|\n|(.))", re.DOTALL)
_CANDIDATE = re.compile(r"[\s,]*+(\S+)").match
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?)*+,?").match


def requisites_of_page(body: bytes, url: str, content_type: str = "") -> list[str]:
    """Return the URLs of what an HTML page shows or runs, styles and scripts first; never raises.

    These are the images of `img`, `picture` and SVG (each candidate of a `srcset`), of `poster` and
    `background`; style sheets, icons and preloads; scripts; and what the styles inside the page
    import and name. Frames, sound and video are left out. URLs are resolved as in browsers; only
    http and https are kept. Arguments and cost are about those of `parse_page`.
    """
    html, encoding = decoded(body, content_type)
    base, has_base = parse_url(url), False
    sheets: list[str] = []
    shown: list[str] = []
    room = MAX_STYLE
    for part in pieces(html)[0]:
        tree = LexborHTMLParser(part)
        if tree.root is None:
            continue
        if not has_base and (href := base_in(tree.root)) is not None:
            has_base = True
            base = rebase(base, href)
        open_shadow_roots(tree.css(SHADOW_ROOTS))
        for node in tree.css(_NAMING):
            if len(sheets) + len(shown) > 2 * MAX_NAMES:
                break
            attributes = node.attributes
            (sheets if node.tag in ("link", "script") else shown).extend(
                filter(None, _named_by(node))
            )
            style = node.text() if node.tag == "style" else attributes.get("style") or ""
            if style and _USES_URL(style):
                sheets += islice(_named_in_style(style[:room]), MAX_NAMES)
                room -= min(len(style), room)
    resolver = Resolver(base, encoding, partial(declared_encoding, body, content_type))
    return _resolved(resolver, [*sheets, *shown])


def requisites_of_style(body: bytes, url: str, content_type: str = "") -> list[str]:
    """Return the URLs that a style sheet imports or names, resolved against its own; never raises.

    Its encoding is that of its byte-order mark, its header or its `@charset`; otherwise UTF-8.
    """
    own = _CHARSET(body)
    label = f"charset={own[1].decode('latin-1')}" if own else ""
    encoding = declared_encoding(body[:4], content_type) or declared_encoding(b"", label)
    text = decode(body[: 4 * MAX_STYLE], encoding or "utf-8")
    resolver = Resolver(parse_url(url), "utf-8", lambda: None)
    return _resolved(resolver, _named_in_style(text[:MAX_STYLE]))


def _named_by(node: LexborNode) -> Iterator[str]:
    """Yield the values of an element's attributes that are URLs of requisites."""
    tag, attributes = node.tag, node.attributes
    if tag == "link":
        rels = set((attributes.get("rel") or "").lower().split())
        is_loaded = rels & _PRELOADS and attributes.get("as") in _PRELOADED
        if rels & _LINKS or is_loaded:
            yield attributes.get("href") or ""
            yield from _candidates(attributes.get("imagesrcset") or "")
        return
    if tag in ("img", "input", "script"):
        yield attributes.get("src") or ""
    if tag in ("img", "source"):
        yield from _candidates(attributes.get("srcset") or "")
    if tag in ("image", "use"):
        yield attributes.get("href") or attributes.get("xlink:href") or ""
    if tag == "video":
        yield attributes.get("poster") or ""
    yield attributes.get("background") or ""


def _candidates(srcset: str) -> Iterator[str]:
    """Yield the URLs of a `srcset`, split as the HTML standard does."""
    at = 0
    while found := _CANDIDATE(srcset, at):
        url, at = found[1], found.end()
        if not url.endswith(","):
            descriptors = _DESCRIPTORS(srcset, at)
            at = at if descriptors is None else descriptors.end()
        yield url.rstrip(",")


def _named_in_style(style: str) -> Iterator[str]:
    """Yield what `@import`, `url()` and `image-set()` name, but no name space.

    A list of tokens would take 258 MB for a million characters; this keeps no more than the
    innermost open functions.
    """
    rule, functions = "", deque[str](maxlen=_MAX_DEPTH)
    for token in islice(_TOKENS(style), MAX_TOKENS):
        kind, text = token.lastgroup, token[token.lastgroup or 0]
        if kind == "rule":
            rule = text.lower()
            functions.clear()
        elif kind == "function":
            functions.append(text.lower())
        elif text == ")":
            if functions:
                functions.pop()
        elif kind == "end":
            rule = ""
            functions.clear()
        elif kind is not None and rule != "namespace":
            inside = functions[-1] if functions else rule
            if kind == "url" or inside in ("url", "src", "import") or inside.endswith("image-set"):
                yield _ESCAPES.sub(_unescaped, text)
                rule = "" if rule == "import" else rule


def _unescaped(found: re.Match[str]) -> str:
    """Return the character of an escape of CSS; nothing for one that joins two lines."""
    if not found[1]:
        return found[2] or ""
    code = int(found[1], 16)
    is_valid = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_valid else "\ufffd"


def _resolved(resolver: Resolver, named: Iterable[str]) -> list[str]:
    """Return distinct URLs, in order, without fragments."""
    values: dict[str, None] = {}
    for value in named:
        values[value.strip().partition("#")[0]] = None
        if len(values) >= MAX_NAMES:
            break
    urls = (resolver.resolve(value) for value in values if value)
    return list(dict.fromkeys(filter(None, urls)))


_REQUISITES = SideTable(
    "requisites",
    "id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, page TEXT NOT NULL, "
    "fetched_at REAL, n_bytes INTEGER NOT NULL, remark TEXT NOT NULL",
)
_ADD = """
INSERT OR IGNORE INTO requisites(url, page, n_bytes, remark) SELECT ?, ?, 0, ''
WHERE (SELECT ifnull(max(id), 0) FROM requisites) < ?
"""
_END = "UPDATE requisites SET fetched_at = ?, n_bytes = ?, remark = ? WHERE id = ?"
_END_ARCHIVED = """
UPDATE requisites SET fetched_at = answered.fetched_at, remark = 'archived before' FROM (
    SELECT r.id, max(a.fetched_at) AS fetched_at
    FROM archived a CROSS JOIN requisites r ON r.url = a.url WHERE r.fetched_at IS NULL GROUP BY 1
) answered WHERE answered.id = requisites.id
"""
_NEEDS = "SELECT page, count(*), sum(n_bytes) FROM requisites GROUP BY page"
_WAITING = "SELECT id, url, page FROM requisites WHERE id > ? AND fetched_at IS NULL ORDER BY id"
_MAX_RECENT = 50_000


logger = logging.getLogger("crawlprio")

_OWN = "CRAWLPRIO_REQUISITES"
_AFTER = (
    *("finished", "closespider_pagecount", "closespider_pagecount_no_item"),
    *("closespider_itemcount", COVERED, ENOUGH_PAGES),
)
"""Scrapy's reasons to end a crawl after which requisites are fetched. After any other (Ctrl-C, a
time limit, an error) they wait for a later run."""


class Requisites(SideFetches, TransactionParticipant):
    """Archives the images, styles, scripts, fonts and icons of fetched pages, after the last page.

    What a page needs is recorded with its visit. When the crawl has no more pages, or has reached a
    limit of them, no page is handed out any more. Then the requisites are fetched, and what their
    styles need, each once. No receipt or limit of pages counts them.

    That a requisite is done is recorded in the transaction that also records where the archive has
    the response.
    """

    is_in_workers = True

    asks = f"{_OWN} asks for page requisites"
    is_counted = False

    def __init__(self, crawl: CrawlContext) -> None:
        limit, concurrency = crawl.config.limit, crawl.config.concurrency
        super().__init__(crawl, per_lane=limit or 8, at_once=concurrency or 1_000)
        self._crawler = crawl.crawler
        settings = crawl.crawler.settings
        self._is_anywhere = read_setting(settings, _OWN) == "all"
        self._max_count: int = read_setting(settings, "CRAWLPRIO_MAX_REQUISITES")
        self._max_bytes: int = read_setting(settings, "CRAWLPRIO_MAX_REQUISITE_BYTES")
        self._page_count: int = read_setting(settings, "CRAWLPRIO_MAX_REQUISITES_PER_PAGE")
        self._page_bytes: int = read_setting(settings, "CRAWLPRIO_MAX_REQUISITE_BYTES_PER_PAGE")
        self._db: sqlite3.Connection
        self._path = Path()
        self._named: list[tuple[str, str, int]] = []
        self._ended: list[tuple[float | None, int, str, int]] = []
        self._recent: set[str] = set()
        self._begun = self._is_over = False
        self._last_row = 0
        # Of each page: the requisites that it was the first to need, and their bytes so far.
        self._n_needed, self._n_bytes_of = Counter[str](), Counter[str]()
        self._n_bytes = 0

    def lacks(self, settings: BaseSettings) -> str:
        if self.crawl.tell_coordinator is not None:  # the coordinator has the archive and the store
            return ""
        require_extras(settings)
        if read_setting(settings, "CRAWLPRIO_WARC") is None:
            return "CRAWLPRIO_WARC names no folder to archive them in; name one (--warc FOLDER)"
        return super().lacks(settings)

    def opened(self) -> None:
        self._crawler.signals.connect(self._response_received, signal=signals.response_received)
        store = self.crawl.recorder.store
        if store is None:  # a worker, whose pages are recorded elsewhere
            return
        super().opened()
        self._path = store.path
        store.attach(self)
        for part in self.crawl.parts:
            if isinstance(part, Archiver):
                part.archive.needs = self._name
        engine.before_closing(self._crawler, self._finish)

    def figures(self) -> dict[str, int]:
        n_archived = int(self._crawler.stats.get_value("crawlprio/requisites/fetched", 0))
        return {"page requisites archived": n_archived} if n_archived else {}

    def open(self, cursor: sqlite3.Cursor) -> None:
        self._db = cursor.connection
        _REQUISITES.check(self._db)
        _REQUISITES.create(cursor)

    def write(self, cursor: sqlite3.Cursor) -> None:
        cursor.executemany(_ADD, self._named)
        cursor.executemany(_END, self._ended)

    def committed(self) -> None:
        self._named.clear()
        self._ended.clear()

    def _response_received(self, response: Response, request: Request) -> None:
        """Note what a page needs with its lease, for the transaction of its visit."""
        if request.callback is NO_CALLBACK or not 200 <= response.status < 300:
            return
        kind = type_of(response)
        if not kind.is_html:
            return
        urls = requisites_of_page(response.body, response.url, kind.header)
        urls = self._allowed(urls, response.url, self._page_count)
        lease = self.crawl.lease_of(request)
        if lease is not None and lease.exchange is not None:
            lease.exchange = lease.exchange._replace(requisites=urls)
        elif self.crawl.tell_coordinator is None:  # of a page that a cache answered, say
            self._name(urls, response.url)

    def _name(self, urls: Iterable[str], page: str) -> None:
        """Note what a page needs; a requisite belongs to the first page that needs it."""
        page = normalise_url(page) or page
        if len(self._recent) > _MAX_RECENT:
            self._recent.clear()
        new = [url for url in urls if url not in self._recent]
        self._recent.update(new)
        self._named += [(url, page, self._max_count) for url in new]

    def _allowed(self, urls: list[str], page: str, room: int) -> list[str]:
        """Return the first URLs that a page may need, by their hosts."""
        if not self._is_anywhere:
            domain = registered_domain(host_of(page))
            urls = [url for url in urls if registered_domain(host_of(url)) == domain]
        return urls[: max(room, 0)]

    async def _finish(self, reason: str) -> None:
        """Fetch the requisites before the spider is closed, unless the crawl is to end now."""
        if reason not in _AFTER or not self.crawl.is_running:
            self.fetcher.stop()
        elif not self._begun:
            self._begun = True
            with self.crawl.failing():
                await self._fetch_all()
            self._is_over = True
        while self.fetcher.goes_on and not self._is_over:
            await sleep(LOOK_SECONDS)

    async def _fetch_all(self) -> None:
        """Fetch all requisites, as many at once per host as it may have fetches."""
        engine.hand_out_no_more(self._crawler)
        while self.fetcher.goes_on and engine.is_fetching(self._crawler):
            await sleep(LOOK_SECONDS)
        if not self.fetcher.goes_on:
            return
        self.crawl.recorder.flush()
        with store_errors(self._path):
            self._db.execute(_END_ARCHIVED)
            for page, n, n_bytes in self._db.execute(_NEEDS):
                self._n_needed[str(page)], self._n_bytes_of[str(page)] = int(n), int(n_bytes)
        self._n_bytes = self._n_bytes_of.total()
        n_waiting = self._queue_new()
        is_full = self._n_needed.total() >= self._max_count
        full = "; CRAWLPRIO_MAX_REQUISITES is reached" if is_full else ""
        logger.info("The pages are done; fetching %d page requisites%s.", n_waiting, full)
        while self.fetcher.goes_on and self.is_busy:
            await sleep(LOOK_SECONDS)

    def _queue_new(self) -> int:
        """Queue what was named since the last call; return how many that are."""
        with store_errors(self._path):
            rows = [
                SideRow(int(row), str(url), str(page))
                for row, url, page in self._db.execute(_WAITING, (self._last_row,))
            ]
        if rows:
            self._last_row = rows[-1].number
        self.queue(rows)
        return len(rows)

    def lane(self, row: SideRow) -> str:
        return host_of(row.url)

    def request(self, row: SideRow) -> Request | None:
        bound = self._beyond(row)
        if bound:
            self._end(row, None, 0, f"{bound} is reached")
            self._count("left")
            return None
        kept: list[HttpRecord] = []
        return self.fetcher.request(row.url, dont_redirect=True, **{SIDE_FETCH: kept})

    def _beyond(self, row: SideRow) -> str:
        """Return the setting whose bound forbids to fetch a requisite; empty if none does."""
        if self._n_bytes >= self._max_bytes:
            return "CRAWLPRIO_MAX_REQUISITE_BYTES"
        if self._n_bytes_of[row.owner] >= self._page_bytes:
            return "CRAWLPRIO_MAX_REQUISITE_BYTES_PER_PAGE"
        return ""

    async def fetched(self, row: SideRow, response: Response) -> None:
        """Archive a response, name what it needs, and end its requisite, in one transaction."""
        assert response.request is not None
        for exchange in response.request.meta[SIDE_FETCH]:
            self.crawl.recorder.keep_record(exchange)
        n_bytes, room = len(response.body), self._page_count - self._n_needed[row.owner]
        named = self._allowed(_led_to(response), row.owner, room)
        self._n_needed[row.owner] += len(named)
        self._n_bytes_of[row.owner] += n_bytes
        self._n_bytes += n_bytes
        self._name(named, row.owner)
        is_good = 200 <= response.status < 300
        self._end(row, time(), n_bytes, "" if is_good else f"status {response.status}")
        self._count("fetched")
        if named:
            self._queue_new()

    def failed(self, row: SideRow, cause: str) -> None:
        self._end(row, None, 0, cause)
        self._count("failed")

    def _end(self, row: SideRow, fetched_at: float | None, n_bytes: int, remark: str) -> None:
        """Record what became of a requisite; without a time, a later run fetches it again."""
        self._ended.append((fetched_at, n_bytes, storable(remark), row.number))
        self.crawl.recorder.flush()

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(f"crawlprio/requisites/{name}")


def _led_to(response: Response) -> list[str]:
    """Return what a requisite leads to: the target of a redirect, or what a style sheet needs."""
    location = response.headers.get("Location")
    if location and 300 <= response.status < 400:
        target = location_url(location, response.url)
        return [] if target is None else [target]
    kind = type_of(response)
    if kind.essence != "text/css" or not 200 <= response.status < 300:
        return []
    return requisites_of_style(response.body, response.url, kind.header)
