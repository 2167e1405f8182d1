"""A worker's calls to the server: in order, each done once, from a thread of their own."""

from __future__ import annotations

import logging
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong

from crawlprio.errors import CrawlprioError
from crawlprio.redis.cluster import keys_of, look_again, server_of
from crawlprio.redis.scripts import SCRIPTS, Argument, Client, script

logger = logging.getLogger("crawlprio")

N_LEASES_OF_CALL = 1000
"""The lease at place i of call s is s * 1000 + i, so that no two calls give the same one."""

_MOST_CALLS = 32
"""Calls that the server does at once, so that it is not long busy with those of one worker."""

LINGER = 0.01
"""Seconds for which a call that nobody is in a hurry for waits for others to go with it."""

_HURRIED = frozenset(["lease", "hold"])
"""Calls, and kinds of `clock`, for whose answers pages wait."""

_TURN = 0.0005
"""Seconds for which a thread that computes may keep one that talks to Redis waiting."""

_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between attempts to reach the server; the last one again and again."""

_SILENCE = 60.0
"""Seconds between two warnings: a server that is nearly full does some calls and refuses others."""

_TRANSIENT = ("BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED")
"""Codes of errors that pass, of those that redis-py has no class for."""

_T = TypeVar("_T")


class RedisFailure(CrawlprioError):
    """The frontier in Redis cannot be used; the sentence says why."""


class Status(NamedTuple):
    """How things stood on the server at the end of a call.

    Parameters
    ----------
    received, server_now
        monotonic time at which the answer came, and Unix time of the server when it was given.
    n_waiting, n_leased, n_others
        requests that wait, leases, and those of them that other workers have, with messages to
        other shards that are under way.
    ready_at
        monotonic time at which a page can leave; inf if that takes an event.
    n_links
        pages that came to wait as plain links, in the whole shard.
    n_orphans
        messages to other shards that workers have left which are gone.
    n_changes
        grows whenever how things stand changes.
    head
        tier and rank of the page that leaves next, the larger before the smaller; None: no page can
        leave. With several shards alone.
    """

    received: float
    server_now: float
    n_waiting: int
    n_leased: int
    n_others: int
    ready_at: float
    n_links: int
    n_orphans: int = 0
    n_changes: int = 0
    head: tuple[float, float] | None = None


class Answer(NamedTuple):
    """What a call brought: how things stand, its own result, and the number it had."""

    status: Status
    result: list[Any]
    seq: int


class _Call(NamedTuple):
    script: str
    arguments: Sequence[Argument]
    answered: Callable[[Answer], None] | None
    ends: int | None
    """The lease that the call ends."""


class _ShortTurns:
    """Has the interpreter switch threads more often, while any session is open.

    A crawl that computes all the time has one page in its hands after another. At Python's 5 ms a
    turn the thread that talks to Redis would send its leases, and read the answers, up to 5 ms late
    each.
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
                sys.setswitchinterval(min(self._usual, _TURN))

    def close(self) -> None:
        with self._lock:
            self._n_open -= 1
            if not self._n_open:
                sys.setswitchinterval(self._usual)


_short_turns = _ShortTurns()


