"""Every setting that crawlprio reads, its kind of values, and the configuration of a crawl."""

from crawlprio.settings_table.setting_types import Section, Setting
from crawlprio.settings_table.table import DELAY_RULES, SECTIONS, SETTINGS, bundled_defaults

__all__ = ["DELAY_RULES", "SECTIONS", "SETTINGS", "Section", "Setting", "bundled_defaults"]
