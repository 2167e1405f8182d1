"""The topic crawls of Cho, Garcia-Molina & Page 1998, on webs whose pages are kept with texts.

Graphs 6 and 7, figures 12, 14 and 15 of the extended version. The webs and topics are in
`topic_webs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from statistics import median

import numpy as np
from cho_webs import THREE, JudgedCrawls, orderings, share_panel
from numpy.typing import NDArray
from paper_crawls import Mask, area, areas, at, bands, mean_at
from report import Report
from topic_webs import ALL, HOME, MISSING, UCI, TopicWeb
from verdicts import Case, above, by_web

from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.measure.crawl_models import ModelCurve
from crawlprio.measure.crawl_order import reachable
from crawlprio.measure.importance import importance_of
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.store import Store

BACKLINKS = 5
FEWEST = 10
"""Hot pages of a kind that each crawl must be able to reach, or the kind is left out."""
PLAIN, BASIC, MODIFIED = "no hot queue", "basic", "modified"
DISTANCES = {BASIC: 0, MODIFIED: 3}
"""Hot queues: anchor text and URL; also pages fewer than 3 links from a hot page."""


def add(report: Report, webs: Sequence[TopicWeb]) -> None:
    """Write the part about crawls on a topic."""
    report.heading("Crawls on a topic")
    topics: list[_Topic] = []
    for each in webs:
        plain = JudgedCrawls(PLAIN, each.web.graph, each.seeds, orderings(None, *THREE))
        topics += [_Topic(word, each, plain) for word in each.words]
        print(f"cho_topics: {each.web.name}", flush=True)
    report.text(
        f"{len(topics)} topics on {len(webs)} webs. A page is hot if it has the word in its title "
        "or 10 times in its text, as in the paper. The topics were chosen by the number of their "
        "hot pages, before any crawl on them. Each crawl starts at one page, five in all, and one "
        "more at all home pages if the web has several sites. Except on uci-ics, a text is what "
        "is left of a page without its navigation, and a web ends after 10,000 pages."
    )
    if any(each.web.name == UCI for each in webs):
        missing = _n_hot(next(each for each in webs if each.web.name == UCI), MISSING)
        report.text(
            f"On uci-ics, crawls start at {HOME}. On the paper's other topic, {MISSING}, "
            f"the number of hot pages is {missing}; `student` replaces it. **This recording was "
            "chosen by PageRank**: it holds the reachable pages of 16 kB or less, and of the "
            "longer pages those with the highest PageRank. Hot pages are often long, so most of "
            "them are better linked here than on the Web. Each claim is therefore judged twice on "
            "it: by all hot pages, and by the short ones alone, none of which is there because of "
            "its rank."
        )
    _list(report, topics)
    _draw(report, topics)
    _judge_hot_pages(report, topics)
    _judge_queues(report, topics)


class _Topic:
    """The hot pages of a topic, and the crawls that look for them.

    `word`: the topic. `on`: the web and its texts. `plain`: its crawls without a hot queue.
    """

    def __init__(self, word: str, on: TopicWeb, plain: JudgedCrawls) -> None:
        self.word, self.on, self._plain = word, on, plain
        self.name = f"{on.web.name}, {word}"
        self.graph = on.web.graph
        self.reached: Mask = reachable(self.graph, on.seeds[0])
        self.backlinks = importance_of(self.graph, "backlinks")
        self._hot = _hot(on, word)
        self.kinds = [kind for kind in on.kinds if self._reached_by_all(self.hot(kind))]

    def hot(self, kind: str, *, linked: bool = False) -> NDArray[np.float64]:
        """Return 1 for hot pages of a kind, with or without five backlinks, else 0."""
        hot = self._hot * self.on.kinds[kind]
        return hot * (self.backlinks >= BACKLINKS) if linked else hot

    def n_hot(self, kind: str, *, linked: bool = False) -> int:
        """Return how many hot pages the first crawl can reach."""
        return int(self.hot(kind, linked=linked)[self.reached].sum())

    def has_linked(self, kind: str) -> bool:
        """Return whether each crawl can reach enough hot pages with five backlinks."""
        return self._reached_by_all(self.hot(kind, linked=True))

    def _reached_by_all(self, hot: NDArray[np.float64]) -> bool:
        return all(hot[mask].sum() >= FEWEST for mask in self._plain.reachable)

    @cached_property
    def crawls(self) -> dict[str, JudgedCrawls]:
        """Crawls by kind of hot queue."""
        recorded = RecordedVisits(self.on.path, with_texts=True)
        return {PLAIN: self._plain} | {
            name: JudgedCrawls(
                name,
                self.graph,
                self.on.seeds,
                orderings(None, *THREE),
                hot_queue=partial(HotQueue, Topic(self.word), distance=distance),
                recorded=recorded,
            )
            for name, distance in DISTANCES.items()
        }

    def curves(
        self, queue: str, kind: str = ALL, *, linked: bool = False
    ) -> dict[str, list[ModelCurve]]:
        """Return P_ST of the crawls with this kind of hot queue, by ordering."""
        return self.crawls[queue].p_st(self.hot(kind, linked=linked), 1.0)

    def cases(self, queue: str, margins: Callable[[_Topic, str], Sequence[float]]) -> list[Case]:
        """Return a case for each distinct crawl and kind of hot page; by seed, if any."""
        found = {}
        for kind in self.kinds:
            of_seeds = margins(self, kind)
            if not of_seeds:
                continue
            for name, margin in self.crawls[queue].cases(of_seeds, *THREE).items():
                found[f"{self.name}, {kind}{name.removeprefix(queue)}"] = margin
        return above(found)


def _hot(on: TopicWeb, word: str) -> NDArray[np.float64]:
    """Return 1 for the hot pages of a web."""
    judge, hot = HotQueue(Topic(word)), np.zeros(on.web.graph.n_pages)
    with Store.open(on.path, readonly=True) as store:
        for visit in store.visits(anchors=False):
            if visit.page >= 0:
                hot[visit.page] = judge.is_hot(visit)
    return hot


def _n_hot(on: TopicWeb, word: str) -> int:
    """Return how many pages of a web are hot."""
    return int(_hot(on, word).sum())


def _list(report: Report, topics: Sequence[_Topic]) -> None:
    """Write webs and topics."""
    report.table(
        "topics",
        ("web", "pages reached", "sites", "starts", "topic", "pages", "hot", "with 5 backlinks"),
        [
            (
                t.on.web.name, int(t.reached.sum()), t.graph.n_sites, len(t.on.seeds), t.word, kind,
                t.n_hot(kind), t.n_hot(kind, linked=True),
            )
            for t in topics
            for kind in t.on.kinds
        ],
        f"The webs and topics. Kinds of which a crawl can reach fewer than {FEWEST} are left out.",
    )  # fmt: skip


def _draw(report: Report, topics: Sequence[_Topic]) -> None:
    """Write graphs 6 and 7, figures 12, 14 and 15, and their numbers."""
    diagonal = {"random, expected": [(0.0, 0.0), (1.0, 1.0)]}
    first = topics[0]
    figures = {f"{topic.name}, modified": topic.curves(MODIFIED) for topic in topics}
    figures[f"{first.name}, basic (graph 6)"] = first.curves(BASIC)
    if first.has_linked(ALL):
        linked_only = first.curves(MODIFIED, linked=True)
        figures[f"{first.name}, {BACKLINKS} backlinks (graph 7)"] = linked_only
    report.figure(
        "topic",
        [share_panel(name, bands(curves), diagonal) for name, curves in figures.items()],
        "Graphs 6 and 7, extended version figures 12, 14 and 15: share of the hot pages fetched, "
        "means over starts, bands from least to greatest. The basic hot queue holds pages with the "
        "word in the URL or anchor text; the modified one also holds pages fewer than 3 links from "
        "a hot page. In the paper, the basic queue helps only breadth-first, and the modified one "
        "helps all orderings. Of the hot pages with 5 backlinks, breadth-first and PageRank have "
        "fetched 80 % after 40 % of the crawl.",
        title="Pages on a topic fetched, behind a hot queue (Cho et al. 1998, graphs 6 and 7)",
        columns=3,
    )  # fmt: skip
    rows = [
        (
            topic.on.web.name, topic.word, kind, queue,
            *(f"{area(curves[name]):.3f}" for name in THREE),
            *(f"{mean_at(linked[name], 0.4):.0%}" if linked else None for name in THREE),
        )
        for topic in topics
        for kind in topic.kinds
        for queue in topic.crawls
        for curves in [topic.curves(queue, kind)]
        for linked in [
            topic.curves(queue, kind, linked=True) if topic.has_linked(kind) else {}
        ]
    ]  # fmt: skip
    report.table(
        "topic",
        ("web", "topic", "pages", "hot queue", *THREE, *(f"{name}, linked" for name in THREE)),
        rows,
        "Mean P_ST over all fetches by ordering, and, 'linked', the share of the hot pages with "
        f"{BACKLINKS} backlinks that are fetched after 40 % of the crawl, where there are {FEWEST} "
        "or more. Means over starts. "
        "Without a hot queue, the crawl knows nothing about the topic.",
    )


def _finding(
    report: Report, claim: str, cases: Sequence[Case], rule: str, *, why: str = "", name: str = ""
) -> None:
    """Write a claim with the margins of the webs."""
    margins = [case.margin for case in by_web(cases)]
    measured = (
        f"median margin {median(margins):+.3f} ({min(margins):+.3f} to {max(margins):+.3f})"
        if margins
        else "no web can decide it"
    )
    report.finding(claim, measured, cases, rule, why=why, picture="topic", name=name)


def _judge_hot_pages(report: Report, topics: Sequence[_Topic]) -> None:
    """Judge the paper's claims about hot pages themselves."""
    alone, tends = {}, {}
    for topic in topics:
        graph = topic.graph
        sources = np.repeat(np.arange(graph.n_pages), np.diff(graph.indptr))
        for kind in topic.kinds:
            hot = (topic.hot(kind) > 0) & topic.reached
            alone[f"{topic.name}, {kind}"] = float((topic.backlinks[hot] == 1).mean())
            child = np.zeros(graph.n_pages, dtype=bool)
            child[graph.indices[hot[sources]]] = True
            child &= topic.reached
            tends[f"{topic.name}, {kind}"] = float(hot[child].mean() / hot[topic.reached].mean())
    _finding(
        report,
        "Section 7: more than a third of the hot pages have only one backlink",
        above(alone, 1 / 3),
        "more than a third",
    )
    _finding(
        report,
        "Section 7: pages that a hot page links to tend to be hot",
        above(tends, 2.0),
        "more than twice the share among all pages",
        name="hot-children",
    )


