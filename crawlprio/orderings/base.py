"""What an ordering is: the policy that gives each waiting page a key from the visits seen so far.

An ordering knows no clock, no queue and no Scrapy object; the same object serves the live crawl and
the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError
from crawlprio.orderings import kernels
from crawlprio.pages import NO_PAGE, PageIds, Visit

Keys = NDArray[np.float64]


class _AllPages(Enum):
    ALL_PAGES = "all pages"


ALL_PAGES: Final = _AllPages.ALL_PAGES
"""The answer of `observe` when any key may have changed."""

Changed = PageIds | _AllPages

NO_TABLE: Keys = np.zeros(1)

NEVER: Final = 2**62
"""A number of visits that no crawl comes to."""

Rows = tuple[NDArray[np.int64], NDArray[np.int32], PageIds]
"""Where the row of each page begins, its length (0: not fetched or no links), and all targets."""


class Pages(Protocol):
    """What an ordering may ask about a page."""

    def __len__(self) -> int: ...

    def url(self, page: int) -> str: ...

    @property
    def sites(self) -> NDArray[np.int32]: ...


class Ordering:
    """A policy that decides which waiting page is fetched next; ORDERING can name a subclass.

    The page with the largest key is fetched first; pages with equal keys leave in order of
    discovery. A subclass overrides `observe`, and `discover` where new pages differ; some ten lines
    do. The options of `ORDERING_OPTIONS` are the keyword arguments of its `__init__`.

    Attributes
    ----------
    keys
        float64, one per page id (with room to spare): larger is sooner. Any finite number.
    pages
        The page table: `pages.url(page)` is the URL of a page, `pages.sites[page]` its site.
    n_pages
        Pages that have a key so far; ids from here on in a visit's targets are new.
    needs_anchors
        Set it in a class that reads `visit.anchors`.
    needs_truth
        Set it in a class that calls `truth(page)`, the PageRank of a page in the whole graph, which
        is known in the simulator, a replay and the demo web only.

    Notes
    -----
    `observe` is called once per fetched page, failed ones included, and once for the seeds
    (`visit.page` is then `NO_PAGE`). It must depend on the visits alone: no clock, no randomness
    but `uniform` of a seed, or the live order cannot be simulated.
    """

    initial_key: float = 0.0
    needs_anchors: bool = False
    needs_truth: bool = False

    keys: Keys
    pages: Pages
    n_pages: int
    truth: Callable[[int], float]

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        """Start anew on an empty crawl. Called once before the first visit.

        Raises
        ------
        ConfigError
            if the ordering needs the whole graph and nothing knows it.
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

    def observe(self, visit: Visit) -> Changed:
        """Learn from a visit; return the pages whose keys changed, or `ALL_PAGES`.

        The fetched page itself need not be named. New targets have their first key already. The
        default learns nothing.
        """
        return visit.targets[:0]

    def discover(self, first: int, last: int, visit: Visit) -> None:
        """Give the new pages first, ..., last - 1 their keys; `visit` is the one that shows them.

        Called before `observe` for the same visit. By default they have `initial_key`.
        """

    def site_key(self, site: int, best_key: float, n_waiting: int) -> float:
        """Return the rank of a site among sites: by default the key of its first page.

        Parameters
        ----------
        best_key
            key of the waiting page of the site that comes first.
        n_waiting
            number of pages of the site that wait.
        """
        return best_key

    def recomputation(self) -> Callable[[], Keys] | None:
        """Return work that is due after the last visit, to be done on a snapshot in any thread."""
        return None

    def accept(self, result: Keys) -> Changed:
        """Take over what a recomputation returned; visits may have come in between."""
        raise TypeError(f"{type(self).__name__} has no recomputation")

    def learn(self, visit: Visit, n_pages: int, *, again: bool = False) -> Changed:
        """Give keys to all pages up to `n_pages`, then observe. The frontier calls this.

        A page that is fetched `again` is not observed twice; its new targets get their first keys.
        """
        known = self.n_pages
        if n_pages > known:
            if n_pages > len(self.keys):
                room = np.full(max(n_pages, 2 * len(self.keys)), self.initial_key)
                room[:known] = self.keys[:known]
                self.keys = room
            self.n_pages = n_pages
            self.discover(known, n_pages, visit)
        return visit.targets[:0] if again else self.observe(visit)


