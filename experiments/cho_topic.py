"""Crawls on a topic of Cho, Garcia-Molina & Page 1998, on the texts of a recorded web.

Graphs 6 and 7, figures 12, 14 and 15 of the extended version. Of the texts only numbers leave this
module; it must not know how a crawl is simulated or a hot queue works.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from urllib.parse import urljoin

import numpy as np
from cho_webs import THREE, JudgedCrawls, orderings, share_panel
from crawls import Mask, area, areas, at, bands, mean_at, tally, verdict
from numpy.typing import NDArray
from report import Report
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
"""Crawled for in place of the paper's second topic where that has too few hot pages."""
WORDS = (*TOPICS, STAND_IN)
LEAST_HOT = 30
HOME = "http://www.ics.uci.edu/"
BACKLINKS = 5
DISTANCES = {"no hot queue": None, "basic": 0, "modified": 3}
"""Hot queues: none; by anchor text and URL; also pages fewer than 3 links from a hot page."""


def add(report: Report, shared: Path) -> None:
    """Write the part of the crawls on a topic."""
    report.heading("Crawls on a topic")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.sqlite"
        _record(shared / "uci-ics.warc.gz", path)
        with Store.open(path, readonly=True) as store:
            graph = store.link_graph()
            start = store.seeds()[0]
        web = Web("uci-ics, pages with text", graph, start)
        topics = [_Topic(word, web, path) for word in WORDS]
        first, second, stand_in = topics
        if second.n_hot < LEAST_HOT:
            second = stand_in
        counts = ", ".join(f"{topic.word} {topic.n_hot:,}" for topic in topics)
        report.text(
            f"Of the {int(first.reached.sum()):,} pages of uci-ics with text that are reached from "
            f"{HOME}, so many are hot, having the word in the title or 10 times in the text: "
            f"{counts}. The recording holds pages of 16 kB or less and the best-ranked larger "
            "ones, so that long pages are fewer than on a whole web."
        )
        _draw(report, first, second)
        _judge_hot_pages(report, first)
        _judge_queues(report, first, second)


class _Topic:
    """The hot pages of a topic and the crawls that look for them.

    Parameters
    ----------
    word
        the topic.
    web
        what is crawled.
    path
        the crawl store of its texts.
    """

    def __init__(self, word: str, web: Web, path: Path) -> None:
        self.word, self._web, self._path = word, web, path
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

    @property
    def n_hot(self) -> int:
        """Hot pages that the first crawl can reach."""
        return int(self.hot[self.reached].sum())

    @cached_property
    def crawls(self) -> dict[str, JudgedCrawls]:
        """The crawls with each kind of hot queue."""
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

    @cached_property
    def linked(self) -> NDArray[np.float64]:
        """1 for hot pages with enough backlinks, the combined importance, else 0."""
        return self.hot * (self.backlinks >= BACKLINKS)

    def curves(self, queue: str, *, linked: bool = False) -> dict[str, list[ModelCurve]]:
        """P_ST of the crawls with this kind of hot queue, by ordering."""
        return self.crawls[queue].p_st(self.linked if linked else self.hot, 1.0)


def _record(warc: Path, path: Path) -> None:
    """Write a crawl store of all pages of a WARC file; of texts only topic words, for counting."""
    web = WarcWeb(warc)
    words = Topic(list(WORDS))
    wanted = set(WORDS)
    table = PageTable()
    for url in web.urls():
        table.add(url, url, table.site(host_of(url)))
    with Store.create(path) as store:
        seed = web.page(HOME)
        assert seed is not None
        store.record(Visit(NO_PAGE, np.array([seed], dtype=np.int32)), table)
        for page in range(len(table)):
            answer = web.response(page)
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


def _draw(report: Report, first: _Topic, second: _Topic) -> None:
    """Graphs 6 and 7, figures 12, 14 and 15, and their numbers."""
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
        "Graphs 6 and 7, long version figures 12, 14 and 15: share of the hot pages fetched, hot "
        "being pages with the word in the title or at least 10 times in the text. The basic hot "
        "queue holds pages with the word in URL or anchor text, the modified one also pages fewer "
        "than 3 links from a hot page. In the paper the basic one helps breadth-first alone, the "
        "modified one all, and with 5 backlinks breadth-first and PageRank have 80 % of the hot "
        "pages after 40 % of the crawl.",
        title="Crawls on a topic",
    )  # fmt: skip
    rows = [
        (
            topic.word, "5 backlinks" if linked else "text", queue, name,
            f"{area(curves[name]):.3f}",
            *(f"{mean_at(curves[name], x):.0%}" for x in (0.2, 0.4, 0.6)),
        )
        for topic in (first, second)
        for linked in (False, True)
        for queue in DISTANCES
        for curves in [topic.curves(queue, linked=linked)]
        for name in curves
    ]  # fmt: skip
    report.table(
        "topic",
        ("topic", "hot by", "hot queue", "ordering", "mean P_ST", "at 20 %", "40 %", "60 %"), rows,
        f"Means over {len(first.crawls['basic'].seeds)} seeds. Hot pages with {BACKLINKS} "
        "backlinks: "
        + ", ".join(f"{t.word} {int(t.linked[t.reached].sum()):,}" for t in (first, second))
        + ". Without a hot queue the crawl knows nothing of the topic.",
    )  # fmt: skip


