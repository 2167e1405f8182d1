"""The audit of a crawl: every kind of fault that its store knows of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.store import Store
from crawlprio.store.outcomes import TO_ITSELF, failure_of, is_refusal, is_silent

Pages = NDArray[np.int32]
NONE: Pages = np.zeros(0, dtype=np.int32)


class Faults(NamedTuple):
    """One fault: the page that has it, and what `Findings.says` announces: a status, a title.

    `related` has page ids: those that link to it, the hops of a chain, further pages of its group.
    """

    url: str
    detail: str
    related: Pages = NONE


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings of one kind, the worst first; iterating makes one at a time.

    `kind` is its name for programs. `says` is what each of them is, and `related_are` what its
    related pages are, for people; empty: it has none. `make` makes one of each of `places`.
    """

    kind: str
    says: str
    related_are: str
    places: Sequence[Any] | NDArray[Any]
    make: Callable[[Any], Faults]

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[Faults]:
        return map(self.make, self.places)


def groups_of(keys: NDArray[np.int64], pages: Pages) -> list[Pages]:
    """Return the groups of two pages or more with the same key, the largest first.

    A group's own order, and ties, are by page id. O(pages log pages).
    """
    order = np.lexsort((pages, keys))
    keys, pages = keys[order], pages[order]
    begins = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    sizes = np.diff(begins, append=len(keys))
    several = np.column_stack([begins, begins + sizes])[sizes > 1].tolist()
    groups = [pages[begin:end] for begin, end in several]
    return sorted(groups, key=lambda group: (-len(group), group[0]))


MAX_HOPS = 20
"""Maximum number of redirects of a chain that are followed."""


def chains(hop: Pages) -> tuple[list[list[int]], list[list[int]]]:
    """Return the chains of two redirects or more, and the loops, the longest first.

    A chain begins at a redirect to which no redirect leads, and ends at its first page that is not
    one, or after `MAX_HOPS`. A chain that comes back to one of its pages is a loop; it ends with
    that page. A loop to which no redirect leads from outside begins at its first page.

    `hop`: int32, shape (n_pages,): where each page redirects to; `NO_PAGE` if it does not.
    """
    redirects = np.flatnonzero(hop != NO_PAGE)
    is_target = np.zeros(len(hop), dtype=np.bool_)
    is_target[hop[redirects]] = True
    ends, seen = hop.tolist(), np.zeros(len(hop), dtype=np.bool_)
    found = []
    for start in [*redirects[~is_target[redirects]].tolist(), *redirects.tolist()]:
        if seen[start]:
            continue
        chain = [start]
        while ends[chain[-1]] != NO_PAGE and len(chain) <= MAX_HOPS:
            chain.append(ends[chain[-1]])
            if chain[-1] in chain[:-1]:
                break
        seen[chain] = True
        found.append(chain)
    found.sort(key=lambda chain: (-len(chain), chain[0]))
    loops = [chain for chain in found if chain[-1] in chain[:-1]]
    return [c for c in found if len(c) > 2 and c[-1] not in c[:-1]], loops


class LastVisits:
    """The outcome of the current version of each page, as arrays of the shape (n_pages,).

    `status` is 0 if the page was never visited, or got no response. `hop` is the page that a
    redirect leads to, `NO_PAGE` for other pages. `fetched_at` is the Unix time of the end of the
    fetch, 0 if there was none, and `elapsed` its seconds. `n_bytes` and `body` are length and hash
    of the body; the hash is 0 if it was not computed. `title` is a place in `titles`; the first of
    them is empty. `failed` has the cause by page, for pages that were not got. `refused` has the
    pages that the crawl would not request, which says nothing of the site: not those of a server
    that did not answer.
    """

    def __init__(self, n_pages: int) -> None:
        self.status = np.zeros(n_pages, np.int32)
        self.hop = np.full(n_pages, NO_PAGE, np.int32)
        self.fetched_at = np.zeros(n_pages)
        self.elapsed = np.zeros(n_pages)
        self.n_bytes = np.zeros(n_pages, np.int64)
        self.body = np.zeros(n_pages, np.int64)
        self.title = np.zeros(n_pages, np.int32)
        self._places = {"": 0}
        self.failed: dict[int, str] = {}
        self.refused: set[int] = set()

    def noting(self, visits: Iterable[Visit]) -> Iterator[Visit]:
        """Yield visits, one of each page, once they are noted; unknown pages are not noted."""
        for visit in visits:
            if 0 <= visit.page < len(self.status):
                self._note(visit)
            yield visit

    def _note(self, visit: Visit) -> None:
        page = visit.page
        self.status[page] = min(max(visit.status, 0), 999)
        is_redirect = 300 <= visit.status < 400 and len(visit.targets)
        self.hop[page] = visit.targets[0] if is_redirect else NO_PAGE
        if visit.error == TO_ITSELF:
            self.hop[page] = page
        self.fetched_at[page] = visit.fetched_at
        self.elapsed[page] = visit.elapsed
        self.n_bytes[page] = visit.n_bytes
        self.body[page] = visit.content_hash
        self.title[page] = self._places.setdefault(visit.title, len(self._places))
        cause = failure_of(visit)
        if cause and cause != TO_ITSELF:
            self.failed[page] = cause
            if is_refusal(visit.status, visit.error) and not is_silent(visit.error):
                self.refused.add(page)

    @cached_property
    def titles(self) -> list[str]:
        """The distinct titles, once all visits are noted."""
        return list(self._places)

    @property
    def is_got(self) -> NDArray[np.bool_]:
        """Whether a page was fetched with a body: status 2xx."""
        got: NDArray[np.bool_] = self.status // 100 == 2
        got[list(self.failed)] = False
        return got


