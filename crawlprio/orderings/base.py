"""What an ordering is: its keys, its compiled rule, and the checks of its options.

An ordering has no clock, no queue and no Scrapy object, so the same object serves the live crawl
and the simulator.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from crawlprio.errors import ConfigError
from crawlprio.graph import arrays
from crawlprio.graph.compiled import Addresses, Compiled, Layout, P, R, dispatcher_of, load, njit
from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageIds, Visit


class NoState(NamedTuple):
    """What the state of any rule has: the pages whose keys it changed, as far as it lists them.

    A rule writes those pages into `changed`, and the keys that they had into `before`.
    """

    changed: PageIds
    before: NDArray[np.float64]


NO_STATE = Layout(NoState, np.int32, np.float64)

VisitRule = Callable[..., int]
"""An `@njit(cache=True)` function of the visit and of what the ordering knows.

Its parameters are (keys, page, targets, first, last, again, numbers, sites, addresses):

keys
    float64 by page id, written by the rule. Finite; larger is sooner.
page
    The fetched page; -1 for the visit that introduces seeds.
targets
    int32, read only: the distinct pages it links to, without itself, in page order.
first, last
    Pages first, ..., last - 1 are new in this visit; the rule gives them their first keys. In a
    compiled loop all of them are targets; in a live crawl some may be pages that a spider asked
    for. A class that overrides `discover` or `observe` calls the rule twice per visit: for the
    first keys (`again`), then for the evidence (no new pages).
again
    The links are no new evidence because the page was fetched before: write first keys only.
numbers
    float64, owned by the ordering: the values of its options, and counts over the whole crawl.
sites
    int32 by page id, read only: its site. Empty unless the class `reads_sites`.
addresses
    The ordering's state, as the addresses that its `layout` reads.

A crawl begins with the rule in Python (`Compiled.plain`). There the state is memoryviews, and of an
array of records `records.name[i]` is fast, `records[i].name` slow.

The rule returns how many distinct pages it wrote into `changed`: all whose keys it changed, targets
only if the class `lists_changed`. Keys of pages below `first` may change only in a class that sets
`changes_known`.
"""


class RuleLoop:
    """A compiled loop whose first argument is a visit rule.

    The rule is called through its address, so the loop is compiled once for all rules, and a new
    ordering only compiles its rule. That requires explicit types of the arguments. References to
    arrays are not counted, which would take three quarters of the time; the loop retains none.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._versions: dict[tuple[Any, ...], Any] = {}

    def of(self, rule: VisitRule, *arguments: Any) -> Callable[..., Any]:
        """Return the loop with this rule, compiled for further arguments of these types."""
        called = compile_rule(rule)
        from numba import typeof, types

        kinds = (types.FunctionType(_signature()), *map(typeof, arguments))
        if kinds not in self._versions:
            version = njit(cache=True, keeps_arrays=False)(self._function).dispatcher
            version.compile(kinds)
            version.disable_compile()
            self._versions[kinds] = version
        return partial(self._versions[kinds], called)


def compile_rule(rule: VisitRule) -> Callable[..., int]:
    """Return a rule compiled, or loaded from numba's cache, for live crawls and compiled loops."""
    load()
    from numba.core.compiler_lock import global_compiler_lock

    dispatcher: Any = dispatcher_of(rule)
    with global_compiler_lock:  # a crawl that ended may still compile in its thread
        if dispatcher._can_compile:
            dispatcher.compile(_signature())
            dispatcher.disable_compile()
    return dispatcher  # type: ignore[no-any-return]


def _signature() -> Any:
    """Return the numba signature of all rules.

    Keys are contiguous in a live crawl, and a column of the page records in a compiled loop.
    """
    from numba import types

    page_ids = types.Array(types.int32, 1, "C", readonly=True)
    keys, numbers = (types.Array(types.float64, 1, layout) for layout in ("A", "C"))
    bounds = (types.int64, types.int64, types.boolean)
    addresses = types.Array(types.int64, 1, "C")
    return types.int64(keys, types.int64, page_ids, *bounds, numbers, page_ids, addresses)


