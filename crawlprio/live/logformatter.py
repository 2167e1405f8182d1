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
    """Says nothing for each page fetched and item scraped, and one line for each that failed.

    The end table counts them all; making lines for all costs more than the log level saves.
    `LOG_FORMATTER = "scrapy.logformatter.LogFormatter"` brings them back, and the tracebacks of
    failed fetches.
    """

    def crawled(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        return None

    def scraped(self, *args: Any, **kwargs: Any) -> LogFormatterResult | None:  # type: ignore[override]
        return None

    def download_error(
        self, failure: Failure, request: Request, spider: Spider, errmsg: str | None = None
    ) -> LogFormatterResult:
        """Log a failed fetch in one line; Scrapy, which adds a traceback to it, logs nothing."""
        assert failure.value is not None
        logger.warning("%s: %s", request.url, cause_of(failure.value))
        return {"level": logging.NOTSET, "msg": "", "args": {}}
