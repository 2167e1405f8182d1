"""The topic crawls of Cho, Garcia-Molina & Page 1998, on the texts of a recorded web.

Graphs 6 and 7, figures 12, 14 and 15 of the extended version. Only numbers about the texts leave
this module.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import urljoin

import cho_metrics
import cho_similarity
import numpy as np
from cho_webs import THREE, JudgedCrawls, orderings, share_panel
from numpy.typing import NDArray
from paper_crawls import Mask, area, areas, at, bands, mean_at
from report import Report
from verdicts import Case, above
from webs import Web

from crawlprio.demo.recordings import WarcWeb
from crawlprio.evaluation import ModelCurve, reachable
from crawlprio.importance import importance_of
from crawlprio.pages import NO_PAGE, PageTable, Visit
from crawlprio.simulator import RecordedVisits
from crawlprio.store import Store
from crawlprio.topic import HotQueue, Topic
from crawlprio.web.html import parse_page
from crawlprio.web.urls import host_of, normalise_url

TOPICS = ("computer", "admission")
"""The paper's topics."""
STAND_IN = "student"
"""Replaces the paper's second topic if that has too few hot pages."""
WORDS = (*TOPICS, STAND_IN)
QUERY = ("computer", "research", "course", "student")
"""Query words of different frequency, for the similarity that a crawl estimates."""
LEAST_HOT = 30
HOME = "http://www.ics.uci.edu/"
BACKLINKS = 5
SHORT_BYTES = 16 * 1024
KINDS = {"all pages": False, "pages of at most 16 kB": True}
"""Which pages may be hot; longer pages are in the recording only if their PageRank is high."""
DISTANCES = {"no hot queue": None, "basic": 0, "modified": 3}
"""Hot queues: none; anchor text and URL; also pages fewer than 3 links from a hot page."""


def add(report: Report, shared: Path) -> None:
    """Write the part about crawls on a topic."""
    report.heading("Crawls on a topic")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.sqlite"
        short = _record(shared / "uci-ics.warc.gz", path)
        with Store.open(path, readonly=True) as store:
            graph = store.link_graph()
            start = store.seeds()[0]
        web = Web("uci-ics, pages with text", graph, start)
        topics = [_Topic(word, web, path, short) for word in WORDS]
        first, second, stand_in = topics
        if second.n_hot(short=False) < LEAST_HOT:
            second = stand_in
        counts = ", ".join(
            f"{topic.word} {topic.n_hot(short=False):,}, of which {topic.n_hot(short=True):,} are "
            "of at most 16 kB"
            for topic in topics
        )
        report.text(
            f"{int(first.reached.sum()):,} pages of uci-ics with text are reached from {HOME}. A "
            "page is hot if it has the word in its title or 10 times in its text. Hot pages: "
            f"{counts}. **The recording was chosen by PageRank**: it holds the reachable pages of "
            "16 kB or less, and of the longer pages those with the highest PageRank. Hot pages "
            "are often long, so most of them are better linked here than on the Web. Each claim "
            "is therefore judged twice: by all hot pages, and by the short ones alone, none of "
            "which is there because of its rank."
        )
        _draw(report, first, second)
        _judge_hot_pages(report, first)
        _judge_queues(report, first, second)
        cho_metrics.on_text(report, web, path, first.word, short)
        cho_similarity.add(report, web, path, QUERY, short)


