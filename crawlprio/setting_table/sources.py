"""The setting that says which sitemaps a crawl reads."""

from __future__ import annotations

from typing import Any

from crawlprio.setting_table.kinds import NotAllowedError, Words

ROBOTS = "robots"


class Sitemaps(Words):
    """`robots`, or URLs of sitemaps."""

    says = '"robots", or http(s) URLs of sitemaps, comma-separated on the command line'

    def parse(self, value: Any) -> Any:
        return None if value == "off" else super().parse(value)

    def word(self, given: Any) -> Any:
        if given != ROBOTS and not str(given).startswith(("http://", "https://")):
            raise NotAllowedError(f"in which {given!r} is neither 'robots' nor an http(s) URL")
        return given
