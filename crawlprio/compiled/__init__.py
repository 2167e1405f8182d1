"""Compiled functions, for which numba is loaded when the first of them is called.

Numba and its first compiled function take half a second of processor time and 135 MB, also where
all is in its cache. A module that decorates with `njit` from here costs nothing of that before it
is used, and a crawl that does without compiled functions costs nothing of it at all.
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
"""Pages up to which a crawl is served by plain Python as well as by compiled code.

Plain Python takes some 350 bytes more for each page that waits, so that this many weigh half of
what numba does; and it makes a page dearer by 0.05 ms, which stock Scrapy's 3 ms do not show."""

_lock = RLock()
_numba: ModuleType | None = None
_waiting: list[_StandIn[Any, Any]] = []


class Compiled(Protocol[P, R_co]):
    """A compiled function, or what stands in for it until numba is loaded."""

    @property
    def py_func(self) -> Callable[P, R_co]:
        """The same in Python."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def njit(
    *, plain: bool = False, keeps_arrays: bool = True, **options: Any
) -> Callable[[Callable[P, R]], Compiled[P, R]]:
    """Compile a function with `numba.njit`, when one that is so decorated is called first.

    Until then a stand-in bears its name. At the first call of any of them numba is imported, and
    every stand-in that is a global of a module of crawlprio is replaced by numba's own dispatcher:
    so compiled functions find each other, and calls from Python go through nothing else. Each is
    compiled, or loaded from numba's cache (`crawlprio.compiled.cache`), when it is called first.

    Parameters
    ----------
    plain
        run as Python until numba is loaded for another function; for short loops over arrays, in
        which unsigned integers may wrap around.
    keeps_arrays
        False of a function that neither makes nor returns arrays (it may take slices): references
        to its arrays are then not counted, which is done atomically and dear. The option of numba
        for that is not documented; a version without it does the same, slower.
    options
        of `numba.njit`; `cache=True` nearly always.
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
    """Return for how many pages plain Python should do: 0 where numba is loaded already."""
    return PLAIN_UNTIL if _numba is None else 0


def load() -> None:
    """Import numba and put compiled functions in the place of all stand-ins."""
    global _numba
    with _lock:
        if _numba is not None:
            return
        notices.quieten("numba")
        import numba

        notices.tell_of_compiling()
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
    """Return numba's dispatcher of a function that `njit` decorated; numba is loaded."""
    load()
    return function.compiled if isinstance(function, _StandIn) else function


def direct(function: Callable[P, R]) -> Callable[P, R]:
    """Return what a function that `njit` decorated calls now, without a stand-in between."""
    return function.compiled or function if isinstance(function, _StandIn) else function


class _StandIn(Generic[P, R]):
    """Bears the name of a compiled function until numba is loaded."""

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
    """Numba's dispatcher of a function."""
    if "_nrt" in options and not _knows_nrt():
        options = {name: value for name, value in options.items() if name != "_nrt"}
    compiled: Compiled[P, R]
    if options.get("cache"):
        compiled = cache.kept(numba, function, options)
    else:
        compiled = numba.njit(**options)(function)
    return compiled


def _knows_nrt() -> bool:
    """Whether this version of numba has the option that `keeps_arrays` stands for."""
    from numba.core.cpu import CPUTargetOptions

    return hasattr(CPUTargetOptions, "_nrt")


def uncounted(function: Callable[P, R]) -> Any:
    """Return numba's dispatcher of a function that keeps no array, kept on disk; numba is loaded.

    References to its arrays are not counted, as with `keeps_arrays=False`.
    """
    load()
    return _dispatcher(_numba, function, {"cache": True, "_nrt": False})