class _Topic:
    """The hot pages of a topic, and the crawls that look for them.

    Parameters
    ----------
    word
        the topic.
    web
        what is crawled.
    path
        the crawl store of its texts.
    short
        the pages of at most 16 kB.
    """

    def __init__(self, word: str, web: Web, path: Path, short: Mask) -> None:
        self.word, self._web, self._path, self._short = word, web, path, short
        self.graph = web.graph
        self._topic = Topic(word)
        self.reached: Mask = reachable(web.graph, [web.start])
        self.backlinks = importance_of(web.graph, "backlinks")
        judge = HotQueue(self._topic)
        self.hot = np.zeros(web.graph.n_pages)
        with Store.open(path, readonly=True) as store:
            for visit in store.visits():
                if visit.page >= 0:
                    self.hot[visit.page] = judge.is_hot(visit)

    def of_kind(self, *, short: bool, linked: bool = False) -> NDArray[np.float64]:
        """Return 1 for hot pages (all or short ones, with or without five backlinks), else 0."""
        hot = self.hot * self._short if short else self.hot
        return hot * (self.backlinks >= BACKLINKS) if linked else hot

    def n_hot(self, *, short: bool) -> int:
        """Return how many hot pages the first crawl can reach."""
        return int(self.of_kind(short=short)[self.reached].sum())

    @cached_property
    def crawls(self) -> dict[str, JudgedCrawls]:
        """Crawls by kind of hot queue."""
        seeds = [[seed] for seed in self._web.single_seeds]
        recorded = RecordedVisits(self._path, with_texts=True)
        crawls = {}
        for name, distance in DISTANCES.items():
            if distance is None:
                crawls[name] = JudgedCrawls(name, self.graph, seeds, orderings())
                continue
            make = partial(HotQueue, self._topic, distance=distance)
            crawls[name] = JudgedCrawls(
                name, self.graph, seeds, orderings(), hot_queue=make, recorded=recorded
            )
        return crawls

    def curves(
        self, queue: str, *, linked: bool = False, short: bool = False
    ) -> dict[str, list[ModelCurve]]:
        """Return P_ST of the crawls with this kind of hot queue, by ordering."""
        return self.crawls[queue].p_st(self.of_kind(short=short, linked=linked), 1.0)

    def cases(self, queue: str, margins: Callable[[bool], Sequence[float]]) -> list[Case]:
        """Return a case for each distinct crawl and kind of hot page; `margins` are by seed."""
        found = {}
        for kind, short in KINDS.items():
            for name, margin in self.crawls[queue].cases(margins(short), *THREE).items():
                found[f"uci-ics, {self.word}, {kind}{name.removeprefix(queue)}"] = margin
        return above(found)


def _record(warc: Path, path: Path) -> Mask:
    """Write a crawl store of all pages of a WARC file, keeping only topic words of the texts.

    Returns which pages have at most 16 kB.
    """
    web = WarcWeb(warc)
    wanted = {*WORDS, *QUERY}
    words = Topic(sorted(wanted))
    table = PageTable()
    for url in web.urls():
        table.add(url, url, table.site(host_of(url)))
    short = np.ones(len(table), dtype=np.bool_)
    with Store.create(path) as store:
        seed = web.page(HOME)
        assert seed is not None
        store.record(Visit(NO_PAGE, np.array([seed], dtype=np.int32)), table)
        for page in range(len(table)):
            answer = web.response(page)
            short[page] = len(answer.body) <= SHORT_BYTES
            headers = {name.lower(): value for name, value in answer.headers.items()}
            url = web.url(page)
            title, text = "", ""
            links: list[tuple[str | None, str]] = []
            if 300 <= answer.status < 400:
                links = [(normalise_url(urljoin(url, headers.get("location", ""))), "")]
            elif answer.status == 200:
                content_type = headers.get("content-type", "text/html")
                parsed = parse_page(answer.body, url, content_type=content_type, want_text=True)
                title = parsed.title
                text = " ".join(word for word in words.words(parsed.text) if word in wanted)
                links = [(link.url, link.anchor) for link in parsed.links if not link.nofollow]
            anchors: dict[int, str] = {}
            for link, anchor in links:
                target = None if link is None else web.page(link)
                if target is not None and target != page:
                    anchors.setdefault(target, anchor)
            targets = np.fromiter(anchors, dtype=np.int32, count=len(anchors))
            visit = Visit(page, targets, list(anchors.values()), answer.status, title, text)
            store.record(visit, table)
    web.close()
    return short


