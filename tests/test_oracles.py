"""The oracles themselves, compared with orders worked out by hand."""

import graphs
import pytest
from oracles import Record, Topic, Web, crawl, crawling, occurrences, splitmix, words
from oracles.link_based import Opic

CHO, BACK = graphs.cho_figure_3(), graphs.opic_cash_comes_back()
BATCH, SHOP = graphs.half_a_batch(), graphs.bookshop()
SEEDS, NEW, HIDDEN = graphs.two_seeds(), graphs.earlier_and_new(), graphs.unreachable_backlinks()
RICH = Web(links={0: [2, 3, 4, 5]})
KNOWN = Web(links={0: [1, 2, 3, 4], 2: [4]})
ANCHORS = Web(
    links={0: [1, 2, 3]},
    urls={3: "http://example.org/crawling.html", 1: "http://example.org/crawlings.html"},
    anchors={(0, 2): "about crawling"},
)
STAYS = Web(links={0: [1, 2, 3], 1: [3]}, anchors={(1, 3): "crawling"})
DEEP = Web(links={0: [1, 2], 1: [3, 4], 3: [5, 6, 2], 4: [7]})
ORG = {"slashes": 0.0, "tlds": {"org": 2.0}, "words": {}}


def told(n_words):
    return Web(links={0: [1, 2], 1: [3]}, bodies={1: "Crawling. " * n_words})


def near(distance):
    return {"topic": Topic(["crawling"], distance=distance)}


def earlier(new, scores=graphs.EARLIER_SCORES):
    return {"scores": scores, "new": new}


