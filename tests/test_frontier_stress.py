"""Long random histories of a frontier and its slow twin, with every invariant after each action.

`CRAWLPRIO_STRESS_SEED` draws other histories.
"""

import os
import random

import numpy as np
import pytest
from test_frontier import RESTLESS, Pair

from crawlprio.graph.pages import NO_PAGE, Visit

SEED = int(os.environ.get("CRAWLPRIO_STRESS_SEED", "20261121"))
N_ACTIONS = 400


class LongPair(Pair):
    """Adds late clock readings, outside fetches, many sites with their own limits, and bursts."""

    def next_page(self):
        if self.rng.random() < 0.15:
            earlier = self.now - self.rng.choice([0.5, 10.0, 1e9])
            assert self.frontier.next_page(earlier) == self.twin.next_page(earlier)
            return
        super().next_page()

    def burst(self):
        """Lease everything that can be leased at one point in time."""
        while True:
            page = self.twin.next_page(self.now)
            assert self.frontier.next_page(self.now) == page
            if page == NO_PAGE:
                return

    def fetched_otherwise(self):
        """Observe a visit of any known page; if it was waiting, it no longer waits."""
        known = [page for page in range(len(self.pages)) if page < self.frontier.ordering.n_pages]
        if known:
            visit = Visit(self.rng.choice(known), np.empty(0, dtype=np.int32), status=404)
            first = self.frontier.ordering.n_pages
            self.frontier.observe(visit)
            self.twin.observe(visit, first, self.topic)

    def new_limits(self):
        for site in range(self.pages.n_sites):
            limit, delay = self.rng.randrange(1, 5), self.rng.choice([0.0, 0.5, 3.0])
            self.frontier.set_site(site, limit=limit, delay=delay)
            self.twin.limits[site], self.twin.delays[site] = limit, delay

    def act(self):
        if self.pages.n_sites and self.rng.random() < 0.06:
            rare = self.rng.choice([self.burst, self.fetched_otherwise, self.new_limits])
            rare()
            return rare.__name__
        return super().act()


@pytest.mark.parametrize("ordering", RESTLESS)
def test_after_a_long_history_the_frontier_equals_its_slow_twin(ordering):
    draw = random.Random(SEED)
    for _ in range(2):
        seed = draw.randrange(2**32)
        limit, pages_per_visit = draw.randrange(1, 4), draw.randrange(1, 4)
        topic, late = draw.random() < 0.5, draw.random() < 0.5
        print(f"seed {seed}, limit {limit}, {pages_per_visit} pages a visit, {topic=}, {late=}")
        pair = LongPair(
            ordering(), seed, limit=limit, pages_per_visit=pages_per_visit, topic=topic, late=late
        )
        for _ in range(N_ACTIONS):
            print(pair.act())
            pair.compare()
        pair.drain()
