"""A crawl moves from one process into Redis and back without a change of order."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from crawls import ADDON, Site, page, run_spider
from redis_invariants import check
from redis_servers import RedisServer
from scrapy import Request, Spider
from scrapy.settings import Settings
from settled_redis import SettledRedis
from test_redis_crawl import OPTIONS, PROJECT, TOPIC, crawl

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.private_networks import record_in
from crawlprio.plugins.redis.collect import collect
from crawlprio.plugins.redis.connection import share_seeds
from crawlprio.plugins.redis.moving import load, save
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.plugins.redis.wire import LINKS_PER_CALL
from crawlprio.store import Store

N_FIRST = 50
CASES = [
    *(pytest.param(name, None, id=name) for name in ("opic", "anchor-similarity", "random")),
    *(
        pytest.param(name, None, id=name)
        for name in ("sibling-sampling", "partial-pagerank", "batch-pagerank")
    ),
    pytest.param("rankmass", TOPIC, id="rankmass-topic"),
]


@pytest.mark.parametrize(("ordering", "topic"), CASES)
def test_a_crawl_moved_into_redis_and_back_keeps_its_order(
    ordering: str,
    topic: str | None,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    chosen: dict[str, Any] = {
        "ORDERING": ordering,
        "ORDERING_OPTIONS": OPTIONS.get(ordering, {}),
        "TOPIC": topic,
        "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None,
        # A frontier in Redis reserves no share of a budget for other sites' links.
        "CRAWLPRIO_MAX_PAGES_PER_SITE": None,
    }
    shared = {
        "CRAWLPRIO_FRONTIER": "redis",
        "REDIS_URL": redis_server.url,
        "SCHEDULER_PERSIST": True,
    }
    client, prefix = redis_server.client(), prefix_of("site")
    whole = crawl(tmp_path / "whole.jsonl", **chosen)

    here = tmp_path / "here"
    stored = {"CRAWLPRIO_STORE": "crawl.sqlite"}
    part = {"CLOSESPIDER_PAGECOUNT": N_FIRST, "JOBDIR": str(here), **stored}
    first = crawl(tmp_path / "1.jsonl", **part, **chosen)
    assert N_FIRST <= len(first) < len(whole) - 20
    settings = Settings({**PROJECT, **chosen, "CONCURRENT_REQUESTS": 1, "DOWNLOAD_DELAY": 0})
    moved = load(client, prefix, here / "crawl.sqlite", settings)
    assert moved.n_visits == len(first)
    with pytest.raises(CrawlprioError, match="already exists"):
        load(client, prefix, here / "crawl.sqlite", settings)

    then = {"CLOSESPIDER_PAGECOUNT": 30, "CRAWLPRIO_STORE": "unused.sqlite"}
    second = crawl(tmp_path / "2.jsonl", **shared, **then, **chosen)
    assert first + second == whole[: len(first) + len(second)]

    back = tmp_path / "back"
    back.mkdir()
    saved = save(client, prefix, back / "crawl.sqlite")
    assert saved.n_visits == len(first) + len(second)
    third = crawl(tmp_path / "3.jsonl", JOBDIR=str(back), **stored, **chosen)
    assert first + second + third == whole


SHOP = {"CONCURRENT_REQUESTS": 1, "ORDERING": "opic", "DOWNLOAD_DELAY": 0}


class Shop(Spider):
    """A spider whose requests are more than links."""

    name = "shop"

    async def start(self) -> AsyncIterator[Any]:
        yield Request("http://shop.test/")

    def parse(self, response: Any) -> Any:
        for n in range(6):
            yield Request(f"http://shop.test/{n}", self.parse_thing, meta={"n": n}, priority=n % 3)
        yield Request("http://shop.test/form", self.parse_thing, method="POST", body=b"q")

    def parse_thing(self, response: Any) -> Any:
        yield {"path": response.url[16:], "n": response.meta.get("n")}
        yield Request("http://shop.test/5", self.parse_thing, dont_filter=False)


def shop(site: Site, **settings: Any) -> list[tuple[str, str]]:
    site.fetches.clear()
    run = run_spider(
        Shop,
        {**ADDON, **SHOP, "CRAWLPRIO_STORE": "crawl.sqlite", **settings},
        site=site,
    )
    assert run.reason in ("finished", "closespider_pagecount"), run.messages()
    return [(fetch.method, fetch.path) for fetch in site.fetches]


def test_waiting_requests_move_with_the_crawl_both_ways(
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    client, prefix = redis_server.client(), prefix_of("shop")
    pages = {f"/{name}": page() for name in ("", *"012345", "form")}
    shared = {
        "CRAWLPRIO_FRONTIER": "redis",
        "REDIS_URL": redis_server.url,
        "SCHEDULER_PERSIST": True,
    }
    here, back = tmp_path / "here", tmp_path / "back"
    back.mkdir()
    with Site(pages) as site:
        whole = shop(site, CRAWLPRIO_STORE=None)
        assert len(whole) == 8
        first = shop(site, JOBDIR=str(here), CLOSESPIDER_PAGECOUNT=2)
        load(
            client,
            prefix,
            here / "crawl.sqlite",
            Settings({**ADDON, **SHOP}),
        )
        second = shop(site, **shared, CLOSESPIDER_PAGECOUNT=3)
        save(client, prefix, back / "crawl.sqlite")
        third = shop(site, JOBDIR=str(back))
    assert first + second + third == whole
    assert 0 < len(third) < 5


def test_a_crawl_with_workers_is_not_saved(
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    frontier = SettledRedis(redis_server.client(), "crawl", ORDERING="opic")
    frontier.add_seeds(["http://a.test/"])
    client, prefix = redis_server.client(), prefix_of("crawl")
    with pytest.raises(CrawlprioError, match="workers: 1"):
        save(client, prefix, tmp_path / "crawl.sqlite")
    frontier.close()
    save(client, prefix, tmp_path / "crawl.sqlite")
    with Store.open(tmp_path / "crawl.sqlite", readonly=True) as store:
        assert store.n_pages == 1


def test_a_load_that_fails_leaves_nothing_in_redis(
    redis_server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, prefix = redis_server.client(), prefix_of("crawl")
    frontier = SettledRedis(client, "crawl", ORDERING="opic")
    frontier.add_seeds([f"http://a.test/{n}" for n in range(3)])
    frontier.close()
    client = redis_server.client()
    collect(client, prefix, tmp_path / "crawl.sqlite")
    with pytest.raises(CrawlprioError, match="already exists"):
        load(client, prefix, tmp_path / "crawl.sqlite", Settings({"ORDERING": "opic"}))
    client.flushdb()

    def fail(n_visits: int) -> None:
        raise CrawlprioError("no more")

    with Store.open(tmp_path / "crawl.sqlite") as store:
        from crawlprio.graph.pages import NO_PAGES, Visit

        store.record(Visit(0, NO_PAGES), store.stored_pages())
    with pytest.raises(CrawlprioError, match="no more"):
        load(
            client,
            prefix,
            tmp_path / "crawl.sqlite",
            Settings({"ORDERING": "opic"}),
            progress=fail,
        )
    assert list(client.scan_iter()) == []


@pytest.mark.parametrize("ordering", ["opic", "rankmass", "random", "sibling-sampling"])
def test_a_page_with_many_links_is_loaded_in_calls_that_each_take_few(
    ordering: str, redis_server: RedisServer, tmp_path: Path
) -> None:
    """A loaded crawl goes on as the crawl that was saved."""
    rng = random.Random(3)
    client = redis_server.client()
    chosen: dict[str, Any] = {"ORDERING": ordering, "DOWNLOAD_DELAY": 0}
    chosen["CRAWLPRIO_MAX_PAGES_PER_PATTERN"] = None
    frontier = SettledRedis(client, "first", **chosen)
    frontier.add_seeds(["http://a.test/"])
    n_links = 0
    for n in (3, 3 * LINKS_PER_CALL, 4 * LINKS_PER_CALL):
        handout = frontier.next_page(0.0)
        assert handout is not None
        links = [f"http://{rng.choice('abc')}.test/{rng.randrange(n)}" for _ in range(n)]
        n_links += len(set(links))
        frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, links, status=200)))
    leave(frontier)
    save(redis_server.client(), prefix_of("first"), tmp_path / "crawl.sqlite")
    client = redis_server.client()
    before = n_calls_of(client)
    load(client, prefix_of("second"), tmp_path / "crawl.sqlite", Settings(chosen))
    assert n_calls_of(client) - before > n_links / LINKS_PER_CALL
    entries = [fields for _, fields in client.xrange(f"{prefix_of('second')}:visits")]
    assert max(len(json.loads(entry.get(b"u", b"[]"))) for entry in entries) == LINKS_PER_CALL
    check(client, prefix_of("second"))
    orders = []
    for name in ("first", "second"):
        orders.append(order := [])
        worker = SettledRedis(redis_server.client(), name, **chosen)
        worker.settle()
        while (handout := worker.next_page(0.0)) is not None and len(order) < 200:
            order.append(handout.url)
            worker.observe(handout.lease, PageVisit(LinkPairs(handout.url, [], status=200)))
        leave(worker)
    assert orders[0] == orders[1]
    assert len(orders[0]) == 200


def leave(worker: SettledRedis) -> None:
    """End a worker, and its term if it is elected."""
    if worker.elected is not None:
        worker.elected.resign()
    worker.close()


def n_calls_of(client: Any) -> int:
    """The number of scripts that were run on the server so far."""
    return int(client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


def test_the_addresses_that_seeds_open_move_with_the_crawl_both_ways(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    opened = {"intranet.test": ["10.0.0.7"], "public.test": []}
    client, chosen = redis_server.client(), {"ORDERING": "opic"}
    frontier = SettledRedis(client, "first", **chosen)
    frontier.add_seeds(["http://intranet.test/"])
    share_seeds(client, prefix_of("first"), opened)
    frontier.close()
    client = redis_server.client()
    save(client, prefix_of("first"), tmp_path / "crawl.sqlite")
    with Store.open(tmp_path / "crawl.sqlite", readonly=True) as store:
        assert record_in(store)({}) == opened
    load(client, prefix_of("second"), tmp_path / "crawl.sqlite", Settings(chosen))
    assert share_seeds(client, prefix_of("second"), {}) == opened
