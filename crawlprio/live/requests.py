"""Waiting requests, when two mean the same page, and what is sent for a plain one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.request import RequestFingerprinter

from crawlprio.frontier.protocol import LeasedPage, QueueEntry
from crawlprio.live.request_json import Unheld, why_unheld
from crawlprio.store import Store
from crawlprio.store.crawl_state import RequestRow
from crawlprio.store.pending import Pending, Source
from crawlprio.web.urls import are_canonical, canonical, without_credentials

logger = logging.getLogger("crawlprio")

_canonical = lru_cache(4096)(canonical)
"""Cached: each request is looked up twice, when queued and as a link, and pages repeat links."""


USAGES: WeakKeyDictionary[Request, str] = WeakKeyDictionary()
"""By request, the preferences of robots.txt on the use of its page."""


class Identities:
    """Maps requests and links to the string that identifies their page in the page table.

    With Scrapy's own fingerprinter a plain GET is identified by its canonical URL, which needs no
    hash. Any other request, and one with a user name in its URL, is identified by its fingerprint.
    Links are identified without user name and password. With another fingerprinter, everything is
    identified by fingerprint.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._fingerprinter = crawler.request_fingerprinter
        self._by_url = type(self._fingerprinter) is RequestFingerprinter

    def of_url(self, url: str) -> str:
        """Return the identity of the page that a plain link to `url` leads to."""
        if not self._by_url:
            return self.of_request(Request(url))
        return _canonical(url)

    def are_own(self, urls: Sequence[str]) -> bool:
        """Return whether all are obviously URLs of pages, each its own identity."""
        return self._by_url and are_canonical(urls)

    def of_request(self, request: Request) -> str:
        """Return the identity of the page that a request fetches."""
        url = request.url
        is_plain = self._by_url and request.method == "GET" and not request.body
        if is_plain and ("@" not in url or without_credentials(url) == url):
            return _canonical(url)
        return "fingerprint:" + self._fingerprinter.fingerprint(request).hex()


def forget_inherited(request: Request) -> None:
    """Remove what a request inherited from the fetch that led to it: the latency, and a slot.

    Scrapy's downloader writes both into `meta` and a redirect copies them, so the fetch would count
    towards the wrong host, and a saved request would not be known again when it is made again.
    """
    request.meta.pop("download_latency", None)
    slot = request.meta.get("download_slot")
    urls = request.meta.get("redirect_urls")
    if slot and urls and slot == urlparse_cached(Request(urls[-1])).hostname:
        del request.meta["download_slot"]


_Waiting = tuple[int, int, int | None, object]


