"""The ordering `value`: pages that are expected to be worth most first, learned as it crawls."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.orderings.base import ALL_PAGES, Changed, Keys, Ordering, Pages
from crawlprio.orderings.explaining import Part, made_of
from crawlprio.orderings.options import checked_number
from crawlprio.pages import NO_PAGE, PageIds, Visit

N_GROUPS = 2**20
"""Groups that a crawl can tell apart; more share, by their hash."""

N_WORDS = 8
"""Words kept of a page's first anchor text, and of its URL."""

PRIOR = (0.0, 0.4, 0.1, 0.2, 0.1, 0.05, 0.1, 0.3, 0.1, 0.0)
"""The first weights of the inputs, in the order of `_inputs`."""

INPUTS = (
    "the same for every page",
    "mean value of the pages that link to it",
    "largest value of a page that links to it",
    "mean value of the pages found with it",
    "mean value of its folder",
    "mean value of its host",
    "mean value of its URL pattern",
    "mean value of the best word of its anchor text",
    "mean value of the best word of its URL",
    "mean value of the words of its anchor text",
)
"""What the inputs are, in the same order."""

SHRINK = 2.0
"""Pages of the wider group that the mean of a group is mixed with."""

_N_INPUTS = len(PRIOR)
_HOST, _FOLDER, _PATTERN, _SOURCE, _ANCHOR = 0, 1, 2, 3, 4
_URL = _ANCHOR + N_WORDS
_WIDTH = _URL + N_WORDS

_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")

Floats = NDArray[np.float64]
Groups = NDArray[np.int32]


