"""The two ends of a channel in Redis, reliable by the rules in `messages.py`, and their threads."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from redis.exceptions import RedisError
from twisted.internet.threads import blockingCallFromThread

from crawlprio.errors import CrawlprioError
from crawlprio.plugins.shared.connection import failure, is_transient, refresh_topology
from crawlprio.plugins.shared.messages import (
    Schema,
    Statement,
    coordinator_message,
    coordinator_of,
    skip,
    written,
)
from crawlprio.plugins.shared.redis_streams import START, Envelope, RedisStreams
from crawlprio.plugins.shared.socket_transport import boot_time
from crawlprio.safe_files import open_file

logger = logging.getLogger("crawlprio")

_T = TypeVar("_T")
_PAUSES = (0.05, 0.1, 0.2, 0.5)
"""Seconds between attempts to reach the server; the last one repeats."""

_YEAR = 365 * 86400
"""Seconds by which the clock of a coordinator, from which it takes its epoch, may be ahead."""

_SYNC_SECONDS = 0.5
"""Seconds between two flushes to disk."""

ALIVE_SHARE = 2 / 3
"""Share of a lease timeout after an acknowledged message in which fetches start."""

REST_SHARE = 1 / 2
"""Share of a lease timeout between the heartbeats of a worker that has nothing."""

ABORT_SHARE = 0.9
"""Share of a lease timeout after which fetches are aborted."""


class _Closed(Exception):
    """The channel is closed."""


def _call_from_thread(function: Callable[..., object], *arguments: object) -> None:
    from twisted.internet import reactor

    call: Any = reactor.callFromThread
    call(function, *arguments)


class _Channel:
    """Threads that send and receive messages as `name`, which is unique.

    Each has its own connection, by `open_streams`. They retry while the server cannot be reached
    (`_is_down`), which is logged once; `_n_outages` counts the outages that are over.
    """

    _sender: threading.Thread

    def __init__(
        self,
        open_streams: Callable[[], RedisStreams],
        name: str,
        failed: Callable[[CrawlprioError], object],
        call_from_thread: Callable[..., object] | None = None,
    ) -> None:
        self._open = open_streams
        self.name = name
        self._call_from_thread = call_from_thread or _call_from_thread
        self.failed = failed
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.is_closed = False
        self._n_outages = 0
        self._deadline = float("inf")
        self._is_down = False
        self._lock = threading.Lock()

    def close(self, seconds: float) -> bool:
        """Send the remaining messages; return whether that was done in time."""
        self.is_closed = True
        self._deadline = monotonic() + seconds
        self._outgoing.put(None)
        self._sender.join(seconds)
        return not self._sender.is_alive()

    def _next(self, seconds: float | None = None) -> tuple[list[Any], bool]:
        """Wait for messages to send; return all of them, and whether they are the last."""
        messages: list[Any] = []
        with suppress(queue.Empty):
            message = self._outgoing.get(timeout=seconds)
            while message is not None:
                messages.append(message)
                message = self._outgoing.get_nowait()
            return messages, True
        return messages, False

    def _call(
        self, streams: RedisStreams, action: Callable[..., _T], *arguments: Any, **named: Any
    ) -> _T:
        """Return what an action returns once it succeeds."""
        n_attempts = 0
        while True:
            try:
                result = action(*arguments, **named)
            except (RedisError, OSError) as error:
                if isinstance(error, RedisError) and not is_transient(error):
                    raise failure(error) from None
                with self._lock:
                    if not self._is_down:
                        reason = str(error).rstrip(".")
                        logger.warning("Redis is unavailable (%s); the crawl waits.", reason)
                    self._is_down = True
                refresh_topology(streams.client)
                pause = _PAUSES[min(n_attempts, len(_PAUSES) - 1)]
                n_attempts += 1
                if monotonic() + pause > self._deadline:
                    raise _Closed from None
                time.sleep(pause)
            else:
                with self._lock:
                    if self._is_down:
                        self._is_down = False
                        self._n_outages += 1
                        logger.warning("Redis is available again; the crawl continues.")
                return result

    def _start(self, run: Callable[[], object], name: str) -> threading.Thread:
        def guarded() -> None:
            try:
                run()
            except _Closed:
                return
            except CrawlprioError as error:
                self._call_from_thread(self.failed, error)
            except Exception as error:
                logger.error("The channel in Redis failed.", exc_info=error)
                failed = CrawlprioError(f"The channel in Redis failed: {error!r}.")
                self._call_from_thread(self.failed, failed)

        thread = threading.Thread(target=guarded, name=f"crawlprio-{name}", daemon=True)
        thread.start()
        return thread


class _Unacknowledged(NamedTuple):
    """A message of a worker, without its clock."""

    number: int
    body: bytes
    sent_at: float


class RedisTransport(_Channel):
    """Carries messages between a worker's end of the channel, `channel`, and Redis."""

    channel: WorkerChannel

    def begin(self) -> None:
        """Start the threads, once there is a `channel`."""
        self._sender = self._start(self._send_all, "sender")
        self._start(self._receive_all, "receiver")

    def send(self, messages: list[tuple[int, bytes]]) -> None:
        """Send numbered messages to the coordinator."""
        self._outgoing.put(messages)

    def _send_all(self) -> None:
        streams, is_last = self._open(), False
        while not is_last:
            sent, is_last = self._next()
            if sent:
                sent_at = boot_time()
                self._call(streams, streams.send, self.name, [*chain.from_iterable(sent)])
                self.channel.reached_at = sent_at

    def _receive_all(self) -> None:
        streams, after, n_outages = self._open(), START, 0
        while not self.is_closed:
            after, bodies = self._call(streams, streams.answers, self.name, after)
            if n_outages != self._n_outages:
                # The server may have lost its last second, and so reuse numbers.
                n_outages, after = self._n_outages, START
            if bodies:
                self._call_from_thread(self.channel.arrived, bodies)


