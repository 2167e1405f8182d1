"""The command `scrapy compile`: everything that crawlprio compiles, compiled ahead."""

from __future__ import annotations

import argparse
from time import perf_counter

from crawlprio.commands import OneLineCommand, program
from crawlprio.errors import ConfigError


class Command(OneLineCommand):
    """`scrapy compile` compiles what would otherwise be compiled when it is first used."""

    def syntax(self) -> str:
        return ""

    def short_desc(self) -> str:
        return "Compile ahead what crawlprio would compile when it is first used"

    def long_desc(self) -> str:
        return (
            "Compile everything that crawlprio compiles when it is first used, and keep it where "
            "later runs find it: in NUMBA_CACHE_DIR if that is set, or else beside the sources of "
            "the package, or else in the user's cache folder. For images of containers, whose "
            "processes may be able to write to none of these. Takes some 40 s."
        )

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Compile; raise `ConfigError` when what is compiled cannot be kept."""
        if args:
            raise ConfigError(f"compile: found {' '.join(args)}; expected: {program()} compile")
        from crawlprio.compiled import cache
        from crawlprio.live.compiling import compile_all

        started = perf_counter()
        compile_all()
        folder = cache.folder()
        if folder is None:
            raise ConfigError(
                "compile: what is compiled cannot be kept for later runs; set NUMBA_CACHE_DIR to a "
                "folder that can be written."
            )
        print(f"Compiled in {perf_counter() - started:.0f} s, and kept in {folder}.")
