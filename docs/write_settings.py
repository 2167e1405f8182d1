"""Writes what is said about settings from their table: `docs/settings.md` and the bundled project.

`python docs/write_settings.py` writes both; a test holds them equal to the table.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from crawlprio.setting_table import SECTIONS, Section, Setting

DOCS = Path(__file__).parent
PAGE = DOCS / "settings.md"
PROJECT = DOCS.parent / "crawlprio" / "settings.py"

BEGIN = "# Begin of what docs/write_settings.py writes from crawlprio/setting_table/."
END = "# End of what docs/write_settings.py writes."

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
and `RETRY_PRIORITY_ADJUST` (0) where the project has not, adds its middlewares, pipeline and report,
and puts its `RobotsMiddleware` in the place of Scrapy's, where that is used. What else the bundled
project changes of Scrapy, for speed, is at the end of `crawlprio/settings.py`.
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


def settings_lines() -> str:
    """Return the part of the bundled project's settings that the table has."""
    written = [_block(section) for section in SECTIONS if section.is_written]
    return "\n\n".join([BEGIN, *written, END])


def with_settings_lines(project: str) -> str:
    """Return the bundled project's settings with that part as the table has it."""
    before, _, rest = project.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{settings_lines()}{after}"


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
        return f"{len(value)} endings, `{value[0]}` to `{value[-1]}`: see `crawlprio/settings.py`"
    return f"`{_literal(value)}`"


def _block(section: Section) -> str:
    """The settings of one section, each below what it means."""
    title = section.title.replace("`", "")
    return "\n\n".join([f"# {title}", *map(_assignment, section.settings)])


def _assignment(setting: Setting) -> str:
    meaning = setting.meaning
    if setting.unit in ("seconds", "bytes"):
        meaning += f" In {setting.unit}."
    if setting.kind.none:
        meaning += f" None: {setting.kind.none}."
    lines = textwrap.wrap(meaning, 98, break_on_hyphens=False)
    comment = "\n".join(f"# {line}" for line in lines)
    type_ = ": dict[str, object]" if setting.default == {} else ""
    return f"{comment}\n{setting.name}{type_} = {_literal(setting.default)}"


def _literal(value: object) -> str:
    """A value as Python, as `ruff format` has it."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:_}" if value >= 10_000 else str(value)
    if isinstance(value, tuple):
        words = textwrap.wrap(" ".join(map(str, value)), 90)
        return '"""\n' + "\n".join(f"    {line}" for line in words) + '\n"""'
    return json.dumps(value)


if __name__ == "__main__":
    PROJECT.write_text(with_settings_lines(PROJECT.read_text("utf-8")), "utf-8")
    PAGE.write_text(settings_page(), "utf-8")
