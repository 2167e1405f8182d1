"""Orderings by the values of fetched pages: learned, with importance, and two baselines."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import njit
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
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
from crawlprio.web.anchors import words_of

N_GROUPS = 2**20
"""Groups that a crawl can tell apart; more share, by their hash."""

N_WORDS, MAX_OWN = 8, 20_000
"""Words kept of a page's first anchor text and of its URL; characters of title and text whose words
are learned."""

N_SOURCES = 8
"""Fetched pages kept for each page that links to it: the first ones."""

INPUTS = {
    "log-odds of the mean value of all pages": 1.0,
    "evidence of the pages that link to it": 0.5,
    "evidence of what the same pages link to": 0.3,
    "evidence of those found just before and after it": 0.3,
    "evidence of its folder": 0.15,
    "evidence of its URL pattern": 0.15,
    "evidence of the words of its anchor text": 0.3,
    "evidence of such words in texts": 0.4,
    "evidence of the words of its URL": 0.1,
    "evidence of what the model says of its anchor texts": 0.7,
    "evidence of what the model says of its URL": 0.4,
}
"""The inputs in the order of `_inputs`, each with its first weight."""

SHRINK, WORTH = 2.0, 0.2
"""The mean of a group is mixed with that of so many pages of the wider group, or with as many as
are worth `WORTH` if these are more."""

FIRST = (1.0, 0.05, 3.0)
"""Pages, their value and the new pages found on them, with which the means of all pages begin."""

TURNS, AHEAD = 10, 1e3
"""Every so many visits the page that waits longest gets a turn: so much is added to its key."""

MANY_LINKS = 20.0
"""A link from a page with so many counts half of one from a page with few."""

REACH = 4
"""Pages found before, and after, a page that count as found near it."""

LEAST = 1e-4
"""Means below it, or as close to 1, count as this far from 0 or 1."""

_N_INPUTS = len(INPUTS)
_HOST, _FOLDER, _PATTERN, _ANCHOR = 0, 1, 2, 3
_URL = _ANCHOR + N_WORDS
_WIDTH = _URL + N_WORDS
_OWN = 0x5A5A5
"""Exclusive or of the group of a word and that of the same word as a page's own."""

FEW = 0.1
"""New pages that a page is expected to show at least."""

GRADES, PROMISE = 5, 0.4
"""Classes of what the model says of a short text, besides 0; what the best is worth at first."""

_N_LINKS, _LINKED, _VALUE, _NEW, _N_TARGETS, _TARGETS, _SHOWN, _SAID = 0, 1, 2, 3, 4, 5, 6, 7
"""Per page: links from fetched pages, by weight, and the sum of their values; its own value, and
the new pages found on it; the fetched pages that it links to, the sum of their values, and of the
new pages found on them; the class of the best of its anchor texts by the value model, and that of
its URL."""
_UNKNOWN = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

_DIGITS = re.compile(r"\d+")

Floats = NDArray[np.float64]
Groups = NDArray[np.int32]


class ValueEvidence(NamedTuple):
    """What the inputs of the model are computed from, and room for those of one page."""

    groups: Groups
    links: Floats
    sources: Groups
    n_pages: int
    sums: Floats
    total: Floats
    grades: Floats
    inputs: Floats


