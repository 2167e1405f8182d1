"""Tuning of Python's garbage collector while crawls run."""

from __future__ import annotations

import gc

NEW_OBJECTS = 10_000
"""Number of new objects that triggers a garbage collection while a crawl runs."""

_threshold = gc.get_threshold()
_n_crawls = 0


def crawl_begins() -> None:
    """Freeze the objects that exist now, and collect new ones less often.

    A full collection over everything loaded would block the event loop for a tenth of a second,
    every few seconds. Each page also leaves some cycles behind: at Python's default threshold of
    700 objects every other page triggers a collection, which takes 4 % of the time per page.
    """
    global _n_crawls, _threshold
    gc.collect()
    gc.freeze()
    if _n_crawls == 0:
        _threshold = gc.get_threshold()
        if 0 < _threshold[0] < NEW_OBJECTS:
            gc.set_threshold(NEW_OBJECTS, *_threshold[1:])
    _n_crawls += 1


def crawl_ends() -> None:
    """Restore the collector's settings once the last crawl has ended."""
    global _n_crawls
    _n_crawls -= 1
    if _n_crawls == 0:
        gc.set_threshold(*_threshold)
        gc.unfreeze()
