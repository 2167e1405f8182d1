"""What brains of one crawl tell each other, in one process: order, mass, resume, merged stores."""

import sqlite3
from collections import Counter
from contextlib import closing
from functools import cache

import pytest
from shared_frontier import Shardwise
from stores import query

from crawlprio.graph.synthetic import synthetic_web
from crawlprio.live.workers import LinksOut
from crawlprio.plugins.shared.collect import merge
from crawlprio.plugins.shared.hand_frontier import HandFrontier
from crawlprio.plugins.shared.shards import Outbox, Shards
from crawlprio.web.urls import host_of

SHARDS = Shards(3, "secret")


@cache
def web():
    return synthetic_web(400, 24, seed=5)


def url_of(page):
    return f"http://s{web().site[page]}.test/{page}"


def links_of(url):
    page = int(url.rpartition("/")[2])
    return [url_of(to) for to in web().out_links(page).tolist()]


def seeds():
    return [*map(url_of, (0, 7, 31))]


def keys_of(crawl):
    """Return the key of each page in its own shard."""
    found = {}
    for shard, frontier in enumerate(crawl.each):
        pages, ordering = frontier._recorder.pages, frontier.queue.ordering
        for page in range(ordering.n_pages):
            if SHARDS.of(pages.host(int(pages.sites[page]))) == shard:
                found[pages.url(page)] = float(ordering.keys[page])
    return found


@pytest.fixture
def begin(tmp_path):
    def call(ordering, name="crawl"):
        crawl = Shardwise(links_of, SHARDS, ordering, tmp_path / name)
        crawl.seed(*seeds())
        return crawl

    return call


def cash_of(order):
    """Return the cash of each page after visits in this order, by the definition of OPIC."""
    cash = dict.fromkeys(seeds(), 1.0)
    for url in order:
        links = [to for to in dict.fromkeys(links_of(url)) if to != url]
        for to in links:
            cash.setdefault(to, 1.0)
        if links:
            share, cash[url] = cash[url] / len(links), 0.0
            for to in links:
                cash[to] += share
    return cash


def test_cash_is_that_of_one_crawl_and_none_is_lost_on_its_way(begin):
    crawl = begin("opic")
    crawl.fetch(250)
    keys, expected = keys_of(crawl), cash_of(crawl.order)
    assert keys.keys() == expected.keys()
    assert keys == pytest.approx(expected)
    crawl.fetch(260, delivers=False)
    keys, mass = keys_of(crawl), sum(links.mass for _, links in crawl.in_flight)
    assert mass > 0
    assert sum(keys.values()) + mass == pytest.approx(len(keys))
    crawl.deliver()
    keys = keys_of(crawl)
    assert sum(keys.values()) == pytest.approx(len(keys))


def test_a_shard_knows_how_many_visits_the_sites_of_others_have_had(begin):
    crawl = begin("sibling-sampling")
    crawl.fetch(200)
    assert max(crawl.told.values()) > 20
    for _ in range(2):
        known = {}
        for shard, host in crawl.told:
            frontier = crawl.each[shard]
            site = frontier._recorder.pages.site(host)
            known[shard, host] = frontier.queue.ordering.site_visits(site)
        assert known == crawl.told
        crawl.reopen()


@pytest.mark.parametrize("ordering", ["opic", "rankmass", "fica", "sibling-sampling"])
def test_a_crawl_of_shards_goes_on_as_if_it_had_not_ended_and_foreign_pages_never_wait(
    begin, ordering
):
    whole, cut = begin(ordering), begin(ordering, "cut")
    whole.fetch()
    for n in (40, 90, 91, 400):
        cut.fetch(n)
        cut.reopen()
    assert len(whole.order) == len({*whole.order}) > 300
    assert cut.order == whole.order
    cut.close()
    for shard, each in enumerate(whole.each):
        pages, figures = each._recorder.pages, each._recorder.figures
        fetched = {url for url in whole.order if SHARDS.of(host_of(url)) == shard}
        assert {pages.url(page) for page in figures.visited} == fetched
        assert (figures.n_fetched, figures.failures) == (len(fetched), {})


def test_merged_stores_are_the_store_of_one_crawl(begin, tmp_path):
    crawl, path = begin("opic"), tmp_path / "whole.sqlite"
    crawl.fetch(200)
    n_known = len(keys_of(crawl))
    crawl.close()
    merge([tmp_path / "crawl" / str(shard) / "crawl.sqlite" for shard in range(3)], path)
    visits = query(path, "SELECT url, status FROM visits JOIN pages ON id = page ORDER BY seq")
    assert visits == [(url, 200) for url in crawl.order]
    pairs = {(url, to) for url in crawl.order for to in links_of(url) if to != url}
    assert {*query(path, "SELECT source_url, target_url FROM link_urls")} == pairs
    assert query(path, "SELECT count(*) FROM pages") == [(n_known,)]
    assert {url for (url,) in query(path, "SELECT url FROM pages WHERE seed")} == {*seeds()}


def test_an_outbox_says_the_same_under_the_same_numbers_after_a_restart(tmp_path):
    links = LinksOut("http://a.test/", 1, 0.5, 9, ["http://b.test/"], [], False)

    def said(outbox):
        found = []
        outbox.deliver(lambda *message: found.append(message))
        return found

    with closing(sqlite3.connect(tmp_path / "outbox")) as db:
        outbox = Outbox(3)
        outbox.open(db.cursor())
        for _ in range(3):
            outbox.add([(1, links), (1, links), (2, links)])
            outbox.write(db.cursor())
        first = said(outbox)
        assert [message[:2] for message in first] == [
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


def test_sites_spread_evenly_by_the_key_and_a_domain_with_a_budget_stays_in_one_shard():
    hosts = [f"{name}{n}.example" for name in "abcd" for n in range(1000)]
    one, other = Shards(16, key="one"), Shards(16, key="two")
    for shards in (one, other):
        sizes = Counter(map(shards.of, hosts))
        # 250 each on average, with a standard deviation of 15.
        assert len(sizes) == 16
        assert all(160 < size < 340 for size in sizes.values())
    assert [one.of(host) for host in hosts] != [other.of(host) for host in hosts]
    together = Shards(16, key="one", by_domain=True)
    assert len({one.of(f"{n}.shop.example.org") for n in range(100)}) == 16
    assert {together.of(f"{n}.shop.example.org") for n in range(100)} == {
        together.of("example.org")
    }
    assert {Shards(1).of(host) for host in hosts} == {0}


def test_free_fetches_go_to_the_shards_whose_next_pages_rank_first():
    frontier = HandFrontier(lambda shard, statement: None, Shards(3, "key"))
    none = [0, 0, 0]
    for shard, head in enumerate(([0, 0, 1.0], [0, 0, 3.0], [1, 0, 0.0])):
        assert not frontier.share(4), "a shard that has not said anything may have better pages"
        frontier.received(shard, ["status", 5, 0, 0.0, 0, head, 0, none, none])
    assert frontier.is_settled
    shares = []
    for n_wanted in (2, 3, 4):
        frontier.share(n_wanted)
        shares.append(list(frontier.shares))
    assert shares == [[0, 1, 1], [1, 1, 1], [1, 1, 2]]
    frontier.received(0, ["status", 0, 0, None, 0, None, 0, [0, 1, 0], none])
    assert not frontier.is_settled, "shard 1 has not read what shard 0 has sent it"
    frontier.share(2)
    assert frontier.shares == [0, 1, 1]