class Value(Ordering):
    """Pages with the largest expected value, by a logistic model that learns from each page.

    A waiting page belongs to groups: its host, its folder, the pattern of its URL (digits made
    equal), each word of its first anchor text and each word of its URL. Each group knows the mean
    value of those of its pages that were fetched, mixed with the mean of a wider group as if it had
    `SHRINK` more pages of that, or as many more as are worth `WORTH`: where one page in a thousand
    is worth something, a hundred worthless ones say little. A host has twice as many. So does each
    fetched page know the mean value of the fetched pages that it links to, whichever was fetched
    first, and each word that of the pages that have it in title or text. All pages begin as if one
    had been fetched that was worth 0.05.

    If the value model can judge a short text, it says what the anchor texts and the URL of a page
    promise, in `GRADES` classes besides 0. Each class knows the mean value of its pages, and begins
    as if two had been fetched that were worth `PROMISE` of what it says.

    The evidence of a group is the log-odds of its mean less those of the mean of all pages; that of
    several words is the sum, and that of the pages that link to a page (the first `N_SOURCES`) the
    mean. Nothing known is no evidence, whatever the topic. The inputs of the model are the evidence
    of these groups; of the mean value of all pages that link to the page, mixed with half a page,
    a link from a page with n links counting as 1 / (1 + n / `MANY_LINKS`) links; and of the pages
    near it: those at most `REACH` places before or after it among the pages found on the same page,
    weighted by 1 / distance. They add up to the log-odds of its value, which are its key. The
    weights begin as in `INPUTS`; after each page that was got or failed, an extended Kalman filter
    refits them (a failure is worth 0; a redirect teaches nothing). It takes the slope of the
    logistic curve for 0.01 at least, so that no single page throws them far. Folders and linking
    pages with few fetched pages give a bonus, so that no part of a web is given up on a few bad
    pages.

    Links are worth following too: most of the value that a crawl misses at first is on pages that
    nothing fetched links to. So `discovery` times the logarithm of how many new pages a page is
    expected to show is added to its key. That is the mean of three logarithms: by its URL pattern,
    by the fetched pages that its first source links to, and by each word of its anchor text. All
    mix what their fetched pages showed with `SHRINK` pages of the folder, and add `FEW`. After each
    `TURNS` visits, the page that has waited longest gets a turn, one in its life: it comes first.

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
        How slowly the weights leave those of `INPUTS`: their precision before the first page;
        default 5.
    every
        All keys are brought up to date each time the number of visits grew by this share; default
        0.005. Those of the pages that a visit links to always are.
    discovery
        Weight of the logarithm of how many new pages a page may show; default 0.8.

    Notes
    -----
    About 0.5 ms per page, most of it for the words of its text. Memory: 181 bytes per page besides
    its key, and 24 MB for the groups.
    """

    needs_anchors = True
    needs_values = needs_texts = True
    option_owner = "value"

    def __init__(
        self,
        explore: float = 0.3,
        strength: float = 5.0,
        every: float = 0.005,
        discovery: float = 0.8,
    ) -> None:
        owner = self.option_owner
        self._explore = checked_number(owner, "explore", explore, least=0)
        self._strength = checked_number(owner, "strength", strength, least=1e-6)
        self._every = checked_number(owner, "every", every, least=0)
        self._discovery = checked_number(owner, "discovery", discovery, least=0)

    is_slow_in_python = True

    def compile(self) -> None:
        """Compile the three loops, or load them from numba's cache."""
        super().compile()
        groups, links = np.zeros((1, _WIDTH), dtype=np.int32), np.array([_UNKNOWN])
        groups[:, _ANCHOR:] = -1
        sources, one = np.full((1, N_SOURCES), -1, dtype=np.int32), np.zeros(1, dtype=np.int32)
        inputs, weights = np.empty((2, _N_INPUTS))
        means = np.ones((1, 3)), np.ones(3), self._no_grades()
        known = ValueEvidence(groups, links, sources, 1, *means, inputs)
        _add_links(0, one, links, sources, 0.0, True)
        _score(np.zeros(1), one, known, weights, 0.0, 0.0, NO_PAGE)
        _learn(0, 0.0, one[:0], known, inputs.copy(), np.eye(_N_INPUTS), weights)

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._numbers = _Numbers()
        # Pages of a group that were fetched, their values, and the new pages found on them.
        self._sums = np.zeros((N_GROUPS, 3))
        self._grades = self._no_grades()
        self._total = np.array(FIRST)  # the same of all pages
        self._weights = np.array([*INPUTS.values()])
        self._inputs, self._gain = np.empty((2, _N_INPUTS))  # room for one page, which is reused
        self._inverse = np.eye(_N_INPUTS) / self._strength
        self._groups = np.full((1024, _WIDTH), -1, dtype=np.int32)
        self._links = np.full((1024, len(_UNKNOWN)), _UNKNOWN)
        self._sources = np.full((1024, N_SOURCES), -1, dtype=np.int32)
        self._is_fetched = np.zeros(1024, dtype=np.bool_)
        self._n_visits = self._due = self._oldest = 0
        self._turn = self._words_of = NO_PAGE
        self._names: dict[int, str] = {}

    def discover(self, first: int, last: int, visit: Visit) -> None:
        if last > len(self._groups):
            more = max(last, 2 * len(self._groups)) - len(self._groups)
            self._groups = np.pad(self._groups, ((0, more), (0, 0)), constant_values=-1)
            self._links = np.concatenate([self._links, np.full((more, len(_UNKNOWN)), _UNKNOWN)])
            self._sources = np.pad(self._sources, ((0, more), (0, 0)), constant_values=-1)
            self._is_fetched = np.pad(self._is_fetched, (0, more))
        if visit.page >= 0:
            self._links[visit.page, _NEW] = np.count_nonzero(visit.targets >= first)
        anchors = dict(zip(visit.targets.tolist(), visit.anchors, strict=False))
        for page in range(first, last):
            self._set_groups(page, anchors.get(page, ""))
            if self.judge is not None:
                self._links[page, _SAID + 1] = self._grade(self.pages.url(page).partition("://")[2])
        self._score_pages(np.arange(first, last, dtype=np.int32))

    def observe(self, visit: Visit) -> Changed:
        page, targets = visit.page, visit.targets
        if page < 0:
            return targets
        self._is_fetched[page] = True
        self._n_visits += 1
        value, teaches = visit.value or 0.0, not 300 <= visit.status < 400
        if teaches:
            own = self._words(f"{visit.title} {visit.text}"[:MAX_OWN])
            self.code(_learn)(
                page, value, own, self._known(), self._gain, self._inverse, self._weights
            )
        if self.judge is not None and visit.anchors:
            said = self._links[:, _SAID]
            said[targets] = np.maximum(said[targets], [*map(self._grade, visit.anchors)])
        self.code(_add_links)(page, targets, self._links, self._sources, value, teaches)
        changed = targets
        if self._n_visits % TURNS == 0:
            changed = np.concatenate([targets, self._next_turn()])
        if self._n_visits >= self._due:
            self._due = self._n_visits + max(4, int(self._every * self._n_visits))
            self._score_pages(np.flatnonzero(~self._is_fetched[: self.n_pages]).astype(np.int32))
            return ALL_PAGES
        self._score_pages(changed)
        return changed

    def _next_turn(self) -> PageIds:
        """Give the page that waits longest its turn; return it and the page that had one."""
        before = self._turn
        while self._oldest < self.n_pages and self._is_fetched[self._oldest]:
            self._oldest += 1
        self._turn = NO_PAGE
        if self._oldest < self.n_pages:
            self._turn, self._oldest = self._oldest, self._oldest + 1  # fetched or not: one turn
        return np.array([page for page in (before, self._turn) if page >= 0], dtype=np.int32)

    def explain(self, page: int) -> Part:
        return made_of("log-odds of its expected value", self._parts(page))

    def _parts(self, page: int) -> list[Part]:
        """Return the parts of the key of a page, as if it were brought up to date now."""
        evidence = self._known()
        self.code(_inputs)(page, evidence)
        names = map("{}: {}".format, INPUTS, self._evidence(page))
        known = zip(names, self._inputs.tolist(), self._weights.tolist(), strict=True)
        new = Part("logarithm of the new pages that it may show", self.code(_shows)(page, evidence))
        return [
            *(made_of("expected", (Part(what, x),), factor=weight) for what, x, weight in known),
            Part(
                "bonus for a part of the web with few fetches",
                self._explore * self.code(_rare)(page, evidence),
            ),
            made_of("discovery", (new,), factor=self._discovery),
            Part("its turn, as it waits longest", AHEAD if page == self._turn else 0.0),
        ]

    def _evidence(self, page: int) -> list[str]:
        """Return what each input was computed from, in words."""
        row, of_page, sums = self._groups[page].tolist(), self._links[page], self._sums
        sources = [source for source in self._sources[page].tolist() if source >= 0]
        beside = range(max(0, page - REACH), min(self.n_pages, page + REACH + 1))
        near = [
            self._links[other, _VALUE]
            for other in beside
            if other != page
            and self._links[other, _VALUE] >= 0.0
            and self._sources[other, 0] == self._sources[page, 0]
        ]
        company = self._links[sources][:, [_N_TARGETS, _TARGETS]].sum(axis=0)
        said = of_page[[_SAID, _SAID + 1]].astype(int).tolist()
        linked = of_page[_LINKED] / of_page[_N_LINKS] if of_page[_N_LINKS] else 0.0
        anchor, url = row[_ANCHOR:_URL], row[_URL:]
        return [
            _worth(*(self._total - FIRST)[:2]),
            f"worth {linked:.2f} on average" if of_page[_N_LINKS] else "none",
            _worth(*company),
            _worth(len(near), sum(near)),
            *(_worth(*sums[row[group], :2]) for group in (_FOLDER, _PATTERN)),
            self._named(page, anchor),
            self._named(page, anchor, _OWN),
            self._named(page, url),
            *(
                f"{grade} of {GRADES}, {_worth(*of_grade[grade])}" if self.judge else "nothing"
                for grade, of_grade in zip(said, self._grades - self._no_grades(), strict=True)
            ),
        ]

    def _named(self, page: int, words: list[int], own: int = 0) -> str:
        """Return words of a page, with the mean value of the fetched pages that have each."""
        if self._words_of != page:  # looked up once, as a page keeps its words
            numbers = set(self._groups[page, _ANCHOR:].tolist())
            found = self._numbers.items()
            self._names = {number: word for word, number in found if number in numbers}
            self._words_of = page
        return (
            ", ".join(
                f"{self._names.get(word, 'a word')} ({_worth(*self._sums[word ^ own, :2])})"
                for word in words
                if word >= 0
            )
            or "none"
        )

    def _score_pages(self, pages: PageIds) -> None:
        bonus = self._explore, self._discovery
        self.code(_score)(self.keys, pages, self._known(), self._weights, *bonus, self._turn)

    def _known(self) -> ValueEvidence:
        of_pages = self._groups, self._links, self._sources, self.n_pages
        return ValueEvidence(*of_pages, self._sums, self._total, self._grades, self._inputs)

    def _no_grades(self) -> Floats:
        """Return pages and values of each class of anchor texts and of URLs, before any page."""
        grades = np.zeros((2, GRADES + 1, 2))
        if self.judge is not None:
            grades[:, 1:, 0] = 2.0
            grades[:, 1:, 1] = 2.0 * PROMISE * np.arange(1, GRADES + 1) / GRADES
        return grades

    def _grade(self, text: str) -> int:
        assert self.judge is not None
        return math.ceil(GRADES * self.judge(text)) if text else 0

    def _set_groups(self, page: int, anchor: str) -> None:
        host, _, rest = self.pages.url(page).partition("://")[2].partition("/")
        path, mark, query = rest.partition("?")
        row, numbers = self._groups[page], self._numbers
        row[_HOST] = numbers[f"host {host}"]
        row[_FOLDER] = numbers[f"folder {host}/{path.rpartition('/')[0]}"]
        row[_PATTERN] = numbers[f"pattern {host}/{_DIGITS.sub('0', path)}{mark}"]
        for at, words in (
            (_ANCHOR, self._words(anchor)[:N_WORDS]),
            (_URL, self._words(f"{path} {query}")[-N_WORDS:]),
        ):
            row[at : at + len(words)] = words

    def _words(self, text: str) -> Groups:
        return np.array([*map(self._numbers.__getitem__, dict.fromkeys(words_of(text)))], np.int32)


