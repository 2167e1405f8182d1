"""Orderings by the values of fetched pages: learned, with importance, and two baselines."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import njit
from crawlprio.graph.pages import PageIds, Visit
from crawlprio.orderings.base import (
    ALL_PAGES,
    Changed,
    Keys,
    Ordering,
    Pages,
    Part,
    checked_number,
    made_of,
)
from crawlprio.orderings.rankmass import RankMass

N_GROUPS = 2**20
"""Groups that a crawl can tell apart; more share, by their hash."""

N_WORDS, N_TITLE = 8, 12
"""Words kept of a page's first anchor text and of its URL, and words learned of a title."""

PRIOR = (1.0, 0.5, 0.3, 0.3, 0.15, 0.15, 0.3, 0.15, 0.1)
"""The first weights of the inputs, in the order of `_inputs`."""

INPUTS = (
    "log-odds of the mean value of all pages",
    "evidence of the pages that link to it",
    "evidence of the pages found on the same page",
    "evidence of those found just before and after it",
    "evidence of its folder",
    "evidence of its URL pattern",
    "evidence of the words of its anchor text",
    "evidence of such words in titles",
    "evidence of the words of its URL",
)
"""What the inputs are, in the same order."""

SHRINK = 2.0
"""Pages of the wider group that the mean of a group is mixed with."""

REACH = 4
"""Pages found before, and after, a page that count as found near it."""

LEAST = 1e-4
"""Means below it, or as close to 1, count as this far from 0 or 1."""

_N_INPUTS = len(PRIOR)
_HOST, _FOLDER, _PATTERN, _SOURCE, _ANCHOR = 0, 1, 2, 3, 4
_URL = _ANCHOR + N_WORDS
_WIDTH = _URL + N_WORDS
_TITLE = 0x5A5A5
"""Exclusive or of the group of a word and that of the same word in titles."""

_N_LINKS, _LINKED, _VALUE = 0, 1, 2
"""Per page: links from fetched pages, the sum of their values, its own value."""
_UNKNOWN = (0.0, 0.0, -1.0)

_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")

Floats = NDArray[np.float64]
Groups = NDArray[np.int32]


