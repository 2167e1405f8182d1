"""Value models by name, `NAME:ARGUMENT`, or by import path."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.extras import load_named
from crawlprio.graph.topic import Topic
from crawlprio.plugins.value import ModelName
from crawlprio.plugins.value.classifier import Classifier, read_examples
from crawlprio.plugins.value.fasttext import FastText
from crawlprio.plugins.value.model import Page, ScoredModel, ValueModelError, languages
from crawlprio.web.anchors import words_of


def load_own(path: str, argument: str | None) -> Any:
    """Return an object of the class at an import path; raise ConfigError if there is none."""
    if not path.rpartition(".")[0]:
        raise ConfigError(f"CRAWLPRIO_VALUE is {path!r}; give {ModelName.bounds}.")
    cls = load_named("CRAWLPRIO_VALUE", path)
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


class ProcessModel:
    """Runs a user's model in another process, which is started with the first page.

    There it is created again, from the import path of its class and what its `__init__` takes; only
    the attributes of `model`, in this process, are read.
    """

    runs_in = "thread"

    def __init__(self, model: ScoredModel, path: str, argument: str | None) -> None:
        self.batch, self.timeout = model.batch, model.timeout
        self.needs_language = model.needs_language
        self._made_of = path, argument
        self._pipe: Connection | None = None

    def score_pages(self, pages: list[Page]) -> list[Any]:
        """Return what the model answers; raise ValueModelError if it raises or its process dies."""
        if self._pipe is None:
            # A forked process would have the event loop and the sockets of the crawl.
            context = get_context("spawn")
            self._pipe, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, *self._made_of), daemon=True)
            with _safe_path():
                process.start()
            there.close()
        try:
            self._pipe.send([tuple(page) for page in pages])
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise RuntimeError("its process ended") from error
        if isinstance(answer, str):
            raise ValueModelError(answer)
        return list(answer)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Keep a Python that is started here from importing from the working folder first."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _serve(pipe: Connection, path: str, argument: str | None) -> None:
    """Answer batches of pages with their values, or with the error as a text."""
    model = ScoredModel(path, load_own(path, argument))
    while True:
        try:
            pages = [Page(*fields) for fields in pipe.recv()]
        except EOFError:
            return
        try:
            pipe.send(model.score_all(pages))
        except ValueModelError as error:
            pipe.send(str(error))


class WordsModel:
    """Pages whose title has a term of the topic, or whose text has ten of them, are worth 1.

    Terms are comma-separated words and phrases. Fewer occurrences in the text count a tenth each. A
    page is worth 1 exactly if the hot queue of the same `TOPIC` would call it hot (Cho,
    Garcia-Molina & Page 1998, section 4.2).
    """

    runs_in = "here"

    def __init__(self, terms: str) -> None:
        self._topic = Topic(terms)

    def score_page(self, page: Page) -> float:
        """Return the value of a page. O(words x phrases)."""
        if self._topic.count(page.title):
            return 1.0
        return min(self._topic.count(page.text) / 10, 1.0)

    def score_text(self, text: str) -> float:
        """Return 1 for a text with a term, otherwise 0."""
        return float(self._topic.count(text) > 0)


K1, B = 1.2, 0.75
"""The usual constants of BM25."""

TITLE = 5
"""How often a word of the title counts."""

MOST_TERMS = 50
"""Terms taken from example pages."""


class Query:
    """BM25 of a page and a query, divided by the most that any page could get.

    The number of pages, their mean length and the number that contain each term of the query are
    counted over the pages scored so far, so a page's value depends on those before it. All are
    counts, so a resumed crawl that scores the same pages again continues as if never interrupted.

    Source: Robertson & Zaragoza, The probabilistic relevance framework: BM25 and beyond, 2009,
    section 3; `idf` is ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative. Words of the
    title count five times. Words are case-folded and not stemmed.

    A query is words, or `@FILE` or `@FOLDER`, example pages as `crawlprio value train` reads them:
    the 50 words with the largest sums of ln(1 + count) over the pages, weighted by these sums.
    """

    runs_in = "here"
    learns = True

    def __init__(self, query: str) -> None:
        if query.startswith("@"):
            self._weights = _terms_of(read_examples(Path(query[1:])))
        else:
            self._weights = dict.fromkeys(words_of(query), 1.0)
        if not self._weights:
            raise ConfigError(f"CRAWLPRIO_VALUE: the query {query!r} has no word; give some.")
        self._n_with = dict.fromkeys(self._weights, 0)
        self._n_pages = 0
        self._n_words = 0

    def score_page(self, page: Page) -> float:
        """Count a page, and return its value. O(words)."""
        words = words_of(page.text)
        counts = Counter(words)
        for word in words_of(page.title):
            counts[word] += TITLE
        self._n_pages += 1
        self._n_words += len(words)
        length = len(words) * self._n_pages / max(self._n_words, 1)
        found, most = 0.0, 0.0
        for term, weight in self._weights.items():
            count = counts[term]
            self._n_with[term] += count > 0
            n = self._n_with[term]
            idf = weight * math.log(1 + (self._n_pages - n + 0.5) / (n + 0.5))
            found += idf * count / (count + K1 * (1 - B + B * length)) if count else 0.0
            most += idf
        return min(found / most, 1.0)

    def score_text(self, text: str) -> float:
        """Return how much of the query a text has, by the weights of the words; counts nothing."""
        words = set(words_of(text))
        has = sum(weight for word, weight in self._weights.items() if word in words)
        return min(has / sum(self._weights.values()), 1.0)


def _terms_of(pages: list[Page]) -> dict[str, float]:
    """Return the terms that stand for example pages, with their weights."""
    sums: Counter[str] = Counter()
    for page in pages:
        for word, count in Counter(words_of(f"{page.title} {page.text}")).items():
            sums[word] += math.log1p(count)  # type: ignore[assignment]
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:MOST_TERMS])


class Language:
    """Pages in one of some languages have the value of another model, or 1; all others 0.

    Languages are comma-separated codes of ISO 639. A page whose text is too short to tell its
    language is worth 0. The other model sees only the pages in these languages.
    """

    needs_language = True

    def __init__(self, argument: str) -> None:
        codes, colon, inner = argument.partition(":")
        self._codes = {code.strip().lower() for code in codes.split(",")}
        any_page = SimpleNamespace(runs_in="here", score_page=lambda page: 1.0)
        self._model = model = make_model(inner) if colon else ScoredModel("any page", any_page)
        self.learns, self.runs_in = model.learns, model.runs_in
        self.batch, self.timeout = model.batch, model.timeout
        if model.judge is not None:
            self.score_text = model.judge
        unknown = sorted(self._codes - languages())
        if unknown:
            raise ConfigError(
                f"CRAWLPRIO_VALUE names the language {unknown[0]!r}, which is unknown; give codes "
                "such as de or en, as in 'language:de,en' or 'language:de:words:garten'."
            )

    def score_pages(self, pages: list[Page]) -> list[float]:
        """Return the values of pages; O(1) per page beside detection and the other model."""
        inside = [page for page in pages if page.language in self._codes]
        left = iter(self._model.score_all(inside))
        return [next(left) if page.language in self._codes else 0.0 for page in pages]


MODELS: dict[str, Callable[[str], Any]] = {
    "words": WordsModel,
    "query": Query,
    "classifier": Classifier.read,
    "fasttext": FastText,
    "language": Language,
}
"""The models that come with crawlprio: what makes each from its argument."""


def make_model(spec: object) -> ScoredModel:
    """Return the value model for CRAWLPRIO_VALUE; raise ConfigError if it cannot be had.

    It is one of `MODELS` with its argument, `FILE.json` for `classifier:FILE.json`, or the import
    path of a class, with `:ARGUMENT` if its `__init__` takes one; `language:CODES:` goes before any
    of them.
    """
    if not isinstance(spec, str) or not spec.strip():
        raise ConfigError(f"CRAWLPRIO_VALUE is {spec!r}; give {ModelName.bounds}.")
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
    given = argument if colon else None
    model = ScoredModel(spec, load_own(name, given))
    if model.runs_in not in ("here", "thread", "process"):
        raise ConfigError(
            f'CRAWLPRIO_VALUE is {spec!r}, whose runs_in is {model.runs_in!r}; give "here", '
            '"thread" or "process".'
        )
    if model.runs_in == "process":
        return ScoredModel(spec, ProcessModel(model, name, given))
    return model