class Value(Ordering):
    """Pages with the largest expected value, by a linear model that learns from each fetched page.

    A waiting page belongs to groups: its host, its folder, the pattern of its URL (digits made
    equal), the page that it was first found on, each word of its first anchor text and each word of
    its URL. Each group knows the mean value of those of its pages that were fetched, mixed with the
    mean of a wider group as if it had `SHRINK` more pages of that. These means, and the mean and
    the maximum of the values of all pages that link to it, are the inputs of a linear model. It
    begins with the weights `PRIOR` and is refitted by recursive least squares after each page that
    was got or failed (a failure is worth 0; a redirect teaches nothing). Groups with few fetched
    pages get a bonus, so that no part of a web is given up on a few bad pages.

    Ours. The inputs are those of focused crawlers since Cho et al. 1998: anchor texts, URLs and the
    content of linking pages; the bonus is that of Upper Confidence Bounds (Auer, Cesa-Bianchi &
    Fischer, Machine Learning 47, 2002) without the logarithm. Needs a value model.

    Parameters
    ----------
    explore
        Weight of the bonus; default 0.1.
    strength
        How slowly the weights leave `PRIOR`: the precision that these have before the first page;
        default 200.
    every
        All keys are brought up to date each time the number of visits grew by this share; default
        0.005. Those of the pages that a visit links to always are.

    Notes
    -----
    About 0.1 ms per page. Memory: 105 bytes per page besides its key, and 16 MB for the groups.
    """

    needs_anchors = True
    needs_values = True
    option_owner = "value"

    def __init__(self, explore: float = 0.1, strength: float = 200.0, every: float = 0.005) -> None:
        owner = self.option_owner
        self._explore = checked_number(owner, "explore", explore, least=0)
        self._strength = checked_number(owner, "strength", strength, least=1e-6)
        self._every = checked_number(owner, "every", every, least=0)

    @property
    def needs_compiled(self) -> bool:
        return True

    def compile(self) -> None:
        """Compile the three loops, or load them from numba's cache."""
        groups, links = np.zeros((1, _WIDTH), dtype=np.int32), np.zeros((1, 3))
        sums, total, weights = np.ones((1, 2)), np.ones(2), np.zeros(_N_INPUTS)
        one = np.zeros(1, dtype=np.int32)
        _add_value(links, one, 0.0)
        _score(np.zeros(1), one, groups, links, sums, total, weights, 0.0)
        _learn(groups[0], links[0], 0.0, sums, total, np.eye(_N_INPUTS), weights)

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._numbers: dict[str, int] = {}
        self._sums = np.zeros((N_GROUPS, 2))  # pages of a group that were fetched, their values
        self._total = np.array([1.0, 0.05])  # the same of all pages, as if one had been worth .05
        self._weights = np.array(PRIOR)
        self._inverse = np.eye(_N_INPUTS) / self._strength
        self._groups = np.full((1024, _WIDTH), -1, dtype=np.int32)
        self._links = np.zeros(
            (1024, 3)
        )  # links from fetched pages, sum and maximum of their values
        self._is_fetched = np.zeros(1024, dtype=np.bool_)
        self._n_visits = self._due = 0
        self._watched = NO_PAGE
        self._explained: list[Part] = []

    def discover(self, first: int, last: int, visit: Visit) -> None:
        if last > len(self._groups):
            more = max(last, 2 * len(self._groups)) - len(self._groups)
            self._groups = np.pad(self._groups, ((0, more), (0, 0)), constant_values=-1)
            self._links = np.pad(self._links, ((0, more), (0, 0)))
            self._is_fetched = np.pad(self._is_fetched, (0, more))
        anchors = dict(zip(visit.targets.tolist(), visit.anchors, strict=False))
        source = self.pages.url(visit.page) if visit.page >= 0 else ""
        for page in range(first, last):
            self._set_groups(page, source, anchors.get(page, ""))
        self._score_all(np.arange(first, last, dtype=np.int32))

    def observe(self, visit: Visit) -> Changed:
        page, targets = visit.page, visit.targets
        if page < 0:
            return targets
        self._is_fetched[page] = True
        self._n_visits += 1
        if not 300 <= visit.status < 400:
            value = visit.value or 0.0
            _learn(
                self._groups[page],
                self._links[page],
                value,
                self._sums,
                self._total,
                self._inverse,
                self._weights,
            )
            _add_value(self._links, targets, value)
        if self._n_visits >= self._due:
            self._due = self._n_visits + max(4, int(self._every * self._n_visits))
            self._score_all(np.flatnonzero(~self._is_fetched[: self.n_pages]).astype(np.int32))
            return ALL_PAGES
        self._score_all(targets)
        return targets

    def watch(self, page: int) -> None:
        self._watched = page

    def explain(self, page: int) -> Part:
        return made_of("expected value", self._explained)

    def _score_all(self, pages: PageIds) -> None:
        """Bring the keys of pages up to date; note what that of the page that is watched is."""
        self._score_pages(pages)
        if self._watched != NO_PAGE and np.count_nonzero(pages == self._watched):
            self._explained = self._parts(self._watched)

    def _parts(self, page: int) -> list[Part]:
        """Return the parts of the key of a page, as if it were brought up to date now."""
        inputs, overall = np.empty(_N_INPUTS), float(self._total[1] / self._total[0])
        _inputs(self._groups[page], self._links[page], self._sums, overall, inputs)
        known = zip(INPUTS, inputs.tolist(), self._weights.tolist(), strict=True)
        groups = self._groups[page, [_SOURCE, _FOLDER]]
        n_source, n_folder = self._sums[groups, 0].tolist()
        spread = math.sqrt(overall * (1.0 - overall))
        rare = 1.0 / math.sqrt(n_source + 1.0) + 1.0 / math.sqrt(n_folder + 1.0)
        return [
            *(made_of("expected", (Part(what, x),), factor=weight) for what, x, weight in known),
            Part("bonus for a part of the web with few fetches", self._explore * spread * rare),
        ]

    def _score_pages(self, pages: PageIds) -> None:
        """Set the keys of pages."""
        _score(
            self.keys,
            pages,
            self._groups,
            self._links,
            self._sums,
            self._total,
            self._weights,
            self._explore,
        )

    def _set_groups(self, page: int, source: str, anchor: str) -> None:
        """Set the groups of a new page."""
        host, _, rest = self.pages.url(page).partition("://")[2].partition("/")
        path, mark, query = rest.partition("?")
        row, number = self._groups[page], self._number
        row[_HOST] = number(f"host {host}")
        row[_FOLDER] = number(f"folder {host}/{path.rpartition('/')[0]}")
        row[_PATTERN] = number(f"pattern {host}/{_DIGITS.sub('0', path)}{mark}")
        row[_SOURCE] = number(f"source {source}")
        for at, words in (
            (_ANCHOR, self._words(anchor)[:N_WORDS]),
            (_URL, self._words(f"{path} {query}")[-N_WORDS:]),
        ):
            row[at : at + len(words)] = words

    def _words(self, text: str) -> list[int]:
        """Return the groups of the distinct words of a text."""
        return [self._number(word) for word in dict.fromkeys(_WORD.findall(text.casefold()))]

    def _number(self, group: str) -> int:
        """Return the number of a group, from a cache of 200,000."""
        number = self._numbers.get(group)
        if number is None:
            if len(self._numbers) == 200_000:
                self._numbers.clear()
            number = self._numbers[group] = zlib.crc32(group.encode("utf-8", "replace")) % N_GROUPS
        return number