class Value(Ordering):
    """Pages with the largest expected value, by a logistic model that learns from each page.

    A waiting page belongs to groups: its host, its folder, the pattern of its URL (digits made
    equal), the page that it was first found on, each word of its first anchor text and each word of
    its URL. Each group knows the mean value of those of its pages that were fetched, mixed with the
    mean of a wider group as if it had `SHRINK` more pages of that (a host twice as many; the pages
    that link to a page, half of one). So does each word of titles. All pages begin as if one had
    been fetched that was worth 0.05.

    The evidence of a group is the log-odds of its mean less those of the mean of all pages; that of
    several words is the sum. Nothing known is no evidence, whatever the topic. The inputs of the
    model are the evidence of these groups, of the mean value of all pages that link to the page,
    and of the pages near it: those at most `REACH` places before or after it among the pages found
    on the same page, weighted by 1 / distance. They add up to the log-odds of its value, which are
    its key. The weights begin as `PRIOR`; after each page that was got or failed, an extended
    Kalman filter refits them (a failure is worth 0; a redirect teaches nothing). It takes the slope
    of the logistic curve for 0.01 at least, so that no single page throws them far. Groups with few
    fetched pages get a bonus, so that no part of a web is given up on a few bad pages.

    Ours. The inputs are those of focused crawlers since Cho et al. 1998: anchor texts, URLs and the
    content of linking pages. Adding up log-odds with learned weights is the mixing of Mattern 2012
    (Mixing strategies in data compression, DCC), by second-order steps. The bonus is that of Upper
    Confidence Bounds (Auer, Cesa-Bianchi & Fischer, Machine Learning 47, 2002) without the
    logarithm. Needs a value model.

    Parameters
    ----------
    explore
        Weight of the bonus; default 0.3.
    strength
        How slowly the weights leave `PRIOR`: the precision that these have before the first page;
        default 20.
    every
        All keys are brought up to date each time the number of visits grew by this share; default
        0.005. Those of the pages that a visit links to always are.

    Notes
    -----
    About 0.2 ms per page. Memory: 105 bytes per page besides its key, and 16 MB for the groups.
    """

    needs_anchors = True
    needs_values = True
    option_owner = "value"

    def __init__(self, explore: float = 0.3, strength: float = 20.0, every: float = 0.005) -> None:
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
        groups[:, _ANCHOR:] = -1
        sums, total, weights = np.ones((1, 2)), np.ones(2), np.array(PRIOR)
        one = np.zeros(1, dtype=np.int32)
        _add_value(links, one, 0.0)
        _score(np.zeros(1), one, groups, links, 1, sums, total, weights, 0.0)
        _learn(0, 0.0, one[:0], groups, links, 1, sums, total, np.eye(_N_INPUTS), weights)

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._numbers: dict[str, int] = {}
        self._sums = np.zeros((N_GROUPS, 2))  # pages of a group that were fetched, their values
        self._total = np.array([1.0, 0.05])  # the same of all pages, as if one had been worth .05
        self._weights = np.array(PRIOR)
        self._inverse = np.eye(_N_INPUTS) / self._strength
        self._groups = np.full((1024, _WIDTH), -1, dtype=np.int32)
        self._links = np.full((1024, 3), _UNKNOWN)
        self._is_fetched = np.zeros(1024, dtype=np.bool_)
        self._n_visits = self._due = 0

    def discover(self, first: int, last: int, visit: Visit) -> None:
        if last > len(self._groups):
            more = max(last, 2 * len(self._groups)) - len(self._groups)
            self._groups = np.pad(self._groups, ((0, more), (0, 0)), constant_values=-1)
            self._links = np.concatenate([self._links, np.full((more, 3), _UNKNOWN)])
            self._is_fetched = np.pad(self._is_fetched, (0, more))
        anchors = dict(zip(visit.targets.tolist(), visit.anchors, strict=False))
        source = self.pages.url(visit.page) if visit.page >= 0 else ""
        for page in range(first, last):
            self._set_groups(page, source, anchors.get(page, ""))
        self._score_pages(np.arange(first, last, dtype=np.int32))

    def observe(self, visit: Visit) -> Changed:
        page, targets = visit.page, visit.targets
        if page < 0:
            return targets
        self._is_fetched[page] = True
        self._n_visits += 1
        if not 300 <= visit.status < 400:
            value = visit.value or 0.0
            title = np.array(self._words(visit.title)[:N_TITLE], dtype=np.int32)
            _learn(
                page,
                value,
                title,
                self._groups,
                self._links,
                self.n_pages,
                self._sums,
                self._total,
                self._inverse,
                self._weights,
            )
            _add_value(self._links, targets, value)
        if self._n_visits >= self._due:
            self._due = self._n_visits + max(4, int(self._every * self._n_visits))
            self._score_pages(np.flatnonzero(~self._is_fetched[: self.n_pages]).astype(np.int32))
            return ALL_PAGES
        self._score_pages(targets)
        return targets

    def explain(self, page: int) -> Part:
        return made_of("log-odds of its expected value", self._parts(page))

    def _parts(self, page: int) -> list[Part]:
        """Return the parts of the key of a page, as if it were brought up to date now."""
        inputs = np.empty(_N_INPUTS)
        _inputs(page, self._groups, self._links, self.n_pages, self._sums, self._total, inputs)
        known = zip(INPUTS, inputs.tolist(), self._weights.tolist(), strict=True)
        groups = self._groups[page, [_SOURCE, _FOLDER]]
        n_source, n_folder = self._sums[groups, 0].tolist()
        rare = 1.0 / math.sqrt(n_source + 1.0) + 1.0 / math.sqrt(n_folder + 1.0)
        return [
            *(made_of("expected", (Part(what, x),), factor=weight) for what, x, weight in known),
            Part("bonus for a part of the web with few fetches", self._explore * rare),
        ]

    def _score_pages(self, pages: PageIds) -> None:
        """Set the keys of pages."""
        _score(
            self.keys,
            pages,
            self._groups,
            self._links,
            self.n_pages,
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
        links[target, _N_LINKS] += 1.0
        links[target, _LINKED] += value


@njit(cache=True)
def _mean(sums: Floats, group: int, wider: float, pages: float) -> float:
    """The mean value of a group, mixed with that of so many pages of a wider one."""
    return float((sums[group, 1] + pages * wider) / (sums[group, 0] + pages))


@njit(cache=True)
def _odds(mean: float) -> float:
    """The odds of a mean value."""
    least = min(max(mean, LEAST), 1.0 - LEAST)
    return least / (1.0 - least)


@njit(cache=True)
def _near(page: int, groups: Groups, links: Floats, n_pages: int, wider: float) -> float:
    """The mean value of the pages found near one, mixed with that of `SHRINK` of a wider group."""
    n, total = SHRINK, SHRINK * wider
    for other in range(max(0, page - REACH), min(n_pages, page + REACH + 1)):
        value = links[other, _VALUE]
        if other != page and value >= 0.0 and groups[other, _SOURCE] == groups[page, _SOURCE]:
            weight = 1.0 / abs(other - page)
            n += weight
            total += weight * value
    return float(total / n)


@njit(cache=True)
def _inputs(
    page: int,
    groups: Groups,
    links: Floats,
    n_pages: int,
    sums: Floats,
    total: Floats,
    inputs: Floats,
) -> None:
    """Set the inputs of the model for one page."""
    of, overall = groups[page], total[1] / total[0]
    base = math.log(_odds(overall))
    host = _mean(sums, of[_HOST], overall, 2 * SHRINK)
    folder = _mean(sums, of[_FOLDER], host, SHRINK)
    source = _mean(sums, of[_SOURCE], host, SHRINK)
    linked = (links[page, _LINKED] + 0.5 * overall) / (links[page, _N_LINKS] + 0.5)
    inputs[0] = base
    inputs[1] = math.log(_odds(linked)) - base
    inputs[2] = math.log(_odds(source)) - base
    inputs[3] = math.log(_odds(_near(page, groups, links, n_pages, source))) - base
    inputs[4] = math.log(_odds(folder)) - base
    inputs[5] = math.log(_odds(_mean(sums, of[_PATTERN], folder, SHRINK))) - base
    # One logarithm of a product, in place of the sum of eight.
    anchor, title, url, n_anchor, n_url = 1.0, 1.0, 1.0, 0, 0
    for at in range(N_WORDS):
        word = of[_ANCHOR + at]
        if word >= 0:
            anchor *= _odds(_mean(sums, word, overall, SHRINK))
            title *= _odds(_mean(sums, word ^ _TITLE, overall, SHRINK))
            n_anchor += 1
        word = of[_URL + at]
        if word >= 0:
            url *= _odds(_mean(sums, word, overall, SHRINK))
            n_url += 1
    inputs[6] = math.log(anchor) - n_anchor * base
    inputs[7] = math.log(title) - n_anchor * base
    inputs[8] = math.log(url) - n_url * base


@njit(cache=True)
def _score(
    keys: Keys,
    pages: PageIds,
    groups: Groups,
    links: Floats,
    n_pages: int,
    sums: Floats,
    total: Floats,
    weights: Floats,
    explore: float,
) -> None:
    """Set the keys of pages: log-odds of the expected value, and bonus."""
    inputs = np.empty(_N_INPUTS)
    for page in pages:
        _inputs(page, groups, links, n_pages, sums, total, inputs)
        key = 0.0
        for at in range(_N_INPUTS):
            key += inputs[at] * weights[at]
        n_source, n_folder = sums[groups[page, _SOURCE], 0], sums[groups[page, _FOLDER], 0]
        rare = 1.0 / math.sqrt(n_source + 1.0) + 1.0 / math.sqrt(n_folder + 1.0)
        keys[page] = key + explore * rare


@njit(cache=True)
def _learn(
    page: int,
    value: float,
    title: PageIds,
    groups: Groups,
    links: Floats,
    n_pages: int,
    sums: Floats,
    total: Floats,
    inverse: Floats,
    weights: Floats,
) -> None:
    """Refit the weights to the value of a fetched page, then count it in its groups."""
    inputs = np.empty(_N_INPUTS)
    _inputs(page, groups, links, n_pages, sums, total, inputs)
    gain = np.zeros(_N_INPUTS)
    log_odds = 0.0
    for row in range(_N_INPUTS):
        log_odds += inputs[row] * weights[row]
        for at in range(_N_INPUTS):
            gain[row] += inverse[row, at] * inputs[at]
    expected = 1.0 / (1.0 + math.exp(-min(max(log_odds, -30.0), 30.0)))
    slope = max(expected * (1.0 - expected), 0.01)
    scale = 1.0 / slope
    for at in range(_N_INPUTS):
        scale += inputs[at] * gain[at]
    for row in range(_N_INPUTS):
        weights[row] += gain[row] / scale * ((value - expected) / slope)
        for at in range(_N_INPUTS):
            inverse[row, at] -= gain[row] * gain[at] / scale
    links[page, _VALUE] = value
    total[0] += 1.0
    total[1] += value
    for group in groups[page]:
        if group >= 0:
            sums[group, 0] += 1.0
            sums[group, 1] += value
    for word in title:
        sums[word ^ _TITLE, 0] += 1.0
        sums[word ^ _TITLE, 1] += value


LEAST_MASS = 1e-12
"""Pages with less mass count as if they had this much."""


class ValueAndImportance(Value):
    """Pages with the largest expected value first, raised by the mass that reaches them.

    The key is that of `value` plus `importance` * ln(mass), where the mass is that of `rankmass`:
    the logarithm of odds * mass ** `importance`. Between two pages of equal expected value, the one
    with more mass is first.

    Ours; the sources are those of `Value` and `RankMass`. The weight was chosen on the topics that
    `benchmarks/value.py` sets apart for that.

    Parameters
    ----------
    importance
        Weight of the logarithm of the mass; default 0.2. With 0 the order is that of `value`.
    explore, strength, every
        As in `Value`.

    Notes
    -----
    The cost of `Value`, and 8 bytes per page more. The mass is that of the time at which the key
    was brought up to date.
    """

    option_owner = "value-and-importance"

    def __init__(
        self,
        importance: float = 0.2,
        explore: float = 0.3,
        strength: float = 20.0,
        every: float = 0.005,
    ) -> None:
        super().__init__(explore, strength, every)
        self._importance = checked_number(self.option_owner, "importance", importance, least=0)
        self._mass = RankMass()

    def compile(self) -> None:
        super().compile()
        self._mass.compile()

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._mass.open(pages)

    def learn(self, visit: Visit, n_pages: int, *, again: bool = False) -> Changed:
        self._mass.learn(visit, n_pages, again=again)
        return super().learn(visit, n_pages, again=again)

    def _score_pages(self, pages: PageIds) -> None:
        super()._score_pages(pages)
        self.keys[pages] += self._logarithms(pages) * self._importance

    def _parts(self, page: int) -> list[Part]:
        logarithm = Part("the logarithm of its mass", float(self._logarithms([page])[0]))
        return [*super()._parts(page), made_of("importance", (logarithm,), factor=self._importance)]

    def _logarithms(self, pages: PageIds | list[int]) -> Keys:
        """Return the logarithms of the masses of pages."""
        return np.log(np.maximum(self._mass.keys[pages], LEAST_MASS))


class BestFirst(Ordering):
    """Pages that the most valuable page links to first.

    Source: best-first search of focused crawlers (Menczer, Pant & Srinivasan, Topical web crawlers,
    ACM TOIT 4(4), 2004, section 3), with the value of a page in place of its cosine with a query.
    A redirect passes nothing on. Needs a value model (CRAWLPRIO_VALUE). O(links).
    """

    needs_values = True

    def observe(self, visit: Visit) -> Changed:
        if visit.page >= 0 and not 300 <= visit.status < 400:
            targets = visit.targets
            self.keys[targets] = np.maximum(self.keys[targets], visit.value or 0.0)
        return visit.targets


class ParentQuality(Ordering):
    """Pages whose linking pages are worth most on average first.

    Source: Pezzuti, MacAvaney & Tonellotto, Neural prioritisation for web crawling, ICTIR 2025,
    whose priority of a page comes from the quality of the pages that link to it. The mean over
    those fetched so far is our reading. A redirect counts as no page. Needs a value model
    (CRAWLPRIO_VALUE). O(links); 16 bytes per page besides the key.
    """

    needs_values = True

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._links = np.zeros((1024, 2))

    def observe(self, visit: Visit) -> Changed:
        if self.n_pages > len(self._links):
            more = max(self.n_pages, 2 * len(self._links)) - len(self._links)
            self._links = np.pad(self._links, ((0, more), (0, 0)))
        targets = visit.targets
        if visit.page >= 0 and not 300 <= visit.status < 400:
            self._links[targets] += (1.0, visit.value or 0.0)
            n_links, values = self._links[targets].T
            self.keys[targets] = values / n_links
        return targets
