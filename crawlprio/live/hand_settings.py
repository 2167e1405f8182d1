"""What makes a process a hand, and the settings in which it differs from its brain."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

VARIABLE = "HAND_OF_CRAWL"
"""The environment variable in which a brain tells a process that it is a hand."""

_LIMITS = (
    "ERRORCOUNT",
    "ITEMCOUNT",
    "PAGECOUNT",
    "PAGECOUNT_NO_ITEM",
    "TIMEOUT",
    "TIMEOUT_NO_ITEM",
)


BRAIN_VARIABLE = "BRAIN_OF_CRAWL"
"""The environment variable in which a worker tells a process to be the brain of its crawl."""


@cache
def hand_facts() -> dict[str, Any] | None:
    """Return what the brain told this process when it started it; None if it is no hand."""
    told = os.environ.pop(VARIABLE, None)  # a crawl that this process starts is another one
    return None if told is None else dict(json.loads(told))


def hand_settings(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in which a hand differs from the brain, which keeps order and store.

    Those of the parts of a crawl are in `crawlprio.live.running`.
    """
    return {
        **{f"CLOSESPIDER_{limit}": 0 for limit in _LIMITS},
        "CONCURRENT_REQUESTS": facts["at_once"],
        "CONCURRENT_REQUESTS_PER_DOMAIN": facts["at_once"],
        "CRAWLPRIO_MAX_CONCURRENT_REQUESTS": None,
        "CRAWLPRIO_MAX_WAITING": None,
        "CRAWLPRIO_PLOT": None,
        "CRAWLPRIO_PRINT": False,
        "CRAWLPRIO_PROGRESS": False,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_SLOTS": {},
        "JOBDIR": None,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
    }


@cache
def brain_facts() -> dict[str, Any] | None:
    """Return what a worker told this process when it started it as a brain; None if it is none."""
    told = os.environ.pop(BRAIN_VARIABLE, None)  # a crawl that this process starts is another one
    return None if told is None else dict(json.loads(told))


def brain_folder(crawl: str) -> Path:
    """Return the folder of a crawl in Redis whose JOBDIR is not set."""
    return Path("crawls") / (quote(crawl, safe=" ") or "crawl")


def far_brain_settings() -> dict[str, Any]:
    """Return the settings in which a brain differs from its hands, which have the spider."""
    return {
        **{f"CLOSESPIDER_{limit}": 0 for limit in _LIMITS},
        "FEEDS": {},
        "ITEM_PIPELINES": {},
        "TELNETCONSOLE_ENABLED": False,
    }


def shard_settings(n_shards: int, max_pages: int | None) -> dict[str, Any]:
    """Return the settings in which the brain of one of several shards differs.

    Each may get an equal part of the pages. What the crawl got is told once the stores are
    collected.
    """
    shard = (brain_facts() or {}).get("shard", 0)
    own = None if max_pages is None else (max_pages + n_shards - 1 - shard) // n_shards
    return {"CRAWLPRIO_MAX_PAGES": own, "CRAWLPRIO_PLOT": None, "CRAWLPRIO_RECEIPT": False}


def far_hand_settings() -> dict[str, Any]:
    """Return the settings in which a hand differs that hears its brain through Redis."""
    kept = ("CLOSESPIDER_", "CONCURRENT_", "CRAWLPRIO_MAX_CONCURRENT_REQUESTS", "TELNET")
    near = hand_settings({"at_once": 0})
    return {name: value for name, value in near.items() if not name.startswith(kept)}