class WorkerChannel:
    """A worker's end of the channel.

    After a `lease_timeout` of silence, in seconds, the coordinator leases its pages to others:
    fetches may start until `alive_until`; the server took the last message at `reached_at`. Both
    are by `boot_time()`. `has` returns how many pages the worker wants in all, its leases, and the
    requests that it asks for. `arrived` is called with statements.
    """

    def __init__(
        self,
        transport: RedisTransport,
        lease_timeout: float,
        schema: Schema,
        *,
        has: Callable[[], tuple[int, list[Any], list[Any]]],
        arrived: Callable[[list[Statement]], object],
    ) -> None:
        self.transport = transport
        transport.channel = self
        self._lease_timeout = lease_timeout
        self._schema = schema
        self._has = has
        self._arrived = arrived
        self.alive_until, self.reached_at = 0.0, boot_time()
        self._n_sent = self.n_received = 0
        self._unacknowledged: deque[_Unacknowledged] = deque()
        self._sent_at = 0.0

    @property
    def is_acknowledged(self) -> bool:
        """Whether the coordinator has acknowledged all messages."""
        return not self._unacknowledged

    @property
    def is_due(self) -> bool:
        """Whether a heartbeat is due: fewer of them while nothing depends on this worker."""
        rests = self.is_acknowledged and not any(self._has()[1:])
        return boot_time() >= self._sent_at + (REST_SHARE * self._lease_timeout if rests else 0.0)

    @property
    def is_alive(self) -> bool:
        """Whether fetches may start: no coordinator takes this worker for dead."""
        return boot_time() < self.alive_until

    def say(self, statements: list[Statement]) -> None:
        """Send statements; without any, a heartbeat."""
        self._n_sent += bool(statements)
        n_wanted, *lists = self._has()
        head = b"%d,%d" % (n_wanted, self.n_received)
        body = b",".join([head, *map(written, [*lists, statements])])
        self._send([(self._n_sent, body)], keeps=bool(statements))

    def _send(self, messages: Iterable[tuple[int, bytes]], *, keeps: bool = False) -> None:
        sent = []
        for number, body in messages:
            self._sent_at = now = boot_time()
            if keeps:
                self._unacknowledged.append(_Unacknowledged(number, body, now))
            sent.append((number, b"[%r,%b]" % (now, body)))
        self.transport.send(sent)

    def arrived(self, bodies: list[bytes]) -> None:
        """Carry out messages; called in the crawl's thread."""
        for body in bodies:
            try:
                number, n_read, echo, statements = coordinator_message(body, self._schema)
                # By the clock of the first coordinator too, as that of this machine may be wrong.
                latest = max(time.time(), coordinator_of(self.n_received or number)) + _YEAR
                if n_read > self._n_sent or coordinator_of(number) > latest:
                    raise ValueError(f"it is number {number}, after {n_read} that were read")
            except ValueError as error:
                skip(error)
                continue
            if number <= self.n_received:
                continue
            echo = min(echo, boot_time())  # others may have sent a later time in this worker's name
            is_new_coordinator = coordinator_of(number) != coordinator_of(self.n_received)
            self.n_received = number
            unacknowledged = self._unacknowledged
            while unacknowledged and unacknowledged[0].number <= n_read:
                unacknowledged.popleft()
            first = unacknowledged[0] if unacknowledged else None
            if first is not None and first.number > n_read + 1 and first.sent_at < echo:
                self.transport.failed(
                    CrawlprioError(
                        "The store of the crawl lacks messages of this worker: it is an older "
                        "copy, or of another crawl; start the worker again."
                    )
                )
                return
            self._arrived(statements)
            if first is None or first.sent_at > echo:
                self.alive_until = max(self.alive_until, echo + ALIVE_SHARE * self._lease_timeout)
            elif first.sent_at < echo:
                again = [message[:2] for message in unacknowledged]
                unacknowledged.clear()
                self._send(again, keeps=True)
            if is_new_coordinator:
                self.say([])  # it waits for the list of leases