SLOW_SECONDS = 2.0
"""Pages that took longer are slow, by default."""


class Audit(NamedTuple):
    """The faults of crawled sites, from one snapshot of a store.

    `graph`: the links between known pages, with their URLs. `visits`: the outcome of each page's
    last visit. `findings`: in this order: `broken-link`, `redirect-chain`, `redirect-loop`,
    `duplicate`, `missing-title`, `repeated-title`, `orphan`, `not-in-sitemap`, `slow`. Those of
    titles are left out of crawls that recorded none, and those of sitemaps where none was read.
    `remarks`: what was left out and why, one sentence each.
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

        Raises `StoreError` if the store is damaged.
        """
        with store.snapshot():
            graph = store.link_graph() if graph is None else graph
            if visits is None:
                visits = LastVisits(graph.n_pages)
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

    def urls(self, pages: Pages) -> Iterator[str]:
        return map(self.url, pages.tolist())

    def url(self, page: int) -> str:
        assert self.graph.urls is not None
        return self.graph.urls[page]

    def title(self, page: int) -> str:
        """Return the title of a page; empty if it has none."""
        return self.visits.titles[int(self.visits.title[page])]

    def outcome(self, page: int) -> str:
        """Return the outcome of a page's last visit, in words."""
        status = self.visits.status[page]
        return self.visits.failed.get(page) or (f"HTTP {status}" if status else "not fetched")

    def _of_pages(
        self,
        kind: str,
        says: str,
        pages: NDArray[np.int64],
        detail: Callable[[int], str] = lambda page: "",
    ) -> Findings:
        """Return findings without related pages."""
        return Findings(kind, says, "", pages, lambda page: Faults(self.url(page), detail(page)))

    def _broken(self) -> Findings:
        broken = sorted(self.visits.failed.keys() - self.visits.refused)
        indptr, sources = self.graph.transposed
        broken.sort(key=lambda page: indptr[page] - indptr[page + 1])

        def fault(page: int) -> Faults:
            linking = sources[indptr[page] : indptr[page + 1]]
            return Faults(self.url(page), self.outcome(page), linking)

        says = "Pages that could not be fetched, and the pages that link to them"
        return Findings("broken-link", says, "linked from", broken, fault)

    def _redirects(self) -> list[Findings]:
        long, loops = chains(self.visits.hop)

        def in_chain(chain: list[int]) -> Faults:
            first, *others = chain
            detail = f"{len(others)} redirects, then {self.outcome(others[-1])}"
            if others[-1] in chain[:-1]:
                detail = f"loop after {len(others)} redirects"
            return Faults(self.url(first), detail, np.array(others, np.int32))

        says = "Redirects that lead to further redirects"
        back = "Redirects that lead back to themselves"
        return [
            Findings("redirect-chain", says, "redirects to", long, in_chain),
            Findings("redirect-loop", back, "redirects to", loops, in_chain),
        ]

    def _duplicates(self) -> Findings:
        pages = np.flatnonzero(self.visits.is_got & (self.visits.body != 0)).astype(np.int32)
        found = groups_of(self.visits.body[pages], pages)

        def fault(group: Pages) -> Faults:
            first = group[0]
            return Faults(self.url(first), f"{self.visits.n_bytes[first]:,} bytes", group[1:])

        return Findings("duplicate", "Pages with the same body", "the same", found, fault)

    def _missing_titles(self) -> Findings:
        has_links = np.diff(self.graph.indptr) > 0
        pages = np.flatnonzero(self.visits.is_got & (self.visits.title == 0) & has_links)
        return self._of_pages("missing-title", "Pages with links, but without a title", pages)

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
        found = groups_of(keys[once], pages[once])

        def fault(group: Pages) -> Faults:
            return Faults(self.url(group[0]), self.title(group[0]), group[1:])

        says = "Titles of several pages of a site, with different bodies"
        return Findings("repeated-title", says, "also on", found, fault)

    def _against_sitemaps(self, store: Store) -> list[Findings]:
        """Return pages of sitemaps that nothing links to, and pages that no sitemap names."""
        is_linked = np.diff(self.graph.transposed[0]) > 0
        is_named = np.zeros(self.graph.n_pages, dtype=np.bool_)
        orphans = []
        for (url, sitemap), rows in groupby(store.sitemaps().named_pages(), lambda row: row[:2]):
            pages = [page for *_, page in rows if page is not None and 0 <= page < len(is_named)]
            is_named[pages] = True
            if not is_linked[pages].any():
                orphans.append(Faults(url, f"in {sitemap}"))
        hosts = set(store.sitemaps().hosts())
        assert self.graph.hosts is not None
        is_mapped = np.array([host.removeprefix("www.") in hosts for host in self.graph.hosts])
        unnamed = np.flatnonzero(self.visits.is_got & ~is_named & is_mapped[self.graph.site])
        says = "Pages that a sitemap names, and that no fetched page links to"
        but = "Fetched pages that no sitemap of their site names"
        return [
            Findings("orphan", says, "", orphans, lambda fault: fault),
            self._of_pages("not-in-sitemap", but, unnamed),
        ]

    def _slow(self, slow_seconds: float) -> Findings:
        elapsed = self.visits.elapsed
        slow = np.flatnonzero(self.visits.is_got & (elapsed > slow_seconds))
        pages = slow[np.lexsort((slow, -elapsed[slow]))]
        says = f"Pages that took over {slow_seconds:g} s"
        return self._of_pages("slow", says, pages, lambda page: f"{elapsed[page]:.1f} s")
