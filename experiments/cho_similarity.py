"""IS' of Cho, Garcia-Molina & Page 1998: similarity with idf factors estimated during the crawl.

Section 2 of the extended version defines it. None of the paper's experiments uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from cho_webs import JudgedCrawls, orderings
from numpy.typing import NDArray
from paper_crawls import SAME, Mask, area, areas, displaced
from report import Report
from verdicts import Case, above
from webs import Web

from crawlprio.graph.pages import PageIds, Visit
from crawlprio.graph.topic import Topic
from crawlprio.measure.crawl_models import (
    ModelCurve,
    RenewedEstimate,
    limited_buffer,
    top_threshold,
)
from crawlprio.measure.importance import open_repository
from crawlprio.orderings import ALL_PAGES, Changed, Ordering, make_ordering
from crawlprio.orderings.base import Pages
from crawlprio.plugins.papers.rare_importances import count_terms
from crawlprio.simulator.graph_pages import RecordedVisits

Floats = NDArray[np.float64]

TITLE = 10.0
"""How many occurrences in the text one occurrence in the title counts for."""
HOT_SHARE, EARLY_SHARE = 0.01, 0.1
RENEWALS = 35
RENEWED_EVERY = 10
"""Fetches between computations of the idf factors, for the ordering."""
BUFFERS = np.array([0.01, 0.05, 0.1, 0.2])
EXACT, ESTIMATED = "anchor-similarity", "anchors by IS'"


def inverse_occurrences(occurrences: Floats) -> Floats:
    """Return idf factors, 1 / occurrences; a word that has not occurred counts as one."""
    return 1.0 / np.maximum(occurrences, 1.0)


class Query:
    """A query of several words, and the similarity of every page of a store to it.

    `words`: the query. `path`: the crawl store of the texts. `n_pages`: pages of its graph.
    """

    def __init__(self, words: Sequence[str], path: Path, n_pages: int) -> None:
        self.words, self._n_pages = list(words), n_pages
        texts = open_repository(path).texts
        assert texts is not None
        self._counts = count_terms(texts, Topic(self.words), TITLE, query_only=True)

    def similarity(self, known: Mask | None = None) -> Floats:
        """Return the inner product of each page and the query: IS, or IS' for a subset of pages.

        Both vectors use the idf factors of the known pages.
        """
        counts = self._counts
        occurs, _ = counts.totals(known)
        products = counts.occurrences * inverse_occurrences(occurs)[counts.terms] ** 2
        return np.bincount(counts.pages, products, minlength=self._n_pages).astype(np.float64)

    def seen(self, fetched: Sequence[int] | NDArray[np.int64] | PageIds) -> Floats:
        """Return IS' after these fetches."""
        known = np.zeros(self._n_pages, dtype=np.bool_)
        known[np.asarray(fetched)] = True
        return self.similarity(known)


class AnchorsByIdf(Ordering):
    """O(u) = IS'(A): the anchor text most similar to the query, by the idf of crawled pages.

    `words`: the query. `every`: fetches between computations of the idf factors and of all keys.
    """

    needs_anchors = True

    def __init__(self, words: Sequence[str], every: int) -> None:
        self._topics = [Topic([word]) for word in words]
        self._every = every

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._occurs = np.zeros(len(self._topics))
        self._factors = np.ones(len(self._topics))
        self._anchors: dict[int, set[tuple[int, ...]]] = {}
        self._n_visits = 0

    def observe(self, visit: Visit) -> Changed:
        self._occurs += self._count(visit.title)
        self._occurs += self._count(visit.text)
        for target, anchor in zip(visit.targets.tolist(), visit.anchors, strict=False):
            counts = self._count(anchor)
            if any(counts):
                self._anchors.setdefault(target, set()).add(counts)
                self._set_key(target)
        self._n_visits += 1
        if self._n_visits % self._every:
            return visit.targets
        self._factors = inverse_occurrences(self._occurs) ** 2
        for page in self._anchors:
            self._set_key(page)
        return ALL_PAGES

    def _count(self, text: str) -> tuple[int, ...]:
        return tuple(topic.count(text) for topic in self._topics)

    def _set_key(self, page: int) -> None:
        self.keys[page] = max(float(np.dot(n, self._factors)) for n in self._anchors[page])


