"""The two ends of a mailbox: threads that send and fetch the mail, and what makes it reliable.

The rules of the messages are those of `messages.py`.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from redis.exceptions import RedisError

from crawlprio.errors import CrawlprioError
from crawlprio.outside import open_file
from crawlprio.plugins.shared.connection import failure, is_transient, refresh_topology
from crawlprio.plugins.shared.mailbox import START, Mail, Mailbox
from crawlprio.plugins.shared.messages import Statement, brain_of, is_statements, written
from crawlprio.plugins.shared.wires import boot_time

logger = logging.getLogger("crawlprio")

_T = TypeVar("_T")
_PAUSES = (0.05, 0.1, 0.2, 0.5)
"""Seconds between attempts to reach the server; the last one repeats."""

_SYNC_SECONDS = 0.5
"""Seconds between two waits for the disk."""

ALIVE_SHARE = 2 / 3
"""Share of a term in which fetches start, after something that the brain has heard."""

REST_SHARE = 1 / 2
"""Share of a term in which a hand that has nothing gives no sign of life."""

ABORT_SHARE = 0.9
"""Share of a term after which fetches are aborted."""


class _Closed(Exception):
    """The post is closed, and nothing more is tried."""


class _Post:
    """Threads that send and fetch mail as `name`, which nobody else ever has.

    They connect with `open_mailbox` once each, and end with the process. They call the server again
    while it cannot be reached, which is logged once. `_n_outages` counts the times at which it was
    reached again after it could not be (`_is_down`). `failed` is called by `call_from_thread`.
    """

    _sender: threading.Thread

    def __init__(
        self,
        open_mailbox: Callable[[], Mailbox],
        name: str,
        call_from_thread: Callable[..., object],
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        self._open = open_mailbox
        self.name = name
        self._call_from_thread = call_from_thread
        self.failed = failed
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.is_closed = False
        self._n_outages = 0
        self._deadline = float("inf")
        self._is_down = False
        self._lock = threading.Lock()

    def close(self, seconds: float) -> bool:
        """Send what is left; return whether that was done in time."""
        self.is_closed = True
        self._deadline = monotonic() + seconds
        self._outgoing.put(None)
        self._sender.join(seconds)
        return not self._sender.is_alive()

    def _next(self, seconds: float | None = None) -> tuple[list[Any], bool]:
        """Wait for what is to be sent; return all of it, and whether it is the last."""
        found: list[Any] = []
        with suppress(queue.Empty):
            each = self._outgoing.get(timeout=seconds)
            while each is not None:
                found.append(each)
                each = self._outgoing.get_nowait()
            return found, True
        return found, False

    def _call(
        self, mailbox: Mailbox, action: Callable[..., _T], *arguments: Any, **named: Any
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
                refresh_topology(mailbox.client)
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
                logger.exception("The mail failed.")
                self._call_from_thread(self.failed, CrawlprioError(f"The mail failed: {error!r}."))

        thread = threading.Thread(target=guarded, name=f"crawlprio-{name}", daemon=True)
        thread.start()
        return thread


class _Said(NamedTuple):
    """A message of a hand that the brain has not acknowledged, but for its clock."""

    number: int
    body: bytes
    sent_at: float


class Carrier(_Post):
    """Carries the mail of a hand to and from the brains of a server; `posts`: its ends by shard."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.posts: dict[int, HandPost] = {}

    def begin(self) -> None:
        """Begin to send and to fetch, for the posts that there are."""
        self._sender = self._start(self._send_all, "sender")
        self._start(self._fetch_all, "mail")

    def send(self, shard: int, messages: list[tuple[int, bytes]]) -> None:
        """Send numbered messages to the brain of a shard."""
        self._outgoing.put((shard, messages))

    # Below: in threads

    def _send_all(self) -> None:
        mailbox, is_last = self._open(), False
        while not is_last:
            sent, is_last = self._next()
            if sent:
                sent_at = boot_time()
                self._call(mailbox, mailbox.send, self.name, sent)
                for shard, _ in sent:
                    self.posts[shard].reached_at = sent_at

    def _fetch_all(self) -> None:
        mailbox, after, n_outages = self._open(), dict.fromkeys(self.posts, START), 0
        while not self.is_closed:
            found = self._call(mailbox, mailbox.answers, self.name, after)
            if n_outages != self._n_outages:
                # The server may have lost its last second, and so reuse numbers.
                n_outages, after = self._n_outages, dict.fromkeys(self.posts, START)
            for shard, bodies in found:
                self._call_from_thread(self.posts[shard].arrived, bodies)


