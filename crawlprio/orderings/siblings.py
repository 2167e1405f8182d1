"""Sibling sampling: the fetched links of a page estimate what its other links are worth."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import Addresses, Layout, njit, record
from crawlprio.graph.pages import PageIds
from crawlprio.orderings.base import CompiledOrdering, Keys, Part, checked_number, made_of
from crawlprio.ranking.pagerank import with_room

Records = Any
"""An array of records, each of whose columns is an attribute."""

NOT_VISITED = -1.0

LOOKS, LEAST_GAIN, LONGEST = 16, 0.2, 10_000
"""Fetched pages checked after each visit, the share of its mass that one must have gained since it
last passed mass on, and the maximum number of links over which it passes on the gain."""

PRIOR, NEAREST = 1.5, 256
"""Added to the number of fetched siblings; most siblings whose keys one update changes."""

PRIOR_OF_GAIN, GROWTH = 0.5, 1.25
"""Added to the number of fetched siblings in their mean gain; how much the sum of their gains has
to have grown before the waiting ones are updated."""

FREE, SEED_ATTENTION = 16.0, 1.0
"""Waiting siblings that count on any site, and the attention that each seed gives its site."""

ESTABLISHED = 30
"""Visits after which a site vouches for the sites that were first linked from it."""

NOT_SHOWN, BY_A_SEED, BY_SITE = 0, 1, 2

PAGE = record("f8 mass kin passed", "i4 parent site")
"""One page, 32 bytes, read for each link to it. `kin`: the part of `mass` received from its parent
and siblings, or of a visited page the number of its visit; `passed`: its mass when it last passed
mass on, or `NOT_VISITED`; `parent`: -1 also once all children of the parent are visited."""

GROUP = record("i4 first_child n_children n_visited due", "f8 gained told")
"""One page as a parent, 32 bytes. `n_visited`: children visited; `due`: the value of `n_visited` at
which the keys of the other children are next updated; `gained`: the mass that visited children
received after their visit from pages that are no kin, with what siblings of its grandchildren are
expected to add; `told`: the value of `gained` when the other children were last updated for it."""

SITE = record("f8 attention", "i4 n_visits shown")
"""One site, 16 bytes. `attention`: mass received from other sites, plus that of seeds; `shown`: how
its first page was found: `NOT_SHOWN` (not yet), `BY_A_SEED`, or on a page of site
`shown - BY_SITE`."""

RULES = record(
    "f8 attention squares seed_mass damping novelty",
    "i8 n_passes by_siblings n_visits n_links cursor kept_links oldest",
    "f8 gain optimism",
    "i8 risen",
)
"""Sum of the attention of all sites and of its squares; options; progress of the crawl. `n_links`:
links stored so far, including those overwritten since; `cursor`: the visit checked last; `oldest`:
the oldest visit whose links are stored; `risen`: a page whose waiting children are due an update
for what the visited ones gained, or -1."""


class SiblingState(NamedTuple):
    """What the crawl knows: `pages`, `groups` and `sites` by id, and one row of `rules`.

    `own_mass` is that of a page by depth, `depths` has the depth of each page. By number of visit,
    `visited` has its page, `has_gained` whether that has gained enough to pass mass on, `ends` the
    end of its links, which begin where those of the visit before end. Link number i of the crawl is
    in `links` at i modulo their number, a power of two. `changed` and `before` are as in `NoState`.
    """

    pages: Records
    groups: Records
    sites: Records
    rules: Records
    depths: PageIds
    own_mass: Keys
    visited: PageIds
    has_gained: NDArray[np.uint8]
    ends: NDArray[np.int64]
    links: PageIds
    changed: PageIds
    before: Keys


LAYOUT = Layout(
    SiblingState,
    *(PAGE, GROUP, SITE, RULES, np.int32, np.float64, np.int32, np.uint8, np.int64, np.int32),
    *(np.int32, np.float64),
)


@njit(cache=True, keeps_arrays=False)
def give_attention(state: SiblingState, site: int, mass: float) -> None:
    """Add to the attention of a site."""
    sites, rules = state.sites, state.rules
    before = sites.attention[site]
    sites.attention[site] = before + mass
    rules.attention[0] += mass
    rules.squares[0] += mass * (2.0 * before + mass)


@njit(cache=True, keeps_arrays=False)
def visits_per_site(state: SiblingState) -> float:
    """Return the number of visits divided by the effective number of sites: 1 without attention."""
    rules = state.rules
    square = rules.attention[0] * rules.attention[0]
    n_visits = rules.n_visits[0]
    return float(n_visits * rules.squares[0] / square if square > 0.0 else n_visits)


@njit(cache=True, keeps_arrays=False)
def is_vouched_for(state: SiblingState, site: int) -> bool:
    """Whether a site has a seed, or was first linked from an established site."""
    source = state.sites.shown[site] - BY_SITE
    return bool(source < 0 or state.sites.n_visits[source] >= ESTABLISHED)


@njit(cache=True, keeps_arrays=False)
def correction(state: SiblingState, parent: int, n_per_site: float) -> float:
    """Return the multiple of a child's mass from kin that is added to its key.

    `n_per_site` is the result of `visits_per_site`.
    """
    if parent < 0 or not state.rules.by_siblings[0]:
        return 0.0
    n_visited = state.groups.n_visited[parent]
    n_counted = float(state.groups.n_children[parent] - n_visited)
    if n_counted > FREE:
        room = n_per_site if is_vouched_for(state, state.pages.site[parent]) else 0.0
        n_counted = min(n_counted, FREE + room)
    return float(n_counted / (n_visited + PRIOR))


@njit(cache=True, keeps_arrays=False)
def gain_and_bias(state: SiblingState, parent: int, log_visits: float) -> tuple[float, float]:
    """Return the mass that a child's key gets for what its visited siblings gained, and how few."""
    rules = state.rules
    if parent < 0 or not rules.by_siblings[0]:
        return 0.0, 0.0
    n_visited = state.groups.n_visited[parent]
    gain = float(rules.gain[0] * state.groups.gained[parent] / (n_visited + PRIOR_OF_GAIN))
    return gain, float(rules.optimism[0] * math.sqrt(log_visits / (n_visited + 1.0)))