def add(report: Report, web: Web, path: Path, words: Sequence[str], short: Mask) -> None:
    """Write how good IS' is as an ordering, as a rule for keeping pages, and as an estimate.

    `path`: crawl store of the texts of the web. `short`: the pages of at most 16 kB.
    """
    report.heading("Similarity estimated while crawling")
    query = Query(words, path, web.graph.n_pages)
    whole = query.similarity()
    every = max(web.graph.n_pages // RENEWALS, 1)
    made = orderings(None, "breadth-first", "backlink-count", "pagerank", "random") | {
        EXACT: lambda: make_ordering(EXACT, {"words": list(words)}),
        ESTIMATED: lambda: AnchorsByIdf(words, RENEWED_EVERY),
    }
    crawls = JudgedCrawls(
        web.name, web.graph, [[seed] for seed in web.single_seeds], made,
        recorded=RecordedVisits(path, with_texts=True),
    )  # fmt: skip
    kinds = {"all pages": whole, "pages of at most 16 kB": whole * short}
    p_st = {
        kind: crawls.p_st(values, top_threshold(values, HOT_SHARE, crawls.reachable[0]))
        for kind, values in kinds.items()
    }
    kept = crawls.curves(
        lambda order, reached: limited_buffer(
            order, whole, BUFFERS, RenewedEstimate(query.seen, every), reachable=reached
        )
    )
    early = {
        name: [_agreement(query, whole, order, reached) for order, reached in
               zip(orders, crawls.reachable, strict=True)]
        for name, orders in crawls.orders.items()
    }  # fmt: skip
    report.table(
        "similarity",
        ("ordering", *(f"mean P_ST, {kind}" for kind in kinds),
         *(f"P_BC, B = {share:.0%}" for share in BUFFERS), "hot pages known at 10 %"),
        [
            (
                name, *(f"{area(curves[name]):.3f}" for curves in p_st.values()),
                *(f"{np.mean([c.performance[k] for c in kept[name]]):.1%}"
                  for k in range(len(BUFFERS))),
                f"{np.mean(early[name]):.1%}",
            )
            for name in made
        ],
        f"Crawls for the query {', '.join(words)} without a hot queue. IS is the inner product of "
        "page and query with idf factors of 1 / occurrences in all pages. IS' uses the idf "
        f"factors of the pages crawled so far, computed {RENEWALS} times per crawl, and for the "
        f"ordering every {RENEWED_EVERY} fetches. P_ST: the {HOT_SHARE:.0%} of the pages with the "
        "highest IS is hot. P_BC: what a buffer that drops the page with the lowest IS' holds in "
        f"the end. Right: of the {HOT_SHARE:.0%} of all pages with the highest IS, the share that "
        f"IS' would name after {EARLY_SHARE:.0%} of the crawl, given their texts. '{EXACT}' "
        f"counts the query's words in anchor texts; '{ESTIMATED}' weights them by the idf of the "
        "pages crawled. Means over seeds.",
    )  # fmt: skip
    _judge(report, crawls, p_st, kept, early)


def _agreement(query: Query, whole: Floats, order: PageIds, reached: Mask) -> float:
    """Return the share of the top pages by IS that IS' ranks top after a tenth of the crawl."""
    guess = query.seen(order[: max(int(EARLY_SHARE * len(order)), 1)])
    hot = reached & (whole >= top_threshold(whole, HOT_SHARE, reached))
    named = reached & (guess >= top_threshold(guess, HOT_SHARE, reached))
    return float((hot & named).sum() / max(int(hot.sum()), int(named.sum())))


def _judge(
    report: Report,
    crawls: JudgedCrawls,
    p_st: dict[str, dict[str, list[ModelCurve]]],
    kept: dict[str, list[ModelCurve]],
    early: dict[str, list[float]],
) -> None:
    """Judge what a crawl gains from IS'; the paper says only that it has to be estimated."""
    agreements = [min(values[k] for values in early.values()) for k in range(len(crawls.seeds))]
    report.finding(
        "(not in the paper) IS' with the idf factors of a tenth of the crawl names the pages of "
        "highest IS",
        f"smallest share of the hot pages that it names: {min(agreements):.0%} to "
        f"{max(agreements):.0%}",
        above(crawls.cases([x - 0.9 for x in agreements])),
        "at least 90 % of them, under every ordering",
        name="is-estimated-early",
    )
    held = [
        min(c.performance.min() for c in of_seed) for of_seed in zip(*kept.values(), strict=True)
    ]
    report.finding(
        "(not in the paper) A limited buffer kept by IS' holds the pages of highest IS",
        f"smallest P_BC: {min(held):.0%} to {max(held):.0%}",
        above(crawls.cases([float(x) - 0.9 for x in held])),
        "at least 90 % at every size and under every ordering",
        why="a page's own text is known when it is fetched; only idf factors are estimated",
        name="is-estimated-buffer",
    )
    orders = list(zip(crawls.orders[ESTIMATED], crawls.orders[EXACT], strict=True))
    telling = {k for k, (one, other) in enumerate(orders) if displaced(one, other) >= SAME}
    moved = [int((one != other).sum()) for one, other in orders]
    leads: list[Case] = []
    for kind, curves in p_st.items():
        lead = np.subtract(areas(curves[ESTIMATED]), areas(curves[EXACT]))
        leads += above({f"uci-ics, {kind}, seed {k + 1}": float(lead[k]) for k in sorted(telling)})
    report.finding(
        "(not in the paper) Anchor texts weighted by IS' lead to hot pages sooner than counts of "
        "the query's words",
        "mean P_ST: "
        + "; ".join(
            f"{area(c[ESTIMATED]):.3f} and {area(c[EXACT]):.3f} ({kind})"
            for kind, c in p_st.items()
        )
        + f"; of {len(orders[0][0]):,} places in the crawls {min(moved)} to {max(moved)} differ",
        leads,
        "the larger mean P_ST; identical crawls do not count",
        why=""
        if telling
        else "so few anchor texts contain a word of the query that both orders are nearly the same",
        name="is-estimated-ordering",
    )
