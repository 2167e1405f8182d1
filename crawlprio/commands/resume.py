"""The command `crawlprio resume`: a crawl that was ended, taken up where it was."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawlprio.commands.site_crawl import SiteCrawlCommand
from crawlprio.errors import ConfigError


class Command(SiteCrawlCommand):
    """`crawlprio resume FOLDER` resumes with the arguments and settings that the crawl had."""

    def syntax(self) -> str:
        return "[options] FOLDER"

    def short_desc(self) -> str:
        return "Resume a crawl in its folder, however it ended"

    def long_desc(self) -> str:
        return (
            "Resume the crawl of the spider 'site' that was begun with crawlprio crawl --folder "
            "FOLDER or -s JOBDIR=FOLDER, however it ended, with the seeds, the scope and the "
            "settings of its command line; -s NAME=VALUE changes one, as -s ORDERING=opic. Limits "
            "of one run (--pages) and names of files and classes are to be given again."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group(title="Resume")
        group.add_argument(
            "--pages",
            metavar="N",
            help="stop after N more answers, those of robots.txt included",
        )
        super().add_options(parser)

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            given = f"{len(args)} arguments" if args else "none"
            raise ConfigError(f"crawlprio resume takes one FOLDER and was given {given}.")
        from crawlprio.config import given_on_command_line, read_setting
        from crawlprio.live.given import read_given
        from crawlprio.store import Store

        assert self.settings is not None
        folder = Path(args[0])
        path = folder / (read_setting(self.settings, "CRAWLPRIO_STORE") or "")
        if not path.is_file():
            raise ConfigError(
                f"{folder} has no crawl to resume ({path} is missing); begin one with crawlprio "
                f"crawl URL --folder {folder}."
            )
        with Store.open(path, readonly=True) as recorded:
            kept = read_given(recorded)
        self.set("JOBDIR", str(folder))
        if opts.pages is not None:
            self.set("CLOSESPIDER_PAGECOUNT", opts.pages)
        overridden = given_on_command_line(self.settings)
        for name, value in kept.options.items():
            if name not in overridden:
                self.set(name, value)
        opts.spargs = {**kept.arguments, **opts.spargs}
