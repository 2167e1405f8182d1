"""Sibling sampling: samples of groups, a trap, resuming, and the oracle on what is large."""

import random

import numpy as np
import oracles
import pytest
from linkgraphs import graph_of
from oracles import Web

from crawlprio.orderings import make_ordering
from crawlprio.orderings.scout import Scout
from crawlprio.orderings.siblings import SiblingSampling
from crawlprio.simulator.timed import crawl_order


def order_of(graph, name="sibling-sampling", **options):
    return crawl_order(graph, [0], make_ordering(name, options)).tolist()


def list_archive(n_months=60, n_messages=30):
    """An index shows the months, a month its messages, each of which links back and to the next."""
    rows = [[*range(1, n_months + 1)]]
    first = [1 + n_months + month * n_messages for month in range(n_months)]
    rows += [[*range(at, at + n_messages), 0] for at in first]
    for month, at in enumerate(first, start=1):
        rows += [[month, min(page + 1, at + n_messages - 1)] for page in range(at, at + n_messages)]
    return rows


def test_months_come_before_messages_once_fetched_months_have_become_important():
    graph = graph_of(list_archive())

    def pages_until_all_months(gain):
        positions = np.argsort(order_of(graph, gain=gain))
        return int(positions[1:61].max())

    assert pages_until_all_months(0.5) < 300
    assert pages_until_all_months(0.0) > 900


def test_the_oracle_agrees_where_groups_and_rows_are_larger_than_a_visit_may_change():
    rng = random.Random(7)
    n_pages = 2500
    links = {0: [*range(1, 701)], 1: [*range(701, 2 * 1400)], 2: [*range(1, 400)]}
    for page in range(3, n_pages):
        links[page] = rng.sample(range(n_pages), 3)
    links[5] += [0, 1, 2]
    web = Web(links=links, site={page: page % 3 for page in range(2 * 1400)})
    graph = graph_of(
        [links.get(page, []) for page in range(2 * 1400)], [p % 3 for p in range(2800)]
    )
    expected = oracles.crawl(web, [0], "sibling-sampling", budget=150)
    found = crawl_order(graph, [0], SiblingSampling(), budget=150).tolist()
    assert found == expected


@pytest.mark.slow
def test_so_does_that_of_scout_where_rows_and_sites_are():
    n_pages = 1200
    rng = random.Random(7)
    rows = [rng.sample(range(n_pages), 4) for _ in range(n_pages)]
    rows[0], rows[5], rows[6] = [*range(1, 600)], [*range(300, 900)], [*range(7, 1200)]
    web = Web(links=dict(enumerate(rows)), site={page: page % 3 for page in range(n_pages)})
    graph = graph_of(rows, [page % 3 for page in range(n_pages)])
    for options in ({}, {"push_budget": 650, "threshold": 0.0}):
        expected = oracles.crawl(web, [0], "scout", 120, **options)
        assert crawl_order(graph, [0], Scout(**options), budget=120).tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("kept_links", [0, 1, 90, 91])
def test_the_oracle_agrees_on_which_links_are_kept(kept_links):
    """Rows of 0 to 60 links, so that some pages have more than are kept in all."""
    rng = random.Random(kept_links)
    rows = [rng.sample(range(150), rng.choice([0, 1, 5, 20, 60])) for _ in range(150)]
    rows[0] = [*range(1, 41)]
    graph = graph_of(rows)
    web = Web(links={page: graph.out_links(page).tolist() for page in range(150)})
    expected = oracles.crawl(web, [0], "sibling-sampling", kept_links=kept_links)
    assert order_of(graph, kept_links=kept_links) == expected
    assert expected != order_of(graph), "fewer links make a difference here"


def test_no_more_links_are_kept_than_the_option_says():
    rng = random.Random(5)
    graph = graph_of([rng.sample(range(2000), 20) for _ in range(2000)])
    ordering = SiblingSampling(kept_links=1000)
    crawl_order(graph, [0], ordering, compiled=False)
    links = ordering.state.links
    assert len(links) == 1024, "40,000 links were seen"


def test_calendars_on_many_sites_do_not_keep_a_crawl_from_the_other_sites():
    """40 sites of 10 pages that link to each other and to 20 calendars.

    Each day of a calendar links to the next 200.
    """
    n_sites, n_pages, n_calendars, n_days = 40, 10, 20, 2000
    n_honest = n_sites * n_pages
    rng = random.Random(4)
    rows = []
    for page in range(n_honest):
        home, number = page - page % n_pages, page % n_pages
        children = range(4 * number + 1, min(4 * number + 5, n_pages))
        row = [home + child for child in children]
        row += [rng.randrange(n_sites) * n_pages for _ in range(2)]
        if rng.random() < 0.3:
            row.append(n_honest + rng.randrange(n_calendars) * n_days)
        rows.append(row)
    for day in range(n_calendars * n_days):
        last = n_honest + (day // n_days + 1) * n_days
        rows.append([*range(n_honest + day + 1, min(n_honest + day + 201, last))])
    sites = [page // n_pages for page in range(n_honest)]
    sites += [n_sites + day // n_days for day in range(n_calendars * n_days)]
    graph = graph_of(rows, sites)

    def n_found(name, **options):
        return sum(page < n_honest for page in order_of(graph, name, **options)[: 2 * n_honest])

    assert n_found("sibling-sampling") >= 0.75 * n_honest > 2 * n_found("breadth-first")
    assert n_found("sibling-sampling", decay=0.95) >= 0.95 * n_honest