class CompiledOrdering(Ordering):
    """An ordering made of two compiled rules, which the simulator runs in one compiled loop.

    Attributes
    ----------
    first_key_rule, evidence_rule
        One of the rules of `crawlprio.orderings.kernels` each.
    seed_key
        Key of the seeds; `initial_key` where a class does not say.
    random_seed
        Seed of the random rules.
    table
        Values for the rule `RANDOM_OF_TABLE`.
    n_ranked
        Pages below this id are not changed by the rule `SHARE_VALUE`.
    by_waiting_pages
        Whether sites rank by their number of waiting pages, not by their first page.
    due_when_ranked_are_fetched
        Whether keys are also computed anew once all pages below `n_ranked` are fetched.
    """

    first_key_rule: int = kernels.CONSTANT
    evidence_rule: int = kernels.NOTHING
    by_waiting_pages: ClassVar[bool] = False
    due_when_ranked_are_fetched: ClassVar[bool] = False
    new_key: float = 0.0
    seed_key: float = 0.0
    random_seed: int = 0
    table: Keys = NO_TABLE

    @property
    def runs_in_loop(self) -> bool:
        """Whether the rules, with these options, say all that the compiled loop has to know."""
        return not self.refines(CompiledOrdering)

    def refines(self, cls: type[CompiledOrdering]) -> bool:
        """Return whether the class of this ordering overrides what the rules of `cls` stand for."""
        own = type(self)
        return (
            own.discover is not cls.discover
            or own.observe is not cls.observe
            or own.learn is not cls.learn
            or own.recomputation is not cls.recomputation
            or own.accept is not cls.accept
            or (own.site_key is not cls.site_key and not own.by_waiting_pages)
        )

    def due_at(self, n_links: int) -> int:
        """Return after how many visits all keys are due anew, if so many links are seen by then.

        The compiled loop asks; the answer never falls as `n_links` grows. By default never.
        """
        return NEVER

    def compute_keys(self, rows: Rows, n_visits: int) -> Keys:
        """Return new keys of all pages after so many visits; `due_at` counts from there.

        The compiled loop calls it when they are due, in place of `recomputation` and `accept`.
        """
        raise TypeError(f"{type(self).__name__} has no recomputation")

    def graph_scores(
        self, n_pages: int, urls: Sequence[str] | None, truth: Keys | None = None
    ) -> Keys | None:
        """Return the first key of each page of a link graph, NaN where `first_key_rule` decides.

        The compiled loop asks once, in place of `discover`. By default None: the rule decides.

        Parameters
        ----------
        n_pages
            pages of the graph.
        urls
            the URL of each, where known.
        truth
            float64, shape (n_pages,): PageRank of the whole graph, where it is needed.
        """
        return None

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self.n_visits = 0
        self.n_ranked = 0
        self.last_visited = NO_PAGE

    def discover(self, first: int, last: int, visit: Visit) -> None:
        seeds = visit.page < 0
        n_links = len(visit.targets)
        parent = self.last_visited if seeds else visit.page
        kernels.first_keys(
            self.first_key_rule,
            self.seed_key if seeds else self.new_key,
            self.random_seed,
            self.table,
            first,
            last,
            0 if seeds else self.n_visits + 1,
            0.0 if parent < 0 else self.keys[parent],
            0.0 if seeds or n_links == 0 else self.keys[visit.page] / n_links,
            self.keys,
        )

    def observe(self, visit: Visit) -> Changed:
        if visit.page >= 0:
            self.n_visits += 1
            self.last_visited = visit.page
            kernels.apply_evidence(
                self.evidence_rule, self.keys, visit.page, visit.targets, self.n_ranked
            )
        return visit.targets


def checked_number(
    ordering: str,
    option: str,
    value: object,
    *,
    least: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> float:
    """Return an option as a number, or say in one sentence what is allowed."""
    kind = "a whole number" if whole else "a number"
    bound = "" if least is None else f" of {least:g} or more"
    if below is not None:
        bound += f", below {below:.16g}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
        if not np.isfinite(number) or (whole and number != int(number)):
            raise ValueError
        if (least is not None and number < least) or (below is not None and number >= below):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"ORDERING_OPTIONS of {ordering}: {option} is {value!r}; give {kind}{bound}."
        ) from None
    return number


def checked_weights(ordering: str, option: str, value: object) -> dict[str, float]:
    """Return an option that maps names to weights, or say in one sentence what is allowed."""
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"ORDERING_OPTIONS of {ordering}: {option} is {value!r}; give names with a weight "
            'each, such as {"com": 1.0}.'
        )
    return {
        str(name).casefold(): checked_number(ordering, f"{option}[{name!r}]", weight)
        for name, weight in value.items()
    }


def checked_seed(ordering: str, value: object) -> int:
    """Return a seed for the generator of random keys, or say in one sentence what is allowed."""
    return int(checked_number(ordering, "seed", value, least=0, below=2**53, whole=True))
