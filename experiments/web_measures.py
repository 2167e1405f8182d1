"""How a web decides a claim of the papers: the measures, by start, that `web_claims` compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from cho_webs import THREE, JudgedCrawls
from measured import STRATEGIES, Crawled, Start
from najork_crawls import DAYS
from paper_crawls import SAME, areas, at, displaced
from verdicts import Case, Margin

from crawlprio.measure.crawl_models import ModelCurve, top_threshold
from crawlprio.measure.crawl_order import (
    depth_from_seeds,
    mean_importance_by_slice,
    scaled_to_mean_one,
    slices_by_fetch,
)

Values = Sequence[float]
LENGTH, BREADTH, BATCH = "larger-sites-first", "breadth-first", "batch-pagerank"
GOOD = (BATCH, "opic", LENGTH)
POOR = (BREADTH, "backlink-count", "partial-pagerank")
KNOWN = tuple(name for name in STRATEGIES if name not in ("omniscient", "random"))
LEAST_LEAD = 0.001
"""Averages are printed to three digits; smaller margins decide nothing, whatever the spread."""
TAU_ERROR = 0.02
"""Of Kendall's tau, which is computed on 5,000 pages."""
HOT = {3: 0.47, 10: 0.10, 100: 0.008}
"""G for backlinks in Cho et al., and the share of pages that it makes hot there."""
HOT_BY_RANK = 0.01
SMALL, G_SMALL = (550, 2200), 5.0
"""Pages of a small domain, and its G."""


SHARES = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True, eq=False)
class Seen:
    """One web, crawled under the protocols of the papers.

    `name` and `kind`: of the web. `starts` and `polite`: the crawls of Castillo et al. and
    Baeza-Yates et al., by strategy; several draws of random. `alone`: the crawls of Cho et al. and
    of Najork & Wiener, by order alone. `days`: for each start, the measures of Najork & Wiener;
    empty if the web is too small for them.
    """

    name: str
    kind: str
    starts: list[Start] = field(default_factory=list)
    polite: Mapping[str, list[Crawled]] = field(default_factory=dict)
    alone: JudgedCrawls | None = None
    days: list[dict[str, float]] = field(default_factory=list)

    def averages(self, name: str) -> list[float]:
        return [crawl.average for crawl in self.polite[name]]

    def taus(self, name: str) -> list[float]:
        return [crawl.tau for crawl in self.polite[name]]

    def at(self, name: str, share: float) -> list[float]:
        return [crawl.gathered_at(share) for crawl in self.polite[name]]

    @property
    def distribution(self) -> np.ndarray:
        """The share of the PageRank in each share of the pages, best first."""
        best = self.starts[0].best
        return np.interp(SHARES, best[:, 0], best[:, 1])

    def first_day(self, name: str) -> list[float]:
        """Return the mean PageRank of the first day of each crawl by order alone."""
        crawls, ranks = self.alone, self.starts[0].web.ranks
        return [
            float(
                mean_importance_by_slice(
                    order, scaled_to_mean_one(ranks, reached), slices_by_fetch(len(order), DAYS)
                ).mean[0]
            )
            for draw in crawls.orders
            if draw.partition(",")[0] == name
            for order, reached in zip(crawls.orders[draw], crawls.reachable, strict=True)
        ]


Measure = Callable[[Seen], Margin]


def polite(seen: Seen) -> bool:
    return bool(seen.polite)


def with_sites(seen: Seen) -> bool:
    """Whether larger sites first differs from breadth-first."""
    crawls = seen.polite
    return polite(seen) and any(
        displaced(one.order, other.order) >= SAME
        for one, other in zip(crawls[LENGTH], crawls[BREADTH], strict=True)
    )


def by_day(seen: Seen) -> bool:
    return bool(seen.days)


def by_day_with_sites(seen: Seen) -> bool:
    return by_day(seen) and seen.starts[0].web.graph.n_sites > 1


def small(seen: Seen) -> bool:
    """Whether the web is a small domain."""
    return seen.alone.graph.n_sites == 1 and SMALL[0] <= seen.alone.n_reachable <= SMALL[1]


def small_and_sparse(seen: Seen) -> bool:
    """Whether, besides, at most half of its pages are hot by G = 5."""
    return small(seen) and seen.alone.share_hot(seen.alone.backlinks, G_SMALL) <= 0.5


def large(seen: Seen) -> bool:
    """Whether the web is larger than a small domain."""
    return seen.alone.n_reachable > SMALL[1]


@dataclass(frozen=True)
class Claim:
    """A claim of the papers, and how a web decides it.

    `text` and `rule`: what the papers say, and when it holds, in words. `margin`: the two sides
    that are compared on a web. `can_decide`: whether a web can decide it. `least`: smaller margins
    never decide: the error of the measure itself. `name`: under which the summary and the advice
    find it.
    """

    text: str
    rule: str
    margin: Measure
    can_decide: Callable[[Seen], bool] = polite
    name: str = ""
    least: float = LEAST_LEAD

    def case(self, seen: Seen) -> Case | None:
        """Judge the claim by one web; None if it cannot decide it."""
        if not self.can_decide(seen):
            return None
        return self.margin(seen).case(seen.name, self.least)


def lead(one: str, other: str) -> Measure:
    """Compare two averages of cumulative PageRank."""
    return lambda s: Margin(s.averages(one), s.averages(other))


