"""Orderings made of others: a weighted sum of their keys, and batches of the best pages by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.pages import NO_PAGE, NO_PAGES, Visit
from crawlprio.orderings import guard
from crawlprio.orderings.base import (
    ALL_PAGES,
    Changed,
    KeyHistory,
    Keys,
    Ordering,
    Pages,
    Part,
    checked_number,
    made_of,
)


class Combined(Ordering):
    """Pages with the largest weighted sum of the keys that other orderings give them.

    Keys are not normalised, so the weights must account for their scales (PageRank sums to 1, cash
    starts at 1, location is a few points).

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998,
    section 2 (combined importance metrics). The cost is the sum of the costs of all members.

    Parameters
    ----------
    weights
        Name or import path of an ordering -> its weight, any finite number; at least one entry.
    options
        Name of an ordering -> dict of its options.
    """

    name = "combined"

    def __init__(
        self,
        weights: Mapping[str, float] | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        from crawlprio.orderings import make_ordering

        if not isinstance(weights, Mapping) or not weights:
            raise ConfigError(
                f"ORDERING_OPTIONS of {self.name}: weights is {weights!r}; give a dict of "
                'orderings and weights, such as {"opic": 1.0, "location": 0.5}.'
            )
        if not isinstance(options or {}, Mapping):
            raise ConfigError(
                f"ORDERING_OPTIONS of {self.name}: options is {options!r}; give a dict of options "
                'per ordering, such as {"location": {"slashes": 2.0}}.'
            )
        of_members = options or {}
        for name in of_members:
            if name not in weights:
                raise ConfigError(
                    f"ORDERING_OPTIONS of {self.name}: options has {name!r}, which has no weight; "
                    f"orderings with a weight: {', '.join(map(str, weights))}."
                )
        self._members: list[tuple[float, Ordering]] = []
        self._names: list[str] = []
        for name, value in weights.items():
            weight = checked_number(self.name, f"weights[{name!r}]", value)
            try:
                member = make_ordering(name, of_members.get(name))
            except ConfigError as error:
                raise ConfigError(f"ORDERING_OPTIONS of {self.name}: {error}") from None
            if member.site_share:
                raise ConfigError(
                    f"ORDERING_OPTIONS of {self.name}: options gives {name!r} a site_share; give "
                    f"it to {self.name} itself."
                )
            if member.held_below > -math.inf:
                raise ConfigError(
                    f"ORDERING_OPTIONS of {self.name}: weights has {name!r}, which holds pages "
                    'back; give it {"fill": True} under options, or leave it out.'
                )
            if type(member).site_key is not Ordering.site_key:
                raise ConfigError(
                    f"ORDERING_OPTIONS of {self.name}: weights has {name!r}, which ranks sites, "
                    "not pages; leave it out."
                )
            self._members.append((weight, member))
            self._names.append(str(name))
        self.members = [member for _, member in self._members]
        self.needs_anchors = any(member.needs_anchors for _, member in self._members)
        self.needs_truth = any(member.needs_truth for _, member in self._members)
        self.initial_key = sum(weight * member.initial_key for weight, member in self._members)

    @property
    def needs_compiled(self) -> bool:
        return any(member.needs_compiled for _, member in self._members)

    def compile(self) -> None:
        """Compile what the members run."""
        for _, member in self._members:
            member.compile()

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._n_summed = 0
        self._computing: list[Ordering] = []
        for _, member in self._members:
            guard.open_ordering(member, pages, truth)

    def observe(self, visit: Visit) -> Changed:
        changed = _union(
            [guard.learn(member, visit, self.n_pages, again=False) for _, member in self._members]
        )
        if changed is not ALL_PAGES:
            self._sum(np.arange(self._n_summed, self.n_pages, dtype=np.int32))
            self._sum(slice(visit.page, visit.page + 1) if visit.page >= 0 else NO_PAGES)
        self._n_summed = self.n_pages
        return self._summed(changed)

    def explain_history(self, history: KeyHistory) -> Part:
        parts: list[Part] = []
        known = zip(self._names, self._members, history.members, strict=True)
        for name, (weight, member), of_member in known:
            part = member.explain_history(of_member)
            parts.append(made_of(f"{weight:g} x {name}", (part,), factor=weight))
        return made_of("the weighted sum", parts)

    def recomputation(self) -> Callable[[], Keys] | None:
        """Return the recomputations due in all members, combined, unless some are still running."""
        if self._computing:
            return None
        works = []
        for _, member in self._members:
            work = guard.recomputation(member)
            if work is not None:
                works.append(work)
                self._computing.append(member)
        if not works:
            return None
        return lambda: _packed([work() for work in works])

    def accept(self, result: Keys) -> Changed:
        members, self._computing = self._computing, []
        return self._summed(
            _union(
                [
                    guard.accept(member, part)
                    for member, part in zip(members, _unpacked(result), strict=True)
                ]
            )
        )

    def _summed(self, changed: Changed) -> Changed:
        """Update the sums of the changed pages."""
        self._sum(slice(0, self.n_pages) if changed is ALL_PAGES else changed)
        return changed

    def _sum(self, pages: Any) -> None:
        """Sum the members' weighted keys for an index of pages."""
        total = np.zeros_like(self.keys[pages])
        for weight, member in self._members:
            total += weight * member.keys[pages]
        self.keys[pages] = total


