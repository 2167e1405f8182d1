"""Waiting requests, in the job directory or in memory, and when two mean the same page."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.request import RequestFingerprinter

from crawlprio.store import Store
from crawlprio.store.crawl_state import RequestRow, Source
from crawlprio.web.urls import canonical, without_credentials

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


_canonical = lru_cache(4096)(canonical)
"""Cached: each request is looked up twice, when queued and as a link, and pages repeat links."""


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


class SavedRequests:
    """The waiting requests of a job: on disk, or to be recorded with the next visit.

    The next visit is the one whose callback yields the request. `commit` commits all recorded
    visits. Before that, requests recorded with a visit are not on disk yet, and the request that
    the visit ended still is. The `store` of the job is None until it is created.
    """

    def __init__(self, commit: Callable[[], object], store: Store | None) -> None:
        self._commit = commit
        self.store = store
        self._unsaved: dict[int, RequestRow] = {}
        self._sources: dict[int, Source] = {}
        self._n_before = 0 if store is None else store.last_request
        self._next_number = 1 + self._n_before
        self._repeated: set[int] = set()

    def save(
        self, page: int, request: bytes, number: int | None = None, source: Source | None = None
    ) -> int:
        """Queue a request to be recorded, instead of the one with `number`; return its number.

        `source` is the callback that yields it, if that is to yield it once only.
        """
        if number is None:
            number = self._next_number
            self._next_number += 1
        self._unsaved[number] = RequestRow(number, page, request)
        if source is not None:
            self._sources[number] = source
        return number

    def take_unsaved(self) -> list[RequestRow]:
        """Return the requests to record now; the caller passes them on to the store at once."""
        if not self._unsaved:
            return []
        for number, source in self._sources.items():
            assert self.store is not None
            self.store.marks.add_yielded(source, self._unsaved[number].request)
        self._sources.clear()
        unsaved, self._unsaved = self._unsaved, {}
        return list(unsaved.values())

    def is_unsaved(self, number: int) -> bool:
        """Return whether a request is still to be recorded."""
        return number in self._unsaved

    def is_of_earlier_run(self, number: int) -> bool:
        """Return whether an earlier run saved a request."""
        return number <= self._n_before

    def of_page(self, page: int) -> list[RequestRow]:
        """Return the requests saved for a page, oldest first."""
        assert self.store is not None
        self._commit()
        rows = self.store.requests_of(page)
        return rows + [saved for saved in self._unsaved.values() if saved.page == page]

    def was_yielded(self, source: Source, request: object) -> bool:
        """Return whether a callback yielded this request before a kill, once for each time."""
        if self.store is None or not isinstance(request, bytes):
            return False
        return self.store.marks.was_yielded(source, request)

    def end_source(self, source: Source) -> None:
        """Forget what a callback yielded, once its visit is recorded."""
        if self.store is not None:
            self.store.marks.end_source(source)

    def left_waiting(self, page: int, request: object) -> bool:
        """Return whether an earlier run left this request waiting, once for each that did."""
        if not self._n_before or self.store is None:
            return False
        for number, _, saved in self.of_page(page):
            if self.is_of_earlier_run(number) and saved == request and number not in self._repeated:
                self._repeated.add(number)
                return True
        return False

    def read(self, number: int) -> bytes:
        """Return a saved request by its number."""
        assert self.store is not None
        self._commit()
        unsaved = self._unsaved.get(number)
        return self.store.request(number) if unsaved is None else unsaved.request


class WaitingRequests:
    """Keeps requests by page: higher priority first, then older first.

    Saved requests that are the only ones of their pages take one byte of memory per known page.
    """

    def __init__(self, saved: SavedRequests, priority_of: Callable[[bytes], int]) -> None:
        self._saved = saved
        self._priority_of = priority_of
        self._heaps: dict[int, list[_Waiting]] = {}
        self._alone = bytearray()
        self._n_added = 0
        self.n_more = 0
        """Number of requests that wait behind another one for the same page."""

    def has(self, page: int) -> bool:
        """Return whether a request waits for a page."""
        return page in self._heaps or self._is_alone(page)

    def add(self, page: int, priority: int, request: object | None, number: int | None) -> None:
        """Add another request for a page; None stands for the saved one with this number."""
        heap = self._heaps.setdefault(page, [])
        if self._is_alone(page):
            self._alone[page] = 0
            saved = self._saved.of_page(page)[0]
            self._push(heap, self._priority_of(saved.request), None, saved.number)
        self.n_more += bool(heap)
        self._push(heap, priority, request, number)

    def add_saved(self, page: int) -> None:
        """Add the saved request of a page that has no other, waiting or leased."""
        if page >= len(self._alone):
            room = max(page + 1, 2 * len(self._alone)) - len(self._alone)
            self._alone.extend(bytes(room))
        self._alone[page] = 1

    def pop(self, page: int) -> tuple[object | None, int | None]:
        """Remove a page's first request; return it and its number, each None if there is none."""
        if self._is_alone(page):
            self._alone[page] = 0
            saved = self._saved.of_page(page)[0]
            return saved.request, saved.number
        heap = self._heaps.get(page)
        if heap is None:
            return None, None
        _, _, number, request = heappop(heap)
        if heap:
            self.n_more -= 1
        else:
            del self._heaps[page]
        if request is None and number is not None:
            request = self._saved.read(number)
        return request, number

    def take(self, page: int, number: int) -> object | None:
        """Remove the saved request of a page with this number; None if it does not wait."""
        if self._is_alone(page):
            saved = self._saved.of_page(page)[0]
            if saved.number != number:
                return None
            self._alone[page] = 0
            return saved.request
        heap = self._heaps.get(page, [])
        found = next((waiting for waiting in heap if waiting[2] == number), None)
        if found is None:
            return None
        heap.remove(found)
        heapify(heap)
        if heap:
            self.n_more -= 1
        else:
            del self._heaps[page]
        return self._saved.read(number)

    def next_priority(self, page: int) -> int | None:
        """Return the priority of the first request of a page; None without one."""
        heap = self._heaps.get(page)
        return -heap[0][0] if heap else None

    def _push(
        self, heap: list[_Waiting], priority: int, request: object | None, number: int | None
    ) -> None:
        self._n_added += 1
        heappush(heap, (-priority, self._n_added, number, request))

    def _is_alone(self, page: int) -> bool:
        return page < len(self._alone) and self._alone[page] == 1
