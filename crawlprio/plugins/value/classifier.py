"""The value model `classifier`, a linear model over hashed words, and examples to train it by."""

from __future__ import annotations

import csv
import json
import math
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError
from crawlprio.plugins.value.model import Page, page_of
from crawlprio.safe_files import open_file
from crawlprio.web.anchors import words_of

FORMAT = "crawlprio value classifier 1"
N_FEATURES = 2**16

_FOLDS = 5

Features = tuple[list[int], list[float]]


class Classifier:
    """Logistic regression over the words of a page: the value is the probability of a positive.

    A feature is a word of the text, or of the title with a mark, hashed to one of 65,536 by CRC-32;
    its amount is ln(1 + count), and each page is scaled to unit length.
    """

    runs_in = "here"

    def __init__(self, bias: float, weights: NDArray[np.float64]) -> None:
        self._bias = bias
        self._weights: list[float] = weights.tolist()

    @classmethod
    def read(cls, path: str | Path) -> Classifier:
        """Return the model in a JSON file; raise ConfigError if it is none."""
        try:
            found: Any = json.loads(_read(Path(path)))
            if found["format"] != FORMAT:
                raise ValueError(f"format {found['format']!r}")
            weights = np.zeros(N_FEATURES)
            for feature, weight in found["weights"].items():
                weights[int(feature)] = float(weight)
            bias = float(found["bias"])
            if not np.isfinite(weights).all() or not math.isfinite(bias):
                raise ValueError("a weight that is not finite")
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ConfigError(
                f"{path} is not a classifier of crawlprio value train ({error}); train one."
            ) from None
        return cls(bias, weights)

    def write(self, path: Path) -> None:
        """Write the model as JSON, its weights to four digits after the point."""
        weights = {str(at): round(w, 4) for at, w in enumerate(self._weights) if round(w, 4)}
        model = {"format": FORMAT, "bias": round(self._bias, 4), "weights": weights}
        try:
            with open_file(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(model) + "\n")
        except OSError as error:
            raise ConfigError(f"{path} cannot be written ({error.strerror}).") from None

    def score_page(self, page: Page) -> float:
        """Return the value of a page. O(words), some 0.3 ms for 1,000."""
        weights = self._weights
        indices, amounts = features_of(page)
        score = self._bias + sum(
            weights[at] * amount for at, amount in zip(indices, amounts, strict=True)
        )
        return 1 / (1 + math.exp(-max(min(score, 700.0), -700.0)))


def features_of(page: Page) -> Features:
    """Return the features of a page and their amounts."""
    counts: Counter[str] = Counter(words_of(page.text))
    counts.update(f"title {word}" for word in words_of(page.title))
    at_feature: dict[int, float] = {}
    for word, count in counts.items():
        at = zlib.crc32(word.encode()) % N_FEATURES
        at_feature[at] = at_feature.get(at, 0.0) + math.log1p(count)
    length = math.sqrt(sum(amount * amount for amount in at_feature.values())) or 1.0
    return list(at_feature), [amount / length for amount in at_feature.values()]


def train(
    positives: Sequence[Page], negatives: Sequence[Page], strength: float = 1.0
) -> Classifier:
    """Return a classifier that tells positives from negatives; both classes weigh the same.

    Logistic regression, minimised by L-BFGS: the same examples give the same model. Its L2 penalty
    adds half of `strength` times the squared length of the weights to the summed loss of the
    examples, which weigh 100 in all.
    """
    labels = _labels(positives, negatives)
    return Classifier(*_fit(_matrix([*positives, *negatives]), labels, strength))


def cross_validate(positives: Sequence[Page], negatives: Sequence[Page]) -> float:
    """Return the area under the ROC curve on held-out examples, over five folds; NaN if too few."""
    labels = _labels(positives, negatives)
    if min(len(positives), len(negatives)) < _FOLDS:
        return math.nan
    matrix = _matrix([*positives, *negatives])
    fold = np.concatenate([np.arange(len(positives)), np.arange(len(negatives))]) % _FOLDS
    areas = []
    for held in range(_FOLDS):
        inside, outside = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        bias, weights = _fit(matrix[inside], labels[inside], 1.0)
        scores, are = matrix[outside] @ weights + bias, labels[outside] > 0
        above = scores[are][:, None] - scores[~are][None, :]
        areas.append(float(np.mean((above > 0) + 0.5 * (above == 0))))
    return float(np.mean(areas))


