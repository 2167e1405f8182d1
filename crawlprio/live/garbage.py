"""Python's garbage collector while crawls run."""

from __future__ import annotations

import gc

NEW_OBJECTS = 10_000
"""Objects after whose creation Python looks for unreachable cycles, while a crawl runs."""

_threshold = gc.get_threshold()
_n_crawls = 0


def crawl_begins() -> None:
    """Make the collector pass over what is loaded by now, and look less often at what is new.

    A full collection that goes through what is loaded would hold the event loop for a tenth of a
    second, every few seconds. And each page leaves some cycles behind: at Python's own threshold of
    700 objects a collection comes with every other page, and all of them take 4 % of a page's time.
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
    """Restore the collector once the last crawl has ended."""
    global _n_crawls
    _n_crawls -= 1
    if _n_crawls == 0:
        gc.set_threshold(*_threshold)
        gc.unfreeze()
