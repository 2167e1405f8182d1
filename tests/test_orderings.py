"""Every ordering compared with the oracle: the pages that the frontier hands out, page for page."""

import random

import graphs
import numpy as np
import oracles
import pytest
from driver import WebPages, fetch_order
from examples import examples
from graphs import EARLIER_SCORES, power_law_web, seeds_of, two_seeds, webs
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Topic, Web, true_pagerank
from oracles.link_based import PageRank as EveryVisitPageRank
from ordering_cases import ALL_CASES, WORDS, ours, with_urls

from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.orderings import ALL_PAGES, ORDERINGS, Ordering, make_ordering
from crawlprio.orderings.ordering_validation import OrderingError

TOPICS = [None, Topic(WORDS, distance=0), Topic(WORDS), Topic(["crawl", "Frontiers"], stem=True)]
HAND_DRAWN = [
    *(graphs.cho_figure_3, graphs.opic_five_pages, graphs.opic_cash_comes_back, graphs.three_sites),
    *(graphs.two_seeds, graphs.half_a_batch, graphs.earlier_and_new, graphs.unreachable_backlinks),
    *(graphs.bookshop, graphs.hot_page_found_late, graphs.distance_through_old_links),
    graphs.hot_pages_of_two_sites,
]


def orders(web, seeds, name, options, topic=None, plain_for=0):
    """Return the order of the frontier and that of the oracle."""
    return (
        fetch_order(web, seeds, name, ours(web, options), topic, plain_for=plain_for),
        oracles.crawl(web, seeds, name, topic=topic, **options),
    )


@pytest.mark.parametrize("topic", TOPICS, ids=["no topic", "distance 0", "distance 3", "stemmed"])
@pytest.mark.parametrize(("name", "options"), ALL_CASES)
def test_every_ordering_fetches_the_hand_drawn_webs_as_the_oracle_does(name, options, topic):
    for web_of in HAND_DRAWN:
        seeds = [0, 1] if web_of is two_seeds else [0]
        found, expected = orders(with_urls(web_of()), seeds, name, options, topic)
        assert found == expected, web_of.__name__


@pytest.mark.parametrize("plain_for", [2, 6, 1_000], ids=["at first", "for a while", "always"])
@pytest.mark.parametrize(("name", "options"), ALL_CASES)
def test_python_and_compiled_code_have_one_order_wherever_a_crawl_switches(
    name, options, plain_for
):
    for web_of in HAND_DRAWN:
        seeds = [0, 1] if web_of is two_seeds else [0]
        found, expected = orders(with_urls(web_of()), seeds, name, options, plain_for=plain_for)
        assert found == expected, web_of.__name__


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ORDERINGS)
def test_a_crawl_of_hundreds_of_pages_has_one_order_in_python_and_compiled(name):
    web, options = with_urls(power_law_web(600, 7)), LARGE.get(name, {})
    compiled = fetch_order(web, [0, 5], name, ours(web, options))
    for plain_for in (len(compiled) // 3, 10_000):
        order = fetch_order(web, [0, 5], name, ours(web, options), plain_for=plain_for)
        assert order == compiled


LARGE = {
    "historical-pagerank": {"scores": EARLIER_SCORES, "new": "parent"},
    "anchor-similarity": {"words": WORDS},
    "partial-pagerank": {"every": 50},
    "batch-pagerank": {"every": 60},
    "combined": {"weights": {"opic": 1.0, "scout": 0.5}},
    "batched": {"every": 40, "weights": {"sibling-sampling": 1.0}},
}


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None, derandomize=True, database=None)
@given(st.data())
def test_every_ordering_fetches_random_webs_as_the_oracle_does(data):
    web = data.draw(webs(max_pages=30))
    seeds = data.draw(seeds_of(web))
    topic = data.draw(st.sampled_from(TOPICS))
    plain_for = data.draw(st.sampled_from([0, 4, 100]))
    for name, options in ALL_CASES:
        found, expected = orders(web, seeds, name, options, topic, plain_for)
        assert found == expected, (name, options)


SHARES = [
    ("opic", {"site_share": 1}),
    ("random", {"site_share": 3, "seed": 4}),
    ("larger-sites-first", {"site_share": 2}),
    ("sibling-sampling", {"site_share": 1}),
    ("location", {"site_share": 2}),
    ("batch-pagerank", {"site_share": 1, "every": 5}),
    ("batch-pagerank", {"site_share": 1, "every": 5, "fill": True}),
    ("batch-pagerank", {"site_share": 2, "every": 3}),
    ("batched", {"site_share": 1, "every": 5}),
    ("batched", {"site_share": 2, "every": 3, "weights": {"breadth-first": 1.0}}),
    ("batched", {"site_share": 1, "every": 4, "weights": {"larger-sites-first": 1.0}}),
    ("batched", {"site_share": 2, "every": 7, "weights": {"larger-sites-first": 1.0}}),
]


