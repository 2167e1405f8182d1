"""Sends a worker's calls to one shard from a thread: in order, each applied once."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from redis.exceptions import NoScriptError, RedisError

from crawlprio.errors import CrawlprioError
from crawlprio.plugins.redis.caller import worker_name
from crawlprio.plugins.redis.cluster import node_for, refresh_topology, script_keys
from crawlprio.plugins.redis.failures import RedisFailure, failure, is_transient
from crawlprio.plugins.redis.scripts import Argument, Client, load_scripts, script
from crawlprio.plugins.redis.server_time import ServerTime, boot_time
from crawlprio.plugins.redis.wire import LINKS_PER_CALL

logger = logging.getLogger("crawlprio")

N_LEASES_OF_CALL = 1000
"""A lease is `seq * N_LEASES_OF_CALL + i`, so two calls never create the same one."""

_MAX_CALLS = 32
"""Calls per round trip, unless they have more than `LINKS_PER_CALL` links; so that one worker does
not block the server for long."""

LINGER = 0.01
"""Seconds for which a call that is not urgent waits for others to share its round trip."""

UNLIMITED = 2**30
"""The fetches at once of a worker without a limit, as in `shares.lua`."""

_URGENT = frozenset(["lease", "hold", "robots"])
"""Calls, and kinds of `clock` call, that a page waits for."""

_SWITCH_SECONDS = 0.0005
"""The thread switch interval, in seconds, while a session is open."""

_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between attempts to reach the server; the last one repeats."""

_WARNING_SECONDS = 60.0
"""Seconds between two warnings: a nearly full server alternates between success and failure."""

_ALIVE_SHARE = 2 / 3
"""Share of a lease in which fetches start; the rest is for them to end."""

_T = TypeVar("_T")


class Status(NamedTuple):
    """The state of a shard after a call.

    Parameters
    ----------
    received, server_now
        Monotonic time at which the answer arrived; time of the server when it was sent.
    n_waiting, n_leased
        Waiting requests; leases.
    n_others
        Leases of other workers, plus messages to other shards that are in flight.
    ready_at
        Monotonic time at which a page can leave; inf if none can without a further call.
    n_links
        Pages that were queued as plain links, by all workers.
    n_pages, n_sites
        Pages and sites known to all workers.
    n_orphans
        Messages to other shards that dead workers left undelivered.
    n_changes
        A number that grows with every change of the shard.
    head
        Tier and rank of the page that leaves next, larger first; None if none is ready. Only with
        several shards.
    offset
        Seconds that the shard's scripts add to the clock of the server.
    """

    received: float
    server_now: float
    n_waiting: int
    n_leased: int
    n_others: int
    ready_at: float
    n_links: int
    n_pages: int = 0
    n_sites: int = 0
    n_orphans: int = 0
    n_changes: int = 0
    head: tuple[float, float] | None = None
    offset: float = 0.0


class ServerAnswer(NamedTuple):
    """The outcome of a call: the state of the shard, the call's result and its number."""

    status: Status
    result: list[Any]
    seq: int


class _Call(NamedTuple):
    script: str
    arguments: Sequence[Argument]
    on_answer: Callable[[ServerAnswer], None] | None
    ends: int | None
    """The lease that the call ends."""
    n_links: int
    """The links that it adds."""


