"""Small webs drawn by hand, random webs for hypothesis, and a middling random web.

They must not know `crawlprio`: each is a `Web` of the oracle, with the orders it leads to worked
out beside it.
"""

import random

from hypothesis import strategies as st
from oracles import Web

TOPIC_PHRASES = ("web crawling", "frontier")
TEXTS = (
    "",
    "shop",
    "the web",
    "web crawling",
    "Crawling the Web: web crawling",
    "Frontier!",
    "frontiers and web-crawling, a frontier",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE} 42",
)
PATHS = ("", "/", "/home", "/a/b.html", "/web/crawling/", "/frontier.html", "/a/b/c/d")
TLDS = ("com", "org", "net")


def cho_figure_3():
    """Page 1 leads to the dense cluster {4, 5, 6}, the well ranked page 3 to page 2.

    After Cho, Garcia-Molina and Page (WWW7, 1998), Fig. 3 (Fig. 5 of the long version). Page 2 has
    four backlinks in the whole web (3, 7, 8, 9), a page of the cluster two or three. From page 0:

    - breadth-first discovers 1 3, 4 5 6, 2, 7 8 9, and fetches in that order.
    - depth-first: 1 before 3, so 4 5 6 as well, then 3, 2, 7 8 9.
    - backlink-count: 1 and 3 have one each; 1 finds 4 5 6 with one each. 3 (found earlier) finds 2
      with one; 4 was found earlier than 2. It leads to 6, which has two now, and 6 to 4 and 5,
      which has two. Only then 2, which leads to 7 8 9.
    - pagerank, in units of the rank of a page without backlinks, d = 0.85: 0 gives 1 and 3
      0.85/2 each: 1.425. 1 gives the cluster 0.85 * 1.425/3 each: 1.404, less than 3 has. 3 gives
      2 all: 1 + 0.85 * 1.425 = 2.211, so 2 is next, and gives 7 8 9 0.85 * 2.211/3: 1.627 each. 7
      links to 2, which raises 8 and 9; both come before the cluster. Of that, 4 was found first
      and raises 6.
    - opic: 1 and 3 get 1/2 each: 1.5. 1 gives 1.5/3 to 4 5 6: 1.5 too, and 3 was found before.
      2 has 2.5, and gives 7 8 9 2.5/3 each: 1.83. They give it back to 2. 4 gives 6 its 1.5: 3.
    - larger-sites-first, sites {0 1 4 5 6}, {2 3}, {7 8 9}: 1 and 3 wait, 1 was found first. 4 5 6
      outnumber 3 until two of them are fetched; now 3 was found before 6, and 6 before 2.
    """
    return Web(
        links={
            0: [1, 3],
            1: [4, 5, 6],
            2: [7, 8, 9],
            3: [2],
            4: [6],
            5: [4, 6],
            6: [4, 5],
            7: [2],
            8: [2],
            9: [2],
        },
        site={0: 0, 1: 0, 4: 0, 5: 0, 6: 0, 2: 1, 3: 1, 7: 2, 8: 2, 9: 2},
    )


def opic_five_pages():
    """Cash of 1 a page; page 0 has a self-link and a duplicate, page 4 no links.

    ===== ===== ===== ===== ===== =====   (- not discovered, * fetched)
    visit     0     1     2     3     4
    ===== ===== ===== ===== ===== =====
    start     1     -     -     -     -
        0     0*  1.5   1.5     -     -   1 is found first
        1     0*    0*  2.25  1.75    -
        2 1.125*    0*    0*  1.75  2.125
        4 1.125*    0*    0*  1.75  2.125*  keeps it
        3 1.125* .875*    0*    0*  3.000*
    """
    return Web(links={0: [1, 0, 2, 1], 1: [2, 3], 2: [0, 4], 3: [4, 1]})


def opic_cash_comes_back():
    """Page 1 sends cash back to page 0, which was fetched.

    0 gives 1 and 2 0.5: 1.5 each. 1 gives 0 and 3 0.75: 3 has 1.75, 2 has 1.5; order 0 1 3 2.
    With `pass_on` 0.25, 0 passes on what exceeds 0.25 * 2: its 0.75 goes to 1 and 2, 0.375 each.
    1 has not more than 0.25 * 2. 2 has 1.875, 3 1.75; order 0 1 2 3. That takes a budget of the
    visit's own 2 links at least: with 1 it has run out before 0 is served.
    """
    return Web(links={0: [1, 2], 1: [0, 3]})


def three_sites():
    """Sites A {0 1 2}, B {3 4 5 6}, C {7 8}; larger sites first, from page 0.

    ===== ======= ======= =====   waiting, in order of discovery 0, 3 7 8, 4 5, 1 2 6
    visit A       B       C
    ===== ======= ======= =====
        0         3       7 8
        7         3 4 5   8
        3 1 2     4 5 6   8
        4 1 2     5 6     8       two and two, 5 was found before 1
        5 1 2     6       8
        1 2       6       8       one each: 8, 2, 6 in order of discovery
    """
    return Web(
        links={0: [3, 7, 8], 7: [4, 5], 3: [1, 2, 6, 8]},
        site={0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 1, 7: 2, 8: 2},
    )


