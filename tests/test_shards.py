"""What brains of one crawl tell each other, in one process: order, mass, resume, merged stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from scrapy.utils.test import get_crawler

from crawlprio.frontier.protocol import PageVisit
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.synthetic import synthetic_web
from crawlprio.items import LinkPairs
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.live.workers import LinksOut, Shard
from crawlprio.plugins.shared.collect import merge
from crawlprio.plugins.shared.shards import FACTS, Outbox, Shards
from crawlprio.settings_table.config import CrawlConfig

N_SHARDS = 3

SHARDS = Shards(N_SHARDS, "secret")


@pytest.fixture(scope="module")
def web() -> LinkGraph:
    return synthetic_web(400, 24, seed=5)


def url_of(web: LinkGraph, page: int) -> str:
    return f"http://s{web.site[page]}.test/{page}"


def page_of(url: str) -> int:
    return int(url.rpartition("/")[2])


class Brains:
    """The frontiers of all shards, with stores in a folder; messages arrive at once."""

    def __init__(
        self, web: LinkGraph, folder: Path, ordering: str, shards: Shards = SHARDS
    ) -> None:
        self.web, self.folder, self.ordering, self.shards = web, folder, ordering, shards
        self.each = [self._open(shard) for shard in range(len(shards))]
        self.order: list[int] = []
        self.in_flight: list[tuple[int, LinksOut]] = []
        self.told: dict[tuple[int, str], int] = {}
        self.now = 0.0

    def path(self, shard: int) -> Path:
        return self.folder / str(shard) / "crawl.sqlite"

    def _open(self, shard: int) -> LocalFrontier:
        settings = {
            **{"ORDERING": self.ordering, "DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS": 1},
            **{"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "CRAWLPRIO_STORE": "crawl.sqlite"},
            "JOBDIR": str(self.folder / str(shard)),
        }
        crawler = get_crawler(settings_dict=settings)
        recorder = Recorder(
            CrawlConfig.from_settings(crawler.settings),
            Identities(crawler),
            shard=Shard(self.shards.of, shard),
        )
        frontier = LocalFrontier(recorder._config, recorder)
        recorder.open()
        assert recorder.store is not None
        recorder.store.set_meta(FACTS, f'{{"shards": {self.shards.facts()}}}'.replace("'", '"'))
        return frontier

    def seed(self, *pages: int) -> None:
        for page in pages:
            url = url_of(self.web, page)
            self.each[self.shards.of(f"s{self.web.site[page]}.test")].add_seeds([url])

    def fetch(self, *, delivers: bool = True) -> bool:
        """Fetch the page that ranks first in all shards; return False if none waits."""
        self.now += 1.0
        heads = [(each.queue.head(self.now), -at) for at, each in enumerate(self.each)]
        best = max(((head, at) for head, at in heads if head is not None), default=None)
        if best is None:
            return False
        frontier = self.each[-best[1]]
        handout = frontier.next_page(self.now)
        assert handout is not None
        page = page_of(handout.url)
        self.order.append(page)
        targets = [url_of(self.web, to) for to in self.web.out_links(page).tolist()]
        frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, targets)))
        self.in_flight += frontier.links_out
        frontier.links_out.clear()
        if delivers:
            self.deliver()
        return True

    def deliver(self) -> None:
        for shard, links in self.in_flight:
            self.each[shard].take_links(links)
            self.told[shard, links.url.split("/")[2]] = links.site_visits + 1
        self.in_flight.clear()

    def keys(self) -> dict[int, float]:
        """Return the key of each page in its own shard."""
        found = {}
        for shard, frontier in enumerate(self.each):
            pages = frontier._recorder.pages
            for page in range(frontier.queue.ordering.n_pages):
                if self.shards.of(pages.host(int(pages.sites[page]))) == shard:
                    found[page_of(pages.url(page))] = float(frontier.queue.ordering.keys[page])
        return found

    def reopen(self) -> Brains:
        for frontier in self.each:
            frontier.close()
            frontier._recorder.close()
        again = Brains(self.web, self.folder, self.ordering, self.shards)
        again.order, again.now, again.told = self.order, self.now, self.told
        return again

    def close(self) -> None:
        for frontier in self.each:
            frontier._recorder.close()


@pytest.fixture
def brains(web: LinkGraph, tmp_path: Path) -> Callable[..., Brains]:
    return lambda ordering, shards=SHARDS: Brains(web, tmp_path / ordering, ordering, shards)


def cash_of(web: LinkGraph, seeds: Sequence[int], order: Sequence[int]) -> dict[int, float]:
    """Return the cash of each page after visits in this order, by the definition of OPIC."""
    cash = dict.fromkeys(seeds, 1.0)
    for page in order:
        links = [to for to in dict.fromkeys(web.out_links(page).tolist()) if to != page]
        for to in links:
            cash.setdefault(to, 1.0)
        if links:
            share, cash[page] = cash[page] / len(links), 0.0
            for to in links:
                cash[to] += share
    return cash


def test_cash_is_that_of_one_crawl_and_none_is_lost(
    web: LinkGraph, brains: Callable[..., Brains]
) -> None:
    found = brains("opic")
    found.seed(0, 7, 31)
    while len(found.order) < 250 and found.fetch():
        pass
    expected = cash_of(web, [0, 7, 31], found.order)
    keys = found.keys()
    assert keys.keys() == expected.keys()
    assert keys == pytest.approx(expected)
    assert sum(keys.values()) == pytest.approx(len(keys))


def test_cash_that_is_on_its_way_is_not_lost_either(
    web: LinkGraph, brains: Callable[..., Brains]
) -> None:
    found = brains("opic")
    found.seed(0, 7, 31)
    while len(found.order) < 100 and found.fetch(delivers=len(found.order) % 10 == 9):
        pass
    on_its_way = sum(links.mass for _, links in found.in_flight)
    unknown = {
        page_of(url) for _, links in found.in_flight for url in links.targets
    } - found.keys().keys()
    before = sum(found.keys().values()) + on_its_way
    assert before == pytest.approx(len(found.keys()))
    found.deliver()
    assert sum(found.keys().values()) == pytest.approx(before + len(unknown))


def test_a_shard_knows_how_many_visits_the_sites_of_others_have_had(
    web: LinkGraph, brains: Callable[..., Brains]
) -> None:
    found = brains("sibling-sampling")
    found.seed(0, 7, 31)
    while len(found.order) < 200 and found.fetch():
        pass
    assert max(found.told.values()) > 20
    for each in (found, found.reopen()):
        known = {}
        for shard, host in each.told:
            frontier = each.each[shard]
            site = frontier._recorder.pages.site(host)
            known[shard, host] = frontier.queue.ordering.site_visits(site)
        assert known == each.told


@pytest.mark.parametrize("ordering", ["opic", "rankmass", "fica", "sibling-sampling"])
def test_a_crawl_of_shards_goes_on_as_if_it_had_not_ended(
    web: LinkGraph, brains: Callable[..., Brains], tmp_path: Path, ordering: str
) -> None:
    whole, cut = brains(ordering), Brains(web, tmp_path / "cut", ordering)
    for each in (whole, cut):
        each.seed(0, 7, 31)
    while whole.fetch():
        pass
    for n in (40, 90, 91, 400):
        while len(cut.order) < n and cut.fetch():
            pass
        cut = cut.reopen()
    assert len(whole.order) > 300
    assert cut.order == whole.order
    cut.close()


def test_foreign_pages_never_wait_and_count_as_nothing(
    web: LinkGraph, brains: Callable[..., Brains]
) -> None:
    found = brains("opic")
    found.seed(0, 7, 31)
    while found.fetch():
        pass
    n_fetched = [each._recorder.figures.n_fetched for each in found.each]
    assert sum(n_fetched) == len(found.order) == len(set(found.order))
    for shard, each in enumerate(found.each):
        assert not each._recorder.figures.failures
        fetched = [
            page_of(each._recorder.pages.url(page)) for page in each._recorder.figures.visited
        ]
        assert {SHARDS.of(f"s{web.site[page]}.test") for page in fetched} == {shard}


def test_merged_stores_are_the_store_of_one_crawl(
    web: LinkGraph, brains: Callable[..., Brains], tmp_path: Path
) -> None:
    found = brains("opic")
    found.seed(0, 7, 31)
    while len(found.order) < 200 and found.fetch():
        pass
    n_known = len(found.keys())
    found.close()
    merge([found.path(shard) for shard in range(N_SHARDS)], tmp_path / "whole.sqlite")
    with closing(sqlite3.connect(tmp_path / "whole.sqlite")) as db:
        rows = db.execute("SELECT url, status FROM visits JOIN pages ON id = page ORDER BY seq")
        assert [(page_of(url), status) for url, status in rows] == [(p, 200) for p in found.order]
        pairs = {
            (page_of(source), page_of(target))
            for source, target in db.execute("SELECT source_url, target_url FROM link_urls")
        }
        (n_pages,) = db.execute("SELECT count(*) FROM pages").fetchone()
        seeds = {page_of(url) for (url,) in db.execute("SELECT url FROM pages WHERE seed")}
    assert pairs == {
        (page, to) for page in found.order for to in web.out_links(page).tolist() if to != page
    }
    assert n_pages == n_known
    assert seeds == {0, 7, 31}


def test_an_outbox_says_the_same_under_the_same_numbers_after_a_restart(tmp_path: Path) -> None:
    links = LinksOut("http://a.test/", 1, 0.5, 9, ["http://b.test/"], [], False)

    def said(outbox: Outbox) -> list[tuple[int, int, bytes]]:
        found: list[tuple[int, int, bytes]] = []
        outbox.deliver(lambda *message: found.append(message))
        return found

    with closing(sqlite3.connect(tmp_path / "outbox")) as db:
        outbox = Outbox(3)
        outbox.open(db.cursor())
        for _ in range(3):
            outbox.add([(1, links), (1, links), (2, links)])
            outbox.write(db.cursor())
        first = said(outbox)
        assert [(shard, number) for shard, number, _ in first] == [
            (1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3),
        ]  # fmt: skip
        outbox.has_taken(1, 3)
        outbox.has_taken(2, 1)
        outbox.write(db.cursor())
        again = Outbox(3)
        again.open(db.cursor())
        # The last one of a shard stays for its number, though it has arrived.
        assert said(again) == [first[4], first[1], first[3], first[5]]
        assert again.n_said == [0, 3, 3]


def test_sites_are_spread_by_host_or_by_domain_and_by_the_key() -> None:
    hosts = [f"h{n}.example{n % 7}.com" for n in range(200)]
    by_host, other = Shards(4, "a"), Shards(4, "b")
    assert {by_host.of(host) for host in hosts} == {0, 1, 2, 3}
    assert [by_host.of(host) for host in hosts] != [other.of(host) for host in hosts]
    by_domain = Shards(4, "a", by_domain=True)
    assert all(by_domain.of(host) == by_domain.of(host.partition(".")[2]) for host in hosts)
    assert {Shards(1).of(host) for host in hosts} == {0}
