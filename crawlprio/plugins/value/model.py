"""What a value model is, the checks of what it answers, and the language of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from crawlprio.errors import CrawlprioError
from crawlprio.extras import require
from crawlprio.store import MAX_TEXT

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


class ValueModelError(CrawlprioError):
    """A value model raised an exception, gave an invalid answer, or gave none in time."""


class Page(NamedTuple):
    """What a value model sees of a page: its URL, title, and text without navigation.

    `language` is that of the text as `language_of` tells it (`de`), if the crawl keeps
    texts or the model needs it; otherwise, and for a short text, it is empty.
    """

    url: str
    title: str
    text: str
    language: str = ""


class ValueModel(Protocol):
    """A model that says what a page is worth; CRAWLPRIO_VALUE can name a class of your own.

    Only `score_page` is required. A class may also have:

    * `score_pages(pages)`: returns the values of a list of pages, for a model that is faster on
      many pages at once.
    * `score_text(text)`: what a text of a few words promises, from 0 to 1, such as that of a link.
      It is called in the thread of the crawl, so it must take microseconds.
    * `batch`: the most pages that it is given at once; default 32.
    * `runs_in`: "thread" (the default) or "process", so that a slow model does not hold the crawl;
      "here" for one that takes well under a millisecond.
    * `needs_language`: whether pages come with their language (the extra `texts`); default False.
    * `timeout`: seconds after which a batch counts as lost and the crawl ends; default 60.
    """

    def score_page(self, page: Page) -> float:
        """Return the value of a page, from 0 (not worth fetching) to 1."""


class ScoredModel:
    """A value model by name (CRAWLPRIO_VALUE, for messages), whose answers are checked.

    It is a `ValueModel`, or an object that has `score_pages` alone.
    The values of a model that `learns` depend on the pages scored before: it must score the pages
    of a resumed crawl again, in their order, before it scores others.
    """

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model
        self.learns = bool(getattr(model, "learns", False))
        self.runs_in = str(getattr(model, "runs_in", "thread"))
        self.batch = max(int(getattr(model, "batch", 32)), 1)
        self.timeout = float(getattr(model, "timeout", 60.0))
        self.needs_language = bool(getattr(model, "needs_language", False))
        if self.needs_language:
            require_detector()

    def score(self, page: Page) -> float:
        """Return the value of one page; raise ValueModelError as `score_all` does."""
        return self.score_all([page])[0]

    def score_all(self, pages: Sequence[Page]) -> list[float]:
        """Return the values of pages, each a number from 0 to 1.

        Raise ValueModelError if the model raises an exception, or answers anything else.
        """
        if not pages:
            return []
        if self.needs_language:
            pages = [
                page if page.language else page._replace(language=language_of(page.text))
                for page in pages
            ]
        score_pages = getattr(self._model, "score_pages", None)
        try:
            if score_pages is None:
                found = [self._model.score_page(page) for page in pages]
            else:
                found = list(score_pages(list(pages)))
        except CrawlprioError:
            raise
        except Exception as error:
            raise self.error(f"raised {type(error).__name__}: {error}", pages) from error
        if len(found) != len(pages):
            raise self.error(f"answered {len(found)} values for {len(pages)} pages", pages)
        return [self._checked(score, page) for score, page in zip(found, pages, strict=True)]

    @property
    def judge(self) -> Callable[[str], float] | None:
        """What a short text is worth by the model; None if it judges whole pages alone."""
        score_text = getattr(self._model, "score_text", None)
        if score_text is None:
            return None

        @lru_cache(10_000)  # pages of a site have many anchor texts in common
        def score(text: str) -> float:
            shown = page_of(f"the text {text!r}", "", "")
            try:
                return self._checked(score_text(text), shown)
            except CrawlprioError:
                raise
            except Exception as error:
                raise self.error(f"raised {type(error).__name__}: {error}", [shown]) from error

        return score

    def score_again(self, url: str, title: str, text: str) -> None:
        """Score a page of the run before, so that a model that learns knows it."""
        self.score(page_of(url, title, text))

    def error(self, did: str, pages: Sequence[Page]) -> ValueModelError:
        """Return the error for what the model did on its way through these pages."""
        return ValueModelError(
            f"value model {self.name}: {did}, at {pages[0].url}; fix the model, then resume."
        )

    def _checked(self, score: object, page: Page) -> float:
        try:
            value = float(score)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = -1.0
        if not 0 <= value <= 1:
            raise self.error(f"answered {score!r}, which is not a number from 0 to 1", [page])
        return value


def page_of(url: str, title: str, text: str, language: str = "") -> Page:
    """Return a page as models see it, its text cut at `MAX_TEXT`, as in a store."""
    return Page(url, title, text[:MAX_TEXT], language)
