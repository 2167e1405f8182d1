"""Watching a crawl while it runs, and acting on it, in a browser."""

from crawlprio.settings_table.setting_types import Int, Section, Setting

SECTION = Section(
    "Output",
    Setting(
        "CRAWLPRIO_MONITOR",
        Int(0, 65_535, none="no live view"),
        None,
        "The port of 127.0.0.1 on which a page shows the crawl while it runs, and can pause "
        "and stop it ([live view](monitor.md)); 0: any free port.",
        option="--monitor PORT",
        alone="0",
        summary="show the crawl on a page of 127.0.0.1 while it runs; default port: any free one",
    ),
)
