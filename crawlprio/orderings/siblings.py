"""An ordering that samples siblings: a few of the pages found on one page tell of the rest.

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
        ("site", np.int32),
    ],
    align=True,
)
"""One page, 32 bytes: what each link to it reads. `kin`: what of `mass` came from its parent and
siblings; `passed`: the mass it had when it last passed it on, or `NOT_VISITED`."""

GROUP = np.dtype(
    [
        ("first_child", np.int32),
        ("n_children", np.int32),
        ("n_visited", np.int32),
        ("due", np.int32),
        ("depth", np.int32),
        ("visit", np.int32),
    ],
    align=True,
)
"""One page as a parent, 24 bytes. `n_visited`: children visited; `due`: children visited at which
the keys of the others are next brought up to date; `visit`: number of its own visit."""

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


@njit(cache=True, keeps_arrays=False)
def correction(groups: Records, rules: Records, parent: int) -> float:
    """Return what the mass from kin of a page with this parent counts besides, per unit."""
    if parent < 0 or not rules[0].by_siblings:
        return 0.0
    known, visited = groups[parent].n_children, groups[parent].n_visited
    return float((known + PRIOR) / (visited + PRIOR) - 1.0)


@njit(cache=True, keeps_arrays=False)
def novelty(sites: Records, rules: Records, site: int, log_visits: float) -> float:
    """Return what the keys of a site are multiplied by: more on new sites."""
    source = sites[site].shown - BY_SITE
    if rules[0].novelty > 0.0 and (source < 0 or sites[source].n_visits >= ESTABLISHED):
        return float(1.0 + rules[0].novelty * math.sqrt(log_visits / (sites[site].n_visits + 1.0)))
    return 1.0


@njit(cache=True, keeps_arrays=False)
def discover_pages(
    pages: Records,
    groups: Records,
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
    depth = groups[source].depth + 1 if source >= 0 else 0
    mass = own_mass[min(depth, len(own_mass) - 1)] if source >= 0 else rules[0].seed_mass
    if is_parent:
        groups[source].first_child = first
        groups[source].n_children = last - first
        groups[source].due = 1
    for page in range(first, last):
        pages[page].mass = mass
        pages[page].passed = NOT_VISITED
        pages[page].parent = source if is_parent else -1
        groups[page].depth = depth
        site = page_sites[page]
        pages[page].site = site
        if sites[site].shown == NOT_SHOWN:
            sites[site].shown = pages[source].site + BY_SITE if source >= 0 else BY_A_SEED
        keys[page] = mass * novelty(sites, rules, site, log_visits)


@njit(cache=True, keeps_arrays=False)
def pass_on(
    pages: Records,
    groups: Records,
    has_gained: NDArray[np.uint8],
    damping: float,
    page: int,
    targets: PageIds,
) -> None:
    """Give the links of a page what it has gained since it last did, damped, in equal shares."""
    if len(targets) == 0:
        return
    share = damping * (pages[page].mass - max(pages[page].passed, 0.0)) / len(targets)
    pages[page].passed = pages[page].mass
    has_gained[groups[page].visit] = 0
    parent = pages[page].parent
    for target in targets:
        mass = pages[target].mass + share
        pages[target].mass = mass
        passed = pages[target].passed
        if passed != NOT_VISITED:
            if mass - passed > LEAST_GAIN * mass:
                has_gained[groups[target].visit] = 1
            continue
        of_target = pages[target].parent
        if of_target == page or (of_target == parent and parent >= 0):
            pages[target].kin += share


@njit(cache=True, keeps_arrays=False)
def observe_visit(
    pages: Records,
    groups: Records,
    sites: Records,
    rules: Records,
    visited: PageIds,
    has_gained: NDArray[np.uint8],
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
    n_targets = len(targets)
    visited[n] = page
    groups[page].visit = n
    for at in range(n_targets):
        links[end + at] = targets[at]
        changed[at] = targets[at]
    ends[n + 1] = end + n_targets
    rules[0].n_links = end + n_targets
    rules[0].n_visits = n + 1
    sites[pages[page].site].n_visits += 1
    parent = pages[page].parent
    if parent >= 0:
        groups[parent].n_visited += 1

    damping = rules[0].damping
    if pages[page].passed == NOT_VISITED:
        pages[page].passed = 0.0
    pass_on(pages, groups, has_gained, damping, page, targets)
    n_changed = n_targets

    if parent >= 0 and groups[parent].n_visited >= groups[parent].due:
        groups[parent].due = groups[parent].n_visited + 1 + groups[parent].n_visited // 4
        start, n_siblings = groups[parent].first_child, groups[parent].n_children
        sibling = page
        for _ in range(min(n_siblings - 1, NEAREST)):
            sibling += 1
            if sibling == start + n_siblings:
                sibling = start
            if pages[sibling].passed == NOT_VISITED:
                changed[n_changed] = sibling
                n_changed += 1

    n_passed = 0
    cursor = rules[0].cursor
    for _ in range(LOOKS):
        if n_passed >= rules[0].n_passes:
            break
        cursor += 1
        if cursor > n:
            cursor = 0
        start, stop = ends[cursor], ends[cursor + 1]
        if has_gained[cursor] and 0 < stop - start <= LONGEST:
            pass_on(pages, groups, has_gained, damping, visited[cursor], links[start:stop])
            for at in range(start, stop):
                changed[n_changed] = links[at]
                n_changed += 1
            n_passed += 1
    rules[0].cursor = cursor

    log_visits = math.log(n + 3.0)
    last_parent, last_site = -1, -1
    factor, of_site = 0.0, 1.0
    n_others = 0
    for at in range(n_changed):
        target = changed[at]
        if pages[target].passed != NOT_VISITED:
            continue
        if pages[target].parent != last_parent:
            last_parent = pages[target].parent
            factor = correction(groups, rules, last_parent)
        if pages[target].site != last_site:
            last_site = pages[target].site
            of_site = novelty(sites, rules, last_site, log_visits)
        key = (pages[target].mass + factor * pages[target].kin) * of_site
        if key != keys[target]:
            if at >= n_targets:
                changed[n_others] = target
                before[n_others] = keys[target]
                n_others += 1
            keys[target] = key
    return n_others


@njit(cache=True, keeps_arrays=False)
def sample_siblings(
    keys: Keys,
    page: int,
    targets: PageIds,
    first: int,
    last: int,
    again: bool,
    numbers: Keys,
    pages: Records,
    groups: Records,
    sites: Records,
    rules: Records,
    own_mass: Keys,
    visited: PageIds,
    has_gained: NDArray[np.uint8],
    ends: NDArray[np.int64],
    links: PageIds,
    page_sites: PageIds,
    changed: PageIds,
    before: Keys,
) -> int:
    """The visit rule: what is found, then what the visit says."""
    if last > first:
        discover_pages(pages, groups, sites, rules, own_mass, page_sites, keys, first, last, page)
    if again or page < 0:
        return 0
    return int(
        observe_visit(
            pages,
            groups,
            sites,
            rules,
            visited,
            has_gained,
            ends,
            links,
            keys,
            page,
            targets,
            changed,
            before,
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
        below 1. It keeps endless chains of pages, such as calendars, from gaining by their length;
        0.9 holds off farms and traps better, and finds a little less where there are none.
    novelty
        preference for sites with few visits; default 0.2, 0 or more.
    n_passes
        fetched pages that pass on again after each visit, at most; default 2.
    siblings
        whether to correct for siblings; default True.

    Notes
    -----
    A visit takes O(links) and at most 256 siblings and `n_passes` * 10,000 links besides. Memory:
    64 bytes per page known with its key, 13 per visit, and 4 per link.
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
        state = self.empty_state()
        self._records, self._groups, self._sites, _, _, self._visited, self._has_gained = state[:7]
        self._ends, self._links, _, self._changed, self._before = state[7:]
        super().open(pages, truth)

    @classmethod
    def empty_state(cls) -> State:
        of_pages = (PAGE, GROUP, SITE, RULES, np.float64, np.int32, np.uint8, np.int64, np.int32)
        written = (np.int32, np.int32, np.float64)
        return tuple(np.zeros(0, dtype=dtype) for dtype in (*of_pages, *written))

    def state(self, sites: PageIds) -> State:
        return (
            self._records,
            self._groups,
            self._sites,
            self._rules,
            self._own_mass,
            self._visited,
            self._has_gained,
            self._ends,
            self._links,
            sites,
            self._changed,
            self._before,
        )

    def reserve(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> None:
        self._records = with_room(self._records, n_pages)
        self._groups = with_room(self._groups, n_pages)
        self._sites = with_room(self._sites, n_sites)
        self._visited = with_room(self._visited, n_pages)
        self._has_gained = with_room(self._has_gained, n_pages)
        self._ends = with_room(self._ends, n_pages + 1)
        self._links = with_room(self._links, n_links)
        room = most_links + NEAREST + int(self._rules["n_passes"][0]) * LONGEST
        self._changed = with_room(self._changed, room)
        self._before = with_room(self._before, room)

    def _apply(self, page: int, targets: PageIds, first: int, last: int, again: bool) -> int:
        n_links = int(self._n_links[0]) + len(targets)
        self.reserve(max(self.n_pages, last), self.pages.n_sites, n_links, len(targets))
        return super()._apply(page, targets, first, last, again)
