"""Notices about compilation, and suppression of noisy library logs."""

from __future__ import annotations

import logging
import sys
from time import perf_counter
from typing import Any

PATIENCE_SECONDS = 1.0
"""Seconds of compilation after which it is announced."""

logger = logging.getLogger("crawlprio")

_is_announced = False


def quieten(*libraries: str) -> None:
    """Set the level of libraries to WARNING unless it is already set, to keep a DEBUG log clean."""
    for name in libraries:
        library = logging.getLogger(name)
        if library.level == logging.NOTSET:
            library.setLevel(logging.WARNING)


def say(sentence: str) -> None:
    """Print a sentence on a terminal, or else log it; use standard error if nothing is logged."""
    if logger.isEnabledFor(logging.INFO) and _is_logged() and not sys.stderr.isatty():
        logger.info("%s", sentence)
    else:
        print(f"crawlprio: {sentence}", file=sys.stderr, flush=True)


def announce_compiling() -> None:
    """Announce compilation once if it takes over a second."""
    from numba.core import event

    class Listener(event.Listener):
        """Receives the start and end of every compilation, including nested ones."""

        def __init__(self) -> None:
            self._began_at = 0.0
            self._under_way = 0
            self._seconds = 0.0

        def on_start(self, event: Any) -> None:
            if self._under_way == 0:
                self._began_at = perf_counter()
            self._under_way += 1
            global _is_announced
            if not _is_announced and self._seconds_so_far() > PATIENCE_SECONDS:
                _is_announced = True
                say(
                    "Compiling on first use, half a minute on an idle machine; later runs use "
                    "the compiled code ..."
                )

        def on_end(self, event: Any) -> None:
            if self._under_way == 1:
                self._seconds = self._seconds_so_far()
            self._under_way -= 1

        def _seconds_so_far(self) -> float:
            return self._seconds + perf_counter() - self._began_at

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


def announced_compiling() -> bool:
    """Return whether this process had to compile for over a second."""
    return _is_announced


def _is_logged() -> bool:
    """Whether any handler receives INFO records of this logger."""
    at: logging.Logger | None = logger
    while at is not None:
        # Scrapy sets the level on its handler and leaves the loggers unset.
        takers = [one for one in at.handlers if not isinstance(one, logging.NullHandler)]
        if any(handler.level <= logging.INFO for handler in takers):
            return True
        at = at.parent if at.propagate else None
    return False
