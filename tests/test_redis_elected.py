"""The elected worker: succession, and fencing off a predecessor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from redis import Redis, ResponseError
from redis_servers import RedisServer
from redis_workers import Workers, smallest_gap
from remote_frontier import local_frontier
from settled_redis import SettledRedis
from test_redis_order import OPTIONS, drive, truth

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis.collect import collect
from crawlprio.plugins.redis.elected import Elected
from crawlprio.plugins.redis.operating import PAUSED, RUNNING, set_state
from crawlprio.plugins.redis.shards import prefix_of

SETTINGS: dict[str, Any] = {
    "CRAWLPRIO_MAX_PAGES_PER_SITE": None,
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
}
PREFIX = prefix_of("crawl")


def expire_term(client: Redis) -> None:
    """Expire the elected worker's term, as if it had been silent."""
    client.hset(f"{PREFIX}:elected", "until", 0)


class OftenElected(SettledRedis):
    """Another worker is elected after every tenth call."""

    n_calls = 0

    def settle(self) -> None:
        super().settle()
        self.n_calls += 1
        if self.n_calls % 10 == 0 and self.elected is not None:
            expire_term(self._client)
            self.elected = self.elect()

    elect: Callable[[], Elected]


@pytest.mark.parametrize("ordering", ["sibling-sampling", "pagerank", "combined", "opic"])
def test_a_newly_elected_worker_continues_where_its_predecessor_stopped(
    ordering: str,
    redis_server: RedisServer,
) -> None:
    settings = {
        **SETTINGS,
        "ORDERING": ordering,
        "ORDERING_OPTIONS": OPTIONS.get(ordering, {}),
        "TOPIC": "one, two",
    }
    there = OftenElected(redis_server.client(), "crawl", truth=truth, **settings)
    there.elect = lambda: elected_of(redis_server, settings)
    seen = drive(there, 1)
    there.close()
    assert int(redis_server.client().hget(f"{PREFIX}:elected", "token") or 0) > 10
    assert seen == drive(local_frontier(settings, truth), 1)


def elected_of(server: RedisServer, settings: dict[str, Any]) -> Elected:
    """Another candidate."""
    from scrapy.utils.test import get_crawler

    from crawlprio.settings_table.config import CrawlConfig

    crawler = get_crawler(settings_dict={**settings, "CRAWLPRIO_STORE": None})
    config = CrawlConfig.from_settings(crawler.settings)
    return Elected(server.client(), PREFIX, config, lease_seconds=60.0, truth=truth)


@pytest.fixture
def frontier(redis_server: RedisServer) -> SettledRedis:
    frontier = SettledRedis(redis_server.client(), "crawl", ORDERING="sibling-sampling", **SETTINGS)
    frontier.add_seeds(["http://a.test/", "http://b.test/"])
    return frontier


def visit(frontier: SettledRedis, *links: str) -> None:
    handout = frontier.next_page(0.0)
    assert handout is not None
    frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, list(links))))


def waiting_keys(client: Redis) -> list[tuple[bytes, float]]:
    return [
        pair
        for key in sorted(client.scan_iter("*:w:*"))
        for pair in client.zrange(key, 0, -1, withscores=True)
    ]


def test_a_worker_whose_term_has_expired_writes_nothing(
    frontier: SettledRedis,
    redis_server: RedisServer,
) -> None:
    client = redis_server.client()
    late, frontier.elected = frontier.elected, None
    assert late is not None
    visit(frontier, "http://a.test/1", "http://a.test/2")
    expire_term(client)
    settings = {**SETTINGS, "ORDERING": "sibling-sampling"}
    other = elected_of(redis_server, settings)
    assert other.claim()
    before = waiting_keys(client)
    with pytest.raises(ResponseError, match="NOTELECTED") as caught:
        late.step()
    assert waiting_keys(client) == before
    assert late.recover(caught.value)
    assert not late.is_elected
    assert not late.claim()
    assert other.step()
    assert waiting_keys(client) != before
    frontier.close()


def test_another_worker_can_be_elected_as_soon_as_one_resigns(
    frontier: SettledRedis,
    redis_server: RedisServer,
) -> None:
    other = elected_of(redis_server, {**SETTINGS, "ORDERING": "sibling-sampling"})
    assert not other.claim()
    assert frontier.elected is not None
    frontier.elected.resign()
    frontier.elected = None
    assert other.claim()
    frontier.close()


