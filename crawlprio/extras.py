"""The packages that crawlprio can do without, and the settings that need them."""

from __future__ import annotations

from importlib.util import find_spec

from crawlprio.errors import ConfigError

_OFF = (None, False, "", "None", "False", "false", "0")

NEEDED = (
    ("CRAWLPRIO_FRONTIER", "redis", "redis", "redis"),
    ("CRAWLPRIO_WARC", "", "surt", "warc"),
    ("CRAWLPRIO_REQUISITES", "", "tinycss2", "warc"),
    ("CRAWLPRIO_BODIES", "", "zstandard", "bodies"),
    ("CRAWLPRIO_KEEP_TEXT", "", "py3langid", "texts"),
    ("CRAWLPRIO_NOVELTY", "near", "rensa", "novelty"),
    ("CRAWLPRIO_VALUE", "language:", "py3langid", "texts"),
    ("CRAWLPRIO_VALUE", "fasttext:", "fasttext", "fasttext"),
)
"""A setting, what its value begins with, the module that it then needs, and the extra with that."""


def require(module: str, extra: str, what: str) -> None:
    """Raise ConfigError unless a module can be imported.

    Parameters
    ----------
    extra
        the extra of crawlprio that installs it.
    what
        what needs it, as the subject of the sentence.
    """
    if find_spec(module) is None:
        # pip takes the name for the installed package, wherever that came from.
        raise ConfigError(
            f"{what} needs {module}, which is not installed; run pip install 'crawlprio[{extra}]'."
        )


def require_for(name: str, value: object) -> None:
    """Raise ConfigError if this value of a setting needs a package that is not installed."""
    if value in _OFF:
        return
    for needing, beginning, module, extra in NEEDED:
        if name == needing and str(value).startswith(beginning):
            require(module, extra, f"{name} {value!r}" if beginning else name)