@njit(cache=True, keeps_arrays=False)
def novelty(state: SiblingState, site: int, log_visits: float) -> float:
    """Return the factor for the keys of a site, which is larger on new sites."""
    sites, rules = state.sites, state.rules
    if rules.novelty[0] > 0.0 and is_vouched_for(state, site):
        return float(1.0 + rules.novelty[0] * math.sqrt(log_visits / (sites.n_visits[site] + 1.0)))
    return 1.0


@njit(cache=True, keeps_arrays=False)
def discover_pages(
    state: SiblingState, site_of: PageIds, keys: Keys, first: int, last: int, source: int
) -> None:
    """Set parent, mass and key of the pages first, ..., last - 1; they are seeds if `source` is -1.

    Pages found when a page is fetched again have no parent.
    """
    pages, groups, sites = state.pages, state.groups, state.sites
    rules, own_mass = state.rules, state.own_mass
    log_visits = math.log(rules.n_visits[0] + 2.0)
    is_parent = source >= 0 and pages.passed[source] == NOT_VISITED
    depth = state.depths[source] + 1 if source >= 0 else 0
    mass = own_mass[min(depth, len(own_mass) - 1)] if source >= 0 else rules.seed_mass[0]
    if is_parent:
        groups.first_child[source] = first
        groups.n_children[source] = last - first
        groups.due[source] = 1
    for page in range(first, last):
        pages.mass[page] = mass
        pages.passed[page] = NOT_VISITED
        pages.parent[page] = source if is_parent else -1
        state.depths[page] = depth
        site = site_of[page]
        pages.site[page] = site
        if source < 0:
            give_attention(state, site, SEED_ATTENTION)
        if sites.shown[site] == NOT_SHOWN:
            sites.shown[site] = pages.site[source] + BY_SITE if source >= 0 else BY_A_SEED
        keys[page] = mass * novelty(state, site, log_visits)


