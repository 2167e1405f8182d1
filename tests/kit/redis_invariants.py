"""Invariants of a crawl's keys in Redis, which hold between any two calls."""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict
from typing import Any

from crawlprio.plugins.redis.cluster import node_for
from crawlprio.plugins.redis.counts import read_counts

PAGE = struct.Struct(">dIiHBBB")
PAGES_PER_BLOCK = 24
SITE = struct.Struct(">IIIIIBIBIIBIIIddddddddd")
TALLY = struct.Struct(">IIII")
WAITING, LEASED, DONE = 1, 2, 3
READY, DELAYED = 1, 2
ON_VISIT = 2**40
IDENTITY = struct.Struct(">10sI")


_READ = """
local found = {}
for at, key in ipairs(redis.call('KEYS', ARGV[1])) do
    local kind = redis.call('TYPE', key).ok
    local value = false
    if kind == 'string' then value = redis.call('GET', key)
    elseif kind == 'hash' then value = redis.call('HGETALL', key)
    elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
    elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
    found[at] = {key, kind, value}
end
return found
"""


class Keys:
    """The strings, hashes, lists and sorted sets under a prefix, by the rest of their keys.

    One round trip reads all of them: with one for each key, reading would take most of the time of
    a test that checks them after every call.
    """

    def __init__(self, client: Any, prefix: str) -> None:
        escaped = prefix.replace("{", "[{]").replace("}", "[}]")
        self.strings: dict[str, bytes] = {}
        self.hashes: dict[str, dict[bytes, bytes]] = {}
        self.lists: dict[str, list[bytes]] = {}
        self.scores: dict[str, list[tuple[bytes, float]]] = {}
        for key, kind, value in node_for(client, prefix).eval(_READ, 0, f"{escaped}:*"):
            name = key.decode().removeprefix(f"{prefix}:")
            if kind == b"string":
                self.strings[name] = value
            elif kind == b"hash":
                self.hashes[name] = dict(zip(value[::2], value[1::2], strict=True))
            elif kind == b"list":
                self.lists[name] = value
            elif kind == b"zset":
                scores = map(float, value[1::2])
                self.scores[name] = list(zip(value[::2], scores, strict=True))

    def hash(self, name: str) -> dict[bytes, bytes]:
        return self.hashes.get(name, {})

    def numbered(self, kind: str) -> dict[int, bytes]:
        """Return the strings `kind:NUMBER` by number."""
        return {
            int(name.rpartition(":")[2]): value
            for name, value in self.strings.items()
            if name.startswith(f"{kind}:")
        }


def _pages(keys: Keys, n_pages: int) -> dict[int, tuple[Any, ...]]:
    """Return page records by page; check that the rest of the last block is empty."""
    pages = {}
    for block, records in keys.numbered("p").items():
        assert len(records) == PAGES_PER_BLOCK * PAGE.size
        for slot, record in enumerate(PAGE.iter_unpack(records), PAGES_PER_BLOCK * block):
            if slot < n_pages:
                pages[slot] = record
            else:
                assert not any(record)
    return pages


def _urls(keys: Keys) -> dict[int, bytes]:
    """Return stored URLs by page, without scheme and host."""
    urls = {}
    for block, packed in keys.numbered("u").items():
        at = 0
        while at < len(packed):
            page = 16 * block + packed[at]
            assert page not in urls, "each URL is stored once"
            after = at + 4 + int.from_bytes(packed[at + 1 : at + 4], "big")
            urls[page] = packed[at + 4 : after]
            at = after
        assert at == len(packed) > 0
    return urls


def _identities(keys: Keys, n_pages: int) -> list[int]:
    """Return the pages with an identity, after checking that each is in the bucket of its hash."""
    n_buckets = n_pages // 16 + 1
    half = 1 << (n_buckets.bit_length() - 1)
    pages = []
    for bucket, packed in keys.numbered("i").items():
        for start, page in IDENTITY.iter_unpack(packed):
            wanted = int.from_bytes(start[:4], "big") % (2 * half)
            assert bucket == (wanted if wanted < n_buckets else wanted - half)
            pages.append(page)
    return pages


