"""Value models by name, `NAME:ARGUMENT`, or by import path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawlprio.errors import ConfigError
from crawlprio.value.base import ScoredModel
from crawlprio.value.classifier import Classifier
from crawlprio.value.fasttext import FastText
from crawlprio.value.language import Language
from crawlprio.value.own import KNOWN, load_own
from crawlprio.value.process import ProcessModel
from crawlprio.value.query import Query
from crawlprio.value.words import Words


def _in_languages(argument: str) -> Language:
    codes, colon, inner = argument.partition(":")
    return Language(codes, make_model(inner) if colon else None)


MODELS: dict[str, Callable[[str], Any]] = {
    "words": Words,
    "query": Query,
    "classifier": Classifier.read,
    "fasttext": FastText,
    "language": _in_languages,
}
"""The models that come with crawlprio: what makes each from its argument."""


def make_model(spec: object) -> ScoredModel:
    """Return the value model for CRAWLPRIO_VALUE.

    Parameters
    ----------
    spec
        `words:TERMS`, `query:WORDS`, `query:@FILE`, `classifier:FILE.json`, or `FILE.json` for
        short, `fasttext:FILE:LABEL`; `language:CODES`, or `language:CODES:` and any of these; or
        the import path of a class, with `:ARGUMENT` if its `__init__` takes one.

    Raises
    ------
    ConfigError
        If there is no such model, it cannot be imported, or its argument is invalid.
    """
    if not isinstance(spec, str) or not spec.strip():
        raise ConfigError(f"CRAWLPRIO_VALUE is {spec!r}; give {KNOWN}.")
    if spec.endswith(".json") and spec.partition(":")[0] not in MODELS:
        spec = f"classifier:{spec}"
    name, colon, argument = spec.partition(":")
    if name in MODELS:
        if not argument.strip():
            raise ConfigError(
                f"CRAWLPRIO_VALUE is {spec!r}; say what to look for, as in 'words:chess, go', "
                "'query:chess openings' or 'classifier:model.json'."
            )
        return ScoredModel(spec, MODELS[name](argument))
    model = load_own(name, argument if colon else None)
    if str(getattr(model, "runs_in", "thread")) not in ("here", "thread", "process"):
        raise ConfigError(
            f'CRAWLPRIO_VALUE is {spec!r}, whose runs_in is {model.runs_in!r}; give "here", '
            '"thread" or "process".'
        )
    if getattr(model, "runs_in", "") == "process":
        model = ProcessModel(model, name, argument if colon else None)
    return ScoredModel(spec, model)
