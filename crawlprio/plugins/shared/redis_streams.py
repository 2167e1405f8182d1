"""The messages of a crawl in Redis: its keys, and two scripts.

The keys of a crawl begin with `crawlprio:{CRAWL:0}:`, so that a cluster keeps them on one node.

=============  ======  =============================================================================
key            type    holds
=============  ======  =============================================================================
`coordinator`  string  the name of the coordinator's process; expires unless it is renewed
`crawl`        hash    `id` of the crawl, `host` and `folder` of its store, its `process`,
                       `state` (empty, paused, draining), `status` as JSON for `crawlprio frontier`
`in`           stream  messages to the coordinator: `h` worker, `n` number, `b` body
`out:WORKER`   stream  messages to a worker: `b` body
`seeds`        hash    the private addresses of seeds, by host
=============  ======  =============================================================================

The crawl itself is in the coordinator's store. A message to the coordinator stays in its stream
until its effects are on the coordinator's disk; unread messages to workers expire after a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from redis.exceptions import RedisError, ResponseError

from crawlprio.errors import CrawlprioError
from crawlprio.plugins.shared.connection import Client
from crawlprio.web.addresses import SeedAddresses, address_of

_WAIT, _SHARE_OF_TIMEOUT = 4.0, 0.8
"""Most seconds for which the server waits for a message, absolute and as a share of the time after
which a silent server counts as unreachable."""

_MOST = 64
"""Messages that a coordinator reads at once."""

START = "0-0"
"""Before the first message of a stream."""

_TURN = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return redis.error_reply('FENCED by ' .. holder) end
local id, state = unpack(redis.call('HMGET', KEYS[3], 'id', 'state'))
if ARGV[2] ~= '' then
  if not id then redis.call('HSET', KEYS[3], 'id', ARGV[2])
  elseif id ~= ARGV[2] then return redis.error_reply('FENCED by another crawl') end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
if ARGV[4] ~= '' then redis.call('XTRIM', KEYS[2], 'MINID', ARGV[4]) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[3], 'status', ARGV[5]) end
for at = 4, #KEYS do
  redis.call('XADD', KEYS[at], '*', 'b', ARGV[at + 2])
  redis.call('PEXPIRE', KEYS[at], 86400000)
end
return state or ''
"""

_LEAVE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""


class Fenced(CrawlprioError):
    """Another process is the coordinator by now, or the crawl was deleted."""


class Envelope(NamedTuple):
    """A message to the coordinator, not yet checked, and its place in the stream."""

    place: str
    worker: bytes
    number: bytes
    body: bytes


def place_of(place: str) -> tuple[int, int]:
    """Return a place in a stream as numbers, which compare."""
    first, _, second = place.partition("-")
    return int(first), int(second or 0)


