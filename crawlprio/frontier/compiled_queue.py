"""The compiled two-level queue, under the names by which `PageQueue` calls it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from crawlprio import compiled
from crawlprio.frontier import buffer, bulk, heaps, site_heaps

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "end_fetch": heaps.end_fetch,
    "place_site": heaps.place_site,
    "pop": heaps.pop,
    "push": heaps.push,
    "rekey": heaps.rekey,
    "rekey_all": bulk.rekey_all,
    "rekey_pages": bulk.rekey_pages,
    "release": heaps.release,
    "remove": heaps.remove,
    "soonest": site_heaps.soonest,
    "take_out": buffer.take_out,
    "update": bulk.update,
}


def load() -> SimpleNamespace:
    """Return the functions by name, as numba's own dispatchers; loads numba."""
    compiled.load()
    return SimpleNamespace(**{name: compiled.direct(one) for name, one in FUNCTIONS.items()})
