"""Value models of users, by import path."""

from __future__ import annotations

import importlib
from typing import Any

from crawlprio.errors import ConfigError, CrawlprioError

KNOWN = (
    "words:TERMS, query:WORDS, classifier:FILE.json, fasttext:FILE:LABEL, language:CODES, or the "
    "import path of a class"
)
"""What CRAWLPRIO_VALUE may be."""


def load_own(path: str, argument: str | None) -> Any:
    """Return an object of the class at an import path; raise ConfigError if there is none."""
    module_name, _, class_name = path.rpartition(".")
    if not module_name:
        raise ConfigError(f"CRAWLPRIO_VALUE is {path!r}; give {KNOWN}.")
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"CRAWLPRIO_VALUE is {path!r}, which cannot be imported ({error}); check the path."
        ) from error
    if not callable(getattr(cls, "score_page", None)):
        raise ConfigError(
            f"CRAWLPRIO_VALUE is {path!r}, which has no method score_page(page); give it one."
        )
    try:
        return cls() if argument is None else cls(argument)
    except CrawlprioError:
        raise
    except Exception as error:
        raise ConfigError(
            f"CRAWLPRIO_VALUE is {path!r}, which cannot be created: it raised "
            f"{type(error).__name__}: {error}; fix it."
        ) from error
