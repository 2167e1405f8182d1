"""Sibling sampling: fetch a sample of the pages found on one page, then rank the rest by it.

The compiled rules are in `sibling_rules`; the class owns their arrays.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from crawlprio.orderings.base import CompiledOrdering, Noted
from crawlprio.orderings.explaining import Part, made_of
from crawlprio.orderings.options import checked_number
from crawlprio.orderings.sibling_rules import (
    LAYOUT,
    LONGEST,
    LOOKS,
    NEAREST,
    NOT_VISITED,
    RULES,
    State,
    read_factors,
    sample_siblings,
)
from crawlprio.ranking.room import with_room

KEPT_LINKS = 2**22
"""Default number of stored links of fetched pages: 16 MiB."""

N_DEPTHS = 1024


class SiblingSampling(CompiledOrdering):
    """Pages with the most mass first, corrected for siblings that have not been fetched.

    *Mass* is an estimate of PageRank. Each page has mass of its own from the moment it is
    discovered: a seed `seed_mass`, a page at depth k `decay`^k. A fetched page passes `damping`
    times its mass to its distinct links in equal shares. Once it has gained another quarter, it
    passes on the gain: each visit checks the next 16 fetched pages, in a cycle in order of
    fetching, and at most `n_passes` of those that have gained enough, and whose links are stored,
    pass on what they have gained. The stored links are those of the latest visits, `kept_links` in
    total, excluding pages with more than 10,000 links.

    *Siblings* are the pages first discovered on the same page, their parent. They tend to receive
    similar links, from the parent and often from each other. The mass that a page received from its
    parent and siblings is therefore multiplied by 1 + w / (c + 3/2). Here c is the number of
    siblings fetched, and w the number of those waiting: those not fetched are expected to link as
    the fetched ones do (Horvitz & Thompson, A generalization of sampling without replacement from a
    finite universe, Journal of the American Statistical Association 47, 1952). While no sibling is
    fetched, each gets up to two thirds of what their parent passes on in total, so a few pages of
    each group are fetched early, and the others follow according to what the sample shows.

    *Limit*: w is at most 16 + v / s, where v is the number of visits so far, and s the effective
    number of sites: 1 / sum p^2, where p is a site's share of all attention, and a site's
    *attention* is the mass received from other sites, plus 1 for each of its seeds (the inverse of
    the index of Simpson, Measurement of diversity, Nature 163, 1949); s is 1 while no site has any.
    A crawl that has v / s visits to spend on a site cannot fetch more siblings on one, so more do
    not count. On sites that are not *vouched for*, w is at most 16. Otherwise each page of an
    endless trap would show a large new group, and every group would be worth a sample.

    *Gain*: what became of the siblings fetched is expected of the others. S is the mass that they
    received after they were fetched from pages other than their parent and siblings, most of it
    from pages that they showed themselves, as the index of a month receives from its messages.
    What such a page gives counts 1 + w / (c + 3/2) times, by the w and c of its own siblings, which
    are expected to give as much. The key of each waiting page counts `gain` * S / (c + 1/2) besides
    its mass.

    *Doubt*: the fewer siblings have been fetched, the more a waiting one may turn out to gain. Its
    key counts `optimism` * sqrt(ln(visits + 2) / (c + 1)) besides, an upper confidence bound.

    *New sites*: a key is multiplied by 1 + `novelty` * sqrt(ln(visits + 2) / (visits to its site +
    1)) on sites that are vouched for: those that have a seed, and those first linked from a site
    that has had at least 30 visits. Farms can create sites that link to each other at no cost. Both
    this and the doubt follow bandit algorithms (Auer, Cesa-Bianchi & Fischer, Finite-time analysis
    of the multiarmed bandit problem, Machine Learning 47, 2002).

    A visit updates the keys of all pages that receive mass, and when the number of fetched siblings
    has grown by a quarter, those of up to 256 siblings, from the fetched page onwards and then from
    the first one. When S has grown by more than a quarter since an update for it, up to 256 of the
    group are updated too, from as many onwards as have been fetched; one group a visit, that in
    which mass arrived last. All other keys stay as they are. That bounds the work per visit.

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
    A visit takes O(links), plus up to 512 siblings and `n_passes` * 10,000 links. Memory: 80 bytes
    per known page including its key, 16 per site, 13 per visit, and 4 per stored link, by default
    16 MiB at most.
    """

    rule = sample_siblings
    layout = LAYOUT
    reads_sites: ClassVar[bool] = True
    changes_known: ClassVar[bool] = True

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
        def number(
            option: str, value: object, below: float | None = None, *, whole: bool = False
        ) -> float:
            return checked_number(
                "sibling-sampling", option, value, least=0, below=below, whole=whole
            )

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

    def first_state(self) -> State:
        rules = np.zeros(1, dtype=RULES)
        for name, value in self._options.items():
            rules[name] = value
        rules["cursor"] = rules["risen"] = rules["watched"] = -1
        return LAYOUT.empty()._replace(rules=rules, own_mass=self._own_mass)

    def with_room(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> State:
        state: State = self.state
        # A power of two, as link numbers wrap around; the links before that are all kept.
        n_kept = min(n_links, int(state.rules["kept_links"][0]))
        room = most_links + 2 * NEAREST + int(state.rules["n_passes"][0]) * LONGEST
        return state._replace(
            pages=with_room(state.pages, n_pages),
            groups=with_room(state.groups, n_pages),
            sites=with_room(state.sites, n_sites),
            visited=with_room(state.visited, n_pages),
            has_gained=with_room(state.has_gained, n_pages),
            ends=with_room(state.ends, n_pages + 1),
            links=with_room(state.links, 1 << max(n_kept - 1, 0).bit_length()),
            gifts=with_room(state.gifts, LOOKS + 1),
            changed=with_room(state.changed, room),
            before=with_room(state.before, room),
        )

    def watch(self, page: int) -> None:
        super().watch(page)
        self.state.rules["watched"] = page
        self._gifts: list[Part] = []
        self._of_kin: list[Part] = []
        self._explained = Part("its key", math.nan)

    def note(self) -> None:
        """Take in what the watched page received, and what its key consists of if it changed."""
        assert self._watched is not None
        page, state = self._watched.page, self.state
        n_gifts, is_same = int(state.rules["n_gifts"][0]), self.keys[page] == self._explained.amount
        if is_same and not n_gifts:
            return
        parents = state.pages["parent"]
        parent = int(parents[page])
        for share, giver in state.gifts[:n_gifts].tolist():
            gift = Part("passed on by", share, giver)
            self._gifts.append(gift)
            if giver == parent or (parent >= 0 and int(parents[giver]) == parent):
                self._of_kin.append(gift)
        if not is_same and state.pages["passed"][page] == NOT_VISITED:
            self._explained = self._explanation(page, parent)

    @property
    def noted(self) -> Noted:
        if self._watched is None:
            return super().noted
        return Noted(self._watched.page, True, self._explained.amount, self.state.rules["n_gifts"])

    def _explanation(self, page: int, parent: int) -> Part:
        state = self.state
        factors = np.empty(4)
        read_factors(self._addresses, page, factors)
        correction, gain, doubt, novelty = factors.tolist()
        depth = int(state.groups["depth"][page])
        assert self._watched is not None
        is_seed = self._watched.found.page < 0
        own = float(
            state.rules["seed_mass"][0] if is_seed else self._own_mass[min(depth, N_DEPTHS - 1)]
        )
        parts = [
            Part("a seed's own mass" if is_seed else f"own mass, {depth} links from a seed", own)
        ]
        parts += self._gifts
        if parent >= 0:
            group = state.groups[parent]
            n_visited = int(group["n_visited"])
            n_waiting = int(group["n_children"]) - n_visited
            if correction:
                what = f"expected of {n_waiting:,} siblings not fetched, by {n_visited:,} fetched"
                parts.append(made_of(what, self._of_kin, factor=correction, page=parent))
            if gain:
                what = f"expected to gain as {n_visited:,} fetched siblings did"
                parts.append(Part(what, gain, parent))
            if doubt:
                what = f"benefit of the doubt, by {n_visited:,} siblings fetched"
                parts.append(Part(what, doubt, parent))
        return made_of("mass, by how new its site is", parts, factor=novelty)

    def explain(self, page: int) -> Part:
        if self._watched is None:
            return super().explain(page)
        return self._explained
