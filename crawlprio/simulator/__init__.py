"""The simulator: crawls of a link graph, without a network.

It knows orderings and the frontier; nothing here knows Scrapy.
"""

from crawlprio.simulator.order_only import crawl_order
from crawlprio.simulator.pages import GraphPages, RecordedVisits
from crawlprio.simulator.runs import MARKS, Run, Simulation, compile_kernels, simulate
from crawlprio.simulator.sources import Source

__all__ = [
    "MARKS",
    "GraphPages",
    "RecordedVisits",
    "Run",
    "Simulation",
    "Source",
    "compile_kernels",
    "crawl_order",
    "simulate",
]