class CoordinatorChannel(_Channel):
    """A coordinator's end, which renews its claim to the crawl, for `seconds` at a time.

    `arrived` is called with messages, and sets `position` once their effects are committed, or
    returns False; `state_changed` with the state of the crawl (empty, paused, draining). Once the
    crawl is over, `absent` has the workers that have not ended: on close, everything but the
    messages to them is deleted.
    """

    def __init__(
        self,
        open_streams: Callable[[], RedisStreams],
        name: str,
        seconds: float,
        *,
        arrived: Callable[[list[Envelope]], bool],
        state_changed: Callable[[str], object],
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        super().__init__(open_streams, name, failed)
        self.crawl_id = ""
        self.absent: list[str] | None = None
        self.path: Path | None = None
        self.position = START
        self._seconds = seconds
        self._arrived = arrived
        self._state_changed = state_changed
        self._state = ""
        self._synced, self._synced_at = "", 0.0
        self._n_noticed = 0

    def begin(self) -> None:
        """Renew the claim from now on."""
        self._sender = self._start(self._turn_all, "sender")

    def listen(self, path: Path, position: str) -> None:
        """Read messages after a place; the store of the crawl is at `path`."""
        self.path, self.position = path, position
        self._start(self._read_all, "receiver")

    def answer(self, answers: list[tuple[str, bytes]], status: str = "") -> None:
        """Send messages to workers, after all earlier ones."""
        self._outgoing.put((answers, self.position, status))

    def was_down(self) -> bool:
        """Return whether the server cannot be reached, or could not since the last call."""
        n_noticed, self._n_noticed = self._n_noticed, self._n_outages
        return self._is_down or n_noticed != self._n_noticed

    def _turn_all(self) -> None:
        streams, is_last = self._open(), False
        while not is_last:
            turns, is_last = self._next(self._seconds / 3)
            answers = [answer for some, _, _ in turns for answer in some]
            status = next((shown for _, _, shown in reversed(turns) if shown), "")
            place = turns[-1][1] if turns else ""
            state = self._call(
                streams,
                streams.turn,
                *(self.name, self.crawl_id, self._seconds),
                done=self._done(place),
                status=status,
                answers=answers,
            )
            if state != self._state:
                self._state = state
                self._call_from_thread(self._state_changed, state)
        if self.absent is not None:
            self._call(streams, streams.delete, absent=self.absent)
        self._call(streams, streams.leave, self.name)

    def _done(self, place: str) -> str:
        """Return the place up to which all messages are on disk: a power failure loses none."""
        if self.path is None or not place or monotonic() - self._synced_at < _SYNC_SECONDS:
            return ""
        self._synced_at = monotonic()
        if place == self._synced:
            return ""
        with suppress(FileNotFoundError), open_file(f"{self.path}-wal", "rb") as log:
            os.fdatasync(log.fileno())
        self._synced = place
        return place

    def _read_all(self) -> None:
        from twisted.internet import reactor

        running: Any = reactor
        streams, n_outages = self._open(), 0
        while not self.is_closed:
            # A node of a cluster keeps those that wait there even if it has lost the slot: no
            # message arrives for so long, which must not count as the death of workers.
            envelopes = self._call(streams, streams.read, self.position, seconds=self._seconds / 4)
            if n_outages != self._n_outages:
                n_outages = self._n_outages
                self._call(streams, streams.advance, self.position)
            if envelopes and not blockingCallFromThread(running, self._arrived, envelopes):
                return
