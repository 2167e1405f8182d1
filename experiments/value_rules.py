"""Try other rules for the ordering `value` on recorded webs, in a compiled crawl; run by hand.

    python experiments/value_rules.py FOLDER [--judges] [--batches]

FOLDER has a crawl store with texts for each web of `TUNING`, `SET_ASIDE` and `JUDGES` of
`value_split.py`, or of its later judges, as `build` of `benchmarks/value_webs.py` writes it:
NAME.sqlite. A web without a store is left out, and so is one of whose start a single page can be
reached. Topics are those of `value_split.py`, drawn by `topics_of` where it says so.

Each rule of `RULES`, or of `BATCHES`, crawls each topic from the home page and from random pages,
as many as it takes to reach half of the web. Keys are brought up to date as in the package, whose
functions compute the inputs. Printed are the share of all value found after 10, 20 and 40 % of the
pages, and what that closes of the distance from the hot queue to the oracle.
`experiments/value_rules.md` has what came of it.
"""

from __future__ import annotations

import argparse
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from value_split import BATCH_JUDGES, HOT, JUDGES, LATER_JUDGES, LONG, SET_ASIDE, TUNING, topics_of

from crawlprio.graph.compiled import load, njit
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.measure.crawl_order import reachable
from crawlprio.orderings import make_ordering
from crawlprio.plugins.value import orderings as package
from crawlprio.plugins.value.model import Page, ScoredModel, page_of
from crawlprio.plugins.value.models import make_model
from crawlprio.plugins.value.orderings import (
    AHEAD,
    FIRST,
    GRADES,
    INPUTS,
    N_GROUPS,
    N_SOURCES,
    N_WORDS,
    PROMISE,
    SHRINK,
    _add_links,
    _inputs,
    _learn,
    _mixed,
    _odds,
    _shows,
)
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.simulator.timed import crawl_order
from crawlprio.store import Store
from crawlprio.web.anchors import words_of

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]

MARKS = (0.1, 0.2, 0.4)
N_INPUTS, N_MORE, WIDTH = len(INPUTS), 22, package._WIDTH
ANCHOR, URL, SAID = package._ANCHOR, package._URL, package._SAID
OWN = package._OWN
VALUE, NEW, N_TARGETS = package._VALUE, package._NEW, package._N_TARGETS


class Rule(NamedTuple):
    """A rule: the options of the package's ordering, and what else was tried."""

    every: float = 0.02
    strength: float = 5.0
    discovery: float = 0.8
    learned: float = 0.5
    """Share of the learned weights in a key; the rest are the first ones."""
    explore: float = 0.0
    """Weight of a bonus for folders and linking pages with few fetched pages."""
    turns: float = 10.0
    """Visits after which the page that waits longest gets its turn; 0: never."""
    dense: float = 0.0
    """Power of one less the mean value, by which discovery is multiplied."""
    means: float = 0.0
    """1: words of anchor texts and their likes in texts count by their mean, not their sum."""
    batch: float = 0.0
    """Share by which the visits grow before the weights are fitted anew to all of them, instead of
    after each visit to that one; 0: never."""
    more: float = 0.0
    """1: a batch has the further inputs of `_more` too."""
    window: float = 0.0
    """Share of the visits that a batch leaves out, the first ones."""


VALUE_RULE = Rule(learned=1.0, explore=0.3)
MEANS = (1.0, 0.5, 0.3, 0.3, 0.15, 0.5, 0.6, 0.8, 0.2, 0.7, 0.4)
"""First weights for means of words, as the ranks of waiting pages have them."""

