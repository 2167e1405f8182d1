"""The compiled two-level queue, under the names by which `PageQueue` calls it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from crawlprio import compiled
from crawlprio.frontier import buffer, bulk, heaps, site_heaps

FUNCTIONS: tuple[Any, ...] = (
    *(heaps.end_fetch, heaps.place_site, heaps.pop, heaps.push, heaps.rekey, heaps.release),
    *(heaps.remove, bulk.rekey_all, bulk.rekey_pages, bulk.update, buffer.take_out),
    site_heaps.soonest,
)


def load() -> SimpleNamespace:
    """Return the functions by name, as numba's own dispatchers; loads numba."""
    compiled.load()
    return SimpleNamespace(**{one.__name__: compiled.direct(one) for one in FUNCTIONS})