@njit(cache=True, keeps_arrays=False)
def write_children(state: SiblingState, parent: int, start: int, n_changed: int) -> int:
    """Append those that wait of `NEAREST` children to `changed`, in a cycle from child `start` on.

    Returns the number of pages in `changed`.
    """
    pages, groups, changed = state.pages, state.groups, state.changed
    n_children, at = groups.n_children[parent], start
    for _ in range(min(n_children, NEAREST)):
        if at >= n_children:
            at = 0
        child = groups.first_child[parent] + at
        if pages.passed[child] == NOT_VISITED:
            changed[n_changed] = child
            n_changed += 1
        at += 1
    return n_changed


@njit(cache=True, keeps_arrays=False)
def pass_on(state: SiblingState, page: int, first: int, last: int) -> int:
    """Pass on the mass that a page has gained since it last did, damped, in equal shares.

    Its links are in `changed` from `first` to `last`; those that wait remain, up to the result.
    Fetched targets count it as gained for their parents, unless it comes from kin; what siblings of
    the page are expected to add, if it is a grandchild of such a parent.
    """
    pages, groups, rules, changed = state.pages, state.groups, state.rules, state.changed
    if last == first:
        return first
    mass, parent, site = pages.mass[page], pages.parent[page], pages.site[page]
    share = with_kin = rules.damping[0] * (mass - max(pages.passed[page], 0.0)) / (last - first)
    pages.passed[page] = mass
    state.has_gained[int(pages.kin[page])] = 0
    grandparent = pages.parent[parent] if parent >= 0 else -1
    if grandparent >= 0:
        with_kin = share * (1.0 + correction(state, parent, visits_per_site(state)))
    for at in range(first, last):
        target = changed[at]
        of_site, shown_by, passed = pages.site[target], pages.parent[target], pages.passed[target]
        if of_site != site:
            give_attention(state, of_site, share)
        mass = pages.mass[target] + share
        pages.mass[target] = mass
        is_kin = shown_by == page or (shown_by == parent and parent >= 0)
        if passed == NOT_VISITED:
            changed[first] = target
            first += 1
            if is_kin:
                pages.kin[target] += share
            continue
        if mass - passed > LEAST_GAIN * mass:
            state.has_gained[int(pages.kin[target])] = 1
        if shown_by >= 0 and not is_kin:
            gained = groups.gained[shown_by] + (with_kin if shown_by == grandparent else share)
            groups.gained[shown_by] = gained
            if gained > GROWTH * groups.told[shown_by]:
                rules.risen[0] = shown_by
    return first


@njit(cache=True, keeps_arrays=False)
def store_row(state: SiblingState, page: int, targets: PageIds) -> None:
    """Count a visit, and store its links, in place of the oldest."""
    rules, links, ends = state.rules, state.links, state.ends
    n, end = rules.n_visits[0], rules.n_links[0]
    state.visited[n] = page
    state.pages.kin[page] = n
    if len(targets) <= min(LONGEST, rules.kept_links[0]):
        for target in targets:
            links[end & (len(links) - 1)] = target
            end += 1
    ends[n + 1] = end
    rules.n_links[0] = end
    rules.n_visits[0] = n + 1
    while end - ends[rules.oldest[0]] > rules.kept_links[0]:
        rules.oldest[0] += 1


@njit(cache=True, keeps_arrays=False)
def pass_on_again(state: SiblingState, n_changed: int) -> int:
    """Have fetched pages that gained enough pass it on, the next in the cycle; append their links.

    Returns the number of pages in `changed`.
    """
    rules, links, ends, changed = state.rules, state.links, state.ends, state.changed
    cursor, n_left = rules.cursor[0], rules.n_passes[0]
    for _ in range(LOOKS):
        if n_left <= 0:
            break
        cursor += 1
        if cursor >= rules.n_visits[0] or cursor < rules.oldest[0]:
            cursor = rules.oldest[0]
        if state.has_gained[cursor]:
            begin, end = ends[cursor], ends[cursor + 1]
            for at in range(begin, end):
                changed[n_changed + at - begin] = links[at & (len(links) - 1)]
            n_changed = pass_on(state, state.visited[cursor], n_changed, n_changed + end - begin)
            state.has_gained[cursor] = 0
            n_left -= end > begin
    rules.cursor[0] = cursor
    return n_changed


