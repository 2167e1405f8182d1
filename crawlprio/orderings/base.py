"""The base classes of orderings: policies that give each waiting page a key from past visits.

An ordering has no clock, no queue and no Scrapy object, so the same object serves the live crawl
and the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crawlprio import compiled
from crawlprio.compiled.layout import Addresses, Layout
from crawlprio.errors import ConfigError
from crawlprio.orderings.explaining import Part, Watch
from crawlprio.orderings.rules import NO_STATE, VisitRule, compile_rule
from crawlprio.pages import NO_PAGE, NO_PAGES, PageIds, Visit

Keys = NDArray[np.float64]


class _AllPages(Enum):
    ALL_PAGES = "all pages"


ALL_PAGES: Final = _AllPages.ALL_PAGES
"""Returned by `observe` when any key may have changed."""

Changed = PageIds | _AllPages

NEVER: Final = 2**62
"""A number of visits that no crawl reaches."""

Rows = tuple[NDArray[np.int64], NDArray[np.int32], PageIds]
"""Start of each page's row (-1 if not fetched), its length (0 if it has no links), all targets."""


class Pages(Protocol):
    """The page table as an ordering sees it."""

    def __len__(self) -> int: ...

    def url(self, page: int) -> str: ...

    @property
    def n_sites(self) -> int: ...

    @property
    def sites(self) -> NDArray[np.int32]: ...


class Ordering:
    """A policy that decides which waiting page is fetched next; ORDERING can name a subclass.

    The page with the largest key is fetched first; pages with equal keys leave in order of
    discovery. A subclass overrides `observe`, and `discover` if new pages need different keys;
    about ten lines are enough. Its options in `ORDERING_OPTIONS` are the keyword arguments of its
    `__init__`.

    Attributes
    ----------
    keys
        float64, one per page id, with room to spare: larger is sooner. Any finite number.
    pages
        The page table: `pages.url(page)` is the URL of a page, `pages.sites[page]` its site.
    n_pages
        Number of pages that have a key so far; ids from here on in a visit's targets are new.
    held_below
        Waiting pages with a smaller key are held back until it rises, unless they are hot or their
        request has a priority above 0; -inf, the default: none.
    needs_anchors
        Set to True in a class that reads `visit.anchors`.
    site_share
        Pages per site in each round over the waiting sites, set by the option of the same name; 0,
        the default: no rounds. A site that has waiting pages again joins the current round.
    needs_values
        Set to True in a class that reads `visit.value`, so that the crawl must have a value model.
    needs_truth
        Set to True in a class that calls `truth(page)`, the PageRank of a page in the whole graph,
        which only the simulator, a replay and the demo web know.

    Notes
    -----
    `observe` is called once per fetched page, including failed ones, and once for the seeds, with
    `visit.page` set to `NO_PAGE`. It must depend on the visits alone, with no clock and no
    randomness except `uniform` with a seed, or the live order cannot be simulated.
    """

    initial_key: float = 0.0
    site_share: int = 0
    held_below: float = -math.inf
    needs_anchors: bool = False
    needs_values: bool = False
    needs_truth: bool = False

    keys: Keys
    pages: Pages
    n_pages: int
    truth: Callable[[int], float]

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        """Start an empty crawl, discarding all state. Called once before the first visit.

        Raises
        ------
        ConfigError
            If the ordering needs the whole graph and `truth` is None.
        """
        if self.needs_truth:
            if truth is None:
                raise ConfigError(
                    f"Ordering {type(self).__name__} needs the PageRank of the whole graph, which "
                    "only the simulator, a replay and the demo web know; choose another ordering."
                )
            self.truth = truth
        self.pages = pages
        self.keys = np.full(1024, self.initial_key)
        self.n_pages = 0

    @property
    def needs_compiled(self) -> bool:
        """Whether it runs compiled code, so that a crawl has to compile before its first page."""
        return False

    def compile(self) -> None:
        """Compile what the ordering runs, or load it from numba's cache; by default nothing."""

    def observe(self, visit: Visit) -> Changed:
        """Learn from a visit; return the pages whose keys changed, or `ALL_PAGES`.

        The fetched page itself need not be included. New targets already have their first key. The
        default learns nothing.
        """
        return visit.targets[:0]

    def discover(self, first: int, last: int, visit: Visit) -> None:
        """Give the new pages first, ..., last - 1 their keys; `visit` is the one that found them.

        Called before `observe` for the same visit. By default they get `initial_key`.
        """

    def site_key(self, site: int, best_key: float, n_waiting: int) -> float:
        """Return the key of a site among the sites: by default the key of its first page.

        Parameters
        ----------
        best_key
            Key of the site's first waiting page.
        n_waiting
            Number of waiting pages of the site.
        """
        return best_key

    def watch(self, page: int) -> None:
        """Note what `explain` has to say of a page; called before the first visit, if at all."""

    def explain(self, page: int) -> Part:
        """Return how the key of the page that is watched came about; by default the key alone.

        Its amounts add up to the key exactly, or the key alone is shown.
        """
        return Part("its key", float(self.keys[page]))

    def recomputation(self) -> Callable[[], Keys] | None:
        """Return the computation that is due after the last visit, to run in any thread."""
        return None

    def accept(self, result: Keys) -> Changed:
        """Adopt the result of a recomputation; visits may have been observed in between."""
        raise TypeError(f"{type(self).__name__} has no recomputation")

    def learn(self, visit: Visit, n_pages: int, *, again: bool = False) -> Changed:
        """Give keys to all pages up to `n_pages`, then observe. The frontier calls this.

        A page that is fetched `again` is not observed twice, but its new targets get their first
        keys.
        """
        first = self._extend_keys(n_pages)
        if n_pages > first:
            self.discover(first, n_pages, visit)
        return visit.targets[:0] if again else self.observe(visit)

    def _extend_keys(self, n_pages: int) -> int:
        """Make room for the keys of all pages up to `n_pages`; return the first new page."""
        first = self.n_pages
        if n_pages > first:
            if n_pages > len(self.keys):
                room = np.full(max(n_pages, 2 * len(self.keys)), self.initial_key)
                room[:first] = self.keys[:first]
                self.keys = room
            self.n_pages = n_pages
        return first


