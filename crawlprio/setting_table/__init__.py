"""Every setting that crawlprio reads, once: name, values, defaults, unit and what it does.

The settings of the bundled project, `docs/settings.md` and the messages about bad values come from
this table. After a change, `python docs/write_settings.py` writes the first two. It imports neither
Scrapy nor anything that is slow to load.
"""

from __future__ import annotations

from crawlprio.setting_table.crawling import BOUNDS, ORDER, POLITENESS, SITE
from crawlprio.setting_table.kinds import Section, Setting
from crawlprio.setting_table.sharing import SHARING
from crawlprio.setting_table.surroundings import DEMO, INTERNAL, OUTPUT, PROCESS, SCRAPYS

__all__ = ["SECTIONS", "SETTINGS", "Section", "Setting"]

SECTIONS = (ORDER, POLITENESS, BOUNDS, SITE, OUTPUT, PROCESS, DEMO, INTERNAL, SHARING, SCRAPYS)

SETTINGS = {setting.name: setting for section in SECTIONS for setting in section.settings}
"""Every setting, by name."""