class HandPost:
    """A hand's end of the mail with the brain of a shard, which a carrier takes there.

    After a `term` of silence, in seconds, the brain gives its pages to others: fetches may start
    until `alive_until`, and no brain that has read what the server took at `reached_at` counts the
    hand as dead within a term of it, both by `boot_time()`. `has` returns how many pages the hand
    wants in all, its leases and what it asks for. `heard` is called with statements, `acknowledged`
    with the number of the last message that the brain has committed.
    """

    def __init__(
        self,
        carrier: Carrier,
        shard: int,
        term: float,
        *,
        has: Callable[[], tuple[int, list[Any], list[Any]]] = lambda: (0, [], []),
        heard: Callable[[list[Statement]], object] = lambda statements: None,
        acknowledged: Callable[[int], object] = lambda number: None,
    ) -> None:
        self.carrier = carrier
        carrier.posts[shard] = self
        self._shard = shard
        self._term = term
        self._has = has
        self._heard = heard
        self._acknowledged = acknowledged
        self.alive_until, self.reached_at = 0.0, boot_time()
        self._n_said = self._n_heard = 0
        self._unheard: deque[_Said] = deque()
        self._said_at = 0.0

    @property
    def had_brain(self) -> bool:
        """Whether a brain has said anything to this hand."""
        return self._n_heard > 0

    @property
    def is_heard(self) -> bool:
        """Whether the brain has acknowledged all that was said."""
        return not self._unheard

    @property
    def is_due(self) -> bool:
        """Whether to give a sign of life: fewer of them while nothing depends on this hand."""
        rests = self.is_heard and not any(self._has()[1:])
        return boot_time() >= self._said_at + (REST_SHARE * self._term if rests else 0.0)

    @property
    def is_alive(self) -> bool:
        """Whether fetches may start: no brain counts this hand as dead."""
        return boot_time() < self.alive_until

    def say(self, statements: list[Statement]) -> None:
        """Send statements; without any, a sign of life."""
        if statements:
            self.deliver(self._n_said + 1, written(statements))
        else:
            self._send([(self._n_said, self._body(b"[]"))])

    def deliver(self, number: int, statements: bytes) -> None:
        """Send a message that the sender has numbered, and keeps until it is acknowledged."""
        self._n_said = number
        self._send([(number, self._body(statements))], keeps=True)

    def _body(self, statements: bytes) -> bytes:
        """Return a message but for its clock."""
        n_wanted, leases, asks = self._has()
        head = n_wanted, self._n_heard, written(leases), written(asks)
        return b"%d,%d,%b,%b,%b" % (*head, statements)

    def _send(self, said: Iterable[tuple[int, bytes]], *, keeps: bool = False) -> None:
        sent = []
        for number, body in said:
            self._said_at = now = boot_time()
            if keeps:
                self._unheard.append(_Said(number, body, now))
            sent.append((number, b"[%r,%b]" % (now, body)))
        self.carrier.send(self._shard, sent)

    def arrived(self, bodies: list[bytes]) -> None:
        """Take note of messages; in the crawl's thread."""
        for body in bodies:
            try:
                number, n_read, echo, statements = json.loads(body)
            except (ValueError, TypeError):
                logger.error("A message in Redis is none of crawlprio: %.100r", body)
                continue
            if number <= self._n_heard:
                continue
            is_new_brain = brain_of(number) != brain_of(self._n_heard)
            self._n_heard = number
            while self._unheard and self._unheard[0].number <= n_read:
                self._unheard.popleft()
                self._acknowledged(n_read)
            first = self._unheard[0] if self._unheard else None
            if first is not None and first.number > n_read + 1 and first.sent_at < echo:
                self.carrier.failed(
                    CrawlprioError(
                        "The store of the crawl lacks what this worker has said: it is an older "
                        "copy, or of another crawl; start the worker again."
                    )
                )
                return
            self._heard(statements)
            if first is None or first.sent_at > echo:
                self.alive_until = max(self.alive_until, echo + ALIVE_SHARE * self._term)
            elif first.sent_at < echo:
                again, self._unheard = [said[:2] for said in self._unheard], deque()
                self._send(again, keeps=True)
            if is_new_brain:
                self.say([])  # it waits to hear what this hand has