RULES = {
    "value": VALUE_RULE,
    "value, keys every .5 %": VALUE_RULE._replace(every=0.005),
    "first weights alone": VALUE_RULE._replace(learned=0.0),
    **{f"strength {s}": VALUE_RULE._replace(strength=s) for s in (1, 20, 100, 500)},
    **{f"learned {s}": VALUE_RULE._replace(learned=s) for s in (0.25, 0.5, 0.75)},
    "strength 100, no bonus": VALUE_RULE._replace(strength=100, explore=0),
    "candidate: learned .5, no bonus": Rule(),
    "candidate, keys every .5 %": Rule(every=0.005),
    "strength 50, keys every 4 %": VALUE_RULE._replace(strength=50, every=0.04),
    "the same, means of words": VALUE_RULE._replace(strength=50, every=0.04, means=1),
    "candidate, less discovery where value is dense": Rule(dense=1),
}
BATCHES = {
    "value": VALUE_RULE,
    "batches, all pages": VALUE_RULE._replace(batch=0.1),
    "batches, the later half": VALUE_RULE._replace(batch=0.1, window=0.5),
    "more inputs, all pages": VALUE_RULE._replace(batch=0.1, more=1, strength=20),
    "more inputs, the later half": VALUE_RULE._replace(batch=0.1, more=1, window=0.5, strength=20),
}
"""Rules whose weights are fitted in batches, against `value`."""


@njit(cache=True)
def _rare(page: int, groups: Numbers, links: Floats, sources: Numbers, sums: Floats) -> float:
    """How little is known of the folder of a page and of what its first source links to."""
    source = sources[page, 0]
    n_targets = links[source, N_TARGETS] if source >= 0 else 0.0
    return 1.0 / math.sqrt(n_targets + 1.0) + 1.0 / math.sqrt(sums[groups[page, 1], 0] + 1.0)


@njit(cache=True)
def _mean_words(page: int, groups: Numbers, inputs: Floats) -> None:
    """Turn sums over the words of an anchor text into means."""
    n_words = 0
    for word in groups[page, ANCHOR:URL]:
        n_words += word >= 0
    if n_words:
        inputs[6] /= n_words
        inputs[7] /= n_words