def _judge_queues(report: Report, topics: Sequence[_Topic]) -> None:
    """Judge the paper's claims about the two hot queues."""

    def judge(
        claim: str,
        queue: str,
        margins: Callable[[_Topic, str], Sequence[float]],
        rule: str,
        *,
        why: str = "",
        name: str = "",
    ) -> None:
        cases = [case for topic in topics for case in topic.cases(queue, margins)]
        _finding(report, claim, cases, rule, why=why, name=name)

    judge(
        "Graph 6: with the basic hot queue backlink and PageRank order are no better than random",
        BASIC,
        _poor,
        "a mean P_ST of at most 0.55 under both",
        why="most orderings find hot pages early even without it",
    )
    judge(
        "Graph 6: with it, only breadth-first performs reasonably, and it performs best",
        BASIC,
        lambda topic, kind: _lead_of_breadth_first(topic.curves(BASIC, kind)),
        "the largest mean P_ST of the three",
    )
    judge(
        "Fig. 14: the modified hot queue improves all orderings",
        MODIFIED,
        lambda topic, kind: _gains(topic.curves(MODIFIED, kind), topic.curves(BASIC, kind)),
        "a larger mean P_ST than with the basic one under each of the three",
        name="hot-queue-improves",
    )
    judge(
        "Fig. 14: the difference between the orderings shrinks",
        MODIFIED,
        lambda topic, kind: np.subtract(
            _spans(topic.curves(BASIC, kind)), _spans(topic.curves(MODIFIED, kind))
        ).tolist(),
        "best and worst are closer together than with the basic one",
        name="hot-queue-levels",
    )
    judge(
        "Fig. 14: breadth-first is still superior with the modified hot queue",
        MODIFIED,
        lambda topic, kind: _lead_of_breadth_first(topic.curves(MODIFIED, kind)),
        "the largest mean P_ST of the three",
        why="the paper puts this down to chance",
    )
    judge(
        "Graph 7: PageRank and breadth-first have over 80 % of the hot pages with 5 backlinks "
        "after 40 % of the crawl",
        MODIFIED,
        _early,
        "both have more than 80 %",
    )
    judge(
        "Fig. 15: the modified queue is effective for other topics too",
        MODIFIED,
        lambda topic, kind: _gains(topic.curves(MODIFIED, kind), topic.curves(PLAIN, kind)),
        "a larger mean P_ST than without a hot queue under each of the three",
        name="hot-queue-other-topic",
    )