class BrainPost(_Post):
    """A brain's end: it stays the brain from `claim` on, in a thread, however busy the crawl is.

    Without renewing that, it is the brain for some `seconds`. `arrived` is called with messages,
    and sets `position` once their effects are committed, or returns False; `state_changed` with the
    state of the crawl (empty, paused, draining) when it changes. If the crawl is over, `absent` has
    the hands that have not ended: with its close, all is deleted but the messages to them.
    """

    def __init__(
        self,
        open_mailbox: Callable[[], Mailbox],
        name: str,
        seconds: float,
        *,
        arrived: Callable[[list[Mail]], bool],
        state_changed: Callable[[str], object],
        call_from_thread: Callable[..., object],
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        super().__init__(open_mailbox, name, call_from_thread, failed)
        self.crawl_id = ""
        self.absent: list[str] | None = None
        self.path: Path | None = None
        self.position = START
        self._seconds = seconds
        self._arrived = arrived
        self._state_changed = state_changed
        self._state = ""
        self._synced, self._synced_at = "", 0.0
        self._applied = threading.Event()
        self._is_deaf = False
        self._n_noticed = 0

    def begin(self) -> None:
        """Stay the brain, which this process is now."""
        self._sender = self._start(self._turn_all, "turns")

    def listen(self, path: Path, position: str) -> None:
        """Read messages after a place; the store of the crawl is at `path`."""
        self.path, self.position = path, position
        self._start(self._read_all, "mail")

    def answer(self, answers: list[tuple[str, bytes]], status: str = "") -> None:
        """Send messages to hands, after all earlier ones."""
        self._outgoing.put((answers, self.position, status))

    def was_down(self) -> bool:
        """Return whether the server cannot be reached, or could not since the last call."""
        n_noticed, self._n_noticed = self._n_noticed, self._n_outages
        return self._is_down or n_noticed != self._n_noticed

    # Below: in threads

    def _turn_all(self) -> None:
        mailbox, is_last = self._open(), False
        while not is_last:
            turns, is_last = self._next(self._seconds / 3)
            answers = [answer for some, _, _ in turns for answer in some]
            status = next((shown for _, _, shown in reversed(turns) if shown), "")
            place = turns[-1][1] if turns else ""
            state = self._call(
                mailbox,
                mailbox.turn,
                *(self.name, self.crawl_id, self._seconds),
                done=self._done(place),
                status=status,
                answers=answers,
            )
            if state != self._state:
                self._state = state
                self._call_from_thread(self._state_changed, state)
        if self.absent is not None:
            self._call(mailbox, mailbox.delete, absent=self.absent)
        self._call(mailbox, mailbox.leave, self.name)

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
        mailbox, n_outages = self._open(), 0
        while not (self.is_closed or self._is_deaf):
            # A node of a cluster keeps who waits there even if it has lost the slot meanwhile: for
            # so long hands are not heard, which must not take them for dead.
            mail = self._call(mailbox, mailbox.read, self.position, seconds=self._seconds / 4)
            if n_outages != self._n_outages:
                n_outages = self._n_outages
                self._call(mailbox, mailbox.advance, self.position)
            if mail:
                self._applied.clear()
                self._call_from_thread(self._apply, mail)
                self._applied.wait()

    def _apply(self, mail: list[Mail]) -> None:
        try:
            self._is_deaf = self.is_closed or not self._arrived(mail)
        finally:
            self._applied.set()


class SaidByHand(NamedTuple):
    """A message of a hand, as `messages.py` says."""

    clock: float
    wants: int
    n_heard: int
    leases: list[list[Any]]
    asks: list[list[Any]]
    statements: list[Statement]


def said_by_hand(mail: Mail) -> SaidByHand:
    """Return what a hand says; ValueError or TypeError if the message is none of a hand."""
    said = SaidByHand(*json.loads(mail.body))
    if not (said.clock + said.wants + said.n_heard >= 0 and is_statements(said.statements)):
        raise ValueError("no message of a hand")
    return said
