"""A crawl that keeps bodies and texts of so many pages only: the limited buffer of Cho et al."""

from __future__ import annotations

import heapq
import sqlite3
from functools import partial

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.ranking.pagerank import with_room
from crawlprio.settings_table.config import read_setting
from crawlprio.store import TransactionParticipant
from crawlprio.store.side_tables import BODIES, NOTES

_OWN = "CRAWLPRIO_BUFFER"


class KeptPages(CrawlPart, TransactionParticipant):
    """Keeps the bodies and texts of so many pages, those with most links from fetched pages.

    Each page that answers enters the buffer. If it is full, the page with the fewest links from
    pages fetched so far is dropped, of several the one fetched last, which may be the new one. Its
    visit and links stay, so the order of the crawl does not depend on the buffer.

    What is dropped leaves the store with a later visit, or at the end. After a kill, the resumed
    crawl drops the same pages.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, section
    3, which leaves open how the crawler guesses I(P); here by IB'(P). `limited_buffer` in
    `crawlprio.measure.crawl_models` computes P_BC of what it keeps, and of other guesses. O(log B)
    per page and O(1) per link; 4 bytes per known page, some 300 per page kept.
    """

    keeps = True
    is_in_workers = True

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        read, config = partial(read_setting, crawl.crawler.settings), crawl.config
        self._size: int = read(_OWN)
        keeps_any = config.keeps_bodies or read("CRAWLPRIO_KEEP_TEXT")
        if config.store_path is not None and not keeps_any:
            raise ConfigError(
                f"{_OWN} is {self._size}, but this crawl keeps nothing that it could drop; set "
                "CRAWLPRIO_BODIES or CRAWLPRIO_KEEP_TEXT."
            )
        if config.topic is not None or config.value_model is not None:
            raise ConfigError(
                f"{_OWN} is {self._size}, but a crawl with TOPIC or CRAWLPRIO_VALUE needs all "
                "texts to resume; leave one of them out."
            )
        self._links = np.zeros(0, dtype=np.int32)
        self._is_fetched = np.zeros(0, dtype=np.bool_)
        self._heap: list[tuple[int, int, int]] = []
        self._held: set[int] = set()
        self._n_entered = 0
        self._dropped: list[int] = []
        self._visits: dict[int, list[int]] = {}
        self._last_visit = 0

    def opened(self) -> None:
        store = self.crawl.recorder.store
        if store is not None:
            store.attach(self)

    def visited(self, visit: Visit) -> None:
        page, targets = visit.page, visit.targets
        if page == NO_PAGE:
            return
        most = max(page, int(targets.max(initial=0))) + 1
        self._links = with_room(self._links, most)
        self._is_fetched = with_room(self._is_fetched, most)
        if not self._is_fetched[page]:
            self._is_fetched[page] = True
            self._links[targets] += 1
        if visit.status and page not in self._held:
            self._enter(page)

    def _enter(self, page: int) -> None:
        """Take a page into the buffer, and drop one if there are too many."""
        # Links only become more, so those in the heap are lower bounds: the first page is brought
        # up to date until it has the fewest.
        heap = self._heap
        while len(heap) == self._size and heap[0][0] < self._links[heap[0][2]]:
            _, place, first = heap[0]
            heapq.heapreplace(heap, (int(self._links[first]), place, first))
        self._n_entered += 1
        heapq.heappush(heap, (int(self._links[page]), -self._n_entered, page))
        self._held.add(page)
        if len(heap) > self._size:
            *_, dropped = heapq.heappop(heap)
            self._held.remove(dropped)
            self._dropped.append(dropped)

    def closed(self, reason: str) -> None:
        recorder = self.crawl.recorder
        if recorder.store is not None and not recorder.has_failed:
            recorder.flush()  # the last visits
            recorder.flush()  # what they crowded out

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Delete what was kept of dropped pages, as far as their visits are on disk."""
        known = cursor.execute(
            "SELECT seq, page FROM visits WHERE seq > ? ORDER BY seq", (self._last_visit,)
        )
        for visit, page in known.fetchall():
            self._visits.setdefault(page, []).append(visit)
            self._last_visit = visit
        gone = [page for page in self._dropped if page in self._visits]
        self._dropped = [page for page in self._dropped if page not in self._visits]
        rows = [(visit,) for page in gone for visit in self._visits.pop(page)]
        cursor.executemany("UPDATE visits SET text = NULL WHERE seq = ?", rows)
        for table in (BODIES, NOTES):
            if rows and table.exists(cursor):
                cursor.executemany(f"DELETE FROM {table.name} WHERE {table.key} = ?", rows)
