"""The counts that `common.lua` keeps of a shard."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

COUNTS = (
    *("pages", "keyed", "visits", "waiting", "leased", "links", "initial", "parent", "number"),
    *("rest_until", "max_delay", "ready", "taken_over", "dead", "recorded"),
    *("outgoing", "fetched", "changes", "robots", "fetches", "held", "offset"),
)
"""Names in the order in which they are packed; `common.lua` defines them."""

_PACKED = struct.Struct(f">{len(COUNTS)}d")


def pack_counts(counts: Mapping[str, float]) -> bytes:
    """Pack counts as they are stored; missing ones are 0."""
    return _PACKED.pack(*(counts.get(name, 0.0) for name in COUNTS))


def read_counts(client: Any, prefix: str) -> dict[str, float]:
    """Return the counts of a shard, all 0 if there is none. One round trip."""
    packed = client.get(f"{prefix}:counts")
    return dict(zip(COUNTS, _PACKED.unpack(packed or bytes(_PACKED.size)), strict=True))
