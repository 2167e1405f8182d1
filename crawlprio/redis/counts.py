"""The counts of a crawl in Redis, as `common.lua` keeps them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

COUNTS = (
    *("pages", "keyed", "visits", "waiting", "leased", "links", "initial", "parent", "number"),
    *("rest_until", "max_delay", "ready", "taken_over", "dead", "recorded"),
    *("outgoing", "changes"),
)
"""Their names, in the order in which they are packed; `common.lua` says what each is."""

_PACKED = struct.Struct(f">{len(COUNTS)}d")


def pack_counts(counts: Mapping[str, float]) -> bytes:
    """Return counts as they are stored; those that are not given are 0."""
    return _PACKED.pack(*(counts.get(name, 0.0) for name in COUNTS))


def read_counts(client: Any, prefix: str) -> dict[str, float]:
    """Return the counts of a crawl; all are 0 where there is none. One round trip."""
    packed = client.get(f"{prefix}:counts")
    return dict(zip(COUNTS, _PACKED.unpack(packed or bytes(_PACKED.size)), strict=True))
