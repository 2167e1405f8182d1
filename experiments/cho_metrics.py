"""Metrics that Cho, Garcia-Molina & Page 1998 define but do not test, as importance and ordering.

The location, forward-link, text and combined metrics of the paper's sections 2 and 4, and HITS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from cho_webs import DAMPING, JudgedCrawls, orderings
from numpy.typing import NDArray
from paper_crawls import Mask, area, areas
from report import Report
from verdicts import above
from webs import Web

from crawlprio.measure.crawl_models import ModelCurve, top_threshold
from crawlprio.measure.importance import importance_of, open_repository
from crawlprio.orderings import make_ordering
from crawlprio.simulator.graph_pages import RecordedVisits

HOT_SHARE = 0.01
IMPORTANCES = ("backlinks", "cho-pagerank", "forward-links", "location", "authorities", "hubs")
COMBINED = "location+backlinks"
SHORT = ", pages of at most 16 kB"


def add(report: Report, web: Web) -> None:
    """Write how orderings perform for importance by links and by location."""
    report.heading("The other metrics")
    made = orderings(None, "breadth-first", "backlink-count", "pagerank", "random") | {
        "location": lambda: make_ordering("location"),
        "opic": lambda: make_ordering("opic"),
        "combined": lambda: make_ordering(
            "combined", {"weights": {"location": 1.0, "backlink-count": 1.0}}
        ),
    }
    crawls = JudgedCrawls(web.name, web.graph, [[seed] for seed in web.single_seeds], made)
    options = {"cho-pagerank": {"damping": DAMPING}}
    values = {
        name: importance_of(web.graph, name, options=options.get(name)) for name in IMPORTANCES
    }
    values[COMBINED] = importance_of(web.graph, f"scaled:{COMBINED}")
    curves = {name: _curves(crawls, of_pages) for name, of_pages in values.items()}
    _table(
        report, "metrics", curves,
        f"{web.name}: mean P_ST over all fetches, means over seeds, where the {HOT_SHARE:.0%} of "
        "the pages with the highest importance is hot (ties included). Importance by row: IB, "
        "IR, IF and IL of the paper, authorities and hubs of Kleinberg's HITS, and IL + IB, each "
        "divided by its mean. 'combined' orders by the sum of the location score and the "
        "backlinks seen. Backlink counts vary so much more than location scores that "
        f"{_hot_in_common(crawls, values[COMBINED], values['backlinks']):.0%} of the pages that "
        "are hot by the sum are hot by backlinks alone, so that no claim about a combined metric "
        "can be judged by it.",
    )  # fmt: skip
    lead = _lead(curves["location"], "location")
    report.finding(
        "Sections 2 and 4: IL(p) can be used directly for ordering (location)",
        f"mean P_ST {area(curves['location']['location']):.3f}, the best other "
        f"{_best_other(curves['location'], 'location')}",
        above(crawls.cases(lead, "location")),
        "the largest mean P_ST of all orderings",
        name="own-order-location",
    )
    report.finding(
        "Section 4: for forward links it is much harder to devise an ordering, as the page has not "
        "been seen",
        "mean P_ST: " + ", ".join(f"{n} {area(c):.3f}" for n, c in curves["forward-links"].items()),
        above(
            crawls.cases(
                [
                    0.6 - max(x)
                    for x in zip(*map(areas, curves["forward-links"].values()), strict=True)
                ]
            )
        ),
        "no ordering has a mean P_ST above 0.6 (a draw from all pages: 0.5)",
    )


def on_text(report: Report, web: Web, path: Path, word: str, short: Mask) -> None:
    """Write how orderings by anchor text perform for importance by text."""
    recorded = RecordedVisits(path, with_texts=True)
    topic = {"words": word}
    made = orderings(None, "breadth-first", "backlink-count", "pagerank", "random") | {
        "anchor-similarity": lambda: make_ordering("anchor-similarity", topic),
        "combined": lambda: make_ordering(
            "combined",
            {
                "weights": {"anchor-similarity": 10.0, "backlink-count": 1.0},
                "options": {"anchor-similarity": topic},
            },
        ),
    }
    seeds = [[seed] for seed in web.single_seeds]
    crawls = JudgedCrawls(web.name, web.graph, seeds, made, recorded=recorded)
    repository = open_repository(path)
    of_all = {
        "IS": importance_of(repository, "term-count", topic=word),
        "IC = IS + IB": importance_of(repository, "scaled:term-count+backlinks", topic=word),
    }
    metrics = of_all | {f"{name}{SHORT}": values * short for name, values in of_all.items()}
    curves = {name: _curves(crawls, values) for name, values in metrics.items()}
    _table(
        report, "text-metrics", curves,
        f"Mean P_ST of crawls for {word!r} without a hot queue, where the {HOT_SHARE:.0%} of the "
        "pages with the highest importance is hot, among all pages or among those of at most 16 "
        "kB, which are in the recording whatever their rank. IS counts the word, with a weight "
        "of ten in the title. IC is the sum of IS and IB, each divided by its mean. 'combined' "
        "orders by ten times the anchor similarity plus the backlinks seen.",
    )  # fmt: skip
    for importance, own, words in (
        ("IS", "anchor-similarity", "O(u) = IS(anchor text) predicts the text of the page"),
        ("IC = IS + IB", "combined", "combined metrics suit combined importance"),
    ):
        report.finding(
            f"Sections 2 and 4: {words}",
            "; ".join(
                f"mean P_ST {area(of[own]):.3f}, the best other {_best_other(of, own)}{kind}"
                for kind in ("", SHORT)
                for of in [curves[importance + kind]]
            ),
            above(
                [
                    (f"{name}{kind}", lead)
                    for kind in ("", SHORT)
                    for name, lead in crawls.cases(
                        _lead(curves[importance + kind], own), own
                    ).items()
                ]
            ),
            "the largest mean P_ST of all orderings",
            name=f"own-order-{own}-{importance.partition(' ')[0].lower()}",
        )


def _curves(
    crawls: JudgedCrawls, importance: NDArray[np.float64]
) -> Mapping[str, list[ModelCurve]]:
    """Return P_ST of each ordering, with the most important pages hot."""
    threshold = top_threshold(importance, HOT_SHARE, crawls.reachable[0])
    return crawls.p_st(importance, threshold)


def _hot_in_common(
    crawls: JudgedCrawls, one: NDArray[np.float64], other: NDArray[np.float64]
) -> float:
    """Return the share of the hot pages by one importance that are hot by another."""
    reached = crawls.reachable[0]
    hot, also = (x >= top_threshold(x, HOT_SHARE, reached) for x in (one, other))
    return float((hot & also & reached).sum() / (hot & reached).sum())


def _table(
    report: Report,
    name: str,
    curves: Mapping[str, Mapping[str, Sequence[ModelCurve]]],
    caption: str,
) -> None:
    """Return a row for each importance, with a column for each ordering."""
    names = list(next(iter(curves.values())))
    rows = [(of, *(area(by_ordering[n]) for n in names)) for of, by_ordering in curves.items()]
    report.table(name, ("importance", *names), rows, caption)


def _lead(curves: Mapping[str, Sequence[ModelCurve]], own: str) -> list[float]:
    """Return the lead of one ordering over the next best, by seed."""
    best = np.max([areas(c) for name, c in curves.items() if name != own], axis=0)
    lead: list[float] = np.subtract(areas(curves[own]), best).tolist()
    return lead


def _best_other(curves: Mapping[str, Sequence[ModelCurve]], own: str) -> str:
    """Return the next best ordering and its mean, in words."""
    name = max((n for n in curves if n != own), key=lambda n: area(curves[n]))
    return f"{area(curves[name]):.3f} ({name})"
