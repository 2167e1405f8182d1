"""How far ahead a worker leases pages."""

from __future__ import annotations

import math

import pytest
from redis_servers import RedisServer
from settled_redis import SettledRedis

from crawlprio.plugins.redis import leased
from crawlprio.plugins.redis.ahead import MAX_AHEAD, Ahead


def test_the_number_starts_at_half_the_concurrency_and_is_1_for_one_fetch_at_a_time() -> None:
    assert [Ahead(None, n).n for n in (1, 2, 3, 8, 32, 100, None)] == [*(1, 1, 1, 4, 16, 16, 16)]
    alone = Ahead(None, 1)
    alone.count_miss(is_asking=True)
    alone.adapt(1, 1, 0)
    assert alone.n == 1


def test_the_number_doubles_after_a_wait_for_available_pages() -> None:
    ahead = Ahead(None, 8)
    for expected in (8, 16, MAX_AHEAD):
        ahead.count_miss(is_asking=True)
        ahead.adapt(4, 4, 0)
        assert ahead.n == expected


def test_an_empty_frontier_does_not_increase_the_number() -> None:
    ahead = Ahead(None, 8)
    ahead.count_miss(is_asking=True)
    ahead.adapt(4, 3, 0)
    ahead.adapt(0, 0, 0)
    ahead.count_miss(is_asking=False)
    ahead.adapt(4, 4, 0)
    assert ahead.n == 4


def test_the_number_shrinks_while_leased_pages_are_left_over() -> None:
    ahead = Ahead(None, 32)
    sizes = []
    for n_left in (8, 8, 4, 3, 3, 3, 3):
        ahead.adapt(4, 4, n_left)
        sizes.append(ahead.n)
    assert sizes == [15, 14, 13, 13, 13, 13, 13]
    for _ in range(100):
        ahead.adapt(4, 4, 16)
    assert ahead.n == 2


def test_a_fixed_number_does_not_change() -> None:
    ahead = Ahead(6, 32)
    ahead.count_miss(is_asking=True)
    ahead.adapt(6, 6, 6)
    assert ahead.n == 6


def test_pages_leased_ahead_by_a_worker_that_needs_none_are_left_to_others(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, other = (
        SettledRedis(redis_server.client(), "ahead", ORDERING="breadth-first", DOWNLOAD_DELAY=0)
        for _ in range(2)
    )
    busy.add_seeds([f"http://{n}.test/" for n in range(4)])
    busy._ahead = Ahead(4, 16)
    handout = busy.next_page(0.0)
    assert handout is not None
    assert other.next_page(0.0) is None
    busy._call(0, "lease", 0, 0, "")  # what happens next
    assert other.next_page(0.0) is None
    monkeypatch.setattr(leased, "IDLE_SECONDS", 0.0)
    busy._call(0, "lease", 0, 0, "")
    found = []
    for _ in range(3):
        other._all[0].ask_at = -math.inf
        handout = other.next_page(0.0)
        assert handout is not None
        found.append(handout.url)
    assert found == [f"http://{n}.test/" for n in (1, 2, 3)]
    for frontier in (busy, other):
        frontier.close()
