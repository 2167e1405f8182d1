"""The most useful parts of a receipt as sentences, which promise nothing that is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from crawlprio.receipt.rules import BUDGETS


def sentences(receipt: Mapping[str, Any]) -> list[str]:
    """Return what share was got, what limited the crawl most, and what more would bring."""
    return [_share(receipt), *_limit(receipt), *_more(receipt)]


def _share(receipt: Mapping[str, Any]) -> str:
    coverage = receipt["coverage"]
    of = "this site" if receipt["got"]["sites_known"] == 1 else "these sites"
    least, (low, high) = coverage["at_least"], coverage["interval"]
    got = (
        f"At least {math.floor(100 * least)}% of the importance of {of}, counted from the seeds, "
        "was fetched"
    )
    if least == high:
        return f"{got}."
    return f"{got} (likely {math.floor(100 * low)} to {math.ceil(100 * high)}%)."


def _limit(receipt: Mapping[str, Any]) -> list[str]:
    """Return which budget refused most links, or else how many pages wait."""
    refused = receipt["refused"]
    budgets = [(refused[rule]["links"], rule) for rule in BUDGETS if rule in refused]
    if budgets:
        n, rule = max(budgets)
        return [f"{n:,} links were refused by {refused[rule]['setting']}."]
    n_waiting = receipt["got"]["waiting"]
    return [f"{n_waiting:,} known pages were not fetched yet."] if n_waiting else []


def _more(receipt: Mapping[str, Any]) -> list[str]:
    steps = receipt["more"]
    if not steps:
        return []
    step = steps[min(1, len(steps) - 1)]
    return [
        f"Another {step['pages']:,} pages would add {_about(step['share'])}, in "
        f"{duration(step['seconds'])} or more."
    ]


def duration(seconds: float) -> str:
    """Return seconds for people: `40 s`, `12 min`, `3.5 h`, `4.1 days`."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            number = seconds / size
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{seconds:.0f} s"


def _about(share: float) -> str:
    """Return a share in percent, with a digit more where it is small."""
    if share < 0.001:
        return "less than 0.1%"
    return f"about {share:.1%}" if share < 0.02 else f"about {share:.0%}"
