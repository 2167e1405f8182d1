"""The rule that turns the cases of a claim into a verdict, and its wording.

A case is one web crawled in one way. Identical crawls are one case. If the orderings compared
cannot differ, there is no case. On a synthetic web, a case decides only beyond the generator's
error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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

MOST_NAMED = 2
"""Undecided cases that are listed by name; the JSON lists all."""

RULE = (
    "A claim is *reproduced* if it holds in at least 90 % of the cases that decide it, *mostly "
    "reproduced* from two thirds, *reproduced in part* from one third, *mostly not reproduced* "
    "from 10 %, and otherwise *not reproduced*. Seeds that lead to the same crawl count as one "
    "case (the same: under every ordering compared, pages are displaced by less than 1 % of the "
    "crawl on average). Crawls in which the orderings compared cannot differ are left out. A "
    "synthetic web decides only if the margin exceeds the generator's error. If no case decides, "
    "the claim is *undecided*."
)


@dataclass(frozen=True)
class Case:
    """The outcome of one kind of crawl for a claim.

    Parameters
    ----------
    name
        What was crawled, and how.
    margin
        How far the measured value is beyond the rule's bound, in the unit of the measure. Above 0
        the claim holds.
    error
        Smaller margins do not decide: 0 for recorded webs, infinite if the generator alone
        determines the outcome.
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
        return abs(self.margin) >= self.error

    def as_json(self) -> dict[str, Any]:
        """Return the case for JSON; an infinite error is null."""
        error = self.error if math.isfinite(self.error) else None
        return {"name": self.name, "margin": float(self.margin), "error": error}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Case:
        """Return the case that `as_json` wrote."""
        error = math.inf if stored["error"] is None else stored["error"]
        return cls(stored["name"], stored["margin"], error)


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
    """Return in words how often a claim holds, where it does not, and what is undecided."""
    decided = [case for case in cases if case.decides]
    held = [case.name for case in decided if case.holds]
    failed = [case.name for case in decided if not case.holds]
    undecided = [case.name for case in cases if not case.decides]
    words = []
    if decided:
        words.append(f"{len(held)} of {len(decided)}")
    if held and failed:
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

    Parameters
    ----------
    by_measure
        The error of each measure, in its unit.
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
