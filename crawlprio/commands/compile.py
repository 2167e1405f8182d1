"""The command `crawlprio compile`: compiles everything ahead of time."""

from __future__ import annotations

import argparse
from time import perf_counter

from crawlprio.commands import OneLineCommand, program
from crawlprio.errors import ConfigError


class Command(OneLineCommand):
    """`crawlprio compile` compiles what would otherwise be compiled on first use."""

    takes = ""
    does = "Compile ahead of time what crawlprio would compile on first use"
    about = (
        "Compile everything that crawlprio would compile on first use, and cache it where "
        "later runs find it: in NUMBA_CACHE_DIR if that is set, else beside the sources of the "
        "package, else in the user's cache folder. Run it when building a container image "
        "whose processes may be unable to write to any of these. Takes half a minute of "
        "processor time."
    )
    examples = ("compile",)

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Compile; raise `ConfigError` if the compiled code cannot be cached."""
        if args:
            raise ConfigError(f"compile: found {' '.join(args)}; expected: {program()} compile")
        from crawlprio.graph import compiled
        from crawlprio.live.compiling import compile_all

        started = perf_counter()
        compile_all()
        folder = compiled.folder()
        if folder is None:
            raise ConfigError(
                "compile: the compiled code cannot be cached for later runs; set NUMBA_CACHE_DIR "
                "to a folder that is writable."
            )
        print(f"Compiled in {perf_counter() - started:.0f} s, and cached in {folder}.")
