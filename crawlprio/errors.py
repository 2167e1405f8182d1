"""The exceptions that crawlprio raises for invalid input."""

from __future__ import annotations

import logging
import re
import sys


class CrawlprioError(Exception):
    """Invalid input or a damaged file, in one sentence: subject, value, bound, remedy.

    The sentence has no control characters and no password of a URL, whatever it quotes.
    """

    def __str__(self) -> str:
        return without_passwords(printable(super().__str__()))


_PASSWORD = re.compile(r"((?:rediss?|redis\+\w+|unix):/*)\S*@|(\w:/+)[^\s/?#:]*:[^\s/?#]*@")
"""User and password in a URL; those for Redis may have any characters, as others may not."""


def without_passwords(text: str) -> str:
    """Return a text without user and password in the URLs that it quotes."""
    return _PASSWORD.sub(r"\1\2", text) if "@" in text else text


def _mask(record: logging.LogRecord) -> bool:
    """Remove passwords from a log record of crawlprio, whatever it quotes."""
    text = record.getMessage()
    masked = without_passwords(text)
    if masked is not text:
        record.msg, record.args = masked, ()
    if record.exc_info:
        record.exc_text = without_passwords(logging.Formatter().formatException(record.exc_info))
    return True


logging.getLogger("crawlprio").addFilter(_mask)


class ConfigError(CrawlprioError):
    """A setting, spider argument or command option has a value that is not allowed."""


class GraphError(CrawlprioError):
    """A link graph or a file of scores cannot be read or is invalid."""


class StoreError(CrawlprioError):
    """A crawl store cannot be opened, read or written."""


def printable(value: object, most: int = sys.maxsize) -> str:
    """Return a value as text, cut off after `most` characters, safe to show on a terminal.

    Control and direction characters become `?`.
    """
    text = str(value)
    cut = text if len(text) <= most else f"{text[:most]}..."
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)
