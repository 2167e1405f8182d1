"""Compiled functions; numba is loaded when the first of them is called.

Numba and its first compiled function take half a second of CPU time and 135 MB, even if everything
is cached. A module that decorates with `njit` from here pays nothing until its functions are
called, and a crawl without compiled functions never pays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from crawlprio.compiled import cache, notices
from crawlprio.compiled.layout import Layout

P = ParamSpec("P")
R = TypeVar("R")

PLAIN_UNTIL = 200_000
"""Number of pages up to which plain Python serves a crawl as well as compiled code.

Plain Python takes about 350 bytes more per waiting page, so this many take half the memory of
numba. It costs 0.05 ms more per page, which is negligible beside the 3 ms of stock Scrapy."""

_lock = RLock()
_numba: ModuleType | None = None


def njit(
    *, plain: bool = False, keeps_arrays: bool = True, **options: Any
) -> Callable[[Callable[P, R]], Compiled[P, R]]:
    """Compile a function with `numba.njit`, deferring the import of numba to the first call.

    Each function is compiled, or loaded from numba's cache (`crawlprio.compiled.cache`), on its
    first call.

    Parameters
    ----------
    plain
        Run as Python until numba is loaded for another function; for short loops over arrays, in
        which unsigned integers may wrap around.
    keeps_arrays
        Set to False for a function that neither creates nor returns arrays (it may take slices).
        References to its arrays are then not counted, which saves expensive atomic operations. The
        numba option for this is undocumented; versions without it run the function more slowly.
    options
        Options of `numba.njit`; nearly always `cache=True`.
    """
    if not keeps_arrays:
        options["_nrt"] = False
    return lambda function: Compiled(function, options, plain)


class Compiled(Generic[P, R]):
    """A function that numba compiles on its first call; compiled code may call it by this name.

    A call from Python costs 0.2 microseconds more than one of numba's own `dispatcher`.

    Attributes
    ----------
    py_func
        The same function in Python.
    is_plain
        Whether it runs as Python until numba is loaded.
    targetoptions
        Options of `numba.njit`; numba reads them under this name, to inline calls.
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any], plain: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options
        self.is_plain = plain
        self._dispatcher: Any = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._dispatcher is None:
            if self.is_plain and _numba is None:
                with np.errstate(over="ignore"):
                    return self.py_func(*args, **kwargs)
            return self.dispatcher(*args, **kwargs)  # type: ignore[no-any-return]
        return self._dispatcher(*args, **kwargs)  # type: ignore[no-any-return]

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of the function; loads numba."""
        load()
        with _lock:
            if self._dispatcher is None:
                if "_nrt" in self.targetoptions and not _knows_nrt():
                    del self.targetoptions["_nrt"]
                make = cache.cached_dispatcher if self.targetoptions.get("cache") else _dispatcher
                self._dispatcher = make(_numba, self.py_func, self.targetoptions)
        return self._dispatcher


def plain_until() -> int:
    """Return the number of pages up to which to use plain Python: 0 if numba is already loaded."""
    return PLAIN_UNTIL if _numba is None else 0


def load() -> None:
    """Import numba; let it see dispatchers in place of `Compiled`, and intrinsics of `Layout`."""
    global _numba
    with _lock:
        if _numba is not None:
            return
        notices.quieten("numba")
        import numba
        from numba.extending import typeof_impl

        typeof_impl.register(Compiled)(
            lambda function, context: numba.types.Dispatcher(function.dispatcher)
        )
        typeof_impl.register(Layout)(lambda layout, context: layout.numba_type)
        notices.announce_compiling()
        _numba = numba


def direct(function: Callable[P, R]) -> Callable[P, R]:
    """Return what a call of the function ends up in now, for a caller that calls it often."""
    if isinstance(function, Compiled) and _numba is not None:
        function = function.dispatcher
    return function


def _dispatcher(numba: Any, function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return numba's dispatcher for a function, without a cache."""
    return numba.njit(**options)(function)


def _knows_nrt() -> bool:
    """Whether this version of numba has the option behind `keeps_arrays`."""
    from numba.core.cpu import CPUTargetOptions

    return hasattr(CPUTargetOptions, "_nrt")
