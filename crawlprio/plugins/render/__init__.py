"""Rendering: pages made by script are read as a browser without network shows them."""

from crawlprio.settings_table.setting_types import Choice, FileName, Section, Setting

SECTION = Section(
    "Rendering",
    Setting(
        "CRAWLPRIO_RENDER",
        Choice(words=("never", "auto", "always"), off="never", none="never"),
        "never",
        "Render pages in a browser without network before they are read: those that look as if "
        "made by script, and whose kind gained by it (auto), or each (always).",
        needs=(("a", "playwright", "render"),),
        option="--render never|auto|always",
    ),
    Setting(
        "CRAWLPRIO_BROWSER",
        FileName(none="the first headless shell, Chromium or Chrome on PATH"),
        None,
        "The Chromium or Chrome that renders.",
        option="--browser PATH",
    ),
    Setting(
        "CRAWLPRIO_RENDER_HOSTS",
        Choice(words=("domain", "all")),
        "domain",
        "Where the scripts of a rendered page may fetch from: its own registered domain "
        "(domain), or any host (all); robots.txt, delays and the guard of private addresses "
        "hold for all of it.",
    ),
    about="See [rendering](render.md).",
)
