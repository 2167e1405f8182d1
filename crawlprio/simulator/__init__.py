"""The simulator: crawls of a link graph, without a network."""

from crawlprio.simulator.events import TimedCrawl
from crawlprio.simulator.network import Network
from crawlprio.simulator.pages import GraphPages, RecordedVisits
from crawlprio.simulator.run import Run, Runs
from crawlprio.simulator.runs import Simulation, compile_kernels, simulate
from crawlprio.simulator.sources import Source
from crawlprio.simulator.time_figures import MARKS, TimeFigures
from crawlprio.simulator.timed import crawl_order, timed_crawl

__all__ = [
    "MARKS",
    "GraphPages",
    "Network",
    "RecordedVisits",
    "Run",
    "Runs",
    "Simulation",
    "Source",
    "TimeFigures",
    "TimedCrawl",
    "compile_kernels",
    "crawl_order",
    "simulate",
    "timed_crawl",
]