class Session:
    """Sends the calls of one worker, and repeats those of which it does not know that they arrived.

    Nobody waits for an answer: it is delivered in the caller's thread. While the server cannot be
    reached, or has no memory left, calls wait; the log says so once, and once that it is over.

    Parameters
    ----------
    client
        a client of redis-py that does not decode answers.
    prefix
        of all keys of the crawl, with its hash tag.
    lease_seconds
        after which the server takes a silent worker for dead.
    deliver
        calls a function in the thread of the crawl.
    failed
        is called there with the sentence when the frontier cannot be used any more.
    told
        is called there with how things stand after each answer, and with the leases that the
        server turned out not to have any more.
    linger
        seconds for which a call that no page waits for may wait for others to go with it.
    """

    def __init__(
        self,
        client: Client,
        prefix: str,
        *,
        lease_seconds: float,
        deliver: Callable[[Callable[[], object]], object],
        failed: Callable[[CrawlprioError], object],
        told: Callable[[Status, set[int]], object],
        linger: float = 0.0,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self.worker = uuid4().hex
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._lease_seconds = lease_seconds
        self._deliver = deliver
        self._failed = failed
        self._told = told
        self._linger = linger
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._is_hurried = threading.Event()
        self._n_done = 0
        self._held: set[int] = set()
        self._run_id = ""
        self._is_away = False
        self._has_said_so = False
        self._silent_until = 0.0
        self._is_introduced = False
        self._beat_at = 0.0
        self._gives_up_at = float("inf")
        self.n_unanswered = 0
        self.alive_until = 0.0
        self._thread = threading.Thread(target=self._run, name="crawlprio-redis", daemon=True)

    def start(self) -> None:
        """Begin to send calls."""
        self.alive_until = monotonic() + self._lease_seconds
        _short_turns.open()
        self._thread.start()

    def call(
        self,
        name: str,
        *arguments: Argument,
        answered: Callable[[Answer], None] | None = None,
        ends: int | None = None,
    ) -> None:
        """Have a script run after all that were called before."""
        self.n_unanswered += 1
        self._calls.put(_Call(name, arguments, answered, ends))
        if name in _HURRIED or (name == "clock" and arguments[0] in _HURRIED):
            self._is_hurried.set()

    def close(self, patience: float) -> bool:
        """Send what waits, and leave; return whether all arrived within `patience` seconds."""
        self._gives_up_at = monotonic() + patience
        self._calls.put(None)
        self._is_hurried.set()
        self._thread.join(patience + 5.0)
        _short_turns.close()
        return not self._thread.is_alive() and self._calls.empty() and not self._is_away

    # In the thread

    def _run(self) -> None:
        try:
            self._talk()
        except _GaveUp:
            return
        except CrawlprioError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("The frontier in Redis failed.")
            self._fail(RedisFailure(f"The frontier in Redis failed: {error!r}."))

    def _fail(self, error: CrawlprioError) -> None:
        self._deliver(lambda: self._failed(error))

    def _talk(self) -> None:
        while True:
            if monotonic() >= self._beat_at:
                self._with_patience(self._beat)
            try:
                first = self._calls.get(timeout=max(self._beat_at - monotonic(), 0.001))
            except queue.Empty:
                continue
            if self._linger and first is not None:
                self._is_hurried.wait(self._linger)
            self._is_hurried.clear()
            calls = [first]
            while len(calls) < _MOST_CALLS and not self._calls.empty():
                calls.append(self._calls.get())
            self._do([call for call in calls if call is not None])
            if None in calls:
                self._with_patience(partial(self._beat, "leave"))
                return

    def _beat(self, what: str = "beat") -> None:
        """Say that the worker lives and what it has, in a round trip of its own.

        It is no call among the others: done twice it is done once.
        """
        server = server_of(self._client, self._prefix)
        self._run_id = str(server.info("server")["run_id"])
        held = sorted(self._held) if what == "beat" else []
        sent_at = monotonic()
        reply = server.execute_command(
            *self._command("beat", self._n_done, (what, self._name, self._run_id, *held))
        )
        self._is_introduced = True
        self.alive_until = sent_at + self._lease_seconds
        self._beat_at = monotonic() + self._lease_seconds / 3
        status, result = _read(reply)
        gone = {int(lease) for lease in result}
        self._held -= gone
        self._deliver(lambda: self._told(status, gone))

    def _do(self, calls: list[_Call]) -> None:
        """Do calls in their order; one that could not be done is repeated until it is."""
        if calls:
            self._with_patience(partial(self._send, calls))

    def _send(self, calls: list[_Call]) -> None:
        """Have calls done in one round trip, all or none of them."""
        sent_at = monotonic()
        arguments: list[Argument] = []
        for call in calls:
            arguments += (call.script, len(call.arguments), *call.arguments)
        command = self._command("calls", self._n_done + 1, arguments)
        status, results = _read(server_of(self._client, self._prefix).execute_command(*command))
        self.alive_until = sent_at + self._lease_seconds
        answers = []
        for call, result in zip(calls, results, strict=True):
            self._n_done += 1
            self._note_leases(self._n_done, call, result)
            answers.append((call.answered, Answer(status, result, self._n_done)))

        def deliver() -> None:
            self.n_unanswered -= len(answers)
            self._told(status, set())
            for answered, answer in answers:
                if answered is not None:
                    answered(answer)

        self._deliver(deliver)

    def _command(self, name: str, seq: int, arguments: Sequence[Argument]) -> Sequence[Argument]:
        return ("EVALSHA", script(name).sha, *keys_of(self._prefix), self.worker, seq, *arguments)

    def _note_leases(self, seq: int, call: _Call, result: list[Any]) -> None:
        """Note what a call has leased, or ended."""
        if call.script == "lease":
            self._held.update(int(lease) for lease in result[::5])
        elif call.script == "clock" and call.arguments[0] == "hold" and int(result[0]):
            self._held.add(seq * N_LEASES_OF_CALL)
        elif call.ends is not None:
            self._held.discard(call.ends)

    def _with_patience(self, action: Callable[[], _T]) -> _T:
        """Try until the server does it; what it will never do is raised as a sentence."""
        n_attempts = 0
        while True:
            try:
                if not self._is_introduced:
                    self._beat()
                result = action()
            except NoScriptError:
                self._load_scripts()
                continue
            except RedisError as error:
                self._note_failure(error)
            else:
                self._is_away = False
                if self._has_said_so:
                    self._has_said_so = False
                    logger.warning("Redis answers again; the crawl goes on.")
                return result
            pause = _PAUSES[min(n_attempts, len(_PAUSES) - 1)]
            n_attempts += 1
            if monotonic() + pause > self._gives_up_at:
                self._is_away = True
                raise _GaveUp
            sleep(pause)

    def _load_scripts(self) -> None:
        """Give the server the scripts; whoever calls them next sees whether that worked."""
        try:
            load_scripts(self._client)
        except RedisError as error:
            if not is_transient(error):
                raise failure(error) from None

    def _note_failure(self, error: RedisError) -> None:
        """Get ready for another attempt; RedisFailure if none can help."""
        text = str(error)
        self._is_introduced = False
        if text.startswith("GAP"):
            return  # the server has lost its last second, this worker's last calls among it
        if not is_transient(error):
            raise failure(error) from None
        look_again(self._client)
        if not self._is_away and monotonic() >= self._silent_until:
            self._has_said_so = True
            self._silent_until = monotonic() + _SILENCE
            logger.warning("Redis cannot be used (%s); the crawl waits for it.", text)
        self._is_away = True


def load_scripts(client: Client) -> None:
    """Give a server all scripts."""
    for name in SCRIPTS:
        client.script_load(script(name).text)


def is_transient(error: RedisError) -> bool:
    """Whether an error passes: no server is there, or it starts, is full, or is a replica."""
    if isinstance(error, AuthenticationError):
        return False
    passing = (
        *(NoConnection, TookTooLong, OutOfMemoryError, ReadOnlyError),
        # A cluster has no server for the keys, or they are on their way to another one.
        *(ClusterError, AskError, TryAgainError),
    )
    return isinstance(error, passing) or str(error).startswith(_TRANSIENT)


def failure(error: RedisError) -> RedisFailure:
    """Return in one sentence what Redis said."""
    text = str(error)
    if text.startswith("NOCRAWL"):
        return RedisFailure(
            "The crawl's frontier is gone from Redis: it was flushed, or the server lost it; turn "
            "persistence on (appendonly yes), and start the crawl again."
        )
    return RedisFailure(f"The frontier in Redis cannot be used: {text.rstrip('.')}.")


def _read(reply: list[Any]) -> tuple[Status, list[Any]]:
    """How things stand by the answer of a script, and its own result."""
    received = monotonic()
    now, n_waiting, n_leased, n_others, ready_at, n_links = reply[:6]
    n_orphans, n_changes, tier, rank, *result = reply[6:]
    wait = max(float(ready_at) - float(now), 0.0)
    status = Status(
        received,
        float(now),
        int(n_waiting),
        int(n_leased),
        int(n_others),
        received + wait,
        int(n_links),
        int(n_orphans),
        int(n_changes),
        (float(tier), float(rank)) if tier else None,
    )
    return status, result


class _GaveUp(Exception):
    """The server did not come back in time."""
