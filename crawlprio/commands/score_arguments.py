"""What the options of `crawlprio score` name: importances, their options, an order."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from crawlprio.commands.arguments import json_object, lines_of
from crawlprio.errors import ConfigError

DEFAULT = "pagerank"
"""The importance if none is named; with --topic, `TOPICAL` as well."""

TOPICAL = "similarity"

Options = dict[str, dict[str, Any]]


def importance_names(opts: argparse.Namespace) -> list[str]:
    """Return the names of the requested importances, each once."""
    from crawlprio.importance.metrics import IMPORTANCES, parts_of

    asked = opts.importance or ([DEFAULT] if opts.topic is None else [DEFAULT, TOPICAL])
    names = list(dict.fromkeys(name.replace(" ", "") for name in asked))
    topical = [name for name in names if any(IMPORTANCES[p].needs_topic for _, p in parts_of(name))]
    if opts.topic is not None and not topical:
        raise ConfigError(
            f"--topic is {opts.topic!r}, but none of {', '.join(names)} uses a topic; add "
            f"--importance {TOPICAL}."
        )
    return names


def options_of(names: Sequence[str], text: str | None) -> Options:
    """Return the options by name of the importance."""
    from crawlprio.importance.metrics import parts_of

    if text is None:
        return {}
    example = '{"pagerank": {"damping": 0.9}}'
    given = json_object("--importance-options", text, example)
    if not all(isinstance(value, dict) for value in given.values()):
        raise ConfigError(
            f"--importance-options is {text!r}; give options by importance, as in '{example}'."
        )
    asked = list(dict.fromkeys(part for name in names for _, part in parts_of(name)))
    for name in given:
        if name not in asked:
            raise ConfigError(
                f"--importance-options has options of {name}, which is not requested; requested "
                f"importances: {', '.join(asked)}."
            )
    return given


def read_order(path: str) -> list[int]:
    """Return the page ids in a file, one per line."""
    order = []
    for number, line in enumerate(lines_of(f"--order {path}", path), 1):
        if not line:
            continue
        if not (line.isascii() and line.isdigit() and len(line) < 12):
            raise ConfigError(f"{path}:{number}: expected a page id; found {line[:40]!r}.")
        order.append(int(line))
    if not order:
        raise ConfigError(f"--order {path} names no page; give page ids, one per line.")
    return order