def _draw(report: Report, first: _Topic, second: _Topic) -> None:
    """Write graphs 6 and 7, figures 12, 14 and 15, and their numbers."""
    diagonal = {"random, expected": [(0.0, 0.0), (1.0, 1.0)]}
    figures = {
        f"{first.word}, basic (graph 6)": first.curves("basic"),
        f"{first.word}, modified (fig. 14)": first.curves("modified"),
        f"{first.word}, 5 backlinks (graph 7)": first.curves("modified", linked=True),
        f"{second.word}, modified (fig. 15)": second.curves("modified"),
    }
    report.figure(
        "topic",
        [share_panel(name, bands(curves), diagonal) for name, curves in figures.items()],
        "Graphs 6 and 7, extended version figures 12, 14 and 15: share of the hot pages fetched. "
        "A page is hot if it has the word in its title or at least 10 times in its text. The "
        "basic hot queue holds pages with the word in the URL or anchor text; the modified one "
        "also holds pages fewer than 3 links from a hot page. In the paper, the basic queue "
        "helps only breadth-first, and the modified one helps all orderings. Of the hot pages "
        "with 5 backlinks, breadth-first and PageRank have fetched 80 % after 40 % of the crawl.",
        title="Crawls on a topic",
    )  # fmt: skip
    rows = [
        (
            topic.word, "5 backlinks" if linked else "text",
            "at most 16 kB" if short else "all", queue, name,
            f"{area(curves[name]):.3f}",
            *(f"{mean_at(curves[name], x):.0%}" for x in (0.2, 0.4, 0.6)),
        )
        for topic in (first, second)
        for linked in (False, True)
        for short in (False, True)
        for queue in DISTANCES
        for curves in [topic.curves(queue, linked=linked, short=short)]
        for name in curves
    ]  # fmt: skip
    report.table(
        "topic",
        (
            "topic", "hot by", "pages", "hot queue", "ordering", "mean P_ST", "at 20 %", "40 %",
            "60 %",
        ),
        rows,
        f"Means over {len(first.crawls['basic'].seeds)} seeds. Hot pages with {BACKLINKS} "
        "backlinks: "
        + ", ".join(
            f"{t.word} {int(t.of_kind(short=False, linked=True)[t.reached].sum()):,}"
            for t in (first, second)
        )
        + ". Without a hot queue, the crawl knows nothing about the topic.",
    )  # fmt: skip


def _judge_hot_pages(report: Report, topic: _Topic) -> None:
    """Judge the paper's claims about hot pages themselves."""
    alone, of_children, base = {}, {}, {}
    graph = topic.graph
    sources = np.repeat(np.arange(graph.n_pages), np.diff(graph.indptr))
    for kind, short in KINDS.items():
        hot = (topic.of_kind(short=short) > 0) & topic.reached
        alone[kind] = float((topic.backlinks[hot] == 1).mean())
        child = np.zeros(graph.n_pages, dtype=bool)
        child[graph.indices[hot[sources]]] = True
        child &= topic.reached
        of_children[kind], base[kind] = float(hot[child].mean()), float(hot[topic.reached].mean())
    report.finding(
        "Section 7: more than a third of the hot pages have only one backlink",
        ", ".join(f"{x:.0%} ({topic.word}, {kind})" for kind, x in alone.items()),
        above({f"uci-ics, {kind}": x for kind, x in alone.items()}, 1 / 3),
        "more than a third",
        why="long pages are in the recording only if they are well linked",
    )
    report.finding(
        "Section 7: pages that a hot page links to tend to be hot",
        ", ".join(
            f"{of_children[kind]:.1%} of them, {base[kind]:.1%} of all pages ({kind})"
            for kind in KINDS
        ),
        above({f"uci-ics, {k}": of_children[k] / base[k] for k in KINDS}, 2.0),
        "more than twice the share among all pages",
        name="hot-children",
    )


