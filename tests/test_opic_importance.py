"""The importance that OPIC estimates as it crawls: each page's share of all cash received."""

import random
from fractions import Fraction

import numpy as np
import pytest
from driver import WebPages
from graphs import power_law_web
from oracles import Web

from crawlprio.errors import ConfigError
from crawlprio.orderings import make_ordering
from crawlprio.orderings.opic import Opic


def crawled(web, seeds, order, **options):
    """Return OPIC with history after visits in this order, and the numbers of pages."""
    pages = WebPages(web)
    ordering = make_ordering("opic", {"history": True, **options})
    assert isinstance(ordering, Opic)
    ordering.open(pages)
    ordering.learn(pages.seeds(seeds), len(pages))
    for number in order:
        visit = pages.visit(pages.find(str(number)))
        ordering.learn(visit, len(pages))
    return ordering, pages


def breadth_first(web, seed):
    order, known = [seed], {seed}
    for page in order:
        for target in web.links_of(page):
            if target not in known:
                known.add(target)
                order.append(target)
    return order


def strongly_connected(n_pages, seed):
    """A ring with chords of uneven lengths, so that no surfer is periodic."""
    rng = random.Random(seed)
    links = {
        page: sorted({(page + 1) % n_pages, *rng.sample(range(n_pages // 3), 3)} - {page})
        for page in range(n_pages)
    }
    return Web(links=links)


def received_shares(web, seed, order):
    """Record every payment exactly as it comes, and return the shares; no page is paid back."""
    received = {seed: Fraction(1)}
    held = {seed: Fraction(1)}
    for page in order:
        targets = web.links_of(page)
        for target in targets:
            if target not in held:
                held[target] = received[target] = Fraction(1)
        for target in targets:
            part = held[page] / len(targets)
            received[target] += part
            held[target] += part
        if targets:
            held[page] = Fraction(0)
    total = sum(received.values())
    return {page: share / total for page, share in received.items()}


def steps(web):
    """Return the probability of each step of a surfer, by page and target."""
    follow = np.zeros((len(web.pages), len(web.pages)))
    for page in web.pages:
        follow[page, web.links_of(page)] = 1.0 / len(web.links_of(page))
    return follow


def by_number(ordering, pages):
    """Return the estimates by the page numbers of the web."""
    estimate = np.zeros(len(pages))
    estimate[pages.numbers] = ordering.importance()
    return estimate


@pytest.mark.parametrize("n_fetched", [0, 1, 7, 60, 300])
def test_importance_is_the_share_of_all_cash_that_a_page_received(n_fetched):
    web = power_law_web(300, seed=5)
    order = breadth_first(web, 3)[:n_fetched]
    ordering, pages = crawled(web, [3], order)
    found = ordering.importance()
    expected = received_shares(web, 3, order)
    assert dict(zip(pages.numbers, found.tolist(), strict=True)) == pytest.approx(
        {page: float(share) for page, share in expected.items()}, rel=1e-12
    )
    assert found.sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("options", [{}, {"seed_cash": 50.0}, {"pass_on": 0.5}, {"pass_on": 0.0}])
def test_importance_sums_to_one_under_any_options(options):
    web = power_law_web(300, seed=6)
    ordering, _ = crawled(web, [3, 8], breadth_first(web, 3), **options)
    assert ordering.importance().sum() == pytest.approx(1.0, rel=1e-9)
    assert (ordering.importance() >= 0.0).all()


@pytest.mark.parametrize("budget", [100, 1000, 30_000])
def test_one_step_of_a_surfer_changes_it_by_at_most_the_cash_that_has_not_flowed(budget):
    """Cash held + given = first cash + received, so x - xP = (first - held P) / (G + T)."""
    web = strongly_connected(40, seed=3)
    ordering, pages = crawled(web, [0], breadth_first(web, 0), pass_on=0.0, pass_on_budget=budget)
    estimate = by_number(ordering, pages)
    there, given = 40.0, ordering._total_spent
    changed = float(np.abs(estimate - estimate @ steps(web)).sum())
    assert 0.0 < changed <= 2 * there / (given + there) + 1e-12


def test_without_history_there_is_no_importance():
    web = strongly_connected(12, seed=1)
    pages = WebPages(web)
    ordering = Opic()
    ordering.open(pages)
    ordering.learn(pages.seeds([0]), len(pages))
    with pytest.raises(ConfigError, match="history"):
        ordering.importance()
