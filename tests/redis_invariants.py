"""What must hold of a crawl's keys in Redis between any two calls."""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict
from typing import Any

PAGE = struct.Struct(">dIiHBBB")
SITE = struct.Struct(">IIIIIIBIIIddddddddd")
WAITING, LEASED, DONE = 1, 2, 3
READY, DELAYED = 1, 2


def _rows(client: Any, pattern: str, width: int) -> dict[int, bytes]:
    """The values of hashes that share numbered rows among them."""
    rows = {}
    for key in client.scan_iter(pattern):
        base = int(key.rsplit(b":", 1)[1]) * width
        rows.update({base + int(field): value for field, value in client.hgetall(key).items()})
    return rows


def check(client: Any, prefix: str) -> None:
    """Assert every invariant of the keys under a prefix. O(keys)."""
    escaped = prefix.replace("{", "[{]").replace("}", "[}]")
    config = {name.decode(): value for name, value in client.hgetall(f"{prefix}:config").items()}
    counts = {
        name.decode(): float(value) for name, value in client.hgetall(f"{prefix}:counts").items()
    }
    pages = {
        page: PAGE.unpack(record) for page, record in _rows(client, f"{escaped}:p:*", 128).items()
    }
    urls = _rows(client, f"{escaped}:u:*", 64)
    sites = {
        int(site): SITE.unpack(record[: SITE.size])
        for site, record in client.hgetall(f"{prefix}:sites").items()
    }
    hosts = {int(site): host for host, site in client.hgetall(f"{prefix}:hosts").items()}
    assert sorted(pages) == list(range(int(counts.get("pages", 0))))
    assert sorted(sites) == sorted(hosts) == list(range(len(hosts)))
    identities = [
        int(page)
        for key in client.scan_iter(f"{escaped}:i:*")
        for page in client.hgetall(key).values()
    ]
    assert sorted(identities) == sorted(pages)

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
            assert page in urls, "what waits can be fetched"

    waiting_requests = {
        int(page): value for page, value in client.hgetall(f"{prefix}:requests").items()
    }
    assert counts.get("waiting", 0) >= len(standing)
    assert set(waiting_requests) <= set(pages)

    n_leased: Counter[int] = Counter()
    n_of_page: Counter[int] = Counter()
    n_leases_of_all = 0
    for key in client.scan_iter(f"{escaped}:leases:*"):
        for lease in client.hgetall(key).values():
            page, site, holds = _lease(lease)
            n_leases_of_all += 1
            assert page < 0 or page in urls, "what is leased can wait again"
            if holds:
                n_leased[site] += 1
                n_of_page[page] += page >= 0
    assert counts.get("leased", 0) == n_leases_of_all
    for page, record in pages.items():
        assert record[5] == n_of_page[page]

    ready = {
        (int(float(tier)), struct.unpack(">I", member)[0]): score
        for key in client.scan_iter(f"{escaped}:ready:*")
        for tier in [key.rsplit(b":", 1)[1]]
        for member, score in client.zrange(key, 0, -1, withscores=True)
    }
    delayed = {
        int(site): time for site, time in client.zrange(f"{prefix}:delayed", 0, -1, withscores=True)
    }
    assert counts.get("ready", 0) == len(ready)
    n_ready = n_delayed = 0
    for site, record in sites.items():
        leased, own_limit, waiting, known, _, first, place, *_ = record
        limit = own_limit or float(config["limit"])
        assert leased == n_leased[site]
        assert leased <= limit, "no site has more leases than it may have"
        assert waiting == len(queues[site])
        assert known == sum(page[1] == site for page in pages.values())
        assert (place != 0) == (waiting > 0 and leased < limit), record
        if place == READY:
            n_ready += 1
            tier, score, page = min(queues[site])
            assert first == page, "a site stands by its first page"
            by_pages = float(config["by_waiting_pages"])
            assert ready[(-tier, page)] == (-waiting if by_pages else score)
        elif place == DELAYED:
            n_delayed += 1
            assert site in delayed
    assert (n_ready, n_delayed) == (len(ready), len(delayed))


def _lease(packed: bytes) -> tuple[int, int, bool]:
    """Page, site and whether it holds its site, of a lease as msgpack."""
    assert packed[0] == 0x96, "six values"
    page, at = _whole(packed, 1)
    site, at = _whole(packed, at)
    assert packed[at] in (0xC2, 0xC3)
    return page, site, packed[at] == 0xC3


def _whole(packed: bytes, at: int) -> tuple[int, int]:
    """A whole number in msgpack, and where the next value begins."""
    first = packed[at]
    if first < 0x80:
        return first, at + 1
    if first >= 0xE0:
        return first - 256, at + 1
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4}[first]
    return int.from_bytes(packed[at + 1 : at + 1 + size], "big"), at + 1 + size