class _Numbers(dict[str, int]):
    """The numbers of groups by name; 200,000 are kept."""

    def __missing__(self, group: str) -> int:
        if len(self) == 200_000:
            self.clear()
        number = self[group] = zlib.crc32(group.encode("utf-8", "replace")) % N_GROUPS
        return number


def _worth(n: float, total: float) -> str:
    """Return the mean value of n fetched pages, in words."""
    return f"worth {total / n:.2f} on average, {n:g} fetched" if n else "none fetched"


@njit(cache=True, keeps_arrays=False)
def _add_links(
    page: int, targets: PageIds, links: Floats, sources: Groups, value: float, teaches: bool
) -> None:
    """Count the links of a fetched page for their targets, and known targets for the page."""
    weight = 1.0 / (1.0 + len(targets) / MANY_LINKS)
    for target in targets:
        if teaches:
            links[target, _N_LINKS] += weight
            links[target, _LINKED] += weight * value
        if links[target, _VALUE] >= 0.0:
            links[page, _N_TARGETS] += 1.0
            links[page, _TARGETS] += links[target, _VALUE]
            links[page, _SHOWN] += links[target, _NEW]
        for at in range(N_SOURCES):
            if sources[target, at] < 0:
                sources[target, at] = page
                break


@njit(cache=True, keeps_arrays=False)
def _mixed(n: float, total: float, wider: float, pages: float) -> float:
    """The mean of n pages, mixed with at least so many pages of a wider group."""
    more = max(pages, WORTH / max(wider, LEAST))
    return (total + more * wider) / (n + more)


