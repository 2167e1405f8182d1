"""SCOUT, from its definition: residual push, site coverage, novelty, trust in seeds."""

import math
from collections import deque

from .base import Ordering


class Scout(Ordering, name="scout"):
    """P(u) = (own + G X_inter(u) + K_s X_intra(u)) (1 + kappa sqrt(ln(|crawled| + 2) / (c_s + 1))).

    G = (|crawled| + |frontier|) / (|crawled| + 1); K_s = (c_s + f_s + 1) / (c_s + 1), capped; c_s
    and f_s: pages of site s that are crawled, and that wait.
    """

    cases = (
        {},
        {"push_budget": 0, "novelty": 0.0},
        {"push_budget": 7, "threshold": 0.0, "novelty": 1.0},
        {"seed_mass": 1.0, "damping": 0.5, "threshold": 0.2, "push_budget": 30},
    )

    def __init__(
        self, record, seed_mass=100.0, damping=0.85, novelty=0.3, threshold=0.02, push_budget=2000
    ):
        super().__init__(record)
        self.damping = damping
        self.kappa = novelty
        self.theta = threshold
        self.push_budget = push_budget
        self.own = dict.fromkeys(record.seeds, seed_mass)
        self.intra = dict.fromkeys(record.seeds, 0.0)
        self.inter = dict.fromkeys(record.seeds, 0.0)
        self.sent = {}
        self.key = dict(self.own)
        self.ring = {}
        for seed in record.seeds:
            self.ring.setdefault(self.site(seed), deque()).append(seed)

    def site(self, page):
        return self.record.web.site.get(page, 0)

    def worth(self, page):
        """Return P(u) as of now."""
        crawled = len(self.record.crawled_pages)
        known = len(self.record.discovered)
        s = self.site(page)
        c_s = sum(self.site(u) == s for u in self.record.crawled_pages)
        known_on_s = sum(self.site(u) == s for u in self.record.discovered)
        g = known / (crawled + 1)
        k_s = min((known_on_s + 1) / (c_s + 1), 50)
        v = self.own[page] + g * self.inter[page] + k_s * self.intra[page]
        return v * (1 + self.kappa * math.sqrt(math.log(crawled + 2) / (c_s + 1)))

    def mass(self, page):
        """Return X(u)."""
        return self.own[page] + self.intra[page] + self.inter[page]

    def observe(self, page):
        links_of = self.record.web.links_of
        for v in links_of(page):
            if v not in self.own:
                self.own[v] = self.key[v] = 1.0
                self.intra[v] = self.inter[v] = 0.0
                self.ring.setdefault(self.site(v), deque()).append(v)

        stale = []
        self.sent[page] = 0.0
        queue = deque([page])
        work = -len(links_of(page))
        while queue:
            w = queue.popleft()
            if work + len(links_of(w)) > self.push_budget:
                continue
            work += len(links_of(w))
            # One link at a time, as a page may come to have gained enough at any of them.
            mass, links = self.mass(w), links_of(w)
            share = self.damping * (mass - self.sent[w]) / max(len(links), 1)
            self.sent[w] = mass
            for v in links:
                received = self.intra if self.site(v) == self.site(w) else self.inter
                received[v] += share
                stale.append(v)
                n_links = len(links_of(v)) if v in self.sent else 0
                if (
                    n_links
                    and v not in queue
                    and self.mass(v) - self.sent[v] > self.theta * n_links
                ):
                    queue.append(v)

        ring = self.ring[self.site(page)]
        for _ in range(min(64, len(ring))):
            v = ring.popleft()
            if v not in self.sent:
                stale.append(v)
                ring.append(v)

        for v in stale:
            if v not in self.sent and abs(self.worth(v) - self.key[v]) > 0.02 * self.key[v]:
                self.key[v] = self.worth(v)

    def keys(self):
        return self.key
