"""Synthetic webs from a model of how sites grow, of any size or as twins of a real web."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph import MAX_PAGES, LinkGraph
from crawlprio.linkgraph.site_rows import count_links, most_links, write_web
from crawlprio.linkgraph.sites import (
    GrowthParameters,
    SiteLinks,
    Sites,
    counted_links,
    links_along_hosts,
    links_by_size,
    links_of_sites,
    site_sizes,
)
from crawlprio.pages import PageIds

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

TRIAL_PAGES = 400_000
"""Approximate number of pages on which the numbers of links are calibrated before writing a web."""

TRIALS = 6
"""Number of calibration rounds."""


def synthetic_web(
    n_pages: int,
    n_sites: int,
    *,
    links_per_page: float = 10.0,
    share_between_sites: float = 0.2,
    dangling: float = 0.18,
    hosts: LinkGraph | None = None,
    max_pages_per_site: int = 25_000,
    seed: int = 0,
) -> LinkGraph:
    """Return a synthetic web with realistic distributions of degrees, site sizes and PageRank.

    Site sizes follow a power law, and the number of links per page is log-normal over the sites.
    Sites are generated one after the other; the first page of each is its home page. Every further
    page is generated from a *model*, an earlier page of the site that has links, either recent or
    any. The page becomes a child of its model or a sibling of it, and its parent links to it. All
    pages are therefore reachable from the home page, and the number of children follows a power law
    (redirection: Krapivsky & Redner, Organization of growing random networks, Phys. Rev. E 2001).
    Unless it is dangling, a page writes as many links as its model or, as in a new section, a
    number drawn from a power law. It keeps each link of its model with a fixed probability, at the
    same position, as pages share menus; this gives in-degrees their power law (copying: Kumar et
    al., Stochastic models for the Web graph, FOCS 2000). The other links are new: to another site,
    at its home page or another early page; to a recent page of its own site; or to an early one.
    Links to its children follow. "Recent" and "early" are log-uniform: each doubling of the
    distance, from the page or from the home page, is equally likely. The probabilities
    (`sites.GrowthParameters`) were chosen once, so that crawls of a twin match crawls of the real
    graph over all orderings.

    Parameters
    ----------
    n_pages, n_sites
        At least one page per site, and at most `max_pages_per_site`.
    links_per_page
        Mean number of links wanted over all pages; 2 to 1,000. Met within a few per cent on webs of
        many sites.
    share_between_sites
        Share of links wanted between sites, 0 to 0.9; met within a few per cent of all links. Sites
        of one page have no other links.
    dangling
        Share of pages without links, below 1; home pages have some.
    hosts
        A graph of at least `n_sites` hosts that says which sites link to each other. The
        best-linked host becomes the largest site, and so on. Links follow those of the host, with
        equal weights, or, if it has none, lead back along those that lead to it. By default, links
        between sites lead to sites in proportion to their pages.
    max_pages_per_site
        Cut-off of the power law of sizes.
    seed
        0 or more; the same arguments give the same web bit for bit.

    Returns
    -------
    LinkGraph
        With sites; rows list copied and new links first, then children, as a page would.

    Raises
    ------
    GraphError
        If the arguments are out of bounds.

    Notes
    -----
    O(n_links) time, about 10 million links per second. In addition to the result it takes 4 bytes
    per page, and address space but no memory for links that turn out to be repeats. With ten links
    per page, 200,000 to 30 million pages have exponents of 2.2 to 2.3 for in-degree and PageRank,
    about 3 for out-degree and 1.75 for pages per site; most pages are 2 to 5 links from a home
    page.
    """
    _check(n_pages, n_sites, links_per_page, share_between_sites, dangling, max_pages_per_site)
    if seed < 0:
        raise GraphError(f"seed is {seed}; it must be at least 0.")
    sizes = site_sizes(n_pages, n_sites, max_pages_per_site, seed)
    links = links_by_size(sizes) if hosts is None else links_along_hosts(hosts, sizes)
    return _grown(
        sizes,
        links_of_sites(sizes, links_per_page, seed),
        np.full(n_sites, dangling),
        np.full(n_sites, share_between_sites if n_sites > 1 else 0.0),
        0.0,
        links,
        seed,
        by_site=False,
    )


def twin(graph: LinkGraph, seed: int = 0) -> LinkGraph:
    """Return a synthetic web that resembles a real one as closely as the model allows.

    The model is that of `synthetic_web`. Each site keeps its numbers of pages, links and links to
    other sites, its share of dangling pages, and the sites it links to with their frequencies. The
    number of pages without in-links is also kept. All else comes from the model. Pages are numbered
    by site, so page ids do not correspond to those of the real graph.

    Parameters
    ----------
    graph
        A graph with pages and links.
    seed
        0 or more; the same graph and seed give the same twin bit for bit.

    Returns
    -------
    LinkGraph
        With the same number of pages and sites, and about as many links.

    Raises
    ------
    GraphError
        If the graph has no links, or the seed is negative.

    Notes
    -----
    O(n_links log n_links) time and 40 bytes per link.

    Fidelity: on a university department (54,000 pages), on which the model was fitted, the
    cumulative PageRank curves of crawls differ from those on its twins by at most 0.07 to 0.19,
    depending on the ordering: omniscient 0.10, OPIC 0.13, breadth-first from one page 0.07, from
    all home pages 0.19. On graphs not used for fitting: 0.06 to 0.25 on a college (6,000 pages),
    0.07 to 0.27 on cnr-2000, whose sites are unknown. Twins favour orderings that count backlinks,
    because pages of a site share their menus more evenly.
    """
    if graph.n_links == 0:
        raise GraphError("the graph has no links; a twin needs some.")
    if seed < 0:
        raise GraphError(f"seed is {seed}; it must be at least 0.")
    degrees = np.diff(graph.indptr)
    all_sizes = np.bincount(graph.site, minlength=graph.n_sites)
    used = np.flatnonzero(all_sizes)
    site = np.searchsorted(used, graph.site).astype(np.int32)
    sizes = all_sizes[used].astype(np.int64)
    source, target = np.repeat(site, degrees), site[graph.indices]
    crossing = source != target
    n_links = np.bincount(site, weights=degrees, minlength=len(used)).astype(np.float64)
    n_between = np.bincount(source[crossing], minlength=len(used))
    has_in_links = np.zeros(graph.n_pages, dtype=np.bool_)
    has_in_links[graph.indices] = True
    return _grown(
        sizes,
        n_links,
        np.bincount(site, weights=degrees == 0) / sizes,
        n_between / np.maximum(n_links, 1.0),
        1.0 - float(has_in_links.mean()),
        counted_links(source[crossing], target[crossing], len(used)),
        seed,
        by_site=True,
    )


def home_pages(web: LinkGraph) -> PageIds:
    """Return the first page of each non-empty site, by site: the home pages of a synthetic web."""
    found, first = np.unique(web.site, return_index=True)
    return np.asarray(first[np.argsort(found)], dtype=np.int32)


def _check(
    n_pages: int,
    n_sites: int,
    links_per_page: float,
    share_between_sites: float,
    dangling: float,
    max_pages_per_site: int,
) -> None:
    """Raise GraphError for arguments that no web can satisfy."""
    if not 1 <= n_sites <= n_pages <= MAX_PAGES:
        raise GraphError(
            f"a web of {n_pages} pages on {n_sites} sites is impossible; "
            f"give 1 to {MAX_PAGES} pages, and from 1 site to one per page."
        )
    if n_pages > n_sites * max_pages_per_site:
        raise GraphError(
            f"{n_pages} pages do not fit {n_sites} sites of at most {max_pages_per_site} pages; "
            "give more sites or a larger max_pages_per_site."
        )
    if not 2.0 <= links_per_page <= 1000.0:
        raise GraphError(f"links_per_page is {links_per_page:g}; it must be 2 to 1,000.")
    if not 0.0 <= share_between_sites <= 0.9:
        raise GraphError(f"share_between_sites is {share_between_sites:g}; it must be 0 to 0.9.")
    if not 0.0 <= dangling < 1.0:
        raise GraphError(f"dangling is {dangling:g}; it must be at least 0 and below 1.")


def _grown(
    sizes: Longs,
    n_links: Floats,
    dangling: Floats,
    share_between: Floats,
    orphans: float,
    links: SiteLinks,
    seed: int,
    *,
    by_site: bool,
) -> LinkGraph:
    """Calibrate the links to ask for on some sites, then write the web."""
    growth = GrowthParameters()
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    n_pages = int(starts[-1])
    # If links are few, half of them lead to children.
    n_below = np.maximum(sizes - 1, 1)
    missed = np.maximum(orphans, 1.0 - 0.5 * n_links / n_below)
    n_aim = n_links - (sizes - 1) * (1.0 - missed)
    sites = Sites(starts, n_aim.copy(), dangling, share_between.copy(), missed)
    step = 1 if by_site else max(n_pages // TRIAL_PAGES, 1)
    chosen = np.arange(0, len(sizes), step, dtype=np.int64)
    for _ in range(TRIALS):
        got, got_between = count_links(chosen, sites, links, growth, seed)
        for asked, aim, had in (
            (sites.n_wanted, n_aim[chosen], got - (n_links - n_aim)[chosen]),
            (sites.between, (share_between * n_links)[chosen], got_between),
        ):
            if by_site:
                asked *= np.clip(aim / np.maximum(had, 1.0), 1 / 3, 3.0)
            else:
                asked *= np.clip(aim.sum() / max(had.sum(), 1.0), 1 / 3, 3.0)
        np.minimum(sites.between, 0.95, out=sites.between)
    indptr = np.empty(n_pages + 1, dtype=np.int64)
    # Room for links that are not written is never touched, so it takes no memory.
    indices = np.empty(most_links(sites, growth, seed), dtype=np.int32)
    n_written = write_web(sites, links, growth, seed, indptr, indices)
    site = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return LinkGraph(indptr, indices[:n_written], site)
