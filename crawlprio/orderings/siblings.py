"""An ordering that samples siblings: a few of the pages found on one page stand for the rest."""

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

LOOKS, LEAST_GAIN, LONGEST = 16, 0.2, 10_000
"""Visited pages looked at after each visit; the share of its mass that one must have gained to pass
it on again; and the links that it may have for that."""

PRIOR, NEAREST = 1.5, 256
"""What is added to both counts of siblings, and the most siblings whose keys a visit changes."""

ESTABLISHED = 30
"""Visits to a site before sites first shown by it count as new."""

NOT_SHOWN, BY_A_SEED, BY_SITE = 0, 1, 2

N_DEPTHS = 1024

PAGE = np.dtype(
    [
        ("mass", np.float64),
        ("kin", np.float64),
        ("passed", np.float64),
        ("parent", np.int32),
        ("first_child", np.int32),
        ("n_children", np.int32),
        ("n_visited", np.int32),
        ("due", np.int32),
        ("depth", np.int32),
        ("site", np.int32),
    ],
    align=True,
)
"""One page, 56 bytes. `kin`: what of `mass` came from its parent and siblings; `passed`: the mass
it had when it last passed it on, or `NOT_VISITED`; `n_visited`: children visited; `due`: children
visited at which the keys of the others are next brought up to date."""

SITE = np.dtype([("n_visits", np.int32), ("shown", np.int32)], align=True)
"""One site. `shown`: how its first page was found: `NOT_SHOWN` yet, `BY_A_SEED`, being one, or on a
page of site `shown` - `BY_SITE`."""

RULES = np.dtype(
    [
        ("seed_mass", np.float64),
        ("damping", np.float64),
        ("novelty", np.float64),
        ("n_passes", np.int64),
        ("by_siblings", np.int64),
        ("n_visits", np.int64),
        ("n_links", np.int64),
        ("cursor", np.int64),
    ],
    align=True,
)
"""Options, and how far the crawl is: visits and links recorded, and the visit looked at last."""


@njit(cache=True)
def key_of(pages: Records, sites: Records, rules: Records, page: int, log_visits: float) -> float:
    """Return the key of a page: its mass, corrected for siblings not visited, and new sites up."""
    key = pages[page].mass
    parent = pages[page].parent
    if parent >= 0 and rules[0].by_siblings:
        known, visited = pages[parent].n_children, pages[parent].n_visited
        key += ((known + PRIOR) / (visited + PRIOR) - 1.0) * pages[page].kin
    if rules[0].novelty > 0.0:
        site = pages[page].site
        source = sites[site].shown - BY_SITE
        if source < 0 or sites[source].n_visits >= ESTABLISHED:
            n = sites[site].n_visits
            key *= 1.0 + rules[0].novelty * math.sqrt(log_visits / (n + 1.0))
    return float(key)


@njit(cache=True)
def discover_pages(
    pages: Records,
    sites: Records,
    rules: Records,
    own_mass: NDArray[np.float64],
    page_sites: NDArray[np.int32],
    keys: Keys,
    first: int,
    last: int,
    source: int,
) -> None:
    """Give the pages first, ..., last - 1 their parent, mass and key; `source` -1 finds seeds.

    What is found when a page is fetched again has no parent.
    """
    log_visits = math.log(rules[0].n_visits + 2.0)
    is_parent = source >= 0 and pages[source].passed == NOT_VISITED
    depth = pages[source].depth + 1 if source >= 0 else 0
    if is_parent:
        pages[source].first_child = first
        pages[source].n_children = last - first
        pages[source].due = 1
    for page in range(first, last):
        pages[page].mass = (
            own_mass[min(depth, len(own_mass) - 1)] if source >= 0 else rules[0].seed_mass
        )
        pages[page].passed = NOT_VISITED
        pages[page].parent = source if is_parent else -1
        pages[page].depth = depth
        site = page_sites[page]
        pages[page].site = site
        if sites[site].shown == NOT_SHOWN:
            sites[site].shown = pages[source].site + BY_SITE if source >= 0 else BY_A_SEED
        keys[page] = key_of(pages, sites, rules, page, log_visits)


@njit(cache=True)
def pass_on(pages: Records, damping: float, page: int, targets: PageIds) -> None:
    """Give the links of a page what it has gained since it last did, damped, in equal shares."""
    if len(targets) == 0:
        return
    share = damping * (pages[page].mass - max(pages[page].passed, 0.0)) / len(targets)
    pages[page].passed = pages[page].mass
    parent = pages[page].parent
    for target in targets:
        pages[target].mass += share
        of_target = pages[target].parent
        if of_target == page or (of_target == parent and parent >= 0):
            pages[target].kin += share


