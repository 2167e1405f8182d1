"""An update: a run that fetches known pages again, those first whose fetch gains most.

A pass is a run. A check that found nothing new is no visit: it replaces the row of its page in the
table `revisits`. So all readers of a store see the current version of each page.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from time import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro

from crawlprio.errors import ConfigError, CrawlprioError, StoreError
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.items import LinkPairs, content_hash
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.live.side_fetches import LOOK_SECONDS
from crawlprio.live.sitemap_files import Sitemaps
from crawlprio.plugins.update import gain
from crawlprio.plugins.update.conditional import COPIES, EARLIER, HEADERS, conditional, copy_of
from crawlprio.plugins.update.sameness import MOST_SITES, SAMPLE, SiteCounts, unpacked
from crawlprio.ranking.pagerank import partial_pagerank
from crawlprio.settings_table.config import read_setting
from crawlprio.store import Store
from crawlprio.store.files import store_errors
from crawlprio.store.outcomes import failure_of
from crawlprio.store.reader import StoreReader
from crawlprio.store.side_tables import SideTable
from crawlprio.web.anchors import ParsedPage

Floats = NDArray[np.float64]

REVISITS = SideTable(
    "revisits",
    "page INTEGER PRIMARY KEY, checked_at REAL NOT NULL, n_checks INTEGER NOT NULL, "
    "exposure REAL NOT NULL, n_changes INTEGER NOT NULL, n_new_links INTEGER NOT NULL, "
    "n_failures INTEGER NOT NULL, n_told INTEGER NOT NULL, n_true INTEGER NOT NULL, "
    "lastmod TEXT NOT NULL, etag TEXT NOT NULL, modified TEXT NOT NULL, "
    "blocks BLOB NOT NULL, request TEXT",
)

REVISIONS = SideTable.of_visits("revisions", "what TEXT NOT NULL")
"""What changed in a known page, by its visit: title, text (or body), links, some of these."""

NOT_MODIFIED = 304

MOST_FAILURES = 3
"""Checks in a row that may fail before a page counts as gone."""

PASSES = "passes"
"""The key in `meta`: a list of passes."""


class Pass(NamedTuple):
    """A run that crawled, or updated what earlier ones had crawled.

    `first`: number of its first visit. `began`: Unix time. `asked`: `crawl` for what was crawled
    before the first update, else `changed` or `new`. `n_checks`: fetches that found a page as it
    was, or failed. `n_changed`, `n_new`, `n_gone`: pages. The next update goes on with one that is
    not over. `fresh`: freshness at its start.
    """

    first: int
    began: float
    asked: str
    n_checks: int = 0
    n_changed: int = 0
    n_new: int = 0
    n_gone: int = 0
    is_over: bool = False
    fresh: float = 1.0


def read_passes(store: StoreReader) -> list[Pass]:
    """Return the passes of a crawl, oldest first; one of a crawl that was never updated."""
    try:
        passes = [Pass(*row) for row in json.loads(store.get_meta(PASSES, "[]"))]
        valid = all(type(each.first) is int and each.began >= 0 for each in passes)
    except (ValueError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise StoreError(f"{store.path}: its passes are damaged; restore a backup.")
    if not passes:
        visits = store.visits(texts=False, anchors=False, history=True)
        began = next((visit.fetched_at for visit in visits), 0.0)
        passes.append(Pass(1, began, "crawl", is_over=True))
    return passes


class Known(NamedTuple):
    """The row of a page in `revisits`."""

    page: int
    checked_at: float
    n_checks: int = 0
    exposure: float = 0.0
    n_changes: int = 0
    n_new_links: int = 0
    n_failures: int = 0
    n_told: int = 0
    n_true: int = 0
    lastmod: str = ""
    etag: str = ""
    modified: str = ""
    blocks: bytes = b""
    request: str | None = None


def read_versions(store: Store, n_pages: int) -> tuple[NDArray[Any], ...]:
    """Return four arrays by page, from the visits.

    The number of the visit that is its current version, 0 for none; when that was, NaN for none;
    its PageRank by the links of these versions; and whether it has led to others, whatever it is
    now. O(visits + links), 4 s for a million with five links each.
    """
    groups = [*store.visit_columns()]
    names = ("pages", "numbers", "fetched_at", "targets")
    pages, numbers, fetched_at, targets = (
        np.concatenate([getattr(group, name) for group in groups]) for name in names
    )
    n_links = np.concatenate([np.diff(group.begins) for group in groups])
    begins = np.concatenate([[0], np.cumsum(n_links)])
    visits = np.flatnonzero(pages >= 0)
    last = np.full(n_pages, -1, np.int64)
    last[pages[visits]] = visits  # of several visits, the last one stays
    is_fetched = last >= 0
    degrees = np.where(is_fetched, n_links[last], 0)
    # Ids follow the order of discovery, so a link leads to a new page if it is above all before.
    is_new = targets > np.maximum.accumulate(np.append(NO_PAGE, targets[:-1]))
    leaders = np.repeat(pages, n_links)[is_new]
    return (
        np.where(is_fetched, numbers[last], 0),
        np.where(is_fetched, fetched_at[last], np.nan),
        partial_pagerank(begins[last], degrees, targets, relative_tolerance=math.inf),
        np.bincount(leaders[leaders >= 0], minlength=n_pages) > 0,
    )


class Revisits:
    """The rows of pages, written as a `TransactionParticipant` of the store.

    `current` has the number of each page's last visit, 0 for a page without one; `changed` the rows
    by page that the next transaction writes.
    """

    def __init__(self, store: Store, n_pages: int) -> None:
        self._store = store
        self._db: sqlite3.Connection
        self.current = np.zeros(n_pages, np.int64)
        self.changed: dict[int, Known] = {}

    def open(self, cursor: sqlite3.Cursor) -> None:
        REVISITS.create(cursor)
        self._db = cursor.connection
        REVISITS.check(self._db)

    def write(self, cursor: sqlite3.Cursor) -> None:
        REVISITS.put(cursor, [*self.changed.values()])

    def committed(self) -> None:
        self.changed.clear()

    def sync(self) -> None:
        """Do nothing: updates write no file of their own."""

    def of(self, page: int) -> Known | None:
        """Return the row of a page, None if it was never fetched."""
        if page in self.changed:
            return self.changed[page]
        with store_errors(self._store.path):
            found = self._db.execute("SELECT * FROM revisits WHERE page = ?", (page,)).fetchone()
        return None if found is None else Known(*found)

    def version(self, page: int) -> Visit | None:
        """Return the current version of a page; None if it has none on disk."""
        if page >= len(self.current):
            self.current = np.append(self.current, np.zeros(page + 1, np.int64))
        n = int(self.current[page])
        visits = self._store.visits(anchors=False, history=True, after=n - 1, until=n, beside=())
        return next(visits, None)

    def load(self, fetched_at: Floats, lastmods: Mapping[int, str]) -> Floats:
        """Return as rows when each page was checked, NaN for never, and what `gain.History` counts.

        `lastmods`: what sitemaps say of pages now.
        """
        known = np.zeros((8, len(fetched_at)))
        known[0] = fetched_at
        counts = "n_checks, exposure, n_changes, n_new_links, n_told, n_true"
        with store_errors(self._store.path):
            rows = self._db.execute(f"SELECT page, checked_at, 0, {counts} FROM revisits")
            flat = np.fromiter(chain.from_iterable(rows), np.float64).reshape(-1, 9)
            told = self._db.execute("SELECT page, lastmod FROM revisits WHERE lastmod <> ''")
            signalled = [page for page, then in told if lastmods.get(page, then) != then]
        known[:, flat[:, 0].astype(np.int64)] = flat[:, 1:].T
        known[1, signalled] = 1
        return known


class Updates(CrawlPart):
    """Fetches the pages of a crawl again, and keeps what the next update needs to know.

    In the first run of a crawl it only keeps. In a worker, it only makes requests conditional. It
    is the outermost downloader middleware, so that it sees bodies decoded.
    """

    keeps = True
    is_in_workers = True
    tables = (COPIES, REVISIONS)

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        self._asks: str = read_setting(crawl.crawler.settings, "CRAWLPRIO_UPDATE")
        self._is_update = False
        self._found = Counter(n_changed=0, n_new=0, n_gone=0)
        self._lastmods: dict[int, str] = {}
        self._counts_of = lru_cache(MOST_SITES)(self._count_site)

    def opened(self) -> None:
        crawl, recorder = self.crawl, self.crawl.recorder
        engine.add_middleware(
            crawl.crawler, "DOWNLOADER_MIDDLEWARES", type(self), is_outermost=True
        )
        store, frontier = recorder.store, crawl.local_frontier
        if store is None and frontier is None:
            return  # a worker
        if store is None or not recorder.saves_requests or frontier is None:
            raise ConfigError(
                f"CRAWLPRIO_UPDATE is {self._asks!r}, but there is no crawl to update; set JOBDIR "
                "to the folder of one, and leave SCHEDULER and CRAWLPRIO_STORE to crawlprio."
            )
        self._store, self._frontier, self._n_before = store, frontier, len(recorder.pages)
        self._revisits = Revisits(store, self._n_before)
        store.attach(self._revisits)
        self._passes = read_passes(store)
        if recorder.resumes and store.n_visits:
            self._begin_pass()
        frontier.rechecks = self

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Updates:
        return next(part for part in CrawlContext.of(crawler).parts if isinstance(part, cls))

    def process_request(self, request: Request) -> None:
        """Send no validators of a page to where it redirects."""
        if EARLIER in request.meta and "redirect_urls" in request.meta:
            del request.meta[EARLIER]
            for name in HEADERS:
                request.headers.pop(name, None)

    def process_response(self, request: Request, response: Response) -> Response:
        """End the fetch of a page that is as it was: neither callback nor errback is called."""
        lease = self.crawl.lease_of(request)
        if lease is not None and EARLIER in request.meta:
            is_same = content_hash(response.body) == request.meta[EARLIER]
            if (is_same and response.status // 100 == 2) or response.status == NOT_MODIFIED:
                lease.status = NOT_MODIFIED
                request.errback = None
                raise IgnoreRequest("the page is as it was")
        return response

    def read(self, pairs: LinkPairs, response: Response, page: ParsedPage) -> None:
        if 200 <= pairs.status < 300:
            pairs.extras[COPIES.name] = copy_of(response)

    def figures(self) -> Mapping[str, str | float]:
        """Return rows for the table at the end of the crawl."""
        if not self._is_update:
            return {}
        found = {f"pages {name.removeprefix('n_')}": n for name, n in self._found.items()}
        return {"pages as they were": self.crawl.recorder.figures.n_checks} | found

    def _begin_pass(self) -> None:
        """Begin a pass, or go on with one that was killed: queue the pages not checked in it."""
        if self._passes[-1].is_over:
            self._passes.append(Pass(self._store.next_seq, time(), self._asks))
        self._write_passes()
        self._is_update = self._frontier.counts_failures = True
        sitemaps = next((part for part in self.crawl.parts if isinstance(part, Sitemaps)), None)
        if sitemaps is None or not sitemaps.is_busy:
            self._fetch_again()
        else:
            deferred_from_coro(self._fetch_again_after(sitemaps))

    async def _fetch_again_after(self, sitemaps: Sitemaps) -> None:
        """Wait until the sitemaps are read, whose signals count for this pass."""

        def stay_open() -> None:
            raise DontCloseSpider

        crawler = self.crawl.crawler
        crawler.signals.connect(stay_open, signal=signals.spider_idle)
        while sitemaps.is_busy and sitemaps.fetcher.goes_on:
            await engine.sleep(LOOK_SECONDS)
        crawler.signals.disconnect(stay_open, signal=signals.spider_idle)
        try:
            if self.crawl.is_running:
                self.crawl.recorder.flush()
                self._fetch_again()
                engine.wake(crawler)
        except CrawlprioError as error:
            self.crawl.fail(error)

    def _fetch_again(self) -> None:
        """Queue the pages not checked in this pass, by what their fetch gained when it began."""
        last, pages = self._passes[-1], self.crawl.recorder.pages
        versions = read_versions(self._store, len(pages))
        self._revisits.current, fetched_at, importance, leads = versions
        self._lastmods = dict(self._store.sitemaps().lastmods())
        checked_at, *counts = self._revisits.load(fetched_at, self._lastmods)
        ages = np.maximum(last.began - checked_at, 0) / gain.DAY
        history = gain.History(ages, *counts)
        keys, usual, fresh = gain.gains(history, importance, pages.sites)
        if last.first == self._store.next_seq:
            self._passes[-1] = last._replace(fresh=fresh)
            self._write_passes()
        is_due = checked_at < last.began
        if self._asks == "new":
            is_due &= leads
            w_new = gain.NEW_SHARE / len(pages)
            keys = np.where(np.isnan(ages), keys, w_new * gain.hub_gains(history, ages))
        self._frontier.fetch_again(np.flatnonzero(is_due), keys - usual)

    def _count_site(self, site: int) -> SiteCounts:
        """Count some copies that are held of pages of a site, spread over all of them."""
        held = np.flatnonzero(self._revisits.current[: self._n_before])
        pages = held[self.crawl.recorder.pages.sites[held] == site]
        known = map(self._revisits.of, pages[:: max(len(pages) // SAMPLE, 1)].tolist())
        return SiteCounts((row.page, unpacked(row.blocks)) for row in known if row and row.blocks)

    def request_for(self, page: int, request: object | None) -> object | None:
        known = self._revisits.of(page) if self._is_update else None
        if known is None or not (request is None or isinstance(request, bytes)):
            return request
        if request is None and known.request is not None:
            request = known.request.encode()
        version = self._revisits.version(page)
        if version is None or version.status // 100 != 2:
            return request
        pages = self.crawl.recorder.pages
        plain = pages.url(page), int(pages.depths[page])
        return conditional(request, *plain, known.etag, known.modified, version.content_hash)

    def is_check(self, page: int, request: object | None, visit: Visit) -> bool:
        assert isinstance(visit.extras, dict)
        copy = dict(zip(COPIES.types, visit.extras.pop(COPIES.name, ()), strict=False))
        version = self._revisits.version(page)
        known = self._revisits.of(page) or Known(page, (version or visit).fetched_at)
        days = max(visit.fetched_at - known.checked_at, 0.0) / gain.DAY
        row = known._replace(checked_at=visit.fetched_at)
        if isinstance(request, bytes):
            row = row._replace(request=request.decode())
        may_pass = visit.status in (0, 429) or visit.status >= 500
        what = ""
        if version is None:
            self._found["n_new"] += self._is_update
            row = row._replace(**copy)
        elif self._is_update and may_pass and known.n_failures + 1 < MOST_FAILURES:
            row = row._replace(n_failures=known.n_failures + 1)
        else:
            what = self._news(version, visit, known.blocks, copy.get("blocks", b""))
            lastmod = self._lastmods.get(page, known.lastmod)
            was_told = bool(known.lastmod) and known.lastmod != lastmod
            # Pages on disk are those that this visit has not just led to.
            n_new = int(np.count_nonzero(visit.targets >= self._store.n_pages)) if what else 0
            row = row._replace(
                n_checks=known.n_checks + 1,
                exposure=known.exposure + (days / 2 if what else days),
                n_changes=known.n_changes + bool(what),
                n_new_links=known.n_new_links + n_new,
                n_failures=0,
                n_told=known.n_told + was_told,
                n_true=known.n_true + (was_told and bool(what)),
                lastmod=lastmod,
                **copy,
            )
        self._revisits.changed[page] = row
        if version is not None and not what:
            return True
        if what:
            self._found["n_gone" if failure_of(visit) else "n_changed"] += 1
            visit.extras[REVISIONS.name] = (what,)
        self._revisits.current[page] = self._store.next_seq
        return False

    def _news(self, version: Visit, visit: Visit, old: bytes, new: bytes) -> str:
        """Return in words how a visit differs from a version with blocks `old` of its page."""
        if visit.status == NOT_MODIFIED:
            return ""
        if (visit.status, visit.error) != (version.status, version.error):
            return "status"
        if failure_of(visit):
            return ""
        site = int(self.crawl.recorder.pages.sites[visit.page])
        is_same_text = visit.content_hash == version.content_hash or (
            self._counts_of(site).is_same(visit.page, unpacked(old), unpacked(new))
            if old and new
            else bool(version.text) and visit.text == version.text
        )
        links, earlier = (
            {*each.targets.tolist(), *(url for url, _ in each.outside)} for each in (visit, version)
        )
        found = {
            "title": visit.title != version.title,
            "text" if old or version.text else "body": not is_same_text,
            "links": links != earlier,
        }
        return ", ".join(name for name, is_new in found.items() if is_new)

    def closed(self, reason: str) -> None:
        if self._is_update and not self.crawl.recorder.has_failed:
            last = self._passes[-1]
            found = {"n_checks": self.crawl.recorder.figures.n_checks, **self._found}
            sums: dict[str, Any] = {name: getattr(last, name) + n for name, n in found.items()}
            self._passes[-1] = last._replace(**sums, is_over=reason != "shutdown")
            self._write_passes()

    def _write_passes(self) -> None:
        self._store.set_meta(PASSES, json.dumps(self._passes))
