"""The receipt of a crawl: made from its store, checked against it, kept in a file, put in words.

Its sentences promise nothing that is not known.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import StoreError
from crawlprio.measure.stored_crawl import (
    CERTIFICATE_KEY,
    ENDED_KEY,
    ENDS,
    HASH_ROUTE,
    OF_PAGES,
    SETTING_OF,
    SETTINGS_KEY,
    UNRENDERED,
    FetchRate,
    StoredCrawl,
    number_of,
    recorded_object,
    rendered_counts,
)
from crawlprio.ranking.coverage_estimate import DAMPING, WIDEST, Likely, likely_coverage
from crawlprio.safe_files import open_file, replacing
from crawlprio.store import Store
from crawlprio.store.crawl_state import SiteState
from crawlprio.store.outcomes import is_refusal
from crawlprio.store.reader import StoreReader

STEPS = (100, 1_000, 10_000)
"""Numbers of further pages."""


def expected(
    crawl: StoredCrawl,
    shares: NDArray[np.float64],
    limits: Mapping[str, Any],
    states: Iterable[SiteState],
) -> list[dict[str, Any]]:
    """Return for each of `STEPS` the share of importance to expect, and the seconds it takes.

    `limits` are the settings of the crawl, as its store has them.

    The pages are the best that wait; of what they lead to nothing is known. Sites are fetched from
    side by side, each at the pace seen so far, or at its delay if that is longer. Where fewer pages
    wait, the last entry has as many as there are.
    """
    is_waiting = ~crawl.is_got
    is_waiting[list(crawl.failures)] = False
    waiting = np.flatnonzero(is_waiting)
    by_share = waiting[np.lexsort((waiting, -shares[waiting]))]
    delays = {state.host: state.crawl_delay or 0.0 for state in states}
    steps = [n for n in STEPS if n < len(waiting)]
    if len(waiting) and len(steps) < len(STEPS):
        steps.append(len(waiting))
    return [
        {
            "pages": n,
            "share": round(float(shares[by_share[:n]].sum()), 4),
            "seconds": round(
                seconds_needed(crawl.paces, crawl.hosts, crawl.sites[by_share[:n]], limits, delays)
            ),
        }
        for n in steps
    ]


def seconds_needed(
    paces: Mapping[int, FetchRate],
    hosts: Sequence[str],
    sites: NDArray[np.int32],
    limits: Mapping[str, Any],
    delays: Mapping[str, float],
) -> float:
    """Return how long it takes to fetch pages, each given by its site.

    `paces` and `hosts`: by site, the fetches so far and the host. `limits`: the settings of the
    crawl. `delays`: the Crawl-delay of hosts that have one.
    """
    n_fetches = sum(pace.n_fetches for pace in paces.values())
    usual = sum(pace.seconds for pace in paces.values()) / max(n_fetches, 1)
    delay = number_of(limits, "DOWNLOAD_DELAY", 0.0)
    at_once = number_of(limits, "CONCURRENT_REQUESTS_PER_DOMAIN", 1.0)
    in_all = number_of(limits, "CONCURRENT_REQUESTS", 16.0)
    most = number_of(limits, "CRAWLPRIO_MAX_CONCURRENT_REQUESTS", in_all)
    # Without counts, NumPy would load its masked arrays, which take 6 MB.
    distinct, counts = np.unique(sites, return_counts=True)
    in_all = max(in_all, min(len(distinct), most)) if in_all else 0.0
    longest = 0.0
    for site, n in zip(distinct, counts, strict=True):
        pace = paces.get(int(site), FetchRate())
        fetch = pace.seconds / pace.n_fetches if pace.n_fetches else usual
        pause = max(delay, delays.get(hosts[int(site)], 0.0))
        if at_once == 1.0:
            a_page = max(pause + fetch, pace.seconds_a_page)
        else:  # with several fetches at once, the delay is from start to start
            a_page = max(pause, fetch / at_once if at_once else 0.0)
        longest = max(longest, int(n) * a_page)
    return max(longest, len(sites) * usual / in_all if in_all else 0.0)


NAME = "receipt.json"


def text_of(receipt: dict[str, Any]) -> str:
    """Return a receipt as JSON, equal byte for byte for equal receipts."""
    text = json.dumps(receipt, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()  # half a character, as JSON escapes it


def write_receipt(receipt: dict[str, Any], store: Path) -> None:
    """Write a receipt beside its store, whole or not at all; raise `StoreError` if that fails."""
    path = store.with_name(NAME)
    try:
        # As private as the store, whose URLs it names.
        with replacing(path, private=True, encoding="utf-8", newline="\n") as file:
            file.write(text_of(receipt))
    except OSError as error:
        raise StoreError(f"{path}: the receipt cannot be written ({error.strerror}).") from None


FROM_SEEDS, OF_ALL = "counted from the seeds", "of all pages"
"""Whose importance a share is of: of a surfer who starts at the seeds, as in receipts, or at any
page, as in scores and simulations."""

OF_RULES = " of what the rules allow"
"""Of which pages a short share is, if rules left links out."""

VERSION = 1
"""The value of `receipt_version`."""

N_EXAMPLES, N_MISSING, MOST_SEEDS = 3, 10, 1_000

METHOD = (
    "at_least: RankMass bound (Cho & Schonfeld 2007). likely: the web beyond the fetched pages is "
    "taken for one page that links as the fetched siblings of waiting pages did; nobody returns "
    "from folders that were hardly opened, or all do at once: it lies between. interval: the "
    "errors of both on other webs; see docs/coverage.md."
)


def make_receipt(path: str | Path) -> dict[str, Any]:
    """Return the receipt of the crawl in a store, which depends on nothing else.

    Raises `StoreError` if the store cannot be read.

    O(pages + links) time; some 60 bytes of memory per link.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        return receipt_of(store, StoredCrawl.read(store))


