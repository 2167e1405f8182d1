"""OPIC: cash flows along links, and the richest page comes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.compiled import Addresses, njit
from crawlprio.graph.pages import NO_PAGES, PageIds, Visit
from crawlprio.orderings.base import (
    Changed,
    CompiledOrdering,
    KeyHistory,
    Keys,
    Pages,
    Part,
    checked_number,
    made_of,
)


@njit(cache=True)
def spread_cash(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """A new page has cash 1; a fetched page splits its cash evenly over its links.

    `numbers`: the cash of a seed.
    """
    cash = numbers[0] if page < 0 else 1.0
    for new in range(first, last):
        keys[new] = cash
    if again or len(targets) == 0:
        return 0
    share = keys[page] / len(targets)
    keys[page] = 0.0
    for target in targets:
        keys[target] += share
    return 0


class Opic(CompiledOrdering):
    """Pages with the most cash first: on-line page importance computation.

    Every page has cash 1 when it is discovered. A fetched page splits all of its cash evenly over
    its links and is left with none; a page without links keeps it. Cash that reaches a fetched page
    stays there.

    Source: Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005, section 4.1,
    after Abiteboul, Preda & Cobena, Adaptive on-line page importance computation, WWW 2003.
    Departures from Abiteboul et al., unless options say otherwise: no page is fetched twice, so
    cash on fetched pages is out of play; there is no virtual page that all pages link to.

    Parameters
    ----------
    seed_cash
        Cash of a seed; default 1. A larger value moves pages reached from the seeds forward.
    pass_on
        Fetched pages pass cash on: whenever one has more than `pass_on` per link, it gives all
        of its cash to its links, first come first served. None (the default): cash on fetched pages
        stays there. Stores the links of all fetched pages, 4 bytes each.
    pass_on_budget
        Maximum number of links served in one visit when `pass_on` is set; default 2000.
    history
        Record the cash that each page has ever given away, which gives an estimate of its
        importance (`importance`). The order is the same.
    """

    rule = spread_cash
    changes_known: ClassVar[bool] = True
    initial_key = 1.0

    def __init__(
        self,
        seed_cash: float = 1.0,
        pass_on: float | None = None,
        pass_on_budget: int = 2000,
        history: bool = False,
    ) -> None:
        self._seed_cash = checked_number("opic", "seed_cash", seed_cash, least=0)
        self._threshold = (
            None if pass_on is None else checked_number("opic", "pass_on", pass_on, least=0)
        )
        self._budget = int(
            checked_number("opic", "pass_on_budget", pass_on_budget, least=1, whole=True)
        )
        self._keeps_history = bool(history)

    @property
    def runs_compiled(self) -> bool:
        return super().runs_compiled and self._threshold is None and not self._keeps_history

    @property
    def learns_by_rule(self) -> bool:
        return self.runs_compiled

    def first_numbers(self) -> Keys:
        return np.array([self._seed_cash])

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._links: dict[int, PageIds] = {}
        self._spent: dict[int, float] = {}
        self._total_spent = 0.0

    def observe(self, visit: Visit) -> Changed:
        if self.runs_compiled or visit.page < 0 or len(visit.targets) == 0:
            return super().observe(visit)
        if self._threshold is None:
            self._give(visit.page, visit.targets)
            return visit.targets
        self._links[visit.page] = visit.targets
        return self._pass_on(visit.page, self._threshold)

    def _give(self, page: int, targets: PageIds) -> None:
        """Split the cash of one page over its links."""
        if self._keeps_history:
            self._spent[page] = self._spent.get(page, 0.0) + self.keys[page]
            self._total_spent += self.keys[page]
        self._apply(page, targets, self.n_pages, self.n_pages, False)

    def _pass_on(self, page: int, threshold: float) -> Changed:
        """Spread the cash of a page, then that of every fetched page above the threshold."""
        waiting_to_give = deque([page])
        queued = {page}
        changed = [NO_PAGES]
        served = 0
        while waiting_to_give and served <= self._budget:
            giver = waiting_to_give.popleft()
            queued.discard(giver)
            targets = self._links[giver]
            self._give(giver, targets)
            changed.append(targets)
            served += len(targets)
            for target in targets.tolist():
                links = self._links.get(target)
                if (
                    links is not None
                    and target not in queued
                    and self.keys[target] > threshold * len(links)
                ):
                    queued.add(target)
                    waiting_to_give.append(target)
        return np.unique(np.concatenate(changed))

    def explain_history(self, history: KeyHistory) -> Part:
        if self._threshold is not None:
            return Part("cash, some of it passed on by pages that were fetched before", history.key)
        if history.found.page < 0:
            parts = [Part("the cash of a seed", self._seed_cash)]
        else:
            parts = [Part("the cash of a new page", 1.0)]
        for giver, cash, n_links, _ in history.links:
            parts.append(Part(f"its cash, over {n_links:,} links", cash / n_links, giver))
        return made_of("cash", parts)

    def importance(self) -> Keys:
        """Return each page's share of all cash ever received, the estimate (H + C) / (G + T).

        H is the cash that a page has given away, C the cash it holds, and G and T are their sums
        over all pages. In Abiteboul et al. 2003, section 3, T is 1: the pages share one unit of
        cash from the start. Here each page adds its own. If every page has links, one step of a
        random surfer changes the estimate by at most 2 T / (G + T) in L1, so it converges to
        PageRank without teleport as cash flows. That requires `pass_on`, because each page is
        fetched only once. The shares sum to 1; before there is cash, all are 0. Without the option
        `history`, raises ConfigError.
        """
        if not self._keeps_history:
            raise ConfigError(
                "ORDERING_OPTIONS of opic: history is off, so importance is not recorded; set it "
                "to true."
            )
        received = self.keys[: self.n_pages].copy()
        total = self._total_spent + received.sum()
        received[list(self._spent)] += list(self._spent.values())
        return received / total if total > 0.0 else received
