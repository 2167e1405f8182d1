"""The rules by which crawls refuse links and pages, and the settings that they come from."""

from __future__ import annotations

from crawlprio.store.outcomes import REFUSED, ROBOTS, UNREACHABLE

SETTING_OF = {
    "site-budget": "CRAWLPRIO_MAX_PAGES_PER_SITE",
    "domain-budget": "CRAWLPRIO_MAX_PAGES_PER_DOMAIN",
    "pattern-budget": "CRAWLPRIO_MAX_PAGES_PER_PATTERN",
    "claim-budget": "a quarter of CRAWLPRIO_MAX_PAGES_PER_SITE, _DOMAIN and _PATTERN",
    "sites": "CRAWLPRIO_MAX_SITES",
    "out-of-scope": "follow, allow, deny",
    "nofollow": "CRAWLPRIO_FOLLOW_NOFOLLOW",
    "depth": "DEPTH_LIMIT",
    "extension": "CRAWLPRIO_SKIP_EXTENSIONS",
    "too-deep": "CRAWLPRIO_MAX_STATIC_DEPTH, CRAWLPRIO_MAX_DYNAMIC_DEPTH",
    "cgi-bin": "CRAWLPRIO_HEURISTICS",
    "long-path": "CRAWLPRIO_MAX_PATH_SEGMENTS",
    "repeated-segments": "CRAWLPRIO_MAX_REPEATED_SEGMENTS",
    "parameters": "CRAWLPRIO_MAX_QUERY_PARAMETERS",
    "private-address": "CRAWLPRIO_PRIVATE_ADDRESSES, CRAWLPRIO_PRIVATE_NETWORKS",
    ROBOTS: "ROBOTSTXT_OBEY",
    UNREACHABLE: "CRAWLPRIO_ROBOTS_UNREACHABLE",
    REFUSED: "CRAWLPRIO_PRIVATE_ADDRESSES, CRAWLPRIO_PRIVATE_NETWORKS",
}
"""The setting, or argument of the spider, behind each rule; other rules have none."""

BUDGETS = ("site-budget", "domain-budget", "pattern-budget", "claim-budget", "sites")
"""Rules that limit how much of a site or web a crawl takes in."""

LIMITS = (
    *("ROBOTSTXT_OBEY", "CRAWLPRIO_ROBOTS_UNREACHABLE", "DOWNLOAD_DELAY"),
    *("CONCURRENT_REQUESTS", "CRAWLPRIO_MAX_CONCURRENT_REQUESTS"),
    *("CONCURRENT_REQUESTS_PER_DOMAIN", "CRAWLPRIO_MAX_CRAWL_DELAY"),
    *("DOWNLOAD_TIMEOUT", "DOWNLOAD_MAXSIZE", "CRAWLPRIO_MAX_PAGES_PER_SITE"),
    *("CRAWLPRIO_MAX_PAGES_PER_DOMAIN", "CRAWLPRIO_MAX_PAGES_PER_PATTERN"),
    *("CRAWLPRIO_MAX_SITES", "CRAWLPRIO_MAX_WAITING", "CRAWLPRIO_STOP_AT_COVERAGE"),
    *("CRAWLPRIO_PRIVATE_ADDRESSES", "CRAWLPRIO_FOLLOW_NOFOLLOW", "CRAWLPRIO_HEURISTICS"),
    *("CRAWLPRIO_MAX_STATIC_DEPTH", "CRAWLPRIO_MAX_DYNAMIC_DEPTH", "DEPTH_LIMIT"),
    *("CRAWLPRIO_MAX_PATH_SEGMENTS", "CRAWLPRIO_MAX_REPEATED_SEGMENTS"),
    *("CRAWLPRIO_MAX_QUERY_PARAMETERS", "CRAWLPRIO_STRIP_SESSIONS", "USER_AGENT"),
)
"""Settings that limit what a crawl gets and how fast; each crawl keeps their values."""

SCRAPY_LIMITS = (
    "CLOSESPIDER_PAGECOUNT",
    "CLOSESPIDER_TIMEOUT",
    "CLOSESPIDER_ITEMCOUNT",
    "CLOSESPIDER_ERRORCOUNT",
)
"""The same of settings that crawlprio leaves to Scrapy."""

SETTINGS_KEY, ENDED_KEY, CERTIFICATE_KEY = "settings", "ended_because", "certificate"
"""Keys in `meta`: the values of these settings in the last run, why that ended, and what random
walks proved of the share that was fetched."""
