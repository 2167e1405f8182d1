"""The structure of the demo web as arrays: pages, their kinds and their links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

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
_FAN_OUT = 15
"""Number of pages that a section page links to itself; further pages are children of those."""

_MIX, _ROW_MIX = 0x9E3779B1, 0x85EBCA6B
_UNMIX = pow(_MIX, -1, 1 << 32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Structure:
    """Pages grouped by site, where page 0 is the portal's home page, and their links.

    Parameters
    ----------
    starts
        int64, shape (n_sites + 1,): the first page of each site, which is its home page.
    n_sections
        int64, shape (n_sites,): number of section pages of each site; they follow the home page.
    private
        bool, shape (n_sites,): whether robots.txt forbids the site's last section.
    site, section, kind
        Shape (n_pages,): site; page id of the section page (the page itself if it is one, the home
        page if there are no sections); kind.
    source
        int64, shape (n_pages,): the page with the original body: itself, or a duplicate's original.
    indptr, indices
        int64, int32: the links as rows, in page order.
    """

    starts: Ints
    n_sections: Ints
    private: NDArray[np.bool_]
    site: NDArray[np.int32]
    section: Ints
    kind: NDArray[np.uint8]
    source: Ints
    indptr: Ints
    indices: NDArray[np.int32]


def synthesise(
    n_pages: int, n_sites: int, site_topics: Ints, rng: np.random.Generator
) -> Structure:
    """Return a web in which every page is reachable from page 0.

    Sizes of sites follow a power law. So do in-degrees, because a non-local link picks its target
    by a rank drawn from a power law, first the site and then the page within it. Local links go to
    nearby pages in the same section. Cost: O(n_links log n_links) time.

    Parameters
    ----------
    n_pages, n_sites
        At least one page per site.
    site_topics
        int64, shape (n_sites,): topic of each site; half of the links between sites stay within a
        topic.
    rng
        Generator; the same state gives the same web.
    """
    sizes = _site_sizes(n_pages, n_sites, rng)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    site = np.repeat(np.arange(n_sites), sizes)
    n_sections = np.minimum(np.sqrt(sizes) / 1.5, 60).astype(np.int64)
    private = (rng.random(n_sites) < 0.12) & (n_sections >= 3)
    private[0] = False

    page = np.arange(n_pages)
    home = starts[site]
    k, index = n_sections[site], page - home
    block, block_size = _blocks(index, sizes[site] - k - 1, k)
    block += home + k + 1
    section = np.where(
        index <= k, page, home + np.where(k > 0, _section_of(index, sizes[site], k), 0)
    )
    inner = index > k
    kind = _kinds(inner, rng)
    last_plain = np.maximum.accumulate(np.where(kind == PLAIN, page, 0))

    def plain_before(candidates: Ints, floors: Ints, otherwise: Ints) -> Ints:
        found = last_plain[candidates]
        return np.where(found >= floors, found, otherwise)

    place = page - block
    near = block + (np.maximum(place, 0) * rng.random(n_pages) ** 2).astype(np.int64)
    near = np.minimum(near, n_pages - 1)
    parent = np.where(place < _FAN_OUT, section, plain_before(near, block, section))
    parent[~inner] = home[~inner]
    source = np.where(kind == DUPLICATE, plain_before(near, block, section), page)

    children = page[index > 0]
    pairs = [
        (parent[children], children),
        _between_sites(starts, n_sections, private, last_plain, rng),
    ]
    plain = page[kind == PLAIN]
    by_popularity = np.argsort(site + 0.999 * _unpopularity(index, rng))
    pairs.append(_local_links(plain[inner[plain]], block, block_size, rng))
    pairs.append(_site_links(plain, site, starts, by_popularity, rng))
    pairs.append(_cross_links(plain, site, starts, by_popularity, site_topics, rng))
    links = _encode(pairs, home, section, plain)
    target = _redirect_targets(kind, site, starts, last_plain, rng)
    indptr, indices = _rows(links, n_pages, source, target)
    return Structure(
        starts, n_sections, private, site.astype(np.int32), section, kind, source, indptr, indices
    )


def _site_sizes(n_pages: int, n_sites: int, rng: np.random.Generator) -> Ints:
    """Draw site sizes from a power law with exponent 0.9 in the rank; the portal is the largest."""
    score = 0.4 * np.log(np.arange(n_sites) + 1.0) - np.log(-np.log(rng.random(n_sites)))
    score[0] = -np.inf
    rank = np.empty(n_sites)
    rank[np.argsort(score)] = np.arange(1.0, n_sites + 1)
    weights = rank**-0.9
    shares = (n_pages - n_sites) * weights / weights.sum()
    sizes: Ints = 1 + shares.astype(np.int64)
    sizes[0] += n_pages - sizes.sum()
    return sizes


def _section_of(index: Ints, size: Ints, k: Ints) -> Ints:
    """Return the index of the section page of each page below the sections."""
    rest = np.maximum(size - k - 1, 1)
    numbers: Ints = 1 + (index - k - 1) * k // rest
    return numbers


def _blocks(index: Ints, rest: Ints, k: Ints) -> tuple[Ints, Ints]:
    """Return the start of each page's section among the pages below sections, and its size."""
    k1, rest1 = np.maximum(k, 1), np.maximum(rest, 1)
    number = np.clip((index - k - 1) * k1 // rest1, 0, None)
    first = -(-number * rest1 // k1)
    following = -(-(number + 1) * rest1 // k1)
    return first, following - first


def _kinds(inner: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw the kind of each page; home and section pages are plain."""
    bounds = np.cumsum(list(_SHARES.values()))
    drawn = np.searchsorted(bounds, rng.random(len(inner)), side="right")
    kinds = np.array([*_SHARES, PLAIN], dtype=np.uint8)[drawn]
    kinds[~inner] = PLAIN
    return kinds


def _unpopularity(index: Ints, rng: np.random.Generator) -> Floats:
    """Draw a rank score in [0, 1) per page; pages near the top of a site tend to score lower."""
    score: Floats = rng.random(len(index)) * (index + 4.0) ** 0.35
    score /= score.max() + 1.0
    return score


def _between_sites(
    starts: Ints,
    n_sections: Ints,
    private: NDArray[np.bool_],
    last_plain: Ints,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Return one link to each home page except the portal's, from a page of an earlier site."""
    children = np.arange(1, len(starts) - 1)
    parents = (children * rng.random(len(children)) ** 3).astype(np.int64)
    size, k = starts[parents + 1] - starts[parents], n_sections[parents]
    # The first quarter of the pages below the sections is never in the last, private section.
    reach = np.minimum(1 + k - private[parents] + (size - 1 - k) // 4, 1 + 4 * k)
    reach = np.maximum(np.where(private[parents], np.minimum(reach, k), reach), 1)
    pages = starts[parents] + (reach * rng.random(len(parents))).astype(np.int64)
    return np.maximum(last_plain[pages], starts[parents]), starts[children]


def _heavy(n: int, mean_floor: float, exponent: float, rng: np.random.Generator) -> Ints:
    """Draw `n` numbers of links with a power-law tail, at most 60."""
    return np.minimum(mean_floor * (1.0 - rng.random(n)) ** -exponent, 60).astype(np.int64)


def _local_links(
    pages: Ints, block: Ints, block_size: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw links to pages at some distance in the same section, which wraps around."""
    sources = np.repeat(pages, _heavy(len(pages), 2.6, 0.4, rng))
    step = np.ceil(-6.0 * np.log(1.0 - rng.random(len(sources)))).astype(np.int64)
    step[rng.random(len(sources)) < 0.5] *= -1
    first = block[sources]
    return sources, first + (sources - first + step) % block_size[sources]


def _site_links(
    pages: Ints, site: Ints, starts: Ints, by_popularity: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw links to popular pages of the same site."""
    sources = np.repeat(pages, _heavy(len(pages), 1.3, 0.4, rng))
    return sources, _popular(site[sources], starts, by_popularity, rng)


def _cross_links(
    pages: Ints,
    site: Ints,
    starts: Ints,
    by_popularity: Ints,
    site_topics: Ints,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Draw links to home pages and popular pages of popular other sites, half of them on topic."""
    counts = _heavy(len(pages), 2.4, 0.5, rng)
    counts[rng.random(len(pages)) >= 0.4] = 0
    sources = np.repeat(pages, counts)
    n_sites = len(starts) - 1
    cumulative = np.cumsum((np.arange(n_sites) + 1.0) ** -0.8)
    anywhere = np.searchsorted(cumulative, rng.random(len(sources)) * cumulative[-1])
    order = np.argsort(site_topics, kind="stable")
    bounds = np.searchsorted(site_topics[order], np.arange(site_topics.max() + 2))
    topic = site_topics[site[sources]]
    low, high = bounds[topic], bounds[topic + 1]
    akin = order[low + ((high - low) * rng.random(len(sources)) ** 2.5).astype(np.int64)]
    targets = np.where(rng.random(len(sources)) < 0.5, anywhere, akin)
    pages_there = _popular(targets, starts, by_popularity, rng)
    pages_there = np.where(rng.random(len(sources)) < 0.45, starts[targets], pages_there)
    apart = targets != site[sources]
    return sources[apart], pages_there[apart]


def _popular(sites: Ints, starts: Ints, by_popularity: Ints, rng: np.random.Generator) -> Ints:
    """Draw a page of each site, the r-th most popular with probability proportional to r**-0.86."""
    size = starts[sites + 1] - starts[sites]
    return by_popularity[starts[sites] + (size * rng.random(len(sites)) ** 7).astype(np.int64)]


def _encode(
    pairs: list[tuple[Ints, Ints]], home: Ints, section: Ints, plain: Ints
) -> NDArray[np.uint64]:
    """Sort and deduplicate the links as codes of (source, kind of link, mixed target).

    The kinds are home, section and other. Targets are mixed by a bijection, so that a single sort
    both removes duplicates and shuffles rows.
    """
    sources = np.concatenate([s for s, _ in pairs])
    targets = np.concatenate([t for _, t in pairs])
    repeats = (targets == sources) | (targets == home[sources]) | (targets == section[sources])
    sources, targets = sources[~repeats], targets[~repeats]
    to_home = plain[plain != home[plain]]
    to_section = plain[(section[plain] != plain) & (section[plain] != home[plain])]
    codes = np.concatenate(
        (
            _code(to_home, home[to_home], 0),
            _code(to_section, section[to_section], 1),
            _code(sources, targets, 2),
        )
    )
    codes.sort()
    last = np.append(codes[:-1] != codes[1:], True)[: len(codes)]
    return np.asarray(codes[last])


def _code(sources: Ints, targets: Ints, place: int) -> NDArray[np.uint64]:
    """Pack source, kind of link and mixed target into one number."""
    s, t = sources.astype(np.uint64), targets.astype(np.uint64)
    mixed = (t * np.uint64(_MIX) + s * np.uint64(_ROW_MIX)) & _LOW
    codes: NDArray[np.uint64] = (s << np.uint64(34)) | np.uint64(place << 32) | mixed
    return codes


def _redirect_targets(
    kind: NDArray[np.uint8], site: Ints, starts: Ints, last_plain: Ints, rng: np.random.Generator
) -> Ints:
    """Draw the target of each redirect; -1 for other pages.

    A target is a page of the same site, a home page or another redirect. A chain leads from a
    redirect to the one before it; the last two redirects form a loop.
    """
    target = np.full(len(kind), -1, dtype=np.int64)
    moved = np.flatnonzero((kind == MOVED) | (kind == FOUND))
    n = len(moved)
    where = site[moved]
    size = starts[where + 1] - starts[where]
    inside = last_plain[starts[where] + (size * rng.random(n)).astype(np.int64)]
    other = starts[((len(starts) - 1) * rng.random(n) ** 3).astype(np.int64)]
    target[moved] = np.where(rng.random(n) < 0.8, inside, other)
    chained = np.flatnonzero(rng.random(n) < 0.2)
    chained = chained[chained > 0]
    target[moved[chained]] = moved[chained - 1]
    if n >= 3:
        target[moved[-1]], target[moved[-2]] = moved[-2], moved[-1]
    return target


def _rows(
    codes: NDArray[np.uint64], n_pages: int, source: Ints, target: Ints
) -> tuple[Ints, NDArray[np.int32]]:
    """Decode the rows of all pages, and insert those of duplicates and redirects."""
    origin = (codes >> np.uint64(34)).astype(np.int64)
    mixed = codes - origin.astype(np.uint64) * np.uint64(_ROW_MIX)
    decoded = ((mixed * np.uint64(_UNMIX)) & _LOW).astype(np.int32)
    counts = np.bincount(origin, minlength=n_pages)
    firsts = np.concatenate(([0], np.cumsum(counts)))[:-1][source]
    counts = counts[source]
    moved = target >= 0
    counts[moved] = 1
    indptr = np.concatenate(([0], np.cumsum(counts)))
    owner = np.repeat(np.arange(n_pages), counts)
    positions = np.arange(indptr[-1]) - indptr[owner] + firsts[owner]
    indices = (
        decoded[np.minimum(positions, len(decoded) - 1)]
        if len(decoded)
        else np.zeros(len(positions), np.int32)
    )
    indices[indptr[:-1][moved]] = target[moved]
    others = indices != owner
    counts = np.bincount(owner[others], minlength=n_pages)
    return np.concatenate(([0], np.cumsum(counts))), indices[others].astype(np.int32)
