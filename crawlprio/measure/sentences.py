"""A receipt for people: its most useful parts as sentences, and all of it as rows.

The sentences promise nothing that is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from crawlprio.measure.stored_crawl import SETTING_OF


def sentences(receipt: Mapping[str, Any]) -> list[str]:
    """Return what share was got, what limited the crawl most, and what more would bring."""
    certificate = receipt["certificate"]
    has_share = receipt["coverage"]["at_least"] is not None
    proved = [sentence_of_certificate(certificate)] if certificate and has_share else []
    n_waiting = receipt["got"]["waiting"]
    waiting = [f"{n_waiting:,} known pages were not fetched yet."] if n_waiting else []
    return [share_sentence(receipt), *proved, *waiting, *_more(receipt)]


def sentence_of_certificate(certificate: Mapping[str, Any]) -> str:
    """Return what random walks proved."""
    least, most = _floor(certificate["at_least"]), _ceiling(certificate["at_most"])
    unfinished = certificate["unfinished"]
    ended = f", of which {unfinished:,} did not end," if unfinished else ""
    return (
        f"At least {least}% and at most {most}% of the importance was fetched after "
        f"{certificate['visits']:,} visits; {certificate['walks']:,} random walks{ended} prove "
        f"each bound with {certificate['confidence']:.0%} confidence."
    )


def share_sentence(receipt: Mapping[str, Any]) -> str:
    """Return what share was got, and of what: the links that rules refused lead out of it."""
    coverage, n_pages = receipt["coverage"], receipt["got"]["pages"]
    left_out = coverage["left_out"]
    rules = f" The crawl's rules refused {_by_rule(left_out)}." if left_out else ""
    if coverage["at_least"] is None:
        none = "The page got has no link"
        if n_pages > 1:
            none = f"None of the {n_pages:,} pages got has a link"
        return f"{none} to follow, so no share can be said: {_look(coverage)}.{rules}"
    sites = "this site" if receipt["got"]["sites_known"] == 1 else "these sites"
    of = f"what the crawl's rules allow of {sites}" if left_out else sites
    likely = "" if receipt["certificate"] else _likely(coverage)
    return (
        f"At least {_floor(coverage['at_least'])}% of the importance of {of}, counted from the "
        f"seeds, was fetched{likely}.{rules}"
    )


def short_share(coverage: Mapping[str, Any]) -> str:
    """Return the same in a few words."""
    if coverage["at_least"] is None:
        return "not known: no links"
    of = " of what the rules allow" if coverage["left_out"] else ""
    if coverage["interval"] is None:
        return f"at least {_floor(coverage['at_least'])}%{of}"
    low, high = coverage["interval"]
    return f"{_floor(low)} to {_ceiling(high)}%{of}"


def _likely(coverage: Mapping[str, Any]) -> str:
    if coverage["interval"] is None:
        return "; how much more cannot be estimated, but crawlprio certify can prove it"
    low, high = coverage["interval"]
    if coverage["at_least"] == high:
        return ""
    return f" (likely {_floor(low)} to {_ceiling(high)}%, in nine of ten crawls)"


def _by_rule(left_out: Mapping[str, int]) -> str:
    """Return how many links rules refused, by rule, most first."""
    counts = []
    for rule, n in sorted(left_out.items(), key=lambda entry: (-entry[1], entry[0])):
        setting = f" ({SETTING_OF[rule]})" if rule in SETTING_OF else ""
        counts.append(f"{n:,} {'link' if n == 1 else 'links'} by {rule}{setting}")
    return ", ".join(counts)


def _look(coverage: Mapping[str, Any]) -> str:
    """Return what pages without links look like."""
    looks = set(coverage["looks"])
    if looks == {"empty"}:
        return "an empty body looks like that"
    if "redirected" in looks:
        return "a redirect to a login form looks like that"
    return "links made by script, a login form and what is not HTML look like that"


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
    yield "importance got", share_sentence(receipt)
    if receipt["certificate"] and coverage["at_least"] is not None:
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


def _floor(share: float) -> int:
    return math.floor(100 * share + 1e-9)


def _ceiling(share: float) -> int:
    return math.ceil(100 * share - 1e-9)


def _about(share: float) -> str:
    """Return a share in percent, with a digit more where it is small."""
    if share < 0.001:
        return "less than 0.1%"
    return f"about {share:.1%}" if share < 0.02 else f"about {share:.0%}"
