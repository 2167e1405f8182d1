"""The frontier: waiting pages, ordered by site and then by page, and the clock of each site."""

from crawlprio.frontier.frontier import CompiledFrontier
from crawlprio.frontier.politeness import Politeness
from crawlprio.frontier.site_clock import SiteClock

__all__ = ["CompiledFrontier", "Politeness", "SiteClock"]
