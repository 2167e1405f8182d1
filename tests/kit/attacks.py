"""Link farms and traps that an attacker adds to a web, for tests and benchmarks.

The kinds:

farm
    One site; each page links to its front page and to 20 random pages of it.
boosters
    One site; all pages link to the front page, which links to all of them.
domains
    As farm, but each ten pages are a site of their own.
calendar
    On the site of the first seed: each day links to the day before, the next and the one after.
grid
    On the site of the first seed: pages in rows of 30, each links to the four around it, as views
    of a calendar by day and hour do, or a list by sort key and page.
months
    On the site of the first seed: a tree, each page links to eight new ones and back.
cliques
    On the site of the first seed: groups of 40 pages that link to each other; each page of a group
    also links to all of a group of its own, which it opens.
filters
    On the site of the first seed: each page is a set of filters and links to the sets that have one
    more or one less, as lists of products do.
mirrors
    On the site of the first seed: copies of a site of 100 pages, as one for each session id; every
    copy links within itself, and each of its pages to the front page of a copy of its own.
expired
    One site: 100 pages that link to each other like an honest one, and then, from each, new pages
    without end, which link to 20 random ones and back to the 100.
"""

import numpy as np

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_order import reachable

KINDS = (
    *("farm", "boosters", "domains", "calendar", "grid", "months"),
    *("cliques", "filters", "mirrors", "expired"),
)
TRAPS = ("calendar", "grid", "months", "cliques", "filters", "mirrors")
"""The kinds that are placed on an honest page's site."""

SHARE = 0.3
"""Added pages, as a share of all pages."""


def attacked(graph, seeds, kind, entries, share=SHARE):
    """Return the web with pages appended, so that they are `share` of all pages.

    `entries` random pages reachable from the seeds link to them, as comments in forums do. The
    first of these and every second one link to the front page, the others to any added page. Those
    links come last on their page.
    """
    rng = np.random.default_rng(3)
    n_real = graph.n_pages
    n = int(n_real * share / (1 - share))
    sources, targets = _added_links(kind, n, rng)
    honest = np.flatnonzero(reachable(graph, seeds))
    entering = rng.choice(honest, entries, replace=entries > len(honest))
    entered = rng.integers(0, n, entries)
    entered[::2] = 0
    site = np.full(n, graph.n_sites, dtype=np.int32)
    if kind == "domains":
        site += np.arange(n, dtype=np.int32) // 10
    elif kind in TRAPS:
        site[:] = graph.site[seeds[0]]
    real = np.repeat(np.arange(n_real), np.diff(graph.indptr))
    all_sources = np.concatenate([real, entering, n_real + sources])
    all_targets = np.concatenate([graph.indices, n_real + entered, n_real + targets])
    by_source = np.argsort(all_sources, kind="stable")
    return LinkGraph.cleaned(
        np.searchsorted(all_sources[by_source], np.arange(n_real + n + 1)),
        all_targets[by_source].astype(np.int32),
        site=np.append(graph.site, site),
    )


def _added_links(kind, n, rng):
    """Return sources and targets of the links among n added pages; page 0 is the front page."""
    page = np.arange(n)
    if kind in ("farm", "domains"):
        near = np.column_stack([np.zeros(n, dtype=np.int64), rng.integers(0, n, (n, 20))])
    elif kind == "boosters":
        return np.append(page, np.zeros(n, dtype=np.int64)), np.append(np.zeros_like(page), page)
    elif kind == "calendar":
        near = page[:, None] + [-1, 1, 2]
    elif kind == "grid":
        near = page[:, None] + [-30, -1, 1, 30]
    elif kind == "months":
        near = np.column_stack([(page - 1) // 8, 8 * page[:, None] + np.arange(1, 9)])
    elif kind == "cliques":
        opened = 40 * (page[:, None] + 1)
        near = np.hstack([page[:, None] // 40 * 40 + np.arange(40), opened + np.arange(40)])
    elif kind == "filters":
        near = page[:, None] ^ (1 << np.arange(max(n - 1, 1).bit_length()))
    elif kind == "mirrors":
        within = rng.integers(0, 100, (100, 8))
        near = page[:, None] // 100 * 100 + np.hstack([within, np.zeros((100, 1), int)])[page % 100]
        near = np.hstack([near, 100 * (page[:, None] + 1)])
    elif kind == "expired":
        honest = rng.integers(0, min(n, 100), (n, 8))
        new = rng.integers(0, n, (n, 20))
        near = np.hstack([np.zeros((n, 1), int), honest, new])
    else:
        raise ValueError(f"kind is {kind!r}; give one of {', '.join(KINDS)}")
    source = np.repeat(page, near.shape[1])
    target = near.ravel()
    is_link = (target >= 0) & (target < n) & (target != source)
    return source[is_link], target[is_link]
