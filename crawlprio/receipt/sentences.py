"""A receipt for people: its most useful parts as sentences, and all of it as rows.

The sentences promise nothing that is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from crawlprio.receipt.rules import BUDGETS


def sentences(receipt: Mapping[str, Any]) -> list[str]:
    """Return what share was got, what limited the crawl most, and what more would bring."""
    certificate = receipt["certificate"]
    proved = [sentence_of_certificate(certificate)] if certificate else []
    return [_share(receipt), *proved, *_limit(receipt), *_more(receipt)]


def sentence_of_certificate(certificate: Mapping[str, Any]) -> str:
    """Return what random walks proved."""
    least = math.floor(100 * certificate["at_least"] + 1e-9)
    most = math.ceil(100 * certificate["at_most"] - 1e-9)
    unfinished = certificate["unfinished"]
    ended = f", of which {unfinished:,} did not end," if unfinished else ""
    return (
        f"At least {least}% and at most {most}% of the importance was fetched after "
        f"{certificate['visits']:,} visits; {certificate['walks']:,} random walks{ended} prove "
        f"each bound with {certificate['confidence']:.0%} confidence."
    )


def _share(receipt: Mapping[str, Any]) -> str:
    coverage = receipt["coverage"]
    of = "this site" if receipt["got"]["sites_known"] == 1 else "these sites"
    least, (low, high) = coverage["at_least"], coverage["interval"]
    got = (
        f"At least {math.floor(100 * least)}% of the importance of {of}, counted from the seeds, "
        "was fetched"
    )
    if least == high or receipt["certificate"]:
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


def rows(receipt: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a receipt as rows for people: what each says, and the value. Names may repeat."""
    asked, got, coverage = receipt["asked"], receipt["got"], receipt["coverage"]
    more = "" if asked["n_seeds"] <= 3 else f" and {asked['n_seeds'] - 3:,} more"
    yield "seeds", "\n".join(asked["seeds"][:3]) + more
    yield "ordering", ", then ".join(asked["orderings"])
    yield "ended because", got["ended_because"] or "not known: it still runs, or was killed"
    statuses = ", ".join(f"{status}: {n:,}" for status, n in got["by_status"].items())
    yield "pages got", f"{got['pages']:,} ({statuses})" if statuses else "0"
    yield "bytes, time", f"{got['bytes']:,} in {duration(got['seconds'])}"
    yield "not fetched yet", f"{got['waiting']:,} of {got['known']:,} known pages"
    low, high = coverage["interval"]
    yield (
        "importance got",
        (
            f"at least {coverage['at_least']:.1%}; estimate {coverage['likely']:.1%}, "
            f"{low:.1%} to {high:.1%} in 9 of 10 crawls of known webs"
        ),
    )
    if receipt["certificate"]:
        yield "certified", sentence_of_certificate(receipt["certificate"])
    for source, of in receipt["outside"].items():
        yield source, f"{of['fetched']:,} of {of['pages']:,} pages fetched, {of['known']:,} known"
    for cause, n in receipt["failed"].items():
        yield "failed", f"{cause}: {n:,}"
    for rule, refused in receipt["refused"].items():
        setting = f" ({refused['setting']})" if refused["setting"] else ""
        yield (
            "refused",
            f"{rule}: {refused['links']:,}{setting}"
            + "".join(f"\n  {url}" for url in refused["examples"]),
        )
    for page in receipt["missing"]:
        yield "missing", f"{page['share']:.3%} {page['url']} ({page['because']})"
    for step in receipt["more"]:
        share, time = f"{step['share']:.1%}", duration(step["seconds"])
        yield "more", f"{step['pages']:,} pages: about {share}, in {time} or more"


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
