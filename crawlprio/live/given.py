"""What a crawl of the spider `site` was given on its command line, kept in its store to resume it.

A store is a file that people share: of what it says only values are taken over that run nobody's
code and name no file, and they are checked like any others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from crawlprio.config import given_on_command_line
from crawlprio.errors import StoreError
from crawlprio.orderings import ORDERINGS
from crawlprio.setting_table import SETTINGS
from crawlprio.setting_table.kinds import Anything, FileName, Folder

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawlprio.store import Store

ARGUMENTS = ("seeds", "follow", "allow", "deny")
"""The arguments that are kept."""

_KEY = "given"
_TEXTS = ("ORDERING", "TOPIC", "USER_AGENT", "ROBOTSTXT_USER_AGENT")


class Given(NamedTuple):
    """Arguments of the spider, and settings of the command line, by name."""

    arguments: dict[str, Any]
    options: dict[str, Any]


def keep_given(store: Store, arguments: Mapping[str, Any], settings: BaseSettings) -> None:
    """Record the arguments, and the settings that the command line had."""
    given = {
        "arguments": dict(arguments),
        "settings": {
            name: value
            for name, value in given_on_command_line(settings).items()
            if _is_kept(name, value)
        },
    }
    store.set_meta(_KEY, json.dumps(given))


def read_given(store: Store) -> Given:
    """Return what was recorded.

    Raises
    ------
    StoreError
        Nothing was, or not by crawlprio.
    """
    text = store.get_meta(_KEY)
    if not text:
        raise StoreError(
            f"{store.path} does not say where its crawl started: it is not one of the spider "
            "'site'; resume it with the command that began it."
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
        options = {
            name: value for name, value in found["settings"].items() if _is_kept(name, value)
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{store.path}: the file is damaged (what its crawl was given: {type(error).__name__});"
            " restore a copy."
        ) from None
    return Given(arguments, options)


def _is_kept(name: str, value: object) -> bool:
    """Whether a setting is taken over: a plain value that names neither code nor a file."""
    setting = SETTINGS.get(name)
    if setting is None or not isinstance(value, str | int | float | bool | None):
        return False
    if name == "ORDERING":
        return value in ORDERINGS
    return name in _TEXTS or not isinstance(setting.kind, Anything | FileName | Folder)
