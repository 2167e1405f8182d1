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
    from crawlprio.graph.linkgraph import LinkGraph
    from crawlprio.graph.pages import Visit
    from crawlprio.items import LinkPairs
    from crawlprio.measure.arrow_tables import Crawl, Table, read
    from crawlprio.measure.importance import IMPORTANCES, Importance, importance_of, pagerank
    from crawlprio.orderings import ALL_PAGES, ORDERINGS, Ordering, make_ordering
    from crawlprio.show.simulation_results import Run, Runs, simulate
    from crawlprio.simulator.network import Network
    from crawlprio.store import Store
    from crawlprio.store.graph_files import read_graph

__version__ = "0.2.0"

__all__ = [
    "ALL_PAGES",
    "IMPORTANCES",
    "ORDERINGS",
    "Addon",
    "Crawl",
    "Frontier",
    "Importance",
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
    "IMPORTANCES": "measure.importance",
    "ORDERINGS": "orderings",
    "Addon": "addon",
    "Crawl": "measure.arrow_tables",
    "Frontier": "frontier.protocol",
    "Importance": "measure.importance",
    "LinkGraph": "graph.linkgraph",
    "LinkPairs": "items",
    "Network": "simulator.network",
    "Ordering": "orderings",
    "Run": "show.simulation_results",
    "Runs": "show.simulation_results",
    "Store": "store",
    "Table": "measure.arrow_tables",
    "Visit": "graph.pages",
    "importance_of": "measure.importance",
    "make_ordering": "orderings",
    "pagerank": "measure.importance",
    "read": "measure.arrow_tables",
    "read_graph": "store.graph_files",
    "simulate": "show.simulation_results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
