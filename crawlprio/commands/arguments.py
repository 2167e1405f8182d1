"""Arguments, options and output files that several commands share, and the export of a store."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from crawlprio.commands import OneLineCommand, program
from crawlprio.errors import ConfigError
from crawlprio.outside.opening import open_file

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from crawlprio.settings_table.config import CrawlConfig

SPREADSHEET = (
    "put an apostrophe before .csv cells that a spreadsheet would take for a formula: those that "
    "begin with =, +, -, @, a tab or a line break"
)
"""Help text of the option --spreadsheet."""


def only_argument(command: str, what: str, args: Sequence[str]) -> str:
    """Return the only argument; argparse leaves unknown options among them."""
    from crawlprio.store.graph_files import GRAPH_FORMS

    unknown = [arg for arg in args if arg.startswith("-")]
    if unknown:
        raise ConfigError(
            f"{program()} {command} has no option {unknown[0]}; see {program()} {command} --help."
        )
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
    if not path.is_dir():
        return path
    if not (path / "crawl.sqlite").is_file():
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
            taken.setdefault(Path(given).resolve(), name)
    for option, path in outputs:
        owner = taken.setdefault(path.resolve(), option)
        if owner != option:
            raise ConfigError(f"{option} {path} is also the file of {owner}; name another.")
        check_writable(option, path)
        if option == "--plot":
            from crawlprio.show.figures import check_plot_path

            check_plot_path(path)


def check_writable(option: str, path: str | Path) -> None:
    """Raise `ConfigError` if a file cannot be written, before any work is done for it."""
    path = Path(path)
    existed = path.exists()
    try:
        open_file(path, "ab").close()
        if not existed:
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
    """Write a text file."""
    try:
        with open_file(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{option} {path} could not be written ({error.strerror}).") from None


def topic_config(settings: Settings, words: str | None = None) -> CrawlConfig:
    """Return the configuration of TOPIC and TOPIC_OPTIONS; `words`, if given, override TOPIC."""
    from scrapy.settings import BaseSettings

    from crawlprio.settings_table.config import CrawlConfig, read_setting

    topic = BaseSettings()
    topic.set("TOPIC", read_setting(settings, "TOPIC") if words is None else words)
    topic.set("TOPIC_OPTIONS", read_setting(settings, "TOPIC_OPTIONS"))
    return CrawlConfig.from_settings(topic)


def max_unpacked_bytes(settings: Settings) -> int | None:
    """Return CRAWLPRIO_MAX_UNPACKED_BYTES."""
    from crawlprio.settings_table.config import read_setting

    n_bytes: int | None = read_setting(settings, "CRAWLPRIO_MAX_UNPACKED_BYTES")
    return n_bytes


class ExportCommand(OneLineCommand):
    """A command `NAME export STORE FILE`, which writes the whole file or leaves it alone.

    `what` is both its name and what it writes, to a file with one of the `suffixes`; `says` tells
    how many there were.
    """

    what: ClassVar[str]
    says: ClassVar[str]
    suffixes: ClassVar[Sequence[str]] = ()

    def syntax(self) -> str:
        files = "|".join(f"FILE{suffix}" for suffix in self.suffixes)
        return self.takes or f"export STORE {files}"

    def write(self, store: Path, path: Path) -> int:
        """Write a new file from a store; return how many of `what` it has."""
        raise NotImplementedError

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        store, path = self.named(args)
        if path.suffix not in self.suffixes:
            known = " or ".join(self.suffixes)
            raise ConfigError(f"{path}: {self.what} are written as {known}; name such a file.")
        check_writable(f"{self.what} export", path)
        try:
            with TemporaryDirectory(prefix=f".{self.what}-", dir=path.parent) as folder:
                unfinished = Path(folder, path.name)
                n_written = self.write(store, unfinished)
                os.replace(unfinished, path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written ({error.strerror or error}).") from None
        print(f"{path}: {self.says.format(n_written)}")

    def named(self, args: Sequence[str]) -> tuple[Path, Path]:
        """Return the store and the file that the arguments name."""
        if len(args) != 3 or args[0] != "export":
            given = " ".join(args) or "nothing"
            raise ConfigError(
                f"{self.what}: found {given}; expected: {program()} {self.what} {self.syntax()}"
            )
        return Path(args[1]), Path(args[2])
