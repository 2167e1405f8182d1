"""The rule that turns the cases of a claim into a verdict, and its wording.

A case is one web: all crawls of it are its starts and draws. Webs on which the orderings compared
cannot differ are no case. A case decides only if its margin exceeds the spread, on a synthetic web
also the generator's error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

Verdict = Literal[
    "reproduced",
    "mostly reproduced",
    "reproduced in part",
    "mostly not reproduced",
    "not reproduced",
    "undecided",
    "not tested",
]
VERDICTS: tuple[Verdict, ...] = (
    "reproduced",
    "mostly reproduced",
    "reproduced in part",
    "mostly not reproduced",
    "not reproduced",
    "undecided",
    "not tested",
)
BOUNDS: tuple[tuple[float, Verdict], ...] = (
    (0.9, "reproduced"),
    (2 / 3, "mostly reproduced"),
    (1 / 3, "reproduced in part"),
    (0.1, "mostly not reproduced"),
    (0.0, "not reproduced"),
)
"""The smallest share of deciding cases in which a claim holds, and the verdict; descending."""

MOST_NAMED, MOST_FEWER = 2, 4
"""Undecided cases, and cases on the smaller side, that are listed by name; the JSON lists all."""

RULE = (
    "Each web counts once. It decides a claim if the margin exceeds its spread: the standard "
    "deviations over starts and draws of both sides compared, added in quadrature; on a synthetic "
    "web it must also exceed the generator's error. A claim is *reproduced* if it holds on at "
    "least 90 % of the webs that decide it, *mostly reproduced* from two thirds, *reproduced in "
    "part* from one third, *mostly not reproduced* from 10 %, and otherwise *not reproduced*. If "
    "no web decides, the claim is *undecided*. A verdict that rests on one web says so. Webs on "
    "which the orderings compared cannot differ are left out. Starts that lead to the same crawl "
    "count as one (under every ordering compared, pages are displaced by less than 1 % of the "
    "crawl on average)."
)


@dataclass(frozen=True)
class Case:
    """The outcome of one kind of crawl for a claim.

    `name`: What was crawled, and how. `margin`: How far the measured value is beyond the rule's
    bound, in the unit of the measure. Above 0 the claim holds. `error`: Margins up to this do not
    decide: the spread, or the generator's error; infinite if the generator alone determines the
    outcome.
    """

    name: str
    margin: float
    error: float = 0.0

    def __post_init__(self) -> None:
        if math.isnan(self.margin):
            raise ValueError(f"the margin of {self.name} is not a number.")

    @property
    def holds(self) -> bool:
        return self.margin > 0.0

    @property
    def decides(self) -> bool:
        return abs(self.margin) > self.error

    @property
    def web(self) -> str:
        """The web, of which the name says after a comma or `site` how it was crawled."""
        return self.name.partition(", ")[0].partition(" site of ")[0]

    def as_json(self) -> dict[str, Any]:
        """Return the case for JSON; an infinite error is null."""
        error = self.error if math.isfinite(self.error) else None
        return {"name": self.name, "margin": float(self.margin), "error": error}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Case:
        """Return the case that `as_json` wrote."""
        error = math.inf if stored["error"] is None else stored["error"]
        return cls(stored["name"], stored["margin"], error)


def at_spreads(cases: Iterable[Case], n_spreads: float) -> list[Case]:
    """Return the cases as they are if a margin has to exceed several spreads."""
    return [replace(case, error=case.error * n_spreads) for case in cases]


@dataclass(frozen=True)
class Margin:
    """Two sides compared on one web, with a value for each start or draw; `more` is to be larger.

    A bound is a side of equal values.
    """

    more: Sequence[float]
    less: Sequence[float]

    def case(self, name: str, least: float = 0.0) -> Case:
        """Return the case; `least` is an error of the measure itself."""
        spread = math.hypot(*(stdev(x) if len(x) > 1 else 0.0 for x in (self.more, self.less)))
        return Case(name, float(fmean(self.more) - fmean(self.less)), max(float(spread), least))


def by_web(cases: Iterable[Case]) -> list[Case]:
    """Return one case for each web: the mean margin, and the spread of its crawls if larger."""
    webs: dict[str, list[Case]] = {}
    for case in cases:
        webs.setdefault(case.web, []).append(case)
    return [
        Case(
            web,
            fmean(case.margin for case in crawls),
            max(
                fmean(case.error for case in crawls),
                stdev(case.margin for case in crawls) if len(crawls) > 1 else 0.0,
            ),
        )
        for web, crawls in webs.items()
    ]


def judge(cases: Sequence[Case]) -> Verdict:
    """Return the verdict by `RULE`."""
    if not cases:
        return "not tested"
    decided = [case.holds for case in cases if case.decides]
    if not decided:
        return "undecided"
    share = sum(decided) / len(decided)
    # Shares are ratios of small numbers; 2 of 3 is two thirds.
    return next(verdict for least, verdict in BOUNDS if share >= least - 1e-9)


def in_words(cases: Sequence[Case]) -> str:
    """Return in words on how many webs a claim holds, where it does not, and what is undecided."""
    decided = [case for case in cases if case.decides]
    held = [case.name for case in decided if case.holds]
    failed = [case.name for case in decided if not case.holds]
    undecided = [case.name for case in cases if not case.decides]
    words = []
    if decided:
        words.append(f"{len(held)} of {len(decided)}")
    if len(decided) == 1:
        words[-1] += f" (one web: {decided[0].web})"
    elif held and failed and min(len(held), len(failed)) <= MOST_FEWER:
        fewer = f"not {'; '.join(failed)}" if len(failed) <= len(held) else "; ".join(held)
        words[-1] += f" ({fewer})"
    if len(undecided) > MOST_NAMED:
        words.append(f"{len(undecided)} undecided")
    elif undecided:
        words.append(f"undecided: {'; '.join(undecided)}")
    return "; ".join(words) if words else "-"


@dataclass(frozen=True)
class GeneratorErrors:
    """How wrong synthetic twins of recorded webs were, for each measure.

    `by_measure`: The error of each measure, in its unit.
    """

    by_measure: Mapping[str, float]

    @classmethod
    def read(cls, folder: Path) -> GeneratorErrors:
        """Return the errors that the generator section wrote into the folder."""
        path = folder / "generator.json"
        if not path.exists():
            raise SystemExit(f"{path} is missing; run the section generator first.")
        rows = json.loads(path.read_text(encoding="utf-8"))["tables"]["errors"]["rows"]
        return cls({row[0]: float(row[1]) for row in rows})

    def of(self, measure: str, *, is_synthetic: bool) -> float:
        """Return the error of a measure; 0 on a recorded web."""
        return self.by_measure[measure] if is_synthetic else 0.0


def above(
    values: Mapping[str, float] | Iterable[tuple[str, float]],
    bound: float = 0.0,
    error: Callable[[str], float] | float = 0.0,
) -> list[Case]:
    """Return a case for each named value; the claim holds if the value exceeds the bound."""
    items = values.items() if isinstance(values, Mapping) else values
    return [
        Case(name, value - bound, error(name) if callable(error) else error)
        for name, value in items
    ]


def below(
    values: Mapping[str, float] | Iterable[tuple[str, float]],
    bound: float,
    error: Callable[[str], float] | float = 0.0,
) -> list[Case]:
    """Return a case for each named value; the claim holds if the value is less than the bound."""
    items = values.items() if isinstance(values, Mapping) else values
    return above([(name, -value) for name, value in items], -bound, error)
