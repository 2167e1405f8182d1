"""The log formatter of the bundled project."""

from __future__ import annotations

from typing import Any

from scrapy.logformatter import LogFormatter, LogFormatterResult


class QuietLogFormatter(LogFormatter):
    """Says nothing for each page fetched and item scraped; the end table counts them.

    Making those lines costs more than the log level saves. `LOG_FORMATTER =
    "scrapy.logformatter.LogFormatter"` brings them back.
    """

    def crawled(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        return None

    def scraped(self, *args: Any, **kwargs: Any) -> LogFormatterResult | None:  # type: ignore[override]
        return None