class _Members(Combined):
    """The sum of the orderings by which batches are chosen."""

    name = "batched"


class Batched(Ordering):
    """The best pages by other orderings in batches; once all of a batch are fetched comes the next.

    A batch is the `every` waiting pages with the largest weighted sum of the keys of other
    orderings, or all if there are fewer. All other pages are held back, even those of sites that
    are ready, so a batch takes as long as its busiest site. Failed pages count as fetched.

    Source: the batches of the real crawls of Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling
    algorithms for Web crawling, LA-WEB 2004, section VI (100,000 pages), and of Baeza-Yates,
    Castillo, Marin & Rodriguez, Crawling a country, WWW 2005, section 5 (200,000). Departure: hot
    pages and requests with a priority above 0 leave at once, and take a place in the batch. O(n log
    n) per batch of n waiting pages, besides the cost of the orderings.

    Parameters
    ----------
    every
        Number of pages in a batch; default 100,000, 1 or more.
    weights
        As for `combined`: name of an ordering -> its weight; default: opic alone.
    options
        Name of an ordering -> dict of its options.
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

    @property
    def needs_compiled(self) -> bool:
        return self._inner.needs_compiled

    def compile(self) -> None:
        """Compile what the members run."""
        self._inner.compile()

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._is_fetched = np.zeros(len(self.keys), dtype=np.bool_)
        self._left: set[int] = set()
        self._n_fetched = 0
        self._is_begun = False  # until then, each seed may still be of the first batch
        guard.open_ordering(self._inner, pages, truth)

    def observe(self, visit: Visit) -> Changed:
        guard.learn(self._inner, visit, self.n_pages, again=False)
        self._is_fetched.resize(len(self.keys), refcheck=False)
        if visit.page != NO_PAGE:
            self._is_fetched[visit.page] = self._is_begun = True
            self._n_fetched += 1
            self._left.discard(visit.page)
        if self._left and self._n_fetched < self._every and self._is_begun:
            return NO_PAGES
        waiting = np.flatnonzero(~self._is_fetched[: self.n_pages]).astype(np.int32)
        by_key = np.argsort(-self._inner.keys[waiting], kind="stable")
        batch = waiting[by_key[: self._every]]
        self.keys[waiting] = self.initial_key
        self.keys[batch] = np.arange(len(batch), 0, -1)
        self._left, self._n_fetched = set(batch.tolist()), 0
        return waiting

    def recomputation(self) -> Callable[[], Keys] | None:
        return self._inner.recomputation()

    def accept(self, result: Keys) -> Changed:
        self._inner.accept(result)
        return NO_PAGES


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


def _packed(results: list[Keys]) -> Keys:
    """Concatenate several arrays, each preceded by its length."""
    return np.concatenate([part for result in results for part in ([len(result)], result)])


def _unpacked(packed: Keys) -> list[Keys]:
    """Split an array made by `_packed`."""
    results = []
    at = 0
    while at < len(packed):
        end = at + 1 + int(packed[at])
        results.append(packed[at + 1 : end])
        at = end
    return results
