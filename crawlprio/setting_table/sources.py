"""The setting that says which sitemaps a crawl reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crawlprio.setting_table.kinds import Kind, NotAllowedError

ROBOTS = "robots"


@dataclass(frozen=True)
class Sitemaps(Kind):
    """`robots`, or URLs of sitemaps, as a tuple; commas or spaces separate them in a string."""

    @property
    def bounds(self) -> str:
        return '"robots", or http(s) URLs of sitemaps, comma-separated on the command line'

    def parse(self, value: Any) -> Any:
        return None if value == "off" else super().parse(value)

    def convert(self, value: Any) -> tuple[str, ...]:
        given = value.replace(",", " ").split() if isinstance(value, str) else value
        if not isinstance(given, Iterable) or isinstance(given, Mapping):
            raise NotAllowedError
        sources = tuple(dict.fromkeys(given))
        for source in sources:
            if source != ROBOTS and not str(source).startswith(("http://", "https://")):
                raise NotAllowedError(f"in which {source!r} is neither 'robots' nor an http(s) URL")
        return sources
