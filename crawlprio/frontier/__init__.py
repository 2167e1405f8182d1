"""The frontier: pages waiting, by site, then by page; it knows ids and times, no URLs and no Scrapy."""

from crawlprio.frontier.frontier import Frontier
from crawlprio.frontier.politeness import Politeness

__all__ = ["Frontier", "Politeness"]