HOT = {"topic": ["crawling"]}
ORDERS = [
    # PageRank and OPIC reach page 2 before the cluster, the number of backlinks after it.
    (CHO, [0], "breadth-first", {}, [0, 1, 3, 4, 5, 6, 2, 7, 8, 9]),
    (CHO, [0], "depth-first", {}, [0, 1, 4, 5, 6, 3, 2, 7, 8, 9]),
    (CHO, [0], "backlink-count", {}, [0, 1, 3, 4, 6, 5, 2, 7, 8, 9]),
    (CHO, [0], "pagerank", {}, [0, 1, 3, 2, 7, 8, 9, 4, 6, 5]),
    (CHO, [0], "opic", {}, [0, 1, 3, 2, 7, 8, 9, 4, 6, 5]),
    (CHO, [0], "larger-sites-first", {}, [0, 1, 4, 5, 3, 6, 2, 7, 8, 9]),
    (DEEP, [0, 8], "depth-first", {}, [0, 1, 3, 5, 6, 4, 7, 2, 8]),
    # A fetched page passes on cash above its threshold, over as many links as the budget allows.
    (BACK, [0], "opic", {}, [0, 1, 3, 2]),
    (BACK, [0], "opic", {"pass_on": 0.25}, [0, 1, 2, 3]),
    (BACK, [0], "opic", {"pass_on": 0.25, "pass_on_budget": 2}, [0, 1, 2, 3]),
    (BACK, [0], "opic", {"pass_on": 0.25, "pass_on_budget": 1}, [0, 1, 3, 2]),
    (BACK, [0], "opic", {"pass_on": 0.375}, [0, 1, 3, 2]),
    # Rich seeds come before the pages they find.
    (RICH, [0, 1], "opic", {"seed_cash": 1.0}, [0, 2, 3, 4, 5, 1]),
    (RICH, [0, 1], "opic", {"seed_cash": 4.0}, [0, 1, 2, 3, 4, 5]),
    # Hot pages come first, and all waiting pages count.
    (graphs.three_sites(), [0], "larger-sites-first", {}, [0, 7, 3, 4, 5, 1, 8, 2, 6]),
    (graphs.hot_pages_of_two_sites(), [0], "larger-sites-first", HOT, [0, 2, 1, 3, 4, 5]),
    # The PageRank orderings differ in when they learn.
    (SEEDS, [0, 1], "batch-pagerank", {"every": 100_000}, [0, 1, 3, 2, 4, 5]),
    (SEEDS, [0, 1], "batch-pagerank", {"every": 2}, [0, 1, 3, 2, 4, 5]),
    (SEEDS, [0, 1], "batch-pagerank", {"every": 1}, [0, 2, 4, 3, 5, 1]),
    (SEEDS, [0, 1], "partial-pagerank", {"every": 2}, [0, 1, 3, 2, 4, 5]),
    (SEEDS, [0, 1], "partial-pagerank", {"every": 3}, [0, 1, 3, 5, 4, 2]),
    (SEEDS, [0, 1], "pagerank", {"every": 3}, [0, 1, 3, 5, 4, 2]),
    (SEEDS, [0, 1], "pagerank", {"every": 1}, [0, 2, 4, 3, 5, 1]),
    # A page found in a batch waits for the next.
    (BATCH, [0], "batch-pagerank", {"every": 2}, [0, 1, 2, 4, 3]),
    (BATCH, [0], "batch-pagerank", {"every": 3}, [0, 1, 2, 3, 4]),
    # Pages known at the last computation keep their share.
    (Web(links={0: [2]}), [0, 1, 2], "partial-pagerank", {}, [0, 1, 2]),
    (KNOWN, [0], "partial-pagerank", {"every": 2}, [0, 1, 2, 3, 4]),
    (KNOWN, [0], "partial-pagerank", {"every": 3}, [0, 1, 2, 4, 3]),
    # New pages are scored in four ways; draws are from all earlier scores: .88, .43, .03, .97 and
    # .11 of the way through three scores are the third, second, first, ...
    (NEW, [0], "historical-pagerank", earlier("zero"), [0, 1, 3, 2, 4]),
    (NEW, [0], "historical-pagerank", earlier("random"), [0, 2, 4, 1, 3]),
    (NEW, [0], "historical-pagerank", earlier("parent"), [0, 2, 1, 4, 3]),
    (NEW, [0], "historical-pagerank", earlier("omniscient"), [0, 1, 2, 4, 3]),
    (NEW, [0], "historical-pagerank", earlier("random", {7: 0.5, 8: 0.9, 9: 0.1}), [0, 1, 2, 4, 3]),
    (NEW, [0], "random", {}, [0, 2, 4, 1, 3]),
    # Omniscient knows backlinks that no crawl sees.
    (HIDDEN, [0], "omniscient", {}, [0, 2, 3, 1]),
    (HIDDEN, [0], "pagerank", {}, [0, 1, 3, 2]),
    (SHOP, [0], "location", {}, [0, 2, 4, 1, 3]),
    (SHOP, [0], "location", ORG, [0, 1, 3, 2, 4]),
    # The best anchor seen counts.
    (SHOP, [0], "anchor-similarity", {"words": ["web crawling"]}, [0, 1, 2, 3, 4]),
    (SHOP, [0], "combined", {"weights": {"depth-first": 4.0, "location": 1.0}}, [0, 2, 4, 3, 1]),
    # A link from a hot page shortens the distance of a waiting page, also through earlier links.
    (graphs.hot_page_found_late(), [0], "breadth-first", near(0), [0, 1, 2, 3, 6, 4, 7, 5]),
    (graphs.hot_page_found_late(), [0], "breadth-first", near(3), [0, 1, 3, 4, 2, 6, 5, 7]),
    (graphs.hot_page_found_late(), [0], "breadth-first", near(4), [0, 1, 3, 4, 5, 2, 6, 7]),
    (graphs.distance_through_old_links(), [0], "breadth-first", near(3), [0, 1, 2, 3, 5, 4]),
    (graphs.distance_through_old_links(), [0], "breadth-first", near(4), [0, 1, 2, 3, 4, 5]),
    # Ten words in the body make a page hot, as does an anchor or a URL a new page.
    (told(9), [0], "breadth-first", HOT, [0, 1, 2, 3]),
    (told(10), [0], "breadth-first", HOT, [0, 1, 3, 2]),
    (ANCHORS, [0], "breadth-first", HOT, [0, 2, 3, 1]),
    (ANCHORS, [0], "breadth-first", {"topic": Topic(["crawled"], stem=True)}, [0, 1, 2, 3]),
    # A page put into the URL queue stays there.
    (STAYS, [0], "breadth-first", HOT, [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("web", "seeds", "ordering", "options", "order"), ORDERS)
def test_orders_are_those_worked_out_by_hand(web, seeds, ordering, options, order):
    """Beside the webs, in `graphs.py`, stands how."""
    assert crawl(web, seeds, ordering, **options) == order


def test_random_clocks_use_the_published_splitmix64_outputs():
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert [splitmix(i) for i in range(4)] == [(x >> 11) / 2**53 for x in published]


def test_opic_moves_cash_as_worked_out_by_hand():
    cash = []
    for record, ordering in crawling(graphs.opic_five_pages(), [0], "opic"):
        cash.append((record.crawled_pages[-1], dict(ordering.keys())))
    assert cash == [
        (0, {0: 0.0, 1: 1.5, 2: 1.5}),
        (1, {0: 0.0, 1: 0.0, 2: 2.25, 3: 1.75}),
        (2, {0: 1.125, 1: 0.0, 2: 0.0, 3: 1.75, 4: 2.125}),
        (4, {0: 1.125, 1: 0.0, 2: 0.0, 3: 1.75, 4: 2.125}),
        (3, {0: 1.125, 1: 0.875, 2: 0.0, 3: 0.0, 4: 3.0}),
    ]


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


def test_partial_pagerank_gives_new_pages_the_shares_of_their_parents():
    values = [
        dict(ordering.keys())
        for _, ordering in crawling(graphs.two_seeds(), [0, 1], "partial-pagerank", budget=4)
    ]
    assert values == [
        {0: 0.5, 1: 0.5, 2: 0.25, 3: 0.25},
        {0: 0.5, 1: 0.5, 2: 0.25, 3: 0.75},
        {0: 0.5, 1: 0.5, 2: 0.25, 3: 0.75, 5: 0.375, 4: 0.375},
        {0: 0.5, 1: 0.5, 2: 0.25, 3: 0.75, 5: 0.375, 4: 0.375},
    ]


@pytest.mark.parametrize(
    ("ordering", "every"), [("pagerank", 1), ("partial-pagerank", 1), ("batch-pagerank", 2)]
)
def test_pagerank_orderings_use_the_given_damping(ordering, every):
    web = Web(links={0: [1, 2]})
    *_, (_, half) = crawling(web, [0], ordering, budget=1, every=every, damping=0.5)
    # Ranks have the ratios 1 : 1 + 0.5/2 : 1 + 0.5/2.
    assert [half.keys()[u] for u in (1, 2)] == [0.35714286, 0.35714286]


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


def test_phrases_match_consecutive_words_in_any_case():
    assert words("Web-crawling, 2nd ed.") == ("web", "crawling", "2nd", "ed")
    assert words("Crawlers crawling", stem=True) == ("crawler", "crawl")
    text = "Web crawling: crawling the WEB; web\ncrawling"
    assert occurrences(text, ["web crawling"]) == 2
    assert occurrences(text, ["web crawling", "web"]) == 5
    assert occurrences("webcrawling", ["web", "crawling", ""]) == 0
