"""crawlprio: crawl the important part of the web first.

The names here are all that most projects need; `docs/api.md` shows them at work. They are imported
on first use, so that the core (orderings, frontier, simulator) works without Scrapy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawlprio.addon import Addon
    from crawlprio.frontier.protocol import Frontier
    from crawlprio.importance.metrics import IMPORTANCES, importance_of, pagerank
    from crawlprio.items import LinkPairs
    from crawlprio.linkgraph import LinkGraph, read_graph
    from crawlprio.orderings import ALL_PAGES, ORDERINGS, Ordering, make_ordering
    from crawlprio.pages import Visit
    from crawlprio.simulator import Network, Run, Runs, simulate
    from crawlprio.store import Store
    from crawlprio.tables import Crawl, Table, read

__version__ = "0.1.0"

__all__ = [
    "ALL_PAGES",
    "IMPORTANCES",
    "ORDERINGS",
    "Addon",
    "Crawl",
    "Frontier",
    "LinkGraph",
    "LinkPairs",
    "Network",
    "Ordering",
    "Run",
    "Runs",
    "Store",
    "Table",
    "Visit",
    "importance_of",
    "make_ordering",
    "pagerank",
    "read",
    "read_graph",
    "simulate",
]

_HOMES = {
    "ALL_PAGES": "orderings",
    "IMPORTANCES": "importance.metrics",
    "ORDERINGS": "orderings",
    "Addon": "addon",
    "Crawl": "tables",
    "Frontier": "frontier.protocol",
    "LinkGraph": "linkgraph",
    "LinkPairs": "items",
    "Network": "simulator",
    "Ordering": "orderings",
    "Run": "simulator",
    "Runs": "simulator",
    "Store": "store",
    "Table": "tables",
    "Visit": "pages",
    "importance_of": "importance.metrics",
    "make_ordering": "orderings",
    "pagerank": "importance.metrics",
    "read": "tables",
    "read_graph": "linkgraph",
    "simulate": "simulator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