class RuleArguments(NamedTuple):
    """What calls of a visit rule share while there is room, and where it writes changed pages."""

    keys: Keys
    numbers: NDArray[np.float64]
    sites: PageIds
    addresses: Addresses
    changed: PageIds


class Noted(NamedTuple):
    """What has been noted of the page that is watched.

    Parameters
    ----------
    page
        The page; `NO_PAGE` if none is.
    reads_state
        Whether a note also takes in what a visit of pages that do not link to the page did to it.
    key
        The key that is explained so far.
    n_gifts
        int64, shape (1,): gifts of the last visit.
    """

    page: int
    reads_state: bool
    key: float
    n_gifts: NDArray[np.int64]


class CompiledOrdering(Ordering):
    """An ordering whose class defines a compiled visit rule, which every driver runs.

    A class runs in the simulator's compiled loop if its own body defines `rule`. A subclass that
    does not runs page by page, so that its overrides take effect. By setting a rule (`rule =
    Opic.rule`), a class declares that the rule, with `first_scores` and the recomputations, is its
    whole behaviour.

    Attributes
    ----------
    rule
        The visit rule; its arguments are listed at `crawlprio.orderings.rules.VisitRule`.
    changes_known
        Whether a visit may change the keys of pages that were already known.
    layout
        The types of the arrays of the rule's state; default: no state.
    state
        These arrays, by name.
    reads_sites
        Whether the rule reads the sites of pages.
    numbers
        float64: the rule's own numbers, set by `open`; default none.
    by_waiting_pages
        Whether sites rank by their number of waiting pages instead of their first page.
    due_when_ranked_are_fetched
        Whether keys are also recomputed once all pages below `n_ranked` are fetched.
    """

    rule: ClassVar[VisitRule]
    layout: ClassVar[Layout[Any]] = NO_STATE
    reads_sites: ClassVar[bool] = False
    changes_known: ClassVar[bool] = False
    by_waiting_pages: ClassVar[bool] = False
    due_when_ranked_are_fetched: ClassVar[bool] = False

    state: Any
    numbers: NDArray[np.float64]
    _watched: Watch | None = None

    @property
    def n_ranked(self) -> int:
        """Number of pages known when keys were last recomputed; by default 0."""
        return 0

    @property
    def _has_plain_rule(self) -> bool:
        return bool(getattr(type(self).rule, "is_plain", False))

    @property
    def needs_compiled(self) -> bool:
        return not self._has_plain_rule

    def compile(self) -> None:
        """Compile the rule, or load it from numba's cache, for every driver."""
        self._rule = compile_rule(type(self).rule)
        if self._watched is not None:
            self._rule = self._watched.around(self._rule)

    @property
    def runs_compiled(self) -> bool:
        """Whether the simulator may run this ordering, with its options, in the compiled loop."""
        return "rule" in vars(type(self))

    @property
    def learns_by_rule(self) -> bool:
        """Whether one call of the rule does all that `discover` and `observe` do.

        By default, if the class overrides neither.
        """
        return (type(self).discover, type(self).observe) == _RULE_ALONE

    def due_at(self, n_links: int) -> int:
        """Return the number of visits at which all keys are next due, given `n_links` links seen.

        Called by the compiled loop; the result must not decrease as `n_links` grows. By default
        never.
        """
        return NEVER

    def compute_keys(self, rows: Rows, n_visits: int) -> Keys:
        """Return new keys for all pages after `n_visits` visits; `due_at` counts from there.

        The compiled loop calls it when keys are due, in place of `recomputation` and `accept`.
        """
        raise TypeError(f"{type(self).__name__} has no recomputation")

    def first_scores(
        self, n_pages: int, urls: Sequence[str] | None, truth: Keys | None = None
    ) -> Keys | None:
        """Return the first key of each page of a link graph, NaN where the rule decides.

        The compiled loop calls it once, in place of `discover`. By default None: the rule decides
        for all pages.

        Parameters
        ----------
        n_pages
            Number of pages in the graph.
        urls
            The URL of each page, if known.
        truth
            float64, shape (n_pages,): PageRank of the whole graph, if needed.
        """
        return None

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self.numbers = self.first_numbers()
        self._set_state(self.first_state())
        self._has_state = self.layout is not NO_STATE
        self._learns_by_rule = self.learns_by_rule
        self._room: tuple[int, ...] = (0, 0, 0, 0)
        self._n_links = 0
        self._rule = type(self).rule
        self._watched = None
        if not self._has_plain_rule or compiled.plain_until() == 0:
            self.compile()  # now rather than at the first visit

    def watch(self, page: int) -> None:
        self._watched = Watch(page, self.note)
        self._rule = self._watched.around(self._rule)

    def note(self) -> None:
        """Called after each call of the rule that may have changed the page that is watched."""

    @property
    def noted(self) -> Noted:
        """What `note` has taken in; a class that overrides `note` overrides this too."""
        page = NO_PAGE if self._watched is None else self._watched.page
        return Noted(page, False, math.nan, _NO_GIFTS)

    def first_numbers(self) -> NDArray[np.float64]:
        """Return the initial value of `numbers`; by default empty."""
        return np.empty(0)

    def first_state(self) -> Any:
        """Return the initial value of `state`; by default empty arrays."""
        return self.layout.empty()

    def with_room(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> Any:
        """Return the state, with room for a crawl of at most so many pages, sites and links.

        `most_links` bounds the links of a single page. By default there is no state.
        """
        return self.state

    def reserve(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> Addresses:
        """Make room as `with_room` does; return the addresses, valid until the next call."""
        self._set_state(self.with_room(n_pages, n_sites, n_links, most_links))
        return self._addresses

    def _set_state(self, state: Any) -> None:
        self.state, self._addresses = state, self.layout.addresses(state)

    def discover(self, first: int, last: int, visit: Visit) -> None:
        self._apply(visit.page, visit.targets, first, last, True)

    def observe(self, visit: Visit) -> Changed:
        if visit.page < 0:
            return visit.targets
        last = self.n_pages
        return _with(visit.targets, self._apply(visit.page, visit.targets, last, last, False))

    def learn(self, visit: Visit, n_pages: int, *, again: bool = False) -> Changed:
        """Do the same as `Ordering.learn`, in one call of the rule where that is all it takes."""
        if not self._learns_by_rule:
            return super().learn(visit, n_pages, again=again)
        first = self._extend_keys(n_pages)
        is_again = again or visit.page < 0
        others = self._apply(visit.page, visit.targets, first, n_pages, is_again)
        return visit.targets[:0] if again else _with(visit.targets, others)

    def rule_arguments(self, n_pages: int, n_links: int) -> RuleArguments:
        """Make room for visits with so many links, to `n_pages` pages; return the arguments."""
        n_known = self._extend_keys(n_pages)
        self.n_pages = n_known
        if self._has_state:
            self._make_room(n_pages, n_links)
        sites = self.pages.sites if self.reads_sites else NO_PAGES
        changed = self.state.changed
        return RuleArguments(self.keys, self.numbers, sites, self._addresses, changed)

    def _apply(self, page: int, targets: PageIds, first: int, last: int, again: bool) -> PageIds:
        """Call the rule; return the pages besides the targets whose keys it changed."""
        if self._has_state:
            self._make_room(max(self.n_pages, last), len(targets))
        sites = self.pages.sites if self.reads_sites else NO_PAGES
        numbers, addresses = self.numbers, self._addresses
        n = self._rule(self.keys, page, targets, first, last, again, numbers, sites, addresses)
        return self.state.changed[:n] if n else NO_PAGES

    def _make_room(self, n_pages: int, n_targets: int) -> None:
        """Make room in the state for one more visit: seldom, as for twice what is needed."""
        n_sites = self.pages.n_sites
        self._n_links = n_links = self._n_links + n_targets
        pages, sites, links, row = self._room
        if n_pages > pages or n_sites > sites or n_links > links or n_targets > row:
            needed = (n_pages, n_sites, n_links, n_targets)
            self._room = tuple(
                have if need <= have else 2 * need
                for need, have in zip(needed, self._room, strict=True)
            )
            self.reserve(*self._room)


def _with(targets: PageIds, others: PageIds) -> PageIds:
    """The pages whose keys a visit changed."""
    return np.concatenate([targets, others]) if len(others) else targets


_NO_GIFTS = np.zeros(1, dtype=np.int64)

_RULE_ALONE = CompiledOrdering.discover, CompiledOrdering.observe
