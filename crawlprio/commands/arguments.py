"""Arguments and options that several commands read, and the files that they write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlprio.commands import program
from crawlprio.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from crawlprio.config import CrawlConfig

SPREADSHEET = (
    "put an apostrophe before cells of a .csv that a spreadsheet would take for a formula: those "
    "that begin with =, +, -, @, a tab or a line break"
)
"""Help of the option --spreadsheet."""

GRAPH_FORMS = (
    "a crawl store, an .npz, an edge list .txt or .txt.gz, a table .csv, .jsonl or .parquet, a "
    ".graphml, or a WebGraph .graph"
)


def only_argument(command: str, what: str, args: Sequence[str]) -> str:
    """Return the one graph or store; argparse leaves options unknown to it among the arguments."""
    unknown = [arg for arg in args if arg.startswith("-")]
    if unknown:
        raise ConfigError(
            f"{program()} {command} has no option {unknown[0]}; see {program()} {command} --help."
        )
    if len(args) != 1:
        given = f"{len(args)} arguments" if args else "none"
        raise ConfigError(
            f"{program()} {command} takes one {what} and was given {given}; give {GRAPH_FORMS}."
        )
    return args[0]


def json_object(option: str, text: str, example: str) -> dict[str, Any]:
    """Return the JSON object that an option was given."""
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
    """Return the file for each name, which stands for %s in the template; empty without one."""
    if template is None:
        return {}
    if len(names) > 1 and "%s" not in template:
        raise ConfigError(
            f"{option} is {template!r} for {len(names)} {kind}; write %s where the name goes, as "
            f"in {option[2:]}-%s."
        )
    return {name: Path(template.replace("%s", name)) for name in names}


def lines_of(given: str, path: str | Path) -> list[str]:
    """Return the lines of a text file, stripped; `given` is the option as it was given."""
    try:
        return [line.strip() for line in Path(path).read_text("utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{given}: the file cannot be read ({reason}).") from None


def check_outputs(outputs: Iterable[tuple[str, Path]], inputs: Mapping[str, str | None]) -> None:
    """Make sure that all files can be written, and none over another or over what is read.

    Parameters
    ----------
    outputs
        option and file of each output.
    inputs
        file of each input by what it is called; None: not given.
    """
    taken: dict[Path, str] = {}
    for name, given in inputs.items():
        if given is not None:
            taken.setdefault(Path(given).resolve(), name)
    for option, path in outputs:
        owner = taken.setdefault(path.resolve(), option)
        if owner != option:
            raise ConfigError(f"{option} {path} is the file of {owner} too; name another.")
        check_writable(option, path)
        if option == "--plot":
            from crawlprio.evaluation.plots import check_plot_path

            check_plot_path(path)


def check_writable(option: str, path: str | Path) -> None:
    """Raise `ConfigError` if a file cannot be written, before the work that it is for."""
    path = Path(path)
    existed = path.exists()
    try:
        path.open("ab").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise ConfigError(
            f"{option} {path}: it cannot be written ({error.strerror or error}); name a file in a "
            "folder that exists and may be written."
        ) from None


def named_outputs(opts: argparse.Namespace, *options: str) -> list[tuple[str, Path]]:
    """Return option and file of those options that name one."""
    given = [(option, getattr(opts, option[2:])) for option in options]
    return [(option, Path(path)) for option, path in given if path]


def write_text(option: str, path: str | Path, text: str) -> None:
    """Write a text file."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{option} {path}: writing it failed ({error.strerror}).") from None


def topic_config(settings: Settings, words: str | None = None) -> CrawlConfig:
    """Return what TOPIC and TOPIC_OPTIONS say; `words`, where given, stand in for TOPIC."""
    from scrapy.settings import BaseSettings

    from crawlprio.config import CrawlConfig, read_setting

    topic = BaseSettings()
    topic.set("TOPIC", read_setting(settings, "TOPIC") if words is None else words)
    topic.set("TOPIC_OPTIONS", read_setting(settings, "TOPIC_OPTIONS"))
    return CrawlConfig.from_settings(topic)


def most_unpacked(settings: Settings | None) -> int | None:
    """CRAWLPRIO_MAX_UNPACKED_BYTES."""
    from crawlprio.config import read_setting

    assert settings is not None
    most: int | None = read_setting(settings, "CRAWLPRIO_MAX_UNPACKED_BYTES")
    return most