def _poor(topic: _Topic, kind: str) -> list[float]:
    """Return by how much backlink and PageRank order stay below 0.55, by seed."""
    curves = topic.curves(BASIC, kind)
    others = [areas(curves[name]) for name in THREE if name != "breadth-first"]
    margins: list[float] = np.subtract(0.55, np.max(others, axis=0)).tolist()
    return margins


def _early(topic: _Topic, kind: str) -> list[float]:
    """Return by how much PageRank and breadth-first exceed 80 % at 40 % of the crawl, by seed."""
    if not topic.has_linked(kind):
        return []
    curves = topic.curves(MODIFIED, kind, linked=True)
    pairs = zip(curves["breadth-first"], curves["pagerank"], strict=True)
    return [min(at(a, 0.4), at(b, 0.4)) - 0.8 for a, b in pairs]


def _lead_of_breadth_first(curves: dict[str, list[ModelCurve]]) -> list[float]:
    """Return the lead of breadth-first over the better of the other two, by seed."""
    others = [areas(curves[name]) for name in THREE if name != "breadth-first"]
    lead: list[float] = np.subtract(areas(curves["breadth-first"]), np.max(others, axis=0)).tolist()
    return lead


def _gains(one: dict[str, list[ModelCurve]], other: dict[str, list[ModelCurve]]) -> list[float]:
    """Return the smallest gain of the three orderings from one queue over another, by seed."""
    gains = [np.subtract(areas(one[name]), areas(other[name])) for name in THREE]
    least: list[float] = np.min(gains, axis=0).tolist()
    return least


def _spans(curves: dict[str, list[ModelCurve]]) -> Sequence[float]:
    """Return for each seed how far apart the paper's orderings are."""
    return [max(a) - min(a) for a in zip(*(areas(curves[name]) for name in THREE), strict=True)]
