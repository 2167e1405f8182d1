"""The core works without Scrapy."""

from __future__ import annotations

import subprocess
import sys

import pytest

CORE = [
    *("errors", "items", "graph.pages", "graph.topic", "orderings", "ranking", "frontier", "store"),
    *("frontier.protocol", "frontier.site_clock", "web.html", "web.scope", "web.budgets"),
    *("web.addresses", "web.urls", "web.pieces", "store.hashtable", "store.graph_files"),
    *("graph.linkgraph", "graph.synthetic", "graph.convert", "measure.metrics", "measure.scores"),
    *("simulator.timed", "measure.crawl_order", "show.figures", "show.simulated"),
    "show.score_report",
]

BLOCKED = """
import sys

import pytest

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("scrapy", "twisted", "redis"):
            raise ImportError(f"the core imports {name}")

sys.meta_path.insert(0, Refuse())
import importlib
for name in sys.argv[1:]:
    importlib.import_module(f"crawlprio.{name}")
from crawlprio import Ordering, Store, Visit, make_ordering
print(make_ordering("opic").__class__.__name__)
"""


def test_the_core_is_imported_and_used_without_scrapy_or_twisted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *CORE], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("Opic", "")


PLAIN = """
import sys

import pytest

if sys.argv[1] == "plain":
    sys.modules["numba"] = None
import numpy as np
from crawlprio.frontier import PageQueue
from crawlprio.orderings import make_ordering
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit

pages = PageTable()
sites = [pages.site("a.test"), pages.site("b.test")]
frontier = PageQueue(
    make_ordering(sys.argv[2]), pages, plain_until=1000 if sys.argv[1] == "plain" else 0
)
draw = np.random.default_rng(5)
pages.add("0", "0", sites[0])
frontier.observe(Visit(NO_PAGE, np.array([0], dtype=np.int32)))
for _ in range(60):
    page = frontier.next_page(0.0)
    known = len(pages)
    for new in range(known, known + 3):
        pages.add(str(new), str(new), sites[new % 2])
    links = np.union1d(draw.integers(0, known, 4), np.arange(known, known + 3))
    frontier.observe(Visit(page, links[links != page].astype(np.int32)))
    frontier.release(page)
    print(page)
"""


@pytest.mark.parametrize(
    "name", ["random", "breadth-first", "depth-first", "backlink-count", "opic", "partial-pagerank"]
)
def test_a_small_crawl_needs_no_numba_and_keeps_the_order_of_the_compiled_one(name: str) -> None:
    orders = [
        subprocess.run(
            [sys.executable, "-c", PLAIN, how, name], capture_output=True, text=True, check=False
        )
        for how in ("plain", "compiled")
    ]
    assert orders[0].stderr == ""
    assert orders[0].stdout == orders[1].stdout
    assert len(set(orders[0].stdout.split())) == 60
