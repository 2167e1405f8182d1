"""The rules of a crawl in the form in which `crawlprio.explain` replays it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crawlprio.config import CrawlConfig, read_setting
from crawlprio.explain.past import Policy
from crawlprio.live.request_json import priority_of
from crawlprio.orderings import NAMED, Ordering, make_ordering

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def policy_of(
    settings: BaseSettings, config: CrawlConfig, refuses: Callable[[str, int], str] | None
) -> Policy:
    """Return the rules of a crawl with these settings; `refuses` is its scope's, if known."""
    latest = read_setting(settings, "ORDERING")

    def ordering(name: str) -> Ordering:
        if name in NAMED and name != latest:
            return make_ordering(name)
        return make_ordering(latest, read_setting(settings, "ORDERING_OPTIONS"))

    return Policy(
        ordering,
        config.hot_queue,
        config.new_novelty,
        config.max_waiting,
        priority_of,
        refuses,
    )
