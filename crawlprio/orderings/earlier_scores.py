"""Scores of an earlier crawl, read from a crawl store, a .npz, a .csv or a dict."""

from __future__ import annotations

import csv
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crawlprio.errors import ConfigError, GraphError
from crawlprio.orderings.base import Keys

_BROKEN_NPZ = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class EarlierScores:
    """Scores in the order given, and the pages they belong to.

    Parameters
    ----------
    values
        float64, shape (n,): finite.
    by_url
        Position of each URL in `values`; None if scores are indexed by page id of a graph.
    source
        Where they were read from, for messages.
    """

    values: Keys
    by_url: dict[str, int] | None
    source: str


def read_scores(scores: str | os.PathLike[str] | Mapping[str, float]) -> EarlierScores:
    """Read the scores of an earlier crawl from a dict, or a file whose suffix gives its format.

    A file whose name ends in neither `.npz` nor `.csv` is read as a crawl store or a graph with
    URLs; the score of each page is its PageRank, to 8 significant digits.

    Raises
    ------
    ConfigError
        If `scores` is neither a dict nor the path of an existing file.
    GraphError, StoreError
        If the file cannot be read, or has no score, or one that is not a finite number.
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
    if not path.exists():
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


def _gathered(given: Iterable[tuple[str, object, str]], source: str) -> EarlierScores:
    """Collect (URL, score, location for messages); the first score of a URL counts."""
    by_url: dict[str, int] = {}
    values: list[float] = []
    for url, score, place in given:
        try:
            value = float(score)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value) or isinstance(score, bool):
            raise GraphError(f"{place}: the score is {score!r}; it must be a finite number.")
        if url not in by_url:
            by_url[url] = len(values)
            values.append(value)
    return _checked(np.array(values, dtype=np.float64), by_url, source)


def _checked(values: Keys, by_url: dict[str, int] | None, source: str) -> EarlierScores:
    """Return the scores; raise GraphError if there are none."""
    if len(values) == 0:
        raise GraphError(f"{source}: there are no scores in it; give at least one.")
    return EarlierScores(values, by_url, source)


def _csv_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield URL, score and `file:line` of each row; a first row without a number is a header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            for row in rows:
                if not row:
                    continue
                place = f"{path}:{rows.line_num}"
                if len(row) != 2:
                    raise GraphError(
                        f"{place}: expected URL,score; found {len(row)} fields (quote a URL that "
                        "has commas)."
                    )
                if rows.line_num == 1 and not _is_number(row[1]):
                    continue
                yield row[0], row[1], place
    except csv.Error as error:
        raise GraphError(f"{path}:{rows.line_num}: {error}; expected URL,score.") from None
    except UnicodeDecodeError:
        raise GraphError(f"{path} is not valid UTF-8; save it as UTF-8.") from None
    except OSError as error:
        raise GraphError(f"{path}: {error.strerror or error}; check the file.") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_npz(path: Path) -> EarlierScores:
    """Read `scores` and, if present, `urls`."""
    from crawlprio.linkgraph.unpacking import check_arrays

    try:
        with np.load(path, allow_pickle=False) as archive:
            if hasattr(archive, "zip"):
                check_arrays(path, archive, ("scores", "urls"))
            arrays = {name: archive[name] for name in ("scores", "urls") if name in archive.files}
    except (*_BROKEN_NPZ, AttributeError) as error:
        raise GraphError(f"{path} cannot be read as .npz ({error}); write it again.") from None
    if "scores" not in arrays:
        raise GraphError(f"{path} has no array scores; add one, and an array urls.")
    scores = arrays["scores"]
    if scores.ndim != 1 or scores.dtype.kind not in "fiu":
        raise GraphError(
            f"{path}: scores is {scores.dtype} of shape {scores.shape}; it must be a "
            "one-dimensional array of numbers."
        )
    values = scores.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise GraphError(f"{path}: score {bad[0]} is {values[bad[0]]}; all must be finite numbers.")
    if "urls" not in arrays:
        return _checked(values, None, str(path))
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
    from crawlprio.linkgraph import read_graph
    from crawlprio.ranking.pagerank import pagerank, round_significant

    graph = read_graph(path)
    if graph.urls is None:
        raise GraphError(f"{path} has no URLs; give a crawl store, a .npz with scores or a .csv.")
    ranks = round_significant(pagerank(graph.indptr, graph.indices))
    pairs = zip(graph.urls, ranks.tolist(), strict=True)
    return _gathered(((url, rank, str(path)) for url, rank in pairs), str(path))
