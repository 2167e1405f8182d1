"""Writes `docs/settings.md` from the settings table; a test holds the page to it."""

from __future__ import annotations

import json
from pathlib import Path

from crawlprio.setting_table import SECTIONS, Setting

DOCS = Path(__file__).parent
PAGE = DOCS / "settings.md"

INTRODUCTION = """\
# Settings

<!-- Written by docs/write_settings.py from crawlprio/setting_table/. -->

Every setting that crawlprio reads. Set them as any of Scrapy's: in `settings.py`, in a spider's
`custom_settings`, or with `-s NAME=VALUE`. All are checked when a crawl starts. A bad value, or a
name that begins with `CRAWLPRIO_` and is not here, ends it there with one sentence; a name that is
almost `ORDERING`, `TOPIC` or one of their options is a warning.

*Bundled project* is the default of `scrapy crawl site` in this project and of `scrapy replay`.
*Add-on* is the default in a project of your own that has `ADDONS = {"crawlprio.Addon": 500}` and
does not set the name: there no budget cuts the crawl and nothing is printed, but links are recorded
and private addresses guarded. For the names that are Scrapy's the column has Scrapy's default.

The add-on itself sets `SCHEDULER`, `DOWNLOADER`, `ROBOTSTXT_PARSER`, `REDIRECT_PRIORITY_ADJUST` (0)
and `RETRY_PRIORITY_ADJUST` (0) where the project has not, adds its middlewares, pipeline and
report, and puts its `RobotsMiddleware` in the place of Scrapy's, where that is used. What else the
bundled project changes of Scrapy, for speed, is in `crawlprio/settings.py`.
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
    """A default as the page shows it: as Python, and a long list by its ends."""
    if isinstance(value, tuple):
        where = "crawlprio/web/extensions.py"
        return f"{len(value)} endings, `{value[0]}` to `{value[-1]}`: see `{where}`"
    return f"`{_literal(value)}`"


def _literal(value: object) -> str:
    """A value as Python."""
    if isinstance(value, int) and value >= 10_000:
        return f"{value:_}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    PAGE.write_text(settings_page(), "utf-8")
