"""Waiting pages take little memory: hashes for URLs, a limit on pages, requests on disk."""

import random
import tracemalloc
from pathlib import Path

import pytest
from crawls import BREADTH_FIRST, page, run_spider
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler
from spiders import Pairing
from stores import visit

from crawlprio.frontier import PageQueue
from crawlprio.frontier.protocol import PageVisit
from crawlprio.frontier.struct_layouts import UNKNOWN, WAITING
from crawlprio.graph import compiled
from crawlprio.graph.pages import NO_PAGE, PageTable
from crawlprio.items import LinkPairs
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.orderings import make_ordering
from crawlprio.orderings.base import Ordering
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store import Store, StoredPages, stored_pages
from crawlprio.store.hashtable import HashTable
from crawlprio.store.transactions import Checkpoints


class TestHashTable:
    @given(
        st.lists(
            st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=400),
            max_size=8,
        )
    )
    @settings(deadline=None)
    @pytest.mark.parametrize("plain_until", [0, 500, 10**6])
    def test_it_finds_what_a_dictionary_finds(self, plain_until, runs):
        table, twin = HashTable(plain_until), dict[int, int]()
        first = 0
        for run in runs:
            taken = []
            for at, hashed in enumerate(run):
                if twin.setdefault(hashed, first + at) != first + at:
                    taken.append(at)
            assert table.add_run(run, first) == taken
            first += len(run)
            assert len(table) == len(twin)
            asked = [*run, 7, -7]
            assert table.find_all(asked) == [twin.get(hashed, -1) for hashed in asked]
            assert [table.find(hashed) for hashed in asked] == table.find_all(asked)

    @pytest.mark.parametrize("shift", [0, 20, 44])
    def test_hashes_that_differ_in_few_bits_stay_apart_while_the_table_grows(self, shift):
        table = HashTable(plain_until=0)
        hashes = [number << shift for number in range(5000)]
        assert all(table.add(hashed, number) for number, hashed in enumerate(hashes))
        assert not table.add(hashes[17], 1)
        assert table.find_all(hashes) == list(range(5000))


