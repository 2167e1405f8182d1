"""How far ahead a worker leases pages."""

from __future__ import annotations

from crawlprio.redis.ahead import MAX_AHEAD, Ahead


def test_it_starts_at_half_the_concurrency_and_one_fetch_at_a_time_leases_none_ahead() -> None:
    assert [Ahead(None, n).n for n in (1, 2, 3, 8, 32, 100, None)] == [*(1, 1, 1, 4, 16, 16, 16)]
    alone = Ahead(None, 1)
    alone.found_none(is_asking=True)
    alone.came(1, 1, 0)
    assert alone.n == 1


def test_it_doubles_when_were_waited_for_that_there_were() -> None:
    ahead = Ahead(None, 8)
    for expected in (8, 16, MAX_AHEAD):
        ahead.found_none(is_asking=True)
        ahead.came(4, 4, 0)
        assert ahead.n == expected


def test_a_frontier_that_has_no_more_pages_does_not_make_it_grow() -> None:
    ahead = Ahead(None, 8)
    ahead.found_none(is_asking=True)
    ahead.came(4, 3, 0)
    ahead.came(0, 0, 0)
    ahead.found_none(is_asking=False)
    ahead.came(4, 4, 0)
    assert ahead.n == 4


def test_it_shrinks_while_pages_are_left_when_more_come() -> None:
    ahead = Ahead(None, 32)
    sizes = []
    for n_left in (8, 8, 4, 3, 3, 3, 3):
        ahead.came(4, 4, n_left)
        sizes.append(ahead.n)
    assert sizes == [15, 14, 13, 13, 13, 13, 13]
    for _ in range(100):
        ahead.came(4, 4, 16)
    assert ahead.n == 2


def test_a_fixed_number_stays() -> None:
    ahead = Ahead(6, 32)
    ahead.found_none(is_asking=True)
    ahead.came(6, 6, 6)
    assert ahead.n == 6
