"""Reading of a crawl store: pages, visits, links, requests and facts of the crawl."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import StoreError
from crawlprio.extras import require
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.items import Directives, TextNotes
from crawlprio.store.archive_rows import has_archive
from crawlprio.store.crawl_state import (
    ROBOTS,
    Refusal,
    RequestRow,
    SiteState,
    read_refusals,
    read_requests,
)
from crawlprio.store.files import Connection, increasing, inode_of, open_database, store_errors
from crawlprio.store.side_tables import SideTable
from crawlprio.store.stored_pages import UrlRow, read_hosts, read_pages
from crawlprio.store.stored_pages import read_urls as read_url_rows
from crawlprio.store.visit_rows import (
    BODIES,
    DIRECTIVES,
    FINGERPRINTS,
    LAST_TEXTS,
    MASSES,
    NOTES,
    VALUES,
    VISIT_COLUMNS,
    VisitColumns,
    add_late_links,
    anchor_list,
    checked_value,
    inflated,
    pair_list,
    read_visit_columns,
    row_visit,
    target_list,
)
from crawlprio.web.urls import folder_of_index

PageRow = tuple[int, str, str, int, bool]
"""Id, URL, host and depth of a page, and whether it is a seed."""


class TextRow(NamedTuple):
    """A page with its text."""

    page: int
    url: str
    title: str
    text: str
    fetched_at: float
    value: float | None
    notes: TextNotes
    directives: Directives


BodyRow = tuple[int, str, int, bytes]
"""Page, URL, status and body."""

MAX_BODY = 1 << 30
"""Most bytes of a body that is read back; a damaged store may claim more."""


class OutsideLink(NamedTuple):
    """A link that was not followed: the page that has it, the depth of that, the anchor text."""

    page: int
    depth: int
    anchor: str


ItemRow = tuple[int, str]
"""The page of an item, or `NO_PAGE` if it has none, and the item as JSON."""

ITEMS = SideTable("items", "id INTEGER PRIMARY KEY, page INTEGER NOT NULL, item TEXT NOT NULL")

MAX_HOPS = 20
"""Maximum number of redirects in a row that are followed from a seed."""


class StoreReader:
    """The reading half of `Store`, which opens it; its methods raise `StoreError` likewise."""

    def __init__(self, path: Path, db: Connection, *, writes: bool) -> None:
        self.path = path
        self._db = db
        self._inode = inode_of(path)
        self._writes = writes
        self._n_pages = self._n_sites = self._n_identities = self._n_visits = 0
        self._last_seq = 0
        self._is_open = True

    @property
    def n_pages(self) -> int:
        """Number of stored pages, visited or not; for a reader, when it last read the store."""
        return self._n_pages

    @property
    def last_seq(self) -> int:
        """Place in the crawl of the last visit on disk, from 1; 0 if there is none."""
        return self._last_seq

    @property
    def n_visits(self) -> int:
        """Number of stored visits, with revisits, without those of `NO_PAGE` that name seeds."""
        return self._n_visits

    @property
    def is_archived(self) -> bool:
        """Whether the crawl has an archive."""
        with store_errors(self.path):
            return has_archive(self._db)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read a consistent snapshot inside the block, even beside a running crawl.

        It may be nested. Nothing can be recorded inside.
        """
        if self._db.in_transaction:
            yield
            return
        with store_errors(self.path):
            self._db.execute("BEGIN")
        try:
            if not self._writes:
                with store_errors(self.path):
                    self._count()
            yield
        finally:
            # Nothing was written; for a damaged file, SQLite may refuse even the rollback.
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def load_pages(self) -> PageTable:
        """Return the page table of the crawl: ids, identities, sites, depths. O(pages)."""
        with self.snapshot(), store_errors(self.path):
            pages = read_pages(self._db)
        if self._writes:
            self._n_identities = pages.n_identities
        return pages

    def read_urls(self, pages: Iterable[int]) -> list[UrlRow]:
        """Return URL and `key` of stored pages, even after the store is closed. Some 3 µs each."""
        if not self._is_open:
            if inode_of(self.path) != self._inode:
                raise StoreError(
                    f"{self.path}: the store was moved after the crawl; its pages can no longer be "
                    "read."
                )
            with (
                contextlib.closing(open_database(self.path, readonly=True)) as db,
                store_errors(self.path),
            ):
                return read_url_rows(db, pages)
        with store_errors(self.path):
            return read_url_rows(self._db, pages)

    def page_rows(self) -> Iterator[PageRow]:
        """Yield id, URL, host, depth and whether it is a seed of every page, in order."""
        with store_errors(self.path):
            hosts = read_hosts(self._db)
            rows = self._db.execute("SELECT id, url, site, depth, seed FROM pages ORDER BY id")
            for number, (page, url, site, depth, seed) in enumerate(rows):
                if not (page == number and type(url) is str and type(depth) is type(seed) is int):
                    raise TypeError(
                        f"page {page} has an invalid URL or depth, or is not page {number}"
                    )
                if not (type(site) is int and 0 <= site < len(hosts) and 0 <= depth < 2**31):
                    raise ValueError(f"page {page} is on site {site!r}, of {len(hosts)}")
                yield page, url, hosts[site], depth, bool(seed)

    def page_urls(self, first: int = 0) -> Iterator[str]:
        """Yield the URLs of all pages from the first on; one at a time is in memory."""
        with store_errors(self.path):
            query = "SELECT url FROM pages WHERE id >= ? ORDER BY id"
            for (url,) in self._db.execute(query, (first,)):
                yield url

    def visits(
        self, *, texts: bool = True, anchors: bool = True, titles: bool = False, after: int = 0
    ) -> Iterator[Visit]:
        """Yield the visits in the order recorded, equal in every field to what was recorded.

        Anchors that were all empty come back as an empty list. Later visits are left out.

        Parameters
        ----------
        texts
            False leaves out title, text and outside links, which saves half of the time.
        titles
            True keeps the titles even so.
        anchors
            False leaves out anchor texts.
        after
            Visits to leave out first.
        """
        columns = VISIT_COLUMNS
        if not texts:
            title = "title" if titles else "''"
            columns = columns.replace("outside, title, text", f"NULL, {title}, NULL")
        if not anchors:
            columns = columns.replace("anchors", "NULL")
        with store_errors(self.path):
            (last,) = self._db.execute("SELECT max(seq) FROM visits").fetchone()
            if not self._writes:  # at least the pages that these visits may name
                self._count()
            fingerprint = FINGERPRINTS.beside_visits(self._db, "fingerprint")
            value = VALUES.beside_visits(self._db, "value")
            mass = MASSES.beside_visits(self._db, "mass", "site_visits")
            before = after
            for row in self._db.execute(
                f"SELECT {columns}, {mass}, {fingerprint}, {value}, seq FROM visits"
                " WHERE seq > ? AND seq <= ? ORDER BY seq",
                (after or -(2**63), last),  # a number below 1 is damage, and is noticed
            ):
                before = increasing(row[-1], before)
                visit = row_visit(row, self._n_pages)
                if row[-2] is not None or row[-3]:
                    if not isinstance(row[-3], int | None):
                        raise ValueError(f"a fingerprint that is {row[-3]!r}")
                    of_page = checked_value(row[-2])
                    visit = visit._replace(value=of_page, fingerprint=row[-3] or 0)
                if row[-5] is not None:
                    if not (isinstance(row[-5], float) and math.isfinite(row[-5])):
                        raise ValueError(f"a mass of a page that is {row[-5]!r}")
                    if not (isinstance(row[-4], int) and 0 <= row[-4] < 2**31):
                        raise ValueError(f"a number of visits that is {row[-4]!r}")
                    visit = visit._replace(mass=row[-5], site_visits=row[-4])
                yield visit

    def visit_columns(self) -> Iterator[VisitColumns]:
        """Yield the visits in the order recorded, without texts, as columns of some thousand.

        Visits recorded meanwhile are left out. Half of the time of `visits`.
        """
        with store_errors(self.path):
            (last,) = self._db.execute("SELECT ifnull(max(seq), 0) FROM visits").fetchone()
            if not self._writes:  # at least the pages that these visits may name
                self._count()
            yield from read_visit_columns(self._db, last, self._n_pages)

    def statuses(self) -> Iterator[tuple[int, int]]:
        """Yield page and status of each visit, in the order recorded. Some 1 µs each."""
        with store_errors(self.path):
            for page, status in self._db.execute("SELECT page, status FROM visits ORDER BY seq"):
                if not (type(page) is type(status) is int and NO_PAGE <= page < self._n_pages):
                    raise ValueError(f"a visit of page {page!r}, of {self._n_pages} pages")
                yield page, status

    def bodies(self) -> Iterator[BodyRow]:
        """Yield page, URL, status and body of each visit whose body was kept (CRAWLPRIO_BODIES).

        In the order recorded, decompressed; one body at a time is in memory.

        Raises
        ------
        ConfigError
            If the package zstandard is missing.
        StoreError
            If the store is damaged.
        """
        with store_errors(self.path):
            if not BODIES.exists(self._db):
                return
            require("zstandard", "bodies", "A store with bodies")
            import zstandard

            unpack = zstandard.ZstdDecompressor().decompress
            for page, url, status, packed in self._db.execute(
                "SELECT page, url, status, bodies.body FROM bodies JOIN visits ON seq = visit "
                "JOIN pages ON pages.id = page ORDER BY visit"
            ):
                try:
                    is_bounded = zstandard.frame_content_size(packed) <= MAX_BODY
                    body = unpack(packed) if is_bounded else None
                except (zstandard.ZstdError, TypeError):
                    body = None
                if body is None or type(url) is not str or type(status) is not int:
                    raise TypeError("a body that was not stored by crawlprio")
                yield page, url, status, body

    def visits_of(self, page: int) -> list[tuple[int, Visit]]:
        """Return each visit of a page with its place in the crawl, without texts. O(visits)."""
        columns = VISIT_COLUMNS.replace("anchors, outside, title, text", "NULL, NULL, title, NULL")
        query = f"SELECT {columns}, seq FROM visits WHERE page = ? ORDER BY seq"
        with store_errors(self.path):
            rows = self._db.execute(query, (page,))
            return [(row[-1], row_visit(row, self._n_pages)) for row in rows]

    def text_bytes(self) -> Iterator[tuple[int, bytes]]:
        """Yield each page that has a text, by its last visit, and the text in UTF-8."""
        with store_errors(self.path):
            query = f"SELECT page, text FROM visits WHERE {LAST_TEXTS} ORDER BY seq"
            for page, text in self._db.execute(query):
                if type(page) is not int:
                    raise TypeError("a text that has no page")
                yield page, inflated(text)

    def texts(self) -> Iterator[TextRow]:
        """Yield each page that has a text, by its last visit, with what is known of the text.

        One text at a time is in memory.
        """
        n_notes = len(TextNotes._fields)
        with store_errors(self.path):
            beside = (
                VALUES.beside_visits(self._db, "value"),
                NOTES.beside_visits(self._db, *TextNotes._fields),
                DIRECTIVES.beside_visits(self._db, *Directives._fields),
            )
            for page, url, title, text, fetched_at, value, *rest in self._db.execute(
                f"SELECT page, url, title, text, fetched_at, {', '.join(beside)} FROM visits"
                f" LEFT JOIN pages ON pages.id = page WHERE {LAST_TEXTS} ORDER BY seq"
            ):
                known = [url, title, *("" if column is None else column for column in rest)]
                is_ours = type(page) is int and type(fetched_at) is float
                if not is_ours or set(map(type, known)) != {str}:
                    raise TypeError("a text that was not stored by crawlprio")
                yield TextRow(
                    page,
                    url,
                    title,
                    inflated(text).decode(),
                    fetched_at,
                    checked_value(value),
                    TextNotes(*known[2 : 2 + n_notes]),
                    Directives(*known[2 + n_notes :]),
                )

    def find_page(self, urls: Iterable[str]) -> int:
        """Return the page of the first of these URLs that is known, or `NO_PAGE`. O(pages)."""
        query = (
            "SELECT id FROM pages WHERE url = ?1 OR key = ?1"
            " UNION ALL SELECT page FROM aliases WHERE key = ?1 LIMIT 1"
        )
        with store_errors(self.path):
            for url in urls:
                found = self._db.execute(query, (url,)).fetchone()
                if found is not None:
                    return self._checked(found[0])
        return NO_PAGE

    def outside_links(self, url: str) -> list[OutsideLink]:
        """Return the recorded links to a URL that were not followed, one for each page, in turn.

        O(outside links).
        """
        found: dict[int, OutsideLink] = {}
        with store_errors(self.path):
            for page, depth, outside in self._db.execute(
                "SELECT page, depth, outside FROM visits JOIN pages ON id = page"
                " WHERE instr(outside, ?) ORDER BY seq",
                (json.dumps(url, ensure_ascii=False),),
            ):
                for target, anchor in pair_list(outside):
                    if target == url:
                        found.setdefault(page, OutsideLink(self._checked(page), int(depth), anchor))
        return list(found.values())

    @property
    def last_request(self) -> int:
        """The largest number of a stored request; 0 if there is none."""
        with store_errors(self.path):
            (last,) = self._db.execute("SELECT ifnull(max(id), 0) FROM requests").fetchone()
            return _numbered(last)

    def requests(self) -> Iterator[RequestRow]:
        """Yield the requests that were recorded and have not ended, by number."""
        with store_errors(self.path):
            yield from read_requests(self._db, self._n_pages)

    def requests_of(self, page: int) -> list[RequestRow]:
        """Return the requests of one page that have not ended, by number."""
        with store_errors(self.path):
            return list(read_requests(self._db, self._n_pages, "page", page))

    def request(self, number: int) -> bytes:
        """Return a request that has not ended, by its number."""
        with store_errors(self.path):
            for row in read_requests(self._db, self._n_pages, "id", number):
                return row.request
            raise ValueError(f"request {number} is missing")

    def page_sites(self) -> tuple[NDArray[np.int32], list[str]]:
        """Return the site of every page, by id, and the hosts of all sites. O(pages)."""
        with self.snapshot(), store_errors(self.path):
            hosts = read_hosts(self._db)
            rows = self._db.execute("SELECT site FROM pages ORDER BY id")
            sites = np.fromiter(chain.from_iterable(rows), dtype=np.int32)
            is_known = not len(sites) or 0 <= sites.min() <= sites.max() < len(hosts)
            if len(sites) != self._n_pages or not is_known:
                raise ValueError(f"{len(sites)} of {self._n_pages} pages are on a known site")
            return sites, hosts

    def seeds(self) -> list[int]:
        """Return the pages marked as seeds, in order of discovery."""
        with store_errors(self.path):
            rows = self._db.execute("SELECT id FROM pages WHERE seed ORDER BY id")
            return [page for (page,) in rows]

    def redirected_seeds(self) -> list[str]:
        """Return the URLs that seeds redirected to, in the order of the seeds.

        O(visits) time; the visits that redirect are in memory.
        """
        with self.snapshot(), store_errors(self.path):
            hops: dict[int, list[int]] = {}
            for page, targets in self._db.execute(
                "SELECT page, targets FROM visits"
                " WHERE status BETWEEN 300 AND 399 AND targets <> '[]' ORDER BY seq"
            ):
                hops.setdefault(page, []).extend(target_list(targets, self._n_pages)[:1])
            reached = [page for seed in self.seeds() for page in _followed(hops, seed)]
            wanted, arrived = set(reached), set()
            for (page,) in self._db.execute(
                "SELECT page FROM visits WHERE status BETWEEN 200 AND 299 AND page >= 0"
            ):
                if page in wanted:
                    arrived.add(page)
            return [url for url, _ in read_url_rows(self._db, [p for p in reached if p in arrived])]

    def n_index_files(self) -> int:
        """Count the pages that are the index file of a fetched page with the same body.

        They are those of the view `index_aliases`, which is slower. O(visits), 3 s for a million.
        """
        fetched = (
            "SELECT url, content_hash FROM visits JOIN pages ON pages.id = page "
            "WHERE content_hash <> 0 AND ({})"
        )
        names: dict[tuple[str, int], set[str]] = {}
        with store_errors(self.path):
            for url, body in self._db.execute(
                fetched.format("url GLOB '*/index.*' OR url GLOB '*/default.*'")
            ):
                names.setdefault((folder_of_index(url), body), set()).add(url)
            folders = self._db.execute(fetched.format("url GLOB '*/'")) if names else ()
            return len(set().union(*(names.get(folder, ()) for folder in folders)))

    def link_rows(self) -> Iterator[tuple[int, list[int], list[str]]]:
        """Yield each visited page with its targets and their anchor texts, by its last visit.

        Pages come in the order of these visits. There are as many anchors as targets, or none.
        Links that were outside and whose target became known later come last. Memory holds one page
        at a time and, if there are outside links, the page table.
        """
        with store_errors(self.path):
            pages: PageTable | None = None
            rows = self._db.execute(
                "SELECT page, targets, anchors, outside FROM visits WHERE seq IN"
                " (SELECT max(seq) FROM visits WHERE page >= 0 GROUP BY page) ORDER BY seq"
            )
            if not self._writes:  # at least the pages that the query sees
                self._count()
            for page, targets, anchors, outside in rows:
                if not (isinstance(page, int) and page < self._n_pages):
                    raise ValueError(f"a visit of page {page!r}, of {self._n_pages} pages")
                row = target_list(targets, self._n_pages)
                texts = anchor_list(anchors, len(row))
                if outside is not None:
                    pages = read_pages(self._db) if pages is None else pages
                    row, texts = add_late_links(pages, row, texts, outside, page)
                yield page, row, texts

    def link_graph(self) -> LinkGraph:
        """Return the links between stored pages, in page order; unvisited pages have none.

        Links that were not followed come after those that were, if their target is now known. A
        page visited more than once has the row of its last visit, even if that failed. O(pages +
        links) time and memory.
        """
        flat = array("i")
        with self.snapshot(), store_errors(self.path):
            pages = read_pages(self._db)
            indptr = np.zeros(len(pages) + 1, dtype=np.int64)
            for page, targets, outside in self._db.execute(
                "SELECT page, targets, outside FROM (SELECT max(seq) AS last FROM visits"
                " WHERE page >= 0 GROUP BY page) CROSS JOIN visits ON seq = last ORDER BY page"
            ):
                row = target_list(targets, len(pages))
                row, _ = add_late_links(pages, row, [], outside, page)
                flat.extend(row)
                indptr[page + 1] = len(row)
        np.cumsum(indptr, out=indptr)
        indices = np.array(flat, dtype=np.int32)
        return LinkGraph.cleaned(
            indptr,
            indices,
            site=pages.sites.copy(),
            urls=pages.urls(range(len(pages))),
            hosts=[pages.host(site) for site in range(pages.n_sites)],
        )

    def kept_items(self) -> Iterator[ItemRow]:
        """Yield page and JSON of each stored item, in the order of the visits."""
        with store_errors(self.path):
            for page, item in ITEMS.rows(self._db, "page, item", "id"):
                if type(page) is not int or type(item) is not str:
                    raise TypeError("an item that is not text")
                yield page, item

    def site_states(self) -> list[SiteState]:
        """Return the stored states of sites, by host name."""
        states = []
        with store_errors(self.path):
            for row in self._db.execute(
                "SELECT host, crawl_delay, refusals, pause, paused_until FROM site_states"
                " ORDER BY host"
            ):
                state = SiteState(*row)
                seconds = (state.crawl_delay or 0.0, state.pause, state.paused_until)
                if not isinstance(state.host, str) or not isinstance(state.refusals, int):
                    raise ValueError(f"not the state of a site: {tuple(row)}")
                if not all(isinstance(s, int | float) and 0 <= s < math.inf for s in seconds):
                    raise ValueError(f"not the seconds of a site: {tuple(row)}")
                states.append(state)
        return states

    def robots(self, site: str) -> str | None:
        """Return the rules of a site, by host and port; None if its robots.txt was not read."""
        with store_errors(self.path):
            if not ROBOTS.exists(self._db):
                return None
            query = "SELECT rules FROM robots WHERE site = ?"
            (rules,) = self._db.execute(query, (site,)).fetchone() or (None,)
            if not isinstance(rules, str | None):
                raise TypeError(f"the robots.txt of {site} is not text")
            return rules

    def refusals(self) -> dict[str, Refusal]:
        """Return the links that rules refused, counted by rule, in the order of their names."""
        with store_errors(self.path):
            return read_refusals(self._db)

    def last_fetches(self) -> list[tuple[int, float, float, int]]:
        """Return `(site, fetched_at, elapsed, n_bytes)` of each site's last visit. O(visits)."""
        with store_errors(self.path):
            rows = self._db.execute(
                "SELECT site, fetched_at, elapsed, n_bytes FROM (SELECT site, max(seq) AS last"
                " FROM visits JOIN pages ON pages.id = page GROUP BY site)"
                " CROSS JOIN visits ON seq = last ORDER BY site"
            ).fetchall()
            for site, fetched_at, elapsed, n_bytes in rows:
                if not (type(site) is type(n_bytes) is int and math.isfinite(fetched_at + elapsed)):
                    raise ValueError(f"the last fetch of site {site!r} has no time or no size")
            return rows

    def unfiltered(self) -> list[int]:
        """Return the known pages that are still new to requests without `dont_filter`."""
        return self._marked("unfiltered")

    def get_meta(self, key: str, default: str = "") -> str:
        """Return the fact of the crawl stored under `key`, or `default`."""
        with store_errors(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def orderings(self) -> list[tuple[int, str]]:
        """Return `(seq of the first visit, name)` of the orderings that ruled the crawl, in turn.

        A store that names one ordering alone was crawled under that one.
        """
        with store_errors(self.path):
            ruled = json.loads(self.get_meta("orderings", "[]"))
            if not ruled and (only := self.get_meta("ordering")):
                return [(1, only)]
            return [(int(first), str(name)) for first, name in ruled]

    def facts(self, prefix: str) -> dict[str, str]:
        """Return all facts of the crawl whose key begins with `prefix`."""
        with store_errors(self.path):
            rows = self._db.execute(
                "SELECT key, value FROM meta WHERE substr(key, 1, ?) = ?", (len(prefix), prefix)
            )
            return {str(key): str(value) for key, value in rows}

    def _marked(self, table: str) -> list[int]:
        """Return the pages in a table of marks; raise ValueError for an invalid one."""
        with store_errors(self.path):
            pages = [page for (page,) in self._db.execute(f"SELECT page FROM {table} ORDER BY 1")]
            if pages and not 0 <= pages[0] <= pages[-1] < self._n_pages:
                raise ValueError(f"page {pages[0]} or {pages[-1]}, of {self._n_pages}, in {table}")
        return pages

    def _checked(self, page: object) -> int:
        """Return the id of a page; raise ValueError if there is no such page."""
        if not (type(page) is int and 0 <= page < self._n_pages):
            raise ValueError(f"page {page!r}, of {self._n_pages}")
        return page

    def _count(self) -> None:
        """Count what is stored; ids are dense, so the largest id gives the number."""
        # Without a condition, count(*) is a single step, which no limit on steps can stop.
        one = self._db.execute(
            "SELECT (SELECT ifnull(max(id) + 1, 0) FROM pages),"
            " (SELECT ifnull(max(id) + 1, 0) FROM sites),"
            " (SELECT count(*) FROM aliases WHERE page >= 0),"
            " (SELECT count(*) FROM visits WHERE page >= 0),"
            " (SELECT ifnull(max(seq), 0) FROM visits)"
        ).fetchone()
        self._n_pages, self._n_sites, n_aliases, self._n_visits, self._last_seq = one
        _numbered(self._last_seq)
        self._n_identities = self._n_pages + n_aliases


def _numbered(last: int) -> int:
    """Return the last row number; raise ValueError if it leaves no room for more."""
    if not 0 <= last < 2**62:
        raise ValueError(f"a row has the number {last}")
    return last


def _followed(hops: dict[int, list[int]], seed: int) -> list[int]:
    """Return the pages that redirects lead to from a seed, nearest first, up to `MAX_HOPS` away."""
    reached: list[int] = []
    here = [seed]
    for _ in range(MAX_HOPS):
        here = list(dict.fromkeys(to for page in here for to in hops.get(page, ())))
        reached += here
    return reached


def seconds_of(text: str) -> float | None:
    """Return a Unix time from `meta`; None if it is missing or invalid."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
