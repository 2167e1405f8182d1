"""Whether a worker was started for the crawl that it finds in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crawlprio.settings_table.config import read_setting
from crawlprio.spiders.site import SiteSpider

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SHARED = (
    *("ORDERING", "ORDERING_OPTIONS", "TOPIC", "DOWNLOAD_DELAY", "DOWNLOAD_SLOTS"),
    *("CONCURRENT_REQUESTS_PER_DOMAIN", "CRAWLPRIO_LEASE_SECONDS", "CRAWLPRIO_MAX_SITES"),
    *("CRAWLPRIO_MAX_PAGES_PER_SITE", "CRAWLPRIO_MAX_PAGES_PER_DOMAIN"),
    *("CRAWLPRIO_MAX_PAGES_PER_PATTERN", "CRAWLPRIO_ROBOTS_UNREACHABLE", "ROBOTSTXT_OBEY"),
)
"""The settings that all processes of a crawl must share."""


def values_of(settings: BaseSettings) -> dict[str, str]:
    """Return the settings that all processes of a crawl must share."""
    return {name: repr(read_setting(settings, name)) for name in _SHARED}


def scope_of(spider: Any) -> dict[str, Any]:
    """Return what distinguishes this crawl from others of the same name.

    That is the arguments of the spider `site`. Of other spiders, whose start requests may differ
    between workers on purpose, only Scrapy's `allowed_domains`.
    """
    if isinstance(spider, SiteSpider):
        return spider.arguments
    domains = getattr(spider, "allowed_domains", None)
    return {"allowed_domains": sorted(map(str, domains)) if isinstance(domains, list) else None}


def difference(
    crawl: str,
    values: Mapping[str, str],
    others: Mapping[str, str],
    scope: Mapping[str, Any],
    other_scope: Mapping[str, Any],
) -> str:
    """Return why a worker with other settings or another scope must not join; empty if it may."""
    for name, value in values.items():
        if others.get(name) != value:
            return (
                f"The crawl {crawl!r} in Redis was begun with {name} {value}, but this worker has "
                f"{others.get(name)}; give all workers the same settings, or set "
                "SCHEDULER_FLUSH_ON_START to begin a new crawl."
            )
    for name in dict.fromkeys([*scope, *other_scope]):
        if other_scope and scope.get(name) != other_scope.get(name):
            return (
                f"The crawl {crawl!r} in Redis was begun with {name} {_shown(scope.get(name))}, "
                f"but this worker has {_shown(other_scope.get(name))}; set CRAWLPRIO_REDIS_CRAWL "
                "to another name, or delete that crawl with 'crawlprio frontier delete "
                f"{crawl} --yes'."
            )
    return ""


def _shown(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
    return text if len(text) <= 100 else f"{text[:100]}... ({len(text):,})"