class TestStoredPages:
    @pytest.mark.parametrize("n_hashes", [1, 40, 10**9])
    def test_pages_are_found_as_in_memory_whatever_their_hashes(self, path, monkeypatch, n_hashes):
        monkeypatch.setattr(stored_pages, "REMEMBERED", 20)
        rng = random.Random(n_hashes)
        twin = PageTable()
        store = Store.create(path)

        def hash_of(identity):
            looked_up, compared = hash(identity) % n_hashes, hash(identity) % 2**64
            return looked_up.to_bytes(8, "little") + compared.to_bytes(8, "little")

        monkeypatch.setattr(stored_pages, "KeyedHash", lambda: hash_of)
        pages = StoredPages(store.read_urls)
        for step in range(120):
            for _ in range(rng.randrange(5)):
                url = f"http://site{rng.randrange(4)}.example/{rng.randrange(400)}"
                identity = f"POST {url}" if rng.random() < 0.2 else url
                assert pages.find(identity) == twin.find(identity)
                if twin.find(identity) == NO_PAGE:
                    host = url.split("/")[2]
                    for table in (pages, twin):
                        table.add(identity, url, table.site(host), step)
                elif rng.random() < 0.1 and twin.find("also " + identity) == NO_PAGE:
                    for table in (pages, twin):
                        table.alias("also " + identity, twin.find(identity))
            asked = [f"http://site{n % 4}.example/{rng.randrange(400)}" for n in range(20)]
            asked += ["POST " + asked[0], "also " + asked[1], "also POST " + asked[2]]
            assert pages.find_all(asked) == twin.find_all(asked)
            some = [rng.randrange(len(twin)) for _ in range(10) if len(twin)]
            assert pages.urls(some) == twin.urls(some)
            assert [pages.url(page) for page in some] == twin.urls(some)
            if step % 10 == 0:
                assert [pages.url(page) for page in range(len(twin))] == twin.urls(range(len(twin)))
            assert pages.n_identities == twin.n_identities
            if rng.random() < 0.6 and len(twin):
                store.record(visit(rng.randrange(len(twin))), pages)
        store.record_pages(pages)
        store.close()
        with Store.open(path) as store:
            for back in (store.stored_pages(), store.load_pages()):
                assert back.urls(range(len(back))) == twin.urls(range(len(twin)))
                assert back.find_all(twin._ids) == list(twin._ids.values())
                assert back.sites.tolist() == twin.sites.tolist()
                assert back.depths.tolist() == twin.depths.tolist()
                assert back.n_identities == twin.n_identities
                assert [back.site_size(site) for site in range(back.n_sites)] == [
                    twin.site_size(site) for site in range(twin.n_sites)
                ]

    def test_urls_are_read_after_the_store_is_closed(self, path, monkeypatch):
        monkeypatch.setattr(stored_pages, "REMEMBERED", 0)
        with Store.create(path) as store:
            pages = store.stored_pages()
            site = pages.site("a.example")
            for url in ("http://a.example/1", "http://a.example/2"):
                pages.add(url, url, site)
                store.record_pages(pages)
            pages.add("http://a.example/3", "http://a.example/3", site)
            store.record_pages(pages)
        assert [pages.url(page) for page in (0, 1, 2)] == [
            "http://a.example/1",
            "http://a.example/2",
            "http://a.example/3",
        ]
        assert pages.urls([1, 0]) == ["http://a.example/2", "http://a.example/1"]

    def test_a_page_takes_less_than_150_bytes_of_memory_however_long_its_url(
        self, path, monkeypatch
    ):
        monkeypatch.setattr(stored_pages, "REMEMBERED", 100)
        n_pages, n_links = 30_000, 20
        compiled.load()
        with Store.create(path) as store:
            pages = store.stored_pages()
            frontier = PageQueue(make_ordering("opic"), pages)
            site = pages.site("a.example")
            page = pages.add("seed", "seed", site)
            store.record(visit(NO_PAGE, 0), pages)
            frontier.observe(visit(NO_PAGE, 0))
            tracemalloc.start()
            try:
                for first in range(1, n_pages, n_links):
                    page = frontier.next_page(0.0)
                    for number in range(first, first + n_links):
                        url = f"http://a.example/{number}/".ljust(600, "x")
                        pages.add(url, url, site)
                    shown = visit(page, *range(first, first + n_links))
                    store.record(shown, pages)
                    frontier.observe(shown)
                    frontier.release(page)
                taken, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert len(frontier) > 0.9 * n_pages
        assert taken / n_pages < 150

    def test_a_table_that_another_store_reads_is_refused(self, tmp_path):
        with Store.create(tmp_path / "a") as first, Store.create(tmp_path / "b") as second:
            pages = first.stored_pages()
            pages.add("http://a.example/", "http://a.example/", pages.site("a.example"))
            first.record_pages(pages)
            with pytest.raises(ValueError, match="own store"):
                second.record_pages(pages)


def test_the_log_starts_over_after_a_checkpoint(path):
    with Store.create(path) as store:
        pages = PageTable()
        pages.add("seed", "seed", pages.site("a.example"))
        checkpoints = store._checkpoints = Checkpoints(path, store._db, visits=40)
        sizes = []
        for _ in range(5):
            while checkpoints._thread is None:
                store.record(visit(0), pages)
            checkpoints._thread.join()
            store.record(visit(0), pages)
            assert checkpoints._thread is None
            sizes.append(Path(f"{path}-wal").stat().st_size)
        # The index on visited pages makes a later visit write one more page of the file.
        assert sizes[-1] < 2 * sizes[0]
        assert store.n_visits == len(list(store.visits(history=True)))


class Drawn(Ordering):
    """Keys with few values, redrawn for the pages that a visit links to."""

    def __init__(self, seed):
        self.seed = seed

    def open(self, pages, truth=None):
        super().open(pages, truth)
        self.rng = random.Random(self.seed)

    def discover(self, first, last, visit):
        for number in range(first, last):
            self.keys[number] = self.rng.randrange(6)

    def observe(self, visit):
        for target in visit.targets:
            self.keys[target] = self.rng.randrange(6)
        return visit.targets


