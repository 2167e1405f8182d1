"""The frontier of a crawl as its store has it: its visits, replayed up to one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import plain_until
from crawlprio.frontier import PageQueue
from crawlprio.frontier.records import WAITING
from crawlprio.frontier.replaying import FIRST, replay, replay_columns
from crawlprio.frontier.rows import Rows
from crawlprio.novelty import Novelty
from crawlprio.orderings import Ordering
from crawlprio.pages import NO_PAGE, PageIds, Visit
from crawlprio.store import Store
from crawlprio.store.outcomes import is_refusal
from crawlprio.store.visit_columns import VisitColumns
from crawlprio.topic import HotQueue


@dataclass(frozen=True)
class Policy:
    """What decides the order of a crawl, and which links it follows.

    Parameters
    ----------
    ordering
        Makes the ordering of that name, or of the crawl's latest run if it is empty.
    hot_queue
        Makes the hot queue; None without a topic.
    novelty
        Makes what puts off likely repeats; None if nothing does.
    max_waiting
        Bound on the number of waiting pages; None: no bound.
    priority_of
        Returns the priority of a stored request.
    refuses
        Returns the rule by which the scope refuses a URL at a depth, or an empty string; None if
        the crawl's scope is not known.
    """

    ordering: Callable[[str], Ordering]
    hot_queue: Callable[[], HotQueue | None] = lambda: None
    novelty: Callable[[], Novelty | None] = lambda: None
    max_waiting: int | None = None
    priority_of: Callable[[bytes], int] = lambda request: 0
    refuses: Callable[[str, int], str] | None = None


class StorePages:
    """The page table of a store as orderings see it; URLs are read when one is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.sites, self.hosts = store.page_sites()
        self._urls: list[str] | None = None

    def __len__(self) -> int:
        return len(self.sites)

    @property
    def n_sites(self) -> int:
        return len(self.hosts)

    def url(self, page: int) -> str:
        if self._urls is None:
            self._urls = list(self._store.page_urls())
        return self._urls[page]


class Place(NamedTuple):
    """Where a page waits: how many come before it, of how many, in all and on its site."""

    n_before: int
    n_waiting: int
    n_before_on_site: int
    n_waiting_on_site: int


@dataclass
class SitePast:
    """What was fetched from a site: how often, for how long in all, and the end of the last."""

    n_fetches: int = 0
    seconds: float = 0.0
    ended_at: float = 0.0

    def add(self, seconds: float, ended_at: float) -> None:
        self.n_fetches += 1
        self.seconds += seconds
        self.ended_at = max(self.ended_at, ended_at)