@njit(cache=True)
def observe_visit(
    pages: Records,
    sites: Records,
    rules: Records,
    visited: PageIds,
    ends: NDArray[np.int64],
    links: PageIds,
    keys: Keys,
    page: int,
    targets: PageIds,
    changed: PageIds,
    before: Keys,
) -> int:
    """Learn from the visit of a page; write the keys of waiting pages that change.

    Those of pages besides the targets are named in `changed`, with what they were in `before`;
    returns how many. The arrays have room: `links` for the row; `changed` for it, for `NEAREST`
    siblings, and `n_passes` times for the longest row up to `LONGEST`.
    """
    n = rules[0].n_visits
    end = rules[0].n_links
    visited[n] = page
    links[end : end + len(targets)] = targets
    ends[n + 1] = end + len(targets)
    rules[0].n_links = ends[n + 1]
    rules[0].n_visits = n + 1
    sites[pages[page].site].n_visits += 1
    parent = pages[page].parent
    if parent >= 0:
        pages[parent].n_visited += 1

    damping = rules[0].damping
    log_visits = math.log(n + 3.0)
    if pages[page].passed == NOT_VISITED:
        pages[page].passed = 0.0
    pass_on(pages, damping, page, targets)
    n_targets = len(targets)
    n_changed = n_targets
    changed[:n_changed] = targets

    if parent >= 0 and pages[parent].n_visited >= pages[parent].due:
        pages[parent].due = pages[parent].n_visited + 1 + pages[parent].n_visited // 4
        start, n_siblings = pages[parent].first_child, pages[parent].n_children
        for step in range(1, min(n_siblings - 1, NEAREST) + 1):
            sibling = start + (page - start + step) % n_siblings
            if pages[sibling].passed == NOT_VISITED:
                changed[n_changed] = sibling
                n_changed += 1

    n_passed = 0
    for _ in range(LOOKS):
        if n_passed >= rules[0].n_passes:
            break
        cursor = rules[0].cursor + 1
        if cursor > n:
            cursor = 0
        rules[0].cursor = cursor
        giver = visited[cursor]
        row = links[ends[cursor] : ends[cursor + 1]]
        gained = pages[giver].mass - pages[giver].passed
        if len(row) == 0 or len(row) > LONGEST or gained <= LEAST_GAIN * pages[giver].mass:
            continue
        pass_on(pages, damping, giver, row)
        changed[n_changed : n_changed + len(row)] = row
        n_changed += len(row)
        n_passed += 1

    n_others = 0
    for at in range(n_changed):
        target = changed[at]
        if pages[target].passed == NOT_VISITED:
            key = key_of(pages, sites, rules, target, log_visits)
            if key != keys[target]:
                if at >= n_targets:
                    changed[n_others] = target
                    before[n_others] = keys[target]
                    n_others += 1
                keys[target] = key
    return n_others


@njit(cache=True)
def sample_siblings(
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
    own_mass: Keys,
    visited: PageIds,
    ends: NDArray[np.int64],
    links: PageIds,
    page_sites: PageIds,
    changed: PageIds,
    before: Keys,
) -> int:
    """The visit rule: discover new pages, then learn from the visit."""
    if last > first:
        discover_pages(pages, sites, rules, own_mass, page_sites, keys, first, last, page)
    if again or page < 0:
        return 0
    return int(
        observe_visit(
            pages, sites, rules, visited, ends, links, keys, page, targets, changed, before
        )
    )


