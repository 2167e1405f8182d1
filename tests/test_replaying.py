"""A crawl is replayed without heaps, and then goes on as if it had had them."""

from __future__ import annotations

from typing import Any

import pytest
from driver import WebPages
from graphs import power_law_web
from test_orderings import with_urls

from crawlprio.frontier import PageQueue
from crawlprio.frontier.replaying import replay
from crawlprio.orderings import make_ordering
from crawlprio.pages import NO_PAGE, Visit

PLAIN = 10**6


def order_after(
    visits: list[Visit], pages: WebPages, plain_until: int, name: str, options: dict[str, Any]
) -> list[int]:
    """Return the order in which the other pages leave, nothing more being learnt."""
    queue = PageQueue(make_ordering(name, options), pages, plain_until=plain_until)
    seeds = {0, 1}
    known = [n_before for _, n_before in replay(queue, visits, seeds, len(pages))]
    assert known == sorted(known)
    queue.add(len(pages) - 2, 3)
    order = []
    while (page := queue.next_page(0.0)) != NO_PAGE:
        order.append(page)
        queue.release(page)
    return order


@pytest.mark.parametrize("n_visits", [0, 1, 25, 70])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("opic", {}),
        ("opic", {"site_share": 2}),
        ("breadth-first", {"site_share": 1}),
        ("sibling-sampling", {}),
        ("batch-pagerank", {"every": 4}),
        ("larger-sites-first", {}),
    ],
)
def test_pages_leave_in_the_same_order(name: str, options: dict[str, Any], n_visits: int) -> None:
    """Pages 3 and 8 are fetched twice, and page 5 is refused; the last pages are asked for."""
    pages = WebPages(with_urls(power_law_web(150, seed=8)))
    pages.seeds([0, 7])
    fetched = [*range(n_visits), 3, 8] if n_visits > 8 else list(range(n_visits))
    visits = [pages.visit(page)._replace(status=200) for page in fetched]
    if n_visits > 8:
        visits[5] = Visit(5, visits[5].targets, status=0, error="forbidden by robots.txt")
    pages.find_or_add([900, 901, 902])
    with_heaps = order_after(visits, pages, PLAIN, name, options)
    assert order_after(visits, pages, 0, name, options) == with_heaps
    assert with_heaps[0] == len(pages) - 2
    assert sorted(with_heaps) == sorted(set(range(len(pages))) - ({*fetched} - {5}))