@njit(cache=True)
def _add_value(links: Floats, targets: PageIds, value: float) -> None:
    """Count a link from a page of this value for each target."""
    for target in targets:
        links[target, 0] += 1.0
        links[target, 1] += value
        links[target, 2] = max(links[target, 2], value)


@njit(cache=True)
def _mean(sums: Floats, group: int, wider: float, pages: float) -> float:
    """The mean value of a group, mixed with that of so many pages of a wider one."""
    return float((sums[group, 1] + pages * wider) / (sums[group, 0] + pages))


@njit(cache=True)
def _inputs(groups: Groups, links: Floats, sums: Floats, overall: float, inputs: Floats) -> None:
    """Set the inputs of the model for one page; `overall` is the mean value of all pages."""
    host = _mean(sums, groups[_HOST], overall, 2 * SHRINK)
    folder = _mean(sums, groups[_FOLDER], host, SHRINK)
    inputs[0] = 1.0
    inputs[1] = (links[1] + 0.5 * overall) / (links[0] + 0.5)
    inputs[2] = links[2]
    inputs[3] = _mean(sums, groups[_SOURCE], host, SHRINK)
    inputs[4] = folder
    inputs[5] = host
    inputs[6] = _mean(sums, groups[_PATTERN], folder, SHRINK)
    inputs[7] = inputs[8] = inputs[9] = overall
    for start in (_ANCHOR, _URL):
        best, total, n = 0.0, 0.0, 0
        for at in range(start, start + N_WORDS):
            if groups[at] >= 0:
                mean = _mean(sums, groups[at], overall, SHRINK)
                best, total, n = max(best, mean), total + mean, n + 1
        if n and start == _ANCHOR:
            inputs[7], inputs[9] = best, total / n
        elif n:
            inputs[8] = best


@njit(cache=True)
def _score(
    keys: Keys,
    pages: PageIds,
    groups: NDArray[np.int32],
    links: Floats,
    sums: Floats,
    total: Floats,
    weights: Floats,
    explore: float,
) -> None:
    """Set the keys of pages: expected value and bonus."""
    inputs = np.empty(_N_INPUTS)
    overall = total[1] / total[0]
    spread = math.sqrt(overall * (1.0 - overall))
    for page in pages:
        _inputs(groups[page], links[page], sums, overall, inputs)
        key = 0.0
        for at in range(_N_INPUTS):
            key += inputs[at] * weights[at]
        n_source, n_folder = sums[groups[page, _SOURCE], 0], sums[groups[page, _FOLDER], 0]
        rare = 1.0 / math.sqrt(n_source + 1.0) + 1.0 / math.sqrt(n_folder + 1.0)
        keys[page] = key + explore * spread * rare


@njit(cache=True)
def _learn(
    groups: Groups,
    links: Floats,
    value: float,
    sums: Floats,
    total: Floats,
    inverse: Floats,
    weights: Floats,
) -> None:
    """Refit the weights to the value of a fetched page, then count it in its groups."""
    inputs = np.empty(_N_INPUTS)
    _inputs(groups, links, sums, total[1] / total[0], inputs)
    gain = np.zeros(_N_INPUTS)
    expected, scale = 0.0, 1.0
    for row in range(_N_INPUTS):
        expected += inputs[row] * weights[row]
        for at in range(_N_INPUTS):
            gain[row] += inverse[row, at] * inputs[at]
    for at in range(_N_INPUTS):
        scale += inputs[at] * gain[at]
    for row in range(_N_INPUTS):
        weights[row] += gain[row] / scale * (value - expected)
        for at in range(_N_INPUTS):
            inverse[row, at] -= gain[row] * gain[at] / scale
    total[0] += 1.0
    total[1] += value
    for group in groups:
        if group >= 0:
            sums[group, 0] += 1.0
            sums[group, 1] += value
