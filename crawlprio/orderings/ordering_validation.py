"""Guarded calls to an ordering's methods: a bug in a user's class becomes a one-sentence error.

Compiled code relies on these checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from crawlprio.errors import CrawlprioError, GraphError
from crawlprio.graph.arrays import integers
from crawlprio.graph.compiled import P, R
from crawlprio.graph.pages import PageIds, Visit
from crawlprio.orderings.base import ALL_PAGES, Changed, CompiledOrdering, Keys, Ordering, Pages

_REMEDY = "fix it, or resume with another ORDERING"


class OrderingError(CrawlprioError):
    """An ordering raised an exception, or returned an invalid answer."""


def open_ordering(
    ordering: Ordering, pages: Pages, truth: Callable[[int], float] | None = None
) -> None:
    """Open an ordering; an exception of its own becomes an `OrderingError`."""
    _call(ordering, "open", ordering.open, pages, truth)
    if not hasattr(ordering, "n_pages"):
        raise _fault(ordering, "open", "does not call that of `Ordering`")


def learn(ordering: Ordering, visit: Visit, n_pages: int, *, again: bool) -> Changed:
    """Pass a visit to an ordering; return the valid page ids whose keys changed, or `ALL_PAGES`.

    Raises OrderingError if it raises, if it returns neither `ALL_PAGES` nor page ids, or if its
    keys are not float64, too few or not finite. Only keys that may have changed are checked.
    """
    first = ordering.n_pages
    changed: Changed = _call(ordering, "observe", ordering.learn, visit, n_pages, again=again)
    if _is_trusted(ordering):
        return changed
    _check_keys(ordering, n_pages)
    if changed is ALL_PAGES:
        _check_finite(ordering, "observe", ordering.keys[:n_pages])
        return changed
    ids = _page_ids(ordering, changed, n_pages)
    _check_finite(ordering, "discover", ordering.keys[first:n_pages])
    _check_finite(ordering, "observe", ordering.keys[ids])
    return ids


def site_key(ordering: Ordering, site: int, best_key: float, n_waiting: int) -> float:
    """Return the key of a site; raise `OrderingError` if it is not a finite number."""
    try:
        key = float(ordering.site_key(site, best_key, n_waiting))
    except Exception as error:
        raise _failure(ordering, "site_key", error) from error
    if not math.isfinite(key):
        raise _fault(ordering, "site_key", f"returned {key}")
    return key


def recomputation(ordering: Ordering) -> Callable[[], Keys] | None:
    """Return the computation that is due, wrapped so that it raises only `OrderingError`."""
    work = _call(ordering, "recomputation", ordering.recomputation)
    if work is None or _is_trusted(ordering):
        return work
    return partial(_call, ordering, "recomputation", work)


def accept(ordering: Ordering, result: Keys) -> Changed:
    """Pass the result of a recomputation to an ordering; check its answer as in `learn`."""
    changed: Changed = _call(ordering, "accept", ordering.accept, result)
    if _is_trusted(ordering):
        return changed
    _check_keys(ordering, ordering.n_pages)
    _check_finite(ordering, "accept", ordering.keys[: ordering.n_pages])
    if changed is ALL_PAGES:
        return changed
    return _page_ids(ordering, changed, ordering.n_pages, "accept")


def _call(
    ordering: Ordering, name: str, method: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a method of an ordering; an exception of its own becomes an `OrderingError`."""
    try:
        return method(*args, **kwargs)
    except Exception as error:
        raise _failure(ordering, name, error) from error


def is_by_rule_alone(ordering: Ordering) -> bool:
    """Whether calls of a trusted, compiled rule are all that it takes to learn visits."""
    return (
        isinstance(ordering, CompiledOrdering)
        and ordering.learns_by_rule
        and type(ordering).recomputation is Ordering.recomputation
        and _is_trusted(ordering)
    )


def _is_trusted(ordering: Ordering) -> bool:
    """Whether an ordering is one of crawlprio's own, which need no checks."""
    return type(ordering).__module__.startswith("crawlprio.")


def _page_ids(
    ordering: Ordering, changed: object, n_pages: int, method: str = "observe"
) -> PageIds:
    """Return the changed pages as int32 ids, valid for compiled code."""
    with suppress(GraphError):
        return integers("pages", changed, np.int32, below=n_pages)
    raise _fault(
        ordering,
        method,
        f"returned {str(changed)[:60]}, which is neither ALL_PAGES nor an array of page ids below "
        f"{n_pages}",
    )


def _check_keys(ordering: Ordering, n_pages: int) -> None:
    keys: object = ordering.keys
    if not (
        isinstance(keys, np.ndarray)
        and keys.dtype == np.float64
        and keys.ndim == 1
        and len(keys) >= n_pages
        and keys.flags.c_contiguous
        and keys.flags.writeable
    ):
        shape = f"{keys.dtype}, {keys.shape}" if isinstance(keys, np.ndarray) else type(keys)
        raise OrderingError(
            f"Ordering {_name(ordering)}: keys is {shape}; it must remain a float64 array with "
            f"room for {n_pages} pages: {_REMEDY}."
        )


def _check_finite(ordering: Ordering, method: str, keys: Keys) -> None:
    if not np.isfinite(keys).all():
        bad = keys[~np.isfinite(keys)][0]
        raise _fault(ordering, method, f"gave a page the key {bad}")


def _failure(ordering: Ordering, method: str, error: Exception) -> CrawlprioError:
    """Return the error for an exception, naming the method of the ordering that raised it."""
    if isinstance(error, CrawlprioError):
        return error
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_locals.get("self") is ordering:
            found = frame.tb_frame.f_code.co_name
            if found in ("discover", "observe"):
                method = found
        frame = frame.tb_next
    return _fault(ordering, method, f"raised {type(error).__name__}: {error}")


def _fault(ordering: Ordering, method: str, did: str) -> OrderingError:
    return OrderingError(f"Ordering {_name(ordering)}: {method} {did}; {_REMEDY}.")


def _name(ordering: Ordering) -> str:
    return f"{type(ordering).__module__}.{type(ordering).__qualname__}"
