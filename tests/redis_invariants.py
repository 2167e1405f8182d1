"""Invariants of a crawl's keys in Redis, which hold between any two calls."""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict
from typing import Any

from crawlprio.redis.counts import read_counts

PAGE = struct.Struct(">dIiHBBB")
PAGES_PER_BLOCK = 24
SITE = struct.Struct(">IIIIIBIBIIBIIIddddddddd")
TALLY = struct.Struct(">IIII")
WAITING, LEASED, DONE = 1, 2, 3
READY, DELAYED = 1, 2
ON_VISIT = 2**40
IDENTITY = struct.Struct(">10sI")


def _strings(client: Any, pattern: str) -> dict[int, bytes]:
    """Return the strings whose keys end in a number, by that number."""
    return {int(key.rsplit(b":", 1)[1]): client.get(key) for key in client.scan_iter(pattern)}


def _pages(client: Any, pattern: str, n_pages: int) -> dict[int, tuple[Any, ...]]:
    """Return page records by page; check that the rest of the last block is empty."""
    pages = {}
    for block, records in _strings(client, pattern).items():
        assert len(records) == PAGES_PER_BLOCK * PAGE.size
        for slot, record in enumerate(PAGE.iter_unpack(records), PAGES_PER_BLOCK * block):
            if slot < n_pages:
                pages[slot] = record
            else:
                assert not any(record)
    return pages


def _urls(client: Any, pattern: str) -> dict[int, bytes]:
    """Return stored URLs by page, without scheme and host."""
    urls = {}
    for block, packed in _strings(client, pattern).items():
        at = 0
        while at < len(packed):
            page = 16 * block + packed[at]
            assert page not in urls, "each URL is stored once"
            after = at + 4 + int.from_bytes(packed[at + 1 : at + 4], "big")
            urls[page] = packed[at + 4 : after]
            at = after
        assert at == len(packed) > 0
    return urls


def _identities(client: Any, pattern: str, n_pages: int) -> list[int]:
    """Return the pages with an identity, after checking that each is in the bucket of its hash."""
    n_buckets = n_pages // 16 + 1
    half = 1 << (n_buckets.bit_length() - 1)
    pages = []
    for bucket, packed in _strings(client, pattern).items():
        for start, page in IDENTITY.iter_unpack(packed):
            wanted = int.from_bytes(start[:4], "big") % (2 * half)
            assert bucket == (wanted if wanted < n_buckets else wanted - half)
            pages.append(page)
    return pages


def check(client: Any, prefix: str) -> None:
    """Assert every invariant of the keys under a prefix. O(keys)."""
    escaped = prefix.replace("{", "[{]").replace("}", "[}]")
    config = {name.decode(): value for name, value in client.hgetall(f"{prefix}:config").items()}
    counts = read_counts(client, prefix)
    n_pages = int(counts["pages"])
    pages = _pages(client, f"{escaped}:p:*", n_pages)
    urls = _urls(client, f"{escaped}:u:*")
    sites = {
        int(site): SITE.unpack(record[: SITE.size])
        for site, record in client.hgetall(f"{prefix}:sites").items()
    }
    hosts = {
        int(site): host for host, site in client.hgetall(f"{prefix}:hosts").items() if host != b" "
    }
    assert sorted(pages) == list(range(n_pages))
    assert sorted(sites) == sorted(hosts) == list(range(len(hosts)))
    assert sorted(_identities(client, f"{escaped}:i:*", n_pages)) == sorted(pages)

    standing: dict[int, tuple[int, int, float]] = {}
    queues: dict[int, list[tuple[int, float, int]]] = defaultdict(list)
    for key in client.scan_iter(f"{escaped}:w:*"):
        site, _, tier = key.decode().partition(f"{prefix}:w:")[2].partition(":")
        for member, score in client.zrange(key, 0, -1, withscores=True):
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

    waiting_requests = {
        int(page): value for page, value in client.hgetall(f"{prefix}:requests").items()
    }
    assert counts["waiting"] >= len(standing)
    assert set(waiting_requests) == {page for page, record in pages.items() if record[6] & 8}
    attempts = {int(page) for page in client.hkeys(f"{prefix}:attempts")}
    assert attempts == {page for page, record in pages.items() if record[6] & 16}

    silent = {int(site): domain for site, domain in client.hgetall(f"{prefix}:silent").items()}
    claims = {int(page) for page in client.hkeys(f"{prefix}:claims")}
    assert claims <= {page for page, record in pages.items() if record[6] & 32}
    tallies = [
        {name: TALLY.unpack(found) for name, found in client.hgetall(key).items() if name != b" "}
        for key in (f"{prefix}:domains", f"{prefix}:patterns")
    ]
    n_silent = Counter(silent.values())
    assert {name: found[3] for name, found in tallies[0].items() if found[3]} == n_silent
    assert sum(found[1] for found in tallies[1].values()) == len(claims)

    n_leased: Counter[int] = Counter()
    n_of_page: Counter[int] = Counter()
    n_leases_of_all = 0
    for key in client.scan_iter(f"{escaped}:leases:*"):
        for lease in client.hgetall(key).values():
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
    flights = {int(domain): int(n) for domain, n in client.hgetall(f"{prefix}:flights").items()}
    n_flights: Counter[int] = Counter()
    for page, n in n_of_page.items():
        n_flights[domain_of[pages[page][1]]] += n if page >= 0 else 0
    assert flights == {domain: n for domain, n in n_flights.items() if n}
    held_back = {
        int(domain): [int(site) for site in client.lrange(f"{prefix}:held:{int(domain)}", 0, -1)]
        for domain in client.zrange(f"{prefix}:held", 0, -1)
    }
    assert all(domain_of[site] == domain for domain, held in held_back.items() for site in held)
    assert counts["held"] == sum(map(len, held_back.values())) == sum(r[7] for r in sites.values())
    assert len(list(client.scan_iter(f"{escaped}:held:*"))) == len(held_back)

    ready = {
        (int(float(tier)), struct.unpack(">I", member)[0]): score
        for key in client.scan_iter(f"{escaped}:ready:*")
        for tier in [key.rsplit(b":", 1)[1]]
        for member, score in client.zrange(key, 0, -1, withscores=True)
    }
    delayed = {
        int(site): time for site, time in client.zrange(f"{prefix}:delayed", 0, -1, withscores=True)
    }
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