@settings(max_examples=examples(60), deadline=None, derandomize=True, database=None)
@given(st.data())
def test_sites_take_turns_as_the_oracle_says(data):
    web = data.draw(webs(max_pages=40))
    seeds = data.draw(seeds_of(web))
    topic = data.draw(st.sampled_from(TOPICS))
    for name, options in SHARES:
        found, expected = orders(web, seeds, name, options, topic)
        assert found == expected, (name, options)


def test_a_batch_by_an_ordering_that_ranks_sites_is_what_that_ordering_takes_next():
    """Of three sites with 3, 2 and 1 waiting pages; what a batch shows does not count in it."""
    links = {0: [1, 2, 3, 4, 5, 6], 1: [7, 8, 9, 10]}
    site = {0: 9, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 2, 7: 2, 8: 2, 9: 2, 10: 2}
    web = with_urls(Web(links, site))
    batches = {"every": 4, "weights": {"larger-sites-first": 1.0}}
    assert fetch_order(web, [0], "batched", batches) == [0, 1, 2, 4, 3, 6, 7, 8, 9, 5, 10]
    smaller = {"every": 6, "weights": {"larger-sites-first": -1.0}}
    assert fetch_order(web, [0], "batched", smaller)[:7] == [0, 6, 4, 5, 1, 2, 3]
    own = {"every": 4, "weights": {f"{__name__}.OddSitesFirst": 1.0}}
    assert fetch_order(web, [0], "batched", own)[:5] == [0, 1, 2, 3, 6]


class OddSitesFirst(Ordering):
    """Sites of odd number, in order of discovery, before the others."""

    def site_key(self, site, best_key, n_waiting):
        return site % 2


class SitesByNaN(Ordering):
    """A mistake."""

    def site_key(self, site, best_key, n_waiting):
        return float("nan")


def test_a_bad_key_of_a_site_is_named_in_one_sentence_when_a_batch_is_drawn():
    with pytest.raises(OrderingError, match="SitesByNaN: site_key returned nan; fix it, or"):
        fetch_order(
            power_law_web(20, 1), [0], "batched", {"weights": {f"{__name__}.SitesByNaN": 1}}
        )


@pytest.mark.parametrize("n_replayed", [1, 7, 120])
def test_a_crawl_with_replayed_visits_takes_the_same_turns(n_replayed):
    web = power_law_web(300, seed=3)
    orders_found = [[]]
    for _ in range(2):
        pages = WebPages(web)
        frontier = PageQueue(make_ordering("opic", {"site_share": 2}), pages)
        frontier.observe(pages.seeds([0, 5]))
        order = orders_found[-1][:n_replayed]
        for page in order:
            frontier.finish(page)
            frontier.observe(pages.visit(page))
        while (page := frontier.next_page(0.0)) != NO_PAGE:
            frontier.observe(pages.visit(page))
            frontier.release(page)
            order.append(page)
        orders_found.append(order)
    assert orders_found[2] == orders_found[1]
    assert len(orders_found[1]) > 150


class AffordedPageRank(EveryVisitPageRank):
    """PageRank when visits have earned it: a visit earns 1,000 links, PageRank costs those seen."""

    def __init__(self, record):
        super().__init__(record)
        self.earned = 0

    def observe(self, page):
        self.earned += 1000
        is_due = self.earned >= len(self.record.links)
        self.every = 1 if is_due else 10**9
        super().observe(page)
        if is_due:
            self.earned = 0


def test_pagerank_is_computed_as_often_as_visits_earn_it(monkeypatch):
    monkeypatch.setitem(oracles.ORDERINGS, "afforded", AffordedPageRank)
    rng = random.Random(7)
    web = Web(links={page: rng.choices(range(page % 90 + 30), k=30) for page in range(120)})
    found = fetch_order(web, [0], "pagerank")
    assert sum(web.out_degree(page) for page in found) > 2000
    assert found == oracles.crawl(web, [0], "afforded")
    assert found != fetch_order(web, [0], "pagerank", {"every": 1})


@pytest.mark.parametrize(("name", "options"), ALL_CASES)
def test_seeds_that_arrive_one_by_one_are_fetched_as_if_they_had_arrived_at_once(name, options):
    web = with_urls(power_law_web(60, seed=2))
    seeds = [7, 3, 21, 50, 9, 14]
    expected = oracles.crawl(web, seeds, name, **options)
    truth = true_pagerank(web)
    pages = WebPages(web)
    frontier = PageQueue(
        make_ordering(name, ours(web, options)),
        pages,
        truth=lambda page: truth[pages.numbers[page]],
    )
    for seed in seeds:
        frontier.observe(pages.seeds([seed]))
    order = []
    while (page := frontier.next_page(0.0)) != NO_PAGE:
        order.append(pages.numbers[page])
        frontier.observe(pages.visit(page))
        frontier.release(page)
    assert order == expected


def opened(name, options, pages):
    """Return an ordering that is open on an empty crawl of a web."""
    ordering = make_ordering(name, options)
    truth = true_pagerank(pages.web) if ordering.needs_truth else {}
    ordering.open(pages, lambda page: truth[pages.numbers[page]])
    return ordering