class SlowBuffer:
    """The slow twin: which pages wait, by the documented rule."""

    def __init__(self, capacity, keys):
        self.capacity = capacity
        self.key = keys
        self.known = []
        self.kept = set()
        self.visited = set()
        self.dropped = set()
        self.last = (0.0, 0)
        self.n_at_next_drop = 0

    def rank(self, number):
        return self.key(number), -number

    def n_open(self):
        return len(self.known) - len(self.visited) - len(self.dropped)

    def observe(self, shown, n_pages):
        new = range(len(self.known), n_pages)
        self.known.extend(new)
        if shown.page == NO_PAGE:
            self.kept.update(new)
        else:
            self.dropped.discard(shown.page)
            self.visited.add(shown.page)
        for target in shown.targets.tolist():
            has_room = self.n_open() < self.capacity or self.rank(target) > self.last
            if target in self.dropped and has_room:
                self.dropped.discard(target)
        slack = max(self.capacity // 10, 1)
        if self.n_open() > max(self.capacity + slack, self.n_at_next_drop):
            never = self.kept | self.visited | self.dropped
            least = sorted((n for n in self.known if n not in never), key=self.rank)
            least = least[: self.n_open() - self.capacity]
            self.dropped.update(least)
            self.n_at_next_drop = self.n_open() + slack
            if least:
                self.last = self.rank(least[-1])

    def waiting(self):
        return [n for n in self.known if n not in self.visited and n not in self.dropped]


def crawl_within(capacity, seed, n_in_flight):
    """A random crawl under a limit, compared with the slow twin after each visit."""
    rng = random.Random(seed)
    pages = PageTable()
    frontier = PageQueue(Drawn(seed), pages, limit=2, max_waiting=capacity)
    twin = SlowBuffer(capacity, lambda number: float(frontier.ordering.keys[number]))

    def add():
        number = len(pages)
        return pages.add(str(number), str(number), pages.site(f"s{rng.randrange(5)}"))

    shown = visit(NO_PAGE, *(add() for _ in range(7)))
    visits, leased = [shown], list[int]()
    frontier.observe(shown)
    twin.observe(shown, len(pages))
    for _ in range(250):
        while len(leased) < n_in_flight and (found := frontier.next_page(0.0)) != NO_PAGE:
            leased.append(found)
        source = leased.pop(rng.randrange(len(leased)))
        links = rng.sample(range(len(pages)), min(len(pages), 6))
        links = [link for link in links if link != source] + [add() for _ in range(3)]
        shown = visit(source, *links)
        visits.append(shown)
        frontier.observe(shown)
        frontier.release(source)
        twin.observe(shown, len(pages))
        waiting = [n for n in range(len(pages)) if frontier.state(n) == WAITING]
        assert waiting == [n for n in twin.waiting() if n not in leased]
        assert frontier.n_dropped == len(twin.dropped)
        assert len(frontier) == len(waiting)
        if leased and rng.random() < 0.1:
            given_back = leased.pop()
            frontier.put_back(given_back)
            assert (frontier.state(given_back) == WAITING) == (given_back not in twin.dropped)
    assert len(pages) - len(twin.visited) > 2 * capacity
    return frontier, visits


@pytest.mark.parametrize("n_in_flight", [1, 6])
@pytest.mark.parametrize("capacity", [3, 20, 110])
def test_the_least_promising_pages_are_dropped_as_the_rule_says(capacity, n_in_flight):
    for seed in range(4):
        print("seed", seed)
        crawl_within(capacity, seed, n_in_flight)


def test_a_dropped_page_waits_and_stays_if_a_request_for_it_arrives():
    pages = PageTable()
    for number in range(60):
        pages.add(str(number), str(number), pages.site("s"))
    frontier = PageQueue(make_ordering("breadth-first"), pages, max_waiting=10)
    frontier.observe(visit(NO_PAGE, 0), 1)
    frontier.next_page(0.0)
    frontier.observe(visit(0, *range(1, 40)), 40)
    frontier.release(0)
    assert [n for n in range(40) if frontier.state(n) == WAITING] == list(range(1, 11))
    assert frontier.n_dropped == 29
    frontier.add(30)
    frontier.observe(visit(frontier.next_page(1.0), *range(40, 60)), 60)
    assert frontier.state(30) == WAITING
    assert frontier.state(31) == UNKNOWN


def opened(folder, **chosen):
    crawler = get_crawler(settings_dict={"JOBDIR": str(folder), **chosen})
    config = CrawlConfig.from_settings(crawler.settings)
    recorder = Recorder(config, Identities(crawler))
    frontier = LocalFrontier(config, recorder)
    recorder.open()
    return recorder, frontier


@pytest.mark.parametrize("ordering", ["opic", "breadth-first", "backlink-count", "location"])
def test_a_resumed_crawl_has_dropped_the_same_pages(tmp_path, ordering):
    rng = random.Random(3)
    chosen = {"ORDERING": ordering, "CRAWLPRIO_MAX_WAITING": 50}
    recorder, frontier = opened(tmp_path, **chosen)
    frontier.add_seeds(["http://s0.test/"])
    for _ in range(60):
        leased_page = frontier.next_page(0.0)
        links = [f"http://s{n % 7}.test/{'d/' * (n % 4)}{n}" for n in rng.sample(range(900), 9)]
        frontier.observe(leased_page.lease, PageVisit(LinkPairs(leased_page.url, links)))

    def now(recorder, frontier):
        states = [frontier.queue.state(page) for page in range(len(recorder.pages))]
        counts = recorder.figures.n_fetched, recorder.figures.n_unique
        return states, len(frontier), frontier.queue.n_dropped, *counts

    assert frontier.queue.n_dropped > 50
    before = now(recorder, frontier)
    recorder.close()
    recorder, frontier = opened(tmp_path, **chosen)
    assert now(recorder, frontier) == before
    order = []
    while (leased_page := frontier.next_page(0.0)) is not None:
        order.append(leased_page.url)
        frontier.release_site(leased_page.lease)
    assert len(order) == before[1]
    recorder.close()


def test_the_end_table_says_how_many_pages_wait_and_were_dropped():
    links = {f"/{n}": page(*(f"/{40 * n + m}" for m in range(1, 41))) for n in range(1, 9)}

    chosen = {
        **BREADTH_FIRST,
        "CRAWLPRIO_MAX_WAITING": 30,
        "CLOSESPIDER_PAGECOUNT": 6,
    }
    run = run_spider(Pairing, chosen, site={"/": page(*links), **links})
    stats = run.crawler.stats.get_stats()
    assert stats["crawlprio/pages_known"] == sum(
        (stats["crawlprio/pages_waiting"], stats["crawlprio/pages_dropped"], len(run.site.paths()))
    )
    assert stats["crawlprio/pages_waiting"] <= 33
    assert stats["crawlprio/pages_dropped"] > 100


class Poster(Spider):
    """Sends twenty POST requests, which wait while the first response is read."""

    name = "poster"
    start_urls = ("http://a.test/",)

    def parse(self, response):
        for n in range(20):
            yield Request(
                f"http://a.test/{n}",
                self.parse_post,
                method="POST",
                body=f"body {n}",
                cb_kwargs={"number": n},
            )

    def parse_post(self, response, number):
        frontier = CrawlContext.of(self.crawler).frontier
        yield {
            "number": number,
            "body": response.request.body.decode(),
            "held": len(frontier._requests._heaps),
            "waiting": len(frontier),
        }


@pytest.mark.parametrize("with_jobdir", [True, False])
def test_waiting_requests_are_on_disk_if_there_is_a_job_directory(tmp_path, with_jobdir):
    chosen = {**BREADTH_FIRST}
    if with_jobdir:
        chosen |= {"JOBDIR": str(tmp_path / "job"), "CRAWLPRIO_STORE": "crawl.sqlite"}
    run = run_spider(Poster, chosen, site={"/": page(), **{f"/{n}": page() for n in range(20)}})
    assert [(item["number"], item["body"]) for item in run.items] == [
        (n, f"body {n}") for n in range(20)
    ]
    assert [item["waiting"] for item in run.items] == list(reversed(range(20)))
    held = [0] * 20 if with_jobdir else list(reversed(range(20)))
    assert [item["held"] for item in run.items] == held
