"""The commands that crawlprio adds to `scrapy`; each is thin and imports the core.

This module has what they share: options and help, arguments and output files, the export of a
store, and how a command ends when its input is invalid.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter

from crawlprio.errors import ConfigError, CrawlprioError, printable
from crawlprio.safe_files import is_missing, open_file, real
from crawlprio.settings_table.setting_types import Float, Int, Setting, SettingType, checked

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from crawlprio.store import Store

_EXAMPLES = "examples:\n"


class Option(NamedTuple):
    """An option of a command: an argument, or a switch if `metavar` is None.

    The command gets its text as `kind` parses it, or `default`. `alone` stands for the text if the
    option may be given without one. If it sets a `setting`, that gets the text as it is, once the
    `kind` has accepted it. One that is a list has values of its kind between commas, and the
    command gets each once, ascending.
    """

    metavar: str | None
    meaning: str
    kind: SettingType | None = None
    default: Any = None
    may_repeat: bool = False
    setting: str = ""
    alone: str | None = None
    is_list: bool = False


_LINK = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")


def setting_option(
    setting: Setting, metavar: str | None, default: Any, names: Mapping[str, str] | None = None
) -> Option:
    """Return the option for a setting, a switch if `metavar` is None; numbers are checked at once.

    Its help is the setting's summary or meaning, with options instead of settings as in `names`.
    """
    text = setting.summary or _LINK.sub("", setting.meaning).replace("`", "").rstrip(".")
    text = text.replace("%", "%%")
    for name, option in (names or {}).items():
        text = text.replace(name, option)
    shown = setting.kind.none if default is None else f"{default}"
    if shown and default is not False and "; default" not in text:
        text += f"; default: {shown}"
    checks = setting.kind if isinstance(setting.kind, Float | Int) else None
    text = text[0].lower() + text[1:]
    alone = setting.alone if metavar else "True"
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
        """Parse the value of each option that has a kind; raise `ConfigError` if it is invalid."""
        for names, option in self.own_options().items():
            field = field_of(names)
            text = getattr(opts, field)
            if option.setting and text == "":
                raise ConfigError(f"{names} is empty; give a value, or leave it out.")
            if option.kind is not None and text is not None:
                parts = text.split(",") if option.is_list else [text]
                parsed = [checked(names, option.kind, part) for part in parts]
                value = sorted(set(parsed)) if option.is_list else parsed[0]
                setattr(opts, field, text if option.setting else value)


def in_one_line(error: CrawlprioError | OSError) -> str:
    """Return an error as a sentence; raise it again if it is the system's and names no file."""
    if isinstance(error, CrawlprioError):
        return str(error)
    if error.filename is None:
        raise error
    name = os.fsdecode(error.filename)
    return printable(f"{name}: {error.strerror}; check the file and its folder.")


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
        except (CrawlprioError, OSError) as error:
            print(in_one_line(error), file=sys.stderr)
            self.exitcode = 2
        except (KeyboardInterrupt, SystemError) as error:
            # An interrupt during compiled code is raised as a SystemError when that code returns.
            causes = error, error.__cause__ or error.__context__
            if not any(isinstance(cause, KeyboardInterrupt) for cause in causes):
                raise
            print("Interrupted.", file=sys.stderr)
            self.exitcode = 130


class HelpFormatter(ScrapyHelpFormatter):
    """Scrapy's formatter of `--help`, without breaks at hyphens or lines mistaken for titles."""

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


def refuse_unknown_options(command: str, args: Sequence[str]) -> None:
    """Raise `ConfigError` for an option among the arguments, where argparse leaves unknown ones."""
    unknown = [arg for arg in args if arg.startswith("-")]
    if unknown:
        raise ConfigError(
            f"{program()} {command} has no option {unknown[0]}; see {program()} {command} --help."
        )


SPREADSHEET = (
    "put an apostrophe before .csv cells that a spreadsheet would take for a formula: those that "
    "begin with =, +, -, @, a tab or a line break"
)
"""Help text of the option --spreadsheet."""


def only_argument(command: str, what: str, args: Sequence[str]) -> str:
    """Return the only argument; raise `ConfigError` if there are others, or none."""
    from crawlprio.store.graph_files import GRAPH_FORMS

    refuse_unknown_options(command, args)
    if len(args) != 1:
        given = f"{len(args)} arguments" if args else "none"
        forms = GRAPH_FORMS if "GRAPH" in what else "a crawl store, or the folder of a crawl"
        raise ConfigError(
            f"{program()} {command} takes one {what} and was given {given}; give {forms}."
        )
    return args[0]


def store_of(name: str) -> Path:
    """Return the store that an argument names, itself or by the folder of its crawl."""
    path = Path(name)
    if not os.path.isdir(path):
        return path
    if is_missing(path / "crawl.sqlite"):
        raise ConfigError(f"{path} has no crawl.sqlite; name the store itself.")
    return path / "crawl.sqlite"


