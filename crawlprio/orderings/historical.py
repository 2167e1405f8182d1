"""PageRank of an earlier crawl as the ordering of a later one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.arrays import numbers
from crawlprio.graph.compiled import Addresses, njit
from crawlprio.graph.link_tables import csv_records
from crawlprio.graph.npz import read_arrays
from crawlprio.graph.pages import PageIds, Visit
from crawlprio.orderings.base import (
    CompiledOrdering,
    KeyHistory,
    Keys,
    Pages,
    Part,
    checked_seed,
    uniform,
)
from crawlprio.orderings.baseline import keep_zero
from crawlprio.safe_files import is_missing


@dataclass(frozen=True)
class EarlierScores:
    """Scores in the order given, and the pages they belong to; GraphError if there are none.

    `by_url` has the position of each URL in `values`, or is None if these are by page id of a
    graph; `source` says where they were read from, for messages.
    """

    values: Keys
    by_url: dict[str, int] | None
    source: str

    def __post_init__(self) -> None:
        if len(self.values) == 0:
            raise GraphError(f"{self.source}: there are no scores in it; give at least one.")


def read_scores(scores: str | os.PathLike[str] | Mapping[str, float]) -> EarlierScores:
    """Read the scores of an earlier crawl from a dict, or a file whose suffix gives its format.

    A file whose name ends in neither `.npz` nor `.csv` is read as a crawl store or a graph with
    URLs; the score of each page is its PageRank, to 8 significant digits. Raises ConfigError for
    what is neither a dict nor the path of a file, and GraphError or StoreError for a file that
    cannot be read, or has no score, or one that is not a finite number.
    """
    if isinstance(scores, Mapping):
        given = ((str(url), score, f"scores of {url!r}") for url, score in scores.items())
        return _gathered(given, "ORDERING_OPTIONS")
    if not isinstance(scores, str | os.PathLike) or not str(scores):
        raise ConfigError(
            f"ORDERING_OPTIONS of historical-pagerank: scores is {scores!r}; give the path of a "
            "crawl store, a .npz or a .csv, or a dict of URL -> score."
        )
    path = Path(scores)
    if is_missing(path):
        raise ConfigError(
            f"ORDERING_OPTIONS of historical-pagerank: scores is {str(path)!r}, but there is no "
            "such file; give a crawl store, a .npz or a .csv."
        )
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return _gathered(_csv_rows(path), str(path))
    if suffix == ".npz":
        return _read_npz(path)
    return _read_store(path)


def _gathered(given: Iterable[tuple[str, Any, str]], source: str) -> EarlierScores:
    """Collect (URL, score, location for messages); the first score of a URL counts."""
    by_url: dict[str, int] = {}
    values: list[float] = []
    for url, score, place in given:
        value = math.nan
        if _is_number(score) and not isinstance(score, bool):
            value = float(score)
        if not math.isfinite(value):
            raise GraphError(f"{place}: the score is {score!r}; it must be a finite number.")
        if url not in by_url:
            by_url[url] = len(values)
            values.append(value)
    return EarlierScores(np.array(values, dtype=np.float64), by_url, source)


def _csv_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield URL, score and `file:line` of each row; a first row without a number is a header."""
    for line, row in csv_records(path):
        if row and len(row) != 2:
            raise GraphError(
                f"{path}:{line}: expected URL,score; found {len(row)} fields (quote a URL that has "
                "commas)."
            )
        if row and (line > 1 or _is_number(row[1])):
            yield row[0], row[1], f"{path}:{line}"


def _is_number(score: Any) -> bool:
    try:
        float(score)
    except (TypeError, ValueError):
        return False
    return True