@njit(cache=True, plain=True)
def uniform(seed: int, index: int) -> float:
    """Return number `index` of the SplitMix64 sequence from `seed`, as a float in [0, 1).

    Source: Steele, Lea & Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    x = np.uint64(seed) + np.uint64(index + 1) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return float(x >> np.uint64(11)) * 2.0**-53


def pages_in_turn(
    best_first: PageIds,
    sites: NDArray[np.int32],
    most: int,
    share: int,
    site_key: Callable[[int, int], float],
) -> PageIds:
    """Return the pages that leave first, at most `most`, if no page is found meanwhile.

    As in the queue: the site of the largest key gives its first page. With a `share` above 0, each
    site gives so many pages in a round before any gives more. Ties go to the smaller page.

    `best_first`: waiting pages in the order in which their sites give them; `sites`: of all pages.
    `site_key`: of the first page of a site and its number of waiting pages. O(n log n).
    """
    by_site = best_first[np.argsort(sites[best_first], kind="stable")]
    ends = np.flatnonzero(np.diff(sites[by_site])) + 1
    waiting = [iter(pages.tolist()) for pages in np.split(by_site, ends)]
    n_waiting = np.diff([0, *ends, len(by_site)]).tolist()
    firsts: list[tuple[int, float, int, int, int]] = []

    def enter(site: int, n_taken: int) -> None:
        page = next(waiting[site], NO_PAGE)
        if page != NO_PAGE:
            key = -site_key(page, n_waiting[site] - n_taken)
            heapq.heappush(firsts, (n_taken // share if share else 0, key, page, site, n_taken))

    for site in range(len(waiting)):
        enter(site, 0)
    taken: list[int] = []
    while firsts and len(taken) < most:
        *_, page, site, n_taken = heapq.heappop(firsts)
        taken.append(page)
        enter(site, n_taken + 1)
    return np.array(taken, dtype=np.int32)


def checked_number(ordering: str, option: str, value: object, **bounds: Any) -> float:
    """Return an option as a number; raise ConfigError if it is invalid."""
    return arrays.checked_number(f"ORDERING_OPTIONS of {ordering}", option, value, **bounds)


def checked_weights(ordering: str, option: str, value: object) -> dict[str, float]:
    """Return an option that maps names to weights; raise ConfigError if it is invalid."""
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"ORDERING_OPTIONS of {ordering}: {option} is {value!r}; give a dict of names and "
            'weights, such as {"com": 1.0}.'
        )
    return {
        str(name).casefold(): checked_number(ordering, f"{option}[{name!r}]", weight)
        for name, weight in value.items()
    }


def checked_switch(ordering: str, option: str, value: object) -> bool:
    """Return an option that is True or False; raise ConfigError if it is neither."""
    if not isinstance(value, bool):
        raise ConfigError(
            f"ORDERING_OPTIONS of {ordering}: {option} is {value!r}; give True or False."
        )
    return value


def checked_seed(ordering: str, value: object) -> int:
    """Return the seed of the random number generator; raise ConfigError if it is invalid."""
    return int(checked_number(ordering, "seed", value, least=0, below=2**53, whole=True))


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
    needs_texts
        Set to True in a class that reads `visit.text`.
    judge
        What a short text is worth by the value model of the crawl, from 0 to 1: set before `open`
        if the class has `needs_values`. None, the default: the model judges whole pages alone.
    needs_truth
        Set to True in a class that calls `truth(page)`, the PageRank of a page in the whole graph,
        which only the simulator, a replay and the demo web know.
    members
        The orderings that this one learns through, if any: what it observes, they observe.

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
    needs_texts: bool = False
    judge: Callable[[str], float] | None = None
    needs_truth: bool = False
    members: Sequence[Ordering] = ()

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

    is_plain = True
    """Whether it runs in Python so far."""

    learns = True
    """Whether its keys depend on earlier visits: a crawl resumes from a state saved under it."""

    is_slow_in_python = False
    """Whether Python takes tens of milliseconds a visit, so that compiling pays from the first."""

    def compile(self) -> None:
        """Compile what the ordering runs, or load it from numba's cache; by default nothing.

        Until then it runs in Python, with the same keys. Called before a visit or between two.
        """
        self.is_plain = False

    def code(self, function: Compiled[P, R]) -> Callable[P, R]:
        """Return a function as the ordering runs it now: compiled, or in Python."""
        return function.plain if self.is_plain else function

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

    def explain(self, page: int) -> Part:
        """Return what the key of a page is made of now; by default the key alone.

        Called after each visit that changed the key, when a crawl is replayed to explain it. The
        amounts add up to the key exactly, or the key alone is shown.
        """
        return Part("its key", float(self.keys[page]))

    def explain_history(self, history: KeyHistory) -> Part:
        """Return how the key came about, from the visits that made it; called once, after them.

        By default what `explain` said after the visit that last changed the key. An ordering whose
        keys are sums over links, or come from one, overrides this instead.
        """
        return history.part

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


class Part(NamedTuple):
    """A part of a key, or a whole key.

    Parameters
    ----------
    what
        What it is for, in words.
    amount
        How much it is. If it has parts: exactly their amounts, added in turn, times `factor`.
    page
        The page that it is from; `NO_PAGE` if none is.
    factor
        By which the sum of its parts is multiplied.
    parts
        What it is made of.
    """

    what: str
    amount: float
    page: int = NO_PAGE
    factor: float = 1.0
    parts: tuple[Part, ...] = ()

    def adds_up(self) -> bool:
        """Return whether each amount is that of its parts, to the last bit."""
        if not self.parts:
            return True
        is_sum = self.amount == _sum(self.parts) * self.factor
        return is_sum and all(part.adds_up() for part in self.parts)


def made_of(what: str, parts: Iterable[Part], *, factor: float = 1.0, page: int = NO_PAGE) -> Part:
    """Return the part that consists of others."""
    made = tuple(parts)
    return Part(what, _sum(made) * factor, page, factor, made)


def _sum(parts: Iterable[Part]) -> float:
    amount = 0.0
    for part in parts:
        amount += part.amount
    return amount


class LinkingVisit(NamedTuple):
    """A visit that shows a page: the visited page, its key until then, its links, the anchor."""

    page: int = NO_PAGE
    key: float = 0.0
    n_links: int = 0
    anchor: str = ""


class KeyHistory:
    """The visits that made the key of one page, noted as a crawl is replayed.

    Whoever replays calls `before` and `after` around each visit, and `after` alone once the key may
    have changed otherwise. `found` is the visit that discovered the page (of `NO_PAGE` for a seed,
    or a page asked for), `first_key` the key after it, `links` are the visits that count as
    evidence, in turn, and `last` is that which last changed the key, if it links to the page. `key`
    is the key now, NaN before the page is known, and `part` what the ordering said of it then.
    """

    def __init__(self, ordering: Ordering, page: int) -> None:
        self.page = page
        self.found = LinkingVisit()
        self.links: list[LinkingVisit] = []
        self.last: LinkingVisit | None = None
        self.first_key = self.key = math.nan
        self.part = Part("its key", math.nan)
        self.members = [KeyHistory(member, page) for member in ordering.members]
        self._ordering = ordering
        self._link: LinkingVisit | None = None

    def before(self, visit: Visit, n_pages: int, *, again: bool) -> None:
        """Note a visit that is about to be learned, as `Ordering.learn` takes it."""
        page, ordering = self.page, self._ordering
        if not again:
            for member in self.members:
                member.before(visit, n_pages, again=False)
        at = np.flatnonzero(visit.targets == page)
        is_new = ordering.n_pages <= page < n_pages
        is_link = not again and visit.page >= 0 and len(at) > 0
        if visit.page < 0 or not (is_new or is_link):
            return
        is_known = visit.page < ordering.n_pages
        key = float(ordering.keys[visit.page]) if is_known else ordering.initial_key
        anchor = visit.anchors[at[0]] if is_link and len(visit.anchors) else ""
        link = LinkingVisit(visit.page, key, len(visit.targets), anchor)
        if is_new:
            self.found = link
        if is_link:
            self._link = link
            self.links.append(link)

    def after(self) -> None:
        """Note the key of the page, if it is known by now and has changed."""
        for member in self.members:
            member.after()
        ordering, link = self._ordering, self._link
        self._link = None
        key = float(ordering.keys[self.page]) if self.page < ordering.n_pages else self.key
        if key == self.key or math.isnan(key):
            return
        if math.isnan(self.key):
            self.first_key = key
        self.key, self.last, self.part = key, link, ordering.explain(self.page)


class RuleArguments(NamedTuple):
    """What calls of a visit rule share while there is room, and where it writes changed pages."""

    keys: Keys
    numbers: NDArray[np.float64]
    sites: PageIds
    addresses: Addresses
    changed: PageIds


class CompiledOrdering(Ordering):
    """An ordering whose class defines a compiled visit rule, which every driver runs.

    A class runs in the simulator's compiled loop if its own body defines `rule`. A subclass that
    does not runs page by page, so that its overrides take effect. By setting a rule (`rule =
    Opic.rule`), a class declares that the rule, with `first_scores` and the recomputations, is its
    whole behaviour. The arguments of a rule are listed at `crawlprio.orderings.base.VisitRule`.

    A class declares the `layout` of its rule's `state`, arrays by name (default: none), whether the
    rule `reads_sites`, whether a visit `changes_known` keys, those of pages already known, and
    whether the rule `lists_changed` targets among the other pages.
    `by_waiting_pages`: sites rank by their number of waiting pages instead of their first page.
    `due_when_ranked_are_fetched`: keys are also recomputed once all pages below `n_ranked` are
    fetched. `numbers` are the rule's own, which `open` sets.
    """

    rule: ClassVar[VisitRule]
    layout: ClassVar[Layout[Any]] = NO_STATE
    reads_sites: ClassVar[bool] = False
    changes_known: ClassVar[bool] = False
    lists_changed: ClassVar[bool] = False
    by_waiting_pages: ClassVar[bool] = False
    due_when_ranked_are_fetched: ClassVar[bool] = False

    state: Any
    numbers: NDArray[np.float64]

    @property
    def n_ranked(self) -> int:
        """Number of pages known when keys were last recomputed; by default 0."""
        return 0

    def compile(self) -> None:
        """Compile the rule, or load it from numba's cache, for every driver."""
        super().compile()
        self._rule = compile_rule(type(self).rule)
        if "state" in vars(self):
            self._set_state(self.state)

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

        The compiled loop calls it once, in place of `discover`, with the number of pages in the
        graph, their URLs if known, and the PageRank of the whole graph if needed. By default None:
        the rule decides for all pages.
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
        rule: Any = type(self).rule
        if self.is_plain and isinstance(rule, Compiled):
            self._rule = rule.plain
        else:  # which may be a function that a user compiles with numba itself
            self.compile()

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
        return self.layout.addresses(self.state)

    def _set_state(self, state: Any) -> None:
        """Replace the state, also as the rule takes it: as addresses, or columns in Python."""
        self.state = state
        layout = self.layout
        self._state = layout.columns(state) if self.is_plain else layout.addresses(state)

    def discover(self, first: int, last: int, visit: Visit) -> None:
        self._apply(visit.page, visit.targets, first, last, True)

    def observe(self, visit: Visit) -> Changed:
        if visit.page < 0:
            return visit.targets
        last = self.n_pages
        return self._apply(visit.page, visit.targets, last, last, False)

    def learn(self, visit: Visit, n_pages: int, *, again: bool = False) -> Changed:
        """Do the same as `Ordering.learn`, in one call of the rule where that is all it takes."""
        if not self._learns_by_rule:
            return super().learn(visit, n_pages, again=again)
        first = self._extend_keys(n_pages)
        is_again = again or visit.page < 0
        changed = self._apply(visit.page, visit.targets, first, n_pages, is_again)
        return visit.targets[:0] if again else changed

    def rule_arguments(self, n_pages: int, n_links: int) -> RuleArguments:
        """Make room for visits with so many links, to `n_pages` pages; return the arguments."""
        n_known = self._extend_keys(n_pages)
        self.n_pages = n_known
        if self._has_state:
            self._make_room(n_pages, n_links)
        sites = self.pages.sites if self.reads_sites else NO_PAGES
        changed = self.state.changed
        return RuleArguments(self.keys, self.numbers, sites, self._state, changed)

    def _apply(self, page: int, targets: PageIds, first: int, last: int, again: bool) -> PageIds:
        """Call the rule; return the pages whose keys it may have changed."""
        if self._has_state:
            self._make_room(max(self.n_pages, last), len(targets))
        sites = self.pages.sites if self.reads_sites else NO_PAGES
        numbers, state = self.numbers, self._state
        n = self._rule(self.keys, page, targets, first, last, again, numbers, sites, state)
        listed: PageIds = self.state.changed[:n]
        return listed if self.lists_changed else np.concatenate([targets, listed]) if n else targets

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

    def learned_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that the ordering has learned, if its rule alone learns."""
        state = self.state._asdict()
        sizes = [self._n_links, *self._room, *map(len, state.values())]
        learned = {f"state.{name}": _without_room(array) for name, array in state.items()}
        known = {"keys": self.keys[: self.n_pages], "numbers": self.numbers}
        return learned | known | {"sizes": np.array(sizes)}

    def restore_learned(self, take: Callable[[str, DTypeLike], NDArray[Any]]) -> None:
        """Replace all that this ordering, just opened, has learned by such arrays, by name."""
        self.keys = take("keys", np.float64)
        self.n_pages = len(self.keys)
        self.numbers = take("numbers", np.float64)
        sizes = take("sizes", np.int64).tolist()
        self._n_links, self._room = sizes[0], tuple(sizes[1:5])
        learned = {}
        for (name, empty), size in zip(self.state._asdict().items(), sizes[5:], strict=True):
            learned[name] = np.zeros(size, dtype=empty.dtype)
            known = take(f"state.{name}", empty.dtype)
            learned[name][: len(known)] = known
        self._set_state(self.state._replace(**learned))


_BLOCK = 4096


def _without_room(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array without the zeros at its end, which are room for more."""
    end, content = len(array), array.view(np.uint8)
    while end and not content[max(end - _BLOCK, 0) * array.itemsize : end * array.itemsize].any():
        end = max(end - _BLOCK, 0)
    return array[:end]


_RULE_ALONE = CompiledOrdering.discover, CompiledOrdering.observe
