"""crawlprio: crawl the important part of the web first.

The names here are all that most projects need. They are imported on first use, so that the core
(orderings, frontier, simulator) works without Scrapy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawlprio.addon import Addon
    from crawlprio.items import LinkPairs
    from crawlprio.orderings import ALL_PAGES, ORDERINGS, Ordering, make_ordering
    from crawlprio.pages import Visit
    from crawlprio.store import Store

__version__ = "0.1.0"

__all__ = [
    "ALL_PAGES",
    "ORDERINGS",
    "Addon",
    "LinkPairs",
    "Ordering",
    "Store",
    "Visit",
    "make_ordering",
]

_HOMES = {
    "ALL_PAGES": "orderings",
    "ORDERINGS": "orderings",
    "Addon": "addon",
    "LinkPairs": "items",
    "Ordering": "orderings",
    "Store": "store",
    "Visit": "pages",
    "make_ordering": "orderings",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
