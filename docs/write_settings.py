"""Writes `docs/settings.md` from the settings table; a test holds the page to it."""

from __future__ import annotations

import json
from pathlib import Path

from crawlprio.settings_table.setting_types import Setting
from crawlprio.settings_table.table import SECTIONS

DOCS = Path(__file__).parent
PAGE = DOCS / "settings.md"

INTRODUCTION = """\
# Settings

<!-- Written by docs/write_settings.py from crawlprio/settings_table/. -->

Every setting that crawlprio reads. Set them like any Scrapy setting: in `settings.py`, in a
spider's `custom_settings`, or with `-s NAME=VALUE`. All are validated when a crawl starts. An
invalid value, or an unknown name that begins with `CRAWLPRIO_`, stops the crawl with one sentence.
An unknown name that resembles a setting causes a warning; if it resembles one that keeps a crawl
polite, such as `DOWNLOAD_DELAY`, it stops the crawl.

*Bundled project* is the default of `scrapy crawl site` in this project and of `crawlprio replay`.
*Add-on* is the default in your own project with `ADDONS = {"crawlprio.Addon": 500}`: no budgets
apply, private addresses are open and nothing is printed, but links are recorded. For Scrapy's own
settings, this column shows Scrapy's default.

What else the add-on sets is on [its page](add-on.md); `crawlprio/settings.py` lists the other
Scrapy settings that the bundled project changes for speed.
"""


def settings_page() -> str:
    """Return `docs/settings.md`."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        parts.append(f"## {section.title}\n")
        if section.about:
            parts.append(f"{section.about}\n")
        rows = ["| setting | bundled project | add-on | values | |", "|---|---|---|---|---|"]
        rows += [_row(setting) for setting in section.settings]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(setting: Setting) -> str:
    kind = setting.kind
    values = f"{setting.unit}: {kind.bounds}" if setting.unit else kind.bounds
    if kind.none:
        values += f"; None: {kind.none}"
    cells = (
        f"`{setting.name}`",
        _shown(setting.default),
        _shown(setting.guest_default),
        values,
        setting.meaning,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(value: object) -> str:
    """Format a default as Python; of a long list, show the number of items and the ends."""
    if isinstance(value, tuple):
        where = "crawlprio/web/scope.py"
        return f"{len(value)} endings, `{value[0]}` to `{value[-1]}`: see `{where}`"
    return f"`{_literal(value)}`"


def _literal(value: object) -> str:
    """Format a value as Python."""
    if isinstance(value, int) and value >= 10_000:
        return f"{value:_}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    PAGE.write_text(settings_page(), "utf-8")
