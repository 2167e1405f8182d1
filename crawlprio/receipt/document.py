"""The receipt as a document: made from a store, and checked against one."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crawlprio.errors import StoreError
from crawlprio.ranking.likely import DAMPING, Likely, likely_coverage
from crawlprio.receipt.expected import expected
from crawlprio.receipt.files import text_of
from crawlprio.receipt.reading import StoredCrawl
from crawlprio.receipt.rules import CERTIFICATE_KEY, ENDED_KEY, SETTING_OF, SETTINGS_KEY
from crawlprio.store import Store
from crawlprio.store.outcomes import is_refusal
from crawlprio.store.reader import StoreReader

VERSION = 1
"""The value of `receipt_version`."""

N_EXAMPLES, N_MISSING, MOST_SEEDS = 3, 10, 1_000

METHOD = (
    "at_least: RankMass bound (Cho & Schonfeld 2007). likely: the web beyond the fetched pages is "
    "taken for one page that links as the fetched siblings of the waiting pages did. interval: the "
    "errors of that estimate on other webs; see docs/coverage.md."
)


def make_receipt(path: str | Path) -> dict[str, Any]:
    """Return the receipt of the crawl in a store, which depends on nothing else.

    Raises
    ------
    StoreError
        If the store cannot be read.

    Notes
    -----
    O(pages + links) time; some 60 bytes of memory per link.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        return receipt_of(store, StoredCrawl.read(store))


def receipt_of(store: Store, crawl: StoredCrawl) -> dict[str, Any]:
    """Return the receipt of a crawl that was read from the same snapshot of its store."""
    found = likely_coverage(crawl.fetches)
    settings = _object(store, SETTINGS_KEY)
    return {
        "receipt_version": VERSION,
        "store": {"created": store.get_meta("created"), "visits": store.n_visits},
        "asked": _asked(store, crawl, settings),
        "got": _got(store, crawl),
        "coverage": _coverage(crawl, found),
        "certificate": _object(store, CERTIFICATE_KEY) or None,
        "outside": _outside(store),
        "refused": _refused(store, crawl),
        "failed": _failed(crawl),
        "missing": _missing(store, crawl, found),
        "more": expected(crawl, found.shares, settings, store.site_states()),
    }


def coverage_of(path: str | Path) -> dict[str, Any]:
    """Return the part `coverage` of the receipt of a crawl, which may be running.

    Raises
    ------
    StoreError
        If the store cannot be read.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        crawl = StoredCrawl.read(store)
    return _coverage(crawl, likely_coverage(crawl.fetches))


def check_receipt(path: Path, store: Path) -> str:
    """Return why a receipt does not belong to a store, in one sentence; empty if it does.

    Raises
    ------
    StoreError
        If one of them cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        given = json.loads(text)
    except OSError as error:
        raise StoreError(f"{path}: the receipt cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        return f"{path} is not a receipt: it is not JSON."
    ours = make_receipt(store)
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
    arguments = _object(store, "given").get("arguments")
    scope = dict(arguments) if isinstance(arguments, dict) else {}
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
        "begin": _date(crawl.begin),
        "end": _date(crawl.end),
        "seconds": round(crawl.end - crawl.begin, 1),
        "ended_because": store.get_meta(ENDED_KEY) or None,
    }


def _coverage(crawl: StoredCrawl, found: Likely) -> dict[str, Any]:
    """Return the share of the importance that the pages hold that were got, without failed ones."""
    done = float(found.shares[crawl.fetches.order].sum())
    got = float(found.shares[crawl.is_got].sum()) / done if done else 0.0
    return {
        "importance": "pagerank",
        "surfer_starts_at": "seeds",
        "damping": DAMPING,
        "at_least": _down(got * found.at_least),
        "likely": round(got * found.likely, 4),
        "interval": [_down(got * found.low), _up(got * found.high)],
        "confidence": found.confidence,
        "method": METHOD,
    }


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


def _failed(crawl: StoredCrawl) -> dict[str, int]:
    causes = Counter(cause for cause in crawl.failures.values() if not is_refusal(0, cause))
    return dict(sorted(causes.items()))


def _missing(store: StoreReader, crawl: StoredCrawl, found: Likely) -> list[dict[str, Any]]:
    """Return the pages not got that are likely to hold most, each with the reason."""
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


def _object(store: StoreReader, key: str) -> dict[str, Any]:
    """Return a JSON object in `meta`; empty if there is none."""
    try:
        found = json.loads(store.get_meta(key, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _date(seconds: float) -> str | None:
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