@njit(cache=True, keeps_arrays=False)
def update_keys(state: SiblingState, keys: Keys, n_changed: int) -> int:
    """Compute the keys of the pages in `changed`; keep and count those whose keys changed."""
    pages, changed = state.pages, state.changed
    log_visits = math.log(state.rules.n_visits[0] + 2.0)
    n_per_site = visits_per_site(state)
    last_parent, last_site, n_kept = -1, -1, 0
    factor, gain, bias, of_site = 0.0, 0.0, 0.0, 1.0
    for at in range(n_changed):
        target = changed[at]
        if pages.parent[target] != last_parent:
            last_parent = pages.parent[target]
            factor = correction(state, last_parent, n_per_site)
            gain, bias = gain_and_bias(state, last_parent, log_visits)
        if pages.site[target] != last_site:
            last_site = pages.site[target]
            of_site = novelty(state, last_site, log_visits)
        key = (pages.mass[target] + factor * pages.kin[target] + gain + bias) * of_site
        if key != keys[target]:
            changed[n_kept] = target
            state.before[n_kept] = keys[target]
            n_kept += 1
            keys[target] = key
    return n_kept


@njit(cache=True, keeps_arrays=False)
def observe_visit(state: SiblingState, keys: Keys, page: int, targets: PageIds) -> int:
    """Learn from a visit; update the keys of waiting pages.

    Those whose keys changed are written to `changed`, with their former keys in `before`; returns
    their number. The arrays must have room: `links` for the targets; `changed` for the targets,
    `NEAREST` siblings twice, and `n_passes` times the longest row up to `LONGEST`.
    """
    pages, groups, rules = state.pages, state.groups, state.rules
    for at in range(len(targets)):
        state.changed[at] = targets[at]
    store_row(state, page, targets)
    state.sites.n_visits[pages.site[page]] += 1
    parent = pages.parent[page]
    if parent >= 0:
        groups.n_visited[parent] += 1
        if groups.n_visited[parent] == groups.n_children[parent]:
            first = groups.first_child[parent]
            for child in range(first, first + groups.n_children[parent]):
                pages.parent[child] = parent = -1
    if pages.passed[page] == NOT_VISITED:
        pages.passed[page] = 0.0
    n_changed = pass_on(state, page, 0, len(targets))
    if parent >= 0 and groups.n_visited[parent] >= groups.due[parent]:
        groups.due[parent] = groups.n_visited[parent] + 1 + groups.n_visited[parent] // 4
        start = page - groups.first_child[parent] + 1
        n_changed = write_children(state, parent, start, n_changed)
    risen = rules.risen[0]
    if risen >= 0:
        rules.risen[0] = -1
        groups.told[risen] = groups.gained[risen]
        n_changed = write_children(state, risen, groups.n_visited[risen], n_changed)
    n_changed = pass_on_again(state, n_changed)
    return int(update_keys(state, keys, n_changed))


