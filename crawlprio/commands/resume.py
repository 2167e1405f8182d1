"""The command `crawlprio resume`: resumes a crawl where it ended."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawlprio.commands.crawl import Recorded, SiteCrawlCommand
from crawlprio.errors import ConfigError, printable
from crawlprio.graph.compiled import say
from crawlprio.settings_table import SETTINGS


class Command(SiteCrawlCommand):
    """`crawlprio resume FOLDER` resumes with the arguments and settings that the crawl had."""

    title = "Resume"
    takes = "[options] FOLDER"
    does = "Resume a crawl from its folder, however it ended"
    about = (
        "Resume the crawl of the spider 'site' that was started with crawlprio crawl --folder "
        "FOLDER or -s JOBDIR=FOLDER, however it ended, with the options of its last run; those "
        "given here replace them. The first line says which apply. Classes, keys, passwords "
        "and limits of one run (--pages) are not kept."
    )
    examples = (
        "resume example",
        "resume example --pages 10000 --delay 2",
        "resume example --ordering opic",
    )

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            given = f"{len(args)} arguments" if args else "none"
            raise ConfigError(f"crawlprio resume takes one FOLDER and was given {given}.")
        from crawlprio.live.spider_arguments import OF_ONE_RUN
        from crawlprio.orderings import NAMED
        from crawlprio.settings_table.config import from_command_line, read_setting

        folder = Path(args[0])
        stores = list(folder.glob("*.sqlite"))
        if opts.store is not None:
            self.set("CRAWLPRIO_STORE", opts.store)
        elif len(stores) == 1 and not from_command_line(self.settings, "CRAWLPRIO_STORE"):
            self.set("CRAWLPRIO_STORE", stores[0].name)
        path = folder / (read_setting(self.settings, "CRAWLPRIO_STORE") or "")
        if not path.is_file():
            raise ConfigError(
                f"{folder} has no crawl to resume ({path} is missing); start one with crawlprio "
                f"crawl URL --folder {folder}."
            )
        self.set("JOBDIR", str(folder))
        before = self.take_recorded(path, opts)
        if before.value_model and read_setting(self.settings, "CRAWLPRIO_VALUE") is None:
            raise ConfigError(
                f"the crawl in {folder} had the value model {before.value_model}, and a store "
                "names no code or file to load; name the model again, with --value."
            )
        if before.ordering not in ("", *NAMED) and not from_command_line(self.settings, "ORDERING"):
            raise ConfigError(
                f"the crawl in {folder} ran under {before.ordering}, and a store names no code to "
                "run; name the ordering again, with --ordering."
            )
        missed = [name for name in before.lost if name in SETTINGS and name not in OF_ONE_RUN]
        if missed:
            raise ConfigError(
                f"the crawl in {folder} had {', '.join(map(self.option, missed))}, which its store "
                "cannot restore (it names no code, no keys and no missing files); give it again."
            )
        self._print_kept(before)

    def _print_kept(self, before: Recorded) -> None:
        """Print in one line which options of the last run apply to this one, and which do not."""
        from crawlprio.settings_table.config import read_setting

        kept = [self.option(*of) for of in before.kept.items() if of[0] != "ROBOTSTXT_USER_AGENT"]
        gone = ", ".join(map(self.option, before.lost))
        if (kept or gone) and read_setting(self.settings, "CRAWLPRIO_PRINT"):
            told = f"options as before: {' '.join(kept) or 'none'}"
            say(printable(f"{told}; not kept: {gone}." if gone else f"{told}."))
