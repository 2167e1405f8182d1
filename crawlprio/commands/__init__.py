"""The commands that crawlprio adds to `scrapy`; each is thin and imports the core.

This module has what they share: help, and how a command ends when its input is invalid.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.settings_table.kinds import Kind, Number, Setting, Whole, checked

if TYPE_CHECKING:
    from scrapy.settings import Settings

_EXAMPLES = "examples:\n"


class Option(NamedTuple):
    """An option of a command: an argument, or a switch if `metavar` is None.

    The command gets its text as `kind` parses it, or `default`. `alone` stands for the text if the
    option may be given without one. If it sets a `setting`, that gets the text as it is, once the
    `kind` has accepted it.
    """

    metavar: str | None
    meaning: str
    kind: Kind | None = None
    default: Any = None
    may_repeat: bool = False
    setting: str = ""
    alone: str | None = None


_LINK = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")


def setting_option(
    setting: Setting,
    metavar: str | None,
    default: Any,
    *,
    kind: Kind | None = None,
    meaning: str = "",
    alone: str | None = None,
    names: Mapping[str, str] | None = None,
) -> Option:
    """Return the option for a setting, whose help is the setting's own sentence by default.

    `names` are options to name in it instead of settings. Of `kind`s, by default the setting's own,
    numbers alone are checked at once.
    """
    text = meaning or _LINK.sub("", setting.meaning).replace("`", "").rstrip(".").replace("%", "%%")
    for name, option in (names or {}).items():
        text = text.replace(name, option)
    shown = setting.kind.none if default is None else f"{default}"
    if shown and default is not False and "; default" not in text:
        text += f"; default: {shown}"
    checks = kind or (setting.kind if isinstance(setting.kind, Number | Whole) else None)
    text = text[0].lower() + text[1:]
    return Option(metavar, text, checks, setting=setting.name, alone=alone)


class Described:
    """What a command says of itself: its arguments, one line, the paragraph of `--help`, options.

    `--help` shows the options, by their names, under `title`.
    """

    takes: ClassVar[str] = ""
    does: ClassVar[str] = ""
    about: ClassVar[str] = ""
    examples: ClassVar[Sequence[str]] = ()
    title: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Option]] = {}

    def syntax(self) -> str:
        return self.takes

    def short_desc(self) -> str:
        return self.does

    def long_desc(self) -> str:
        return self.about

    def own_options(self) -> Mapping[str, Option]:
        """Return the options by their names; default: the attribute `options`."""
        return self.options

    def set_up(self, parser: argparse.ArgumentParser) -> None:
        """Add the options and examples, given without the program's name, to a parser."""
        group = parser.add_argument_group(title=self.title) if self.title else parser
        for names, option in self.own_options().items():
            kind: dict[str, Any] = {"default": option.default, "metavar": option.metavar}
            if option.metavar is None:
                kind = {"action": "store_const", "const": option.alone or True}
            elif option.alone is not None:
                kind |= {"nargs": "?", "const": option.alone}
            elif option.may_repeat:
                kind["action"] = "append"
            group.add_argument(*names.split(", "), help=option.meaning, **kind)
        parser.formatter_class = HelpFormatter
        parser.epilog = _EXAMPLES + "".join(f"  {program()} {each}\n" for each in self.examples)
        # argparse would print some twenty lines of usage before the error.
        setattr(parser, "error", exit_in_one_line)  # noqa: B010

    def parse_options(self, opts: argparse.Namespace) -> None:
        """Parse what is given for each option that has a kind; raise `ConfigError` for another."""
        for names, option in self.own_options().items():
            field = field_of(names)
            text = getattr(opts, field)
            if option.setting and text == "":
                raise ConfigError(f"{names} is empty; give a value, or leave it out.")
            if option.kind is not None and text is not None:
                parsed = checked(names, option.kind, text)
                setattr(opts, field, text if option.setting else parsed)


class OneLineCommand(Described, ScrapyCommand):
    """A command that exits with status 2 and one line on stderr if its input is invalid.

    It works outside a project and starts no crawler. A subclass implements `execute` instead of
    `run`. Its module is imported whenever `scrapy` starts, so its methods import what they need.
    """

    settings: Settings
    requires_project = False
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the command; raise `CrawlprioError` for invalid input."""
        raise NotImplementedError

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        self.set_up(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Call `execute`; set `exitcode` to 2, or to 130 on an interrupt."""
        try:
            self.parse_options(opts)
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


def field_of(names: str) -> str:
    """Return the attribute in which argparse leaves the value of an option, by its last name."""
    return names.rpartition("--")[2].replace("-", "_")


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
