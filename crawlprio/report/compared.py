"""Two crawls side by side: what the one got that the other did not, and what changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crawlprio.pages import NO_PAGE
from crawlprio.receipt.sentences import rows
from crawlprio.report.crawled import ReportedCrawl
from crawlprio.report.parts import Section, Table, cut, number, page, text
from crawlprio.report.sections import over_time

Pages = NDArray[np.int64]

ALIKE = ("seeds", "missing", "more", "refused")
"""Rows of a receipt that are lists, which are not compared."""


class ComparedCrawls:
    """Two crawls, A and B, whose pages are matched by URL.

    O(pages) time; 4 bytes a page on top of the two crawls.
    """

    def __init__(self, a: ReportedCrawl, b: ReportedCrawl) -> None:
        self.a, self.b = a, b

    @cached_property
    def at_b(self) -> NDArray[np.int32]:
        """The page of B with the URL of each page of A; `NO_PAGE` if B does not know it."""
        find = self.b.repository.graph.find
        found = (find(self.a.url(at)) for at in range(self.a.n_pages))
        return np.fromiter(found, dtype=np.int32, count=self.a.n_pages)

    @cached_property
    def both(self) -> tuple[Pages, Pages]:
        """The pages that both visited: of A, and the same of B."""
        in_a = np.flatnonzero((self.at_b != NO_PAGE) & self.a.is_visited)
        in_a = in_a[self.b.is_visited[self.at_b[in_a]]]
        return in_a, self.at_b[in_a].astype(np.int64)

    @cached_property
    def only_a(self) -> Pages:
        """Pages that A got and B did not, the most important first."""
        is_known = self.at_b != NO_PAGE
        is_in_b = np.zeros(self.a.n_pages, dtype=np.bool_)
        is_in_b[is_known] = self.b.is_got[self.at_b[is_known]]
        return _by_importance(self.a, self.a.is_got & ~is_in_b)

    @cached_property
    def only_b(self) -> Pages:
        """Pages that B got and A did not, the most important first."""
        is_in_a = np.zeros(self.b.n_pages, dtype=np.bool_)
        is_in_a[self.at_b[(self.at_b != NO_PAGE) & self.a.is_got]] = True
        return _by_importance(self.b, self.b.is_got & ~is_in_a)

    def changed(self, of: Callable[[ReportedCrawl, int], object]) -> list[tuple[int, int]]:
        """Return the pages that both visited and of which something differs, in A and in B."""
        pairs = zip(*(pages.tolist() for pages in self.both), strict=True)
        return [(a, b) for a, b in pairs if of(self.a, a) != of(self.b, b)]

    @cached_property
    def outcomes(self) -> list[tuple[int, int]]:
        """Pages with another status, or cause of failure, in B."""
        return self.changed(ReportedCrawl.outcome)

    @cached_property
    def titles(self) -> list[tuple[int, int]]:
        """Pages that both got, with another title in B."""
        is_got = self.a.is_got, self.b.is_got
        return [
            (a, b) for a, b in self.changed(ReportedCrawl.title) if is_got[0][a] and is_got[1][b]
        ]

    @cached_property
    def n_bodies(self) -> int:
        """How many pages that both visited have another body in B."""
        bodies = [
            crawl.audit.visits.body[pages]
            for crawl, pages in zip((self.a, self.b), self.both, strict=True)
        ]
        return int(((bodies[0] != bodies[1]) & (bodies[0] != 0) & (bodies[1] != 0)).sum())

    def sentences(self) -> list[str]:
        """Return how the two crawls differ."""
        return [
            f"Pages got by A alone: {len(self.only_a):,}; by B alone: {len(self.only_b):,}.",
            f"Pages visited by both: {len(self.both[0]):,}; of these, with another status: "
            f"{len(self.outcomes):,}, title: {len(self.titles):,}, body: {self.n_bodies:,}.",
        ]

    def sections(self) -> list[Section]:
        """Return the sections of the report."""
        return [self._summary(), self._found(), self._changes(), self._sites(), self._time()]

    def _summary(self) -> Section:
        said = [_merged(crawl) for crawl in (self.a, self.b)]
        names = [name for name in said[0] | said[1] if name not in ALIKE]
        values = [[text(name), *(text(each.get(name, "-")) for each in said)] for name in names]
        table = Table("The receipts of both.", ["what", "A", "B"], values)
        return Section("both", "Both crawls", self.sentences(), (), (table,))

    def _found(self) -> Section:
        tables = [
            _only("A", "B", self.a, self.only_a, self._outcome_in_b),
            _only("B", "A", self.b, self.only_b, self._outcome_in_a),
        ]
        return Section("found", "Found by one of them", (), (), tables)

    def _changes(self) -> Section:
        headings = ["page", "in A", "in B"]
        tables = []
        for what, pairs, of in (
            ("status", self.outcomes, ReportedCrawl.outcome),
            ("title", self.titles, ReportedCrawl.title),
        ):
            changed = (
                [page(self.a.url(a)), text(of(self.a, a)), text(of(self.b, b))] for a, b in pairs
            )
            if pairs:
                tables.append(cut(f"Pages with another {what}", headings, changed, len(pairs)))
        remarks = () if tables else ["No status and no title changed."]
        return Section("changes", "What changed", remarks, (), tables)

    def _sites(self) -> Section:
        counts: dict[str, list[int]] = {}
        for place, crawl in enumerate((self.a, self.b)):
            graph = crawl.repository.graph
            got = np.bincount(graph.site[crawl.is_got], minlength=graph.n_sites)
            for site, n_got in enumerate(got.tolist()):
                counts.setdefault(crawl.host(site), [0, 0])[place] += n_got
        ordered = sorted(counts.items(), key=lambda one: (-abs(one[1][1] - one[1][0]), one[0]))
        values = (
            [text(host), number(a), number(b), number(b - a, "+,")] for host, (a, b) in ordered
        )
        headings = ["site", "got in A", "got in B", "difference"]
        table = cut("Sites by how much they differ", headings, values, len(ordered))
        return Section("sites", "Sites", (), (), (table,))

    def _time(self) -> Section:
        times = {
            letter: crawl.audit.visits.fetched_at[crawl.is_got]
            for letter, crawl in self._lettered()
        }
        return Section("time", "Pages got over time", (), over_time(times, together=False))

    def _lettered(self) -> Sequence[tuple[str, ReportedCrawl]]:
        return ("A", self.a), ("B", self.b)

    def _outcome_in_b(self, at: int) -> str:
        other = int(self.at_b[at])
        return "unknown" if other == NO_PAGE else self.b.outcome(other)

    def _outcome_in_a(self, at: int) -> str:
        other = self.a.repository.graph.find(self.b.url(at))
        return "unknown" if other == NO_PAGE else self.a.outcome(other)


def _merged(crawl: ReportedCrawl) -> dict[str, str]:
    """Return the rows of a receipt, those of the same name as one."""
    merged: dict[str, str] = {}
    for name, value in rows(crawl.receipt):
        merged[name] = f"{merged[name]}; {value}" if name in merged else value
    return merged


def _only(
    letter: str, other: str, crawl: ReportedCrawl, found: Pages, elsewhere: Callable[[int], str]
) -> Table:
    """Return the table of pages that only one crawl got."""
    values = (
        [page(crawl.url(at)), text(crawl.title(at)), text(elsewhere(at))] for at in found.tolist()
    )
    caption = f"Pages that {letter} got and {other} did not, the most important first"
    return cut(caption, ["page", "title", f"in {other}"], values, len(found))


def _by_importance(crawl: ReportedCrawl, mask: NDArray[np.bool_]) -> Pages:
    found = np.flatnonzero(mask)
    return found[np.lexsort((found, -crawl.scores[0].values[found]))]