@njit(cache=True, keeps_arrays=False)
def _mean(sums: Floats, group: int, wider: float, pages: float) -> float:
    return _mixed(sums[group, 0], sums[group, 1], wider, pages)


@njit(cache=True, keeps_arrays=False)
def _odds(mean: float) -> float:
    least = min(max(mean, LEAST), 1.0 - LEAST)
    return least / (1.0 - least)


@njit(cache=True, keeps_arrays=False)
def _near(page: int, known: ValueEvidence, wider: float) -> float:
    """The mean value of the pages found near one, mixed with that of a wider group."""
    n, total, links, sources = 0.0, 0.0, known.links, known.sources
    for other in range(max(0, page - REACH), min(known.n_pages, page + REACH + 1)):
        value = links[other, _VALUE]
        if other != page and value >= 0.0 and sources[other, 0] == sources[page, 0]:
            weight = 1.0 / abs(other - page)
            n += weight
            total += weight * value
    return _shown(n, total, wider)


@njit(cache=True, keeps_arrays=False)
def _inputs(page: int, known: ValueEvidence) -> None:
    """Set the inputs of the model for one page."""
    groups, links, sources, _, sums, total, grades, inputs = known
    of, overall = groups[page], total[1] / total[0]
    base = math.log(_odds(overall))
    host = _mean(sums, of[_HOST], overall, 2 * SHRINK)
    folder = _mean(sums, of[_FOLDER], host, SHRINK)
    linked = (links[page, _LINKED] + 0.5 * overall) / (links[page, _N_LINKS] + 0.5)
    # One logarithm of a product, in place of the sum of eight.
    source, first, n_sources = 1.0, host, 0
    for at in range(N_SOURCES):
        other = sources[page, at]
        if other < 0:
            break
        mean = _mixed(links[other, _N_TARGETS], links[other, _TARGETS], host, SHRINK)
        first = mean if at == 0 else first
        source *= _odds(mean)
        n_sources += 1
    inputs[0] = base
    inputs[1] = math.log(_odds(linked)) - base
    inputs[2] = (math.log(source) / n_sources if n_sources else math.log(_odds(host))) - base
    inputs[3] = math.log(_odds(_near(page, known, first))) - base
    inputs[4] = math.log(_odds(folder)) - base
    inputs[5] = math.log(_odds(_mean(sums, of[_PATTERN], folder, SHRINK))) - base
    anchor, own, url, n_anchor, n_url = 1.0, 1.0, 1.0, 0, 0
    for at in range(N_WORDS):
        word = of[_ANCHOR + at]
        if word >= 0:
            anchor *= _odds(_mean(sums, word, overall, SHRINK))
            own *= _odds(_mean(sums, word ^ _OWN, overall, SHRINK))
            n_anchor += 1
        word = of[_URL + at]
        if word >= 0:
            url *= _odds(_mean(sums, word, overall, SHRINK))
            n_url += 1
    inputs[6] = math.log(anchor) - n_anchor * base
    inputs[7] = math.log(own) - n_anchor * base
    inputs[8] = math.log(url) - n_url * base
    for at in range(2):
        grade = int(links[page, _SAID + at])
        n, worth = grades[at, grade]
        if grade == 0:
            mean = _mixed(n, worth, overall, SHRINK) if grades[at, 1, 0] else overall
        else:
            mean = (worth + 0.5 * overall) / (n + 0.5)
        inputs[9 + at] = math.log(_odds(mean)) - base