def _labels(positives: Sequence[Page], negatives: Sequence[Page]) -> NDArray[np.float64]:
    if not positives or not negatives:
        raise ConfigError(
            "a classifier needs positive and negative examples; one of both is empty."
        )
    return np.array([1.0] * len(positives) + [-1.0] * len(negatives))


def _matrix(pages: Sequence[Page]) -> Any:
    """Return the features of pages, one sparse row per page."""
    from scipy.sparse import csr_array

    rows = [features_of(page) for page in pages]
    starts = np.cumsum([0, *(len(indices) for indices, _ in rows)])
    indices = np.array([at for row, _ in rows for at in row], dtype=np.int64)
    amounts = np.array([amount for _, row in rows for amount in row], dtype=np.float64)
    return csr_array((amounts, indices, starts), shape=(len(pages), N_FEATURES))


def _fit(
    matrix: Any, labels: NDArray[np.float64], strength: float
) -> tuple[float, NDArray[np.float64]]:
    """Return intercept and weights of the regularised logistic regression."""
    from scipy.optimize import minimize

    seen = np.unique(matrix.indices)  # the penalty leaves all other weights at 0
    matrix = matrix[:, seen]
    share = np.where(labels > 0, 50 / (labels > 0).sum(), 50 / (labels < 0).sum())

    def loss(solution: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = solution[1:]
        margins = labels * (matrix @ weights + solution[0])
        slopes = -share * labels / (1 + np.exp(np.clip(margins, -500, 500)))
        gradient = np.concatenate([[slopes.sum()], matrix.T @ slopes + strength * weights])
        total = float(share @ np.logaddexp(0, -margins) + 0.5 * strength * weights @ weights)
        return total, gradient

    found = minimize(loss, np.zeros(len(seen) + 1), jac=True, method="L-BFGS-B")
    weights = np.zeros(N_FEATURES)
    weights[seen] = found.x[1:]
    return float(found.x[0]), weights


_HTML = (".html", ".htm", ".xhtml")


def read_examples(path: Path, store: Path | None = None) -> list[Page]:
    """Return the example pages at a path, those without any word left out.

    It may be a folder of `.html` and `.txt` files, also in its subfolders, in the order of their
    names; a `.csv` file with a column `text`, and perhaps `title` and `url`; a crawl store, whose
    pages with text all count; or, with `store`, a text file of URLs, one per line, whose pages and
    texts that crawl store has. Raise ConfigError if it has no page with a word.
    """
    if os.path.isdir(path):
        pages = _from_folder(path)
    elif path.suffix == ".csv":
        pages = _from_csv(path)
    elif store is not None:
        lines = map(str.strip, _read(path).decode("utf-8-sig", "replace").splitlines())
        wanted = dict.fromkeys(filter(None, lines))
        found = {page.url: page for page in _from_store(store) if page.url in wanted}
        pages = iter([found[url] for url in wanted if url in found])
    elif path.suffix == ".sqlite":
        pages = _from_store(path)
    else:
        raise ConfigError(
            f"{path}: give a folder of .html and .txt files, a .csv file, a crawl store, or a file "
            "of URLs and --store STORE."
        )
    kept = [page for page in pages if page.text.strip() or page.title.strip()]
    if not kept:
        raise ConfigError(f"{path} has no page with text; give at least one.")
    return kept


def _from_folder(folder: Path) -> Iterator[Page]:
    from crawlprio.web.html import parse_page

    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in _HTML:
            url = f"file://{file.name}"
            parsed = parse_page(_read(file), url, want_text=True, without_navigation=True)
            yield page_of(url, parsed.title, parsed.text)
        elif file.suffix.lower() == ".txt":
            yield page_of(f"file://{file.name}", "", _read(file).decode("utf-8", "replace"))


def _from_csv(path: Path) -> Iterator[Page]:
    csv.field_size_limit(2**27)
    reader = csv.DictReader(_read(path).decode("utf-8-sig", "replace").splitlines(keepends=True))
    if "text" not in (reader.fieldnames or ()):
        raise ConfigError(f"{path}: the first line must name a column text; it does not.")
    try:
        for row in reader:
            yield page_of(row.get("url") or "", row.get("title") or "", row["text"] or "")
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not valid CSV ({error}).") from None


def _from_store(path: Path) -> Iterator[Page]:
    from crawlprio.store import Store

    with Store.open(path, readonly=True) as store:
        urls = list(store.page_urls())
        for visit in store.visits(anchors=False):
            if visit.page >= 0 and visit.text:
                yield page_of(urls[visit.page], visit.title, visit.text)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}).") from None
