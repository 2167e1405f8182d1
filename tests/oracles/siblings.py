"""The ordering by mass and siblings, from its definition."""

import math
from collections import defaultdict

from .base import Ordering


class SiblingSampling(Ordering, name="sibling-sampling"):
    """Mass, scaled up for siblings not fetched, and more on new sites."""

    cases = (
        {},
        {"novelty": 0.0, "n_passes": 0},
        {"novelty": 1.0, "n_passes": 5, "seed_mass": 1.0},
        {"seed_mass": 2.0, "damping": 0.5, "decay": 0.5, "n_passes": 5, "siblings": False},
        {"n_passes": 5, "kept_links": 7},
        {"n_passes": 5, "gain": 3.0, "optimism": 0.0, "seed_mass": 1.0},
        {"optimism": 3.0, "seed_mass": 1.0},
    )

    def __init__(
        self,
        record,
        seed_mass=30.0,
        damping=0.85,
        decay=0.82,
        novelty=0.2,
        n_passes=2,
        siblings=True,
        gain=0.5,
        optimism=0.05,
        kept_links=2**22,
    ):
        super().__init__(record)
        self.damping = damping
        self.decay = decay
        self.novelty = novelty
        self.n_passes = n_passes
        self.siblings = siblings
        self.gain = gain
        self.optimism = optimism
        self.kept_links = kept_links
        self.depth = {}
        self.mass = {}
        self.from_kin = {}
        self.passed = {}
        self.children = {}
        self.due = {}
        self.gained = defaultdict(float)
        self.told = defaultdict(float)
        self.risen = None
        self.at = -1
        self.key = {}
        self.attention = defaultdict(float)
        self.shown_by = {self.site(seed): None for seed in record.seeds}
        for seed in record.seeds:
            self.depth[seed] = 0
            self.mass[seed] = seed_mass
            self.from_kin[seed] = 0.0
            self.attention[self.site(seed)] += 1.0
        for seed in record.seeds:
            self.key[seed] = self.worth(seed)

    def worth(self, page):
        """Return the key of a page as of now."""
        record = self.record
        worth = self.mass[page]
        logarithm = math.log(len(record.crawled_pages) + 2)
        parent = record.parent.get(page)
        if parent is not None and self.siblings:
            c = self.n_fetched(self.children[parent])
            worth += self.expected_of_siblings(parent) * self.from_kin[page]
            worth += self.gain * self.gained[parent] / (c + 0.5)
            worth += self.optimism * math.sqrt(logarithm / (c + 1))
        if self.is_vouched_for(self.site(page)):
            here = self.visits_to(self.site(page))
            worth *= 1 + self.novelty * math.sqrt(logarithm / (here + 1))
        return worth

    def expected_of_siblings(self, parent):
        """Return what the waiting children of a page count besides each fetched one."""
        if parent is None or not self.siblings:
            return 0.0
        c = self.n_fetched(self.children[parent])
        counted = float(len(self.children[parent]) - c)
        if counted > 16:
            vouched = self.is_vouched_for(self.site(parent))
            counted = min(counted, 16.0 + (self.visits_per_site() if vouched else 0.0))
        return counted / (c + 1.5)

    def visits_to(self, site):
        return sum(self.site(u) == site for u in self.record.crawled_pages)

    def is_vouched_for(self, site):
        """Return whether a site has a seed, or was shown by a site that has 30 visits."""
        source = self.shown_by[site]
        return source is None or self.visits_to(source) >= 30

    def visits_per_site(self):
        """Return the visits divided by the effective number of sites; 1 if none has attention."""
        total = sum(self.attention.values())
        squares = sum(mass**2 for mass in self.attention.values())
        n_sites = total**2 / squares if squares else 1
        return len(self.record.crawled_pages) / n_sites

    def site(self, page):
        return self.record.web.site.get(page, 0)

    def n_fetched(self, pages):
        return len(set(pages) & set(self.record.crawled_pages))

    def pass_on(self, page):
        """Give the links of a page what it gained since it last gave; return them."""
        record = self.record
        links = record.web.links_of(page)
        if not links:
            return []
        share = self.damping * (self.mass[page] - self.passed[page]) / len(links)
        self.passed[page] = self.mass[page]
        shown_by = record.parent.get(page)
        with_kin = share * (1.0 + self.expected_of_siblings(shown_by))
        for v in links:
            if self.site(v) != self.site(page):
                self.attention[self.site(v)] += share
            self.mass[v] += share
            parent = record.parent.get(v)
            if parent is None:
                continue
            is_kin = parent in (page, shown_by)
            if v not in record.crawled_pages:
                self.from_kin[v] += share if is_kin else 0.0
            elif not is_kin:
                is_grandchild = shown_by is not None and record.parent.get(shown_by) == parent
                self.gained[parent] += with_kin if is_grandchild else share
                has_waiting = self.n_fetched(self.children[parent]) < len(self.children[parent])
                if has_waiting and self.gained[parent] > 1.25 * self.told[parent]:
                    self.risen = parent
        return links

    def children_from(self, parent, start):
        """Return 256 children of a page, from one of them on, those before it last."""
        children = self.children[parent]
        return (children[start:] + children[:start])[:256]

    def kept(self, page):
        """Return the links of a page that are kept if it is one of the latest visits."""
        links = self.record.web.links_of(page)
        return links if len(links) <= min(10_000, self.kept_links) else []

    def oldest_kept(self):
        """Return the number of the first visit such that the links from it on are not too many."""
        visits = self.record.crawled_pages
        return next(
            first
            for first in range(len(visits) + 1)
            if sum(len(self.kept(u)) for u in visits[first:]) <= self.kept_links
        )

    def observe(self, page):
        record = self.record
        new = [v for v in record.web.links_of(page) if v not in self.mass]
        self.children[page] = new
        self.due[page] = 1
        for v in new:
            self.shown_by.setdefault(self.site(v), self.site(page))
            self.depth[v] = self.depth[page] + 1
            self.mass[v] = self.decay ** self.depth[v]
            self.from_kin[v] = 0.0

        self.passed[page] = 0.0
        stale = self.pass_on(page)

        parent = record.parent.get(page)
        if parent is not None:
            n_fetched = self.n_fetched(self.children[parent])
            if n_fetched >= self.due[parent]:
                self.due[parent] = n_fetched + 1 + n_fetched // 4
                siblings = self.children[parent]
                stale += self.children_from(parent, siblings.index(page) + 1)
        if self.risen is not None:
            self.told[self.risen] = self.gained[self.risen]
            children = self.children[self.risen]
            stale += self.children_from(self.risen, self.n_fetched(children))
            self.risen = None

        oldest = self.oldest_kept()
        n_passed = 0
        for _ in range(16):
            if n_passed == self.n_passes:
                break
            self.at += 1
            if not oldest <= self.at < len(record.crawled_pages):
                self.at = oldest
            giver = record.crawled_pages[self.at]
            gained = self.mass[giver] - self.passed[giver]
            if self.kept(giver) and gained > 0.2 * self.mass[giver]:
                stale += self.pass_on(giver)
                n_passed += 1

        for v in set(stale) - set(record.crawled_pages):
            self.key[v] = self.worth(v)

    def keys(self):
        return self.key
