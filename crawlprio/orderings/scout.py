"""SCOUT: an estimate of PageRank, scaled up for the unseen part of each site.

The compiled rules work on arrays, which the class owns.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from crawlprio.graph.compiled import Addresses, Layout, njit, record
from crawlprio.graph.pages import PageIds
from crawlprio.orderings.base import CompiledOrdering, Keys, Part, checked_number, made_of
from crawlprio.ranking.pagerank import with_room

Records = Any
"""An array of records, each of whose columns is an attribute."""

NOT_VISITED = -1.0

MOST_COVERAGE = 50.0
"""Maximum factor for mass from links within a site."""

LEAST_CHANGE = 0.02
"""Relative change up to which a key is left as it is."""

REFRESHED = 64
"""Pages of the visited site whose keys are updated after each visit."""

PAGE = record("f8 own from_site from_others sent", "i8 row_start", "i4 row_length site next queued")
"""One page, 56 bytes. `own`, `from_site`, `from_others`: its initial mass, and the mass received
from its own site and from other sites; `sent`: its mass when it last passed mass on, or
`NOT_VISITED`; `next`: the next page in the ring of its site; `queued`: whether it is queued to pass
mass on."""

SITE = record("i4 n_visits n_known n_in_ring last")
"""One site. Its pages form a ring; fetched pages are removed when a refresh reaches them. `last`:
the page discovered or refreshed last; its `next` is refreshed next."""

RULES = record("f8 seed_mass damping novelty threshold", "i8 push_budget n_visits n_known n_links")
"""Options, and the progress of the crawl."""


class ScoutState(NamedTuple):
    """What the crawl knows: `pages` and `sites` by id, one row of `rules`, all `links` of visits.

    `queue` holds pages that pass on mass; `changed` and `before` are as in `NoState`.
    """

    pages: Records
    sites: Records
    rules: Records
    links: PageIds
    queue: PageIds
    changed: PageIds
    before: Keys


LAYOUT = Layout(ScoutState, PAGE, SITE, RULES, *(np.int32, np.int32, np.int32, np.float64))


@njit(cache=True, keeps_arrays=False)
def factors_of(state: ScoutState, site: int) -> tuple[float, float, float]:
    """Return the factors for mass from other sites, from its own, and for the key of a page."""
    sites, rules = state.sites, state.rules
    n_visits, n_known = rules.n_visits[0], rules.n_known[0]
    on_site, known_on_site = sites.n_visits[site], sites.n_known[site]
    coverage = n_known / (n_visits + 1.0)
    on_site_coverage = min((known_on_site + 1.0) / (on_site + 1.0), MOST_COVERAGE)
    bonus = math.sqrt(math.log(n_visits + 2.0) / (on_site + 1.0))
    return coverage, on_site_coverage, 1.0 + rules.novelty[0] * bonus


@njit(cache=True, keeps_arrays=False)
def key_of(state: ScoutState, page: int) -> float:
    """Return the key of a page: its mass, corrected for coverage, times the bonus of its site."""
    pages = state.pages
    coverage, on_site_coverage, novelty = factors_of(state, pages.site[page])
    mass = (
        pages.own[page]
        + coverage * pages.from_others[page]
        + on_site_coverage * pages.from_site[page]
    )
    return float(mass * novelty)


@njit(cache=True, keeps_arrays=False)
def read_factors(addresses: Addresses, site: int, factors: Keys) -> None:
    """Write the factors of a page on a site."""
    factors[0], factors[1], factors[2] = factors_of(LAYOUT(addresses), site)


@njit(cache=True, keeps_arrays=False)
def discover_pages(
    state: ScoutState, site_of: PageIds, keys: Keys, first: int, last: int, source: int
) -> None:
    """Set mass and key of the pages first, ..., last - 1; they are seeds if `source` is -1."""
    pages, sites = state.pages, state.sites
    mass = 1.0 if source >= 0 else state.rules.seed_mass[0]
    for page in range(first, last):
        site = site_of[page]
        pages.own[page] = mass
        pages.sent[page] = NOT_VISITED
        pages.site[page] = site
        sites.n_known[site] += 1
        before = sites.last[site] if sites.n_in_ring[site] > 0 else page
        pages.next[page] = pages.next[before] if before != page else page
        pages.next[before] = page
        sites.last[site] = page
        sites.n_in_ring[site] += 1
        keys[page] = mass
    state.rules.n_known[0] += last - first


@njit(cache=True, keeps_arrays=False)
def mass_of(state: ScoutState, page: int) -> float:
    pages = state.pages
    return float(pages.own[page] + pages.from_site[page] + pages.from_others[page])


@njit(cache=True, keeps_arrays=False)
def pass_mass_on(state: ScoutState, page: int, changed: PageIds) -> int:
    """Pass on the mass of the page just fetched, then that of fetched pages that gained enough.

    The latter are served in queue order until the budget is spent. Writes the waiting pages that
    they link to into `changed` and returns their number. `queue` and `changed` must have room for
    the links of the page and for the budget.
    """
    pages, rules, links, queue = state.pages, state.rules, state.links, state.queue
    threshold, budget = rules.threshold[0], rules.push_budget[0]
    queue[0] = page
    pages.queued[page] = 1
    head, tail = 0, 1
    n_spent, n_changed = 0, 0
    while head < tail:
        giver = queue[head]
        head += 1
        pages.queued[giver] = 0
        start, length = pages.row_start[giver], pages.row_length[giver]
        if giver != page or head > 1:
            if n_spent + length > budget:
                continue
            n_spent += length
        mass = mass_of(state, giver)
        share = rules.damping[0] * (mass - pages.sent[giver]) / max(length, 1)
        pages.sent[giver] = mass
        for at in range(start, start + length):
            target = links[at]
            if pages.site[target] == pages.site[giver]:
                pages.from_site[target] += share
            else:
                pages.from_others[target] += share
            if pages.sent[target] == NOT_VISITED:
                if head > 1:
                    changed[n_changed] = target
                    n_changed += 1
            elif pages.queued[target] == 0 and pages.row_length[target] > 0:
                gained = mass_of(state, target) - pages.sent[target]
                if gained > threshold * pages.row_length[target]:
                    pages.queued[target] = 1
                    queue[tail] = target
                    tail += 1
    return n_changed


@njit(cache=True, keeps_arrays=False)
def stale_on_site(state: ScoutState, site: int, n_changed: int) -> int:
    """Append the next waiting pages in the ring of a site to `changed`; return its new length.

    Removes the fetched pages that it reaches from the ring.
    """
    pages, sites, changed = state.pages, state.sites, state.changed
    for _ in range(min(REFRESHED, sites.n_in_ring[site])):
        last = sites.last[site]
        page = pages.next[last]
        if pages.sent[page] == NOT_VISITED:
            changed[n_changed] = page
            n_changed += 1
            sites.last[site] = page
        else:
            pages.next[last] = pages.next[page]
            sites.n_in_ring[site] -= 1
    return n_changed


@njit(cache=True, keeps_arrays=False)
def scout(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """Apply the visit rule: discover new pages, then learn from the visit."""
    state = LAYOUT(addresses)
    pages, rules, links, changed = state.pages, state.rules, state.links, state.changed
    if last > first:
        discover_pages(state, sites, keys, first, last, page)
    if again or page < 0:
        return 0
    end = rules.n_links[0]
    n_targets = len(targets)
    for at in range(n_targets):
        links[end + at] = targets[at]
        changed[at] = targets[at]
    rules.n_links[0] = end + n_targets
    rules.n_visits[0] += 1
    pages.row_start[page] = end
    pages.row_length[page] = n_targets
    pages.sent[page] = 0.0
    site = pages.site[page]
    state.sites.n_visits[site] += 1

    others = changed[n_targets:]
    n_changed = n_targets + pass_mass_on(state, page, others)
    n_changed = stale_on_site(state, site, n_changed)

    n_kept = 0
    for at in range(n_changed):
        target = changed[at]
        if pages.sent[target] == NOT_VISITED:
            key = key_of(state, target)
            if abs(key - keys[target]) > LEAST_CHANGE * keys[target]:
                changed[n_kept] = target
                state.before[n_kept] = keys[target]
                n_kept += 1
                keys[target] = key
    return n_kept


class Scout(CompiledOrdering):
    """Pages with the most mass first, scaled up for unseen links, with a bonus for new sites.

    *Mass* is an estimate of PageRank. A page starts with mass 1, a seed with `seed_mass`. A fetched
    page passes `damping` times its mass to its distinct links in equal shares. Fetched pages that
    thereby gain more than `threshold` per link pass on the gain in turn, in queue order, over at
    most `push_budget` links per visit.

    *Coverage*: the links seen so far are a sample of all links. Mass from other sites is therefore
    multiplied by known / (fetched + 1), counting all pages, and mass from a page's own site by
    (known + 1) / (fetched + 1), counting the pages of that site, at most 50. So a page gains
    nothing just because the crawl has recently been near it.

    *Novelty*: the sum is multiplied by 1 + `novelty` * sqrt(ln(fetched + 2) / (fetched on the site
    + 1)), as in bandit algorithms (Auer, Cesa-Bianchi & Fischer, Finite-time analysis of the
    multiarmed bandit problem, Machine Learning 47, 2002).

    A visit updates the keys of all waiting pages that receive mass, and those of the waiting pages
    among the next 64 of the visited site, in a cycle in order of discovery. Changes of 2 % or less
    are skipped. That bounds the work per visit.

    Parameters
    ----------
    seed_mass
        Mass of a seed; default 100, 0 or more.
    damping
        Share of its mass that a page passes on; default 0.85, 0 or more, below 1.
    novelty
        Preference for sites with few visits; default 0.3, 0 or more. Use less if sites are few.
    threshold
        Mass gained per link at which a fetched page passes on the gain; default 0.02, 0 or more.
    push_budget
        Maximum number of links over which gains are passed on after a visit; default 2000. With 0,
        each page passes on its mass once, which costs little more than OPIC.

    Notes
    -----
    A site receives mass in proportion to its number of pages, even if it generates them: calendars
    and link farms gain rank. A visit takes O(links), plus up to `push_budget` links and 64 pages of
    a site. Memory: 64 bytes per known page including its key, 16 per site and 4 per link.
    """

    rule = scout
    layout = LAYOUT
    reads_sites: ClassVar[bool] = True
    changes_known: ClassVar[bool] = True
    lists_changed: ClassVar[bool] = True

    def __init__(
        self,
        seed_mass: float = 100.0,
        damping: float = 0.85,
        novelty: float = 0.3,
        threshold: float = 0.02,
        push_budget: int = 2000,
    ) -> None:
        number = partial(checked_number, "scout", least=0)
        self._options = (
            number("seed_mass", seed_mass),
            number("damping", damping, below=1),
            number("novelty", novelty),
            number("threshold", threshold),
            int(number("push_budget", push_budget, below=2**24, whole=True)),
        )

    def first_state(self) -> ScoutState:
        rules = np.zeros(1, dtype=RULES)
        for name, value in zip(RULES.names or (), self._options, strict=False):
            rules[name] = value
        return LAYOUT.empty()._replace(rules=rules)

    def with_room(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> ScoutState:
        state: ScoutState = self.state
        room = most_links + int(state.rules["push_budget"][0]) + REFRESHED + 1
        sizes = (n_pages, n_sites, len(state.rules), n_links, room, room, room)
        return ScoutState(*map(with_room, state, sizes))

    def explain(self, page: int) -> Part:
        key, of_page = float(self.keys[page]), self.state.pages[page]
        factors = np.empty(3)
        self.code(read_factors)(self._state, int(of_page["site"]), factors)
        others, site, novelty = factors.tolist()
        what = "from {}, scaled up for pages not fetched"
        from_others = Part("passed on by links", float(of_page["from_others"]))
        from_site = Part("passed on by links", float(of_page["from_site"]))
        parts = (
            Part("own mass", float(of_page["own"])),
            made_of(what.format("other sites"), (from_others,), factor=others),
            made_of(what.format("its own site"), (from_site,), factor=site),
        )
        explained = made_of("mass, by how new its site is", parts, factor=novelty)
        if explained.amount != key:
            return Part("own mass; changes of 2 % or less are skipped", key)
        return explained
