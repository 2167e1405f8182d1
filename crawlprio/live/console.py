"""The terminal on which a crawl reports."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class PatientConsole(Console):
    """A console that survives its reader (`| head`), where rich would end the engine."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
