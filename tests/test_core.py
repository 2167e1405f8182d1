"""The core works without Scrapy."""

import subprocess
import sys

PLAIN = """
import sys

import pytest

how, *names = sys.argv[1:]
if how == "plain":
    sys.modules["numba"] = None
import numpy as np
from crawlprio.frontier import PageQueue
from crawlprio.orderings import make_ordering
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit

for name in names:
    pages = PageTable()
    sites = [pages.site("a.test"), pages.site("b.test")]
    frontier = PageQueue(make_ordering(name), pages, plain_until=1000 if how == "plain" else 0)
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
        print(name, page)
"""


def test_a_small_crawl_needs_no_numba_and_keeps_the_order_of_the_compiled_one():
    names = ("random", "breadth-first", "depth-first", "backlink-count", "opic", "partial-pagerank")
    plain, compiled = (
        subprocess.run(
            [sys.executable, "-c", PLAIN, how, *names], capture_output=True, text=True, check=False
        )
        for how in ("plain", "compiled")
    )
    assert plain.stderr == ""
    assert plain.stdout == compiled.stdout
    assert len(set(plain.stdout.splitlines())) == 60 * len(names)
