"""A visit with many links takes several calls, none of which has more than `LINKS_PER_CALL`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from redis_invariants import check
from redis_servers import RedisServer
from remote_frontier import local_frontier
from settled_redis import SettledRedis

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis.counts import read_counts
from crawlprio.plugins.redis.session import Session
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.plugins.redis.wire import LINKS_PER_CALL

START = "http://a.test/"


def links_to_many(rng: random.Random, n: int) -> list[str]:
    """Return links of which some have the same target, and some lead to the page itself."""
    links = [f"http://{rng.choice('abc')}.test/{rng.randrange(n)}" for _ in range(n)]
    return [START, *links, START]


def orders(
    frontier: SettledRedis, chosen: dict[str, Any], links: Sequence[str], outside: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the pages fetched from both frontiers, where the first page has the links."""
    local = local_frontier(chosen)
    found: tuple[list[str], list[str]] = ([], [])
    for at, each in enumerate((frontier, local)):
        each.add_seeds([START])
        for n in range(300):
            handout = each.next_page(0.0)
            assert handout is not None
            found[at].append(handout.url)
            pairs = LinkPairs(handout.url, [], status=200)
            if n == 0:
                pairs.targets, pairs.outside = list(links), [(url, "") for url in outside]
            each.observe(handout.lease, PageVisit(pairs))
    return found


@pytest.mark.parametrize(
    "ordering", ["opic", "rankmass", "fica", "random", "depth-first", "sibling-sampling"]
)
def test_the_order_is_that_of_a_local_crawl(ordering: str, redis_server: RedisServer) -> None:
    rng = random.Random(7)
    n = 3 * LINKS_PER_CALL
    chosen: dict[str, Any] = {"ORDERING": ordering, "DOWNLOAD_DELAY": 0}
    frontier = SettledRedis(redis_server.client(), f"many {ordering}", **chosen)
    outside = [f"http://b.test/{n}" for n in range(0, n, 7)]
    ours, theirs = orders(frontier, chosen, links_to_many(rng, n), outside)
    assert ours == theirs
    check(redis_server.client(), prefix_of(f"many {ordering}"))
    frontier.close()


def n_links_of(call: Sequence[Any]) -> int:
    return sum(isinstance(text, str) and text.startswith("http://") for text in call)


@pytest.mark.parametrize("n_shards", [1, 4])
def test_no_call_has_more_links_than_allowed(
    n_shards: int, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    send = Session._send

    def counted(session: Session, batch: Any) -> None:
        calls.append(sum(call.n_links for call in batch))
        for call in batch:
            assert n_links_of(call.arguments) <= LINKS_PER_CALL + 1
        send(session, batch)

    monkeypatch.setattr(Session, "_send", counted)
    crawl = f"calls {n_shards}"
    chosen: dict[str, Any] = {"ORDERING": "opic", "DOWNLOAD_DELAY": 0}
    frontier = SettledRedis(redis_server.client(), crawl, n_shards=n_shards, **chosen)
    seeds = [f"http://s{n}.test/" for n in range(2 * LINKS_PER_CALL)]
    frontier.add_seeds(seeds)
    n_links = 10 * LINKS_PER_CALL
    with frontier.together():
        for _ in range(2):
            handout = frontier.next_page(0.0)
            if handout is not None:
                links = [f"http://{n % 40}.test/{n}" for n in range(n_links)]
                frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, links)))
    frontier.settle()
    assert max(calls) <= LINKS_PER_CALL
    for shard in range(n_shards):
        check(redis_server.client(), prefix_of(crawl, shard))
    counts = [
        read_counts(redis_server.client(), prefix_of(crawl, shard)) for shard in range(n_shards)
    ]
    assert sum(each["outgoing"] for each in counts) == 0
    frontier.close()


class DyingWorker(SettledRedis):
    """A worker whose calls are lost after some parts of a visit."""

    n_parts = 10**6

    def _call(self, shard: int, script: str, *arguments: Any, **how: Any) -> None:
        if script == "more":
            self.n_parts -= 1
            if self.n_parts < 0:
                return
        super()._call(shard, script, *arguments, **how)


@pytest.mark.parametrize("n_done", [0, 1, 3])
def test_a_visit_whose_worker_dies_between_two_parts_counts_once(
    n_done: int, redis_server: RedisServer
) -> None:
    client = redis_server.client()
    crawl = f"dying {n_done}"
    chosen: dict[str, Any] = {"ORDERING": "opic", "DOWNLOAD_DELAY": 0, "DOWNLOAD_TIMEOUT": 180}
    dying = DyingWorker(client, crawl, **chosen)
    dying.add_seeds([START])
    handout = dying.next_page(0.0)
    assert handout is not None
    n = 4 * LINKS_PER_CALL
    links = [f"http://{'bcd'[at % 3]}.test/{at}" for at in range(n)]
    dying.n_parts = n_done
    dying.observe(handout.lease, PageVisit(LinkPairs(START, links, status=200)))
    prefix = prefix_of(crawl)
    counts = read_counts(client, prefix)
    assert counts["outgoing"] == (n_done < 3)
    assert counts["waiting"] == (n_done + 1) * LINKS_PER_CALL
    # The lease expires; the next worker takes over the parts.
    client.zadd(f"{prefix}:workers", {dying._all[0].session.worker: 0.0})
    other = SettledRedis(redis_server.client(), crawl, **chosen)
    fetched = []
    while (handout := other.next_page(0.0)) is not None:
        fetched.append(handout.url)
        other.observe(handout.lease, PageVisit(LinkPairs(handout.url, [], status=200)))
    assert sorted(fetched) == sorted(links)
    counts = read_counts(client, prefix)
    assert (counts["outgoing"], counts["visits"]) == (0, 1 + n)
    assert list(client.scan_iter(f"{prefix.replace('{', '[{]')}:parts:*")) == []
    entries = [fields for _, fields in client.xrange(f"{prefix}:visits") if b"p" in fields]
    assert [entry[b"p"] for entry in entries[:1]] == [b"0"]
    assert len(entries) == 1 + n
    assert all(int(one[b"n"]) < int(other[b"n"]) for one, other in pairwise(entries))
    check(client, prefix)
    other.close()
