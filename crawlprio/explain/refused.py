"""Why a crawl does not know a URL: the rule that refused it, and the pages that link to it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from crawlprio.explain.past import Policy
from crawlprio.receipt.rules import SETTING_OF, SETTINGS_KEY
from crawlprio.store import Store
from crawlprio.web.budgets import pattern_of
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of

BY_LINK = ("nofollow", "depth", "claim-budget", "sites", "private-address", "long-url")
"""Rules that a URL alone does not tell."""

N_LINKING = 10


_BUDGETS = tuple(f"CRAWLPRIO_MAX_PAGES_PER_{what}" for what in ("SITE", "DOMAIN", "PATTERN"))


def why_unknown(store: Store, policy: Policy, url: str) -> dict[str, Any]:
    """Return the rules that may have refused a URL, and the pages that link to it.

    `rules` has one entry if the rule is known, several if the store allows no decision, and none if
    nothing refuses the URL.
    """
    linking = store.outside_links(url)
    refusals = store.refusals()
    rules = [rule for rule, refusal in refusals.items() if url in refusal.examples]
    if not rules:
        depth = linking[0].depth + 1 if linking else 1
        by_url = (policy.refuses(url, depth) if policy.refuses else "") or _full(store, url)
        is_refused = bool(linking) and not by_url
        rules = (
            [by_url] if by_url else [rule for rule in BY_LINK if is_refused and rule in refusals]
        )
    urls = [found for found, _ in store.read_urls([link.page for link in linking[:N_LINKING]])]
    return {
        "rules": [{"rule": rule, "setting": SETTING_OF.get(rule)} for rule in rules],
        "linked_by": len(linking),
        "linking": [
            {"url": source, "anchor": link.anchor}
            for source, link in zip(urls, linking, strict=False)
        ],
        "scope_is_known": policy.refuses is not None,
    }


def _full(store: Store, url: str) -> str:
    """Return the budget that has no room for a URL, as the crawl counts, or an empty string."""
    per_site, per_domain, per_pattern = _limits(store)
    host = host_of(url)
    sites, hosts = store.page_sites()
    if host not in hosts:
        return ""
    site = hosts.index(host)
    if per_site is not None and np.count_nonzero(sites == site) >= per_site:
        return "site-budget"
    if per_domain is not None:
        domain = registered_domain(host)
        of_domain = [at for at, name in enumerate(hosts) if name.endswith(domain)]
        of_domain = [at for at in of_domain if registered_domain(hosts[at]) == domain]
        if np.count_nonzero(np.isin(sites, of_domain)) >= per_domain:
            return "domain-budget"
    pattern = pattern_of(url)
    if per_pattern is not None and pattern:
        known = store.read_urls(np.flatnonzero(sites == site).tolist())
        if sum(pattern_of(found) == pattern for found, _ in known) >= per_pattern:
            return "pattern-budget"
    return ""


def _limits(store: Store) -> list[float | None]:
    """Return the crawl's budgets per site, domain and pattern; None where there is none."""
    try:
        found = json.loads(store.get_meta(SETTINGS_KEY, "{}"))
    except (ValueError, RecursionError):
        found = None
    values = [found.get(name) if isinstance(found, dict) else None for name in _BUDGETS]
    return [value if isinstance(value, int | float) else None for value in values]