def _read_npz(path: Path) -> EarlierScores:
    """Read `scores` and, if present, `urls`."""
    arrays, _ = read_arrays(path, ("scores", "urls"))
    if "scores" not in arrays:
        raise GraphError(f"{path} has no array scores; add one, and an array urls.")
    values = numbers(f"{path}: scores", arrays["scores"])
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise GraphError(f"{path}: score {bad[0]} is {values[bad[0]]}; all must be finite numbers.")
    if "urls" not in arrays:
        return EarlierScores(values, None, str(path))
    urls = arrays["urls"]
    if urls.shape != values.shape or urls.dtype.kind != "U":
        raise GraphError(
            f"{path}: urls is {urls.dtype} of shape {urls.shape}; it must hold one string per "
            f"score, {len(values)}."
        )
    return _gathered(
        (
            (url, score, str(path))
            for url, score in zip(urls.tolist(), values.tolist(), strict=True)
        ),
        str(path),
    )


def _read_store(path: Path) -> EarlierScores:
    """Compute the PageRank of the pages of an earlier crawl."""
    from crawlprio.ranking.pagerank import pagerank, round_significant
    from crawlprio.store.graph_files import read_graph

    graph = read_graph(path)
    if graph.urls is None:
        raise GraphError(f"{path} has no URLs; give a crawl store, a .npz with scores or a .csv.")
    ranks = round_significant(pagerank(graph.indptr, graph.indices))
    pairs = zip(graph.urls, ranks.tolist(), strict=True)
    return _gathered(((url, rank, str(path)) for url, rank in pairs), str(path))


NEW = ("zero", "random", "parent", "omniscient")
"""The rules for a page without an earlier score."""