def two_seeds():
    """Seeds 0 and 1; ranks in units of a page without backlinks, d = 0.85.

    - batch, K = 2 or more: 0, 1. No seed is left: 3 has 1 + 0.85 * (1/2 + 1) = 2.275, 2 has 1.425.
      3 finds 5 and 4, which wait for the next batch: 2. Now 4 has more than 5.
    - partial, K = 2: 0, 1, 3 as above. As a share of the sum 5.7 of the ranks then known, 5 and 4
      have (2.275/5.7)/2 = 0.2, 2 has 1.425/5.7 = 0.25: 2, then 4, which it leads to.
    - partial, K = 3: 1 has 1/2, 2 has (1/2)/2. After 1, 3 has 1/4 + 1/2. After 3 the ranks are
      1.425 for 2, 1 + 0.85 * 2.275/2 = 1.967 for 5 and 4: 5 (found before), 4, 2.
    - pagerank: after 0, 1 has 1, and 2 and 3 have 1.425. 2 gives 4 1 + 0.85 * 1.425 = 2.211: 4. 3
      gives 5 1 + 0.85 * 1.425/2 = 1.606, more than 1 has.
    """
    return Web(links={0: [2, 3], 1: [3], 2: [4], 3: [5, 4]})


def half_a_batch():
    """A page found in a batch comes after its rest; batch-pagerank from page 0.

    After 0 no seed is left: 1 2 3 are alike. 1 finds 4. With K = 2, 1 and 2 are the batch, then 4
    has 1 + 0.85 * (1 + 0.85/3) = 2.09 and 3 1.28. With K = 3 the batch takes 3 too.
    """
    return Web(links={0: [1, 2, 3], 1: [4]})


def earlier_and_new():
    """Pages 1 and 3 were known to an earlier crawl, with `EARLIER_SCORES`; 2 and 4 are new.

    - omniscient, ranks as above: 1 and 2 1.425, 3 1 + 0.85 * (1.425 + 1.425/2) = 2.817, 4 1.606,
      of a sum of 8.273. By these alone: 0, 1, 3, 2, 4.
    - historical zero: 1 (0.3), 3 (0.1), 2, 4.
    - historical omniscient: 2 has 0.172 and 4 0.194: 1, 2, 4, 3.
    - historical parent: 2 has 0.8/2 = 0.4, 4 has 0.4/2 = 0.2: 2, 1, 4, 3.
    - historical random: 2 has order 2, 0.026 of the way through the scores: 0.8. Once 2 is fetched
      4 has order 4, 0.106 of the way: 0.8 again. 2, 4, 1, 3.
    - random, clocks of 2.15 0.57 0.03 3.54 0.11 by order of discovery: 0 ends at 2.15, 1 at 2.71, 2
      at 2.17; from there 3 runs to 5.71 and 4 to 2.29: 2, 4, 1, 3.
    """
    return Web(links={0: [1, 2], 1: [3], 2: [3, 4]})


EARLIER_SCORES = {0: 0.8, 1: 0.3, 3: 0.1}


def unreachable_backlinks():
    """Page 2 owes its rank to page 4, which no crawl from page 0 finds.

    In the whole web 1 has 1.425, 2 has 1.425 + 0.85, 3 more than both: omniscient goes 0 2 3 1.
    Of what a crawl sees, 1 and 2 are alike: 0 1, then 3 (2.211), 2.
    """
    return Web(links={0: [1, 2], 1: [3], 2: [3], 4: [2]})


def bookshop():
    """Pages with URLs and anchor texts, found in the order 1 2 4 3 by breadth-first.

    - location with its defaults: 1 has -2 slashes + 1 for com = -1, 2 has 1 for com, 4 has 1 for
      the word home, 3 has -3: 0 2 4 1 3.
    - location with org alone worth 2: 1 2 4 have 0; 1 finds 3: 0 1 3 2 4.
    - anchor-similarity to the phrase "web crawling": 1 has 1, then 2 4 3 have 0; 2 gives 3 its
      better anchor: 0 1 2 3 4.
    - combined, depth-first * 4 + location: 1 2 4 have 3 5 5. 2 finds 3: 4 * 2 - 3 = 5. 4 was found
      before 3: 0 2 4 3 1.
    """
    return Web(
        links={0: [1, 2, 4], 1: [3], 2: [4, 3]},
        urls={
            0: "http://shop.example.com/home",
            1: "http://shop.example.com/books/crawling/index.html",
            2: "http://shop.example.com/cart",
            3: "http://www.example.org/a/b/c/",
            4: "http://home.example.net/",
        },
        anchors={
            (0, 1): "Web crawling",
            (0, 2): "Crawling the web",
            (1, 3): "more",
            (2, 3): "Crawling the Web: web-crawling explained",
        },
    )


