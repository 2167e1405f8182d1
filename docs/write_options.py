"""Writes `docs/options.md` from the docstrings of orderings and importances; a test checks it."""

from __future__ import annotations

import inspect
import re
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from crawlprio.measure.importance import IMPORTANCES
from crawlprio.orderings import BY_VALUE, ORDERINGS

DOCS = Path(__file__).parent
PAGE = DOCS / "options.md"

INTRODUCTION = """\
# Options of orderings and importances

<!-- Written by docs/write_options.py from the docstrings of the classes. -->

Options of an ordering are a dict: `-s 'ORDERING_OPTIONS={"every": 1000}'` for a crawl, or
`--ordering-options '{"every": 1000}'` for a simulation, there also by ordering:
`'{"opic": {"seed_cash": 10}}'`. Options of an importance are given by its name to `crawlprio
score`: `--importance-options '{"weighted-pagerank": {"share": 0.8}}'`. Weighted sums of
importances, conditions on them, and your own are in [the API](api.md#links-and-importance). What an
ordering is for, and what it costs, is on [the page of orderings](orderings.md).

Every ordering takes `site_share`: sites take turns, and each contributes its best pages, up to so
many per round (default: no turns). A batch of `batched` or `batch-pagerank` is built in such rounds
too, so that it holds pages of as many sites as possible. [Examples](papers.md).
"""

_KEEPS = "topic"
"""The parameter of importances that is not an option: `TOPIC` or `--topic` gives it."""


def options_page() -> str:
    """Return `docs/options.md`."""
    parts = [INTRODUCTION]
    for title, named in (
        ("Orderings", ORDERINGS),
        ("Orderings by value", BY_VALUE),
        ("Importances", IMPORTANCES),
    ):
        parts += [f"## {title}\n", *(_entry(name, cls) for name, cls in named.items()), ""]
    return "\n".join(parts).rstrip() + "\n"


def _claim(cls: type) -> str:
    """Return what a class is, and its source."""
    claim, *paragraphs = (inspect.getdoc(cls) or "").split("\n\n")
    text = " ".join(claim.split())
    source = next((text for text in paragraphs if "Source: " in text), None)
    if source is not None:
        text += " Source: " + " ".join(source.split()).partition("Source: ")[2]
    return text


def _options(cls: type) -> list[inspect.Parameter]:
    """Return the options of a class."""
    parameters = inspect.signature(cls).parameters.values()
    return [option for option in parameters if option.name != _KEEPS]


def _entry(name: str, cls: type) -> str:
    """Return the entry of one class, with its options below it."""
    lines = [f"* **{name}**: {_claim(cls)}"]
    for meaning, options in groupby(_options(cls), lambda option: _meaning(cls, option.name)):
        named = ", ".join(f"`{each.name}` ({_default(each.default)})" for each in options)
        lines.append(f"  * {named}: {meaning}")
    return "\n".join(lines)


def _default(value: Any) -> str:
    return f"`{dict(value) if isinstance(value, MappingProxyType) else value!r}`"


def _meaning(cls: type, option: str) -> str:
    """Return what the docstring says of an option; LookupError if it says nothing."""
    text = inspect.getdoc(cls) or ""
    for pattern in (
        rf"^(?:\w+, )*{option}(?:, \w+)*\n((?:    [^\n]*\n?)+)",  # numpydoc
        rf"`{option}`(?:(?:,| and) `\w+`)*: (.*?)(?=\s`\w+`(?:(?:,| and) `\w+`)*: |\n\n|\Z)",
    ):
        found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
        if found:
            return " ".join(found[1].split())
    raise LookupError(f"the docstring of {cls.__name__} does not say what {option} is")


if __name__ == "__main__":
    PAGE.write_text(options_page(), "utf-8")
