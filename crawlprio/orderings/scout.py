"""SCOUT: an estimate of PageRank, scaled up for what each site has not shown yet.

The rules are compiled and know arrays only; the class keeps the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.orderings.base import CompiledOrdering, Keys, Pages
from crawlprio.orderings.options import checked_number
from crawlprio.orderings.rules import State
from crawlprio.pages import PageIds
from crawlprio.ranking.room import with_room

Records = NDArray[np.void]

NOT_VISITED = -1.0

MOST_COVERAGE = 50.0
"""How much mass from links inside a site is scaled up at most."""

LEAST_CHANGE = 0.02
"""Change of a key, as a share of it, below which it stays as it is."""

REFRESHED = 64
"""Pages of the site just visited whose keys are brought up to date after each visit."""

PAGE = np.dtype(
    [
        ("own", np.float64),
        ("from_site", np.float64),
        ("from_others", np.float64),
        ("sent", np.float64),
        ("row_start", np.int64),
        ("row_length", np.int32),
        ("site", np.int32),
        ("next", np.int32),
        ("queued", np.int32),
    ],
    align=True,
)
"""One page, 56 bytes. `own`, `from_site`, `from_others`: the mass it was discovered with, and that
of links of its site and of other sites; `sent`: the mass it had when it last passed it on, or
`NOT_VISITED`; `next`: the page of its site after it in the ring; `queued`: whether it is about to
pass mass on."""

SITE = np.dtype(
    [("n_visits", np.int32), ("n_known", np.int32), ("n_in_ring", np.int32), ("last", np.int32)],
    align=True,
)
"""One site. Its pages are a ring, which fetched ones leave when they are met. `last`: the page that
was discovered or refreshed last; its `next` is the one to refresh next."""

RULES = np.dtype(
    [
        ("seed_mass", np.float64),
        ("damping", np.float64),
        ("novelty", np.float64),
        ("threshold", np.float64),
        ("push_budget", np.int64),
        ("n_visits", np.int64),
        ("n_known", np.int64),
        ("n_links", np.int64),
    ],
    align=True,
)
"""Options, and how far the crawl is."""


@njit(cache=True, keeps_arrays=False)
def key_of(pages: Records, sites: Records, rules: Records, page: int) -> float:
    """Return the key of a page: its mass, corrected for coverage, and new sites up."""
    site = pages[page].site
    n_visits, n_known = rules[0].n_visits, rules[0].n_known
    on_site, known_on_site = sites[site].n_visits, sites[site].n_known
    coverage = n_known / (n_visits + 1.0)
    on_site_coverage = min((known_on_site + 1.0) / (on_site + 1.0), MOST_COVERAGE)
    mass = (
        pages[page].own
        + coverage * pages[page].from_others
        + on_site_coverage * pages[page].from_site
    )
    bonus = math.sqrt(math.log(n_visits + 2.0) / (on_site + 1.0))
    return float(mass * (1.0 + rules[0].novelty * bonus))


@njit(cache=True, keeps_arrays=False)
def discover_pages(
    pages: Records,
    sites: Records,
    rules: Records,
    page_sites: PageIds,
    keys: Keys,
    first: int,
    last: int,
    source: int,
) -> None:
    """Give the pages first, ..., last - 1 their mass and key; `source` -1 finds seeds."""
    mass = 1.0 if source >= 0 else rules[0].seed_mass
    for page in range(first, last):
        site = page_sites[page]
        pages[page].own = mass
        pages[page].sent = NOT_VISITED
        pages[page].site = site
        sites[site].n_known += 1
        before = sites[site].last if sites[site].n_in_ring > 0 else page
        pages[page].next = pages[before].next if before != page else page
        pages[before].next = page
        sites[site].last = page
        sites[site].n_in_ring += 1
        keys[page] = mass
    rules[0].n_known += last - first


@njit(cache=True, keeps_arrays=False)
def mass_of(pages: Records, page: int) -> float:
    """Return all the mass that a page has."""
    return float(pages[page].own + pages[page].from_site + pages[page].from_others)


@njit(cache=True, keeps_arrays=False)
def pass_mass_on(
    pages: Records, rules: Records, links: PageIds, page: int, queue: PageIds, changed: PageIds
) -> int:
    """Pass on the mass of the page just fetched, then of fetched pages that gained enough by it.

    The latter do so first come first served, as far as the budget goes. Writes the waiting pages
    that they link to into `changed`, and returns how many. `queue` and `changed` have room for the
    links of the page and for the budget.
    """
    threshold, budget = rules[0].threshold, rules[0].push_budget
    queue[0] = page
    pages[page].queued = 1
    head, tail = 0, 1
    n_spent, n_changed = 0, 0
    while head < tail:
        giver = queue[head]
        head += 1
        pages[giver].queued = 0
        start, length = pages[giver].row_start, pages[giver].row_length
        if giver != page or head > 1:
            if n_spent + length > budget:
                continue
            n_spent += length
        mass = mass_of(pages, giver)
        share = rules[0].damping * (mass - pages[giver].sent) / max(length, 1)
        pages[giver].sent = mass
        for at in range(start, start + length):
            target = links[at]
            if pages[target].site == pages[giver].site:
                pages[target].from_site += share
            else:
                pages[target].from_others += share
            if pages[target].sent == NOT_VISITED:
                if head > 1:
                    changed[n_changed] = target
                    n_changed += 1
            elif pages[target].queued == 0 and pages[target].row_length > 0:
                gained = mass_of(pages, target) - pages[target].sent
                if gained > threshold * pages[target].row_length:
                    pages[target].queued = 1
                    queue[tail] = target
                    tail += 1
    return n_changed


@njit(cache=True, keeps_arrays=False)
def stale_on_site(
    pages: Records, sites: Records, site: int, changed: PageIds, n_changed: int
) -> int:
    """Write the next waiting pages of the ring of a site behind `changed`; return how many it has.

    Fetched pages that it meets leave the ring.
    """
    for _ in range(min(REFRESHED, sites[site].n_in_ring)):
        last = sites[site].last
        page = pages[last].next
        if pages[page].sent == NOT_VISITED:
            changed[n_changed] = page
            n_changed += 1
            sites[site].last = page
        else:
            pages[last].next = pages[page].next
            sites[site].n_in_ring -= 1
    return n_changed


@njit(cache=True, keeps_arrays=False)
def scout(
    keys: Keys,
    page: int,
    targets: PageIds,
    first: int,
    last: int,
    again: bool,
    numbers: Keys,
    pages: Records,
    sites: Records,
    rules: Records,
    links: PageIds,
    queue: PageIds,
    page_sites: PageIds,
    changed: PageIds,
    before: Keys,
) -> int:
    """The visit rule: what is found, then what the visit says."""
    if last > first:
        discover_pages(pages, sites, rules, page_sites, keys, first, last, page)
    if again or page < 0:
        return 0
    end = rules[0].n_links
    n_targets = len(targets)
    for at in range(n_targets):
        links[end + at] = targets[at]
        changed[at] = targets[at]
    rules[0].n_links = end + n_targets
    rules[0].n_visits += 1
    pages[page].row_start = end
    pages[page].row_length = n_targets
    pages[page].sent = 0.0
    site = pages[page].site
    sites[site].n_visits += 1

    others = changed[n_targets:]
    n_changed = n_targets + pass_mass_on(pages, rules, links, page, queue, others)
    n_changed = stale_on_site(pages, sites, site, changed, n_changed)

    n_others = 0
    for at in range(n_changed):
        target = changed[at]
        if pages[target].sent == NOT_VISITED:
            key = key_of(pages, sites, rules, target)
            if abs(key - keys[target]) > LEAST_CHANGE * keys[target]:
                if at >= n_targets:
                    changed[n_others] = target
                    before[n_others] = keys[target]
                    n_others += 1
                keys[target] = key
    return n_others


class Scout(CompiledOrdering):
    """Pages of the most mass first, scaled up for what has not been seen, and more on new sites.

    *Mass* is an estimate of PageRank. A page has mass 1 of its own when it is discovered, a seed
    `seed_mass`. A fetched page passes `damping` times its mass on to its distinct links in equal
    shares. Fetched pages that so gain more than `threshold` for each of their links pass on what
    they gained in turn, first come first served, along `push_budget` links at most after a visit.

    *Coverage*: the links seen are a sample. So mass from other sites is multiplied by known /
    (fetched + 1), numbers of pages, and mass from a page's own site by (known there + 1) / (fetched
    there + 1), at most 50: no page is worth more because the crawl has just been near it.

    *Novelty*: the key is the sum, multiplied by 1 + `novelty` * sqrt(ln(fetched + 2) / (fetched on
    the site + 1)), as in bandit algorithms (Auer, Cesa-Bianchi & Fischer, Finite-time analysis of
    the multiarmed bandit problem, Machine Learning 47, 2002).

    After a visit, keys are updated for all waiting pages that received mass, and for the waiting
    ones among the next 64 pages of the site just visited, around and around in the order
    discovered; a key that would change by 2 % or less stays. So the work of a visit is bounded.

    Parameters
    ----------
    seed_mass
        mass of a seed; default 100, 0 or more.
    damping
        share of its mass that a page passes on; default 0.85, 0 or more, below 1.
    novelty
        preference for sites with few visits; default 0.3, 0 or more. Less where sites are few.
    threshold
        mass gained for each of its links at which a fetched page passes it on; default 0.02, 0 or
        more.
    push_budget
        links along which mass is passed again after a visit, at most; default 2000. With 0 each
        page passes its mass on once, which costs little more than OPIC.

    Notes
    -----
    A site gets mass for as many pages as it makes up: calendars and link farms gain by it. A visit
    takes O(links), and at most `push_budget` links and 64 pages of a site besides. Memory: 64 bytes
    per page known with its key, 16 per site and 4 per link.
    """

    rule = scout
    changes_known: ClassVar[bool] = True

    def __init__(
        self,
        seed_mass: float = 100.0,
        damping: float = 0.85,
        novelty: float = 0.3,
        threshold: float = 0.02,
        push_budget: int = 2000,
    ) -> None:
        def number(option: str, value: object, below: float | None = None) -> float:
            return checked_number("scout", option, value, least=0, below=below)

        self._options = (
            number("seed_mass", seed_mass),
            number("damping", damping, below=1),
            number("novelty", novelty),
            number("threshold", threshold),
            int(
                checked_number(
                    "scout", "push_budget", push_budget, least=0, below=2**24, whole=True
                )
            ),
        )

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        self._records, self._sites, _, self._links, self._queue, _, self._changed, self._before = (
            self.empty_state()
        )
        self._rules = np.zeros(1, dtype=RULES)
        for name, value in zip(RULES.names or (), self._options, strict=False):
            self._rules[name] = value
        super().open(pages, truth)

    @classmethod
    def empty_state(cls) -> State:
        dtypes = (PAGE, SITE, RULES, np.int32, np.int32, np.int32, np.int32, np.float64)
        return tuple(np.zeros(0, dtype=dtype) for dtype in dtypes)

    def state(self, sites: PageIds) -> State:
        arrays = (self._records, self._sites, self._rules, self._links, self._queue)
        return (*arrays, sites, self._changed, self._before)

    def reserve(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> None:
        self._records = with_room(self._records, n_pages)
        self._sites = with_room(self._sites, n_sites)
        self._links = with_room(self._links, n_links)
        room = most_links + int(self._rules["push_budget"][0]) + REFRESHED + 1
        self._queue = with_room(self._queue, room)
        self._changed = with_room(self._changed, room)
        self._before = with_room(self._before, room)
