"""Crawling again: which pages to fetch again first, what counts as a change, and what changed."""

from crawlprio.settings_table.setting_types import Choice, Section, Setting

SECTION = Section(
    "Output",
    Setting(
        "CRAWLPRIO_UPDATE",
        Choice(words=("changed", "new"), none="no update"),
        None,
        "Fetch the pages of the crawl in JOBDIR again, those first whose fetch gains most "
        "([updates](update.md)): all pages that may have changed, or only those that may lead "
        "to new ones. In the first run of a crawl, keep what its updates need.",
        is_of_one_run=True,
        again="gain",
    ),
)
