"""Workers on the machine of their coordinator: each a process, with a socket to the coordinator.

It has one end of a pair of Unix sockets, and ends when the other is closed, so it never outlives
its coordinator. If it is silent for too long, it is killed before its pages are leased to another.

`crawlprio crawl` forks its workers after it has imported what they need, before there is an event
loop. Where that is not possible, and in place of those that die, processes are started with the
same command line.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from time import monotonic
from typing import Any, cast

from scrapy.utils.asyncio import create_looping_call
from twisted.internet.protocol import Factory, connectionDone
from twisted.protocols.basic import Int32StringReceiver
from twisted.python.failure import Failure

from crawlprio.live.roles import WORKER, facts_of
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
        facts = {**facts, "coordinator": os.getpid()}
        self._process: _Forked | subprocess.Popen[bytes]
        if _forked:
            self._process = _forked.pop()
            ours = self._process.begin(facts)
        else:
            ours, theirs = socket.socketpair()
            with theirs:
                facts["socket"] = theirs.fileno()
                self._process = started_again(WORKER, facts, [theirs.fileno()])
        with ours:
            transport = adopted(
                ours, schema, lambda statements: arrived(self, statements), lambda: lost(self)
            )
        due_at = monotonic() + _START_SECONDS
        super().__init__(transport.say, name=f"process {self._process.pid}", received_at=due_at)

    def kill(self) -> None:
        """Kill it and wait for its end; nothing that it does comes after this."""
        self._process.kill()
        self._process.wait()


class _Forked:
    """A process forked from this one, which awaits the facts of its role at its end of `ours`."""

    def __init__(self, pid: int, ours: socket.socket) -> None:
        self.pid, self.ours = pid, ours

    def begin(self, facts: dict[str, Any]) -> socket.socket:
        with suppress(BrokenPipeError):  # it is dead, which the transport will notice
            self.ours.sendall(json.dumps(facts).encode() + b"\n")
        return self.ours

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        if self.pid:
            os.waitpid(self.pid, 0)
        self.pid = 0


_forked: list[_Forked] = []

_PRELOADED = (
    *("scrapy.crawler", "scrapy.core.downloader.contextfactory", "tldextract"),
    *("crawlprio.addon", "crawlprio.live.crawl_report", "crawlprio.live.parts"),
    *("crawlprio.show.tables", "crawlprio.spiders.site", f"{__package__}.worker_scheduler"),
)


def fork_each(n_workers: int) -> None:
    """Fork the workers of the coordinator that this process is to be; return in all of them.

    A worker returns when the coordinator has begun, with the facts of its role in the environment.
    None is forked where it could not go on: beside threads or an event loop, or outside Linux.
    """
    for name in _PRELOADED:
        import_module(name)
    has_loop = "twisted.internet.reactor" in sys.modules
    if sys.platform != "linux" or has_loop or threading.active_count() > 1:
        return
    sys.stdout.flush()
    gc.freeze()  # or each would copy the memory of all objects so far, to look for cycles in them
    for _ in range(n_workers):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            _become_worker(theirs, [ours, *(each.ours for each in _forked)])
            return
        theirs.close()
        _forked.append(_Forked(pid, ours))


def _become_worker(theirs: socket.socket, others: list[socket.socket]) -> None:
    """Await the facts of this process; exit if there will be none."""
    os.setsid()  # Ctrl-C is for the coordinator
    for each in others:
        each.close()
    _forked.clear()
    if sys.__stdin__ is not None:
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), sys.__stdin__.fileno())
    facts = theirs.makefile("rb", buffering=0).readline()
    if not facts:
        os._exit(1)
    os.environ[WORKER] = json.dumps({**json.loads(facts), "socket": theirs.detach()})
    facts_of.cache_clear()


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
