"""The console that a crawl reports to."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class PipeSafeConsole(Console):
    """A console that goes quiet when its reader exits (`| head`); rich would stop the engine."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
