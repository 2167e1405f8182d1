"""Reading of a crawl store: its pages and links, and what its base classes read."""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import StoreError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageTable
from crawlprio.store.files import inode_of, open_database, store_errors
from crawlprio.store.schema import CURRENT
from crawlprio.store.stored_pages import UrlRow, read_hosts, read_pages
from crawlprio.store.stored_pages import read_urls as read_url_rows
from crawlprio.store.visit_reader import VisitReader
from crawlprio.store.visit_rows import add_late_links, anchor_list, pair_list, target_list
from crawlprio.web.urls import folder_of_index

PageRow = tuple[int, str, str, int, bool]
"""Id, URL, host and depth of a page, and whether it is a seed."""

MAX_HOPS = 20
"""Maximum number of redirects in a row that are followed from a seed."""


class OutsideLink(NamedTuple):
    """A link that was not followed: the page that has it, the depth of that, the anchor text."""

    page: int
    depth: int
    anchor: str


class StoreReader(VisitReader):
    """The reading half of `Store`, which opens it; its methods raise `StoreError` likewise.

    `n_pages` pages are stored, visited or not, and `n_visits` visits, with revisits, without those
    of `NO_PAGE` that name seeds. `last_seq` is the place in the crawl of the last visit on disk,
    from 1; 0 if there is none. A reader counts them whenever it reads the store.
    """

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

    def page_sites(self) -> tuple[NDArray[np.int32], list[str]]:
        """Return the site of every page, by id, and the hosts of all sites. O(pages)."""
        with self.snapshot(), store_errors(self.path):
            hosts = read_hosts(self._db)
            rows = self._db.execute("SELECT site FROM pages ORDER BY id")
            sites = np.fromiter(chain.from_iterable(rows), dtype=np.int32)
            is_known = not len(sites) or 0 <= sites.min() <= sites.max() < len(hosts)
            if len(sites) != self.n_pages or not is_known:
                raise ValueError(f"{len(sites)} of {self.n_pages} pages are on a known site")
            return sites, hosts

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

    def seeds(self) -> list[int]:
        """Return the pages marked as seeds, in order of discovery."""
        with store_errors(self.path):
            rows = self._db.execute("SELECT id, seed FROM pages WHERE seed <> 0 ORDER BY id")
            seeds = dict(rows.fetchall())
            if not {1} >= {*seeds.values()}:
                raise ValueError("a page that is neither a seed nor none")
            return list(seeds)

    def redirected_seeds(self) -> list[str]:
        """Return the URLs that seeds redirected to, in the order of the seeds.

        O(visits) time, .1 s for a million; the visits that redirect are in memory.
        """
        query = f"SELECT page, targets FROM visits WHERE status / 100 = ? AND seq IN {CURRENT}"
        query = query.replace(" GROUP", " AND page IN ({}) GROUP")  # which sorts few visits
        with self.snapshot(), store_errors(self.path):
            redirects = query.format("SELECT page FROM visits WHERE status / 100 = 3")
            hops = {
                page: to
                for page, targets in self._db.execute(redirects, (3,))
                for to in target_list(targets, self.n_pages)[:1]
            }
            if not hops:
                return []
            reached = [page for seed in self.seeds() for page in _followed(hops, seed)]
            fetched = query.format("SELECT value FROM json_each(?2)")
            rows = self._db.execute(fetched, (2, json.dumps([*{*reached}])))
            arrived = {page for page, _ in rows}
            return [url for url, _ in read_url_rows(self._db, [p for p in reached if p in arrived])]

    def n_index_files(self) -> int:
        """Count the pages that are the index file of a fetched page with the same body.

        They are those of the view `index_aliases`, which is slower. O(visits), 3 s for a million.
        """
        fetched = (
            "SELECT url, content_hash FROM visits JOIN pages ON pages.id = page "
            f"WHERE content_hash <> 0 AND seq IN {CURRENT} AND ({{}})"
        )
        names: dict[tuple[str, int], set[str]] = {}
        with store_errors(self.path):
            for url, body in self._db.execute(
                fetched.format("url GLOB '*/index.*' OR url GLOB '*/default.*'")
            ):
                names.setdefault((folder_of_index(url), body), set()).add(url)
            folders = self._db.execute(fetched.format("url GLOB '*/'")) if names else ()
            return len(set().union(*(names.get(folder, ()) for folder in folders)))

    def outside_links(self, url: str) -> list[OutsideLink]:
        """Return the links to a URL that are not followed, one for each page that has it, in turn.

        O(outside links).
        """
        found: dict[int, OutsideLink] = {}
        with store_errors(self.path):
            for page, depth, outside in self._db.execute(
                "SELECT page, depth, outside FROM visits JOIN pages ON id = page"
                f" WHERE instr(outside, ?) AND seq IN {CURRENT} ORDER BY seq",
                (json.dumps(url, ensure_ascii=False),),
            ):
                for target, anchor in pair_list(outside):
                    if target == url:
                        found.setdefault(page, OutsideLink(self._checked(page), int(depth), anchor))
        return list(found.values())

    def link_rows(self) -> Iterator[tuple[int, list[int], list[str]]]:
        """Yield each visited page with its targets and their anchor texts, as it is now.

        Pages come in the order of their last visits. There are as many anchors as targets, or none.
        Links that were outside and whose target became known later come last. Memory holds one page
        at a time and, if there are outside links, the page table.
        """
        with store_errors(self.path):
            pages: PageTable | None = None
            rows = self._db.execute(
                "SELECT page, targets, anchors, outside FROM visits"
                f" WHERE seq IN {CURRENT} ORDER BY seq"
            )
            if not self._writes:  # at least the pages that the query sees
                self._count()
            for page, targets, anchors, outside in rows:
                if not (isinstance(page, int) and page < self.n_pages):
                    raise ValueError(f"a visit of page {page!r}, of {self.n_pages} pages")
                row = target_list(targets, self.n_pages)
                texts = anchor_list(anchors, len(row))
                if outside is not None:
                    pages = read_pages(self._db) if pages is None else pages
                    row, texts = add_late_links(pages, row, texts, outside, page)
                yield page, row, texts

    def link_graph(self) -> LinkGraph:
        """Return the links between stored pages as they are now, in page order.

        Unvisited pages have none. Links that were not followed come after those that were, if their
        target is now known. O(pages + links) time and memory.
        """
        flat = array("i")
        with self.snapshot(), store_errors(self.path):
            pages = read_pages(self._db)
            indptr = np.zeros(len(pages) + 1, dtype=np.int64)
            for page, targets, outside in self._db.execute(
                f"SELECT page, targets, outside FROM visits WHERE seq IN {CURRENT} ORDER BY page"
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


def _followed(hops: dict[int, int], page: int) -> Iterator[int]:
    """Yield the pages that redirects lead to from a page, nearest first, up to `MAX_HOPS` away."""
    for _ in range(MAX_HOPS):
        if page not in hops:
            return
        page = hops[page]
        yield page
