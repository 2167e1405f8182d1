"""Log lines free of terminal control characters, whatever a URL or a header contains."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, and characters that change the text direction."""

_LIBRARIES = frozenset({"crawlprio", "protego", "scrapy", "twisted"})


def plain(text: str) -> str:
    """Return a text with its control characters escaped as in Python."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


class PlainLog(logging.Filter):
    """Escapes control characters in log records before a handler formats them; drops no record.

    Scrapy leaves the host of a URL as the page wrote it if IDNA cannot encode it. So `ESC c`, which
    resets a terminal, would reach each line that names the request, its Referer or its failure.
    Whole messages are escaped for crawlprio, Scrapy, Twisted and Protego. For other loggers only
    arguments and the texts of exceptions are, so that the colours of a project's own messages stay.

    Cost: each message is formatted once more, 1 µs.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the control characters of a record; return True."""
        try:
            message = record.getMessage()
        except Exception:  # the handler reports it
            return True
        if _CONTROLS.search(message):
            if record.name.partition(".")[0] in _LIBRARIES:
                record.msg, record.args = plain(message), ()
            elif isinstance(record.args, Mapping):
                record.args = {name: _rewritten(value) for name, value in record.args.items()}
            elif record.args:
                record.args = tuple(map(_rewritten, record.args))
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            text = "".join(traceback.format_exception(*record.exc_info))
            if _CONTROLS.search(text):
                record.exc_text = plain(text).rstrip("\n")
        return True


def _rewritten(value: object) -> object:
    """Return an argument of a message, or its escaped text if it has control characters."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    return plain(text) if _CONTROLS.search(text) else value


def keep_log_plain() -> None:
    """Add a `PlainLog` to each handler of the root logger that has none."""
    for handler in logging.root.handlers:
        if not any(isinstance(known, PlainLog) for known in handler.filters):
            handler.addFilter(PlainLog())
