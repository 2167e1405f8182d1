"""The oracles themselves, compared with orders worked out by hand."""

import pytest
from graphs import (
    EARLIER_SCORES,
    bookshop,
    cho_figure_3,
    distance_through_old_links,
    earlier_and_new,
    half_a_batch,
    hot_page_found_late,
    hot_pages_of_two_sites,
    opic_cash_comes_back,
    opic_five_pages,
    three_sites,
    two_seeds,
    unreachable_backlinks,
)
from oracles import Record, Topic, Web, crawl, crawling, occurrences, splitmix, words
from oracles.link_based import Opic


@pytest.mark.parametrize(
    ("ordering", "order"),
    [
        ("breadth-first", [0, 1, 3, 4, 5, 6, 2, 7, 8, 9]),
        ("depth-first", [0, 1, 4, 5, 6, 3, 2, 7, 8, 9]),
        ("backlink-count", [0, 1, 3, 4, 6, 5, 2, 7, 8, 9]),
        ("pagerank", [0, 1, 3, 2, 7, 8, 9, 4, 6, 5]),
        ("opic", [0, 1, 3, 2, 7, 8, 9, 4, 6, 5]),
        ("larger-sites-first", [0, 1, 4, 5, 3, 6, 2, 7, 8, 9]),
    ],
)
def test_pagerank_reaches_page_2_before_the_cluster_and_backlink_count_after(ordering, order):
    assert crawl(cho_figure_3(), [0], ordering) == order


def test_depth_first_goes_down_before_it_goes_sideways():
    web = Web(links={0: [1, 2], 1: [3, 4], 3: [5, 6, 2], 4: [7]})
    assert crawl(web, [0, 8], "depth-first") == [0, 1, 3, 5, 6, 4, 7, 2, 8]


def test_opic_moves_cash_as_worked_out_by_hand():
    cash = []
    for record, ordering in crawling(opic_five_pages(), [0], "opic"):
        cash.append((record.crawled_pages[-1], dict(ordering.keys())))
    assert cash == [
        (0, {0: 0.0, 1: 1.5, 2: 1.5}),
        (1, {0: 0.0, 1: 0.0, 2: 2.25, 3: 1.75}),
        (2, {0: 1.125, 1: 0.0, 2: 0.0, 3: 1.75, 4: 2.125}),
        (4, {0: 1.125, 1: 0.0, 2: 0.0, 3: 1.75, 4: 2.125}),
        (3, {0: 1.125, 1: 0.875, 2: 0.0, 3: 0.0, 4: 3.0}),
    ]


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, [0, 1, 3, 2]),
        ({"pass_on": 0.25}, [0, 1, 2, 3]),
        ({"pass_on": 0.25, "pass_on_budget": 2}, [0, 1, 2, 3]),
        ({"pass_on": 0.25, "pass_on_budget": 1}, [0, 1, 3, 2]),
        ({"pass_on": 0.375}, [0, 1, 3, 2]),
    ],
)
def test_a_fetched_page_passes_on_cash_above_its_threshold(options, order):
    assert crawl(opic_cash_comes_back(), [0], "opic", **options) == order


@pytest.mark.parametrize(("budget", "cash"), [(4, 5.0), (3, 1.0)])
def test_a_page_waits_once_to_pass_on_everything_it_receives_meanwhile(budget, cash):
    """Visit 3 gives 1 and 0 2 each: two links. 1 passes 2 on to 0, and 0 its 4 to 2: four links.

    With a budget of four 2 still passes them on to 5, which has 1.
    """
    web = Web(links={3: [1, 0], 1: [0], 0: [2], 2: [5]})
    opic = Opic(Record(web, [3]), seed_cash=4.0, pass_on=1.0, pass_on_budget=budget)
    opic.cash.update({0: 0.0, 1: 0.0, 2: 0.0, 5: 1.0})
    opic.fetched.update({u: web.links_of(u) for u in (0, 1, 2)})
    opic.observe(3)
    assert opic.cash == {3: 0.0, 0: 0.0, 1: 0.0, 2: 5.0 - cash, 5: cash}


def test_rich_seeds_come_before_the_pages_they_find():
    web = Web(links={0: [2, 3, 4, 5]})
    assert crawl(web, [0, 1], "opic", seed_cash=1.0) == [0, 2, 3, 4, 5, 1]
    assert crawl(web, [0, 1], "opic", seed_cash=4.0) == [0, 1, 2, 3, 4, 5]