class SiblingSampling(CompiledOrdering):
    """Pages of the most mass first, corrected for what their siblings have not said yet.

    *Mass* is an estimate of PageRank. A page has mass of its own when it is discovered: seeds
    `seed_mass`, a page of depth k `decay`^k. A fetched page passes `damping` times its mass on to
    its distinct links in equal shares; when its mass has grown by a quarter since, it does so
    again: after each visit the next 16 fetched pages are looked at, around and around in the order
    fetched, and the first `n_passes` that gained that much, and have at most 10,000 links, pass on
    what they gained.

    *Siblings* are the pages that one page, their parent, was the first to show. They are linked
    alike: from the parent, and often from each other. So what of a page's mass came from its parent
    and siblings is scaled up by (n + 3/2) / (c + 3/2), where c of the n siblings are fetched: links
    of those not fetched are expected to be like those of the ones that are (the estimator of
    Horvitz & Thompson, A generalization of sampling without replacement from a finite universe,
    1952). While none is fetched, each of n siblings counts nearly all that their parent passes on:
    so a few of each group are fetched first, and the rest of a group comes according to what the
    few have shown.

    *New sites*: a key is multiplied by 1 + `novelty` * sqrt(ln(visits + 2) / (visits on its site +
    1)), as in bandit algorithms (Auer, Cesa-Bianchi & Fischer, Finite-time analysis of the
    multiarmed bandit problem, Machine Learning 47, 2002); but only on sites that have a seed, or
    were first shown by a page of a site that has 30 visits, for a farm can make sites that show
    each other at no cost.

    Keys are brought up to date for all pages to which mass is passed, and when the number of
    siblings fetched has grown by a quarter, for the 256 siblings that come after the page just
    fetched, around; others keep theirs. So a visit's work is bounded.

    Parameters
    ----------
    seed_mass
        mass of a seed; default 30, 0 or more.
    damping
        share of its mass that a page passes on; default 0.85, 0 or more, below 1.
    decay
        mass of its own that a page has, as a share of that of its parent; default 0.97, 0 or more,
        below 1. It keeps endless chains of pages, such as calendars, from gaining by their length.
    novelty
        preference for sites with few visits; default 0.2, 0 or more.
    n_passes
        fetched pages that pass on again after each visit, at most; default 2.
    siblings
        whether to correct for siblings; default True.

    Notes
    -----
    A visit takes O(links) and at most 256 siblings and `n_passes` * 10,000 links besides. Memory:
    64 bytes per page known with its key, 12 per visit, and 4 per link.
    """

    rule = sample_siblings
    changes_known: ClassVar[bool] = True

    def __init__(
        self,
        seed_mass: float = 30.0,
        damping: float = 0.85,
        decay: float = 0.97,
        novelty: float = 0.2,
        n_passes: int = 2,
        siblings: bool = True,
    ) -> None:
        def number(option: str, value: object, below: float | None = None) -> float:
            return checked_number("sibling-sampling", option, value, least=0, below=below)

        passes = checked_number("sibling-sampling", "n_passes", n_passes, least=0, whole=True)
        self._options = (
            number("seed_mass", seed_mass),
            number("damping", damping, below=1),
            number("novelty", novelty),
            int(passes),
            bool(siblings),
        )
        ratio = number("decay", decay, below=1)
        self._own_mass = np.array([ratio**k for k in range(N_DEPTHS)])

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        self._rules = np.zeros(1, dtype=RULES)
        for name, value in zip(
            ("seed_mass", "damping", "novelty", "n_passes", "by_siblings"),
            self._options,
            strict=True,
        ):
            self._rules[name] = value
        self._rules["cursor"] = -1
        self._n_links = self._rules["n_links"]
        self._records, self._sites, _, _, self._visited, self._ends, self._links, *rest = (
            self.empty_state()
        )
        _, self._changed, self._before = rest
        super().open(pages, truth)

    @classmethod
    def empty_state(cls) -> State:
        dtypes = (PAGE, SITE, RULES, np.float64, np.int32, np.int64, np.int32)
        written = (np.int32, np.int32, np.float64)
        return tuple(np.zeros(0, dtype=dtype) for dtype in (*dtypes, *written))

    def state(self, sites: PageIds) -> State:
        arrays = (self._records, self._sites, self._rules, self._own_mass, self._visited)
        return (*arrays, self._ends, self._links, sites, self._changed, self._before)

    def reserve(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> None:
        self._records = with_room(self._records, n_pages)
        self._sites = with_room(self._sites, n_sites)
        self._visited = with_room(self._visited, n_pages)
        self._ends = with_room(self._ends, n_pages + 1)
        self._links = with_room(self._links, n_links)
        room = most_links + NEAREST + int(self._rules["n_passes"][0]) * LONGEST
        self._changed = with_room(self._changed, room)
        self._before = with_room(self._before, room)

    def _apply(self, page: int, targets: PageIds, first: int, last: int, again: bool) -> int:
        n_links = int(self._n_links[0]) + len(targets)
        self.reserve(max(self.n_pages, last), self.pages.n_sites, n_links, len(targets))
        return super()._apply(page, targets, first, last, again)