def check(client: Any, prefix: str) -> None:
    """Assert every invariant of the keys under a prefix. O(keys)."""
    keys = Keys(client, prefix)
    config = {name.decode(): value for name, value in keys.hash("config").items()}
    counts = read_counts(client, prefix)
    n_pages = int(counts["pages"])
    pages = _pages(keys, n_pages)
    urls = _urls(keys)
    sites = {
        int(site): SITE.unpack(record[: SITE.size]) for site, record in keys.hash("sites").items()
    }
    hosts = {int(site): host for host, site in keys.hash("hosts").items() if host != b" "}
    assert sorted(pages) == list(range(n_pages))
    assert sorted(sites) == sorted(hosts) == list(range(len(hosts)))
    assert sorted(_identities(keys, n_pages)) == sorted(pages)

    standing: dict[int, tuple[int, int, float]] = {}
    queues: dict[int, list[tuple[int, float, int]]] = defaultdict(list)
    for name, scores in keys.scores.items():
        kind, _, place = name.partition(":")
        if kind != "w":
            continue
        site, _, tier = place.partition(":")
        for member, score in scores:
            (page,) = struct.unpack(">I", member)
            assert page not in standing, "a page waits once"
            standing[page] = (int(site), int(tier or 0), score)
            queues[int(site)].append((-int(tier or 0), score, page))
    for page, (key, site, tier, _, state, n_leases, _) in pages.items():
        assert (page in standing) == (state == WAITING), (page, state)
        assert (state == LEASED) <= (n_leases > 0)
        if page in standing:
            assert standing[page][:2] == (site, tier)
            assert math.isfinite(key)
            assert page in urls, "a waiting page has a URL"

    waiting_requests = set(map(int, keys.hash("requests")))
    assert counts["waiting"] >= len(standing)
    assert waiting_requests == {page for page, record in pages.items() if record[6] & 8}
    attempts = set(map(int, keys.hash("attempts")))
    assert attempts == {page for page, record in pages.items() if record[6] & 16}

    silent = {int(site): domain for site, domain in keys.hash("silent").items()}
    claims = set(map(int, keys.hash("claims")))
    assert claims <= {page for page, record in pages.items() if record[6] & 32}
    tallies = [
        {name: TALLY.unpack(found) for name, found in keys.hash(kind).items() if name != b" "}
        for kind in ("domains", "patterns")
    ]
    n_silent = Counter(silent.values())
    assert {name: found[3] for name, found in tallies[0].items() if found[3]} == n_silent
    assert sum(found[1] for found in tallies[1].values()) == len(claims)

    n_leased: Counter[int] = Counter()
    n_of_page: Counter[int] = Counter()
    n_leases_of_all = 0
    for name, leases in keys.hashes.items():
        if not name.startswith("leases:"):
            continue
        for lease in leases.values():
            page, site, holds = lease_of(lease)
            n_leases_of_all += 1
            assert page < 0 or page in urls, "a leased page has a URL"
            if holds:
                n_leased[site] += 1
                n_of_page[page] += page >= 0
    assert counts["leased"] == n_leases_of_all
    for page, record in pages.items():
        assert record[5] == n_of_page[page]

    domain_of = {site: record[6] for site, record in sites.items()}
    flights = {int(domain): int(n) for domain, n in keys.hash("flights").items()}
    n_flights: Counter[int] = Counter()
    for page, n in n_of_page.items():
        n_flights[domain_of[pages[page][1]]] += n if page >= 0 else 0
    assert flights == {domain: n for domain, n in n_flights.items() if n}
    held_back = {
        int(domain): list(map(int, keys.lists.get(f"held:{int(domain)}", ())))
        for domain, _ in keys.scores.get("held", ())
    }
    assert all(domain_of[site] == domain for domain, held in held_back.items() for site in held)
    assert counts["held"] == sum(map(len, held_back.values())) == sum(r[7] for r in sites.values())
    assert sum(name.startswith("held:") for name in keys.lists) == len(held_back)

    ready = {
        (int(float(name.removeprefix("ready:"))), struct.unpack(">I", member)[0]): score
        for name, scores in keys.scores.items()
        if name.startswith("ready:")
        for member, score in scores
    }
    delayed = {int(site) for site, _ in keys.scores.get("delayed", [])}
    assert counts["ready"] == len(ready)
    n_ready = n_delayed = 0
    for site, record in sites.items():
        leased, own_limit, waiting, known, n_claims, is_silent, domain, is_held, *more = record
        _, first, place, *rest = more
        limit = own_limit or float(config["limit"])
        assert leased == n_leased[site]
        assert leased <= limit, "a site does not exceed its limit of leases"
        assert waiting == len(queues[site])
        assert known == sum(page[1] == site for page in pages.values())
        assert n_claims == sum(page[1] == site and page[6] & 32 > 0 for page in pages.values())
        assert is_silent == (site in silent)
        assert (place != 0) == (waiting > 0 and leased < limit and not is_held), record
        assert is_held == (site in held_back.get(domain, [])), record
        if place == READY:
            n_ready += 1
            tier, score, page = min(queues[site])
            assert first == page, "a ready site is placed by its first page"
            by_pages = float(config["by_waiting_pages"])
            in_front = ON_VISIT if rest[0] else 0
            assert ready[(in_front - tier, page)] == (-waiting if by_pages else score)
        elif place == DELAYED:
            n_delayed += 1
            assert site in delayed
    assert (n_ready, n_delayed) == (len(ready), len(delayed))


def lease_of(packed: bytes) -> tuple[int, int, bool]:
    """Return page, site and "holds its site" of a lease in msgpack."""
    assert packed[0] == 0x96, "six values"
    page, at = _whole(packed, 1)
    site, at = _whole(packed, at)
    assert packed[at] in (0xC2, 0xC3)
    return page, site, packed[at] == 0xC3


def _whole(packed: bytes, at: int) -> tuple[int, int]:
    """Return an integer in msgpack, and the position after it."""
    first = packed[at]
    if first < 0x80:
        return first, at + 1
    if first >= 0xE0:
        return first - 256, at + 1
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4}[first]
    return int.from_bytes(packed[at + 1 : at + 1 + size], "big"), at + 1 + size
