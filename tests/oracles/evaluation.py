"""The measures of crawl orders as the papers define them, page by page and slow.

Importance is a dict by page; a web is a dict of rows of links.
"""

import itertools
from fractions import Fraction

from .rank import pagerank

Importance = dict[int, float]
Links = dict[int, list[int]]


def kth_highest(importance, k):
    """I(r_K)."""
    return sorted(importance.values(), reverse=True)[k - 1]


def crawl_and_stop(order, importance):
    """M / K for K = 1, 2, ...: M of the first K pages have at least the importance of r_K."""
    shares = []
    for k in range(1, len(order) + 1):
        bound = kth_highest(importance, k)
        shares.append(Fraction(sum(importance[p] >= bound for p in order[:k]), k))
    return shares


def hot_share(importance, bound):
    """The probability that a random page is hot."""
    return Fraction(sum(i >= bound for i in importance.values()), len(importance))


def crawl_and_stop_with_threshold(order, importance, threshold):
    """The share of the hot pages among the first K, for K = 1, 2, ..."""
    hot = {p for p, i in importance.items() if i >= threshold}
    return [Fraction(len(hot & set(order[:k])), len(hot)) for k in range(1, len(order) + 1)]


def buffer_after(order, capacity, estimate):
    """The pages left in the buffer at the end, in ascending order.

    `estimate(fetched, page)` is what a crawl that has fetched these pages believes about the page.
    """
    buffer = []
    for k, page in enumerate(order):
        buffer.append(page)
        if len(buffer) > capacity:
            believed = {p: estimate(order[: k + 1], p) for p in buffer}
            least = min(believed.values())
            leaving = [p for p in buffer if believed[p] == least][-1]
            buffer.remove(leaving)
    return sorted(buffer)


def backlinks_seen(links):
    """IB'(P)."""
    return lambda fetched, page: float(sum(page in links[source] for source in fetched))


def pagerank_every(links, every, damping):
    """IR'(P), recomputed after 0, every, 2 * every, ... fetches.

    Between computations, each fetch adds damping * IR'(page) / out-degree to its targets that were
    unknown.
    """

    def estimate(fetched, page):
        # A new page is judged after its own links were seen.
        n_before = (len(fetched) - 1) // every * every
        ranks = cho_pagerank(links, fetched[:n_before], damping)
        values = {p: ranks.get(p, 1 - damping) for p in links}
        for source in fetched[n_before:]:
            for target in links[source]:
                if target not in ranks:
                    values[target] += damping * values[source] / len(links[source])
        return values[page]

    return estimate


def cho_pagerank(links, fetched, damping):
    """PageRank of the pages seen, scaled to (1 - d) for a page without backlinks, to 8 digits."""
    seen = dict.fromkeys([*fetched, *itertools.chain(*(links[p] for p in fetched))])
    if not seen:
        return {}
    rows = {p: links[p] if p in set(fetched) else [] for p in seen}
    stranger = -1
    ranks = pagerank({**rows, stranger: []}, damping)
    scale = (1 - damping) / ranks[stranger]
    return {p: float(f"{ranks[p] * scale:.7e}") for p in seen}


def mean_over_choices(values, n, score):
    """The mean score of the top n, over all ways to break ties."""
    tops = list(tops_of(values, n))
    return sum(sum(score(p) for p in top) / n for top in tops) / len(tops)


def tops_of(values, n):
    """Return all sets of n pages that contain no page less important than one left out."""
    bound = sorted(values.values(), reverse=True)[n - 1]
    above = [p for p, v in values.items() if v > bound]
    tied = [p for p, v in values.items() if v == bound]
    for chosen in itertools.combinations(tied, n - len(above)):
        yield (*above, *chosen)


def overlap_over_choices(first, second, n):
    """The mean share that the two tops have in common, over all ways to break ties."""
    pairs = list(itertools.product(tops_of(first, n), tops_of(second, n)))
    return sum(len(set(a) & set(b)) / n for a, b in pairs) / len(pairs)


def active_at(started, ended, time):
    """Return the number of fetches in flight just after a time."""
    return sum(s <= time < e for s, e in zip(started, ended, strict=True))


def depths(links, seeds):
    """Return the distance in links from the seeds, level by level."""
    depth = dict.fromkeys(seeds, 0)
    circle = list(depth)
    while circle:
        following = {t: depth[p] + 1 for p in circle for t in links[p] if t not in depth}
        depth |= following
        circle = list(following)
    return depth