class WaitingRequests:
    """Keeps requests by page, higher priority first, then older first, and saves them in the store.

    Those of a running callback may be on disk before its visit is, and are recognised after a kill.
    Saved requests that are the only ones of their pages take one byte of memory per known page.
    `store_of` returns the store: None until it is created, and if nothing is recorded. It `saves`
    requests if a later run may resume this one. `unheld` has the saved rows of requests of an
    earlier run that JSON could not hold, by page.
    """

    def __init__(
        self,
        store_of: Callable[[], Store | None],
        priority_of: Callable[[bytes], int],
        *,
        saves: bool,
    ) -> None:
        self._store_of = store_of
        self._saves = saves
        self.unheld: dict[int, list[RequestRow]] = {}
        # As in Scrapy, a request with dont_filter does not make later ones without it duplicates.
        self._unfiltered: set[int] = set()
        self.priority_of = priority_of
        self._heaps: dict[int, list[_Waiting]] = {}
        self._alone = bytearray()
        self._n_added = 0
        self.n_more = 0
        """Number of requests that wait behind another one for the same page."""
        self._n_before = 0 if self._store is None else self._store.last_request
        self._next_number = 1 + self._n_before
        self._repeated: set[int] = set()
        self._left: dict[int, int] = {}

    def has(self, page: int) -> bool:
        """Return whether a request waits for a page."""
        return page in self._heaps or self._is_alone(page)

    def is_unfiltered(self, page: int) -> bool:
        """Return whether a known page is still new to requests without dont_filter."""
        return page in self._unfiltered

    def set_unfiltered(self, page: int, unfiltered: bool) -> None:
        """Set whether a known page is still new to requests without dont_filter."""
        if unfiltered:
            self._unfiltered.add(page)
        else:
            self._unfiltered.discard(page)
        if self._saves and self._store is not None:
            self._pending.unfiltered.set(page, unfiltered)

    def keep(
        self,
        page: int,
        entry: QueueEntry,
        source: LeasedPage | None,
        *,
        is_alone: bool,
        is_again: bool,
    ) -> None:
        """Keep the request of an entry until its page is handed out, and save it.

        One that each run makes again is not saved. It `is_alone` if its page waits for no other.
        `source` is the lease whose callback yields it, if that is to yield it once only.
        """
        request, saves = entry.request, self._saves and not is_again
        self.forget_unheld(page)
        if isinstance(request, Unheld):
            number = self.save(page, request.row) if saves else None
            self.add(page, entry.priority, request.request, number)
        elif isinstance(request, bytes) and saves:
            number = self.save(page, request)
            if source is not None:
                self._pending.yielded.add(source.mark, request)
            if is_alone:
                self._add_saved(page)
            else:
                self.add(page, entry.priority, None, number)
        elif request is not None or not is_alone:
            self.add(page, entry.priority, request, None)

    def restore(self, rows: Iterable[RequestRow]) -> list[int]:
        """Keep the requests that an earlier run saved and did not finish; return their pages."""
        pages = []
        for saved in rows:
            page = saved.page
            pages.append(page)
            if saved.is_unheld:
                self.unheld.setdefault(page, []).append(saved)
            elif self.has(page):
                self.add(page, self.priority_of(saved.request), None, saved.number)
            else:
                self._add_saved(page)
        if unheld := [row for rows in self.unheld.values() for row in rows]:
            logger.warning(
                "%d of the requests that waited could not be stored, and will not be sent; the "
                "first is %s",
                len(unheld),
                why_unheld(min(unheld).request),
            )
        if self._store is not None:
            self._unfiltered.update(self._store.unfiltered())
        return pages

    def forget_unheld(self, page: int) -> None:
        """Forget what JSON could not hold of an earlier run, as the page was asked for again."""
        for row in self.unheld.pop(page, ()):
            self._pending.end_request(row.number, row.page)

    def add(self, page: int, priority: int, request: object | None, number: int | None) -> None:
        """Add another request for a page; None stands for the saved one with this number."""
        heap = self._heaps.setdefault(page, [])
        if self._is_alone(page):
            self._alone[page] = 0
            saved = self._saved_for(page)[0]
            self._push(heap, self.priority_of(saved.request), None, saved.number)
        self.n_more += bool(heap)
        self._push(heap, priority, request, number)

    def _add_saved(self, page: int) -> None:
        """Add the saved request of a page that has no other, waiting or leased."""
        if page >= len(self._alone):
            room = max(page + 1, 2 * len(self._alone)) - len(self._alone)
            self._alone.extend(bytes(room))
        self._alone[page] = 1

    def pop(self, page: int) -> tuple[object | None, int | None]:
        """Remove a page's first request; return it and its number, each None if there is none."""
        if self._is_alone(page):
            self._alone[page] = 0
            saved = self._saved_for(page)[0]
            self._leave(page, saved.request, saved.number)
            return saved.request, saved.number
        heap = self._heaps.get(page)
        if heap is None:
            return None, None
        first = heappop(heap)
        request = self._taken(page, heap, first)
        self._leave(page, request, first[2])
        return request, first[2]

    def take(self, page: int, number: int) -> object | None:
        """Remove the saved request of a page with this number; None if it does not wait."""
        if self._is_alone(page):
            saved = self._saved_for(page)[0]
            if saved.number != number:
                return None
            self._alone[page] = 0
            return saved.request
        heap = self._heaps.get(page, [])
        waiting = next((row for row in heap if row[2] == number), None)
        if waiting is None:
            return None
        heap.remove(waiting)
        heapify(heap)
        return self._taken(page, heap, waiting)

    def next_priority(self, page: int) -> int | None:
        """Return the priority of the first request of a page; None without one."""
        heap = self._heaps.get(page)
        return -heap[0][0] if heap else None

    def save(self, page: int, request: bytes, number: int | None = None) -> int:
        """Save a request, instead of the one with `number`; return its number."""
        if number is None:
            number = self._next_number
            self._next_number += 1
        self._pending.put_request(number, page, request)
        return number

    def is_of_earlier_run(self, number: int) -> bool:
        """Return whether an earlier run saved a request."""
        return number <= self._n_before

    def was_yielded(self, source: Source, request: object) -> bool:
        """Return whether a callback yielded this request before a kill, once for each time."""
        if self._store is None or not isinstance(request, bytes):
            return False
        return self._pending.yielded.recognises(source, request)

    def left_waiting(self, page: int, request: object) -> bool:
        """Return whether an earlier run left this request waiting, once for each that did."""
        if not self._n_before or self._store is None:
            return False
        for number, _, saved in self._saved_for(page):
            if self.is_of_earlier_run(number) and saved == request and number not in self._repeated:
                self._repeated.add(number)
                self._left.pop(number, None)
                return True
        key = hash((page, request))
        number = next((number for number, left in self._left.items() if left == key), 0)
        return self._left.pop(number, None) is not None

    @property
    def _store(self) -> Store | None:
        return self._store_of()

    @property
    def _pending(self) -> Pending:
        assert self._store is not None, "nothing is recorded"
        return self._store.pending

    def _saved_for(self, page: int) -> list[RequestRow]:
        """Return the requests saved for a page, oldest first."""
        assert self._store is not None, "nothing is recorded"
        rows = {row.number: row for row in self._store.requests_of(page)}
        rows |= {row.number: row for row in self._pending.requests.values() if row.page == page}
        return [row for _, row in sorted(rows.items()) if row.request and not row.is_unheld]

    def _push(
        self, heap: list[_Waiting], priority: int, request: object | None, number: int | None
    ) -> None:
        self._n_added += 1
        heappush(heap, (-priority, self._n_added, number, request))

    def _taken(self, page: int, heap: list[_Waiting], waiting: _Waiting) -> object | None:
        """Return the request of a row that was removed from the heap of its page."""
        if heap:
            self.n_more -= 1
        else:
            del self._heaps[page]
        _, _, number, request = waiting
        if request is None and number is not None:
            pending = self._pending.requests.get(number)
            assert self._store is not None
            request = self._store.request(number) if pending is None else pending.request
        return request

    def _leave(self, page: int, request: object | None, number: int | None) -> None:
        """Remember a request with `dont_filter` of an earlier run, which `start` may repeat."""
        if number is None or not self.is_of_earlier_run(number) or number in self._repeated:
            return
        if isinstance(request, bytes) and b'"dont_filter":' in request:
            self._left[number] = hash((page, request))

    def _is_alone(self, page: int) -> bool:
        return page < len(self._alone) and self._alone[page] == 1


