"""How fast the crawl store records visits and expands links; run by hand, about ten seconds.

    python benchmarks/store.py [--visits N] [--folder FOLDER]

The crawl is synthetic: each visit brings 7 new pages, 25 links with anchor texts, and a title. The
benchmark shows the cost of the store alone: no parsing, no network, no ordering. The cost of a
checkpoint depends on the disk, so run it in the folder of the crawl. `bare` writes the same rows
with plain sqlite3, alternating with the store; the ratio shows what the store adds.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from crawlprio.graph.pages import PageTable, Visit
from crawlprio.store import Store

N_NEW, N_LINKS, SEED = 7, 25, 1
RULES = ["out-of-scope", "extension", "nofollow"]
WORDS = ["home", "about", "read", "more", "papers", "machine", "learning", "group", "news", "über"]


def synthetic_visits(n: int, rng: random.Random) -> list[tuple[list[str], Visit]]:
    """Yield for each visit the URLs of the pages that it discovers, and the visit."""
    visits, n_pages = [], 1
    for page in range(n):
        urls = [
            f"https://site{i % 50}.example/section/page-{i}.html"
            for i in range(n_pages, n_pages + N_NEW)
        ]
        n_pages += N_NEW
        targets = rng.sample(range(max(0, n_pages - 5000), n_pages), min(N_LINKS, n_pages))
        anchors = [" ".join(rng.choices(WORDS, k=2)) for _ in targets]
        row = np.array([t for t in targets if t != page], dtype=np.int32)
        visit = Visit(
            page,
            row,
            anchors=anchors[: len(row)],
            title="A page of the synthetic web",
            fetched_at=1.7e9 + page,
            elapsed=0.1,
            n_bytes=12_345,
            content_hash=page,
        )
        visits.append((urls, visit))
    return visits


def discover(pages: PageTable, urls: list[str]) -> None:
    """Add pages to the table, as a scheduler does before it records their visit."""
    for url in urls:
        pages.add(url, url, pages.site(url.split("/", 3)[2]), 1)


def time_store(
    path: Path, visits: list[tuple[list[str], Visit]], *, n_rules: int = 0
) -> tuple[float, float]:
    """Return the seconds to record the visits, each with its pages, in its own transaction.

    Then the seconds of processor time. Each visit has links that `n_rules` rules refused.
    """
    spent = processor = 0.0
    with Store.create(path) as store:
        pages = store.stored_pages()
        discover(pages, ["https://site0.example/"])
        store.record_pages(pages, [0])
        for urls, visit in visits:
            discover(pages, urls)
            for rule in RULES[:n_rules]:
                store.pending.refusals.add(rule, 3, urls)
            start, worked = time.perf_counter(), time.thread_time()
            store.record(visit, pages)
            spent += time.perf_counter() - start
            processor += time.thread_time() - worked
        assert store.n_visits == len(visits)
    return spent, processor


def time_bare(path: Path, visits: list[tuple[list[str], Visit]]) -> float:
    """Return the seconds to insert equally large rows with sqlite3 alone, committing each visit."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        "CREATE TABLE pages(id INTEGER PRIMARY KEY, url, key, site, depth);"
        "CREATE TABLE visits(seq INTEGER PRIMARY KEY, page, status, fetched_at, elapsed, n_bytes,"
        " content_hash, targets, anchors, title); CREATE INDEX visits_page ON visits(page);"
    )
    spent, n_pages = 0.0, 1
    for urls, visit in visits:
        rows = [(n_pages + i, url, None, 0, 1) for i, url in enumerate(urls)]
        n_pages += len(urls)
        start = time.perf_counter()
        targets, anchors = json.dumps(visit.targets.tolist()), json.dumps(visit.anchors)
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO pages VALUES(?,?,?,?,?)", rows)
        db.execute(
            "INSERT INTO visits VALUES(NULL,?,?,?,?,?,?,?,?,?)",
            (
                visit.page,
                visit.status,
                visit.fetched_at,
                visit.elapsed,
                visit.n_bytes,
                visit.content_hash,
                targets,
                anchors,
                visit.title,
            ),
        )
        db.execute("COMMIT")
        spent += time.perf_counter() - start
    db.close()
    return spent


def time_reading(path: Path) -> None:
    """Print the cost of reading the store."""
    with sqlite3.connect(path) as db:
        for what in ("count(*)", "sum(target)", "sum(length(anchor))"):
            start = time.perf_counter()
            (value,) = db.execute(f"SELECT {what} FROM links").fetchone()
            print(f"links view, {what}: {value:,} in {time.perf_counter() - start:.3f} s")
        start = time.perf_counter()
        n = sum(1 for _ in db.execute("SELECT * FROM link_urls"))
        print(f"link_urls view, all {n:,} rows into Python: {time.perf_counter() - start:.3f} s")
    with Store.open(path, readonly=True) as store:
        start = time.perf_counter()
        n = sum(1 for _ in store.visits())
        print(f"visits(): {n:,} in {time.perf_counter() - start:.3f} s")
        start = time.perf_counter()
        n = len(store.load_pages())
        print(f"load_pages(): {n:,} pages in {time.perf_counter() - start:.3f} s")
        start = time.perf_counter()
        n = sum(1 for _ in store.visits(texts=False, anchors=False))
        print(f"visits() without texts: {n:,} in {time.perf_counter() - start:.3f} s")
        start = time.perf_counter()
        n = len(store.stored_pages())
        print(f"stored_pages(): {n:,} pages in {time.perf_counter() - start:.3f} s")
        start = time.perf_counter()
        store.link_graph()
        print(f"link_graph(): {time.perf_counter() - start:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visits", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    visits = synthetic_visits(options.visits, random.Random(SEED))
    print(f"{len(visits):,} visits, {N_NEW} new pages and {N_LINKS} links each, seed {SEED}")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for turn in (1, 2):
            ours, worked = time_store(Path(folder, f"ours{turn}.sqlite"), visits)
            _, refusing = time_store(Path(folder, f"refusing{turn}.sqlite"), visits, n_rules=3)
            bare = time_bare(Path(folder, f"bare{turn}.sqlite"), visits)
            print(
                f"turn {turn}: store {len(visits) / ours:,.0f} visits/s "
                f"({1e6 * ours / len(visits):.1f} µs each), bare sqlite3 "
                f"{len(visits) / bare:,.0f} visits/s, ratio {ours / bare:.2f}; "
                f"processor {1e6 * worked / len(visits):.1f} µs a visit, with refused links "
                f"{1e6 * refusing / len(visits):.1f}"
            )
        path = Path(folder, "ours1.sqlite")
        print(f"{path.stat().st_size / len(visits):,.0f} bytes a visit on disk")
        time_reading(path)


if __name__ == "__main__":
    main()
