"""Orderings, measures and formats that only the papers' experiments need."""

from crawlprio.settings_table.setting_types import Int, Section, Setting

SECTION = Section(
    "Output",
    Setting(
        "CRAWLPRIO_BUFFER",
        Int(1, none="all pages"),
        None,
        "Keep the bodies (`CRAWLPRIO_BODIES`) and texts (`CRAWLPRIO_KEEP_TEXT`) of so many "
        "pages only. Once there are more, those of the page with the fewest links from fetched "
        "pages are dropped: the limited buffer of Cho et al.",
    ),
)
