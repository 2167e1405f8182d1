"""What a crawl store knows of faults of the crawled sites: broken links, duplicates and more."""

from crawlprio.audit.audit import Audit
from crawlprio.audit.findings import Finding, Findings

__all__ = ["Audit", "Finding", "Findings"]