@njit(cache=True, keeps_arrays=False)
def sample_siblings(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """Apply the visit rule: discover new pages, then learn from the visit."""
    state = LAYOUT(addresses)
    if last > first:
        discover_pages(state, sites, keys, first, last, page)
    if again or page < 0:
        return 0
    return int(observe_visit(state, keys, page, targets))


@njit(cache=True, keeps_arrays=False)
def read_factors(addresses: Addresses, page: int, factors: Keys) -> None:
    """Write the factors of a page's key other than mass: correction, gain, doubt, novelty."""
    state = LAYOUT(addresses)
    parent = state.pages.parent[page]
    log_visits = math.log(state.rules.n_visits[0] + 2.0)
    factors[0] = correction(state, parent, visits_per_site(state))
    factors[1], factors[2] = gain_and_bias(state, parent, log_visits)
    factors[3] = novelty(state, state.pages.site[page], log_visits)


KEPT_LINKS = 2**22
"""Default number of stored links of fetched pages: 16 MiB."""

N_DEPTHS = 1024


class SiblingSampling(CompiledOrdering):
    """Pages with the most mass first, corrected for siblings that have not been fetched.

    The waiting page with the largest key is next, where v pages were visited, n of them on its
    site, c of its siblings were fetched, and w wait::

        B * (mass + kin * w / (c + 3/2) + gain * S / (c + 1/2)
             + optimism * sqrt(ln(v + 2) / (c + 1)))

    *Mass* is an estimate of PageRank. Each page has mass of its own from the moment it is
    discovered: a seed `seed_mass`, a page at depth k `decay`^k. A fetched page passes `damping`
    times its mass to its distinct links in equal shares. Once it has gained another quarter, it
    passes on the gain: each visit checks the next 16 fetched pages, in a cycle in order of
    fetching, and at most `n_passes` of those that have gained enough, and whose links are stored,
    pass on what they have gained. The stored links are those of the latest visits, `kept_links` in
    total, excluding pages with more than 10,000 links.

    *Siblings* are the pages first discovered on the same page, their parent, and *kin* is the mass
    received from parent and siblings. Those not fetched are expected to link as the fetched ones do
    (Horvitz & Thompson, A generalization of sampling without replacement from a finite universe,
    Journal of the American Statistical Association 47, 1952), so a few pages of each group are
    fetched early, and the others follow according to what the sample shows.

    *Limit*: w is at most 16 + v / s, or 16 if the parent's site is not vouched for, as each page of
    an endless trap shows a large new group. Here s is the effective number of sites: 1 / sum p^2,
    where p is a site's share of all attention, and a site's *attention* is the mass received from
    other sites, plus 1 for each of its seeds (the inverse of the index of Simpson, Measurement of
    diversity, Nature 163, 1949); s is 1 while no site has any.

    *Gain*: S is the mass that the fetched siblings received after their fetch from pages other than
    their parent and siblings. What a page shown by one of them gives counts 1 + w / (c + 3/2)
    times, by the w and c of its own siblings, which are expected to give as much.

    *Doubt*, the last term, and B, 1 + `novelty` * sqrt(ln(v + 2) / (n + 1)) on a site that is
    vouched for and 1 elsewhere, follow bandit algorithms (Auer, Cesa-Bianchi & Fischer, Finite-time
    analysis of the multiarmed bandit problem, Machine Learning 47, 2002). A site is *vouched for*
    if it has a seed, or was first linked from one that has had at least 30 visits: farms can create
    sites that link to each other at no cost.

    A visit updates the keys of all pages that receive mass, and when c has grown by a quarter,
    those of up to 256 siblings, from the fetched page onwards and then from the first one. When S
    has grown by more than a quarter since an update for it, up to 256 of the group are updated too,
    from as many onwards as have been fetched; one group a visit, that in which mass arrived last.
    All other keys stay as they are. That bounds the work per visit.

    Parameters
    ----------
    seed_mass
        Mass of a seed; default 30, 0 or more.
    damping
        Share of its mass that a page passes on; default 0.85, 0 or more, below 1.
    decay
        Ratio of a page's own mass to that of its parent; default 0.82, 0 or more, below 1. It keeps
        endless chains of pages, such as calendars, from gaining rank by their length. 0.9 finds
        slightly more on deep webs without farms and traps, and is less safe where there are some.
    novelty
        Preference for sites with few visits; default 0.2, 0 or more.
    n_passes
        Maximum number of fetched pages that pass on gains after each visit; default 2.
    siblings
        Whether to learn from siblings, by correction, gain and doubt; default True.
    gain
        Share of the mean gain of fetched siblings that waiting ones are expected to gain; default
        0.5, 0 or more.
    optimism
        What a group of which nothing is known may turn out to gain; default 0.05, 0 or more. It
        finds indexes earlier, and is paid for by more `decay`, as traps look the same.
    kept_links
        Maximum number of stored links of fetched pages; default 4,194,304, 0 to 2^30.

    Notes
    -----
    A visit takes O(links), plus up to 512 siblings and `n_passes` * 10,000 links. Memory: 76 bytes
    per known page including its key, 16 per site, 13 per visit, and 4 per stored link, by default
    16 MiB at most.
    """

    rule = sample_siblings
    layout = LAYOUT
    reads_sites: ClassVar[bool] = True
    changes_known: ClassVar[bool] = True
    lists_changed: ClassVar[bool] = True

    def __init__(
        self,
        seed_mass: float = 30.0,
        damping: float = 0.85,
        decay: float = 0.82,
        novelty: float = 0.2,
        n_passes: int = 2,
        siblings: bool = True,
        gain: float = 0.5,
        optimism: float = 0.05,
        kept_links: int = KEPT_LINKS,
    ) -> None:
        number = partial(checked_number, "sibling-sampling", least=0)
        self._options = {
            "seed_mass": number("seed_mass", seed_mass),
            "damping": number("damping", damping, below=1),
            "novelty": number("novelty", novelty),
            "n_passes": int(number("n_passes", n_passes, whole=True)),
            "by_siblings": bool(siblings),
            "gain": number("gain", gain),
            "optimism": number("optimism", optimism),
            "kept_links": int(number("kept_links", kept_links, below=2**30 + 1, whole=True)),
        }
        ratio = number("decay", decay, below=1)
        self._own_mass = np.array([ratio**k for k in range(N_DEPTHS)])

    def first_state(self) -> SiblingState:
        rules = np.zeros(1, dtype=RULES)
        for name, value in self._options.items():
            rules[name] = value
        rules["cursor"] = rules["risen"] = -1
        return LAYOUT.empty()._replace(rules=rules, own_mass=self._own_mass)

    def with_room(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> SiblingState:
        state: SiblingState = self.state
        # A power of two, as link numbers wrap around; the links before that are all kept.
        n_kept = min(n_links, int(state.rules["kept_links"][0]))
        room = most_links + 2 * NEAREST + int(state.rules["n_passes"][0]) * LONGEST
        return state._replace(
            pages=with_room(state.pages, n_pages),
            groups=with_room(state.groups, n_pages),
            depths=with_room(state.depths, n_pages),
            sites=with_room(state.sites, n_sites),
            visited=with_room(state.visited, n_pages),
            has_gained=with_room(state.has_gained, n_pages),
            ends=with_room(state.ends, n_pages + 1),
            links=with_room(state.links, 1 << max(n_kept - 1, 0).bit_length()),
            changed=with_room(state.changed, room),
            before=with_room(state.before, room),
        )

    def explain(self, page: int) -> Part:
        state, factors = self.state, np.empty(4)
        self.code(read_factors)(self._state, page, factors)
        correction, gain, bias, novelty = factors.tolist()
        mass, kin, parent = state.pages[["mass", "kin", "parent"]][page].item()
        depth = int(state.depths[page])
        of_seed, by_depth = state.rules["seed_mass"][0], self._own_mass
        own = float(by_depth[min(depth, N_DEPTHS - 1)] if depth else of_seed)
        where = f"{depth} links from a seed" if depth else "as a seed"
        parts = [Part(f"mass: its own, {own:g}, {where}, and what reached it by links", mass)]
        if parent >= 0:
            group = state.groups[parent]
            n_visited = int(group["n_visited"])
            n_waiting = int(group["n_children"]) - n_visited
            if correction:
                of_kin = (Part("mass from the page that showed it and its siblings", kin),)
                what = f"expected of {n_waiting:,} siblings not fetched, by {n_visited:,} fetched"
                parts.append(made_of(what, of_kin, factor=correction, page=parent))
            if gain:
                what = f"expected to gain as {n_visited:,} fetched siblings did"
                parts.append(Part(what, gain, parent))
            if bias:
                what = f"benefit of the doubt, by {n_visited:,} siblings fetched"
                parts.append(Part(what, bias, parent))
        return made_of("mass, by how new its site is", parts, factor=novelty)
