"""The distribution of `random`, compared with a crawler that draws each page from a list."""

import random
from collections import Counter

import numpy as np
import pytest
from driver import WebPages
from linkgraphs import graph_of_web
from oracles import Web, drawn_from_a_list

from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.orderings.base import uniform
from crawlprio.simulator.timed import crawl_order

LATE_AND_EARLY = Web(links={0: [1, 2, 3], 1: [4], 4: [5], 2: [6, 3]})
"""Pages known from the start compete with pages found late."""

ALIKE = 0.001
"""Samples of one distribution exceed this in one of a thousand tests; the seeds are fixed."""


class LotsAtDiscovery(Ordering):
    """Not a random crawler: a page found long ago has a low draw, or it would be gone."""

    def __init__(self, seed=0):
        self.seed = seed

    def discover(self, first, last, visit):
        self.keys[first:last] = [uniform(self.seed, page) for page in range(first, last)]


def simulated(web, seeds, ordering_of):
    graph = graph_of_web(web)
    return lambda seed: crawl_order(graph, seeds, ordering_of(seed)).tolist()


def listed(web, seeds):
    return lambda seed: drawn_from_a_list(web, seeds, random.Random(seed))


def probability_alike(first, second):
    """Return the p-value of the chi-square test that two samples have the same distribution."""
    from scipy.stats import chi2_contingency  # takes a second, which each process would pay

    counts = Counter(first), Counter(second)
    kinds = sorted(counts[0] | counts[1], key=str)
    found = chi2_contingency([[of[kind] for kind in kinds] for of in counts])
    assert found.expected_freq.min() > 5
    return float(found.pvalue)


def random_ordering(seed):
    return make_ordering("random", {"seed": seed})


@pytest.mark.slow
def test_whole_orders_are_as_likely_as_with_draws_from_a_list():
    web, seeds = LATE_AND_EARLY, [0]
    n = 8_000
    drawn = [tuple(listed(web, seeds)(seed)) for seed in range(n)]
    clocks = simulated(web, seeds, random_ordering)
    assert probability_alike(drawn, [tuple(clocks(seed)) for seed in range(n)]) > ALIKE
    assert len(set(drawn)) == 60
    lots = simulated(web, seeds, LotsAtDiscovery)
    assert probability_alike(drawn, [tuple(lots(seed)) for seed in range(n // 4)]) < 1e-20


def test_a_page_that_waits_before_its_visit_has_the_mean_of_the_clocks():
    pages = WebPages(Web(links={0: [1, 2]}))
    ordering = make_ordering("random")
    frontier = PageQueue(ordering, pages)
    frontier.observe(pages.seeds([0]))
    assert ordering.initial_key == -1.0
    frontier.observe(pages.visit(frontier.next_page(0.0)))
    assert ordering.initial_key == ordering.keys[0] - 1.0 < -1.0


def test_clocks_differ_after_a_billion_pages_in_a_chain():
    ordering = make_ordering("random")
    pages = WebPages(Web(links={0: list(range(1, 1001))}))
    ordering.open(pages)
    ordering.learn(pages.seeds([0]), 1)
    ordering.keys[0] = -1e9
    visit = pages.visit(0)
    ordering.learn(visit, len(pages))
    assert len(np.unique(ordering.keys[1:1001])) == 1000
    assert ordering.keys[1:1001].max() <= -1e9
    assert visit.page != NO_PAGE
