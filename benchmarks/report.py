"""What the audit and the report of a large store cost; run by hand, some minutes.

    python benchmarks/report.py [--pages 1000000] [--sites 2000] [--store FILE] [--reports FOLDER]

The store is synthetic: a web as `crawlprio.graph.synthetic_web` makes them, of which 85 % is
fetched breadth-first from twenty home pages, with redirects, failures, copies, repeated titles and
slow pages. An existing FILE is used again. Each command runs in its own process; its seconds and
its greatest memory are printed. How long a browser takes to open the report is not measured here.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from crawlprio.graph.pages import NO_PAGES, PageTable, Visit
from crawlprio.graph.synthetic import home_pages, synthetic_web
from crawlprio.orderings import make_ordering
from crawlprio.simulator.timed import crawl_order
from crawlprio.store import Store

SHARE_FETCHED, N_SEEDS, SEED = 0.85, 20, 1
AT_ONCE = 1_000


def visit_of(page: int, links: np.ndarray, number: int, rng: random.Random) -> Visit:
    """Return what the fetch of a page got: 2 % redirects, 2 % failures, 4 % copies."""
    draw = rng.random()
    fields = {
        "title": "Welcome" if rng.random() < 0.05 else f"Page {page} of the synthetic web",
        "fetched_at": 1.7e9 + 0.05 * number,
        "elapsed": rng.lognormvariate(-2.0, 0.9),
        "n_bytes": int(rng.lognormvariate(9.5, 1.0)),
        "content_hash": page + 1,
    }
    if draw < 0.02 and len(links):
        return Visit(page, links[:1], status=301, **{**fields, "title": ""})
    if draw < 0.04:
        return Visit(page, NO_PAGES, status=404, **{**fields, "title": ""})
    if draw < 0.045:
        lost = {"fetched_at": fields["fetched_at"], "elapsed": 60.0}
        return Visit(page, NO_PAGES, status=0, error="timed out", **lost)
    if draw < 0.085:
        fields["content_hash"] = 1 + page % 5_000
    anchors = [f"Read more about {target % 999}" for target in links.tolist()]
    return Visit(page, links, anchors=anchors, **fields)


def write_store(path: Path, n_pages: int, n_sites: int) -> None:
    """Write a store of `n_pages` known pages."""
    web = synthetic_web(n_pages, n_sites, max_pages_per_site=max(25_000, 4 * n_pages // n_sites))
    seeds = home_pages(web)[:N_SEEDS].tolist()
    budget = int(SHARE_FETCHED * n_pages)
    order = crawl_order(web, seeds, make_ordering("breadth-first"), budget=budget)
    rng = random.Random(SEED)
    pages = PageTable()
    for page in range(n_pages):
        host = f"site{web.site[page]}.example"
        url = f"https://{host}/section-{page % 97}/page-{page}.html"
        pages.add(url, url, pages.site(host), min(page.bit_length(), 15))
    with Store.create(path) as store:
        store.record_pages(pages, seeds)
        store.set_meta("ordering", "breadth-first")
        for number, page in enumerate(order.tolist()):
            links = web.indices[web.indptr[page] : web.indptr[page + 1]]
            last = number % AT_ONCE == AT_ONCE - 1
            store.record(visit_of(page, links, number, rng), pages, commits=last)
        store.end_run(1.7e9 + 0.05 * budget)


def timed(*words: str) -> None:
    """Run a command of crawlprio; print what it took."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "crawlprio.commands.cli", *words], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    processor = usage.ru_utime + usage.ru_stime
    print(
        f"crawlprio {words[0]}: {seconds:.1f} s ({processor:.1f} s of processor time), "
        f"{usage.ru_maxrss / 1024:.0f} MiB, exit status {status}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--sites", type=int, default=2_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--reports", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = given.store or Path(folder) / "crawl.sqlite"
        if not store.exists():
            write_store(store, given.pages, given.sites)
        reports = given.reports or Path(folder)
        with Store.open(store, readonly=True) as read:
            print(f"{read.n_pages:,} pages, {read.n_visits:,} visits, {store.stat().st_size:,} B")
        timed("audit", str(store), "--csv", str(reports / "audit.csv"))
        timed("score", str(store), "--report", str(reports / "report.html"))


if __name__ == "__main__":
    main()