@njit(cache=True)
def score_new(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """A page without a score gets 0, a score drawn at random, or a share of its parent's key.

    `numbers`: index into `NEW`; seed of the draws; all scores.
    """
    keys[first:last] = 0.0
    if numbers[0] == 1:
        n_scores = len(numbers) - 2
        for new in range(first, last):
            keys[new] = numbers[2 + int(uniform(int(numbers[1]), new) * n_scores)]
    elif numbers[0] == 2 and page >= 0 and len(targets) > 0:
        keys[first:last] = keys[page] / len(targets)
    return 0


class ScoredOrdering(CompiledOrdering):
    """An ordering whose keys are external scores, or else the first keys given by its rule.

    A class that sets a rule defines both `score_of` and `first_scores`, which must agree.
    """

    def score_of(self, page: int) -> float:
        """Return the score of a page, or NaN if it has none and the rule for new pages decides."""
        raise NotImplementedError

    def discover(self, first: int, last: int, visit: Visit) -> None:
        super().discover(first, last, visit)
        for page in range(first, last):
            score = self.score_of(page)
            if not math.isnan(score):
                self.keys[page] = score


class Omniscient(ScoredOrdering):
    """Pages by their true PageRank in the whole graph, which no real crawl can know.

    Greedy among the pages seen, so it is not an upper bound; that is all pages sorted by PageRank.

    Source: Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling algorithms for Web crawling, LA-WEB
    2004, section V ("Optimal"); Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW
    2005, section 4.3. It needs the whole graph: a simulation, a replay or the demo web.
    """

    rule = keep_zero
    needs_truth = True

    def score_of(self, page: int) -> float:
        return self.truth(page)

    def explain(self, page: int) -> Part:
        return Part("its PageRank in the whole graph", float(self.keys[page]))

    def first_scores(
        self, n_pages: int, urls: Sequence[str] | None, truth: Keys | None = None
    ) -> Keys:
        assert truth is not None
        return truth


class HistoricalPageRank(ScoredOrdering):
    """Pages by the score that an earlier crawl gave them; four rules for pages new since then.

    Source: Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005, section 4.2
    ("Historical-pagerank").

    Parameters
    ----------
    scores
        The earlier scores, finite numbers: a crawl store, whose PageRank is computed; a `.npz`
        with arrays `scores` and `urls`, or `scores` alone, by page id, for a simulation on a graph;
        a `.csv` with a URL and a score per line; or a dict of URL -> score. If a URL occurs twice,
        its first score counts. URLs must match exactly.
    new
        Key of a page without a score. "zero" (the default): 0. "random": a score drawn from the
        earlier ones when the page is discovered. "parent": the key of the page on which its link
        was first found, divided by that page's number of links; 0 for a seed. "omniscient": its
        PageRank in the whole graph.
    seed
        Seed of the draws; whole number of 0 or more, below 2**53; default 0.

    Raises
    ------
    ConfigError
        If an option is invalid.
    GraphError, StoreError
        If a file cannot be read, or has no score, or one that is not a finite number.
    """

    rule = score_new

    def __init__(
        self,
        scores: str | os.PathLike[str] | Mapping[str, float] | None = None,
        new: str = "zero",
        seed: int = 0,
    ) -> None:
        if scores is None:
            raise ConfigError(
                "ORDERING_OPTIONS of historical-pagerank: scores is missing; give a file with the "
                "scores of an earlier crawl: its crawl store, a .npz or a .csv."
            )
        if new not in NEW:
            raise ConfigError(
                f"ORDERING_OPTIONS of historical-pagerank: new is {new!r}; give one of "
                f"{', '.join(NEW)}."
            )
        self._seed = checked_seed("historical-pagerank", seed)
        self._new = NEW.index(new)
        self.needs_truth = new == "omniscient"
        self._earlier: EarlierScores = read_scores(scores)

    def first_numbers(self) -> Keys:
        return np.concatenate([[self._new, self._seed], self._earlier.values])

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._graph_page: Callable[[int], int] | None = None
        if self._earlier.by_url is None:
            self._graph_page = getattr(pages, "graph_page", None)
            if self._graph_page is None:
                raise ConfigError(
                    f"{self._earlier.source}: its scores are indexed by page id, which only a "
                    "simulation knows; add an array urls."
                )

    def score_of(self, page: int) -> float:
        earlier = self._earlier_score(page)
        return self.truth(page) if self.needs_truth and math.isnan(earlier) else earlier

    def _earlier_score(self, page: int) -> float:
        """Return the score that the earlier crawl gave a page, or NaN."""
        scores = self._earlier
        if scores.by_url is not None:
            at = scores.by_url.get(self.pages.url(page), -1)
        else:
            assert self._graph_page is not None
            at = self._graph_page(page)
        return float(scores.values[at]) if 0 <= at < len(scores.values) else math.nan

    def explain_history(self, history: KeyHistory) -> Part:
        key, new = history.key, NEW[self._new]
        if not math.isnan(self._earlier_score(history.page)):
            return Part("its score in the earlier crawl", key)
        if new == "omniscient":
            return Part("its PageRank in the whole graph", key)
        if new == "parent" and history.found.page >= 0:
            giver, of_giver, n_links, _ = history.found
            what = f"its key, over {n_links:,} links"
            return Part(what, of_giver / n_links if n_links else 0.0, giver)
        what = "a score drawn from the earlier ones" if new == "random" else "nothing"
        return Part(f"{what}: it has none of its own", key)

    def first_scores(
        self, n_pages: int, urls: Sequence[str] | None, truth: Keys | None = None
    ) -> Keys:
        known = np.full(n_pages, np.nan) if truth is None or not self.needs_truth else truth.copy()
        by_url, values = self._earlier.by_url, self._earlier.values
        if by_url is None:
            n = min(n_pages, len(values))
            known[:n] = values[:n]
            return known
        self.check_known(urls)
        for page, url in enumerate(urls or ()):
            at = by_url.get(url, -1)
            if at >= 0:
                known[page] = values[at]
        return known

    def check_known(self, urls: Iterable[str] | None) -> None:
        """Raise ConfigError if scores are by URL and no page of a graph with these URLs has one."""
        by_url = self._earlier.by_url
        if by_url is None:
            return
        if urls is None:
            raise ConfigError(
                f"{self._earlier.source} has scores by URL, but the graph has no URLs; give a .npz "
                "with scores by page id."
            )
        if not any(url in by_url for url in urls):
            raise ConfigError(
                f"{self._earlier.source} has scores of {len(by_url)} URLs, none of which is in the "
                "graph; give the scores of an earlier crawl of the same pages."
            )
