"""Several workers on one crawl: each page once, one fetch at a time per site, despite failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis_servers import RedisServer, require_redis
from redis_workers import Workers, smallest_gap

N_PAGES, N_SITES = 400, 40
DELAY = 0.1
SETTINGS = {"DOWNLOAD_DELAY": DELAY, "CONCURRENT_REQUESTS": 8, "CRAWLPRIO_LEASE_SECONDS": 3}


@pytest.fixture
def workers(
    redis_server: RedisServer,
    tmp_path: Path,
) -> Iterator[Workers]:
    workers = Workers(tmp_path, redis_server.url, pages=N_PAGES, sites=N_SITES, settings=SETTINGS)
    yield workers
    workers.stop()


def times_fetched(workers: Workers) -> Counter[str]:
    return Counter(fetch["url"] for fetch in workers.fetches())


def test_four_workers_fetch_every_page_once_and_keep_the_delay_of_each_site(
    workers: Workers,
) -> None:
    workers.start(4)
    assert workers.wait() == [0] * 4
    fetched = times_fetched(workers)
    assert set(fetched.values()) == {1}
    assert len(fetched) == N_PAGES
    assert smallest_gap(workers.fetches()) >= DELAY
    assert workers.logs().count("'finish_reason': 'finished'") == 4


def test_killed_workers_lose_no_page_and_refetch_at_most_their_leased_pages(
    workers: Workers,
    redis_server: RedisServer,
) -> None:
    workers.start(4)
    n_leased = 0
    for n_fetches in (60, 140, 220):
        workers.wait_for(n_fetches)
        with redis_server.client() as client:
            n_leased += workers.kill_counting(client, 0)
        workers.start()
    assert workers.wait() == [0] * 4
    fetched = times_fetched(workers)
    assert len(fetched) == N_PAGES
    assert max(fetched.values()) <= 1 + 3
    assert sum(fetched.values()) - N_PAGES <= n_leased
    assert smallest_gap(workers.fetches()) >= DELAY


def test_workers_wait_for_a_server_that_is_killed_and_restarted(tmp_path: Path) -> None:
    require_redis()
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder, "--appendonly", "yes", "--appendfsync", "everysec")
    server.start()
    workers = Workers(tmp_path, server.url, pages=N_PAGES, sites=N_SITES, settings=SETTINGS)
    try:
        workers.start(2)
        workers.wait_until_joined(2)
        workers.wait_for(100)
        server.kill()
        workers.wait_until_logged("Redis is unavailable")
        server.start()
        assert workers.wait() == [0] * 2
        fetched = times_fetched(workers)
        assert len(fetched) == N_PAGES
        assert max(fetched.values()) <= 2
        assert smallest_gap(workers.fetches()) >= DELAY
        assert workers.n_logs_with("Redis is available again") == 2
    finally:
        workers.stop()
        server.kill()