IS_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
OF_CONNECTION = frozenset(
    b"Connection Content-Length Keep-Alive Proxy-Connection Te Trailers Transfer-Encoding "
    b"Upgrade".split()
)
"""The fields that say how a message is sent."""

_NOT_PLAIN = OF_CONNECTION | {b"Expect", b"Proxy-Authorization"}
# All parsers agree on the host of such a URL.
_PLAIN_URL = re.compile(
    r"http(s?)://([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?\.?|\[[0-9a-f:.]+\])"
    r"(?::([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}))?(/[!\"$-~]*)?(?:#.*)?",
    re.DOTALL,
).fullmatch


class PlainRequest(NamedTuple):
    """A request that needs nothing but a connection, and the bytes that are `sent` for it."""

    is_tls: bool
    host: str
    port: int
    sent: bytes

    @property
    def server(self) -> tuple[bool, str, int]:
        return self[:3]


def plain_request(request: Request) -> PlainRequest | None:
    """Return what to send for a GET or HEAD; None if Twisted's client must see to it.

    It must if there is a body, a proxy or a bind address, or if URL or headers are unusual.
    """
    meta, headers = request.meta, request.headers
    url = _PLAIN_URL(request.url)
    if url is None or request.method not in ("GET", "HEAD") or request.body:
        return None
    if meta.get("proxy") or meta.get("bindaddress") or not _NOT_PLAIN.isdisjoint(headers):
        return None
    is_tls, host = bool(url[1]), url[2]
    usual = 443 if is_tls else 80
    port = int(url[3] or usual)
    lines = [f"{request.method} {url[4] or '/'} HTTP/1.1".encode()]
    if b"Host" not in headers:
        lines += [f"Host: {host if port == usual else f'{host}:{port}'}".encode()]
    lines += [b"%b: %b" % (name, value) for name in headers for value in headers.getlist(name)]
    sent = b"\r\n".join([*lines, b"", b""])
    is_plain = sent.count(b"\n") == sent.count(b"\r") == len(lines) + 1
    if not is_plain or not all(map(IS_TOKEN, headers)):
        return None
    return PlainRequest(is_tls, host.strip("[]"), port, sent)
