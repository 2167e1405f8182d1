"""The command-line arguments of a crawl of the spider `site`, kept in its store to resume it.

People share store files. So no value is kept that names code or has a password, and of files only
those that the type of their setting calls portable, by their paths from the store, if they are
there. What is read back is validated like any other value.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scrapy.settings import BaseSettings

from crawlprio.errors import ConfigError, StoreError
from crawlprio.orderings import NAMED
from crawlprio.safe_files import is_missing
from crawlprio.settings_table.config import given_settings, read_setting
from crawlprio.settings_table.setting_types import OWN_NAMES, Options
from crawlprio.settings_table.table import SETTINGS
from crawlprio.store import Store
from crawlprio.store.files import damaged

ARGUMENTS = ("seeds", "follow", "allow", "deny")
"""The spider arguments that are kept."""

_KEY = "given"
_TEXTS = ("ORDERING", "TOPIC", "USER_AGENT", "ROBOTSTXT_USER_AGENT")
_PASSWORD = re.compile(r"://[^/?#\s]*@")

_SCRAPYS = re.compile(
    "AUTOTHROTTLE_|COMPRESSION_ENABLED|COOKIES_ENABLED|DNS|DOWNLOAD_|METAREFRESH_|REDIRECT_|RETRY_"
)
_NUMBERS = re.compile(r"[-\d., ]+|True|False")
"""Settings that Scrapy alone reads are kept if they are of these, and are numbers or switches."""

_OF_ONE_RUN = re.compile("JOBDIR|CRAWLPRIO_STORE|CRAWLPRIO_LOOPBACK|FEEDS|LOG_")
"""Settings of one run of which a resume does not say that they are lost."""


class RecordedArguments(NamedTuple):
    """Spider arguments and settings, by name, and the names of settings that are not kept."""

    arguments: dict[str, Any]
    values: dict[str, Any]
    lost: list[str]


def record_arguments(store: Store, arguments: Mapping[str, Any], settings: BaseSettings) -> None:
    """Record the spider arguments and the settings of the command line."""
    given = given_settings(settings)
    kept = {name: value for name, value in given.items() if is_plain(name, value)}
    folder = store.path.parent.absolute()
    for name, beginning, path in _paths(given):
        kept[name] = beginning + os.path.relpath(path, folder)
    others = {name: given[name] for name in given if not (name in kept or _OF_ONE_RUN.match(name))}
    # Of the text of some settings, Scrapy makes a dict.
    lost = [name for name, value in others.items() if isinstance(value, str | Mapping)]
    record = {"arguments": dict(arguments), "settings": kept, "lost": lost}
    store.set_meta(_KEY, json.dumps(record))


def read_arguments(store: Store) -> RecordedArguments:
    """Return what `record_arguments` recorded; a StoreError if there is no such record."""
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
        for name, beginning, path in _paths(values):
            there = store.path.parent / path
            if (os.path.isfile if beginning else os.path.isdir)(there):
                kept[name] = beginning + os.path.relpath(there)
        lost = {*filter(SETTINGS.__contains__, values), *map(str, found.get("lost", ()))}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(store.path, f"arguments of its crawl: {type(error).__name__}") from None
    return RecordedArguments(arguments, kept, sorted(lost - kept.keys()))


def _paths(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the settings that name a file or folder, in two parts as `SettingType.portable`."""
    for name, value in values.items():
        setting = SETTINGS.get(name)
        if setting is not None and isinstance(value, str) and setting.is_ours:
            parts = setting.kind.portable(value)
            if parts and parts[1]:
                yield name, *parts


def check_same_seeds(settings: BaseSettings, seeds: list[str] | None) -> None:
    """Raise `ConfigError` if the job directory holds a crawl that started elsewhere.

    `seeds` are None for the demo web. A store that cannot be read is left to those who open it.
    """
    folder, name = read_setting(settings, "JOBDIR"), read_setting(settings, "CRAWLPRIO_STORE")
    if folder is None or name is None or is_missing(Path(folder, name)):
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
    """Return whether a value may be kept: no code, file, password, dict or limit of one run."""
    setting = SETTINGS.get(name)
    if not isinstance(value, str | int | float | bool | None):
        return False
    if name not in _TEXTS and _PASSWORD.search(str(value)):
        return False
    if setting is None:
        return bool(_SCRAPYS.match(name) and _NUMBERS.fullmatch(str(value)))
    if setting.is_of_one_run:
        return False
    if name == "ORDERING":
        return value in NAMED
    if type(setting.kind) is Options:
        return name in OWN_NAMES
    return name in _TEXTS or setting.kind.portable(str(value)) == (str(value), "")
