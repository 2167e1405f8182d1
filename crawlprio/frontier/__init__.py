"""The frontier: pages that wait, by site, then by page, and when each site's time has come."""

from crawlprio.frontier.frontier import CompiledFrontier
from crawlprio.frontier.politeness import Politeness
from crawlprio.frontier.site_clock import SiteClock

__all__ = ["CompiledFrontier", "Politeness", "SiteClock"]