def extreme(
    names: Sequence[str], of: Callable[[str], Values], pick: Callable[..., str] = max
) -> Values:
    """Return the values of the strategy with the largest mean (with `min`, the smallest)."""
    return of(pick(names, key=lambda name: fmean(of(name))))


def bound(values: Values, least: float) -> Margin:
    """Compare values with a number that they must exceed."""
    return Margin(values, [least] * len(values))


def within(values: Values, most: float) -> Margin:
    """Compare values with a number that they must stay below."""
    return Margin([most] * len(values), values)


def lag(seen: Seen, share: float) -> np.ndarray:
    """Return how far breadth-first is behind the best at a share of the pages, by start."""
    return np.max([seen.at(n, share) for n in KNOWN], axis=0) - seen.at(BREADTH, share)


def late_lead(seen: Seen) -> Values:
    """Return the largest lead over omniscient after half of the pages, by start."""
    shares = np.linspace(0.5, 0.995, 100)
    best = np.max([[seen.at(n, x) for x in shares] for n in KNOWN], axis=0)
    return (best - [seen.at("omniscient", x) for x in shares]).max(axis=0).tolist()


def two_worst(seen: Seen) -> Margin:
    others = extreme((*GOOD, POOR[0]), seen.averages, min)
    return Margin(others, extreme(POOR[1:], seen.averages))


# Cho et al.


def p_st(seen: Seen, name: str, by: str, share: float) -> list[ModelCurve]:
    """Return P_ST of the crawls under an ordering, with the share of pages that is hot."""
    importance = getattr(seen.alone, by)
    threshold = top_threshold(importance, share, seen.alone.reachable[0])
    return seen.alone.p_st(importance, threshold, name)[name]


def p_cs(seen: Seen, name: str) -> Values:
    """Return mean P_CS by backlinks, where ties are broken by lot."""
    return areas(seen.alone.p_cs(seen.alone.untied_backlinks, name)[name])


def early_by_links(seen: Seen, share: float, name: str = "backlink-count") -> np.ndarray:
    """Return P_ST at 20 % of the crawl, by start."""
    return np.array([at(c, 0.2) for c in p_st(seen, name, "backlinks", share)])


def late_rates(seen: Seen) -> Values:
    """Return how fast hot pages are found in the last fifth, as a multiple of a random crawler."""
    curves = p_st(seen, "backlink-count", "backlinks", HOT[100])
    return [(1.0 - at(curve, 0.8)) / 0.2 for curve in curves]


def mean_by(name: str, by: str) -> Callable[[Seen], Values]:
    """Return mean P_ST by start, with as many pages hot as in the paper."""
    share = HOT[100] if by == "backlinks" else HOT_BY_RANK
    return lambda s: areas(p_st(s, name, by, share))


def best_of_three(one: str, of: Callable[[Seen, str], Values]) -> Measure:
    """Compare an ordering with the better of the other two."""
    others = [name for name in THREE if name != one]
    return lambda s: Margin(of(s, one), extreme(others, lambda name: of(s, name)))


def gain_by_rank(seen: Seen) -> Margin:
    """Compare PageRank's lead over backlink order by PageRank with that by backlinks."""
    leads = [
        np.subtract(mean_by("pagerank", by)(seen), mean_by("backlink-count", by)(seen)).tolist()
        for by in ("ranks", "backlinks")
    ]
    return Margin(*leads)


def depth(seen: Seen, name: str) -> Values:
    """Return the mean depth of the first tenth of the fetches, by start."""
    crawls = seen.alone
    return [
        float(depth_from_seeds(crawls.graph, seeds)[order[: len(order) // 10]].mean())
        for seeds, order in zip(crawls.seeds, crawls.orders[name], strict=True)
    ]


def on_small(seen: Seen, name: str, by: str = "backlinks") -> list[ModelCurve]:
    """Return P_ST on a small domain; by PageRank as many pages are hot as by backlinks."""
    crawls = seen.alone
    if by == "backlinks":
        return crawls.p_st(crawls.backlinks, G_SMALL, name)[name]
    return p_st(seen, name, by, crawls.share_hot(crawls.backlinks, G_SMALL))


def behind_diagonal(seen: Seen) -> Values:
    """Return the largest gap below the diagonal, of the ordering with the smallest, by start."""
    places = np.linspace(0.02, 0.98, 49)
    gaps = [[max(x - at(c, x) for x in places) for c in on_small(seen, n)] for n in THREE]
    return np.min(gaps, axis=0).tolist()


def better_by_rank(seen: Seen) -> Values:
    """Return mean P_ST by PageRank minus that by backlinks, of the worst ordering, by start."""
    gains = [
        np.subtract(areas(on_small(seen, n, "ranks")), areas(on_small(seen, n))) for n in THREE
    ]
    return np.min(gains, axis=0).tolist()


def few_backlinks(seen: Seen) -> Margin:
    crawls = seen.alone
    return bound([1.0 - crawls.share_hot(crawls.backlinks, G_SMALL)], 0.5)


def day(*measures: str, over: Values = (), least: float = 0.0) -> Measure:
    """Compare the least of several measures, each as a multiple of its bound, with 1, or with 0."""
    if not over:
        return lambda s: bound([min(d[m] for m in measures) for d in s.days], least)
    ratios = dict(zip(measures, over, strict=True))
    return lambda s: bound([min(d[m] / x for m, x in ratios.items()) + 1e-12 for d in s.days], 1.0)