class _FastSwitching:
    """Shortens the interpreter's thread switch interval while any session is open.

    At Python's default of 5 ms, a CPU-bound crawl would delay every send and every answer by up to
    5 ms.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_open = 0
        self._usual = 0.0

    def open(self) -> None:
        with self._lock:
            self._n_open += 1
            if self._n_open == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, _SWITCH_SECONDS))

    def close(self) -> None:
        with self._lock:
            self._n_open -= 1
            if not self._n_open:
                sys.setswitchinterval(self._usual)


_fast_switching = _FastSwitching()


class Session:
    """Sends the calls of one worker to one shard, retrying until each is acknowledged.

    Calls are numbered and the server ignores repeats, so a retry never applies a call twice. No
    method blocks: answers are passed to the crawl's thread. While the server is unreachable or out
    of memory, calls wait; the log reports the start and the end of an outage.

    Parameters
    ----------
    client
        A redis-py client that does not decode answers.
    prefix
        The prefix of the shard's keys, including the hash tag.
    lease_seconds
        Silence after which the server considers the worker dead.
    n_fetches
        Fetches that the worker makes at once.
    call_from_thread
        Calls a function in the crawl's thread.
    on_failure
        Called there with the error when the frontier becomes unusable.
    on_status
        Called there after each answer with the state of the shard and the leases that were lost.
    linger
        Seconds for which a call that is not urgent may wait for others to share its round trip.
    """

    def __init__(
        self,
        client: Client,
        prefix: str,
        *,
        lease_seconds: float,
        n_fetches: int = 0,
        call_from_thread: Callable[[Callable[[], object]], object],
        on_failure: Callable[[CrawlprioError], object],
        on_status: Callable[[Status, set[int]], object],
        linger: float = 0.0,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self.worker = uuid4().hex
        self._lease_seconds = lease_seconds
        self._n_fetches = n_fetches
        self._call_from_thread = call_from_thread
        self._on_failure = on_failure
        self._on_status = on_status
        self._linger = linger
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._carried: _Call | None = None
        self._has_urgent = threading.Event()
        self._n_done = 0
        self._held: set[int] = set()
        self._run_id = ""
        self._is_down = False
        self._has_warned = False
        self._warn_after = 0.0
        self._is_introduced = False
        self._heartbeat_at = 0.0
        self._deadline = float("inf")
        self.time = ServerTime()
        self.n_pending = 0
        self._alive_until = 0.0
        self._thread = threading.Thread(target=self._run, name="crawlprio-redis", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        _fast_switching.open()
        self._thread.start()

    def call(
        self,
        name: str,
        *arguments: Argument,
        on_answer: Callable[[ServerAnswer], None] | None = None,
        ends: int | None = None,
        n_links: int = 0,
    ) -> None:
        """Run a script after all earlier calls."""
        self.n_pending += 1
        self._calls.put(_Call(name, arguments, on_answer, ends, n_links))
        if name in _URGENT or (name == "clock" and arguments[0] in _URGENT):
            self._has_urgent.set()

    def close(self, timeout: float) -> bool:
        """Flush pending calls and leave; return whether all succeeded within `timeout` seconds."""
        self._deadline = monotonic() + timeout
        self._calls.put(None)
        self._has_urgent.set()
        self._thread.join(timeout + 5.0)
        _fast_switching.close()
        return not self._thread.is_alive() and self._calls.empty() and not self._is_down

    @property
    def is_alive(self) -> bool:
        """Whether the server is sure to keep this worker's leases, and all lost ones are known."""
        return boot_time() < self._alive_until

    # Below: the session's thread

    def _run(self) -> None:
        try:
            self._serve()
        except _TimedOut:
            return
        except CrawlprioError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("The frontier in Redis failed.")
            self._fail(RedisFailure(f"The frontier in Redis failed: {error!r}."))

    def _fail(self, error: CrawlprioError) -> None:
        self._call_from_thread(lambda: self._on_failure(error))

    def _serve(self) -> None:
        while True:
            if monotonic() >= self._heartbeat_at:
                self._retry(self._heartbeat)
            try:
                first = self._carried or self._calls.get(
                    timeout=max(self._heartbeat_at - monotonic(), 0.001)
                )
            except queue.Empty:
                continue
            if self._linger and first is not None and self._carried is None:
                self._has_urgent.wait(self._linger)
            self._has_urgent.clear()
            calls = self._batch(first)
            if to_send := [call for call in calls if call is not None]:
                self._retry(partial(self._send, to_send))
            if None in calls:
                self._retry(partial(self._heartbeat, "leave"))
                return

    def _batch(self, first: _Call | None) -> list[_Call | None]:
        """Return the calls of one round trip; carry the call that would have too many links."""
        calls, n_links = [first], 0 if first is None else first.n_links
        self._carried = None
        while len(calls) < _MAX_CALLS and not self._calls.empty():
            call = self._calls.get()
            n_links += 0 if call is None else call.n_links
            if call is not None and call.n_links and n_links > LINKS_PER_CALL:
                self._carried = call
                break
            calls.append(call)
        return calls

    def _heartbeat(self, action: str = "renew") -> None:
        """Renew this worker's lease and report its page leases, in a round trip of its own.

        Idempotent, so it has no call number.
        """
        server = node_for(self._client, self._prefix)
        self._run_id = str(server.info("server")["run_id"])
        held = sorted(self._held) if action == "renew" else []
        says: list[Argument] = [action, worker_name(), self._run_id, self._n_fetches, *held]
        status, result, sent_at = self._execute(server, "heartbeat", self._n_done, says)
        self._is_introduced = True
        self._heartbeat_at = monotonic() + self._lease_seconds / 3
        gone = {int(lease) for lease in result}
        self._held -= gone

        def deliver_status() -> None:
            self._on_status(status, gone)
            self._live_on(sent_at)

        self._call_from_thread(deliver_status)

    def _send(self, calls: list[_Call]) -> None:
        """Run calls in one round trip; the server applies all of them or none."""
        arguments: list[Argument] = []
        for call in calls:
            arguments += (call.script, len(call.arguments), *call.arguments)
        server = node_for(self._client, self._prefix)
        status, results, sent_at = self._execute(server, "calls", self._n_done + 1, arguments)
        answers = []
        for call, result in zip(calls, results, strict=True):
            self._n_done += 1
            self._track_leases(self._n_done, call, result)
            answers.append((call.on_answer, ServerAnswer(status, result, self._n_done)))

        def deliver_answers() -> None:
            self.n_pending -= len(answers)
            self._live_on(sent_at)
            self._on_status(status, set())
            for on_answer, answer in answers:
                if on_answer is not None:
                    on_answer(answer)

        self._call_from_thread(deliver_answers)

    def _execute(
        self, server: Client, name: str, seq: int, arguments: Sequence[Argument]
    ) -> tuple[Status, list[Any], float]:
        """Run a script; return the state of the shard, the result, and when it was sent."""
        sent_at = boot_time()
        reply = server.execute_command(
            *("EVALSHA", script(name).sha, *script_keys(self._prefix)),
            *(self.worker, seq, self.time.measured(sent_at), *arguments),
        )
        status, result = _read(reply)
        self.time.answered(status.server_now, status.offset, sent_at)
        return status, result, sent_at

    def _live_on(self, sent_at: float) -> None:
        """Note, in the crawl's thread, that the server has renewed the lease after `sent_at`."""
        self._alive_until = max(self._alive_until, sent_at + _ALIVE_SHARE * self._lease_seconds)

    def _track_leases(self, seq: int, call: _Call, result: list[Any]) -> None:
        """Track the leases that a call took or ended."""
        if call.script == "lease":
            self._held.update(int(lease) for lease in result[::5] if lease != b"enough")
        elif call.script == "clock" and call.arguments[0] == "hold" and int(result[0]):
            self._held.add(seq * N_LEASES_OF_CALL)
        elif call.ends is not None:
            self._held.discard(call.ends)

    def _retry(self, action: Callable[[], _T]) -> _T:
        """Retry an action until it succeeds; raise RedisFailure for a permanent error."""
        n_attempts = 0
        while True:
            try:
                if not self._is_introduced:
                    self._heartbeat()
                result = action()
            except NoScriptError:
                self._load_scripts()
                continue
            except RedisError as error:
                self._prepare_retry(error)
            else:
                self._is_down = False
                if self._has_warned:
                    self._has_warned = False
                    logger.warning("Redis is available again; the crawl continues.")
                return result
            pause = _PAUSES[min(n_attempts, len(_PAUSES) - 1)]
            n_attempts += 1
            if monotonic() + pause > self._deadline:
                self._is_down = True
                raise _TimedOut
            sleep(pause)

    def _load_scripts(self) -> None:
        """Load the scripts; a transient error is left to the caller's next attempt."""
        try:
            load_scripts(self._client)
        except RedisError as error:
            if not is_transient(error):
                raise failure(error) from None

    def _prepare_retry(self, error: RedisError) -> None:
        """Prepare to retry after an error; raise RedisFailure if it is permanent."""
        text = str(error)
        self._is_introduced = False
        if text.startswith(("GAP", "LAPSED")):
            # The server restarted and lost its last second, with calls of this worker; or the
            # worker was silent for too long.
            return
        if not is_transient(error):
            raise failure(error) from None
        refresh_topology(self._client)
        if not self._is_down and monotonic() >= self._warn_after:
            self._has_warned = True
            self._warn_after = monotonic() + _WARNING_SECONDS
            logger.warning("Redis is unavailable (%s); the crawl waits.", text.rstrip("."))
        self._is_down = True


def _read(reply: list[Any]) -> tuple[Status, list[Any]]:
    """Split a script's answer into the state of the shard and the script's own result."""
    received = monotonic()
    now, n_waiting, n_leased, n_others, ready_at, n_links, n_pages, n_sites = reply[:8]
    n_orphans, n_changes, tier, rank, offset, *result = reply[8:]
    wait = max(float(ready_at) - float(now), 0.0)
    status = Status(
        received,
        float(now),
        int(n_waiting),
        int(n_leased),
        int(n_others),
        received + wait,
        int(n_links),
        int(n_pages),
        int(n_sites),
        int(n_orphans),
        int(n_changes),
        (float(tier), float(rank)) if tier else None,
        float(offset),
    )
    return status, result


class _TimedOut(Exception):
    """The server did not come back before the session's deadline."""