def receipt_of(store: Store, crawl: StoredCrawl) -> dict[str, Any]:
    """Return the receipt of a crawl that was read from the same snapshot of its store."""
    found = likely_coverage(crawl.fetches)
    settings = recorded_object(store, SETTINGS_KEY)
    coverage = _coverage(store, crawl, found)
    has_share = coverage["at_least"] is not None
    causes = Counter(crawl.failures.values())
    return {
        "receipt_version": VERSION,
        "store": {"created": store.get_meta("created"), "visits": store.n_visits},
        "asked": _asked(store, crawl, settings),
        "got": _got(store, crawl),
        "coverage": coverage,
        "certificate": recorded_object(store, CERTIFICATE_KEY) or None,
        "outside": _outside(store),
        "refused": _refused(store, crawl),
        "rendered": rendered_counts(store) or None,
        "failed": {cause: n for cause, n in sorted(causes.items()) if not is_refusal(0, cause)},
        "missing": _missing(store, crawl, found) if has_share else [],
        "more": expected(crawl, found.shares, settings, store.site_states()) if has_share else [],
    }


def coverage_of(path: str | Path) -> dict[str, Any]:
    """Return the part `coverage` of the receipt of a crawl, which may be running.

    Raises `StoreError` if the store cannot be read.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        crawl = StoredCrawl.read(store)
        return _coverage(store, crawl, likely_coverage(crawl.fetches))


def check_receipt(path: Path, store: Path) -> str:
    """Return why a receipt does not belong to a store, in one sentence; empty if it does.

    Raises `StoreError` if one of them cannot be read.
    """
    ours = make_receipt(store)
    try:
        with open_file(path, encoding="utf-8", follow=True) as file:
            text = file.read()
        given = json.loads(text)
    except OSError as error:
        raise StoreError(f"{path}: the receipt cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        return f"{path} is not a receipt: it is not JSON."
    if text == text_of(ours):
        return ""
    if not isinstance(given, dict) or given.get("receipt_version") != VERSION:
        return f"{path} is not a receipt of version {VERSION}."
    of = given.get("store")
    if not isinstance(of, dict) or of.get("created") != ours["store"]["created"]:
        return f"{path} is the receipt of another crawl than that in {store}."
    if of != ours["store"]:
        return (
            f"{path} was made after {of.get('visits')} visits, and {store} holds "
            f"{ours['store']['visits']}; make it again with crawlprio receipt {store}."
        )
    parts = sorted(name for name in {*ours, *given} if ours.get(name) != given.get(name))
    return f"{path} was changed: {', '.join(parts) or 'its form'} is not what {store} says."


def _asked(store: StoreReader, crawl: StoredCrawl, settings: dict[str, Any]) -> dict[str, Any]:
    scope = _scope(store)
    urls = [url for url, _ in store.read_urls(crawl.seeds[:MOST_SEEDS])]
    return {
        "seeds": urls,
        "n_seeds": len(crawl.seeds),
        "scope": {name: scope.get(name) for name in ("follow", "allow", "deny")},
        "topic": store.get_meta("topic"),
        "orderings": [name for _, name in store.orderings()],
        "settings": settings,
        "crawlprio_version": store.get_meta("crawlprio_version"),
    }


def _got(store: StoreReader, crawl: StoredCrawl) -> dict[str, Any]:
    n_refused = sum(is_refusal(0, cause) for cause in crawl.failures.values())
    return {
        "pages": crawl.n_got,
        "by_status": {str(status): n for status, n in sorted(crawl.statuses.items())},
        "failed": len(crawl.failures) - n_refused,
        "refused": n_refused,
        "waiting": len(crawl.sites) - crawl.n_got - len(crawl.failures),
        "known": len(crawl.sites),
        "sites": len(crawl.paces),
        "sites_known": len(crawl.hosts),
        "links": crawl.n_links,
        "bytes": crawl.n_bytes,
        "begin": utc_date(crawl.begin),
        "end": utc_date(crawl.end),
        "seconds": round(crawl.end - crawl.begin, 1),
        "ended_because": store.get_meta(ENDED_KEY) or None,
    }


def _coverage(store: StoreReader, crawl: StoredCrawl, found: Likely) -> dict[str, Any]:
    """Return the share of the importance that the successfully fetched pages hold.

    There is none to speak of if pages were fetched, and none of them has a link.
    """
    has_share = crawl.has_links or not crawl.n_got
    is_likely = has_share and found.high - found.low <= WIDEST
    done = float(found.shares[crawl.fetches.order].sum())
    got = float(found.shares[crawl.is_got].sum()) / done if done else 0.0
    return {
        "importance": "pagerank",
        "surfer_starts_at": "seeds",
        "damping": DAMPING,
        "at_least": _down(got * found.at_least) if has_share else None,
        "likely": round(got * found.likely, 4) if is_likely else None,
        "interval": [_down(got * found.low), _up(got * found.high)] if is_likely else None,
        "left_out": _left_out(store),
        "looks": [] if has_share else sorted(crawl.looks),
        "confidence": found.confidence,
        "method": METHOD,
    }


def _left_out(store: StoreReader) -> dict[str, int]:
    """Return how many links each rule refused.

    Links to private addresses and hash routes do not count, nor do pages that were not rendered,
    nor links to other sites unless the crawl was told which URLs to follow.
    """
    scope = _scope(store)
    names_urls = scope.get("allow") or scope.get("deny")
    return {
        rule: links
        for rule, (links, _) in store.refusals().items()
        if rule not in (*OF_PAGES, HASH_ROUTE, UNRENDERED, "private-address")
        and (names_urls or rule != "out-of-scope")
    }


def _scope(store: StoreReader) -> dict[str, Any]:
    arguments = recorded_object(store, "given").get("arguments")
    return arguments if isinstance(arguments, dict) else {}


def _outside(store: Store) -> dict[str, Any]:
    """Return what others say there is: the pages that sitemaps name, if any were read."""
    counts = store.sitemaps().counts()
    if not counts:
        return {}
    named, known, fetched = (
        sum(values) for values in zip(*(count[1:] for count in counts), strict=True)
    )
    return {"sitemaps": {"pages": named, "known": known, "fetched": fetched}}


def _refused(store: StoreReader, crawl: StoredCrawl) -> dict[str, Any]:
    """Return the links that rules refused, and the pages that were refused when their turn came."""
    refused = {
        rule: {"links": links, "examples": examples[:N_EXAMPLES]}
        for rule, (links, examples) in store.refusals().items()
    }
    pages: dict[str, list[int]] = {}
    for page, cause in crawl.failures.items():
        if is_refusal(0, cause):
            rule = cause.partition(" (")[0]
            pages.setdefault(rule, []).append(page)
    for rule, of in pages.items():
        urls = [url for url, _ in store.read_urls(of[:N_EXAMPLES])]
        refused[rule] = {"links": len(of), "examples": urls}
    return {
        rule: {**found, "setting": SETTING_OF.get(rule)} for rule, found in sorted(refused.items())
    }


def _missing(store: StoreReader, crawl: StoredCrawl, found: Likely) -> list[dict[str, Any]]:
    """Return the missed pages that are likely to be most important, each with the reason."""
    best = found.best(~crawl.is_got, N_MISSING)
    urls = store.read_urls(best)
    return [
        {
            "url": url,
            "share": round(float(found.shares[page]), 6),
            "because": crawl.failures.get(page, "waiting"),
        }
        for page, (url, _) in zip(best, urls, strict=True)
    ]


def utc_date(seconds: float) -> str | None:
    """Return a Unix time as ISO 8601, UTC; None for 0 and for what is no date."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None


