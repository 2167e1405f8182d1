"""Contract tests for implementations of the `Frontier` protocol; only to run them takes pytest."""

from __future__ import annotations

import math
import random
from functools import partial
from time import monotonic
from typing import Any

from crawlprio.frontier.protocol import Frontier, LeasedPage, PageVisit, QueueEntry
from crawlprio.items import LinkPairs

SEEDS = range(4)
"""Of the random tests, which print theirs."""


def entry(url: str, **said: Any) -> QueueEntry:
    return QueueEntry(identity=url, url=url, site=url.split("/")[2], **said)


def page(number: int, site: str = "a.test") -> str:
    return f"http://{site}/{number}"


def lease(frontier: Frontier, now: float = 0.0) -> LeasedPage:
    """Lease the next page; there must be one."""
    leased_page = frontier.next_page(now)
    assert leased_page is not None
    return leased_page


def visit(*targets: str, **said: Any) -> PageVisit:
    return PageVisit(LinkPairs("", list(targets)), **said)


def leave(frontier: Frontier, now: float = 0.0) -> list[str]:
    """Lease and observe pages without links until none leaves."""
    urls = []
    while (leased_page := frontier.next_page(now)) is not None:
        urls.append(leased_page.url)
        frontier.observe(leased_page.lease, visit())
    return urls


