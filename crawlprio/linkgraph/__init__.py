"""Link graphs in memory and in files."""

from crawlprio.linkgraph.graph import LinkGraph
from crawlprio.linkgraph.npz import write_npz
from crawlprio.linkgraph.reading import read_graph
from crawlprio.linkgraph.urls import Urls

__all__ = ["SEEDS", "LinkGraph", "Urls", "read_graph", "write_npz"]

SEEDS = ".seeds.txt"
"""Suffix of the file with the seeds of a crawl, beside the file with its links."""
