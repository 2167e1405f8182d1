"""Keys that are written in place, all before any of their pages is moved to its new position."""

import math
import os
import random

import numpy as np

from crawlprio.frontier import heaps, pairing, struct_layouts

SEED = int(os.environ.get("CRAWLPRIO_STRESS_SEED", "20261122"))
N_PAGES, N_SITES = 60, 4


class Queue:
    """The compiled queue with its records, and what should leave next according to the records."""

    def __init__(self, draw):
        self.draw = draw
        sites = np.zeros(N_SITES, dtype=struct_layouts.SITE)
        sites["head"], sites["position"] = struct_layouts.NONE, struct_layouts.NOWHERE
        sites["limit"], sites["ready_at"] = N_PAGES, -math.inf
        totals = np.zeros(1, dtype=struct_layouts.TOTALS)
        self.pages = np.zeros(N_PAGES, dtype=struct_layouts.PAGE)
        self.arrays = struct_layouts.Queue(self.pages, sites, heaps.no_entries(N_SITES), totals)
        self.addresses = struct_layouts.QUEUE.addresses(self.arrays)
        for page in range(N_PAGES):
            heaps.push(
                self.addresses, page, draw.randrange(N_SITES), 0, draw.choice([0.0, 1.0, 2.0])
            )

    def first(self):
        waiting = np.flatnonzero(self.pages["state"] == struct_layouts.WAITING)
        return int(waiting[np.lexsort((waiting, -self.pages["key"][waiting]))[0]])

    def check_sites(self):
        """Assert that each site is placed by the key of its own best page, which is its head."""
        for site, row in enumerate(self.arrays.sites):
            waiting = (self.pages["state"] == struct_layouts.WAITING) & (self.pages["site"] == site)
            if waiting.any():
                best = self.pages["key"][waiting].max()
                assert row["key"] == best
                assert row["head"] == np.flatnonzero(waiting & (self.pages["key"] == best))[0]

    def write_keys(self, n):
        """Write n keys at once, then restore_heap their pages."""
        changed = np.array(self.draw.sample(range(N_PAGES), n), dtype=np.int32)
        before = self.pages["key"][changed]
        self.pages["key"][changed] = [self.draw.choice([0.0, 1.0, 2.0, 3.0]) for _ in range(n)]
        heaps.restore_heap_changed(self.addresses, N_PAGES, changed, before)


def test_pages_leave_by_key_however_many_keys_were_written_at_once():
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    for _ in range(100):
        queue = Queue(draw)
        for _ in range(N_PAGES):
            queue.write_keys(draw.randrange(20))
            queue.check_sites()
            expected = queue.first()
            assert heaps.pop(queue.addresses, 0.0) == expected


def test_a_page_with_many_children_falls():
    """The heap, built by hand: page 0, below it page 1, below that all others."""
    for fallen in (0, 1):
        pages = np.zeros(101, dtype=struct_layouts.PAGE)
        for name in ("child", "next", "prev"):
            pages[name] = struct_layouts.NONE
        pages["key"] = [200.0, 150.0, *range(99)]
        pages["child"][:2] = [1, 2]
        pages["prev"][1:] = [0, 1, *range(2, 100)]
        pages["next"][2:100] = range(3, 101)
        pages["key"][fallen] = 49.5
        root, left = pairing.restore_heap(pages, 0, fallen, False), []
        while root != struct_layouts.NONE:
            left.append(root)
            root = pairing.join_children(pages, root)
        assert left == np.argsort(-pages["key"]).tolist()
