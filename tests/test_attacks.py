"""Link farms and traps of 30 % of all pages, and their effect on the order of honest pages.

The web is the demo web; `benchmarks/farms.py` does the same on real webs.
"""

from functools import cache

import numpy as np
import pytest
from attacks import KINDS, SHARE, attacked

from crawlprio.demo.web import DemoWeb
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_order import cumulative_pagerank, reachable
from crawlprio.orderings import make_ordering
from crawlprio.ranking.pagerank import pagerank
from crawlprio.simulator.timed import crawl_order

PAGES, SITES = 2000, 40
PORTAL, HOMES = "portal", "all home pages"


@cache
def honest_web():
    """Return a web on which both orderings come before breadth-first when nobody attacks."""
    web = DemoWeb(PAGES, SITES, seed=3)
    return LinkGraph(web.indptr, web.indices, site=web.site)


@cache
def seeds_of(start):
    sites = honest_web().site
    return [0] if start == PORTAL else np.unique(sites, return_index=True)[1].tolist()


@cache
def attacked_web(start, kind, entries):
    return attacked(honest_web(), seeds_of(start), kind, entries)


@cache
def quality(start, kind, entries, ordering):
    """Return the honest web's average cumulative PageRank, and the fetches until half of it."""
    honest, web, seeds = honest_web(), attacked_web(start, kind, entries), seeds_of(start)
    ranks = pagerank(honest.indptr, honest.indices)
    worth = np.append(ranks, np.zeros(web.n_pages - honest.n_pages))
    order = crawl_order(web, seeds, make_ordering(ordering))
    gathered = np.cumsum(worth[order])
    average = cumulative_pagerank(order, worth, reachable(web, seeds)).mean()
    return average, int(np.searchsorted(gathered, gathered[-1] / 2)) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_has_the_stated_size_and_leaves_the_honest_links_unchanged(kind):
    web, honest = attacked_web(PORTAL, kind, 10), honest_web()
    assert web.n_pages == pytest.approx(PAGES / (1 - SHARE), abs=1)
    sources = np.repeat(np.arange(web.n_pages), np.diff(web.indptr))
    is_honest = (sources < PAGES) & (web.indices < PAGES)
    assert np.array_equal(web.indices[is_honest], honest.indices)
    entering = (sources < PAGES) & (web.indices >= PAGES)
    assert len(np.unique(sources[entering])) == 10
    assert not np.any((sources >= PAGES) & (web.indices < PAGES))
    assert reachable(web, [0]).all()


def test_the_attacks_do_harm():
    """OPIC, which has no defence, falls far below breadth-first in a calendar."""
    opic, _ = quality(PORTAL, "calendar", 10, "opic")
    usual, _ = quality(PORTAL, "calendar", 10, "breadth-first")
    assert opic < usual - 0.1


@pytest.mark.parametrize("start", [PORTAL, HOMES])
@pytest.mark.parametrize("entries", [1, 10, PAGES // 100])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ordering", ["sibling-sampling", "rankmass"])
def test_the_important_pages_come_no_later_than_under_breadth_first(ordering, kind, entries, start):
    average, to_half = quality(start, kind, entries, ordering)
    usual_average, usual_to_half = quality(start, kind, entries, "breadth-first")
    assert average > usual_average - 0.005
    assert to_half <= usual_to_half


@pytest.mark.parametrize("start", [PORTAL, HOMES])
@pytest.mark.parametrize("kind", KINDS)
def test_one_link_buys_an_attacker_little_under_sibling_sampling(kind, start):
    """Most honest PageRank is gathered as early as without an attack."""
    _, attacked_to_half = quality(start, kind, 1, "sibling-sampling")
    order = crawl_order(honest_web(), seeds_of(start), make_ordering("sibling-sampling"))
    ranks = pagerank(honest_web().indptr, honest_web().indices)
    to_half = int(np.searchsorted(np.cumsum(ranks[order]), ranks[order].sum() / 2)) + 1
    assert attacked_to_half <= 1.05 * to_half
