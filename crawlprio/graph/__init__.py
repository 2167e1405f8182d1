"""Link graphs in memory, below everything that reads or writes them."""

from crawlprio.graph.graph import MAX_PAGES, LinkGraph
from crawlprio.graph.urls import Urls

__all__ = ["MAX_PAGES", "LinkGraph", "Urls"]
