"""The core works without Scrapy."""

import subprocess
import sys

import pytest

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
def test_a_small_crawl_needs_no_numba_and_keeps_the_order_of_the_compiled_one(name):
    orders = [
        subprocess.run(
            [sys.executable, "-c", PLAIN, how, name], capture_output=True, text=True, check=False
        )
        for how in ("plain", "compiled")
    ]
    assert orders[0].stderr == ""
    assert orders[0].stdout == orders[1].stdout
    assert len(set(orders[0].stdout.split())) == 60
