"""Scrapy's stats, faster to count in."""

from __future__ import annotations

from scrapy import Request
from scrapy.downloadermiddlewares.stats import DownloaderStats
from scrapy.statscollectors import MemoryStatsCollector


class StatsCollector(MemoryStatsCollector):
    """Scrapy's own stats collector without a look at every call for an argument of older days.

    Set it as `STATS_CLASS`; the bundled project does. Scrapy wraps each method to warn of a
    `spider` argument; with a dozen counts for each page that costs 3 % of a page's time.
    """

    __getattribute__ = object.__getattribute__


class FetchStats(DownloaderStats):
    """Scrapy's own count of requests and answers but for `downloader/request_bytes`.

    To count those Scrapy writes out every request a second time, for 3 % of a page's time.
    """

    def process_request(self, request: Request) -> None:  # type: ignore[override]
        """Count a request."""
        self.stats.inc_value("downloader/request_count")
        self.stats.inc_value(f"downloader/request_method_count/{request.method}")