def hot_page_found_late():
    """Page 1 is hot by its title; page 2 is known before, and ever stays in the URL queue.

    Breadth-first behind a hot queue. With distance 3: 1 is fetched and is hot, so 3 (1 link away)
    is queued hot, and 4 (2) too, 5 (3) not. Then 2, found first. The link from 1 has put it at
    distance 1, so its link 6 is at 2, hot, and comes before 5; 7 is at 3. With distance 4, 5 and
    7 are hot as well. With distance 0 nothing is.
    """
    return Web(
        links={0: [1, 2], 1: [2, 3], 2: [6], 3: [4], 4: [5], 6: [7]}, titles={1: "On crawling"}
    )


def distance_through_old_links():
    """The hot page 2 leads to page 1, which was fetched, and that to 3: now at distance 2.

    Its link 4 is at 3. Breadth-first goes 0 1 2 3 5 4 with distance 3, and 0 1 2 3 4 5 with 4.
    """
    return Web(links={0: [1, 2], 1: [3, 5], 2: [1], 3: [4]}, titles={2: "Crawling"})


def hot_pages_of_two_sites():
    """Sites {1 4} and {2 3 5}, hot pages 1 and 2 by anchor; larger sites first counts all waiting.

    Both sites have a hot page: that of the larger, 2, then 1. Left are 3 5 and 4: 3, then 4 and 5
    in order of discovery.
    """
    return Web(
        links={0: [1, 2, 3, 4, 5]},
        site={0: 0, 1: 1, 4: 1, 2: 2, 3: 2, 5: 2},
        anchors={(0, 1): "crawling", (0, 2): "Crawling!"},
    )


@st.composite
def webs(draw, max_pages=40):
    """Webs of a few sites with dangling and unreachable pages, self-links, duplicates and texts."""

    def drawn_int(low, high):
        number = draw(st.integers(low, high))
        assert isinstance(number, int)
        return number

    n_pages = drawn_int(1, max_pages)
    n_sites = drawn_int(1, 5)
    pages = range(n_pages)
    rows = st.lists(st.integers(0, n_pages - 1), max_size=6)
    links = {}
    for page in pages:
        row = draw(rows)
        assert isinstance(row, list)
        if row:
            links[page] = row
    site = {page: drawn_int(0, n_sites - 1) for page in pages}
    # One drawn number determines all texts, because a text per link is slow to draw and to shrink.
    return with_texts(Web(links=links, site=site), drawn_int(0, 2**16), n_pages)


def seeds_of(web):
    """Return a strategy for one to four seeds of a web, in any order."""
    return st.lists(st.sampled_from(web.pages), min_size=1, max_size=4, unique=True)


def with_texts(web, seed, n_pages):
    """Give a web URLs, anchors, titles and bodies, with the words of `TOPIC_PHRASES` in some."""
    rng = random.Random(seed)
    for page in range(n_pages):
        site = web.site[page]
        host = f"s{site}.example.{TLDS[site % len(TLDS)]}"
        web.urls[page] = f"http://{host}{rng.choice(PATHS)}?page={page}"
        web.titles[page] = rng.choice(TEXTS[:5]) if rng.random() < 0.4 else ""
        web.bodies[page] = "The frontier. " * rng.randrange(13) if rng.random() < 0.4 else ""
        for target in web.links_of(page):
            web.anchors[page, target] = rng.choice(TEXTS) if rng.random() < 0.5 else "here"
    return web


def power_law_web(n_pages, seed):
    """A random web whose sites, in-degrees and out-degrees follow power laws, with all texts.

    About 15 percent of the pages are dangling, six of ten links stay on the site, and a few pages
    cannot be reached from any other.
    """
    rng = random.Random(seed)
    n_sites = max(1, n_pages // 30)
    site = {page: int(n_sites * rng.random() ** 2) for page in range(n_pages)}
    of_site = {}
    for page in range(n_pages):
        of_site.setdefault(site[page], []).append(page)
    weights = [rng.paretovariate(1.1) for _ in range(n_pages)]
    links = {}
    for page in range(n_pages):
        if rng.random() < 0.15:
            continue
        n_links = min(int(3 * rng.paretovariate(1.3)), 60)
        afar = rng.choices(range(n_pages), weights, k=n_links)
        links[page] = [v if rng.random() < 0.4 else rng.choice(of_site[site[page]]) for v in afar]
    return with_texts(Web(links=links, site=site), seed, n_pages)


@st.composite
def crawls(draw):
    """Small webs, the order in which some of their pages are fetched, and the seeds."""
    n_pages = draw(st.integers(1, 12))
    pages = range(n_pages)
    links = {
        page: [
            other for other in draw(st.lists(st.sampled_from(pages), unique=True)) if other != page
        ]
        for page in pages
    }
    order = draw(st.permutations(pages))[: draw(st.integers(1, n_pages))]
    return links, order, draw(st.lists(st.sampled_from(pages), min_size=1, unique=True))