def _judge_hot_pages(report: Report, topic: _Topic) -> None:
    """What the paper says of hot pages themselves."""
    hot = (topic.hot > 0) & topic.reached
    alone = float((topic.backlinks[hot] == 1).mean())
    report.finding(
        "Section 7: more than a third of the hot pages have one backlink only",
        f"{alone:.0%} of {int(hot.sum()):,} hot pages ({topic.word})",
        verdict([alone > 1 / 3]),
    )
    graph = topic.graph
    sources = np.repeat(np.arange(graph.n_pages), np.diff(graph.indptr))
    child = np.zeros(graph.n_pages, dtype=bool)
    child[graph.indices[hot[sources]]] = True
    child &= topic.reached
    of_children, base = float(hot[child].mean()), float(hot[topic.reached].mean())
    report.finding(
        "Section 7: pages that a hot page links to tend to be hot",
        f"{of_children:.1%} of them are ({topic.word}), against {base:.1%} of all pages",
        verdict([of_children > base]),
    )


def _judge_queues(report: Report, first: _Topic, second: _Topic) -> None:
    """What the paper says of the two hot queues."""
    basic, modified = first.curves("basic"), first.curves("modified")
    plain = first.curves("no hot queue")
    poor = [a <= 0.55 for name in ("backlink-count", "pagerank") for a in areas(basic[name])]
    report.finding(
        "Graph 6: with the basic hot queue backlink and PageRank order are no better than random",
        f"mean P_ST {_line(basic)}; at most 0.55 in {tally(poor)} crawls",
        verdict(poor),
        f"without the hot queue they have {_line(plain)}",
    )
    best = [
        b > max(others)
        for b, *others in zip(
            *(areas(basic[n]) for n in ("breadth-first", "backlink-count", "pagerank")),
            strict=True,
        )
    ]
    report.finding(
        "Graph 6: with it breadth-first alone does reasonably, and best",
        f"best of the three in {tally(best)} crawls",
        verdict(best),
    )
    up = _higher(modified, basic)
    report.finding(
        "Fig. 14: the modified hot queue improves all orderings",
        f"mean P_ST {_line(modified)}; higher in {tally(up)} crawls",
        verdict(up),
    )
    closer = [after < before for after, before in zip(_spans(modified), _spans(basic), strict=True)]
    report.finding(
        "Fig. 14: the difference between the orderings shrinks",
        f"between best and worst of the three: {np.mean(_spans(basic)):.3f} with the basic, "
        f"{np.mean(_spans(modified)):.3f} with the modified queue",
        verdict(closer),
    )
    linked = first.curves("modified", linked=True)
    early = [at(c, 0.4) for name in ("breadth-first", "pagerank") for c in linked[name]]
    report.finding(
        "Graph 7: PageRank and breadth-first have over 80 % of the hot pages with 5 backlinks "
        "after 40 % of the crawl",
        f"{min(early):.0%} to {max(early):.0%}",
        verdict([share > 0.8 for share in early]),
    )
    basic, modified, plain = (second.curves(q) for q in ("basic", "modified", "no hot queue"))
    up = _higher(modified, basic)
    report.finding(
        "Fig. 15: for another topic, admission, the modified queue is effective too",
        f"{second.word}: mean P_ST {_line(modified)}, higher than with the basic queue in "
        f"{tally(up)} crawls, than without a hot queue in {tally(_higher(modified, plain))}",
        verdict(up),
        f"{second.word} stands in for admission, which has next to no hot pages here"
        if second.word == STAND_IN else "",
    )  # fmt: skip


def _line(curves: dict[str, list[ModelCurve]]) -> str:
    """The mean performance of the paper's orderings in words."""
    return ", ".join(f"{name} {area(curves[name]):.3f}" for name in THREE)


def _higher(one: dict[str, list[ModelCurve]], other: dict[str, list[ModelCurve]]) -> list[bool]:
    """In which crawls of the paper's orderings one queue has the higher mean performance."""
    pairs = (zip(areas(one[name]), areas(other[name]), strict=True) for name in THREE)
    return [a > b for a, b in chain.from_iterable(pairs)]


def _spans(curves: dict[str, list[ModelCurve]]) -> Sequence[float]:
    """For each seed, how far apart the paper's orderings are."""
    return [max(a) - min(a) for a in zip(*(areas(curves[name]) for name in THREE), strict=True)]
