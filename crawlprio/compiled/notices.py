"""What is said of compiling, and what libraries must not say."""

from __future__ import annotations

import logging
import sys
from time import perf_counter
from typing import Any

PATIENCE_SECONDS = 1.0
"""Seconds that compiling may take before it is announced."""

logger = logging.getLogger("crawlprio")


def quieten(*libraries: str) -> None:
    """Keep what libraries log below WARNING out of a log at DEBUG, where nobody set their level."""
    for name in libraries:
        library = logging.getLogger(name)
        if library.level == logging.NOTSET:
            library.setLevel(logging.WARNING)


def say(sentence: str) -> None:
    """Tell a person at the terminal, or else the log; standard error where nothing is logged."""
    if logger.isEnabledFor(logging.INFO) and _is_logged() and not sys.stderr.isatty():
        logger.info("%s", sentence)
    else:
        print(f"crawlprio: {sentence}", file=sys.stderr, flush=True)


def tell_of_compiling() -> None:
    """Say once that functions are compiled, if that takes over a second."""
    from numba.core import event

    class Listener(event.Listener):
        """Hears of every function that begins to be compiled, those inside others too."""

        def __init__(self) -> None:
            self._began_at = 0.0
            self._under_way = 0
            self._seconds = 0.0
            self._is_told = False

        def on_start(self, event: Any) -> None:
            if self._under_way == 0:
                self._began_at = perf_counter()
            self._under_way += 1
            if not self._is_told and self._seconds_so_far() > PATIENCE_SECONDS:
                self._is_told = True
                say("Compiling what runs often, which is done once and takes some ten seconds ...")

        def on_end(self, event: Any) -> None:
            if self._under_way == 1:
                self._seconds = self._seconds_so_far()
            self._under_way -= 1

        def _seconds_so_far(self) -> float:
            return self._seconds + perf_counter() - self._began_at

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


def _is_logged() -> bool:
    """Whether anything takes what this logger is told at INFO."""
    at: logging.Logger | None = logger
    while at is not None:
        # Scrapy lets its handler judge the level, and leaves that of the loggers open.
        takers = [one for one in at.handlers if not isinstance(one, logging.NullHandler)]
        if any(handler.level <= logging.INFO for handler in takers):
            return True
        at = at.parent if at.propagate else None
    return False