class Forgetful(Elected):
    """Its server loses all changes since `remember` between a read and the next write."""

    kept: dict[bytes, bytes | None] | None = None

    def remember(self) -> None:
        self.kept = {key: self._client.dump(key) for key in self._client.scan_iter()}

    def _write(self) -> None:
        if self.kept is not None and self.n_read > self._n_written:
            self._client.flushdb()
            for key, dumped in self.kept.items():
                self._client.restore(key, 0, dumped)
            self.kept = None
        super()._write()


def test_keys_are_recomputed_after_the_server_lost_entries(
    frontier: SettledRedis,
    redis_server: RedisServer,
) -> None:
    client = redis_server.client()
    visit(frontier, "http://a.test/1", "http://a.test/2")
    assert frontier.elected is not None
    frontier.elected.resign()
    frontier.elected = None
    crawler_config = elected_of(redis_server, {**SETTINGS, "ORDERING": "sibling-sampling"})
    elected = Forgetful(client, PREFIX, crawler_config._config, lease_seconds=60.0)
    assert elected.claim()
    elected.step()
    elected.remember()
    visit(frontier, "http://b.test/1")
    with pytest.raises(ResponseError, match="LOST") as caught:
        elected.step()
    assert elected.recover(caught.value)
    assert elected.claim()
    elected.step()
    assert elected.n_read == 2
    assert int(client.hget(f"{PREFIX}:elected", "read") or 0) == 2


def test_collecting_keeps_the_entries_that_a_successor_must_replay(
    frontier: SettledRedis,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    client = redis_server.client()
    visit(frontier, "http://a.test/1", "http://a.test/2")
    assert collect(client, PREFIX, tmp_path / "crawl.sqlite").n_visits == 1
    assert collect(client, PREFIX, tmp_path / "crawl.sqlite").n_visits == 0
    assert client.xlen(f"{PREFIX}:visits") == 2
    expire_term(client)
    other = elected_of(redis_server, {**SETTINGS, "ORDERING": "sibling-sampling"})
    assert other.claim()
    assert other.step()
    assert other.n_read == 2
    # Someone deletes entries nevertheless.
    client.xtrim(f"{PREFIX}:visits", maxlen=1, approximate=False)
    expire_term(client)
    third = elected_of(redis_server, {**SETTINGS, "ORDERING": "sibling-sampling"})
    assert third.claim()
    with pytest.raises(CrawlprioError, match="keep all entries"):
        third.step()
    frontier.close()


@pytest.fixture
def workers(redis_server: RedisServer, tmp_path: Path) -> Any:
    workers = Workers(
        tmp_path,
        redis_server.url,
        pages=400,
        sites=40,
        settings={
            "ORDERING": "sibling-sampling",
            "DOWNLOAD_DELAY": 0.1,
            "CONCURRENT_REQUESTS": 8,
            "CRAWLPRIO_LEASE_SECONDS": 3,
        },
    )
    yield workers
    workers.stop()


def test_a_crawl_whose_elected_worker_is_killed_elects_another_and_fetches_all_pages(
    workers: Workers,
    redis_server: RedisServer,
) -> None:
    client, prefix = redis_server.client(), prefix_of("site")
    workers.start(2)
    workers.wait_for(100)
    until = monotonic() + 30.0
    while not client.hget(f"{prefix}:elected", "read"):
        assert monotonic() < until, workers.last_lines()
        sleep(0.05)
    name = client.hget(f"{prefix}:elected", "name")
    assert name is not None
    pids = [process.pid for process in workers.processes]
    read = int(client.hget(f"{prefix}:elected", "read") or 0)
    elected = pids.index(int(name.decode().rpartition(":")[2]))
    n_leased = workers.kill_counting(client, elected)
    # Pause until another worker is elected, so that the crawl cannot end before.
    set_state(client, prefix, PAUSED)
    workers.start()
    until = monotonic() + 30.0
    while int(client.hget(f"{prefix}:elected", "token") or 0) < 2:
        assert monotonic() < until, workers.last_lines()
        sleep(0.05)
    set_state(client, prefix, RUNNING)
    assert workers.wait() == [0] * 2
    fetched = Counter(fetch["url"] for fetch in workers.fetches())
    assert len(fetched) == 400
    assert sum(fetched.values()) - 400 <= n_leased
    assert smallest_gap(workers.fetches()) >= 0.1
    assert int(client.hget(f"{prefix}:elected", "read") or 0) > read