class RedisStreams:
    """The streams of a crawl, for one thread.

    Its methods raise `RedisError` if the server cannot be asked.
    """

    def __init__(self, client: Client, crawl: str) -> None:
        self.client = client
        self.crawl = crawl
        timeout = client.get_connection_kwargs().get("socket_timeout") or _WAIT
        self._wait = int(1000 * min(_WAIT, _SHARE_OF_TIMEOUT * timeout))
        self.prefix = f"crawlprio:{{{crawl}:0}}"  # the hash tag keeps all keys on one node
        self._coordinator, self._in, self._crawl = (
            f"{self.prefix}:{name}" for name in ("coordinator", "in", "crawl")
        )

    def _out(self, worker: str) -> str:
        return f"{self.prefix}:out:{worker}"

    def claim(self, coordinator: str, seconds: float) -> bool:
        """Become the coordinator unless another process is; return whether this one is."""
        is_new = self.client.set(self._coordinator, coordinator, nx=True, px=int(1000 * seconds))
        return bool(is_new) or self.coordinator() == coordinator

    def read(self, after: str, *, seconds: float) -> list[Envelope]:
        """Return messages to the coordinator after a place; wait `seconds` for the first."""
        wait = min(self._wait, int(1000 * seconds))
        found = self.client.xread({self._in: after}, count=_MOST, block=wait)
        entries = found[0][1] if found else []
        return [
            Envelope(place.decode(), *(fields.get(name, b"") for name in (b"h", b"n", b"b")))
            for place, fields in entries
        ]

    def turn(
        self,
        coordinator: str,
        crawl_id: str,
        seconds: float,
        *,
        done: str = "",
        status: str = "",
        answers: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        """Stay the coordinator, drop what is `done`, and answer workers; return the crawl's state.

        Raises `Fenced`, and sends no answer, if this process is no longer the coordinator.
        """
        keys = [
            self._coordinator,
            self._in,
            self._crawl,
            *(self._out(worker) for worker, _ in answers),
        ]
        milliseconds, bodies = int(1000 * seconds), (body for _, body in answers)
        facts = [coordinator, crawl_id, milliseconds, done, status]
        try:
            state = self.client.eval(_TURN, len(keys), *keys, *facts, *bodies)
        except ResponseError as error:
            if "FENCED" in str(error):
                raise Fenced(str(error)) from None
            raise
        return str(state.decode(errors="replace"))

    def leave(self, coordinator: str) -> None:
        """Cease to be the coordinator."""
        self.client.eval(_LEAVE, 1, self._coordinator, coordinator)

    def advance(self, place: str) -> None:
        """Place the next message to the coordinator after a place, whatever Redis has lost."""
        try:
            last = self.client.xinfo_stream(self._in)["last-generated-id"].decode()
        except ResponseError as error:
            if "no such key" not in str(error):
                raise
            last = START
        if place_of(last) < place_of(place):
            first, second = place_of(place)
            self.client.xadd(self._in, {"h": "", "n": 0, "b": ""}, id=f"{first}-{second + 1}")

    def send(self, worker: str, messages: Iterable[tuple[int, bytes]]) -> None:
        """Send numbered messages to the coordinator; sent again, they keep their numbers."""
        pipe = self.client.pipeline(transaction=False)
        for number, body in messages:
            pipe.xadd(self._in, {"h": worker, "n": number, "b": body})
        pipe.execute()

    def answers(self, worker: str, after: str) -> tuple[str, list[bytes]]:
        """Return the messages to a worker after a place, and the place of the last."""
        key = self._out(worker)
        found = self.client.xread({key: after}, block=self._wait)
        if not found:
            return after, []
        entries = found[0][1]
        after = entries[-1][0].decode()
        with suppress(RedisError):  # the messages were read; the next call fails, too
            self.client.xtrim(key, minid=after)
        return after, [fields.get(b"b", b"") for _, fields in entries]

    def forget_late(self, worker: str) -> None:
        """Delete the messages of a worker to a crawl that is over, unless another has begun."""
        if not (self.coordinator() or self.facts()):
            self.client.delete(self._in, self._out(worker))

    def coordinator(self) -> str:
        """Return the name of the process that is the coordinator; empty if none is."""
        return (self.client.get(self._coordinator) or b"").decode(errors="replace")

    def facts(self) -> dict[str, str]:
        """Return the hash `crawl`; empty if the server has none."""
        return self._texts_of(self._crawl)

    def _texts_of(self, key: str) -> dict[str, str]:
        found: dict[bytes, bytes] = self.client.hgetall(key)
        decode = partial(bytes.decode, errors="replace")  # others may have written it
        return {decode(name): decode(text) for name, text in found.items()}

    def put_facts(self, **facts: Any) -> None:
        self.client.hset(self._crawl, mapping=facts)

    def share_seeds(self, found: SeedAddresses) -> SeedAddresses:
        """Record the private addresses of seeds; return those on record, of all if none are given.

        All workers use those that the first one recorded.
        """
        key = f"{self.prefix}:seeds"
        for host, addresses in found.items():
            self.client.hsetnx(key, host, " ".join(addresses))
        shared = {host: addresses.split() for host, addresses in self._texts_of(key).items()}
        for host, addresses in shared.items():
            if None in map(address_of, addresses):
                raise CrawlprioError(
                    f"The seed {host} has the addresses {addresses} in Redis, of which not all are "
                    f"valid; delete the crawl with 'crawlprio frontier delete {self.crawl} --yes'."
                )
        return {host: shared[host] for host in found} if found else shared

    def delete(self, coordinator_seconds: float = 0.0, *, absent: Iterable[str] = ()) -> None:
        """Delete the crawl from the server; its store is not touched.

        A coordinator is fenced by another name in its place, for some seconds. The last messages to
        workers that are `absent` stay until they expire.
        """
        has_coordinator = coordinator_seconds and self.coordinator()
        if has_coordinator:
            self.client.set(self._coordinator, "nobody", px=int(1000 * coordinator_seconds))
        kept = {self._coordinator.encode(), *(self._out(worker).encode() for worker in absent)}
        pattern = "".join(f"[{char}]" if char in "*?[\\" else char for char in self.prefix)
        for key in self.client.scan_iter(match=f"{pattern}:*", count=1000):
            if key not in kept:
                self.client.unlink(key)
        if not has_coordinator:  # until now, no other could begin
            self.client.unlink(self._coordinator)