@dataclass
class Past:
    """A crawl, replayed. O(visits log pages).

    Parameters
    ----------
    store, policy
        Its store, inside a snapshot, and its rules.
    page
        The page to watch; `NO_PAGE` for none.
    ordering_name
        The ordering to replay under; empty for that of the latest run.

    Attributes
    ----------
    linking
        The visited pages that link to the page, in turn.
    n_linking, found_by
        int32, by page: how many visits link to it, and the page that showed it first; the first of
        no page, and the second of the page alone, if one is watched.
    site
        What was fetched from the site of the page.
    refused
        Why pages were refused that wait for another run, by page.
    seeds
        The pages that the crawl started from.
    n_visits
        Visits replayed.
    """

    store: Store
    policy: Policy
    page: int = NO_PAGE
    ordering_name: str = ""
    linking: list[int] = field(default_factory=list)
    site: SitePast = field(default_factory=SitePast)
    refused: dict[int, str] = field(default_factory=dict)
    n_visits: int = 0

    def __post_init__(self) -> None:
        self.pages = StorePages(self.store)
        self.ordering = self.policy.ordering(self.ordering_name)
        self.queue = PageQueue(
            self.ordering,
            self.pages,
            hot_queue=self.policy.hot_queue(),
            novelty=self.policy.novelty(),
            max_waiting=self.policy.max_waiting,
            plain_until=plain_until(),
        )
        if self.page != NO_PAGE:
            self.ordering.watch(self.page)
        self.seeds = dict.fromkeys(self.store.seeds())
        self._sites = self.pages.sites
        self._site = -1 if self.page == NO_PAGE else int(self._sites[self.page])
        self.n_linking = np.zeros(len(self.pages), dtype=np.int32)
        self.found_by = np.full(len(self.pages), NO_PAGE, dtype=np.int32)

    def replay(self, *, until_fetched: bool) -> None:
        """Replay the visits, all or until the page's own."""
        by_rule = self.queue.defer() and self.queue.takes_rows
        if not (self._replay_columns if by_rule else self._replay_visits)(until_fetched):
            self._add_waiting()
        self.queue.judge_all()

    def _replay_columns(self, until_fetched: bool) -> bool:
        """Replay visits some thousand at a time; return whether the page's own was reached."""
        columns = self._columns_noted(self.store.visit_columns())
        replayed = replay_columns(self.queue, columns, self.seeds, len(self.pages))
        with contextlib.closing(replayed):
            for group, rows, done in replayed:
                if until_fetched and group.pages[done.start] == self.page:
                    return True
                self._note_columns(group, rows, done)
        return False

    def _replay_visits(self, until_fetched: bool) -> bool:
        """Replay visits with what the ordering needs of them, one by one; return the same."""
        queue = self.queue
        texts = queue.hot_queue is not None
        visits = self.store.visits(texts=texts, anchors=texts or self.ordering.needs_anchors)
        replayed = replay(queue, self._noted(visits), self.seeds, len(self.pages))
        with contextlib.closing(replayed):
            for visit, n_before in replayed:
                if until_fetched and visit.page == self.page:
                    return True
                if visit.page != NO_PAGE:
                    self._note(visit, n_before)
        return False

    def _add_waiting(self) -> None:
        """Queue the pages that requests of the last run wait for, or were leased."""
        queue = self.queue
        for request in self.store.requests():
            priority = self.policy.priority_of(request.request)
            if queue.state(request.page) != WAITING or priority:
                queue.add(request.page, priority)
        for page in self.store.leased():
            if queue.state(page) == WAITING:
                queue.add(page, FIRST)

    def _noted(self, visits: Iterator[Visit]) -> Iterator[Visit]:
        """Note which of these visits are refusals."""
        for visit in visits:
            if is_refusal(visit.status, visit.error):
                self.refused[visit.page] = visit.error
            yield visit

    def _columns_noted(self, columns: Iterator[VisitColumns]) -> Iterator[VisitColumns]:
        """Note which of these visits are refusals."""
        for group in columns:
            for at in np.flatnonzero(group.is_refused).tolist():
                self.refused[int(group.pages[at])] = group.errors[at]
            yield group

    def _note(self, visit: Visit, n_before: int) -> None:
        targets = visit.targets
        self.n_visits += 1
        if self.page == NO_PAGE:
            self.n_linking[targets] += 1
            self.found_by[targets[targets >= n_before]] = visit.page
            return
        if self.page in targets.tolist():
            self._note_link(visit.page, n_before)
        if self._sites[visit.page] == self._site:
            self.site.add(visit.elapsed, visit.fetched_at)

    def _note_link(self, source: int, n_before: int) -> None:
        """Note a visit that links to the page."""
        if self.page >= n_before and not self.linking:
            self.found_by[self.page] = source
        self.linking.append(source)

    def _note_columns(self, group: VisitColumns, rows: Rows, done: slice) -> None:
        """Note visits as `_note` does, those that are evidence."""
        pages, n_before = group.pages[done], rows.n_before[done]
        is_evidence = ~group.is_refused[done] & (pages != NO_PAGE)
        self.n_visits += int(np.count_nonzero(is_evidence))
        begins = group.begins[done.start : done.stop + 1]
        targets, n_links = group.targets[begins[0] : begins[-1]], np.diff(begins)
        if self.page == NO_PAGE:
            shown = targets[np.repeat(is_evidence, n_links)]
            np.add.at(self.n_linking, shown, np.int32(1))  # 1 takes forty times as long
            first_new = np.where(is_evidence, n_before, len(self.pages))
            is_new = targets >= np.repeat(first_new, n_links)
            self.found_by[targets[is_new]] = np.repeat(pages, n_links)[is_new]
            return
        ends = np.cumsum(n_links)
        linking = np.searchsorted(ends, np.flatnonzero(targets == self.page), side="right")
        for at in dict.fromkeys(linking.tolist()):
            if is_evidence[at]:
                self._note_link(int(pages[at]), int(n_before[at]))
        is_own = is_evidence & (self._sites[pages] == self._site)
        for at in (done.start + np.flatnonzero(is_own)).tolist():
            self.site.add(float(group.elapsed[at]), float(group.fetched_at[at]))

    @property
    def ranks_sites(self) -> bool:
        """Whether the site of a page matters for its place."""
        ordering = self.ordering
        return bool(ordering.site_share) or type(ordering).site_key is not Ordering.site_key

    def place(self, page: int) -> Place:
        """Return where a page waits if no site has to wait. O(pages).

        Where sites are ranked, this takes all pages before it out of the queue.
        """
        known = self.queue.page_records
        waiting = np.flatnonzero(known["state"] == WAITING)
        tiers, keys = known["tier"][waiting], known["key"][waiting]
        tier, key = known["tier"][page], known["key"][page]
        is_tied = (tiers == tier) & (keys == key) & (waiting < page)
        is_before = (tiers > tier) | ((tiers == tier) & (keys > key)) | is_tied
        is_own = self.pages.sites[waiting] == self.pages.sites[page]
        n_before = int(is_before.sum())
        if self.ranks_sites:
            n_before = next(at for at, first in enumerate(self.head()) if first == page)
        return Place(n_before, len(waiting), int((is_before & is_own).sum()), int(is_own.sum()))

    def head(self) -> Iterator[int]:
        """Take the pages out of the queue, first to last, as if no site had to wait."""
        while (page := self.queue.next_page(0.0)) != NO_PAGE:
            self.queue.release(page)
            yield page

    def urls(self, pages: PageIds | NDArray[np.int32] | list[int]) -> dict[int, str]:
        """Return the URLs of pages; those that are no page are left out."""
        known = sorted({int(page) for page in pages} - {NO_PAGE})
        rows = self.store.read_urls(known)
        return {page: url for page, (url, _) in zip(known, rows, strict=True)}
