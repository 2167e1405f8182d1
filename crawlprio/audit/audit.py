"""The audit of a crawl: every kind of fault that its store knows of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from crawlprio.audit.findings import Findings, Groups, Pages, joined, lists
from crawlprio.audit.redirects import chains
from crawlprio.audit.visits import LastVisits
from crawlprio.graph import LinkGraph
from crawlprio.store import Store

SLOW_SECONDS = 2.0
"""Pages that took longer are slow, by default."""


class Audit(NamedTuple):
    """The faults of crawled sites, from one snapshot of a store.

    Parameters
    ----------
    graph
        The links between known pages, with their URLs.
    visits
        The outcome of each page's last visit.
    findings
        In this order: `broken-link`, `redirect-chain`, `redirect-loop`, `duplicate`,
        `missing-title`, `repeated-title`, `orphan`, `not-in-sitemap`, `slow`. Those of titles are
        left out of crawls that recorded none, and those of sitemaps where none was read.
    remarks
        What was left out and why, one sentence each.
    """

    graph: LinkGraph
    visits: LastVisits
    findings: list[Findings]
    remarks: list[str]

    @classmethod
    def of(
        cls,
        store: Store,
        graph: LinkGraph | None = None,
        visits: LastVisits | None = None,
        *,
        slow_seconds: float = SLOW_SECONDS,
    ) -> Audit:
        """Read a store; `graph` is its link graph and `visits` has its visits, if these are known.

        O(pages log pages + links). Memory: that of the link graph, and some 60 bytes a page.

        Raises
        ------
        StoreError
            If the store is damaged.
        """
        with store.snapshot():
            graph = store.link_graph() if graph is None else graph
            if visits is None:
                visits = LastVisits.none(graph.n_pages)
                for _ in visits.noting(store.visits(texts=False, anchors=False, titles=True)):
                    pass
            audit = cls(graph, visits, [], [])
            audit.findings.extend([audit._broken(), *audit._redirects(), audit._duplicates()])
            if len(visits.titles) > 1:
                audit.findings.extend([audit._missing_titles(), audit._repeated_titles()])
            else:
                audit.remarks.append("Titles are not judged: the crawl recorded none.")
            if store.sitemaps().hosts():
                audit.findings.extend(audit._against_sitemaps(store))
            else:
                audit.remarks.append("Orphans are not judged: the crawl read no sitemap.")
            audit.findings.append(audit._slow(slow_seconds))
        return audit

    def urls(self, pages: Pages) -> list[str]:
        """Return the URLs of pages."""
        return list(self.each_url(pages))

    def each_url(self, pages: Pages) -> Iterator[str]:
        """Yield the URLs of pages."""
        yield from map(self._url, pages.tolist())

    def _url(self, page: int) -> str:
        assert self.graph.urls is not None
        return self.graph.urls[page]

    def outcome(self, page: int) -> str:
        """Return what a page's last visit got, in words."""
        status = self.visits.status[page]
        return self.visits.failed.get(page) or (f"HTTP {status}" if status else "not fetched")

    def _of_pages(self, kind: str, says: str, pages: Pages, detail: str = "") -> Findings:
        """Return findings without related pages and with the same detail."""
        return Findings(kind, says, "", len(pages), lambda k: self._url(pages[k]), lambda k: detail)

    def _broken(self) -> Findings:
        broken = sorted(self.visits.failed.keys() - self.visits.refused)
        indptr, sources = self.graph.transposed
        broken.sort(key=lambda page: indptr[page] - indptr[page + 1])
        pages = np.array(broken, dtype=np.int32)
        return Findings(
            "broken-link", "Pages that could not be got, and the pages that link to them",
            "linked from", len(pages),
            lambda k: self._url(pages[k]), lambda k: self.outcome(pages[k]),
            *joined(sources, indptr[pages], indptr[pages + 1] - indptr[pages]),
        )  # fmt: skip

    def _redirects(self) -> list[Findings]:
        long, loops = chains(self.visits.hop)
        return [
            Findings(
                "redirect-chain", "Redirects that lead to further redirects",
                "redirects to", len(long),
                lambda k: self._url(long[k][0]),
                lambda k: f"{len(long[k]) - 1} redirects, then {self.outcome(long[k][-1])}",
                *lists([chain[1:] for chain in long]),
            ),
            Findings(
                "redirect-loop", "Redirects that lead back to themselves",
                "redirects to", len(loops),
                lambda k: self._url(loops[k][0]),
                lambda k: f"loop after {len(loops[k]) - 1} redirects",
                *lists([chain[1:] for chain in loops]),
            ),
        ]  # fmt: skip

    def _duplicates(self) -> Findings:
        pages = np.flatnonzero(self.visits.is_got & (self.visits.body != 0)).astype(np.int32)
        found = Groups.of(self.visits.body[pages], pages)
        return Findings(
            "duplicate", "Pages with the same body", "the same", len(found.heads),
            lambda k: self._url(found.heads[k]),
            lambda k: f"{self.visits.n_bytes[found.heads[k]]:,} bytes",
            found.starts, found.rest,
        )  # fmt: skip

    def _missing_titles(self) -> Findings:
        has_links = np.diff(self.graph.indptr) > 0
        pages = np.flatnonzero(self.visits.is_got & (self.visits.title == 0) & has_links)
        says = "Pages with links, but without a title"
        return self._of_pages("missing-title", says, pages.astype(np.int32))

    def _repeated_titles(self) -> Findings:
        pages = np.flatnonzero(self.visits.is_got & (self.visits.title > 0)).astype(np.int32)
        titles = self.visits.title[pages].astype(np.int64)
        keys = titles * self.graph.n_sites + self.graph.site[pages]
        bodies = self.visits.body[pages]
        bodies = np.where(bodies == 0, -1 - pages, bodies)
        order = np.lexsort((pages, bodies, keys))
        is_new = np.ones(len(pages), dtype=np.bool_)
        is_new[1:] = np.any([np.diff(keys[order]) != 0, np.diff(bodies[order]) != 0], axis=0)
        once = order[is_new]
        found = Groups.of(keys[once], pages[once])
        return Findings(
            "repeated-title", "Titles of several pages of a site, with different bodies",
            "also on", len(found.heads),
            lambda k: self._url(found.heads[k]),
            lambda k: self.visits.titles[self.visits.title[found.heads[k]]],
            found.starts, found.rest,
        )  # fmt: skip

    def _against_sitemaps(self, store: Store) -> list[Findings]:
        """Return pages of sitemaps that nothing links to, and pages that no sitemap names."""
        is_linked = np.diff(self.graph.transposed[0]) > 0
        is_named = np.zeros(self.graph.n_pages, dtype=np.bool_)
        orphans = []
        for (url, sitemap), rows in groupby(store.sitemaps().named_pages(), lambda row: row[:2]):
            pages = [page for *_, page in rows if page is not None and 0 <= page < len(is_named)]
            is_named[pages] = True
            if not is_linked[pages].any():
                orphans.append((url, f"in {sitemap}"))
        hosts = set(store.sitemaps().hosts())
        assert self.graph.hosts is not None
        is_mapped = np.array([host.removeprefix("www.") in hosts for host in self.graph.hosts])
        unnamed = np.flatnonzero(self.visits.is_got & ~is_named & is_mapped[self.graph.site])
        says = "Pages that were got, and that no sitemap of their site names"
        return [
            Findings(
                "orphan", "Pages that a sitemap names, and that no fetched page links to", "",
                len(orphans), lambda k: orphans[k][0], lambda k: orphans[k][1],
            ),
            self._of_pages("not-in-sitemap", says, unnamed.astype(np.int32)),
        ]  # fmt: skip

    def _slow(self, slow_seconds: float) -> Findings:
        elapsed = self.visits.elapsed
        slow = np.flatnonzero(self.visits.is_got & (elapsed > slow_seconds))
        pages = slow[np.lexsort((slow, -elapsed[slow]))].astype(np.int32)
        return Findings(
            "slow", f"Pages that took over {slow_seconds:g} s", "", len(pages),
            lambda k: self._url(pages[k]), lambda k: f"{elapsed[pages[k]]:.1f} s",
        )  # fmt: skip