def _down(share: float) -> float:
    return max(0.0, math.floor(share * 1e4 + 1e-6) / 1e4)


def _up(share: float) -> float:
    return min(1.0, math.ceil(share * 1e4 - 1e-6) / 1e4)


def sentences(receipt: Mapping[str, Any]) -> list[str]:
    """Return sentences: the share fetched, what limited the crawl most, what more would bring."""
    certificate = receipt["certificate"]
    has_share = receipt["coverage"]["at_least"] is not None
    proved = [sentence_of_certificate(certificate)] if certificate and has_share else []
    n_waiting = receipt["got"]["waiting"]
    pages = "1 known page was" if n_waiting == 1 else f"{n_waiting:,} known pages were"
    waiting = [f"{pages} not fetched yet."] if n_waiting else []
    of_failed = _of_failed(receipt["missing"])
    said = (*proved, *of_failed, *waiting, *_made_by_script(receipt), *_more(receipt))
    return [share_sentence(receipt), *said]


def _of_failed(missing: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return which share the failed pages among the missing ones hold, if it is 1% or more."""
    failed = [page for page in missing if page["because"] != "waiting"]
    share = sum(page["share"] for page in failed)
    said = f"Pages that could not be fetched hold {_about(share)}, such as"
    return [f"{said} {page['url']} ({page['because']})." for page in failed[:1] if share >= 0.01]


def _made_by_script(receipt: Mapping[str, Any]) -> list[str]:
    """Return what a crawl does not see of pages made by script: those not rendered, and routes."""
    n_pages, n_routes = (
        receipt["refused"].get(rule, {}).get("links", 0) for rule in (UNRENDERED, HASH_ROUTE)
    )
    told = []
    if n_pages and not receipt["rendered"]:
        looks = "1 page looks" if n_pages == 1 else f"{n_pages:,} pages look"
        were = "was" if n_pages == 1 else "were"
        told.append(f"{looks} as if made by script and {were} not rendered (--render auto).")
    if n_routes:
        links = "1 link to a hash route" if n_routes == 1 else f"{n_routes:,} links to hash routes"
        are = "is" if n_routes == 1 else "are"
        told.append(f"{links} (#/...), which {are} one page to a crawl.")
    return told


def sentence_of_certificate(certificate: Mapping[str, Any]) -> str:
    """Return what random walks proved."""
    least, most = _floor(certificate["at_least"]), _ceiling(certificate["at_most"])
    unfinished = certificate["unfinished"]
    ended = f", of which {unfinished:,} did not end," if unfinished else ""
    return (
        f"At least {least}% and at most {most}% of the importance, {FROM_SEEDS}, was fetched after "
        f"{certificate['visits']:,} visits; {certificate['walks']:,} random walks{ended} prove "
        f"each bound with {certificate['confidence']:.0%} confidence."
    )


def share_sentence(receipt: Mapping[str, Any]) -> str:
    """Return a sentence on the share fetched, and of which web: that without refused links."""
    coverage, n_pages = receipt["coverage"], receipt["got"]["pages"]
    left_out = coverage["left_out"]
    rules = f" The crawl's rules refused {_by_rule(left_out)}." if left_out else ""
    if coverage["at_least"] is None:
        none = "The fetched page has no link"
        if n_pages > 1:
            none = f"None of the {n_pages:,} fetched pages has a link"
        return f"{none} to follow, so no share can be stated: {_look(coverage)}.{rules}"
    sites = "this site" if receipt["got"]["sites_known"] == 1 else "these sites"
    of = f"what the crawl's rules allow of {sites}" if left_out else sites
    likely = "" if receipt["certificate"] else _likely(coverage)
    return (
        f"At least {_floor(coverage['at_least'])}% of the importance of {of}, "
        f"{FROM_SEEDS}, was fetched{likely}.{rules}"
    )


def short_share(coverage: Mapping[str, Any]) -> str:
    """Return the share of the importance from the seeds that was fetched, in a few words."""
    if coverage["at_least"] is None:
        return "not known: no links"
    of = OF_RULES if coverage["left_out"] else ""
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
    pages = "page" if step["pages"] == 1 else f"{step['pages']:,} pages"
    return [
        f"Another {pages} would add {_about(step['share'])}, {FROM_SEEDS}, in "
        f"{duration(step['seconds'])} or more."
    ]


def rows(receipt: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a receipt as rows for people: label and value. Labels may repeat."""
    asked, got, coverage = receipt["asked"], receipt["got"], receipt["coverage"]
    more = "" if asked["n_seeds"] <= 3 else f" and {asked['n_seeds'] - 3:,} more"
    yield "seeds", "\n".join(asked["seeds"][:3]) + more
    yield "ordering", ", then ".join(asked["orderings"])
    why = got["ended_because"] or "not known: it still runs, or was killed"
    yield "ended because", ENDS.get(why, why)
    statuses = ", ".join(f"{status}: {n:,}" for status, n in got["by_status"].items())
    yield "pages fetched", f"{got['pages']:,} ({statuses})" if statuses else "0"
    yield "bytes, time", f"{got['bytes']:,} in {duration(got['seconds'])}"
    yield "not fetched yet", f"{got['waiting']:,} of {got['known']:,} known pages"
    yield "importance fetched", share_sentence(receipt)
    if receipt["certificate"] and coverage["at_least"] is not None:
        yield "certified", sentence_of_certificate(receipt["certificate"])
    for source, of in receipt["outside"].items():
        yield source, f"{of['fetched']:,} of {of['pages']:,} pages fetched, {of['known']:,} known"
    for cause, n in receipt["failed"].items():
        yield "failed", f"{cause}: {n:,}"
    if receipt["rendered"]:
        yield "rendered", rendered_text(receipt["rendered"])
    for rule, refused in receipt["refused"].items():
        setting = f" ({refused['setting']})" if refused["setting"] else ""
        yield (
            "refused",
            f"{rule}: {refused['links']:,}{setting}"
            + "".join(f"\n  {url}" for url in refused["examples"]),
        )
    for page in receipt["missing"]:
        yield "missing", f"{page['share']:.3%} {FROM_SEEDS}: {page['url']} ({page['because']})"
    for step in receipt["more"]:
        share, time = f"{step['share']:.1%}", duration(step["seconds"])
        yield "more", f"{step['pages']:,} pages: about {share} {FROM_SEEDS}, in {time} or more"


def rendered_text(counts: Mapping[str, int]) -> str:
    """Return what rendering brought, in a line."""
    failed = {name.partition("/")[2]: n for name, n in counts.items() if "/" in name}
    causes = ", ".join(f"{cause} {n:,}" for cause, n in failed.items())
    n, gained = counts.get("pages", 0), counts.get("gained", 0)
    pages = f"{n:,} {'page' if n == 1 else 'pages'}, {gained:,} gained by it"
    return f"{pages}; {sum(failed.values()):,} failed{f' ({causes})' if causes else ''}"


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
