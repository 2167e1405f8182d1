"""The frontier: waiting pages, ordered by site and then by page, and the clock of each site."""

from crawlprio.frontier.page_queue import PageQueue
from crawlprio.frontier.politeness import Politeness, SiteClock

__all__ = ["PageQueue", "Politeness", "SiteClock"]