@njit(cache=True)
def _crawl(
    indptr: NDArray[np.int64],
    indices: Numbers,
    anchors: Numbers,
    places: Numbers,
    urls: Numbers,
    ends: NDArray[np.int64],
    own: Numbers,
    said_anchor: NDArray[np.int64],
    said_url: NDArray[np.int64],
    grades: Floats,
    values: Floats,
    seeds: Numbers,
    budget: int,
    first: Floats,
    rule: tuple[float, ...],
) -> Numbers:
    """Crawl a web; return the pages in order."""
    every, strength, discovery, learned, explore, turns, dense, means, batch, more, window = rule
    n, n_inputs = len(values), len(first)
    local, graph = np.full(n, -1, np.int32), np.zeros(n, np.int32)
    groups, links = np.full((n, WIDTH), -1, np.int32), np.zeros((n, 9))
    links[:, VALUE] = -1.0
    sources, fetched = np.full((n, N_SOURCES), -1, np.int32), np.zeros(n, np.bool_)
    sums, total = np.zeros((N_GROUPS, 3)), np.array(FIRST)
    weights, inverse = first.copy(), np.eye(n_inputs) / strength
    keys, inputs, unused = np.full(n, -np.inf), np.empty(n_inputs), np.zeros(N_INPUTS)
    rows, taught, fit_due = np.empty((budget, n_inputs)), np.empty(budget), 10
    # The package's function counts a page after it has learned from it; with no uncertainty it
    # learns nothing, so that the same function serves when the inputs are others.
    certain, room, gain = np.zeros((N_INPUTS, N_INPUTS)), np.zeros(N_INPUTS), np.zeros(N_INPUTS)
    changed, order = np.empty(n + 2, np.int32), np.empty(budget, np.int32)
    n_known, n_visits, due, oldest, turn = 0, 0, 0, 0, -1
    for page in seeds:
        if local[page] < 0:
            local[page], graph[n_known] = n_known, page
            groups[n_known, :ANCHOR], groups[n_known, URL:] = places[page], urls[page]
            links[n_known, SAID + 1] = said_url[page]
            n_known += 1
    n_changed = n_known
    changed[:n_known] = np.arange(n_known)
    while n_visits < budget:
        now = discovery * (1.0 - total[1] / total[0]) ** dense
        in_keys = learned * weights + (1.0 - learned) * first
        for page in changed[:n_changed]:
            if fetched[page]:
                continue
            _inputs(page, groups, links, sources, n_known, sums, total, grades, inputs)
            if means:
                _mean_words(page, groups, inputs)
            if more:
                _more(page, groups, links, sources, n_known, sums, total, inputs)
            key = 0.0
            for at in range(n_inputs):
                key += inputs[at] * in_keys[at]
            if explore:
                key += explore * _rare(page, groups, links, sources, sums)
            key += now * _shows(page, groups, links, sources, sums, total)
            keys[page] = key + (AHEAD if page == turn else 0.0)
        best = -1
        for page in range(n_known):
            if not fetched[page] and (best < 0 or keys[page] > keys[best]):
                best = page
        if best < 0:
            break
        page = graph[best]
        order[n_visits], fetched[best] = page, True
        n_visits, value, n_changed, n_before = n_visits + 1, values[page], 0, n_known
        for link in range(indptr[page], indptr[page + 1]):
            target = indices[link]
            if local[target] < 0:
                local[target], graph[n_known] = n_known, target
                groups[n_known, :ANCHOR], groups[n_known, URL:] = places[target], urls[target]
                groups[n_known, ANCHOR:URL] = anchors[link]
                links[n_known, SAID + 1] = said_url[target]
                n_known += 1
            changed[n_changed] = local[target]
            n_changed += 1
        links[best, NEW] = n_known - n_before
        _inputs(best, groups, links, sources, n_known, sums, total, grades, inputs)
        if means:
            _mean_words(best, groups, inputs)
        if more:
            _more(best, groups, links, sources, n_known, sums, total, inputs)
        rows[n_visits - 1], taught[n_visits - 1] = inputs, value
        if batch == 0:
            _refit(inputs, value, inverse, weights)
        elif n_visits >= fit_due:
            fit_due = n_visits + max(4, int(batch * n_visits))
            left_out = int(window * n_visits)
            _fit(rows[left_out:n_visits], taught[left_out:n_visits], first, strength, weights)
        words = own[ends[page] : ends[page + 1]]
        known = groups, links, sources, n_known, sums, total, grades
        _learn(best, value, words, *known, room, gain, certain, unused)
        for link in range(indptr[page], indptr[page + 1]):
            target = local[indices[link]]
            links[target, SAID] = max(links[target, SAID], said_anchor[link])
        _add_links(best, changed[:n_changed].copy(), links, sources, value, True)
        if turns and n_visits % turns == 0:
            if turn >= 0:
                changed[n_changed] = turn
                n_changed += 1
            while oldest < n_known and fetched[oldest]:
                oldest += 1
            turn = -1
            if oldest < n_known:
                turn, changed[n_changed] = oldest, oldest
                oldest, n_changed = oldest + 1, n_changed + 1
        if n_visits >= due:
            due, n_changed = n_visits + max(4, int(every * n_visits)), 0
            for waiting in range(n_known):
                if not fetched[waiting]:
                    changed[n_changed] = waiting
                    n_changed += 1
    return order[:n_visits]


@njit(cache=True)
def _refit(inputs: Floats, value: float, inverse: Floats, weights: Floats) -> None:
    """Refit the weights to the value of a page, as the package does."""
    gain, log_odds, n_inputs = np.zeros(len(inputs)), 0.0, len(inputs)
    for row in range(n_inputs):
        log_odds += inputs[row] * weights[row]
        for at in range(n_inputs):
            gain[row] += inverse[row, at] * inputs[at]
    expected = 1.0 / (1.0 + math.exp(-min(max(log_odds, -30.0), 30.0)))
    slope = max(expected * (1.0 - expected), 0.01)
    scale = 1.0 / slope
    for at in range(n_inputs):
        scale += inputs[at] * gain[at]
    for row in range(n_inputs):
        weights[row] += gain[row] / scale * ((value - expected) / slope)
        for at in range(n_inputs):
            inverse[row, at] -= gain[row] * gain[at] / scale


