"""Recorded visits as arrays, and their replay through a queue without heaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import compiled_queue, deferred
from crawlprio.frontier.buffer import LimitedBuffer
from crawlprio.frontier.deferred import remove, update
from crawlprio.frontier.plain import PlainQueue
from crawlprio.frontier.records import DONE, WAITING, Entries, Records, wide
from crawlprio.novelty import Novelty
from crawlprio.orderings import guard
from crawlprio.orderings.base import CompiledOrdering, Noted, Ordering, Pages, RuleArguments
from crawlprio.orderings.rules import RuleLoop, VisitRule
from crawlprio.pages import NO_PAGE, PageIds, Visit
from crawlprio.store.outcomes import is_refusal
from crawlprio.store.visit_columns import VisitColumns
from crawlprio.topic import HotQueue

MOST_VISITS, MOST_LINKS = 2_000, 50_000
"""Bounds on the visits, and on the links of all but the last, that are replayed at a time."""

PROGRESS = np.dtype(
    [
        ("at", np.int64),
        ("n_known", np.int64),
        ("n_keyed", np.int64),
        ("is_due", np.bool_),
    ],
    align=True,
)
"""How far a replay is. `at`: the next visit. `n_known`: pages that visits have discovered.
`n_keyed`: pages that the ordering knows. `is_due`: the last visit is to be noted."""


class Rows(NamedTuple):
    """Visits, with their links as rows of one array.

    Parameters
    ----------
    pages, begins, targets, is_refused
        As in `VisitColumns`.
    n_before
        int64: written by the loop; pages known before each visit.
    """

    pages: PageIds
    begins: NDArray[np.int64]
    targets: PageIds
    is_refused: NDArray[np.bool_]
    n_before: NDArray[np.int64]

    @classmethod
    def of(cls, columns: VisitColumns) -> Rows:
        """Return visits that were read as columns."""
        n_before = np.zeros(len(columns.pages), dtype=np.int64)
        return cls(columns.pages, columns.begins, columns.targets, columns.is_refused, n_before)

    @classmethod
    def of_visits(cls, visits: Sequence[Visit]) -> Rows:
        """Return visits as arrays."""
        lengths = [len(visit.targets) for visit in visits]
        return cls(
            np.array([visit.page for visit in visits], dtype=np.int32),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.concatenate([visit.targets for visit in visits]),
            np.array([is_refusal(visit.status, visit.error) for visit in visits]),
            np.zeros(len(visits), dtype=np.int64),
        )

    @property
    def n_pages(self) -> int:
        """One more than the largest page."""
        return 1 + max(int(ids.max(initial=NO_PAGE)) for ids in (self.pages, self.targets))


def in_groups(visits: Iterable[Visit]) -> Iterator[list[Visit]]:
    """Yield visits in turn, as many at a time as are replayed together."""
    group: list[Visit] = []
    n_links = 0
    for visit in visits:
        group.append(visit)
        n_links += len(visit.targets)
        if len(group) >= MOST_VISITS or n_links >= MOST_LINKS:
            yield group
            group, n_links = [], 0
    if group:
        yield group


def _replay_rows(
    rule: VisitRule,
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    rows: Rows,
    page_sites: PageIds,
    tiers: PageIds,
    known: RuleArguments,
    noted: Noted,
    progress: Records,
) -> None:
    """Observe visits in turn; stop before one that must be replayed alone, and after one to note.

    Alone are visits that discover pages which they do not link to, those of a page that is done if
    sites take turns, and those of or to the page that is watched. `tiers` are zeros.
    """
    at, n_known, n_keyed = progress[0].at, progress[0].n_known, progress[0].n_keyed
    is_due = False
    while at < len(rows.pages) and not is_due:
        page = wide(rows.pages[at])
        targets = rows.targets[rows.begins[at] : rows.begins[at + 1]]
        n_then = max(n_known, page + 1)
        is_alone, shows_next = page < 0 or page == noted.page, False
        for target in targets:
            n_then = max(n_then, wide(target) + 1)
            shows_next = shows_next or target == n_known
            is_alone = is_alone or target == noted.page
        is_alone = is_alone or (n_then > n_known and not shows_next)
        is_alone = is_alone or n_keyed <= noted.page < n_then
        if is_alone or (totals[0].site_share > 0 and pages[page].state == DONE):
            break
        rows.n_before[at] = n_known
        if not rows.is_refused[at]:
            if pages[page].state == WAITING:
                remove(pages, sites, heap, totals, page, DONE)
            keys, again = known.keys, pages[page].observed > 0
            n_changed = rule(
                keys, page, targets, n_keyed, n_then, again, known.numbers, known.sites,
                known.addresses,
            )  # fmt: skip
            update(
                pages, sites, heap, totals, n_keyed, page_sites[:n_then], tiers,
                targets[: 0 if again else len(targets)], keys, page,
            )  # fmt: skip
            for k in range(0 if again else n_changed):
                changed = wide(known.changed[k])
                if pages[changed].state == WAITING:
                    pages[changed].key = keys[changed]
            if page >= n_known and pages[page].state == WAITING:
                remove(pages, sites, heap, totals, page, DONE)
            n_keyed = n_then
            if noted.reads_state and noted.page < n_keyed:
                is_due = keys[noted.page] != noted.key or noted.n_gifts[0] > 0
        n_known = n_then
        at += 1
    progress[0].at, progress[0].n_known, progress[0].n_keyed = at, n_known, n_keyed
    progress[0].is_due = is_due


replay_rows = RuleLoop(_replay_rows)


class ReplaysRows:
    """The part of `PageQueue` that replays visits, in which no page leaves, without its heaps."""

    ordering: Ordering
    pages: Pages
    hot_queue: HotQueue | None
    novelty: Novelty | None
    _pages: Records
    _totals: Records
    _arrays: tuple[Records, Records, Entries, Records]
    _n_sites: int
    _queue: Any
    _by_call: bool
    _buffer: LimitedBuffer | None
    _grow: Callable[[], None]
    _loop: Callable[..., None] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the queue still runs in plain Python."""
        return isinstance(self._queue, PlainQueue)

    def defer(self) -> bool:
        """Leave the heaps out until `build`, so that no page may leave; return False if it cannot.

        A bound on the waiting pages and orderings that rank sites need the heaps.
        """
        self._grow()
        if self.is_plain or self._by_call or self._buffer is not None:
            return False
        self._queue = deferred.load()
        return True

    def build(self) -> None:
        """Build compiled heaps from the records. O(n)."""
        self._queue = compiled_queue.load()
        self._totals["n_ready"] = self._totals["n_delayed"] = 0
        keys = self._pages["key"].copy()
        self._queue.rekey_all(*self._arrays, len(self._pages), self._n_sites, keys)

    @property
    def takes_rows(self) -> bool:
        """Whether a rule alone decides, so that a deferred queue takes visits as rows."""
        is_by_rule = guard.is_by_rule_alone(self.ordering)
        return is_by_rule and self.hot_queue is None and self.novelty is None

    def observe_rows(self, rows: Rows, at: int, n_known: int) -> tuple[int, int]:
        """Observe visits from `at` on, of which `n_known` pages were discovered, in compiled code.

        Returns the first visit that is left for `observe`, or their number, and the pages
        discovered by then. Only a deferred queue that `takes_rows` may be asked. O(links).
        """
        ordering = self.ordering
        assert isinstance(ordering, CompiledOrdering)
        # Room for the whole crawl at once: arrays that double are copied seven times a million.
        known = ordering.rule_arguments(len(self.pages), len(rows.targets))
        tiers = np.zeros(max(rows.n_pages - ordering.n_pages, 0), dtype=np.int32)
        progress = np.array([(at, n_known, ordering.n_pages, False)], dtype=PROGRESS)
        while True:
            arguments = (*self._arrays, rows, self.pages.sites, tiers, known, ordering.noted)
            if self._loop is None:
                self._loop = replay_rows.of(type(ordering).rule, *arguments, progress)
            self._loop(*arguments, progress)
            ordering.n_pages = int(progress["n_keyed"][0])
            if not progress["is_due"][0]:
                return int(progress["at"][0]), int(progress["n_known"][0])
            ordering.note()
