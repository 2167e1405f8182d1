"""Link graphs in files, and synthetic ones; `crawlprio.graph` holds them in memory."""

from crawlprio.graph import LinkGraph, Urls
from crawlprio.linkgraph.formats import SEEDS, read_graph
from crawlprio.linkgraph.npz import write_npz

__all__ = ["SEEDS", "LinkGraph", "Urls", "read_graph", "write_npz"]
