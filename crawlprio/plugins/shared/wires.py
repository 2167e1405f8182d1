"""The processes of a crawl with several workers, and the socket between the brain and each hand.

The brain starts each hand as a process of its own, with the same command line, and one end of a
pair of Unix sockets. A hand ends when the other end is closed, so it never outlives its brain. The
brain kills a hand that is silent for too long before it gives its pages to another.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, cast

from scrapy.utils.asyncio import create_looping_call
from twisted.internet.protocol import Factory, connectionDone
from twisted.protocols.basic import Int32StringReceiver
from twisted.python.failure import Failure

from crawlprio.live.workers import VARIABLE
from crawlprio.plugins.shared.brain import Hand
from crawlprio.plugins.shared.messages import Statement, read, written

_START_SECONDS = 60.0
"""Seconds that a process may take to start, besides the time after which it counts as dead."""

_BEATS = 10
"""Signs of life in the time after which a hand counts as dead."""


class Wire(Int32StringReceiver):
    """One end of the socket: statements in, statements out.

    `heard` is called with the statements of each message, `lost` once the other end is closed.
    """

    MAX_LENGTH = 2**31 - 1

    is_alive = is_heard = is_due = True  # or this process ends

    def __init__(
        self, heard: Callable[[list[Statement]], object], lost: Callable[[], object]
    ) -> None:
        self._heard = heard
        self._lost = lost

    def say(self, statements: list[Statement]) -> None:
        """Send a message, unless the other end is closed."""
        if self.connected:
            self.sendString(written(statements))  # type: ignore[no-untyped-call]

    def stringReceived(self, string: bytes) -> None:  # noqa: N802
        self._heard(read(string))

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        self.connected = 0
        self._lost()


class NearHand(Hand):
    """A hand in a process that this one starts.

    `heard` is called with what it says, and `lost` once it has ended.
    """

    def __init__(
        self,
        facts: dict[str, Any],
        heard: Callable[[NearHand, list[Statement]], object],
        lost: Callable[[NearHand], object],
    ) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            facts = {**facts, "socket": theirs.fileno(), "brain": os.getpid()}
            # Ctrl-C is for the brain alone, which lets its hands finish.
            self._process = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]],
                env={**os.environ, VARIABLE: json.dumps(facts)},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
            wire = adopted(ours, lambda said: heard(self, said), lambda: lost(self))
        due_at = monotonic() + _START_SECONDS
        super().__init__(wire.say, name=f"process {self._process.pid}", heard_at=due_at)

    def kill(self) -> None:
        """Kill it and wait for its end; nothing that it does comes after this."""
        self._process.kill()
        self._process.wait()


def adopted(
    end: socket.socket,
    heard: Callable[[list[Statement]], object],
    lost: Callable[[], object],
) -> Wire:
    """Return the wire over an end of a socket, of which the event loop takes a copy."""
    from twisted.internet import reactor

    wire, running = Wire(heard, lost), cast("Any", reactor)
    factory = Factory.forProtocol(lambda: wire)
    factory.noisy = False
    end.setblocking(False)
    running.adoptStreamConnection(end.fileno(), socket.AF_UNIX, factory)
    return wire


_HAS_BOOT_TIME = hasattr(time, "CLOCK_BOOTTIME")
boot_time = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if _HAS_BOOT_TIME else monotonic
"""Returns the seconds of a monotonic clock that also runs while the machine is suspended."""


def beat(say: Callable[[], object], term: float) -> Any:
    """Call a function as often as a sign of life is due; return the timer, to stop it."""
    ticker = create_looping_call(say)
    ticker.start(term / _BEATS)
    return ticker
