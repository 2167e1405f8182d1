"""The exceptions that crawlprio raises for invalid input."""

from __future__ import annotations

import sys


class CrawlprioError(Exception):
    """Invalid input or a damaged file, in one sentence: subject, value, bound, remedy.

    The sentence has no control characters, whatever it quotes of a file or a response.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


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
