"""Properties of the sites of a synthetic web: sizes, numbers of links, links between sites."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph import LinkGraph

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

SITE_SIZE_EXPONENT = 1.75
"""Exponent of the power law of pages per site."""

SPREAD_OF_LINKS = 0.7
"""Standard deviation over the sites of the logarithm of links per page."""


class GrowthParameters(NamedTuple):
    """Constants of the page model of `synthetic_web`, the same for every site.

    Parameters
    ----------
    copied
        Probability that a page keeps a link of its model.
    sibling
        Probability that a page is a sibling of its model instead of its child.
    new_length
        Probability that the number of links to write is drawn instead of taken from the model.
    tail
        Exponent of the power law of that number, above 2.
    longest
        Maximum number of links to write, as a multiple of the minimum.
    recent
        Probability that the model is a recent page instead of any earlier one.
    near
        Probability that a new link within the site leads to a recent page instead of an early one.
    to_home
        Probability that a new link to another site leads to its home page.
    """

    copied: float = 0.83
    sibling: float = 0.6
    new_length: float = 0.12
    tail: float = 2.5
    longest: float = 250.0
    recent: float = 0.4
    near: float = 0.94
    to_home: float = 0.65


class Sites(NamedTuple):
    """Target properties of each site; arrays of shape (n_sites,) except `starts`.

    Parameters
    ----------
    starts
        int64, shape (n_sites + 1,): first page of each site, and the number of pages.
    n_wanted
        float64: links to write, in addition to those to children.
    dangling
        float64: share of pages without links; the home page has some.
    between
        float64: probability that a new link leads to another site.
    orphans
        float64: probability that a page is not linked by its parent.
    """

    starts: Longs
    n_wanted: Floats
    dangling: Floats
    between: Floats
    orphans: Floats


class SiteLinks(NamedTuple):
    """The sites that each site links to: row `row_of[site]`, or none if that is -1.

    Parameters
    ----------
    row_of
        int32, shape (n_sites,).
    indptr, targets
        int64, int32: the rows; a site's own id in its row is ignored.
    sums
        float64, shape of `targets`: cumulative weights within each row, all above 0.
    """

    row_of: Ints
    indptr: Longs
    targets: Ints
    sums: Floats


def site_sizes(n_pages: int, n_sites: int, most: int, seed: int) -> Longs:
    """Return sizes that sum to n_pages: quantiles of a power law from 1 to `most`, shuffled."""
    steps = ((np.arange(n_sites) + 0.5) / n_sites) ** (-1.0 / (SITE_SIZE_EXPONENT - 1.0))
    low, high = 0.0, float(most)
    for _ in range(100):
        scale = (low + high) / 2.0
        if np.clip(np.floor(scale * steps), 1, most).sum() <= n_pages:
            low = scale
        else:
            high = scale
    sizes = np.clip(np.floor(low * steps), 1, most).astype(np.int64)
    left = n_pages - int(sizes.sum())
    while left > 0:
        able = np.flatnonzero(sizes < most)[:left]
        sizes[able] += 1
        left -= len(able)
    return np.asarray(np.random.default_rng(seed).permutation(sizes), dtype=np.int64)


def links_of_sites(sizes: Longs, links_per_page: float, seed: int) -> Floats:
    """Return the links of each site: log-normal per page, at least 2, with the mean wanted."""
    drawn = np.random.default_rng([seed, 1]).lognormal(0.0, SPREAD_OF_LINKS, len(sizes))
    low, high = 0.0, 1000.0 * links_per_page
    for _ in range(100):
        scale = (low + high) / 2.0
        mean = float((sizes * np.maximum(scale * drawn, 2.0)).sum() / sizes.sum())
        low, high = (scale, high) if mean < links_per_page else (low, scale)
    return np.asarray(sizes * np.maximum(high * drawn, 2.0), dtype=np.float64)


def links_by_size(sizes: Longs) -> SiteLinks:
    """Let every site link to every other, in proportion to their pages."""
    n_sites = len(sizes)
    return SiteLinks(
        np.full(n_sites, 0 if n_sites > 1 else -1, dtype=np.int32),
        np.array([0, n_sites], dtype=np.int64),
        np.arange(n_sites, dtype=np.int32),
        np.cumsum(sizes).astype(np.float64),
    )


def links_along_hosts(hosts: LinkGraph, sizes: Longs) -> SiteLinks:
    """Let sites link like the best-linked hosts; hosts without links link back instead."""
    n_sites = len(sizes)
    if hosts.n_pages < n_sites:
        raise GraphError(f"there are {hosts.n_pages} hosts for {n_sites} sites; give one per site.")
    degrees = np.diff(hosts.indptr) + np.diff(hosts.transposed[0])
    site_of = np.full(hosts.n_pages, -1, dtype=np.int64)
    best_linked = np.argsort(-degrees, kind="stable")[:n_sites]
    site_of[best_linked] = np.argsort(-sizes, kind="stable")
    source = site_of[np.repeat(np.arange(hosts.n_pages), np.diff(hosts.indptr))]
    target = site_of[hosts.indices]
    kept = (source >= 0) & (target >= 0)
    source, target = source[kept], target[kept]
    back = np.bincount(source, minlength=n_sites)[target] == 0
    return counted_links(
        np.concatenate((source, target[back])), np.concatenate((target, source[back])), n_sites
    )


def counted_links(source: NDArray[np.integer], target: NDArray[np.integer], n: int) -> SiteLinks:
    """Return the links between sites, weighted by how often each is listed."""
    keys, counts = np.unique(source.astype(np.int64) * n + target, return_counts=True)
    indptr = np.searchsorted(keys, np.arange(n + 1, dtype=np.int64) * n).astype(np.int64)
    total = np.concatenate(([0.0], np.cumsum(counts, dtype=np.float64)))
    sums = total[1:] - np.repeat(total[indptr[:-1]], np.diff(indptr))
    has_links = np.diff(indptr) > 0
    row_of = np.where(has_links, np.arange(n), -1).astype(np.int32)
    return SiteLinks(row_of, indptr, (keys % n).astype(np.int32), sums)
