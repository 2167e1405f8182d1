"""The archive of a crawl: what was sent and answered as WARC files, with a CDXJ index."""

from crawlprio.archive.archive import Archive
from crawlprio.archive.records import Exchange, Fetched

__all__ = ["Archive", "Exchange", "Fetched"]
