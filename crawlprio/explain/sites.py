"""The site of a waiting page: its delay, and when the page could be fetched."""

from __future__ import annotations

import json
from typing import Any

from crawlprio.explain.past import Past
from crawlprio.receipt.rules import SETTINGS_KEY
from crawlprio.store import SiteState


def site_of(past: Past, page: int, n_before: int, now: float) -> dict[str, Any]:
    """Return the state of the site of a waiting page, and the time that its pages need.

    `not_before_seconds` counts from `now`, a Unix time, for a crawl that goes on then: what is left
    of the site's delay, and then the `n_before` pages of the site that come first, at the pace so
    far.
    """
    site = int(past.pages.sites[page])
    host, fetched = past.pages.hosts[site], past.site
    states = {state.host: state for state in past.store.site_states()}
    known = states.get(host, SiteState(host))
    delay = max(_delay(past), known.crawl_delay or 0.0)
    rest = max(fetched.ended_at + delay - now, known.paused_until - now, 0.0)
    a_page = delay + (fetched.seconds / fetched.n_fetches if fetched.n_fetches else 0.0)
    return {
        "host": host,
        "fetched": fetched.n_fetches,
        "delay_seconds": delay,
        "crawl_delay": known.crawl_delay,
        "refusals": known.refusals,
        "paused_seconds": max(round(known.paused_until - now, 1), 0.0),
        "not_before_seconds": round(rest + n_before * a_page, 1),
    }


def _delay(past: Past) -> float:
    """Return DOWNLOAD_DELAY as the crawl recorded it."""
    try:
        value = json.loads(past.store.get_meta(SETTINGS_KEY, "{}"))["DOWNLOAD_DELAY"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0.0
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0.0