def test_larger_sites_first_follows_the_waiting_counts_of_three_sites():
    assert crawl(three_sites(), [0], "larger-sites-first") == [0, 7, 3, 4, 5, 1, 8, 2, 6]


def test_larger_sites_first_takes_hot_pages_first_and_counts_all_waiting_pages():
    order = crawl(hot_pages_of_two_sites(), [0], "larger-sites-first", topic=["crawling"])
    assert order == [0, 2, 1, 3, 4, 5]


@pytest.mark.parametrize(
    ("ordering", "every", "order"),
    [
        ("batch-pagerank", 100_000, [0, 1, 3, 2, 4, 5]),
        ("batch-pagerank", 2, [0, 1, 3, 2, 4, 5]),
        ("batch-pagerank", 1, [0, 2, 4, 3, 5, 1]),
        ("partial-pagerank", 2, [0, 1, 3, 2, 4, 5]),
        ("partial-pagerank", 3, [0, 1, 3, 5, 4, 2]),
        ("pagerank", 3, [0, 1, 3, 5, 4, 2]),
        ("pagerank", 1, [0, 2, 4, 3, 5, 1]),
    ],
)
def test_the_pagerank_orderings_differ_in_when_they_learn(ordering, every, order):
    assert crawl(two_seeds(), [0, 1], ordering, every=every) == order


def test_a_page_found_in_a_batch_waits_for_the_next():
    assert crawl(half_a_batch(), [0], "batch-pagerank", every=2) == [0, 1, 2, 4, 3]
    assert crawl(half_a_batch(), [0], "batch-pagerank", every=3) == [0, 1, 2, 3, 4]


def test_partial_pagerank_gives_new_pages_the_shares_of_their_parents():
    values = [
        dict(ordering.keys())
        for _, ordering in crawling(two_seeds(), [0, 1], "partial-pagerank", budget=4)
    ]
    assert values == [
        {0: 0.5, 1: 0.5, 2: 0.25, 3: 0.25},
        {0: 0.5, 1: 0.5, 2: 0.25, 3: 0.75},
        {0: 0.5, 1: 0.5, 2: 0.25, 3: 0.75, 5: 0.375, 4: 0.375},
        {0: 0.5, 1: 0.5, 2: 0.25, 3: 0.75, 5: 0.375, 4: 0.375},
    ]


def test_partial_pagerank_leaves_pages_known_at_the_last_computation_alone():
    seeds_alone = Web(links={0: [2]})
    assert crawl(seeds_alone, [0, 1, 2], "partial-pagerank") == [0, 1, 2]
    web = Web(links={0: [1, 2, 3, 4], 2: [4]})
    assert crawl(web, [0], "partial-pagerank", every=2) == [0, 1, 2, 3, 4]
    assert crawl(web, [0], "partial-pagerank", every=3) == [0, 1, 2, 4, 3]


@pytest.mark.parametrize(
    ("ordering", "every"), [("pagerank", 1), ("partial-pagerank", 1), ("batch-pagerank", 2)]
)
def test_pagerank_orderings_use_the_given_damping(ordering, every):
    web = Web(links={0: [1, 2]})
    *_, (_, half) = crawling(web, [0], ordering, budget=1, every=every, damping=0.5)
    # Ranks have the ratios 1 : 1 + 0.5/2 : 1 + 0.5/2.
    assert [half.keys()[u] for u in (1, 2)] == [0.35714286, 0.35714286]


@pytest.mark.parametrize(
    ("new", "order"),
    [
        ("zero", [0, 1, 3, 2, 4]),
        ("random", [0, 2, 4, 1, 3]),
        ("parent", [0, 2, 1, 4, 3]),
        ("omniscient", [0, 1, 2, 4, 3]),
    ],
)
def test_historical_pagerank_scores_new_pages_in_four_ways(new, order):
    web = earlier_and_new()
    assert crawl(web, [0], "historical-pagerank", scores=EARLIER_SCORES, new=new) == order


def test_historical_pagerank_draws_from_all_earlier_scores():
    """0.88 0.43 0.03 0.97 0.11 of the way through three scores: the third, second, first, ..."""
    scores = {7: 0.5, 8: 0.9, 9: 0.1}
    order = crawl(earlier_and_new(), [0], "historical-pagerank", scores=scores, new="random")
    assert order == [0, 1, 2, 4, 3]


