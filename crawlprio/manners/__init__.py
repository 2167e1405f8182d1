"""Judges a crawler by the access log of the server that it crawled; see `docs/manners.md`."""

from crawlprio.manners.access_log import AccessLog, LoggedRequest
from crawlprio.manners.in_force import RobotsHistory
from crawlprio.manners.judge import Judge, Limits
from crawlprio.manners.rules import Finding, Rule

__all__ = ["AccessLog", "Finding", "Judge", "Limits", "LoggedRequest", "RobotsHistory", "Rule"]
