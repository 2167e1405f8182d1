"""The time of a shared crawl: a server whose clock is set, workers that are silent for long."""

from __future__ import annotations

import logging
import math
from time import monotonic
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError
from redis_servers import RedisServer
from settled_redis import SettledRedis

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis import scripts, server_time, session
from crawlprio.plugins.redis.caller import Caller
from crawlprio.plugins.redis.scripts import Script, script
from crawlprio.plugins.redis.server_time import boot_time

DELAY = 50.0
PREFIX = "crawlprio:{time:0}"


def with_clock_that_can_be_set(name: str) -> Script:
    """Return a script for which the server's clock is `:step` seconds ahead."""
    step = f"tonumber(redis.call('GET', '{PREFIX}:step') or 0)"
    assert script(name).text.count("call('TIME')") == (name != "open")
    text = script(name).text.replace(
        "call('TIME')", f"{{ redis.call('TIME')[1] + {step}, redis.call('TIME')[2] }}"
    )
    return Script(text, Redis().register_script(text).sha)


def begin(server: RedisServer, **settings: Any) -> SettledRedis:
    chosen = {"ORDERING": "breadth-first", "CONCURRENT_REQUESTS_PER_DOMAIN": 1, **settings}
    return SettledRedis(server.client(), "time", lease_seconds=30.0, **chosen)


def next_url(frontier: SettledRedis) -> str | None:
    frontier._all[0].ask_at = -math.inf
    handout = frontier.next_page(0.0)
    return handout and handout.url


@pytest.mark.parametrize("step", [100.0, -100.0])
def test_setting_the_servers_clock_ends_no_delay_or_lease_early_or_late_and_is_logged(
    step: float,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for module in (scripts, session):
        monkeypatch.setattr(module, "script", with_clock_that_can_be_set)
    one, other = (begin(redis_server, DOWNLOAD_DELAY=DELAY) for _ in range(2))
    one.add_seeds([f"http://{site}.test/{n}" for site in "ab" for n in range(2)])
    handout = one.next_page(0.0)
    assert handout is not None
    one.clock.started("a.test", was_handed_out=True)
    one.clock.ended("a.test", was_handed_out=True, elapsed=0.1, status=200, retry_after=None)
    one.observe(handout.lease, PageVisit(LinkPairs(handout.url, [])))
    assert next_url(other) == "http://b.test/0"
    redis_server.client().set(f"{PREFIX}:step", step)
    assert next_url(one) is None
    status = one._all[0].status
    assert status is not None
    assert 0 < status.ready_at - status.received <= DELAY
    assert status.n_others == 1, "the other worker's lease has not expired"
    assert next_url(other) is None
    way = "forward" if step > 0 else "back"
    expected = f"The clock of the Redis server was set {way} by 100.0 s; "
    expected += "delays and leases go on as before."
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert warnings == [expected] * 2
    one.advance(DELAY)
    assert next_url(one) == "http://a.test/1"
    for frontier in (one, other):
        frontier.close()


def test_time_that_a_call_spends_on_its_way_shortens_no_delay(redis_server: RedisServer) -> None:
    frontier = begin(redis_server)
    client, run_id = redis_server.client(), redis_server.client().info("server")["run_id"]

    def now(seen: str) -> float:
        said = ("renew", "", run_id, 0)
        reply = client.eval(script("heartbeat").text, 1, PREFIX, "w", 0, seen, *said)
        return float(reply[0])

    began = now("")
    assert began <= now(f"{began!r} 0.0 10.0") < began + 9.0
    # The clock was set forward by at least 20 s, or a call was on its way for as long.
    assert now(f"{began - 30.0!r} 5.0 10.0") == pytest.approx(began - 20.0, abs=1e-6)
    # It was set back by at least 7 s.
    assert now(f"{began - 20.0!r} 7.0 9.0") == pytest.approx(began - 13.0, abs=1e-6)
    frontier.close()


def test_calls_of_a_worker_whose_lease_has_expired_are_refused_until_it_says_hello(
    redis_server: RedisServer,
) -> None:
    frontier = begin(redis_server)
    client, run_id = redis_server.client(), redis_server.client().info("server")["run_id"]
    call = (script("calls").text, 1, PREFIX, "w", 1, "", "lease", 2, 0, 0)
    hello = (script("heartbeat").text, 1, PREFIX, "w", 0, "", "renew", "", run_id, 0)
    with pytest.raises(ResponseError, match="LAPSED"):
        client.eval(*call)
    client.eval(*hello)
    client.eval(*call)
    client.zadd(f"{PREFIX}:workers", {"w": 1.0})
    with pytest.raises(ResponseError, match="LAPSED"):
        client.eval(*call)
    client.eval(*hello)
    client.eval(*call)
    frontier.close()


def test_a_command_goes_on_after_its_lease_has_expired(redis_server: RedisServer) -> None:
    frontier = begin(redis_server)
    caller = Caller(redis_server.client(), PREFIX)
    redis_server.client().zrem(f"{PREFIX}:workers", caller.worker)
    assert caller.call("lease", 0, 0) == []
    caller.leave()
    frontier.close()


def test_a_worker_that_was_silent_for_too_long_fetches_nothing_that_another_has(
    redis_server: RedisServer,
) -> None:
    late, other = (begin(redis_server, DOWNLOAD_DELAY=0) for _ in range(2))
    late.add_seeds(["http://a.test/0", "http://b.test/0"])
    handout = late.next_page(0.0)
    assert handout is not None
    assert (handout.url, late.holds(handout.lease)) == ("http://a.test/0", True)
    late.clock.hold("c.test")
    late.clock.next_start("c.test")
    assert late.clock._granted == {"c.test": [late._all[0].session._n_done * 1000]}
    client = redis_server.client()
    client.zadd(f"{PREFIX}:workers", {late._all[0].session.worker: 0.0})
    assert [next_url(other), next_url(other)] == ["http://a.test/0", "http://b.test/0"]
    late.settle()
    assert late.holds(handout.lease), "it has not heard of it yet"
    assert next_url(late) is None
    assert not late.holds(handout.lease)
    assert not any(late.clock._granted.values())
    late.put_back(handout.lease)
    assert [next_url(other), next_url(late)] == [None, None]
    for frontier in (late, other):
        frontier.close()


def test_a_worker_whose_machine_slept_for_longer_than_its_lease_starts_nothing(
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frontier = begin(redis_server, DOWNLOAD_DELAY=0)
    frontier.add_seeds(["http://a.test/0"])
    assert next_url(frontier) == "http://a.test/0"
    assert frontier.clock.next_start("a.test") <= monotonic()
    slept = 31.0
    # Unlike `monotonic`, this clock runs while the machine sleeps.
    for module in (session, server_time):
        monkeypatch.setattr(module, "boot_time", lambda: boot_time() + slept)
    assert frontier.clock.next_start("a.test") > monotonic()
    frontier.add_seeds(["http://b.test/0"])
    assert frontier.clock.next_start("a.test") <= monotonic(), "nobody took its lease over"
    frontier.close()
