"""Log lines without characters that a terminal acts upon, whatever a URL or a header holds."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping

_ACTED_UPON = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Control characters but for tabs and ends of lines, and what turns the direction of a text."""

_LIBRARIES = frozenset({"crawlprio", "protego", "scrapy", "twisted"})


def plain(text: str) -> str:
    """Return a text in which characters that a terminal acts upon are written as in Python."""
    return _ACTED_UPON.sub(lambda found: repr(found[0])[1:-1], text)


class PlainLog(logging.Filter):
    """Rewrites what a log record was given, before a handler formats it; it lets all records pass.

    Scrapy leaves the host of a URL as a page wrote it where IDNA cannot encode it: `ESC c`, which
    resets a terminal, reaches each line that names the request, its Referer or its failure. Only
    arguments and the texts of exceptions are rewritten, and whole messages of Scrapy, Twisted and
    crawlprio: the colours that a project's own messages have stay.

    Cost: a message is formatted once more, 1 µs.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a record where it needs it."""
        try:
            message = record.getMessage()
        except Exception:  # the handler says so in its own way
            return True
        if _ACTED_UPON.search(message):
            if record.name.partition(".")[0] in _LIBRARIES:
                record.msg, record.args = plain(message), ()
            elif isinstance(record.args, Mapping):
                record.args = {name: _rewritten(value) for name, value in record.args.items()}
            elif record.args:
                record.args = tuple(map(_rewritten, record.args))
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            text = "".join(traceback.format_exception(*record.exc_info))
            if _ACTED_UPON.search(text):
                record.exc_text = plain(text).rstrip("\n")
        return True


def _rewritten(value: object) -> object:
    """An argument of a message, or its text if a terminal would act upon it."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    return plain(text) if _ACTED_UPON.search(text) else value


def keep_log_plain() -> None:
    """Have all handlers of the root logger write plain lines. Safe to call again."""
    for handler in logging.root.handlers:
        if not any(isinstance(known, PlainLog) for known in handler.filters):
            handler.addFilter(PlainLog())
