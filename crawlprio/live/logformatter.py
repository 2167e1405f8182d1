"""The log formatter of the bundled project."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Request, Spider
from scrapy.logformatter import LogFormatter, LogFormatterResult
from twisted.python.failure import Failure

from crawlprio.live.causes import cause_of

logger = logging.getLogger("crawlprio")


class QuietLogFormatter(LogFormatter):
    """Logs nothing for a fetched page or a scraped item, and one line for a failed fetch.

    The final table counts them all, and Scrapy would format a line for each even where the log
    level discards it. `LOG_FORMATTER = "scrapy.logformatter.LogFormatter"` restores those lines and
    the tracebacks of failed fetches.
    """

    def crawled(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        return None

    def scraped(self, *args: Any, **kwargs: Any) -> LogFormatterResult | None:  # type: ignore[override]
        return None

    def download_error(
        self, failure: Failure, request: Request, spider: Spider, errmsg: str | None = None
    ) -> LogFormatterResult:
        """Log a failed fetch in one line, and keep Scrapy from logging it with a traceback."""
        assert failure.value is not None
        logger.warning("%s: %s", request.url, cause_of(failure.value))
        return {"level": logging.NOTSET, "msg": "", "args": {}}
