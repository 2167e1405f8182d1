"""The command-line arguments of a crawl of the spider `site`, kept in its store to resume it.

People share store files, so only values that run no code and name no file are read back from one.
They are validated like any others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crawlprio.config import given_settings, read_setting
from crawlprio.errors import ConfigError, StoreError
from crawlprio.orderings import NAMED
from crawlprio.setting_table import SETTINGS
from crawlprio.setting_table.kinds import Anything, FileName, Folder
from crawlprio.store import Store

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

ARGUMENTS = ("seeds", "follow", "allow", "deny")
"""The spider arguments that are kept."""

_KEY = "given"
_PLAIN_MODEL = re.compile(r"(language:[^:]*:)*(words:|query:)|(language:[^:]*:)*language:[^:]*$")
_TEXTS = ("ORDERING", "TOPIC", "USER_AGENT", "ROBOTSTXT_USER_AGENT")


class Given(NamedTuple):
    """Spider arguments and settings, by name."""

    arguments: dict[str, Any]
    values: dict[str, Any]


def record_arguments(store: Store, arguments: Mapping[str, Any], settings: BaseSettings) -> None:
    """Record the spider arguments and the settings of the command line."""
    given = {
        "arguments": dict(arguments),
        "settings": {
            name: value for name, value in given_settings(settings).items() if is_plain(name, value)
        },
    }
    store.set_meta(_KEY, json.dumps(given))


def read_arguments(store: Store) -> Given:
    """Return what `record_arguments` recorded.

    Raises
    ------
    StoreError
        if there is no such record, or it is damaged.
    """
    text = store.get_meta(_KEY)
    if not text and not store.n_pages:
        raise StoreError(
            f"{store.path} records nothing yet: its crawl ended before it began; start it again "
            "with the command that started it."
        )
    if not text:
        raise StoreError(
            f"{store.path} does not say where its crawl started: the crawl is not one of the "
            "spider 'site'; resume it with the command that started it."
        )
    try:
        found = json.loads(text)
        arguments = {
            name: value
            for name, value in found["arguments"].items()
            if name in ARGUMENTS and value is not None
        }
        for name, value in arguments.items():
            if not isinstance(value, list if name == "seeds" else str):
                raise TypeError(f"{name} of another type")
        values: dict[str, Any] = found["settings"]
        kept = {name: value for name, value in values.items() if is_plain(name, value)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{store.path}: the file is damaged (arguments of its crawl: {type(error).__name__}); "
            "restore a backup."
        ) from None
    return Given(arguments, kept)


def check_same_seeds(settings: BaseSettings, seeds: list[str] | None) -> None:
    """Raise `ConfigError` if the job directory holds a crawl that started elsewhere.

    `seeds` are None for the demo web. A store that cannot be read is left to those who open it.
    """
    folder, name = read_setting(settings, "JOBDIR"), read_setting(settings, "CRAWLPRIO_STORE")
    if folder is None or name is None or not Path(folder, name).is_file():
        return
    try:
        with Store.open(Path(folder, name), readonly=True) as store:
            before = read_arguments(store).arguments.get("seeds")
    except StoreError:
        return
    if before != seeds:
        started = "at " + ", ".join(before[:3]) if before else "in the demo web"
        more = f" and {len(before) - 3:,} more" if before and len(before) > 3 else ""
        raise ConfigError(
            f"JOBDIR {folder} holds a crawl that started {started}{more}; resume that one with its "
            "own seeds (crawlprio resume knows them), or name another folder."
        )


def is_plain(name: str, value: object) -> bool:
    """Return whether a setting is a plain value that names neither code nor a file."""
    setting = SETTINGS.get(name)
    if setting is None or not isinstance(value, str | int | float | bool | None):
        return False
    if name == "ORDERING":
        return value in NAMED
    if name == "CRAWLPRIO_VALUE":
        return _PLAIN_MODEL.match(str(value)) is not None and "@" not in str(value)
    return name in _TEXTS or not isinstance(setting.kind, Anything | FileName | Folder)
