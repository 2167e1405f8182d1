"""The language of a text, as a kept library detects it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from crawlprio.extras import require

LEAST = 50
"""Least characters of a text whose language is told."""

MOST = 1_000
"""Characters of a text that are looked at."""


def language_of(text: str) -> str:
    """Return the language of a text as ISO 639 writes it: `de`, or `zxx` for no language at all.

    Empty if the text is too short to tell. Cost: 0.5 ms, and 90 MB of memory once.
    """
    return str(_detector().classify(text[:MOST])[0]) if len(text) >= LEAST else ""


def languages() -> frozenset[str]:
    """Return the languages that are told apart; raise ConfigError without the package."""
    require_detector()
    return frozenset(str(code) for code, _ in _detector().rank(""))


def require_detector() -> None:
    """Raise ConfigError if the package that tells languages is not installed."""
    require("py3langid", "texts", "The detection of languages")


@cache
def _detector() -> Any:
    # Imported by name, so that type checkers do not need it.
    return import_module("py3langid")
