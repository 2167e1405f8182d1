"""The commands that crawlprio adds to `scrapy`; each is thin and imports the core.

This module has what they share: help, and how a command ends when its input is invalid.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter

from crawlprio.errors import ConfigError, CrawlprioError

if TYPE_CHECKING:
    from scrapy.settings import Settings

_EXAMPLES = "examples:\n"


class OneLineCommand(ScrapyCommand):
    """A command that exits with status 2 and one line on stderr if its input is invalid.

    It works outside a project and starts no crawler. A subclass implements `execute` instead of
    `run`. Its module is imported whenever `scrapy` starts, so its methods import what they need.
    """

    settings: Settings
    requires_project = False
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}
    examples: ClassVar[Sequence[str]] = ()

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the command; raise `CrawlprioError` for invalid input."""
        raise NotImplementedError

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        set_up_help(parser, self.examples)

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
            # An interrupt during compiled code is raised as a SystemError when that code returns.
            if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
                raise
            self._end_interrupted()

    def _end_interrupted(self) -> None:
        """Report the interrupt, and exit with status 130."""
        print("Interrupted.", file=sys.stderr)
        self.exitcode = 130


class HelpFormatter(ScrapyHelpFormatter):
    """Scrapy's formatter of `--help`, without line breaks at hyphens and without false titles."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        # Scrapy takes every line that ends in a colon for a title; a trailing space prevents that.
        lines = textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)
        return [f"{line} " if line.endswith(":") else line for line in lines]

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_EXAMPLES):
            return text
        lines = textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)
        return "\n".join(f"{indent}{line}" for line in lines)


def set_up_help(parser: argparse.ArgumentParser, examples: Sequence[str]) -> None:
    """Add examples to the help of a command, given without the program's name."""
    parser.formatter_class = HelpFormatter
    parser.epilog = _EXAMPLES + "".join(f"  {program()} {example}\n" for example in examples)
    # argparse would print some twenty lines of usage before the error.
    setattr(parser, "error", exit_in_one_line)  # noqa: B010


def program() -> str:
    """Return the name of the running program: `crawlprio`, or `scrapy` with its commands."""
    return "crawlprio" if Path(sys.argv[0]).stem in ("crawlprio", "cli") else "scrapy"


def exit_in_one_line(message: str) -> NoReturn:
    """Report an invalid option in one line, and exit with status 2."""
    print(f"{program()}: {message}", file=sys.stderr)
    sys.exit(2)


def refuse_unknown_options(args: Sequence[str]) -> None:
    """Raise `ConfigError` for an option among the arguments, where argparse leaves unknown ones."""
    unknown = [arg for arg in args if arg.startswith("-")]
    if unknown:
        raise ConfigError(f"{program()} has no option {unknown[0]} here; see --help.")
