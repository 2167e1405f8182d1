"""SCOUT: what each of its parts does, rows and sites larger than a visit may change, resuming."""

import random

import numpy as np
import oracles
import pytest
from linkgraphs import graph_of
from oracles import Web

from crawlprio.errors import ConfigError
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.orderings import make_ordering
from crawlprio.orderings.scout import Scout
from crawlprio.simulator.graph_pages import GraphPages
from crawlprio.simulator.timed import crawl_order


def random_rows(n_pages, n_links, seed):
    rng = random.Random(seed)
    return [rng.sample(range(n_pages), n_links) for _ in range(n_pages)]


class Crawl:
    """A crawl that observes the visits that a test chooses; pages have their ids of the graph."""

    def __init__(self, graph, **options):
        self.graph, self.pages = graph, GraphPages(graph)
        self.ordering = make_ordering("scout", options)
        self.ordering.open(self.pages)
        self.observe(NO_PAGE, np.array([0], dtype=np.int32))

    def observe(self, page, row):
        visit = Visit(page, self.pages.discover(row))
        self.ordering.learn(visit, len(self.pages))
        self.ordering.learn(visit, len(self.pages), again=True)

    def fetch(self, *pages):
        for page in pages:
            self.observe(int(self.pages.local_of[page]), self.graph.out_links(page))
        return self

    def key(self, page):
        return float(self.ordering.keys[self.pages.local_of[page]])


@pytest.mark.slow
def test_the_oracle_agrees_where_rows_and_sites_are_larger_than_a_visit_may_change():
    n_pages = 1200
    rows = random_rows(n_pages, 4, seed=7)
    rows[0], rows[5], rows[6] = [*range(1, 600)], [*range(300, 900)], [*range(7, 1200)]
    web = Web(links=dict(enumerate(rows)), site={page: page % 3 for page in range(n_pages)})
    graph = graph_of(rows, [page % 3 for page in range(n_pages)])
    for options in ({}, {"push_budget": 650, "threshold": 0.0}):
        expected = oracles.crawl(web, [0], "scout", 120, **options)
        assert crawl_order(graph, [0], Scout(**options), budget=120).tolist() == expected


def test_mass_from_other_sites_and_from_the_own_one_counts_by_what_was_seen_of_them():
    """Page 0 links to 1, ..., 4 of its site and 5, ..., 9 of another; none is fetched yet."""
    graph = graph_of([[*range(1, 10)], *([] for _ in range(9))], [0] * 5 + [1] * 5)
    crawl = Crawl(graph, novelty=0.0, seed_mass=9.0).fetch(0)
    share = 0.85 * 9.0 / 9
    assert crawl.key(1) == pytest.approx(1 + (5 + 1) / (1 + 1) * share)
    assert crawl.key(5) == pytest.approx(1 + 10 / 2 * share)


def test_what_is_fetched_on_a_site_lowers_the_keys_of_the_pages_that_wait_there():
    graph = graph_of([[*range(1, 50)], *([] for _ in range(49))], [0] * 25 + [1] * 25)
    crawl = Crawl(graph).fetch(0)
    here, there = crawl.key(2), crawl.key(30)
    crawl.fetch(1)
    assert crawl.key(2) < 0.8 * here, "half as much of the site is unseen now"
    assert crawl.key(30) == there, "no page of the other site was fetched"


def test_a_fetched_page_passes_on_what_reaches_it_later_as_far_as_the_budget_goes():
    """Page 1 links to 3 and 4; then page 2 links to 1."""
    graph = graph_of([[1, 2], [3, 4], [1], [], []], [0] * 5)

    def gained(**options):
        crawl = Crawl(graph, novelty=0.0, **options).fetch(0, 1)
        return crawl.fetch(2).key(3) / Crawl(graph, novelty=0.0, push_budget=0).fetch(0, 1, 2).key(
            3
        )

    assert gained() > 1.5
    assert gained(push_budget=1) == 1.0, "page 1 has two links"
    assert gained(threshold=1000.0) == 1.0


@pytest.mark.parametrize(
    ("option", "value", "bound"),
    [
        ("seed_mass", -1, "0 or more"),
        ("damping", 1.0, "below 1"),
        ("novelty", "much", "0 or more"),
        ("threshold", -0.1, "0 or more"),
        ("push_budget", 0.5, "whole number"),
        ("push_budget", 2**24, "below 16777216"),
    ],
)
def test_an_option_out_of_bounds_is_refused(option, value, bound):
    with pytest.raises(ConfigError, match=f"scout: {option} is .*{bound}"):
        make_ordering("scout", {option: value})
