"""What a frontier in Redis refuses, ignores and deletes."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import pytest
from redis_invariants import check
from redis_servers import RedisServer
from settled_redis import SettledRedis

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier.protocol import Entry, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.orderings import make_ordering
from crawlprio.plugins.redis.caller import N_STATUS
from crawlprio.plugins.redis.connection import check_server, connect
from crawlprio.plugins.redis.counts import read_counts
from crawlprio.plugins.redis.rules import rules_of
from crawlprio.plugins.redis.scripts import script


def begin(server: RedisServer, crawl: str, **settings: Any) -> SettledRedis:
    chosen = {"ORDERING": "breadth-first", "DOWNLOAD_DELAY": 0, **settings}
    return SettledRedis(server.client(), crawl, **chosen)


def test_an_invalid_entry_becomes_a_dead_letter_and_the_next_one_leaves(
    redis_server: RedisServer,
) -> None:
    frontier = begin(redis_server, "poison")

    def read(request: bytes) -> object:
        if request == b"bad":
            raise CrawlprioError("no request")
        return request

    frontier._read_request = read
    for name, request in (("bad", b"bad"), ("good", b"good")):
        url = f"http://{name}.test/"
        frontier.add(Entry(url, url, f"{name}.test", request=request))
    handout = frontier.next_page(0.0)
    assert handout is not None
    assert (handout.url, handout.request) == ("http://good.test/", b"good")
    assert frontier.n_dead == 1
    (letter,) = redis_server.client().lrange("crawlprio:{poison:0}:dead", 0, -1)
    assert b"http:\\/\\/bad.test\\/" in letter
    assert b"no request" in letter
    assert len(frontier) == 0
    frontier.close()


def test_a_server_that_may_evict_pages_is_refused(
    redis_server: RedisServer,
) -> None:
    client = redis_server.client()
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ConfigError, match=r"allkeys-lru.* set it to noeviction"):
            check_server(client, redis_server.url)
    finally:
        client.config_set("maxmemory-policy", "noeviction")
    check_server(client, redis_server.url)


def test_an_unreachable_server_is_named_in_the_error() -> None:
    url = "redis://127.0.0.1:1/0"
    with pytest.raises(ConfigError, match="no server answers there"):
        check_server(connect(url, {}), url)


def test_a_worker_with_different_settings_is_refused(
    redis_server: RedisServer,
) -> None:
    first = begin(redis_server, "joined")
    with pytest.raises(ConfigError, match=r"begun with ordering breadth-first.* has opic"):
        begin(redis_server, "joined", ORDERING="opic")
    first.close()


def test_urls_of_any_form_leave_unchanged_and_are_deleted_once_fetched(
    redis_server: RedisServer,
) -> None:
    urls = [
        *("http://a.test/", "https://a.test/", "http://a.test:8080/x", "https://[::1]/y"),
        *(f"https://a.test/{'long/' * 400}", "http://a.test/%C3%A9?q=\u00e9"),
    ]
    frontier = begin(redis_server, "urls", CONCURRENT_REQUESTS_PER_DOMAIN=8)
    frontier.add_seeds(urls)
    handouts = [frontier.next_page(0.0) for _ in urls]
    assert [handout.url for handout in handouts if handout is not None] == urls
    for handout in handouts:
        assert handout is not None
        frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, [])))
    assert not list(redis_server.client().scan_iter("crawlprio:{urls:0}:u:*"))
    frontier.close()


def test_more_seeds_than_arguments_of_a_command_are_queued_at_once(
    redis_server: RedisServer,
) -> None:
    frontier = begin(redis_server, "many")
    frontier.add_seeds([f"http://{n % 100}.test/{n}" for n in range(7000)])
    assert len(frontier) == 7000
    check(redis_server.client(), "crawlprio:{many:0}")
    frontier.close()


def test_batches_that_hold_pages_back_are_refused() -> None:
    with pytest.raises(ConfigError, match="holds pages back until its batch"):
        rules_of(make_ordering("batch-pagerank"), "batch-pagerank")
    rules_of(make_ordering("batch-pagerank", {"fill": True}), "batch-pagerank")


def test_site_share_is_refused() -> None:
    with pytest.raises(ConfigError, match="site_share is 2, which a frontier in Redis"):
        rules_of(make_ordering("opic", {"site_share": 2}), "opic")


def test_a_robots_fetch_waits_for_a_page_leased_by_another_worker(
    redis_server: RedisServer,
) -> None:
    limit = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    one, other = (begin(redis_server, "robots", **limit) for _ in range(2))
    one.add_seeds(["http://a.test/1"])
    handout = one.next_page(0.0)
    assert handout is not None
    other.clock.hold("a.test")
    other.clock.next_start("a.test")  # asks; the next call has the answer
    before = monotonic()
    assert other.clock.next_start("a.test") > before
    # The worker that has leased the page may fetch in its place.
    one.clock.hold("a.test")
    assert one.clock.next_start("a.test") <= monotonic()
    one.clock.hold("a.test", -1)
    one.observe(handout.lease, PageVisit(LinkPairs("", [])))
    until = monotonic() + 60.0
    while other.clock.next_start("a.test") > monotonic():
        assert monotonic() < until
        sleep(0.02)
    one.add_seeds(["http://a.test/2"])
    assert one.next_page(0.0) is None, "the other worker fetches from the site"
    other.clock.hold("a.test", -1)
    one._all[0].ask_at = 0.0
    assert one.next_page(1e-9) is not None
    for frontier in (one, other):
        frontier.close()


def test_the_delay_that_a_worker_sets_holds_for_all_workers(redis_server: RedisServer) -> None:
    limit = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    one, other = (begin(redis_server, "throttled", **limit) for _ in range(2))
    one.add_seeds([f"http://{host}.test/{n}" for host in "ab" for n in range(2)])
    one.clock.set_delay("a.test", 1000.0)
    for _ in range(2):
        handout = one.next_page(0.0)
        assert handout is not None
        site = handout.url[7:13]
        one.clock.started(site, was_handed_out=True)
        one.clock.ended(site, was_handed_out=True, elapsed=0.1, status=200, retry_after=None)
        one.observe(handout.lease, PageVisit(LinkPairs("", [])))
    left = [other.next_page(0.0), other.next_page(0.0)]
    assert [handout and handout.url for handout in left] == ["http://b.test/1", None]
    for frontier in (one, other):
        frontier.close()


def test_a_retried_call_is_done_once(
    redis_server: RedisServer,
) -> None:
    frontier = begin(redis_server, "again")
    frontier.add_seeds(["http://a.test/1", "http://b.test/1"])
    client, prefix = redis_server.client(), "crawlprio:{again:0}"
    calls = script("calls").text
    run_id = client.info("server")["run_id"]
    client.eval(script("heartbeat").text, 1, prefix, "w", 0, "", "renew", "", run_id, 0)
    add = ("http://c.test/1", "", "c.test", "", "", "0", "0", "0", "{}", "1", "0")
    for _ in range(2):
        client.eval(calls, 1, prefix, "w", 1, "", "add", 12, b"x" * 10, *add)
    replies = [client.eval(calls, 1, prefix, "w", 2, "", "lease", 2, 2, 0) for _ in range(2)]
    leases = [reply[N_STATUS] for reply in replies]
    assert leases[0] == leases[1]
    assert leases[0][1::5] == [b"http://a.test/1", b"http://b.test/1"]
    # If only part of a batch was done, the rest is done.
    again = client.eval(calls, 1, prefix, "w", 1, "", "add", 12, b"x" * 10, *add, "lease", 2, 2, 0)
    assert again[N_STATUS:] == [[1], leases[0]]
    batch = ("lease", 2, 2, 0, "lease", 2, 2, 0)
    leases = [client.eval(calls, 1, prefix, "w", 2, "", *batch)[N_STATUS:] for _ in range(2)]
    assert leases[0] == leases[1]
    assert leases[0][1][1::5] == [b"http://c.test/1"]
    counts = read_counts(client, prefix)
    assert (counts["leased"], counts["waiting"]) == (3, 0)
    frontier.close()


@pytest.mark.parametrize("persists", [True, False])
def test_a_finished_crawl_keeps_its_visits_and_the_rest_only_if_it_persists(
    persists: bool,
    redis_server: RedisServer,
) -> None:
    frontier = begin(redis_server, "ended")
    frontier._persists = persists
    frontier.add_seeds(["http://a.test/1"])
    handout = frontier.next_page(0.0)
    assert handout is not None
    frontier.observe(handout.lease, PageVisit(LinkPairs("", [])))
    frontier.ends_crawl = True
    frontier.close()
    left = list(redis_server.client().scan_iter())
    assert (len(left) > 1) == persists
    assert b"crawlprio:{ended:0}:visits" in left


def test_a_worker_reports_the_pages_that_all_workers_know(redis_server: RedisServer) -> None:
    one, other = begin(redis_server, "known"), begin(redis_server, "known", n_shards=1)
    one.add_seeds(["http://a.test/1", "http://a.test/2", "http://b.test/1"])
    assert other.next_page(0.0) is not None
    assert other.figures() == {"sites known": 2, "pages known": 3}
    for frontier in (one, other):
        frontier.close()
