"""The frontier: what it hands out and when, also compared with a slow twin under random actions."""

import math
import os
import random
from collections import Counter

import numpy as np
import pytest

from crawlprio.errors import GraphError
from crawlprio.frontier import PageQueue, heaps, pairing, struct_layouts
from crawlprio.frontier.priority_classes import FIRST
from crawlprio.frontier.saved_queue import add_done
from crawlprio.frontier.struct_layouts import (
    BY_BEST_PAGE,
    BY_WAITING_PAGES,
    DELAYED,
    DONE,
    LEASED,
    NONE,
    NOWHERE,
    ON_VISIT,
    READY,
    UNKNOWN,
    WAITING,
)
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.orderings import ALL_PAGES, Ordering, make_ordering
from crawlprio.orderings.baseline import LargerSitesFirst


def check_invariants(frontier):
    """Assert the array invariants of `crawlprio.frontier.heaps`, and that the counts agree."""
    pages, sites, totals = frontier._pages, frontier._sites, frontier._totals[0]
    waiting = np.flatnonzero(pages["state"] == WAITING).tolist()
    leased = np.flatnonzero(pages["n_leases"]).tolist()
    assert totals["n_waiting"] == len(waiting) == len(frontier)
    assert totals["n_leased"] == pages["n_leases"].sum() == frontier.n_leased
    assert set(np.flatnonzero(pages["state"] == LEASED).tolist()) <= set(leased)
    assert {int(state) for state in pages["state"][leased]} <= {WAITING, LEASED}

    def rank(page):
        return -int(pages["priority_class"][page]), -float(pages["key"][page]), page

    def site_key(site):
        if totals["site_rule"] == BY_BEST_PAGE:
            return float(pages["key"][sites["head"][site]])
        return float(sites["n_waiting" if totals["site_rule"] == BY_WAITING_PAGES else "key"][site])

    should_stand = {READY: [], DELAYED: []}
    for site in range(frontier.pages.n_sites):
        row = sites[site]
        found = []
        stack = [int(row["head"])] if row["head"] != NONE else []
        if stack:
            assert pages["prev"][stack[0]] == NONE
            assert pages["next"][stack[0]] == NONE
        while stack:
            page = stack.pop()
            found.append(page)
            left, child = page, int(pages["child"][page])
            while child != NONE:
                assert pages["prev"][child] == left
                assert rank(page) < rank(child)
                stack.append(child)
                left, child = child, int(pages["next"][child])
        assert sorted(found) == [page for page in waiting if pages["site"][page] == site]
        assert row["n_waiting"] == len(found)
        if found:
            assert row["head"] == min(found, key=rank)
        head = pages[row["head"]]
        is_held = head["key"] < totals["held_below"] and head["priority_class"] <= 0
        if not found or is_held or row["n_leased"] >= row["limit"]:
            assert row["position"] == NOWHERE
        elif row["ready_at"] > totals["now"]:
            should_stand[DELAYED].append((0, 0, float(row["ready_at"]), site, site))
        else:
            priority_class = int(pages["priority_class"][row["head"]]) + ON_VISIT * int(
                row["n_visited"] > 0
            )
            key = site_key(site)
            share = int(totals["site_share"])
            at_round = int(row["turn"]) // share if share else 0
            should_stand[READY].append((-priority_class, at_round, -key, int(row["head"]), site))

    for side, count in ((READY, "n_ready"), (DELAYED, "n_delayed")):
        standing = []
        for at in range(int(totals[count])):
            standing.append(tuple(frontier._heap[at ^ side].tolist()))
            assert sites["position"][int(standing[at][-1])] == at ^ side
            if at:
                assert standing[(at - 1) // 4] < standing[at]
        assert sorted(standing) == sorted(should_stand[side])


class Restless(Ordering):
    """Few distinct keys, so many tie; some change at each visit, all occasionally, some late."""

    initial_key = 1.0

    def open(self, pages, truth=None):
        super().open(pages, truth)
        self.rng = random.Random(1)
        self.n_visits = 0
        self.n_computed = 0
        self.n_accepted = 0
        self.is_computing = False

    def drawn(self, n):
        return np.array([self.rng.randrange(4) for _ in range(n)], dtype=np.float64)

    def discover(self, first, last, visit):
        self.keys[first:last] = self.drawn(last - first)

    def observe(self, visit):
        self.n_visits += 1
        if self.n_visits % 13 == 0:
            self.keys[: self.n_pages] = self.drawn(self.n_pages)
            return ALL_PAGES
        changed = [self.rng.randrange(self.n_pages) for _ in range(3) if self.n_pages]
        self.keys[changed] = self.drawn(len(changed))
        return np.array(changed, dtype=np.int32)

    def recomputation(self):
        if self.is_computing or self.n_visits - self.n_computed < 7:
            return None
        self.is_computing = True
        self.n_computed = self.n_visits
        result = self.drawn(self.n_pages)
        return lambda: result

    def accept(self, result):
        self.is_computing = False
        self.n_accepted += 1
        self.keys[: len(result)] = result
        return ALL_PAGES


class RestlessWithSiteKey(Restless):
    """A custom rank of sites with many ties."""

    def site_key(self, site, best_key, n_waiting):
        return (site + 2 * best_key + n_waiting) % 3


class RestlessBySize(Restless, LargerSitesFirst):
    """Larger sites first, with changing keys within a site."""


class RestlessInTurns(Restless):
    """Two pages per site in each round."""

    site_share = 2


class RestlessHeldBack(Restless):
    """Half of the keys hold their pages back."""

    held_below = 2.0


RESTLESS = [Restless, RestlessWithSiteKey, RestlessBySize, RestlessInTurns, RestlessHeldBack]


class SlowFrontier:
    """The slow twin: everything in dicts that are searched on each call."""

    def __init__(self, frontier, limit, delay, pages_per_visit):
        self.frontier = frontier
        self.pages_per_visit = pages_per_visit
        self.now = -math.inf
        self.sites = {}
        self.states = {}
        self.priorities = {}
        self.hot = set()
        self.defaults = (limit, delay)
        self.limits = {}
        self.delays = {}
        self.times = {}
        self.held = {}
        self.visited = {}
        self.leases = Counter()
        self.turns = Counter()
        self.latest_turn = 0
        self.free_since = -1

    def site(self, page):
        if page not in self.sites:
            self.sites[page] = int(self.frontier.pages.sites[page])
        return self.sites[page]

    def limit(self, site):
        return self.limits.get(site, self.defaults[0])

    def ready_time(self, site):
        return self.times.get(site, -math.inf)

    def key(self, page):
        ordering = self.frontier.ordering
        return float(ordering.keys[page]) if page < ordering.n_pages else ordering.initial_key

    def rank(self, page):
        return -self.priorities[page], -(page in self.hot), -self.key(page), page

    def in_state(self, state):
        return sorted(page for page, found in self.states.items() if found == state)

    def waiting_of(self, site):
        """Return the waiting pages of a site, in the order in which they leave."""
        waiting = [
            page
            for page, state in self.states.items()
            if state == WAITING and self.site(page) == site
        ]
        return sorted(waiting, key=self.rank)

    def may_leave(self, site):
        """Return whether the first waiting page of a site, if it has one, is not held back."""
        for page in self.waiting_of(site)[:1]:
            is_first = 2 * self.priorities[page] + (page in self.hot) > 0
            ordering = self.frontier.ordering
            holds = ordering.held_below > -math.inf and self.free_since != ordering.n_accepted
            return is_first or not holds or self.key(page) >= ordering.held_below
        return False

    def free_sites(self):
        """Return the sites that have a page that may leave, and a free lease."""
        n_leased = Counter(self.held)
        for page, n_leases in self.leases.items():
            n_leased[self.site(page)] += n_leases
        sites = range(self.frontier.pages.n_sites)
        return [
            site for site in sites if n_leased[site] < self.limit(site) and self.may_leave(site)
        ]

    def site_rank(self, site):
        waiting = self.waiting_of(site)
        head = waiting[0]
        ordering = self.frontier.ordering
        key = ordering.site_key(site, self.key(head), len(waiting))
        visiting = self.visited.get(site, 0) > 0
        share = ordering.site_share
        at_round = self.turns[site] // share if share else 0
        return -visiting, *self.rank(head)[:2], at_round, -key, head

    def wait(self, page):
        """Queue a page; if its site has no other page, the site joins the current round."""
        site = self.site(page)
        if not self.waiting_of(site):
            share = self.frontier.ordering.site_share
            start = self.latest_turn // share * share if share else 0
            self.turns[site] = max(self.turns[site], start)
        self.states[page] = WAITING

    def end_turn(self, site):
        self.latest_turn = max(self.latest_turn, self.turns[site])
        self.turns[site] += 1

    def observe(self, visit, first, topic):
        for page in range(first, len(self.frontier.pages)):
            self.priorities.setdefault(page, 0)
            if page not in self.states:
                self.wait(page)
            shown = topic and visit.page >= 0 and page in visit.targets
            if shown and "hot" in self.frontier.pages.url(page):
                self.hot.add(page)

    def leased(self):
        """Return the leased pages, once per lease."""
        return sorted(self.leases.elements())

    def release(self, page):
        self.leases[page] -= 1
        if self.states[page] == LEASED and not self.leases[page]:
            self.states[page] = DONE

    def put_back(self, page):
        """Queue a page whose lease produced nothing, so its site has not had a turn."""
        site = self.site(page)
        turns = self.turns[site] - 1
        self.release(page)
        if self.states[page] != WAITING:
            self.wait(page)
        self.turns[site] = turns

    def add(self, page, priority):
        if self.states.get(page) == WAITING:
            self.priorities[page] = max(priority, self.priorities[page])
            return
        self.priorities[page] = priority
        self.wait(page)

    def next_page(self, now):
        self.now = max(now, self.now)
        sites = range(self.frontier.pages.n_sites)
        ordering = self.frontier.ordering
        may_change = self.leased() or ordering.is_computing or any(map(self.may_leave, sites))
        if self.in_state(WAITING) and not may_change:
            self.free_since = ordering.n_accepted
        ready = [site for site in self.free_sites() if self.ready_time(site) <= self.now]
        if not ready:
            return NO_PAGE
        site = min(ready, key=self.site_rank)
        page = self.waiting_of(site)[0]
        self.states[page] = LEASED
        self.leases[page] += 1
        self.end_turn(site)
        if self.limit(site) > 1:
            delay = self.delays.get(site, self.defaults[1])
            self.times[site] = max(self.ready_time(site), self.now + delay)
        return page

    def end_fetch(self, site, ready_at, ends_visit):
        self.visited[site] = self.visited.get(site, 0) + 1
        is_last = self.visited[site] >= self.pages_per_visit or not self.may_leave(site)
        if ends_visit or is_last:
            self.visited[site] = 0
            self.times[site] = max(self.ready_time(site), ready_at)

    def ready_at(self):
        times = [self.ready_time(site) for site in self.free_sites()]
        if any(time <= self.now for time in times):
            return 0.0
        return min(times, default=math.inf)


class Pair:
    """A frontier and its slow twin, which get the same random actions."""

    def __init__(self, ordering, seed, *, limit, pages_per_visit, topic, late, plain_until=0):
        self.rng = random.Random(seed)
        self.has_large_priorities = seed % 2 == 1
        self.pages = PageTable()
        self.topic = topic
        self.frontier = PageQueue(
            ordering,
            self.pages,
            limit=limit,
            delay=1.5,
            pages_per_visit=pages_per_visit,
            hot_queue=HotQueue(Topic("hot"), distance=0) if topic else None,
            plain_until=plain_until,
        )
        self.works = []
        if late:
            self.frontier.recompute = self.works.append
        self.twin = SlowFrontier(self.frontier, limit, 1.5, pages_per_visit)
        self.now = 0.0

    def new_page(self):
        number = len(self.pages)
        site = self.pages.site(f"s{self.rng.randrange(6)}")
        word = "hot" if self.rng.random() < 0.3 else "cold"
        return self.pages.add(str(number), f"http://s{site}/{word}/{number}", site)

    def some_site(self):
        return self.rng.randrange(self.pages.n_sites)

    def observe(self):
        rng, first = self.rng, self.frontier.ordering.n_pages
        sources = self.twin.leased() * 3 + self.twin.in_state(WAITING) + [NO_PAGE]
        page = rng.choice(sources)
        known = rng.sample(range(len(self.pages)), min(len(self.pages), rng.randrange(4)))
        new = [self.new_page() for _ in range(rng.randrange(5))]
        targets = [target for target in known + new if target != page]
        visit = Visit(page, np.array(targets, dtype=np.int32))
        self.frontier.observe(visit)
        self.twin.observe(visit, first, self.topic)

    def add(self):
        pages = [page for page, state in self.twin.states.items() if state != UNKNOWN]
        page = self.rng.choice(pages) if pages and self.rng.random() < 0.6 else self.new_page()
        priority = self.rng.choice([-1, 0, 0, 1, 5])
        if self.has_large_priorities:
            priority *= 2 ** self.rng.randrange(20, 90) + self.rng.randrange(2)
        self.frontier.add(page, priority)
        self.twin.add(page, priority)

    def add_done(self):
        """Queue some pages again that are done, as an update does, whose ordering has no turns."""
        n_known = self.frontier.ordering.n_pages
        done = [page for page in self.twin.in_state(DONE) if page < n_known]
        again = self.rng.sample(done, self.rng.randrange(len(done) + 1))
        if not self.frontier.ordering.site_share:
            others = self.twin.in_state(WAITING) + self.twin.leased()
            add_done(self.frontier, np.array(again + others, dtype=np.int64))
            self.frontier._apply_keys(ALL_PAGES)
            for page in again:
                self.twin.add(page, 0)

    def next_page(self):
        self.now += self.rng.choice([0.0, 0.0, 0.5, 1.0])
        # A clock may be read late.
        now = self.now - self.rng.choice([0.0] * 16 + [0.5, 10.0, 1e9])
        assert self.frontier.next_page(now) == self.twin.next_page(now)

    def release(self):
        leased = self.twin.leased()
        if leased:
            page = self.rng.choice(leased)
            self.frontier.release(page)
            self.twin.release(page)

    def finish(self):
        pages = [page for page in self.twin.states if not self.twin.leases[page]]
        if pages:
            page = self.rng.choice(pages)
            self.frontier.finish(page)
            if self.twin.states[page] == WAITING:
                self.twin.states[page] = DONE
                self.twin.end_turn(self.twin.site(page))

    def put_back(self):
        pages = self.twin.leased()
        if pages:
            page = self.rng.choice(pages)
            self.frontier.put_back(page)
            self.twin.put_back(page)

    def end_fetch(self):
        site = self.some_site()
        ready_at = self.now + self.rng.choice([0.0, 1.0, 3.0])
        ends_visit = self.rng.random() < 0.3
        self.frontier.end_fetch(site, ready_at, ends_visit=ends_visit)
        self.twin.end_fetch(site, ready_at, ends_visit)

    def hold(self):
        site = self.some_site()
        n_held = self.twin.held.get(site, 0)
        change = -n_held if n_held else self.rng.randrange(1, 3)
        self.frontier.hold(site, change)
        self.twin.held[site] = n_held + change

    def set_ready_at(self):
        site, until = self.some_site(), self.now + self.rng.choice([-1.0, 0.5, 2.0])
        self.frontier.set_ready_at(site, until)
        self.twin.times[site] = until

    def set_site(self):
        site, limit, delay = self.some_site(), self.rng.randrange(1, 4), self.rng.random()
        self.frontier.set_site(site, limit=limit, delay=delay)
        self.twin.limits[site], self.twin.delays[site] = limit, delay

    def accept(self):
        if self.works:
            self.frontier.accept(self.works.pop(0)())

    def burst(self):
        """Lease everything that can be leased at one point in time."""
        page = None
        while page != NO_PAGE:
            page = self.twin.next_page(self.now)
            assert self.frontier.next_page(self.now) == page

    def fetched_otherwise(self):
        """Observe a visit of any known page; if it was waiting, it no longer waits."""
        first = self.frontier.ordering.n_pages
        if first:
            visit = Visit(self.rng.randrange(first), np.empty(0, dtype=np.int32), status=404)
            self.frontier.observe(visit)
            self.twin.observe(visit, first, self.topic)

    def act(self):
        """Perform one action on both, compare everything observable, and return the action."""
        actions = [self.next_page] * 8 + [self.observe] * 6 + [self.release] * 6 + [self.add] * 3
        actions += [self.end_fetch] * 4 + [self.put_back, self.hold]
        actions += [self.set_ready_at, self.finish, self.accept]
        if self.rng.random() < 0.06:
            actions = [self.set_site, self.burst, self.fetched_otherwise, self.add_done]
        action = self.rng.choice(actions) if self.pages.n_sites else self.observe
        action()
        return action.__name__

    def compare(self):
        frontier, twin = self.frontier, self.twin
        if not frontier.is_plain:
            check_invariants(frontier)
        assert frontier.ready_at() == twin.ready_at()
        assert len(frontier) == len(twin.in_state(WAITING))
        totals = frontier._totals[0]
        assert totals["n_ready"] + totals["n_delayed"] == len(twin.free_sites())
        for page in range(len(self.pages)):
            assert frontier.state(page) == twin.states.get(page, UNKNOWN)
        for site in range(self.pages.n_sites):
            assert frontier.site_ready_at(site) == twin.ready_time(site)
            assert frontier.site_limit(site) == twin.limit(site)

    def drain(self):
        """Lease every page that still waits."""
        for site, n_held in self.twin.held.items():
            self.frontier.hold(site, -n_held)
        self.twin.held.clear()
        while self.works:
            self.accept()
        for _ in range(3 * len(self.pages)):
            for page in self.twin.leased():
                self.frontier.release(page)
                self.twin.release(page)
            self.now += 1.0
            page = self.twin.next_page(self.now)
            assert self.frontier.next_page(self.now) == page
        assert len(self.frontier) == 0


@pytest.mark.sampled(40)
@pytest.mark.parametrize("ordering", RESTLESS)
@pytest.mark.parametrize(("limit", "pages_per_visit"), [(1, 1), (1, 3), (2, 1), (3, 2)])
@pytest.mark.parametrize("topic", [False, True], ids=["no topic", "topic"])
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_a_frontier_behaves_like_its_slow_twin_under_any_actions(
    ordering, limit, pages_per_visit, topic, late
):
    for seed in range(3):
        print("seed", seed)
        pair = Pair(
            ordering(), seed, limit=limit, pages_per_visit=pages_per_visit, topic=topic, late=late
        )
        for _ in range(400 if seed == 0 and limit > 1 else 160):
            print(pair.act())
            pair.compare()
        pair.drain()


@pytest.mark.parametrize("ordering", RESTLESS)
@pytest.mark.parametrize(("limit", "pages_per_visit"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("plain_until", [25, 10**6])
def test_a_plain_queue_behaves_like_its_slow_twin_and_continues_as_a_compiled_one(
    ordering, limit, pages_per_visit, plain_until
):
    for seed in range(4):
        print("seed", seed)
        pair = Pair(
            ordering(),
            seed,
            limit=limit,
            pages_per_visit=pages_per_visit,
            topic=seed % 2 == 1,
            late=seed > 1,
            plain_until=plain_until,
        )
        assert pair.frontier.is_plain
        for _ in range(160):
            print(pair.act())
            pair.compare()
        assert pair.frontier.is_plain == (len(pair.pages) <= plain_until)
        pair.drain()


class Fixed(Ordering):
    """Keys that a test sets before the pages are discovered."""

    def __init__(self, keys=None):
        self.fixed = keys or {}

    def discover(self, first, last, visit):
        for page in range(first, last):
            self.keys[page] = self.fixed.get(page, 0.0)


def frontier_of(sites, keys=None, **options):
    """Return a frontier with one waiting page for each site named, in this order."""
    pages = PageTable()
    for number, site in enumerate(sites):
        host = f"s{site}.example"
        pages.add(str(number), f"http://{host}/{number}", pages.site(host))
    frontier = PageQueue(Fixed(keys), pages, **options)
    frontier.observe(Visit(NO_PAGE, np.arange(len(sites), dtype=np.int32)))
    return frontier


def leave(frontier, now=0.0):
    """Lease pages at one point in time until none is handed out."""
    pages = []
    while (page := frontier.next_page(now)) != NO_PAGE:
        pages.append(page)
    return pages


def leave_one_by_one(frontier, now=0.0):
    """Lease and release pages at one point in time until none is handed out."""
    pages = []
    while (page := frontier.next_page(now)) != NO_PAGE:
        pages.append(page)
        frontier.release(page)
    return pages


@pytest.mark.parametrize("plain_until", [0, 10], ids=["compiled", "plain"])
@pytest.mark.parametrize("wrong", [-1, 3, 2**40, 0.5, "0", None])
def test_ids_that_are_not_in_the_page_table_are_refused(plain_until, wrong):
    """They ended in an IndexError, or counted from the end of the table."""
    pages = PageTable()
    for n in range(3):
        pages.add(f"{n}", f"http://{n}.test/", pages.site(f"{n}.test"))
    frontier = PageQueue(make_ordering("breadth-first"), pages, plain_until=plain_until)
    for method in ("add", "put_back", "count_turn", "finish", "release"):
        with pytest.raises(GraphError, match="page"):
            getattr(frontier, method)(wrong)
    for method in ("hold", "site_limit", "site_ready_at", "set_site"):
        with pytest.raises(GraphError, match="site"):
            getattr(frontier, method)(wrong)
    for method in ("end_fetch", "set_ready_at"):
        with pytest.raises(GraphError, match="site"):
            getattr(frontier, method)(wrong, 1.0)
    if isinstance(wrong, int):
        with pytest.raises(GraphError, match="targets"):
            frontier.observe(Visit(0, np.array([0, min(wrong, 2**31 - 1)], np.int32)))
    assert frontier.next_page(0.0) == NO_PAGE
    check_invariants(frontier)


SECONDS = 1_790_000_000
DATES = random.Random(3).sample(range(SECONDS - 10**9, SECONDS), 400)
PRIORITIES = {
    "seconds": [SECONDS - n for n in (5, 3, 1, 4, 2)],
    "nanoseconds": [date * 10**9 for date in DATES],
    "descending": [SECONDS * 1000 - 86_400_000 * n for n in range(400)],
    "negative": [-(10**12) + n for n in (5, 3, 1, 4, 2)] + [-date for date in DATES],
    "64 bits": [2**63 - 1, 2**62, 2**62 + 1, -(2**63), 2**31, 2**30, 2**30 - 1, 2**29, 0, -1],
    "more bits": [2**64 + n for n in (3, 1, 2)] + [10**30, -(10**300), 10**300],
    "any": [sign * (2**n + n % 3) for n in range(20, 300) for sign in (1, -1)],
    "inward": [2**62 + sign * 2**60 // 2**n for n in range(60) for sign in (1, -1)],
}


@pytest.mark.parametrize("plain_until", [0, 10**6], ids=["compiled", "plain"])
@pytest.mark.parametrize("priorities", PRIORITIES.values(), ids=PRIORITIES)
@pytest.mark.parametrize("n_sites", [1, 7])
def test_priorities_of_any_size_leave_in_order_and_are_shown_as_they_are(
    priorities, plain_until, n_sites
):
    priorities = random.Random(len(priorities)).sample(priorities, len(priorities))
    sites = [n % n_sites for n in range(len(priorities))]
    frontier = frontier_of(sites, limit=len(sites), plain_until=plain_until)
    leave_one_by_one(frontier)
    for page, priority in enumerate(priorities):
        frontier.add(page, priority)
    assert [frontier.request_rank(page) for page in range(len(sites))] == [
        (priority, False) for priority in priorities
    ]
    if not plain_until:
        check_invariants(frontier)
    best_first = sorted(range(len(sites)), key=lambda page: (-priorities[page], page))
    assert frontier.upcoming(len(sites)) == best_first
    assert leave(frontier) == best_first


def test_no_priority_comes_before_pages_in_flight_when_the_crawl_was_killed():
    frontier = frontier_of([0, 0, 0])
    frontier.add(0, 2**29 + 1)
    frontier.add(1, FIRST)
    frontier.add(2, 10**300)
    assert leave_one_by_one(frontier) == [1, 2, 0]


@pytest.mark.parametrize("plain_until", [0, 10], ids=["compiled", "plain"])
def test_priorities_between_two_others_never_run_out(plain_until):
    """Each is in the middle of the last two, which leaves no number after thirty."""
    frontier = frontier_of([0] * 10, limit=10, plain_until=plain_until)
    low, high = 2**100, 2**200
    leave_one_by_one(frontier)
    for _ in range(500):
        low, high = low + (high - low) // 3, high - (high - low) // 3
        frontier.add(0, low)
        frontier.add(1, high)
        frontier.add(2, low - 1)
        frontier.add(3, high + 1)
        assert leave_one_by_one(frontier) == [3, 1, 0, 2]


def test_a_crawl_of_ten_thousand_sites_grows_all_arrays_and_loses_nothing():
    rng = random.Random(5)
    pages = PageTable()
    frontier = PageQueue(make_ordering("random"), pages)
    n_pages = 25_000
    for first in range(0, n_pages, 250):
        for number in range(first, first + 250):
            pages.add(str(number), "", pages.site(str(rng.randrange(10_000))))
        frontier.observe(Visit(NO_PAGE, np.arange(first, first + 250, dtype=np.int32)))
    keys = frontier.ordering.keys[:n_pages]
    assert leave_one_by_one(frontier) == np.argsort(-keys, kind="stable").tolist()


def test_sites_keep_their_delay_and_turn_while_others_are_discovered():
    pages = PageTable()
    frontier = PageQueue(Fixed({number: float(number) for number in range(1000)}), pages)
    expected = []
    for first in range(0, 1000, 100):
        for number in range(first, first + 100):
            pages.add(str(number), "", pages.site(str(number)))
        frontier.observe(Visit(NO_PAGE, np.arange(first, first + 100, dtype=np.int32)))
        for number in range(first, first + 100, 2):
            frontier.set_ready_at(number, 1.0 + number)
        check_invariants(frontier)
        expected = [*range(first + 99, first, -2), *expected]
    assert [frontier.next_page(0.0) for _ in expected] == expected
    assert [frontier.next_page(1.0 + number) for number in range(0, 1000, 2)] == [
        *range(0, 1000, 2)
    ]


def test_pages_added_one_by_one_leave_the_first_of_a_site_few_children():
    keys = np.random.default_rng(6).random(20_000)
    frontier = frontier_of([0] * len(keys), dict(enumerate(keys.tolist())))
    for expected in np.argsort(-keys)[:3].tolist():
        page = int(frontier._pages["child"][frontier._sites["head"][0]])
        n_children = 0
        while page != NONE:
            n_children += 1
            page = int(frontier._pages["next"][page])
        assert n_children <= 3 * math.log2(len(keys))
        assert frontier.next_page(0.0) == expected
        frontier.release(expected)
    check_invariants(frontier)


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
