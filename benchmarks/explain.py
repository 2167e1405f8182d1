"""How long `crawlprio explain` takes; run by hand, about a minute, most of it to make the store.

    python benchmarks/explain.py [--pages N] [--folder FOLDER]

The store is synthetic: each visit shows 7 new pages and links to some 18 known ones, on 5,000
sites. Printed are seconds on the clock and of the processor for a page that waits, one that was
fetched half-way, one that is not known, and the head of the frontier, each in a process of its own.
It does not show stores with long anchor texts or many outside links, and no ordering but the
default.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from crawlprio.graph.pages import PageTable, Visit
from crawlprio.store import Store

N_NEW, N_OLD, N_SITES, SEED = 7, 18, 5_000, 1


def url_of(page: int) -> str:
    """Return the URL of a page."""
    return f"https://site{page % N_SITES}.example/section/page-{page}.html"


def add(pages: PageTable, n: int) -> None:
    """Add the next pages to the table."""
    for page in range(len(pages), len(pages) + n):
        url = url_of(page)
        pages.add(url, url, pages.site(url.split("/", 3)[2]), 1)


def make_store(path: Path, n_pages: int) -> int:
    """Write a store of so many pages, fetched in order of discovery; return its visits."""
    rng = np.random.default_rng(SEED)
    n_visits = 0
    with Store.create(path) as store:
        pages = store.stored_pages()
        add(pages, 1)
        store.record_pages(pages, [0])
        store.add_ordering("sibling-sampling")
        while len(pages) < n_pages:
            first = len(pages)
            add(pages, N_NEW)
            old = np.unique(rng.integers(0, first, N_OLD))
            targets = np.concatenate([np.arange(first, first + N_NEW), old[old != n_visits]])
            visit = Visit(
                n_visits,
                targets.astype(np.int32),
                anchors=["read more"] * len(targets),
                title="A page",
                status=200,
                fetched_at=1.7e9 + n_visits,
                elapsed=0.1,
                n_bytes=12_345,
            )
            n_visits += 1
            store.record(visit, pages, commits=n_visits % 50 == 0)
        store.commit()
        store.end_run(1.7e9 + n_visits, pages)
    return n_visits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder, "crawl.sqlite")
        n_visits = make_store(path, options.pages)
        print(f"{options.pages:,} pages, {n_visits:,} visits, {path.stat().st_size:,} bytes")
        asked = {
            "first (loads compiled code)": [url_of(options.pages - 5)],
            "waiting": [url_of(options.pages - 5)],
            "fetched half-way": [url_of(n_visits // 2)],
            "not known": ["https://site1.example/nowhere"],
            "head": [],
        }
        for what, words in asked.items():
            command = [sys.executable, "-m", "crawlprio.commands.cli", "explain", str(path), *words]
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(
                f"{what}: {time.perf_counter() - start:.1f} s, processor {worked:.1f} s, "
                f"at most {after.ru_maxrss / 1024:,.0f} MiB so far"
            )


if __name__ == "__main__":
    main()
