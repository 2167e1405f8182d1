"""The commands `crawlprio update`, which crawls again, and `crawlprio changes`, what that found."""

from __future__ import annotations

import argparse
from typing import ClassVar

from crawlprio.commands import SPREADSHEET, OneLineCommand, Option, only_argument, store_of
from crawlprio.commands.crawl import ResumeCommand
from crawlprio.errors import ConfigError, printable


class UpdateCommand(ResumeCommand):
    """`crawlprio update FOLDER` fetches the pages of a crawl again, those first that gain most."""

    title = "Update"
    takes = "[options] FOLDER"
    does = "Fetch the pages of a crawl again, likely changes first"
    about = (
        "Fetch the pages of the crawl in FOLDER again, those first whose fetch gains most: "
        "important ones that are likely to have changed, and new ones. Pages that did not change "
        "cost an answer without a body where the server can tell, and leave the crawl as it was. "
        "With --pages N, the update ends after N fetches; otherwise it fetches each page once. Any "
        "update can be stopped; the next one goes on with it. Start it daily, with cron say."
    )
    examples = ("update example", "update example --pages 500", "update example --new")
    options: ClassVar = {
        **ResumeCommand.options,
        "--new": Option(None, "fetch again only the pages that led to others, to find new ones"),
    }

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        self.set("CRAWLPRIO_UPDATE", "new" if opts.new else "changed")
        super().prepare(args, opts)


class ChangesCommand(OneLineCommand):
    """`crawlprio changes FOLDER` lists what the last update of a crawl, or several, found."""

    takes = "[options] STORE"
    does = "List the pages that updates found new, changed, moved or gone"
    about = (
        "List the pages that are not as they were before the last update of a crawl, the most "
        "important first: new ones, changed ones (with what changed: title, text, links, or body "
        "where no earlier text was kept), those that moved elsewhere, and those that are gone. "
        "STORE is a crawl store, or the folder of a crawl; the crawl may be running."
    )
    examples = ("changes example", "changes example --since 2026-01-31 --format rss")
    title = "Changes"
    options: ClassVar = {
        "--since": Option("PASS|DATE", "since this update, 1 the first crawl; default: the last"),
        "--format": Option("table|csv|json|rss", "how to write the list; default: table"),
        "--spreadsheet": Option(None, SPREADSHEET),
    }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Print the changes, or raise `CrawlprioError`."""
        from crawlprio.graph.link_tables import as_text
        from crawlprio.plugins.update.changes import FORMATS, read_changes
        from crawlprio.show.tables import PipeSafeConsole
        from crawlprio.store import Store

        name = opts.format or "table"
        if name not in FORMATS:
            raise ConfigError(f"--format is {name!r}; known formats: {', '.join(FORMATS)}.")
        with Store.open(store_of(only_argument("changes", "STORE", args)), readonly=True) as store:
            found = read_changes(store, opts.since)
        if opts.spreadsheet and name == "csv":
            found = [each._replace(title=as_text(each.title)) for each in found]
        text = FORMATS[name](found)
        PipeSafeConsole().out("\n".join(map(printable, text.split("\n"))), highlight=False)
