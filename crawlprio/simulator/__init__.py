"""The simulator: crawls of a link graph, without a network.

It knows orderings and the frontier; nothing here knows Scrapy.
"""

from crawlprio.simulator.order_only import crawl_order
from crawlprio.simulator.pages import GraphPages, RecordedVisits

__all__ = ["GraphPages", "RecordedVisits", "crawl_order"]
