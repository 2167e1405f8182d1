"""The table of all settings that crawlprio reads: name, values, defaults, unit and meaning.

The settings of the bundled project, `docs/settings.md`, the delays of `crawlprio simulate` and the
messages about invalid values come from this table. After a change, run
`python docs/write_settings.py` to update the page. It imports neither Scrapy nor anything that is
slow to load.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from crawlprio.settings_table.crawling import (
    BOUNDS,
    ORDER,
    POLITENESS,
    REQUISITES,
    SHARING,
    SITE,
    SITEMAPS,
)
from crawlprio.settings_table.kinds import Section, Setting
from crawlprio.settings_table.surroundings import DEMO, INTERNAL, OUTPUT, PROCESS, SCRAPYS

__all__ = ["DELAY_RULES", "SECTIONS", "SETTINGS", "Section", "Setting", "bundled_defaults"]

SECTIONS = (
    *(ORDER, POLITENESS, BOUNDS, SITE, SITEMAPS, REQUISITES, OUTPUT),
    *(PROCESS, DEMO, INTERNAL, SHARING, SCRAPYS),
)

SETTINGS = {setting.name: setting for section in SECTIONS for setting in section.settings}
"""Every setting, by name."""

DELAY_RULES = {setting.rule: setting for setting in POLITENESS.settings if setting.rule}
"""The settings of the delay rules, by the field of `crawlprio.frontier.Politeness`."""


def bundled_defaults() -> dict[str, Any]:
    """Return the values that the bundled project sets, by name."""
    return {
        setting.name: copy(setting.default)
        for section in SECTIONS
        if section.is_written
        for setting in section.settings
    }
