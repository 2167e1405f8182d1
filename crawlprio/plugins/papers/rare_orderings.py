"""Orderings that few need: FICA, a weighted sum of others' keys, and batches by such a sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.compiled import Addresses, njit
from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageIds, Visit
from crawlprio.orderings import ordering_validation
from crawlprio.orderings.base import (
    ALL_PAGES,
    Changed,
    CompiledOrdering,
    KeyHistory,
    Keys,
    LinkingVisit,
    Ordering,
    Pages,
    Part,
    checked_number,
    made_of,
    pages_in_turn,
)


@njit(cache=True)
def shorten(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """A page's key is minus its smallest distance along the links of fetched pages.

    `numbers`: the discount; the length of a link in addition to the logarithm.
    """
    if page < 0:
        keys[first:last] = 0.0
        return 0
    n_links = max(len(targets), 1)
    key = -(numbers[0] * -keys[page] + math.log(n_links) + numbers[1])
    keys[first:last] = key
    if not again:
        for target in targets:
            keys[target] = max(keys[target], key)
    return 0


class Fica(CompiledOrdering):
    """Pages nearest to the seeds first, where a link is longer the more links its page has.

    A seed's distance is 0. A fetched page with n distinct links and distance D places them at
    distance `discount` * D + ln n + `link`; a page's distance is the smallest over all links to it.
    Pages that a random surfer is unlikely to reach are far away: without the discount, the distance
    is minus the logarithm of the probability of a path.

    Source: Zareh Bidoki, Yazdani & Ghodsnia, FICA: a novel intelligent crawling algorithm based on
    reinforcement learning, Web Intelligence and Agent Systems 7, 2009. Departure: there, a page's
    distance moves towards a new value at a learning rate that falls over the crawl; here it is set
    to the minimum at once. O(1) per link, like OPIC.

    `discount`: Share of a page's distance that its links inherit; default 0.9, 0 or more, below 1.
    `link`: Length of each link in addition to the logarithm; default 0, 0 or more. With 0, the link
    of a page that has only one costs nothing, so a chain of such pages, such as a calendar, is
    followed before other pages at the same distance; 0.1 prevents that.
    """

    rule = shorten
    changes_known: ClassVar[bool] = True

    def __init__(self, discount: float = 0.9, link: float = 0.0) -> None:
        self._discount = checked_number("fica", "discount", discount, least=0, below=1)
        self._link = checked_number("fica", "link", link, least=0)

    def first_numbers(self) -> Keys:
        return np.array([self._discount, self._link])

    def explain_history(self, history: KeyHistory) -> Part:
        if history.found.page < 0:
            return Part("a seed, at distance 0", 0.0)
        given = map(self._by_link, (history.found, *history.links))
        return max(given, key=lambda part: part.amount)

    def _by_link(self, link: LinkingVisit) -> Part:
        n_links = max(link.n_links, 1)
        inherited = -(self._discount * -link.key)
        parts = (
            Part(f"minus {self._discount:g} of its distance", inherited, link.page),
            Part(f"minus ln {n_links:,}, for its links", -math.log(n_links), link.page),
            Part("minus the length of a link", -self._link),
        )
        return made_of("minus the distance from the seeds", parts)


class Combined(Ordering):
    """Pages with the largest weighted sum of the keys that other orderings give them.

    Keys are not normalised, so the weights must account for their scales (PageRank sums to 1, cash
    starts at 1, location is a few points).

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, extended version,
    section 2 (the weighted sum IC of importance metrics). The cost is the sum of the costs of all
    members.

    `weights`: Name or import path of an ordering -> its weight, any finite number; at least one
    entry. `options`: Name of an ordering -> dict of its options.
    """

    name = "combined"
    may_rank_sites: ClassVar[bool] = False

    def __init__(
        self,
        weights: Mapping[str, float] | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        from crawlprio.orderings import make_ordering

        if not isinstance(weights, Mapping) or not weights:
            raise self._wrong(
                f"weights is {weights!r}; give a dict of orderings and weights, such as "
                '{"opic": 1.0, "location": 0.5}.'
            )
        if not isinstance(options or {}, Mapping):
            raise self._wrong(
                f"options is {options!r}; give a dict of options per ordering, such as "
                '{"location": {"slashes": 2.0}}.'
            )
        of_members = options or {}
        for name in of_members:
            if name not in weights:
                raise self._wrong(
                    f"options has {name!r}, which has no weight; orderings with a weight: "
                    f"{', '.join(map(str, weights))}."
                )
        self._weights: dict[str, float] = {}
        self.members: list[Ordering] = []
        for name, value in weights.items():
            weight = checked_number(self.name, f"weights[{name!r}]", value)
            try:
                member = make_ordering(name, of_members.get(name))
            except ConfigError as error:
                raise self._wrong(str(error)) from None
            if member.site_share:
                raise self._wrong(
                    f"options gives {name!r} a site_share; give it to {self.name} itself."
                )
            if member.held_below > -math.inf:
                raise self._wrong(
                    f"weights has {name!r}, which holds pages back; give it "
                    '{"fill": True} under options, or leave it out.'
                )
            if _ranks_sites(member) and (not self.may_rank_sites or len(weights) > 1):
                remedy = "give it alone, or leave it out" if self.may_rank_sites else "leave it out"
                raise self._wrong(f"weights has {name!r}, which ranks sites, not pages; {remedy}.")
            self._weights[str(name)] = weight
            self.members.append(member)
        self.needs_anchors = any(member.needs_anchors for member in self.members)
        self.needs_truth = any(member.needs_truth for member in self.members)
        self.is_slow_in_python = any(member.is_slow_in_python for member in self.members)
        self.initial_key = sum(weight * member.initial_key for weight, member in self._weighted())

    def _wrong(self, sentence: str) -> ConfigError:
        return ConfigError(f"ORDERING_OPTIONS of {self.name}: {sentence}")

    def _weighted(self) -> Iterable[tuple[float, Ordering]]:
        return zip(self._weights.values(), self.members, strict=True)

    def compile(self) -> None:
        """Compile what the members run."""
        super().compile()
        for member in self.members:
            member.compile()

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._n_summed = 0
        self._computing: list[Ordering] = []
        for member in self.members:
            ordering_validation.open_ordering(member, pages, truth)

    def observe(self, visit: Visit) -> Changed:
        changed = _union(
            [
                ordering_validation.learn(member, visit, self.n_pages, again=False)
                for member in self.members
            ]
        )
        if changed is not ALL_PAGES:
            self._sum(np.arange(self._n_summed, self.n_pages, dtype=np.int32))
            self._sum(slice(visit.page, visit.page + 1) if visit.page >= 0 else NO_PAGES)
        self._n_summed = self.n_pages
        return self._summed(changed)

    def explain_history(self, history: KeyHistory) -> Part:
        parts: list[Part] = []
        known = zip(self._weights.items(), self.members, history.members, strict=True)
        for (name, weight), member, of_member in known:
            part = member.explain_history(of_member)
            parts.append(made_of(f"{weight:g} x {name}", (part,), factor=weight))
        return made_of("the weighted sum", parts)

    def recomputation(self) -> Callable[[], Any] | None:
        """Return the recomputations due in all members, combined, unless some are still running."""
        if self._computing:
            return None
        works = []
        for member in self.members:
            work = ordering_validation.recomputation(member)
            if work is not None:
                works.append(work)
                self._computing.append(member)
        return (lambda: [work() for work in works]) if works else None

    def accept(self, result: Any) -> Changed:
        """Adopt the results of the members' recomputations."""
        members, self._computing = self._computing, []
        changes = map(ordering_validation.accept, members, result)
        return self._summed(_union(list(changes)))

    def _summed(self, changed: Changed) -> Changed:
        """Update the sums of the changed pages."""
        self._sum(slice(0, self.n_pages) if changed is ALL_PAGES else changed)
        return changed

    def _sum(self, pages: Any) -> None:
        """Sum the members' weighted keys for an index of pages."""
        total = np.zeros_like(self.keys[pages])
        for weight, member in self._weighted():
            total += weight * member.keys[pages]
        self.keys[pages] = total


