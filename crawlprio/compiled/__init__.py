"""Compiled functions; numba is loaded when the first of them is called.

Numba and its first compiled function take half a second of CPU time and 135 MB, even if everything
is cached. A module that decorates with `njit` from here pays nothing until its functions are
called, and a crawl without compiled functions never pays.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from threading import RLock
from types import ModuleType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import numpy as np

from crawlprio.compiled import cache, notices

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

PLAIN_UNTIL = 200_000
"""Number of pages up to which plain Python serves a crawl as well as compiled code.

Plain Python takes about 350 bytes more per waiting page, so this many take half the memory of
numba. It costs 0.05 ms more per page, which is negligible beside the 3 ms of stock Scrapy."""

_lock = RLock()
_numba: ModuleType | None = None
_waiting: list[_StandIn[Any, Any]] = []


class Compiled(Protocol[P, R_co]):
    """A compiled function, or its stand-in until numba is loaded."""

    @property
    def py_func(self) -> Callable[P, R_co]:
        """The same function in Python."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def njit(
    *, plain: bool = False, keeps_arrays: bool = True, **options: Any
) -> Callable[[Callable[P, R]], Compiled[P, R]]:
    """Compile a function with `numba.njit`, deferring the import of numba to the first call.

    Until then, a stand-in takes the place of the function. On the first call of any stand-in, numba
    is imported, and every stand-in that is a global of a crawlprio module is replaced by numba's
    own dispatcher, so that compiled functions find each other and calls from Python have no
    overhead. Each function is compiled, or loaded from numba's cache (`crawlprio.compiled.cache`),
    on its first call.

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

    def decorate(function: Callable[P, R]) -> Compiled[P, R]:
        with _lock:
            if _numba is not None:
                return _dispatcher(_numba, function, options)
            stand_in = _StandIn(function, options, plain)
            _waiting.append(stand_in)
            return stand_in

    return decorate


def plain_until() -> int:
    """Return the number of pages up to which to use plain Python: 0 if numba is already loaded."""
    return PLAIN_UNTIL if _numba is None else 0


def load() -> None:
    """Import numba and replace all stand-ins by compiled functions."""
    global _numba
    with _lock:
        if _numba is not None:
            return
        notices.quieten("numba")
        import numba

        notices.announce_compiling()
        _numba = numba
        replaced: dict[int, Any] = {}
        for stand_in in _waiting:
            stand_in.compiled = _dispatcher(numba, stand_in.py_func, stand_in.options)
            replaced[id(stand_in)] = stand_in.compiled
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "crawlprio":
                names = vars(module)
                for global_name, value in list(names.items()):
                    if id(value) in replaced:
                        names[global_name] = replaced[id(value)]
        _waiting.clear()


def dispatcher(function: Callable[..., Any]) -> Any:
    """Return numba's dispatcher for a function decorated with `njit`; loads numba."""
    load()
    return function.compiled if isinstance(function, _StandIn) else function


def direct(function: Callable[P, R]) -> Callable[P, R]:
    """Return the callable behind a function decorated with `njit`, bypassing its stand-in."""
    return function.compiled or function if isinstance(function, _StandIn) else function


class _StandIn(Generic[P, R]):
    """Takes the place of a compiled function until numba is loaded."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any], plain: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.options = options
        self.plain = plain
        self.compiled: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.compiled is None and self.plain:
            with np.errstate(over="ignore"):
                return self.py_func(*args, **kwargs)
        if self.compiled is None:
            load()
        assert self.compiled is not None
        return self.compiled(*args, **kwargs)


def _dispatcher(numba: Any, function: Callable[P, R], options: dict[str, Any]) -> Compiled[P, R]:
    """Return numba's dispatcher for a function."""
    if "_nrt" in options and not _knows_nrt():
        options = {name: value for name, value in options.items() if name != "_nrt"}
    compiled: Compiled[P, R]
    if options.get("cache"):
        compiled = cache.cached_dispatcher(numba, function, options)
    else:
        compiled = numba.njit(**options)(function)
    return compiled


def _knows_nrt() -> bool:
    """Whether this version of numba has the option behind `keeps_arrays`."""
    from numba.core.cpu import CPUTargetOptions

    return hasattr(CPUTargetOptions, "_nrt")


def uncounted(function: Callable[P, R]) -> Any:
    """Return numba's cached dispatcher for a function that retains no array; loads numba.

    References to its arrays are not counted, as with `keeps_arrays=False`.
    """
    load()
    return _dispatcher(_numba, function, {"cache": True, "_nrt": False})
