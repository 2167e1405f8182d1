"""Waits for what another thread, process or the browser brings about."""

import socket
from contextlib import suppress
from time import monotonic, sleep

MAX_SECONDS = 300.0
"""Far longer than anything takes on a busy machine: a test that fails waits so long."""


def listens(host, port):
    """Return whether something listens at a port."""
    with suppress(OSError), socket.create_connection((host, port), 1):
        return True
    return False


def until(condition, *, process=None, said=lambda: ""):
    """Wait until a condition holds, which a process may have to run for.

    Parameters
    ----------
    said
        Returns what to show if it never holds: the log of the process, for example.
    """
    end = monotonic() + MAX_SECONDS
    while not condition():
        assert process is None or process.poll() is None, f"the process has ended: {said()}"
        assert monotonic() < end, f"it did not come about: {said()}"
        sleep(0.01)