class FrontierContract:
    """What every frontier does. Derive a test class, and define `make_frontier`; pytest runs it.

    ```python
    class TestMyFrontier(FrontierContract):
        def make_frontier(self, settings):
            return MyFrontier(settings)
    ```

    The tests call a frontier from one thread, and expect the answer of each call, with what the
    earlier ones did, when it returns. Make a frontier that answers later wait for its answers.
    """

    def make_frontier(self, settings: dict[str, Any]) -> Frontier:
        """Return a new, empty frontier.

        Parameters
        ----------
        settings
            Settings of the crawl: always `ORDERING` and `DOWNLOAD_DELAY`, and some of
            `CONCURRENT_REQUESTS` and `CONCURRENT_REQUESTS_PER_DOMAIN`.
        """
        raise NotImplementedError("define make_frontier(self, settings) in your test class")

    def make(self, **settings: Any) -> Frontier:
        """Return a new frontier, which is closed after the test."""
        made: list[Frontier] = self.__dict__.setdefault("_made", [])
        made.append(
            self.make_frontier({"ORDERING": "breadth-first", "DOWNLOAD_DELAY": 0, **settings})
        )
        return made[-1]

    def teardown_method(self) -> None:
        for frontier in self.__dict__.pop("_made", []):
            frontier.close()

    def test_pages_leave_by_priority_and_then_in_order_of_discovery(self) -> None:
        frontier = self.make()
        frontier.add(entry(page(1)))
        frontier.add(entry(page(2), priority=-1))
        frontier.add(entry(page(3), priority=5))
        frontier.add(entry(page(4)))
        assert len(frontier) == 4
        assert leave(frontier) == [page(3), page(1), page(4), page(2)]
        assert len(frontier) == 0

    def test_a_start_request_enters_while_no_page_can_be_fetched(self) -> None:
        frontier = self.make()
        enters_at = partial(frontier.start_enters_at, "a.test", 0, 1, can_lease=True)
        assert enters_at() == -math.inf
        frontier.add(entry(page(1)))
        assert enters_at() == math.inf
        leased_page = lease(frontier)
        assert enters_at() == -math.inf
        frontier.observe(leased_page.lease, visit())

    def test_a_page_waits_once_unless_a_request_repeats_it(self) -> None:
        frontier = self.make()
        assert frontier.add(entry(page(1))) in (True, None)
        assert frontier.add(entry(page(1))) in (False, None)
        assert leave(frontier) == [page(1)]
        assert frontier.add(entry(page(1))) in (False, None)
        assert leave(frontier) == []
        assert frontier.add(entry(page(1), repeats=True)) in (True, None)
        assert leave(frontier) == [page(1)]

    def test_requests_for_one_page_wait_side_by_side_and_leave_by_priority(self) -> None:
        frontier = self.make(CONCURRENT_REQUESTS_PER_DOMAIN=8)
        for number, priority in enumerate((0, 3, 1)):
            body = str(number).encode()
            frontier.add(entry(page(1), request=body, priority=priority, repeats=True))
        assert len(frontier) == 3
        leased_pages = [lease(frontier) for _ in range(3)]
        assert [leased_page.request for leased_page in leased_pages] == [b"1", b"2", b"0"]
        assert frontier.next_page(0.0) is None
        frontier.add(entry(page(1), request=b"3", repeats=True))
        for leased_page in leased_pages:
            frontier.observe(leased_page.lease, visit())
        assert len(frontier) == 1
        assert lease(frontier).request == b"3"

    def test_links_wait_in_page_order_once_each(self) -> None:
        frontier = self.make(CONCURRENT_REQUESTS=1)
        frontier.add_seeds([page(0), page(1), page(0)])
        assert len(frontier) == 2
        first = lease(frontier)
        assert (first.url, first.request, first.depth) == (page(0), None, 0)
        frontier.observe(first.lease, visit(page(5), page(1), page(0), page(4)))
        assert frontier.n_links == 4
        second = lease(frontier)
        frontier.observe(second.lease, visit(page(4), page(5)))
        third = lease(frontier)
        assert (third.url, third.depth) == (page(5), 1)
        frontier.observe(third.lease, visit())
        assert leave(frontier) == [page(4)]

    def test_links_that_were_added_as_requests_are_evidence_and_not_new_pages(self) -> None:
        frontier = self.make(ORDERING="backlink-count")
        for number in range(3):
            frontier.add(entry(page(number)))
        first = lease(frontier)
        links = visit(page(2), page(9), links_are_entries=True)
        frontier.observe(first.lease, links)
        assert leave(frontier) == [page(2), page(1)]

    def test_a_site_hands_out_its_next_page_when_the_last_is_observed_or_released(self) -> None:
        frontier = self.make(CONCURRENT_REQUESTS_PER_DOMAIN=1)
        for number in range(3):
            frontier.add(entry(page(number)))
        frontier.add(entry(page(0, "b.test")))
        first, other = lease(frontier), lease(frontier)
        assert (first.url, other.url) == (page(0), page(0, "b.test"))
        assert frontier.next_page(0.0) is None
        assert frontier.ready_at() == math.inf
        frontier.release_site(first.lease)
        second = lease(frontier)
        assert second.url == page(1)
        frontier.observe(first.lease, visit())
        assert frontier.next_page(0.0) is None
        frontier.observe(second.lease, visit())
        assert lease(frontier).url == page(2)

    def test_a_page_put_back_waits_where_it_was_with_the_given_request(self) -> None:
        frontier = self.make(CONCURRENT_REQUESTS_PER_DOMAIN=1)
        for number in range(3):
            frontier.add(entry(page(number)))
        frontier.put_back(lease(frontier).lease, b"again")
        leased_page = lease(frontier)
        assert (leased_page.url, leased_page.request) == (page(0), b"again")
        frontier.put_back(leased_page.lease, b"later", -3)
        assert lease(frontier).url == page(0), "a priority can only be raised"
        assert len(frontier) == 2

    def test_a_released_lease_can_be_put_back(self) -> None:
        frontier = self.make(CONCURRENT_REQUESTS_PER_DOMAIN=1)
        frontier.add(entry(page(0)))
        frontier.add(entry(page(1)))
        first = lease(frontier)
        frontier.release_site(first.lease)
        second = lease(frontier)
        frontier.put_back(first.lease, b"retry")
        assert frontier.next_page(0.0) is None
        frontier.observe(second.lease, visit())
        assert lease(frontier).request == b"retry"

    def test_a_sites_delay_runs_from_the_end_of_a_fetch(self) -> None:
        frontier = self.make(CONCURRENT_REQUESTS_PER_DOMAIN=1, DOWNLOAD_DELAY=1000)
        frontier.add(entry(page(0)))
        frontier.add(entry(page(1)))
        leased_page = lease(frontier, monotonic())
        frontier.clock.started("a.test", was_handed_out=True)
        before = monotonic()
        frontier.clock.ended(
            "a.test", was_handed_out=True, elapsed=0.1, status=200, retry_after=None
        )
        frontier.observe(leased_page.lease, visit())
        assert frontier.next_page(monotonic()) is None
        assert before + 1000 <= frontier.ready_at() <= monotonic() + 1000
        assert lease(frontier, before + 2000).url == page(1)

    def test_a_page_that_is_not_fetched_costs_its_site_no_delay(self) -> None:
        frontier = self.make(CONCURRENT_REQUESTS_PER_DOMAIN=2, DOWNLOAD_DELAY=1000)
        for number in range(3):
            frontier.add(entry(page(number)))
        now = monotonic()
        first = lease(frontier, now)
        assert frontier.next_page(now) is None
        frontier.clock.not_fetched("a.test")
        frontier.observe(first.lease, visit())
        second = lease(frontier, now)
        frontier.clock.started("a.test", was_handed_out=True)
        assert second.url == page(1)
        assert frontier.next_page(now) is None

    def test_random_actions_have_the_effect_they_have_on_a_list_of_pages(self) -> None:
        """Breadth-first on one site at a time: the slow twin is a list in order of discovery."""
        for seed in SEEDS:
            self._act_as_a_list(seed)

    def _act_as_a_list(self, seed: int) -> None:
        print("seed", seed)
        rng = random.Random(seed)
        frontier = self.make(CONCURRENT_REQUESTS_PER_DOMAIN=1)
        waiting: dict[str, list[tuple[int, str]]] = {}
        known: dict[str, int] = {}
        leased: dict[str, LeasedPage] = {}

        def found(url: str) -> None:
            if url not in known:
                known[url] = len(known)
                waiting.setdefault(url.split("/")[2], []).append((known[url], url))

        for _ in range(120):
            some = [page(rng.randrange(40), f"{rng.choice('abc')}.test") for _ in range(3)]
            action = rng.choice(["add", "next", "next", "next", "observe", "observe", "put_back"])
            if action == "add":
                frontier.add(entry(some[0]))
                found(some[0])
            elif action == "next":
                free = [pages for site, pages in waiting.items() if pages and site not in leased]
                expected = min((min(pages) for pages in free), default=None)
                leased_page = frontier.next_page(0.0)
                assert (leased_page and leased_page.url) == (expected and expected[1])
                if leased_page is not None and expected is not None:
                    site = leased_page.url.split("/")[2]
                    waiting[site].remove(expected)
                    leased[site] = leased_page
            elif leased:
                site = rng.choice(sorted(leased))
                leased_page = leased.pop(site)
                if action == "observe":
                    frontier.observe(leased_page.lease, visit(*dict.fromkeys(some)))
                    for url in dict.fromkeys(some):
                        found(url)
                else:
                    frontier.put_back(leased_page.lease)
                    waiting[site].append((known[leased_page.url], leased_page.url))
            assert len(frontier) == sum(map(len, waiting.values()))

    def test_a_request_marked_as_a_duplicate_is_dropped(self) -> None:
        for seed in SEEDS:
            self._add_duplicates(seed)

    def _add_duplicates(self, seed: int) -> None:
        print("seed", seed)
        rng = random.Random(seed)
        frontier = self.make()
        leased_pages: list[LeasedPage] = []
        for number in range(120):
            url = page(rng.randrange(8), f"{rng.choice('abc')}.test")
            action = rng.choice(["add", "add", "next", "observe", "put_back"])
            if action == "add":
                was_duplicate = frontier.is_duplicate(url)
                repeats = rng.random() < 0.2
                is_kept = frontier.add(entry(url, request=b"%d" % number, repeats=repeats))
                assert repeats or is_kept is None or was_duplicate == (not is_kept)
            elif action == "next":
                leased_page = frontier.next_page(0.0)
                leased_pages += [] if leased_page is None else [leased_page]
            elif leased_pages:
                leased_page = leased_pages.pop(rng.randrange(len(leased_pages)))
                if action == "observe":
                    links = [page(rng.randrange(8), f"{rng.choice('abc')}.test") for _ in range(2)]
                    frontier.observe(leased_page.lease, visit(*dict.fromkeys(links)))
                else:
                    frontier.put_back(leased_page.lease)