def _judge_queues(report: Report, first: _Topic, second: _Topic) -> None:
    """Judge the paper's claims about the two hot queues."""
    basic, modified = first.curves("basic"), first.curves("modified")
    plain = first.curves("no hot queue")

    def poor(short: bool) -> list[float]:
        curves = first.curves("basic", short=short)
        return [
            0.55 - max(pair)
            for pair in zip(*(areas(curves[n]) for n in THREE if n != "breadth-first"), strict=True)
        ]

    report.finding(
        "Graph 6: with the basic hot queue backlink and PageRank order are no better than random",
        f"mean P_ST {_line(basic)}",
        first.cases("basic", poor),
        "at most 0.55 under both",
        why=f"without the hot queue they have {_line(plain)}: they find hot pages early even "
        "without it",
        picture="topic",
    )
    report.finding(
        "Graph 6: with it, only breadth-first performs reasonably, and it performs best",
        f"mean P_ST {_line(basic)}; short pages {_line(first.curves('basic', short=True))}",
        first.cases("basic", lambda short: _lead_of_breadth_first(first, "basic", short)),
        "the largest mean P_ST of the three",
        picture="topic",
    )
    report.finding(
        "Fig. 14: the modified hot queue improves all orderings",
        f"mean P_ST {_line(modified)}; with the basic one {_line(basic)}",
        first.cases("modified", lambda short: _gains(first, "modified", "basic", short)),
        "the larger mean P_ST under each of the three",
        picture="topic",
        name="hot-queue-improves",
    )
    spans = {q: np.mean(_spans(first.curves(q))) for q in ("basic", "modified")}
    report.finding(
        "Fig. 14: the difference between the orderings shrinks",
        f"between best and worst of the three: {spans['basic']:.3f} with the basic queue, "
        f"{spans['modified']:.3f} with the modified one",
        first.cases(
            "modified",
            lambda short: np.subtract(
                _spans(first.curves("basic", short=short)),
                _spans(first.curves("modified", short=short)),
            ).tolist(),
        ),
        "best and worst are closer together",
        picture="topic",
        name="hot-queue-levels",
    )
    report.finding(
        "Fig. 14: breadth-first is still superior with the modified hot queue",
        f"mean P_ST {_line(modified)}",
        first.cases("modified", lambda short: _lead_of_breadth_first(first, "modified", short)),
        "the largest mean P_ST of the three",
        why="the paper puts this down to chance",
        picture="topic",
    )

    def early(short: bool) -> list[float]:
        curves = first.curves("modified", linked=True, short=short)
        pairs = zip(curves["breadth-first"], curves["pagerank"], strict=True)
        return [min(at(a, 0.4), at(b, 0.4)) - 0.8 for a, b in pairs]

    report.finding(
        "Graph 7: PageRank and breadth-first have over 80 % of the hot pages with 5 backlinks "
        "after 40 % of the crawl",
        "lower of the two: "
        + ", ".join(f"{0.8 + min(early(short)):.0%} ({kind})" for kind, short in KINDS.items()),
        first.cases("modified", early),
        "both have more than 80 %",
        picture="topic",
    )
    modified, plain = second.curves("modified"), second.curves("no hot queue")
    report.finding(
        "Fig. 15: for another topic, admission, the modified queue is effective too",
        f"{second.word}: mean P_ST {_line(modified)}, without a hot queue {_line(plain)}",
        second.cases("modified", lambda short: _gains(second, "modified", "no hot queue", short)),
        "a larger mean P_ST than without a hot queue under each of the three",
        why=f"{second.word} replaces admission, which has almost no hot pages here"
        if second.word == STAND_IN else "",
        picture="topic",
        name="hot-queue-other-topic",
    )  # fmt: skip


def _line(curves: dict[str, list[ModelCurve]]) -> str:
    """Return the mean performance of the paper's orderings, in words."""
    return ", ".join(f"{name} {area(curves[name]):.3f}" for name in THREE)


def _lead_of_breadth_first(topic: _Topic, queue: str, short: bool) -> list[float]:
    """Return the lead of breadth-first over the better of the other two, by seed."""
    curves = topic.curves(queue, short=short)
    others = [areas(curves[name]) for name in THREE if name != "breadth-first"]
    lead: list[float] = np.subtract(areas(curves["breadth-first"]), np.max(others, axis=0)).tolist()
    return lead


def _gains(topic: _Topic, queue: str, other: str, short: bool) -> list[float]:
    """Return the smallest gain of the three orderings from one queue over another, by seed."""
    one, two = topic.curves(queue, short=short), topic.curves(other, short=short)
    gains = [np.subtract(areas(one[name]), areas(two[name])) for name in THREE]
    least: list[float] = np.min(gains, axis=0).tolist()
    return least


def _spans(curves: dict[str, list[ModelCurve]]) -> Sequence[float]:
    """Return for each seed how far apart the paper's orderings are."""
    return [max(a) - min(a) for a in zip(*(areas(curves[name]) for name in THREE), strict=True)]
