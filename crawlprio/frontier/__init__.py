"""The frontier: waiting pages, ordered by site and then by page, and the clock of each site."""

from crawlprio.frontier.page_queue import PageQueue
from crawlprio.frontier.politeness import Politeness
from crawlprio.frontier.site_clock import SiteClock

__all__ = ["PageQueue", "Politeness", "SiteClock"]