@njit(cache=True, keeps_arrays=False)
def _rare(page: int, known: ValueEvidence) -> float:
    """How little is known of the folder of a page and of what its first source links to."""
    source = known.sources[page, 0]
    n_targets = known.links[source, _N_TARGETS] if source >= 0 else 0.0
    n_folder = known.sums[known.groups[page, _FOLDER], 0]
    return 1.0 / math.sqrt(n_targets + 1.0) + 1.0 / math.sqrt(n_folder + 1.0)


@njit(cache=True, keeps_arrays=False)
def _shows(page: int, known: ValueEvidence) -> float:
    """The logarithm of how many new pages are expected on a page, and `FEW` more.

    The mean of the logarithms by its URL pattern, by what its first source links to, and by the
    words of its anchor text.
    """
    groups, links, sources, _, sums, total, _, _ = known
    of, source = groups[page], sources[page, 0]
    folder, pattern = of[_FOLDER], of[_PATTERN]
    shown = _shown(sums[folder, 0], sums[folder, 2], total[2] / total[0])
    by_pattern = math.log(_shown(sums[pattern, 0], sums[pattern, 2], shown) + FEW)
    if source < 0:
        return by_pattern
    company = math.log(_shown(links[source, _N_TARGETS], links[source, _SHOWN], shown) + FEW)
    by_words, n_words = 0.0, 0
    for word in of[_ANCHOR:_URL]:
        if word >= 0:
            by_words += math.log(_shown(sums[word, 0], sums[word, 2], shown) + FEW)
            n_words += 1
    by_words = by_words / n_words if n_words else math.log(shown + FEW)
    return (by_pattern + company + by_words) / 3.0