def test_random_clocks_use_the_published_splitmix64_outputs():
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert [splitmix(i) for i in range(4)] == [(x >> 11) / 2**53 for x in published]
    assert crawl(earlier_and_new(), [0], "random") == [0, 2, 4, 1, 3]


def test_omniscient_knows_backlinks_that_no_crawl_sees():
    assert crawl(unreachable_backlinks(), [0], "omniscient") == [0, 2, 3, 1]
    assert crawl(unreachable_backlinks(), [0], "pagerank") == [0, 1, 3, 2]


def test_location_reads_slashes_top_level_domain_and_words():
    assert crawl(bookshop(), [0], "location") == [0, 2, 4, 1, 3]
    org_alone = {"slashes": 0.0, "tlds": {"org": 2.0}, "words": {}}
    assert crawl(bookshop(), [0], "location", **org_alone) == [0, 1, 3, 2, 4]


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://example.org", 0.0),
        ("http://example.org/", 0.0),
        ("https://example.org/a/b", -1.0),
        ("https://www.example.com:8080/a/b/?c=/d/", -1.0),
        ("http://example.org/Home/at_home", 0.0),
        ("http://homes.example.org/homepage", 0.0),
    ],
)
def test_location_counts_the_slashes_after_the_first_and_whole_words(url, key):
    [(_, location)] = crawling(Web(links={}, urls={0: url}), [0], "location")
    assert location.keys() == {0: key}


def test_anchor_similarity_keeps_the_best_anchor_seen():
    order = crawl(bookshop(), [0], "anchor-similarity", words=["web crawling"])
    assert order == [0, 1, 2, 3, 4]


def test_combined_adds_the_weighted_keys_of_its_members():
    weights = {"depth-first": 4.0, "location": 1.0}
    assert crawl(bookshop(), [0], "combined", weights=weights) == [0, 2, 4, 3, 1]


@pytest.mark.parametrize(
    ("distance", "order"),
    [(0, [0, 1, 2, 3, 6, 4, 7, 5]), (3, [0, 1, 3, 4, 2, 6, 5, 7]), (4, [0, 1, 3, 4, 5, 2, 6, 7])],
)
def test_a_link_from_a_hot_page_shortens_the_distance_of_a_waiting_page(distance, order):
    topic = Topic(["crawling"], distance=distance)
    assert crawl(hot_page_found_late(), [0], "breadth-first", topic=topic) == order


@pytest.mark.parametrize(("distance", "order"), [(3, [0, 1, 2, 3, 5, 4]), (4, [0, 1, 2, 3, 4, 5])])
def test_a_shortened_distance_propagates_through_earlier_links(distance, order):
    topic = Topic(["crawling"], distance=distance)
    assert crawl(distance_through_old_links(), [0], "breadth-first", topic=topic) == order


@pytest.mark.parametrize(("n_words", "order"), [(9, [0, 1, 2, 3]), (10, [0, 1, 3, 2])])
def test_ten_words_in_the_body_make_a_page_hot(n_words, order):
    web = Web(links={0: [1, 2], 1: [3]}, bodies={1: "Crawling. " * n_words})
    assert crawl(web, [0], "breadth-first", topic=["crawling"]) == order


def test_an_anchor_or_a_url_on_the_topic_puts_a_new_page_into_the_hot_queue():
    web = Web(
        links={0: [1, 2, 3]},
        urls={3: "http://example.org/crawling.html", 1: "http://example.org/crawlings.html"},
        anchors={(0, 2): "about crawling"},
    )
    assert crawl(web, [0], "breadth-first", topic=["crawling"]) == [0, 2, 3, 1]
    stemming = Topic(["crawled"], stem=True)
    assert crawl(web, [0], "breadth-first", topic=stemming) == [0, 1, 2, 3]


def test_a_page_put_into_the_url_queue_stays_there():
    web = Web(links={0: [1, 2, 3], 1: [3]}, anchors={(1, 3): "crawling"})
    assert crawl(web, [0], "breadth-first", topic=["crawling"]) == [0, 1, 2, 3]


def test_phrases_match_consecutive_words_in_any_case():
    assert words("Web-crawling, 2nd ed.") == ("web", "crawling", "2nd", "ed")
    assert words("Crawlers crawling", stem=True) == ("crawler", "crawl")
    text = "Web crawling: crawling the WEB; web\ncrawling"
    assert occurrences(text, ["web crawling"]) == 2
    assert occurrences(text, ["web crawling", "web"]) == 5
    assert occurrences("webcrawling", ["web", "crawling", ""]) == 0
