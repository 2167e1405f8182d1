"""The packages that crawlprio can do without, and the settings that need them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.plugins import SETTINGS, require_plugin

_OFF = (None, False, "", "None", "False", "false", "0")

NEEDED = (
    ("CRAWLPRIO_FRONTIER", "redis", "redis", "redis"),
    ("CRAWLPRIO_WARC", "", "surt", "warc"),
    ("CRAWLPRIO_BODIES", "", "zstandard", "bodies"),
    ("CRAWLPRIO_KEEP_TEXT", "", "py3langid", "texts"),
    ("CRAWLPRIO_NOVELTY", "near", "rensa", "novelty"),
    ("CRAWLPRIO_VALUE", "language:", "py3langid", "texts"),
    ("CRAWLPRIO_VALUE", "fasttext:", "fasttext", "fasttext"),
)
"""A setting, what its value begins with, the module that it then needs, and the extra with that."""

NEEDY = tuple(dict.fromkeys(row[0] for row in (*SETTINGS, *NEEDED)))
"""The settings that need a plugin or a package."""


def require(module: str, extra: str, what: str) -> None:
    """Raise ConfigError unless a module can be imported, which an extra of crawlprio installs.

    `what` needs it: the subject of the sentence.
    """
    if find_spec(module) is None:
        # pip takes the name for the installed package, wherever that came from.
        raise ConfigError(
            f"{what} needs {module}, which is not installed; run pip install 'crawlprio[{extra}]'."
        )


def require_for(name: str, value: object) -> None:
    """Raise ConfigError if this value of a setting needs a plugin or package that is missing."""
    if value in _OFF:
        return
    for needing, beginning, plugin in SETTINGS:
        if name == needing and str(value).startswith(beginning):
            require_plugin(plugin, f"{name} {value!r}" if beginning else name)
    for needing, beginning, module, extra in NEEDED:
        if name == needing and str(value).startswith(beginning):
            require(module, extra, f"{name} {value!r}" if beginning else name)


def imported(
    module: str, what: str, package: str = "", *, error: type[CrawlprioError] = ConfigError
) -> Any:
    """Return an optional module, which a package installs; raise an error if it does not exist.

    `what` needs it: the subject of the sentence. Modules are imported by name so that type checkers
    do not need them.
    """
    try:
        return import_module(module)
    except ImportError:
        package = package or module
        raise error(
            f"{what} needs {module}, which is not installed; run `pip install '{package}'`."
        ) from None
