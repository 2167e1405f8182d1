"""Compiled functions, for which numba is loaded when the first of them is called.

Importing numba takes a third of a second and 60 MB, its first compiled function as much again; a
module that decorates with `njit` from here costs nothing of that until it is used.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from threading import RLock
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

from crawlprio.compiled import cache, notices

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = "crawlprio"
_lock = RLock()
_numba: ModuleType | None = None
_waiting: list[_StandIn[Any, Any]] = []


def njit(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function with `numba.njit`, when one that is so decorated is called first.

    Until then a stand-in bears its name. At the first call of any of them numba is imported, and
    every stand-in that is a global of a module of crawlprio is replaced by numba's own dispatcher,
    so that compiled functions find each other and calls from Python go through nothing else.
    Each compiles when it is called first, or is loaded from numba's cache (see `cache.kept`).

    Parameters
    ----------
    options
        of `numba.njit`; `cache=True` nearly always.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        with _lock:
            if _numba is not None:
                return _dispatcher(_numba, function, options)
            stand_in = _StandIn(function, options)
            _waiting.append(stand_in)
            return stand_in

    return decorate


def is_loaded() -> bool:
    """Return whether compiled functions run already."""
    return _numba is not None


def load() -> None:
    """Import numba and put compiled functions in the place of all stand-ins; 0.3 s the first time.

    Nothing is compiled, or loaded from the cache, before it is called.
    """
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
            stand_in.compiled = _dispatcher(numba, stand_in.function, stand_in.options)
            replaced[id(stand_in)] = stand_in.compiled
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == _PACKAGE:
                names = vars(module)
                for global_name, value in list(names.items()):
                    if id(value) in replaced:
                        names[global_name] = replaced[id(value)]
        _waiting.clear()


class _StandIn(Generic[P, R]):
    """Bears the name of a compiled function until numba is loaded."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self.compiled: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.compiled is None:
            load()
        assert self.compiled is not None
        return self.compiled(*args, **kwargs)


def _dispatcher(numba: Any, function: Callable[P, R], options: dict[str, Any]) -> Callable[P, R]:
    """Numba's dispatcher of a function."""
    compiled: Callable[P, R]
    if options.get("cache"):
        compiled = cache.kept(numba, function, options)
    else:
        compiled = numba.njit(**options)(function)
    return compiled
