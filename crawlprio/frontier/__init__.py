"""The frontier: pages that wait, by site, then by page; it knows ids and times, and no URLs."""

from crawlprio.frontier.frontier import Frontier
from crawlprio.frontier.politeness import Politeness

__all__ = ["Frontier", "Politeness"]