@pytest.mark.parametrize(("name", "options"), ALL_CASES)
def test_observe_names_every_known_page_whose_key_changes(name, options):
    web = with_urls(power_law_web(150, seed=3))
    pages = WebPages(web)
    ordering = opened(name, ours(web, options), pages)
    before = np.empty(0)

    def check(named, fetched):
        nonlocal before
        keys = ordering.keys[: len(pages)].copy()
        assert np.isfinite(keys).all()
        if named is not ALL_PAGES:
            changed = np.flatnonzero(keys[: len(before)] != before).tolist()
            assert set(changed) <= {fetched, *np.asarray(named).tolist()}
        before = keys

    visits = [pages.seeds([5, 6])]
    for page in range(60):
        check(ordering.learn(visits[-1], len(pages)), visits[-1].page)
        work = ordering.recomputation()
        if work is not None:
            check(ordering.accept(work()), NO_PAGE)
        visits.append(pages.visit(page))


@pytest.mark.parametrize(("name", "options"), ALL_CASES)
def test_an_ordering_that_is_opened_again_starts_from_scratch(name, options):
    web = with_urls(power_law_web(80, seed=8))
    ordering = make_ordering(name, ours(web, options))
    first = fetch_order(web, [1, 5, 30], ordering, budget=50)
    assert fetch_order(web, [1, 5, 30], ordering, budget=50) == first


LATE_CASES = [
    ("pagerank", {"every": 9}),
    ("partial-pagerank", {"every": 9}),
    ("batch-pagerank", {"every": 9}),
    ("batch-pagerank", {"every": 9, "fill": True}),
    (
        "combined",
        {
            "weights": {"partial-pagerank": 1.0, "pagerank": 2.0, "opic": 0.01},
            "options": {"partial-pagerank": {"every": 9}, "pagerank": {"every": 9}},
        },
    ),
]


@pytest.mark.parametrize(("name", "options"), LATE_CASES)
def test_ranks_that_arrive_late_have_the_effect_they_would_have_had_at_once(name, options):
    web = power_law_web(400, seed=13)
    pages = WebPages(web)
    punctual, late = opened(name, options, pages), opened(name, options, pages)
    visit = pages.seeds([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    work = None
    n_late = 0
    for page in range(150):
        n_pages = len(pages)
        punctual.learn(visit, n_pages)
        now = punctual.recomputation()
        if now is not None:
            punctual.accept(now())
        late.learn(visit, n_pages)
        if work is not None:
            assert late.recomputation() is None
            n_late += 1
        else:
            work = late.recomputation()
        if work is not None and n_late == 6:
            assert late.accept(work()) is ALL_PAGES
            assert late.keys[:n_pages].tolist() == punctual.keys[:n_pages].tolist()
            work, n_late = None, 0
        visit = pages.seeds([399]) if page == 25 else pages.visit(page)
    assert len(pages) > 200


def test_a_page_keeps_its_key_until_its_ranks_arrive():
    pages = WebPages(two_seeds())
    ordering = opened("partial-pagerank", {"every": 1}, pages)
    ordering.learn(pages.seeds([0, 1]), 2)
    ordering.learn(pages.visit(0), len(pages))
    assert ordering.keys[:4].tolist() == [0.5, 0.5, 0.25, 0.25]
    work = ordering.recomputation()
    assert work is not None
    ordering.learn(pages.visit(1), len(pages))
    assert ordering.keys[:4].tolist() == [0.5, 0.5, 0.25, 0.75]
    ordering.accept(work())
    total = 1 + 1 + 1.425 + 1.425
    assert ordering.keys[:4].tolist() == pytest.approx(
        [1 / total, 1 / total, 1.425 / total, 1.425 / total], rel=1e-7
    )


def test_ranks_do_not_depend_on_how_often_they_were_computed():
    web = power_law_web(200, seed=21)
    keys = []
    for every in (1, 60):
        pages = WebPages(web)
        ordering = opened("pagerank", {"every": every}, pages)
        visit = pages.seeds([0, 1, 2, 3])
        for page in range(61):
            ordering.learn(visit, len(pages))
            work = ordering.recomputation()
            if work is not None:
                ordering.accept(work())
            visit = pages.visit(page)
        keys.append(ordering.keys[: ordering.n_pages].tolist())
    assert keys[0] == keys[1]


def test_the_row_of_a_refetched_page_is_its_last():
    pages = WebPages(Web(links={0: [1, 2, 3]}))
    ordering = opened("pagerank", {"every": 1}, pages)
    ordering.learn(pages.seeds([0]), 1)
    ordering.learn(pages.visit(0), 4)
    ordering.learn(Visit(0, np.array([2], dtype=np.int32)), 4)
    work = ordering.recomputation()
    assert work is not None
    assert work().tolist() == pytest.approx([1 / 4.85, 1 / 4.85, 1.85 / 4.85, 1 / 4.85], rel=1e-7)
