"""Workers on the machine of their coordinator: each a process, with a socket to the coordinator.

It is started with the same command line and one end of a pair of Unix sockets. It ends when the
other end is closed, so it never outlives its coordinator. If it is silent for too long, it is
killed before its pages are leased to another.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, cast

from scrapy.utils.asyncio import create_looping_call
from twisted.internet.protocol import Factory, connectionDone
from twisted.protocols.basic import Int32StringReceiver
from twisted.python.failure import Failure

from crawlprio.live.roles import WORKER
from crawlprio.plugins.shared.coordinator import Worker
from crawlprio.plugins.shared.messages import Schema, Statement, read, skip, written

_START_SECONDS = 60.0
"""Seconds that a process may take to start, in addition to the lease timeout."""

_BEATS = 10
"""Heartbeats in a lease timeout."""


class SocketTransport(Int32StringReceiver):
    """One end of the socket.

    `arrived` is called with the statements of each message, as `schema` reads them, and `lost` once
    the other end is closed.
    """

    MAX_LENGTH = 2**31 - 1

    is_alive = is_acknowledged = is_due = True  # or this process ends

    def __init__(
        self,
        schema: Schema,
        arrived: Callable[[list[Statement]], object],
        lost: Callable[[], object],
    ) -> None:
        self._schema, self._arrived, self._lost = schema, arrived, lost

    def say(self, statements: list[Statement]) -> None:
        """Send a message, unless the other end is closed."""
        if self.connected:
            self.sendString(written(statements))  # type: ignore[no-untyped-call]

    def stringReceived(self, string: bytes) -> None:  # noqa: N802
        try:
            statements = read(string, self._schema)
        except ValueError as error:
            skip(error, "between processes")
        else:
            self._arrived(statements)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        self.connected = 0
        self._lost()


class LocalWorker(Worker):
    """A worker in a process that this one starts; `lost` is called once it has ended."""

    def __init__(
        self,
        facts: dict[str, Any],
        schema: Schema,
        arrived: Callable[[LocalWorker, list[Statement]], object],
        lost: Callable[[LocalWorker], object],
    ) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            facts = {**facts, "socket": theirs.fileno(), "coordinator": os.getpid()}
            self._process = started_again(WORKER, facts, [theirs.fileno()])
            transport = adopted(
                ours, schema, lambda statements: arrived(self, statements), lambda: lost(self)
            )
        due_at = monotonic() + _START_SECONDS
        super().__init__(transport.say, name=f"process {self._process.pid}", received_at=due_at)

    def kill(self) -> None:
        """Kill it and wait for its end; nothing that it does comes after this."""
        self._process.kill()
        self._process.wait()


def adopted(
    end: socket.socket,
    schema: Schema,
    arrived: Callable[[list[Statement]], object],
    lost: Callable[[], object],
) -> SocketTransport:
    """Return the transport over an end of a socket, of which the event loop takes a copy."""
    from twisted.internet import reactor

    transport, running = SocketTransport(schema, arrived, lost), cast("Any", reactor)
    factory = Factory.forProtocol(lambda: transport)
    factory.noisy = False
    end.setblocking(False)
    running.adoptStreamConnection(end.fileno(), socket.AF_UNIX, factory)
    return transport


def started_again(
    variable: str, facts: dict[str, Any], descriptors: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a process with the command line of this one, and the facts of its role in a variable.

    Ctrl-C is for this process alone, which lets the other finish.
    """
    return subprocess.Popen(
        [sys.executable, *sys.orig_argv[1:]],
        env={**os.environ, variable: json.dumps(facts)},
        pass_fds=descriptors,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )


_HAS_BOOT_TIME = hasattr(time, "CLOCK_BOOTTIME")
boot_time = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if _HAS_BOOT_TIME else monotonic
"""Returns the seconds of a monotonic clock that also runs while the machine is suspended."""


def heartbeat(beat: Callable[[], object], lease_timeout: float) -> Any:
    """Call a function at each heartbeat; return the timer, to stop it."""
    ticker = create_looping_call(beat)
    ticker.start(lease_timeout / _BEATS)
    return ticker
