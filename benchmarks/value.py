"""How much value orderings find on real pages; run by hand, for docs/value.md.

    python benchmarks/value.py FOLDER [--warc FILE] [--web NAME]... [--starts N] [--tuning]

Builds crawl stores with texts in FOLDER, unless they are there (`value_webs.py`): documentation of
scientific Debian packages, websites archived in git repositories, and, with --warc, a recorded
crawl of www.ics.uci.edu. Then crawls each web in memory under each ordering: from its home pages,
and from random pages, as many as it takes to reach half of what these reach.

`JUDGES` are set aside: they chose no input, weight or option of an ordering. That an earlier rule
of `value` did badly on two of their webs led to the present one. `TUNING` chose the rules of
`value` and `value-and-importance`; with --tuning, these are measured instead. The archives among
the judges are held out by the rule of `archives.py` too. All topics were chosen by how many pages
have their words, before any crawl for them.

A value is `words:TERMS`, or, for `EXPLAINS`, the probability by a classifier that a page explains
rather than lists. It is trained on other packages of documentation: the pages of functions, which
their generator keeps in folders `generated`, against all others. The figures depend on the Debian
release.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from value_webs import Packages, Recording, Repository, TextWeb, build
from webs import Library

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.measure.crawl_order import reachable
from crawlprio.orderings import make_ordering
from crawlprio.plugins.value.classifier import train
from crawlprio.plugins.value.model import page_of
from crawlprio.plugins.value.models import make_model
from crawlprio.plugins.value.value_runs import MARKS, page_values
from crawlprio.ranking.pagerank import pagerank
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.simulator.timed import crawl_order
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph
from crawlprio.web.html import parse_page

SCIENCE = (
    *("python-scipy-doc", "python-sklearn-doc", "python-pandas-doc", "r-doc-html"),
    "python-astropy-doc",
)
EXPLAINS, EXPLAINS_WORDS = "explains", "tutorial,guide,introduction"
"""The quality, and what one would give a hot queue for it."""

EXAMPLES = ("python-statsmodels-doc", "python-dask-doc", "python-sqlalchemy-doc")
"""The packages on which the classifier is trained."""

JUDGES = {
    "science": ("regression", "matrix,linear algebra", "plot,figure", "time series", EXPLAINS),
    "uci": (
        *("cryptography,encryption", "database,query", "seminar"),
        "parallel,distributed computing",
    ),
    "fetchmail-list": ("ssl,certificate", "debian"),
    "openenergy-forum": ("heat pump", "raspberry pi"),
}
TUNING = {
    "ucf-news": ("football", "engineering", "nanotechnology,optics"),
    "phila-gov": ("permit,license", "tax"),
    "computer-forum": ("windows xp", "linux", "virus"),
    "opensim-list": ("physics", "database,mysql", "permission,permissions", "linux,mono"),
}

HOT_QUEUE, ORACLE = "hot queue", "omniscient"

SYSTEMS = (
    *("random", "breadth-first", HOT_QUEUE, "best-first", "parent-quality", "value"),
    *("value-and-importance", ORACLE),
)
"""What is compared; the hot queue is breadth-first behind the hot queue of the same words."""


def web_of(name: str, folder: Path, warc: Path | None) -> TextWeb:
    """Return a web by name."""
    if name == "science":
        return Packages(folder, SCIENCE)
    if name == "uci":
        assert warc is not None
        return Recording(warc, "http://www.ics.uci.edu/")
    return Repository(folder, name)


def train_explains(folder: Path, path: Path) -> None:
    """Write the classifier that tells pages that explain from those that list."""
    library, sides = Library(folder), ([], [])
    for package in EXAMPLES:
        library.add(package)
        for name in sorted(library.sites[package].paths):
            if "/_modules/" not in name and "genindex" not in name:
                body = (library.root / name[1:]).read_bytes()
                url = f"http://{package}.example{name}"
                parsed = parse_page(body, url, want_text=True, without_navigation=True)
                sides["/generated/" in name].append(page_of("", parsed.title, parsed.text))
    train(*sides, strength=0.01).write(path)


def model_of(topic: str, folder: Path) -> tuple[str, str]:
    """Return the value model of a topic, and the words of its hot queue."""
    if topic != EXPLAINS:
        return f"words:{topic}", topic
    path = folder / f"{EXPLAINS}.json"
    if not path.exists():
        train_explains(folder, path)
    return str(path), EXPLAINS_WORDS


def starts_of(graph: LinkGraph, homes: list[int], n: int) -> list[list[int]]:
    """Return the home pages, and draws of random pages that reach half as much."""
    starts, draw = [homes], np.random.default_rng(5)
    least = reachable(graph, homes).sum() / 2
    while len(starts) < n:
        start: list[int] = []
        while not start or reachable(graph, start).sum() < least:
            start.append(int(draw.integers(graph.n_pages)))
        starts.append(list(dict.fromkeys(start)))
    return starts


def measure(store: Path, topic: str, n_starts: int) -> NDArray[np.float64]:
    """Return what each system finds at `MARKS`, shape (2, systems, marks), means over the starts.

    First the share of all value, then the same with the value of each page times its PageRank.
    """
    model, words = model_of(topic, store.parent)
    graph = read_graph(store)
    with Store.open(store, readonly=True) as opened:
        starts = starts_of(graph, opened.seeds(), n_starts)
    recorded = RecordedVisits(store, with_texts=True)
    judge = make_model(model)
    recorded.values = values = page_values(store, graph, judge)
    weighted = values * pagerank(graph.indptr, graph.indices)
    found = np.zeros((2, len(SYSTEMS), len(MARKS)))
    for start in starts:
        reached = reachable(graph, start)
        ends = [round(mark * int(reached.sum())) for mark in MARKS]
        for at, name in enumerate(SYSTEMS):
            ordering = make_ordering("breadth-first" if name == HOT_QUEUE else name)
            ordering.judge = judge.judge
            order = crawl_order(
                graph,
                start,
                ordering,
                budget=ends[-1],
                hot_queue=HotQueue(Topic(words)) if name == HOT_QUEUE else None,
                truth=values if name == ORACLE else None,
                recorded=recorded,
            )
            for row, worth in enumerate((values, weighted)):
                gathered = np.cumsum(worth[order]) / worth[reached].sum()
                found[row, at] += [gathered[min(end, len(order)) - 1] for end in ends]
    found /= len(starts)
    sizes = ", ".join(str(len(start)) for start in starts)
    print(f"{store.stem}, {topic}, mean value {values.mean():.4f}, starts of {sizes} pages:")
    for name, value, rank in zip(SYSTEMS, *found, strict=True):
        print(f"  {name}: {value.round(3).tolist()} {rank.round(3).tolist()}", flush=True)
    return found


def closed(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much of the distance from hot queue to oracle each system closes."""
    floor, top = found[..., [SYSTEMS.index(HOT_QUEUE)], :], found[..., [SYSTEMS.index(ORACLE)], :]
    return (found - floor) / (top - floor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--warc", type=Path, help="the recorded crawl")
    parser.add_argument("--web", action="append", choices=[*JUDGES, *TUNING], help="only this one")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--tuning", action="store_true", help="the webs that chose the rule")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, topics in (TUNING if options.tuning else JUDGES).items():
        if name not in (options.web or [name]) or (name == "uci" and options.warc is None):
            continue
        store = options.folder / f"{name}.sqlite"
        if not store.exists():
            build(store, web_of(name, options.folder, options.warc))
        rows += [measure(store, topic, options.starts) for topic in topics]
    found = np.array(rows)
    titles = ("value", "value x PageRank")
    for title, of_title in zip(titles, np.moveaxis(found, 1, 0), strict=True):
        print(f"{title} over {len(rows)} topics: mean, worst, share of the distance closed")
        means = of_title.mean(axis=0)
        for at, name in enumerate(SYSTEMS):
            figures = (means[at], of_title.min(axis=0)[at], closed(means)[at])
            print(f"  {name}:", *(each.round(3).tolist() for each in figures))


if __name__ == "__main__":
    main()
