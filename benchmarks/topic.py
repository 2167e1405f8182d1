"""What `crawlprio crawl --topic` finds on manuals with an index page; by hand, for docs/topic.md.

    python benchmarks/topic.py FOLDER [WEB]...

FOLDER has a crawl store with texts for each web, WEB.sqlite: unpack the Debian package, serve the
folder in which its manual has its `index.html` (of debian-handbook and apache2-doc the English
one), and crawl it whole with `crawlprio crawl URL --ordering breadth-first --value words:x --store
WEB.sqlite`. `TUNING` chose the `distance` that `--topic` sets; `JUDGES` did not. The topics were
written down before any crawl for them. The figures depend on the Debian release.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.measure.crawl_order import reachable
from crawlprio.orderings import make_ordering
from crawlprio.plugins.value.models import make_model
from crawlprio.plugins.value.value_runs import page_values
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.simulator.timed import crawl_order
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph

TUNING = {
    "postgresql-doc-15": (
        *("vacuum, autovacuum, dead tuples", "full text search, tsvector", "replication, standby"),
        *("trigger", "json, jsonb"),
    ),
    "python3.11-doc": (
        *("asyncio, coroutine", "regular expression", "sqlite, database", "unicode, encoding"),
        "socket",
    ),
    "python-django-doc": (
        *("middleware", "migrations, schema", "csrf, xss, security", "geodjango, gis"),
        "cache, caching",
    ),
    "sqlite3-doc": (
        *("full text search, fts5", "write-ahead log, wal", "query planner", "json"),
        "virtual table",
    ),
    "debian-handbook": (
        *("raid, lvm", "firewall", "samba, windows", "apt, aptitude", "mail server, postfix"),
    ),
    "git-doc": ("rebase", "submodule", "bisect", "fast-import, fast-export", "credential"),
}
JUDGES = {
    "octave-doc": (
        *("sparse matrix", "plot, figure", "image, colormap", "integration, ode"),
        "regular expression",
    ),
    "python-sqlalchemy-doc": (
        *("transaction", "oracle, mssql", "relationship, joinedload", "asyncio", "pool, pooling"),
    ),
    "apache2-doc": ("ssl, tls", "rewrite, redirect", "cgi", "proxy", "ldap, dbm"),
}

WAYS = {
    "--topic": ("value", 0),
    "value": ("value", None),
    "value-and-importance": ("value-and-importance", None),
    "value-and-importance, distance 0": ("value-and-importance", 0),
    "scout, distance 3": ("scout", 3),
    "scout, distance 0": ("scout", 0),
    "breadth-first, distance 3": ("breadth-first", 3),
    "oracle": ("omniscient", None),
}
"""What is compared: an ordering, and the `distance` of the hot queue before it; None: no queue."""

MARKS = (0.05, 0.1, 0.2, 0.4)


def measure(store: Path, topic: str) -> list[list[float]]:
    """Return the share of all value that each way finds at `MARKS`."""
    graph, recorded = read_graph(store), RecordedVisits(store, with_texts=True)
    with Store.open(store, readonly=True) as opened:
        seeds = list(opened.seeds())
    model = make_model(f"words:{topic}")
    values = recorded.values = page_values(store, graph, model)
    n_pages, found = int(reachable(graph, seeds).sum()), []
    for name, distance in WAYS.values():
        ordering = make_ordering(name)
        ordering.judge = model.judge
        order = crawl_order(
            graph,
            seeds,
            ordering,
            budget=round(MARKS[-1] * n_pages),
            hot_queue=None if distance is None else HotQueue(Topic(topic), distance=distance),
            truth=values if name == "omniscient" else None,
            recorded=recorded,
        )
        gathered = np.cumsum(values[order]) / values.sum()
        found.append([float(gathered[int(mark * n_pages) - 1]) for mark in MARKS])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("web", nargs="*")
    given = parser.parse_args()
    for group in (TUNING, JUDGES):
        shares = []
        for web in (each for each in group if each in (given.web or group)):
            of_web = [measure(given.folder / f"{web}.sqlite", topic) for topic in group[web]]
            shares += of_web
            _print(web, np.array(of_web))
        if shares:
            _print(f"all {len(shares)} topics", np.array(shares))


def _print(title: str, found: NDArray[np.float64]) -> None:
    print(title)
    for at, way in enumerate(WAYS):
        n_behind = (found[:, at] < found[:, list(WAYS).index("value")] - 0.01).sum(axis=0)
        numbers = " ".join(f"{share:.3f}" for share in found[:, at].mean(axis=0))
        print(f"  {way:<34}{numbers}  topics behind value: {n_behind.tolist()}", flush=True)


if __name__ == "__main__":
    main()