def json_object(option: str, text: str, example: str) -> dict[str, Any]:
    """Return the JSON object given for an option."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"{option} is {text!r}, which is not valid JSON ({error}); write it as in '{example}'."
        ) from None
    if not isinstance(given, dict):
        raise ConfigError(f"{option} is {text!r}; give a JSON object, as in '{example}'.")
    return given


def paths_by_name(
    option: str, template: str | None, names: Sequence[str], kind: str
) -> dict[str, Path]:
    """Return a file for each name, which replaces %s in the template; empty without a template."""
    if template is None:
        return {}
    if len(names) > 1 and "%s" not in template:
        raise ConfigError(
            f"{option} is {template!r} for {len(names)} {kind}; write %s where the name goes, as "
            f"in {option[2:]}-%s."
        )
    return {name: Path(template.replace("%s", name)) for name in names}


def lines_of(given: str, path: str | Path) -> list[str]:
    """Return the lines of a text file, stripped; `given` is the option as the user wrote it."""
    try:
        return [line.strip() for line in Path(path).read_text("utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{given}: the file cannot be read ({reason}).") from None


def check_outputs(outputs: Iterable[tuple[str, Path]], inputs: Mapping[str, str | None]) -> None:
    """Check that all outputs can be written, and that none overwrites another or an input.

    `outputs`: option and file of each output. `inputs`: file of each input by its name in messages;
    None: not given.
    """
    taken: dict[Path, str] = {}
    for name, given in inputs.items():
        if given is not None:
            taken.setdefault(real(given), name)
    for option, path in outputs:
        owner = taken.setdefault(real(path), option)
        if owner != option:
            raise ConfigError(f"{option} {path} is also the file of {owner}; name another file.")
        check_writable(option, path)
        if option == "--plot":
            from crawlprio.show.figures import check_plot_path

            check_plot_path(path)


def check_writable(option: str, path: str | Path) -> None:
    """Raise `ConfigError` if a file cannot be written, before any work is done for it."""
    path = Path(path)
    is_new = is_missing(path)
    try:
        open_file(path, "ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise ConfigError(
            f"{option} {path} cannot be written ({error.strerror or error}); name a file in a "
            "folder that exists and is writable."
        ) from None


def named_outputs(opts: argparse.Namespace, *options: str) -> list[tuple[str, Path]]:
    """Return the option and the file of each option that names one."""
    given = [(option, getattr(opts, option[2:])) for option in options]
    return [(option, Path(path)) for option, path in given if path]


def write_json(opts: argparse.Namespace, figures: Callable[[], Any]) -> None:
    """Write figures to the file of `--json`, if it is given."""
    if opts.json:
        write_text("--json", opts.json, json.dumps(figures()) + "\n")


def write_text(option: str, path: str | Path, text: str) -> None:
    try:
        with open_file(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{option} {path} could not be written ({error.strerror}).") from None


class ExportCommand(OneLineCommand):
    """A command `NAME export STORE FILE`, which writes the whole file or leaves it alone.

    `what` is both its name and what it writes, to a file with one of the `suffixes`; `says` tells
    how many there were, and `kept_by` what makes a crawl keep them.
    """

    what: ClassVar[str]
    says: ClassVar[str]
    kept_by: ClassVar[str]
    suffixes: ClassVar[Sequence[str]] = ()

    def syntax(self) -> str:
        files = "|".join(f"FILE{suffix}" for suffix in self.suffixes)
        return self.takes or f"export STORE {files}"

    def write(self, store: Store, path: Path) -> int:
        """Write a new file from a store; return how many of `what` it has."""
        raise NotImplementedError

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        store, path = self.named(args)
        if path.suffix not in self.suffixes:
            known = " or ".join(self.suffixes)
            raise ConfigError(
                f"{path}: {self.what} are written as {known}; name a file of such a type."
            )
        from crawlprio.store import Store

        with Store.open(store, readonly=True) as opened:
            check_writable(f"{self.what} export", path)
            try:
                with TemporaryDirectory(prefix=f".{self.what}-", dir=path.parent) as folder:
                    unfinished = Path(folder, path.name)
                    n_written = self.write(opened, unfinished)
                    if not n_written:
                        raise ConfigError(
                            f"{store} has no {self.what}; a crawl keeps them with {self.kept_by}."
                        )
                    os.replace(unfinished, path)
            except OSError as error:
                reason = error.strerror or error
                raise ConfigError(f"{path} cannot be written ({reason}).") from None
        print(f"{path}: {self.says.format(n_written)}")

    def named(self, args: Sequence[str]) -> tuple[Path, Path]:
        """Return the store and the file that the arguments name."""
        if len(args) != 3 or args[0] != "export":
            given = " ".join(args) or "nothing"
            raise ConfigError(
                f"{self.what}: found {given}; expected: {program()} {self.what} {self.syntax()}"
            )
        return Path(args[1]), Path(args[2])
