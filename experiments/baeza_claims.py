"""The claims of Baeza-Yates et al. 2005 about strategies without history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from baeza_webs import Group
from measured import STRATEGIES
from report import Report
from verdicts import Case, GeneratorErrors

GOOD = ("batch-pagerank", "opic", "larger-sites-first")
POOR = ("breadth-first", "backlink-count", "partial-pagerank")
KNOWN = tuple(name for name in STRATEGIES if name not in ("omniscient", "random"))
LEAST_LEAD = 0.001
LENGTH = "larger-sites-first"

Measure = Callable[[Group], float]


def add(report: Report, groups: Sequence[Group], errors: GeneratorErrors) -> None:
    """Judge each claim by the groups of crawls."""
    claims = _Claims(report, groups, errors)
    _on_limits(claims)
    _on_poor_strategies(claims)
    _on_good_strategies(claims)


class _Claims:
    """Writes findings, each with a case for every group that can decide."""

    def __init__(self, report: Report, groups: Sequence[Group], errors: GeneratorErrors) -> None:
        self._report, self._groups, self._errors = report, groups, errors

    def claim(
        self,
        text: str,
        words: str,
        measure: Measure,
        rule: str,
        *,
        margin: Callable[[float], float] = lambda x: x,
        of: str = "lead",
        length: bool = False,
        why: str = "",
        name: str = "",
    ) -> None:
        """Judge a claim by one number per group.

        Parameters
        ----------
        words, measure
            the measure in words, and a function that returns its value.
        margin
            how far a value is beyond the bound.
        of
            which of the generator's errors applies.
        length
            whether the claim is about larger sites first; webs without sites cannot decide it.
        """
        groups = [g for g in self._groups if g.tells_length() or not length]
        values = {g.name: measure(g) for g in groups}
        self._report.finding(
            text,
            f"{words}: " + "; ".join(f"{x:+.3f} ({where})" for where, x in values.items()),
            [
                Case(
                    g.name, margin(values[g.name]), self._errors.of(of, is_synthetic=g.is_synthetic)
                )
                for g in groups
            ],
            rule,
            why=why,
            picture="figure-4",
            name=name,
        )


def _on_limits(claims: _Claims) -> None:
    """Judge the claims about the extremes, random and omniscient."""
    claims.claim(
        "A random crawl gathers PageRank approximately linearly (section 5.2)",
        "average of random minus 0.5, the average of a straight line",
        lambda g: g.average("random") - 0.5,
        "within 0.03 of 0.5",
        margin=lambda x: 0.03 - abs(x),
        of="average",
        why="a crawler that draws from the pages it knows finds well-linked ones sooner",
        name="random-linear",
    )
    claims.claim(
        "Omniscient has the best performance (figure 4, table 2)",
        "its lead over the best other average",
        lambda g: g.average("omniscient") - max(map(g.average, KNOWN)),
        "the highest average",
        name="omniscient-best",
    )
    claims.claim(
        "Omniscient is too greedy: others surpass it late in the crawl (section 5.2)",
        "largest lead over it after half of the pages",
        lambda g: max(g.lead(name, "omniscient") for name in KNOWN),
        "another strategy leads by more than 0.001 of the PageRank after half of the pages",
        margin=lambda x: x - LEAST_LEAD,
        of="late lead",
    )


def _on_poor_strategies(claims: _Claims) -> None:
    """Judge the claims about backlink count, partial PageRank and breadth-first."""
    for name in ("backlink-count", "partial-pagerank"):
        claims.claim(
            f"{name} performs worse than a random crawl (figure 4)",
            "average of random minus its own",
            lambda g, n=name: g.average("random") - g.average(n),
            "the lower average",
            name=f"{name}-below-random",
        )
    claims.claim(
        "Backlink count and partial PageRank are the two worst strategies (table 2)",
        "average of the worst of the others minus that of the better of the two",
        lambda g: min(map(g.average, (*GOOD, POOR[0]))) - max(map(g.average, POOR[1:])),
        "both averages are below those of breadth-first, batch PageRank, OPIC and larger sites "
        "first",
        length=True,
    )
    claims.claim(
        "Breadth-first is close to the best for the first 20 to 30 % of pages (figure 4)",
        "its lag behind the best except omniscient, at 20 or 30 % of the pages, whichever is "
        "larger",
        lambda g: max(
            max(g.at(n, x) for n in KNOWN) - g.at("breadth-first", x) for x in (0.2, 0.3)
        ),
        "less than 0.05",
        margin=lambda x: 0.05 - x,
        of="lead at a share",
        name="breadth-first-early-good",
    )
    claims.claim(
        "After that breadth-first becomes less efficient (figure 4)",
        "its lag behind the best at 50 % of the pages minus that at 20 %",
        lambda g: _lag(g, 0.5) - _lag(g, 0.2),
        "it lags more at 50 % than at 20 %",
        of="lead at a share",
    )


def _lag(group: Group, share: float) -> float:
    """Return how far breadth-first is behind the best at this share of the pages."""
    return max(group.at(n, share) for n in KNOWN) - group.at("breadth-first", share)


def _on_good_strategies(claims: _Claims) -> None:
    """Judge the claims about batch PageRank, OPIC and larger sites first."""
    for good in GOOD:
        for poor in POOR:
            claims.claim(
                f"{good} is better than {poor} (table 2)",
                "its average minus that of the other",
                lambda g, a=good, b=poor: g.average(a) - g.average(b),
                "the higher average",
                length=good == LENGTH,
                name=f"{good}-over-{poor}",
            )
    claims.claim(
        "Batch PageRank is not better than OPIC and larger sites first (conclusions)",
        "average of the better of these minus its own",
        lambda g: max(map(g.average, GOOD[1:])) - g.average("batch-pagerank"),
        "no higher average than the better of the two",
        margin=lambda x: x + 1e-12,
        name="batch-not-over-opic",
    )
    claims.claim(
        "OPIC and larger sites first perform alike (table 2)",
        "average of OPIC minus that of larger sites first",
        lambda g: g.average("opic") - g.average(LENGTH),
        "averages within 0.02",
        margin=lambda x: 0.02 - abs(x),
        length=True,
        name="opic-like-larger-sites-first",
    )
    claims.claim(
        "Larger sites first has the advantage when high coverage is wanted (section 5.2)",
        "its lead over OPIC and batch PageRank at 80 % of the pages",
        lambda g: g.at(LENGTH, 0.8) - max(g.at(n, 0.8) for n in GOOD[:2]),
        "ahead of both at 80 % of the pages",
        of="lead at a share",
        length=True,
    )
    claims.claim(
        "OPIC, larger sites first and batch PageRank have half of the PageRank after 20 to 30 % "
        "of the pages (section 5.2)",
        "PageRank of the lowest of the three at 30 %",
        lambda g: min(g.at(n, 0.3) for n in GOOD),
        "all three have half at 30 %",
        margin=lambda x: x - 0.5,
        of="share",
        length=True,
    )
    claims.claim(
        "By Kendall's tau larger sites first is the best strategy without history (table 2)",
        "its tau minus that of the next best",
        lambda g: g.tau(LENGTH) - max(g.tau(n) for n in KNOWN if n != LENGTH),
        "the highest tau",
        of="tau lead",
        length=True,
    )