@njit(cache=True)
def _fit(rows: Floats, values: Floats, first: Floats, strength: float, weights: Floats) -> None:
    """Fit the weights to the values of pages by their inputs, drawn to the first weights.

    Logistic regression by Newton's method, from the weights as they are; `strength` times half of
    the squared distance from the first weights is added to the loss.
    """
    for _ in range(12):
        slopes = strength * np.eye(len(weights))
        gradient = strength * (weights - first)
        for at in range(len(rows)):
            log_odds = min(max((rows[at] * weights).sum(), -30.0), 30.0)
            expected = 1.0 / (1.0 + math.exp(-log_odds))
            gradient += (expected - values[at]) * rows[at]
            slope = max(expected * (1.0 - expected), 0.01)
            for row in range(len(weights)):
                slopes[row] += slope * rows[at, row] * rows[at]
        step = np.linalg.solve(slopes, gradient)
        weights -= step
        if np.abs(step).max() < 1e-3:
            break


@njit(cache=True)
def _evidence(n: float, worth: float, overall: float, pages: float) -> float:
    """The log-odds of the mean of a group, less those of the mean of all pages."""
    mean = _mixed(n, worth, overall, pages)
    return math.log(_odds(mean)) - math.log(_odds(overall))


@njit(cache=True)
def _more(
    page: int,
    groups: Numbers,
    links: Floats,
    sources: Numbers,
    n_pages: int,
    sums: Floats,
    total: Floats,
    inputs: Floats,
) -> None:
    """Set the further inputs of a page, after those of the package.

    The mean, the largest and the least evidence of the words of its anchor text, of such words in
    texts, and of the words of its URL; the numbers of both kinds of words; the evidence of its
    host; those of the largest and of the first value of a linking page; links to it, by weight, and
    linking pages; what is unknown of its folder and of its first linking page; the new pages
    expected on it; what the model says of it; and how early it was found.
    """
    overall, at = total[1] / total[0], N_INPUTS
    for first, last, own in ((ANCHOR, URL, 0), (ANCHOR, URL, OWN), (URL, WIDTH, 0)):
        n, mean, most, least = 0, 0.0, 0.0, 0.0
        for word in groups[page, first:last]:
            if word >= 0:
                of = sums[word ^ own]
                evidence = _evidence(of[0], of[1], overall, SHRINK)
                most = evidence if n == 0 else max(most, evidence)
                least = evidence if n == 0 else min(least, evidence)
                mean += evidence
                n += 1
        inputs[at], inputs[at + 1], inputs[at + 2] = mean / max(n, 1), most, least
        at += 3
        if not own:
            inputs[at] = math.log(1.0 + n)
            at += 1
    host = sums[groups[page, 0]]
    inputs[at] = _evidence(host[0], host[1], overall, SHRINK)
    largest, first_value, n_sources = -1.0, -1.0, 0
    for source in sources[page]:
        if source >= 0:
            worth = links[source, VALUE]
            first_value = worth if n_sources == 0 else first_value
            largest = max(largest, worth)
            n_sources += 1
    inputs[at + 1] = _evidence(1.0, largest, overall, 0.5) if largest >= 0 else 0.0
    inputs[at + 2] = _evidence(1.0, first_value, overall, 0.5) if first_value >= 0 else 0.0
    inputs[at + 3] = math.log(1.0 + links[page, 0])
    inputs[at + 4] = math.log(1.0 + n_sources)
    n_targets = links[sources[page, 0], N_TARGETS] if n_sources else 0.0
    inputs[at + 5] = 1.0 / math.sqrt(sums[groups[page, 1], 0] + 1.0)
    inputs[at + 6] = 1.0 / math.sqrt(n_targets + 1.0)
    inputs[at + 7] = _shows(page, groups, links, sources, sums, total)
    inputs[at + 8] = links[page, SAID] / GRADES
    inputs[at + 9] = links[page, SAID + 1] / GRADES
    inputs[at + 10] = 1.0 - page / n_pages