class _Members(Combined):
    """The sum of the orderings by which batches are chosen, or one that ranks sites."""

    name = "batched"
    may_rank_sites = True

    def draw(self, waiting: PageIds, most: int, share: int) -> PageIds:
        """Return the waiting pages that this ordering fetches first, best first."""
        best_first = waiting[np.argsort(-self.keys[waiting], kind="stable")]
        (weight, member), *_ = self._weighted()
        sites, ranks_sites = self.pages.sites, _ranks_sites(member)
        if not (ranks_sites or share):
            return best_first[:most]

        def site_key(page: int, n_waiting: int) -> float:
            if not ranks_sites:
                return float(self.keys[page])
            site, best = int(sites[page]), float(member.keys[page])
            return weight * ordering_validation.site_key(member, site, best, n_waiting)

        return pages_in_turn(best_first, sites, most, share, site_key)


class Batched(Ordering):
    """The best pages by other orderings in batches; once all of a batch are fetched comes the next.

    A batch is the `every` waiting pages with the largest weighted sum of the keys of other
    orderings, or all if there are fewer. If the only one is `larger-sites-first`, or another that
    ranks sites, a batch is the pages that it fetches next if none is found meanwhile. All other
    pages are held back, even those of sites that are ready, so a batch takes as long as its busiest
    site: with `site_share`, a batch takes so many pages of each site at most before it takes more
    of any, and so holds pages of as many sites as possible. Failed pages count as fetched.

    Source: the batches of the real crawls of Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling
    algorithms for Web crawling, LA-WEB 2004, section VII (`larger-sites-first`, 100,000 pages;
    pages of many sites: section IV.C), and of Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a
    country, WWW 2005, section 5.3 (`breadth-first` and `larger-sites-first`, 200,000). Departure:
    pages of the hot queue and requests with a priority above 0 leave at once, and take a place in
    the batch. O(n log n) per batch of n waiting pages, besides the cost of the orderings.

    `every`: Number of pages in a batch; default 100,000, 1 or more. `weights`: As for `combined`:
    name of an ordering -> its weight; default: opic alone. An ordering that ranks sites must be the
    only one. `options`: Name of an ordering -> dict of its options.
    """

    name = "batched"
    initial_key = -1.0
    held_below = 0.0

    def __init__(
        self,
        every: int = 100_000,
        weights: Mapping[str, float] = MappingProxyType({"opic": 1.0}),
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._every = int(checked_number(self.name, "every", every, least=1, whole=True))
        self._inner = _Members(weights, options)
        self.members = [self._inner]
        self.needs_anchors, self.needs_truth = self._inner.needs_anchors, self._inner.needs_truth
        self.is_slow_in_python = self._inner.is_slow_in_python

    def compile(self) -> None:
        """Compile what the members run."""
        super().compile()
        self._inner.compile()

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._is_fetched = np.zeros(len(self.keys), dtype=np.bool_)
        self._left: set[int] = set()
        self._n_fetched = 0
        self._is_begun = False  # until then, each seed may still be of the first batch
        ordering_validation.open_ordering(self._inner, pages, truth)

    def observe(self, visit: Visit) -> Changed:
        ordering_validation.learn(self._inner, visit, self.n_pages, again=False)
        self._is_fetched.resize(len(self.keys), refcheck=False)
        if visit.page != NO_PAGE:
            self._is_fetched[visit.page] = self._is_begun = True
            self._n_fetched += 1
            self._left.discard(visit.page)
        if self._left and self._n_fetched < self._every and self._is_begun:
            return NO_PAGES
        waiting = np.flatnonzero(~self._is_fetched[: self.n_pages]).astype(np.int32)
        batch = self._inner.draw(waiting, self._every, self.site_share)
        self.keys[waiting] = self.initial_key
        self.keys[batch] = np.arange(len(batch), 0, -1)
        self._left, self._n_fetched = set(batch.tolist()), 0
        return waiting

    def recomputation(self) -> Callable[[], Keys] | None:
        return self._inner.recomputation()

    def accept(self, result: Keys) -> Changed:
        self._inner.accept(result)
        return NO_PAGES


def _ranks_sites(ordering: Ordering) -> bool:
    return type(ordering).site_key is not Ordering.site_key


def _union(changes: list[Changed]) -> Changed:
    """The union of the changes, which usually are all the targets of the same visit."""
    distinct: list[Changed] = []
    for change in changes:
        if change is ALL_PAGES:
            return ALL_PAGES
        if len(change) and not any(change is other for other in distinct):
            distinct.append(change)
    if len(distinct) == 1:
        return distinct[0]
    return np.unique(np.concatenate([NO_PAGES, *distinct]))
