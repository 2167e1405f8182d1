"""Link graphs: who links to whom among pages, in memory and in files.

Nothing here knows orderings, importance or Scrapy.
"""

from crawlprio.linkgraph.graph import LinkGraph
from crawlprio.linkgraph.npz import write_npz
from crawlprio.linkgraph.reading import read_graph
from crawlprio.linkgraph.urls import Urls

__all__ = ["SEEDS", "LinkGraph", "Urls", "read_graph", "write_npz"]

SEEDS = ".seeds.txt"
"""How the file ends, beside the links of a crawl, that says where the crawl started."""
