"""How far ahead a worker leases pages."""

from __future__ import annotations

from crawlprio.redis.lookahead import MAX_AHEAD, Lookahead


def test_it_starts_at_half_the_concurrency_and_one_fetch_at_a_time_leases_none_ahead() -> None:
    assert [Lookahead(None, n).n_pages for n in (1, 2, 3, 8, 32, 100, None)] == [
        *(1, 1, 1, 4, 16, 16, 16)
    ]
    alone = Lookahead(None, 1)
    alone.ran_out(is_asking=True)
    alone.was_answered(1, 1, 0)
    assert alone.n_pages == 1
    assert not alone.is_low(0)


def test_it_doubles_when_pages_were_waited_for_that_there_were() -> None:
    ahead = Lookahead(None, 8)
    for expected in (8, 16, MAX_AHEAD):
        ahead.ran_out(is_asking=True)
        ahead.was_answered(4, 4, 0)
        assert ahead.n_pages == expected


def test_a_frontier_that_has_no_more_pages_does_not_make_it_grow() -> None:
    ahead = Lookahead(None, 8)
    ahead.ran_out(is_asking=True)
    ahead.was_answered(4, 3, 0)
    ahead.was_answered(0, 0, 0)
    ahead.ran_out(is_asking=False)
    ahead.was_answered(4, 4, 0)
    assert ahead.n_pages == 4


def test_it_shrinks_while_pages_are_left_when_more_come() -> None:
    ahead = Lookahead(None, 32)
    sizes = []
    for n_left in (8, 8, 4, 3, 3, 3, 3):
        ahead.was_answered(4, 4, n_left)
        sizes.append(ahead.n_pages)
    assert sizes == [15, 14, 13, 13, 13, 13, 13]
    for _ in range(100):
        ahead.was_answered(4, 4, 16)
    assert ahead.n_pages == 2
    assert [ahead.is_low(n) for n in (2, 1)] == [False, True]


def test_a_fixed_number_stays() -> None:
    ahead = Lookahead(6, 32)
    ahead.ran_out(is_asking=True)
    ahead.was_answered(6, 6, 6)
    assert ahead.n_pages == 6