class Web:
    """A recorded web: its links, with words by number, and its texts."""

    def __init__(self, path: Path) -> None:
        self.name, self.path = path.stem, path
        with Store.open(path, readonly=True) as store:
            self.graph: LinkGraph = store.link_graph()
            self.seeds = list(store.seeds())
            urls = list(store.page_urls())
            self.pages = [page_of(url, "", "") for url in urls]
            anchors = [""] * self.graph.n_links
            for visit in store.visits():
                if visit.page >= 0:
                    url = urls[visit.page]
                    self.pages[visit.page] = page_of(url, visit.title, visit.text)
                    start, end = self.graph.indptr[visit.page : visit.page + 2]
                    texts = visit.anchors or [""] * len(visit.targets)
                    of_target = dict(zip(visit.targets.tolist(), texts, strict=True))
                    row = self.graph.indices[start:end].tolist()
                    anchors[start:end] = [of_target.get(target, "") for target in row]
        self.anchor_texts = anchors
        self.url_texts = [url.partition("://")[2] for url in urls]
        self._number_words(urls)

    def _number_words(self, urls: list[str]) -> None:
        """Number the words and groups as the package does."""
        number = cache(_number)

        def first(text: str, where: slice) -> list[int]:
            words = [number(word) for word in dict.fromkeys(words_of(text))][where]
            return words + [-1] * (N_WORDS - len(words))

        head, tail = slice(N_WORDS), slice(-N_WORDS, None)
        self.anchors = np.array(
            [first(text, head) for text in self.anchor_texts], np.int32
        ).reshape(-1, N_WORDS)
        places, words = [], []
        for url in urls:
            host, _, rest = url.partition("://")[2].partition("/")
            path, mark, query = rest.partition("?")
            folder, pattern = path.rpartition("/")[0], re.sub(r"\d+", "0", path) + mark
            named = (f"host {host}", f"folder {host}/{folder}", f"pattern {host}/{pattern}")
            places.append([_number(name) for name in named])
            words.append(first(f"{path} {query}", tail))
        self.places, self.urls = np.array(places, np.int32), np.array(words, np.int32)
        rows = [
            sorted({number(word) for word in words_of(text)})
            for page in self.pages
            for text in [f"{page.title} {page.text}"[: package.MAX_OWN]]
        ]
        self.ends = np.cumsum([0, *map(len, rows)])
        self.own = np.array([word for row in rows for word in row], np.int32)

    def starts(self) -> list[list[int]]:
        """Return the home pages, and random pages that reach half as much."""
        draw, start = np.random.default_rng(5), list[int]()
        least = reachable(self.graph, self.seeds).sum() / 2
        while not start or reachable(self.graph, start).sum() < least:
            start.append(int(draw.integers(self.graph.n_pages)))
        return [self.seeds, list(dict.fromkeys(start))]

    def values(self, score: Callable[[Page], float]) -> Floats:
        return np.array([score(page) if page.text or page.title else 0.0 for page in self.pages])

    def topics(self, given: tuple[str, ...], draws: bool) -> list[str]:
        """Return the topics of a web, drawn by `topics_of` or not, and those given."""
        if not draws:
            return list(given)
        sums: Counter[str] = Counter()  # of the values by `words:WORD`, for all words at once
        for page in self.pages:
            in_title = set(words_of(page.title))
            counts = Counter(words_of(page.text))
            sums.update(in_title)
            for word, n in counts.items():
                if word not in in_title:
                    sums[word] += min(n / 10, 1.0)
        n_pages = len(self.pages)
        titles = [page.title for page in self.pages]
        return [*topics_of(titles, lambda word: sums[word] / n_pages), *given]


def _number(group: str) -> int:
    return zlib.crc32(group.encode("utf-8", "replace")) % N_GROUPS


