"""The commands that crawlprio adds to `scrapy`; each is thin and imports the core.

What they share is here: how a command ends when its input is bad.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter

from crawlprio.errors import ConfigError, CrawlprioError


class OneLineCommand(ScrapyCommand):
    """A command that ends with status 2 and one line on stderr when its input is bad.

    It works outside a project and starts no crawler. A subclass has `execute` in place of `run`; it
    is imported whenever `scrapy` starts, so it imports what it needs inside.
    """

    requires_project = False
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Do the work; raise `CrawlprioError` for bad input."""
        raise NotImplementedError

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.formatter_class = HelpFormatter
        # argparse would print the usage, some twenty lines, before what is wrong.
        setattr(parser, "error", end_in_one_line)  # noqa: B010

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Call `execute`; set `exitcode` to 2, or to 130 on an interrupt."""
        try:
            self.execute(args, opts)
        except CrawlprioError as error:
            print(error, file=sys.stderr)
            self.exitcode = 2
        except KeyboardInterrupt:
            self._end_interrupted()
        except SystemError as error:
            # An interrupt that comes while compiled code runs is raised as this when it returns.
            if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
                raise
            self._end_interrupted()

    def _end_interrupted(self) -> None:
        """End as a program that an interrupt has stopped."""
        print("Interrupted.", file=sys.stderr)
        self.exitcode = 130


class HelpFormatter(ScrapyHelpFormatter):
    """Scrapy's form of `--help` with names that hyphens do not break, and titles only where due."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        # Scrapy takes every line that ends in a colon for a title; a blank keeps help what it is.
        lines = textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)
        return [f"{line} " if line.endswith(":") else line for line in lines]

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)
        return "\n".join(f"{indent}{line}" for line in lines)


def program() -> str:
    """Return the name of the program that runs: `crawlprio`, or `scrapy` with its commands."""
    return "crawlprio" if Path(sys.argv[0]).stem in ("crawlprio", "cli") else "scrapy"


def end_in_one_line(message: str) -> NoReturn:
    """Stop because of a bad option."""
    print(f"{program()}: {message}", file=sys.stderr)
    sys.exit(2)


def unknown_option(args: Sequence[str]) -> None:
    """ConfigError for an option among the arguments, where argparse leaves those unknown to it."""
    unknown = [arg for arg in args if arg.startswith("-")]
    if unknown:
        raise ConfigError(f"{program()} has no option {unknown[0]} here; see --help.")