@njit(cache=True, keeps_arrays=False)
def _shown(n: float, total: float, wider: float) -> float:
    """The mean number of new pages on n pages, mixed with that of a wider group."""
    return (total + SHRINK * wider) / (n + SHRINK)


@njit(cache=True, keeps_arrays=False)
def _score(
    keys: Keys,
    pages: PageIds,
    known: ValueEvidence,
    weights: Floats,
    explore: float,
    discover: float,
    turn: int,
) -> None:
    """Set the keys of pages: log-odds of the expected value, bonus, discovery, and turn."""
    for page in pages:
        _inputs(page, known)
        key = 0.0
        for at in range(_N_INPUTS):
            key += known.inputs[at] * weights[at]
        key += explore * _rare(page, known)
        key += discover * _shows(page, known)
        keys[page] = key + (AHEAD if page == turn else 0.0)


@njit(cache=True, keeps_arrays=False)
def _learn(
    page: int,
    value: float,
    own: PageIds,
    known: ValueEvidence,
    gain: Floats,
    inverse: Floats,
    weights: Floats,
) -> None:
    """Refit the weights to the value of a fetched page, then count it in its groups."""
    _inputs(page, known)
    groups, links, sources, _, sums, total, grades, inputs = known
    log_odds = 0.0
    for row in range(_N_INPUTS):
        log_odds += inputs[row] * weights[row]
        gain[row] = 0.0
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
    total[2] += links[page, _NEW]
    for group in groups[page]:
        if group >= 0:
            sums[group, 0] += 1.0
            sums[group, 1] += value
            sums[group, 2] += links[page, _NEW]
    for word in own:
        sums[word ^ _OWN, 0] += 1.0
        sums[word ^ _OWN, 1] += value
    for at in range(2):
        grade = int(links[page, _SAID + at])
        grades[at, grade, 0] += 1.0
        grades[at, grade, 1] += value
    for source in sources[page]:
        if source < 0:
            break
        links[source, _N_TARGETS] += 1.0
        links[source, _TARGETS] += value
        links[source, _SHOWN] += links[page, _NEW]


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
    explore, strength, every, discovery
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
        strength: float = 5.0,
        every: float = 0.005,
        discovery: float = 0.8,
    ) -> None:
        super().__init__(explore, strength, every, discovery)
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
            self._links.resize((2 * self.n_pages, 2), refcheck=False)
        targets = visit.targets
        if visit.page >= 0 and not 300 <= visit.status < 400:
            self._links[targets] += (1.0, visit.value or 0.0)
            n_links, values = self._links[targets].T
            self.keys[targets] = values / n_links
        return targets
