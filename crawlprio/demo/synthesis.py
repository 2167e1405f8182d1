"""The structure of the demo web: a synthetic web with redirects, copies, errors and a robots.txt.

`crawlprio.linkgraph.synthetic` grows the links. A page that it leaves without links is a leaf, on
which no other page depends, so that any leaf may become something else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph import LinkGraph
from crawlprio.graph.rows import gathered_rows
from crawlprio.linkgraph.synthetic import synthetic_web

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

PLAIN, DANGLING, DUPLICATE, MOVED, FOUND, MISSING, BROKEN = range(7)
"""Kinds of page: with links, without links, a copy of another page, 301, 302, 404, 500."""

_SHARES = {
    DANGLING: 0.08,
    DUPLICATE: 0.04,
    MOVED: 0.012,
    FOUND: 0.008,
    MISSING: 0.015,
    BROKEN: 0.003,
}
_PRIVATE_SITES = 0.12
"""Share of the sites that forbid some leaves to robots, and share of their leaves."""


@dataclass(frozen=True)
class Structure:
    """Pages grouped by site, where page 0 is the portal's home page, and their links.

    Parameters
    ----------
    graph
        The links in page order, and the site of each page.
    starts
        int64, shape (n_sites + 1,): the first page of each site, which is its home page.
    kind, private
        uint8 and bool, shape (n_pages,): the kind of each page, and whether robots.txt forbids it.
    source
        int64, shape (n_pages,): the page with the original body: itself, or a duplicate's original.
    """

    graph: LinkGraph
    starts: Ints
    kind: NDArray[np.uint8]
    private: Mask
    source: Ints


def synthesise(n_pages: int, n_sites: int, seed: int, rng: np.random.Generator) -> Structure:
    """Return a web in which every page is reachable from page 0, and that without private pages.

    A home page that is linked from its own site alone gets a link from a page of an earlier site.
    Cost: O(n_links) time.
    """
    grown = synthetic_web(
        n_pages,
        n_sites,
        share_between_sites=0.18,
        dangling=sum(_SHARES.values()),
        max_pages_per_site=max(n_pages // 8, 2 * -(-n_pages // n_sites)),
        seed=seed,
    )
    sizes = np.bincount(grown.site, minlength=n_sites)
    portal = int(np.argmax(sizes))
    before = int(sizes[:portal].sum())
    # The largest site comes first: pages and sites are numbered from it on, all the way round.
    sizes = np.roll(sizes, -portal)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    site = np.repeat(np.arange(n_sites), sizes)
    degrees = np.diff(grown.indptr)
    sources = (np.repeat(np.arange(n_pages), degrees) - before) % n_pages
    targets = (grown.indices - before) % n_pages
    is_leaf = np.roll(degrees == 0, -before)
    is_leaf[starts[:-1]] = False

    page = np.arange(n_pages)
    kind = np.full(n_pages, PLAIN, dtype=np.uint8)
    shares = np.array(list(_SHARES.values()))
    kind[is_leaf] = rng.choice(list(_SHARES), int(is_leaf.sum()), p=shares / shares.sum())
    last_plain = np.maximum.accumulate(np.where(is_leaf, 0, page))
    near = page - ((page - starts[site]) * rng.random(n_pages) ** 2).astype(np.int64)
    source = np.where(kind == DUPLICATE, last_plain[near], page)

    children = np.arange(1, n_sites)
    parents = (children * rng.random(len(children)) ** 3).astype(np.int64)
    reach = (sizes[parents] * rng.random(len(children)) ** 3).astype(np.int64)
    moved = np.flatnonzero((kind == MOVED) | (kind == FOUND))
    pairs = (
        (sources, targets),
        (last_plain[starts[parents] + reach], starts[children]),
        (moved, _redirect_targets(moved, site, starts, last_plain, rng)),
    )
    rows = gathered_rows(
        np.concatenate([one for one, _ in pairs]).astype(np.int32),
        np.concatenate([other for _, other in pairs]).astype(np.int32),
        n_pages,
    )
    private = is_leaf & (rng.random(n_sites) < _PRIVATE_SITES)[site]
    graph = LinkGraph.cleaned(*_copied(*rows, source), site=site.astype(np.int32), in_place=True)
    return Structure(graph, starts, kind, private, source)


def _redirect_targets(
    moved: Ints, site: Ints, starts: Ints, last_plain: Ints, rng: np.random.Generator
) -> Ints:
    """Draw the target of each redirect: a page of the same site, a home page, another redirect.

    A chain leads from a redirect to the one before it; the last two redirects form a loop.
    """
    n = len(moved)
    where = site[moved]
    size = starts[where + 1] - starts[where]
    inside = last_plain[starts[where] + (size * rng.random(n)).astype(np.int64)]
    other = starts[((len(starts) - 1) * rng.random(n) ** 3).astype(np.int64)]
    target = np.where(rng.random(n) < 0.8, inside, other)
    chained = np.flatnonzero(rng.random(n) < 0.2)
    chained = chained[chained > 0]
    target[chained] = moved[chained - 1]
    if n >= 3:
        target[-1], target[-2] = moved[-2], moved[-1]
    return np.asarray(target, dtype=np.int64)


def _copied(indptr: Ints, indices: NDArray[np.int32], source: Ints) -> tuple[Ints, Ints]:
    """Return the rows with each page's replaced by that of its source."""
    counts = np.diff(indptr)[source]
    made = np.concatenate(([0], np.cumsum(counts)))
    places = np.arange(made[-1]) + np.repeat(indptr[:-1][source] - made[:-1], counts)
    return made, np.asarray(indices[places])