class Task:
    """A web and a topic: what the rules and the baselines find of its value."""

    def __init__(self, web: Web, topic: str) -> None:
        self._web = web
        model: ScoredModel | None = None if topic == LONG else make_model(f"words:{topic}")
        self.name = f"{web.name}, {topic}"
        self._values = web.values(model.score if model else _length)
        self._judge = model.judge if model else None
        self._words = HOT.get(topic, topic)
        self._said = [
            np.array([self._grade(text) for text in some], np.int64)
            for some in (web.anchor_texts, web.url_texts)
        ]

    def run(self, rule: Rule) -> Floats:
        """Return the share of value found at `MARKS`, the mean over the starts."""
        web = self._web
        grades = np.zeros((2, GRADES + 1, 2))
        if self._judge:
            grades[:, 1:, 0] = 2.0
            grades[:, 1:, 1] = 2.0 * PROMISE * np.arange(1, GRADES + 1) / GRADES
        first = np.array(
            [*(MEANS if rule.means else INPUTS.values()), *[0.0] * (N_MORE if rule.more else 0)]
        )
        known = web.graph.indptr, web.graph.indices, web.anchors, web.places, web.urls
        return self._found(
            lambda start, budget: _crawl(
                *known,
                web.ends,
                web.own,
                *self._said,
                grades,
                self._values,
                np.array(start, np.int32),
                budget,
                first,
                tuple(map(float, rule)),
            )
        )

    def baselines(self) -> dict[str, Floats]:
        """Return the same of the package's hot queue, two more orderings, and the oracle."""
        recorded = RecordedVisits(self._web.path, with_texts=True)
        recorded.values = self._values

        def crawl(name: str) -> Floats:
            queue = HotQueue(Topic(self._words)) if name == "breadth-first" else None
            truth = self._values if name == "omniscient" else None
            return self._found(
                lambda start, budget: crawl_order(
                    self._web.graph,
                    start,
                    make_ordering(name),
                    budget=budget,
                    hot_queue=queue,
                    truth=truth,
                    recorded=recorded,
                )
            )

        names = ("breadth-first", "best-first", "parent-quality", "omniscient")
        return {name: crawl(name) for name in names}

    def _grade(self, text: str) -> int:
        return math.ceil(GRADES * self._judge(text)) if self._judge and text else 0

    def _found(self, crawl: Callable[[list[int], int], Numbers]) -> Floats:
        found = []
        for start in self._web.starts():
            reached = reachable(self._web.graph, start)
            ends = [round(mark * int(reached.sum())) for mark in MARKS]
            gathered = np.cumsum(self._values[crawl(start, ends[-1])])
            worth = self._values[reached].sum()
            found.append([gathered[min(end, len(gathered)) - 1] / worth for end in ends])
        return np.array(found).mean(axis=0)


def _length(page: Page) -> float:
    return min(len(page.text) / 5000, 1)


def tasks(folder: Path, judges: bool) -> Iterator[Task]:
    """Yield the topics of all webs whose stores are there."""
    groups = [LATER_JUDGES, BATCH_JUDGES] if judges else [TUNING, SET_ASIDE, JUDGES]
    for group in groups:
        for name, topics in group.items():
            path = folder / f"{name}.sqlite"
            if path.exists():
                web = Web(path)
                if reachable(web.graph, web.seeds).sum() > 1:
                    for topic in web.topics(topics, group not in (TUNING, SET_ASIDE)):
                        yield Task(web, topic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judges", action="store_true", help="the webs that judge, once")
    parser.add_argument("--batches", action="store_true", help="weights fitted in batches")
    given = parser.parse_args()
    load()
    names = ("value, keys every .5 %", "candidate, keys every .5 %")
    rules = {name: RULES[name] for name in names} if given.judges else RULES
    if given.batches:
        every = 0.005 if given.judges else 0.02
        rules = {name: rule._replace(every=every) for name, rule in BATCHES.items()}
    found: dict[str, list[Floats]] = {}
    for task in tasks(given.folder, given.judges):
        of_task = task.baselines() | {name: task.run(rule) for name, rule in rules.items()}
        print(task.name, *(f"{name} {of_task[name].round(2)}" for name in of_task), sep="\n  ")
        for name, shares in of_task.items():
            found.setdefault(name, []).append(shares)
    means = {name: np.mean(shares, axis=0) for name, shares in found.items()}
    low, high = means["breadth-first"], means["omniscient"]
    for name, mean in means.items():
        print(f"{name}: {mean.round(3)}, closed {((mean - low) / (high - low)).round(2)}")


if __name__ == "__main__":
    main()
