"""The mail between a brain and its hands, in Redis: its keys, and two scripts.

The keys of a crawl begin with `crawlprio:{CRAWL:SHARD}:`, so that a cluster keeps them on one node.

==============  ======  ==========================================================================
key             type    holds
==============  ======  ==========================================================================
`brain`         string  the name of the process that is the brain; expires unless it is renewed
`crawl`         hash    `id` of the crawl, `host` and `folder` of its store, `process` of its brain,
                        `state` (empty, paused, draining), `status` as JSON for `crawlprio frontier`
`in`            stream  messages to the brain: `h` hand, `n` number, `b` body
`out:HAND`      stream  messages to a hand: `b` body
`seeds`         hash    the private addresses of seeds, by host
==============  ======  ==========================================================================

Each shard of a crawl has such keys, and a brain. Shard 0 also knows the number of `shards`, and
how sites are spread over them: `key`, `by_domain`.

The crawl itself is in the brain's store. A message to the brain stays in its stream until what it
led to is on the brain's disk; those to a hand that nobody reads expire after a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis.exceptions import RedisError, ResponseError

from crawlprio.errors import CrawlprioError
from crawlprio.plugins.shared.connection import Client
from crawlprio.web.addresses import SeedAddresses

_WAIT, _SHARE_OF_TIMEOUT = 4.0, 0.8
"""Most seconds for which the server is asked to wait for mail, also as a share of the time after
which a silent server counts as unreachable."""

_MOST = 64
"""Messages that a brain reads at once."""

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


def prefix_of(crawl: str, shard: int = 0) -> str:
    """Return the prefix of a shard's keys; its hash tag keeps the shard on one node."""
    return f"crawlprio:{{{crawl}:{shard}}}"


class Fenced(CrawlprioError):
    """Another process is the brain by now, or the crawl was deleted."""


class Mail(NamedTuple):
    """A message to the brain: its place in the stream, its hand, its number, and what it says."""

    place: str
    hand: str
    number: int
    body: bytes


def place_of(place: str) -> tuple[int, int]:
    """Return a place in a stream as numbers, which compare."""
    first, _, second = place.partition("-")
    return int(first), int(second or 0)


class Mailbox:
    """The mailbox of one shard of a crawl, for one thread.

    Its methods raise `RedisError` if the server cannot be asked.
    """

    def __init__(self, client: Client, crawl: str, shard: int = 0) -> None:
        self.client = client
        self.crawl = crawl
        timeout = client.get_connection_kwargs().get("socket_timeout") or _WAIT
        self._wait = int(1000 * min(_WAIT, _SHARE_OF_TIMEOUT * timeout))
        self.prefix = prefix_of(crawl, shard)
        self._brain, self._in, self._crawl = (
            f"{self.prefix}:{name}" for name in ("brain", "in", "crawl")
        )

    def of(self, shard: int) -> Mailbox:
        """Return the mailbox of another shard, with the same connection."""
        return Mailbox(self.client, self.crawl, shard)

    def of_shards(self, n: int) -> list[Mailbox]:
        """Return the mailboxes of all shards of this crawl, of which there are `n`."""
        return [self.of(shard) for shard in range(n)]

    def _out(self, hand: str) -> str:
        return f"{self.prefix}:out:{hand}"

    # The brain

    def claim(self, brain: str, seconds: float) -> bool:
        """Become the brain unless another process is; return whether this one is."""
        is_new = self.client.set(self._brain, brain, nx=True, px=int(1000 * seconds))
        return bool(is_new) or self.brain() == brain

    def read(self, after: str, *, seconds: float) -> list[Mail]:
        """Return messages to the brain after a place; wait for the first one, some seconds."""
        wait = min(self._wait, int(1000 * seconds))
        found = self.client.xread({self._in: after}, count=_MOST, block=wait)
        entries = found[0][1] if found else []
        return [
            Mail(
                place.decode(),
                fields.get(b"h", b"").decode("utf-8", "replace"),
                int(fields.get(b"n", b"0")),
                fields.get(b"b", b""),
            )
            for place, fields in entries
        ]

    def turn(
        self,
        brain: str,
        crawl_id: str,
        seconds: float,
        *,
        done: str = "",
        status: str = "",
        answers: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        """Stay the brain, drop what is `done`, and answer hands; return the crawl's state.

        Raises `Fenced`, and sends no answer, if this process is no longer the brain.
        """
        keys = [self._brain, self._in, self._crawl, *(self._out(hand) for hand, _ in answers)]
        milliseconds, bodies = int(1000 * seconds), (body for _, body in answers)
        facts = [brain, crawl_id, milliseconds, done, status]
        try:
            state = self.client.eval(_TURN, len(keys), *keys, *facts, *bodies)
        except ResponseError as error:
            if "FENCED" in str(error):
                raise Fenced(str(error)) from None
            raise
        return str(state.decode())

    def leave(self, brain: str) -> None:
        """Cease to be the brain."""
        self.client.eval(_LEAVE, 1, self._brain, brain)

    def advance(self, place: str) -> None:
        """Number the next message to the brain after a place, whatever the server has lost."""
        try:
            last = self.client.xinfo_stream(self._in)["last-generated-id"].decode()
        except ResponseError as error:
            if "no such key" not in str(error):
                raise
            last = START
        if place_of(last) < place_of(place):
            first, second = place_of(place)
            self.client.xadd(self._in, {"h": "", "n": 0, "b": ""}, id=f"{first}-{second + 1}")

    # A hand

    def send(self, hand: str, said: Iterable[tuple[int, Iterable[tuple[int, bytes]]]]) -> None:
        """Send numbered messages to the brains of shards; sent again, they keep their numbers."""
        pipe = self.client.pipeline(transaction=False)
        for shard, messages in said:
            inbox = self.of(shard)._in
            for number, body in messages:
                pipe.xadd(inbox, {"h": hand, "n": number, "b": body})
        pipe.execute()

    def answers(self, hand: str, after: dict[int, str]) -> list[tuple[int, list[bytes]]]:
        """Return brains' messages to a hand by shard; `after` has the place of the last of each.

        Of a cluster, only one shard can be asked.
        """
        keys = {self.of(shard)._out(hand).encode(): shard for shard in after}
        places = {key: after[shard] for key, shard in keys.items()}
        found, pipe = [], self.client.pipeline(transaction=False)
        for key, entries in self.client.xread(places, block=self._wait):
            after[keys[key]] = place = entries[-1][0].decode()
            pipe.xtrim(key, minid=place)
            found.append((keys[key], [fields.get(b"b", b"") for _, fields in entries]))
        with suppress(RedisError):  # what was read is kept; the next call tells
            pipe.execute()
        return found

    def forget(self, hand: str) -> None:
        """Delete the messages to a hand."""
        self.client.delete(self._out(hand))

    def forget_late(self, hand: str) -> None:
        """Delete what a hand said to a crawl that was over, unless another has begun."""
        if not (self.brain() or self.facts()):
            self.client.delete(self._in, self._out(hand))

    # Everybody

    def brain(self) -> str:
        """Return the name of the process that is the brain; empty if none is."""
        return (self.client.get(self._brain) or b"").decode()

    def brains(self, n: int) -> list[str]:
        """Return those of all shards, of which there are `n`, by one call but for a cluster."""
        get = getattr(self.client, "mget_nonatomic", self.client.mget)
        found = get([each._brain for each in self.of_shards(n)])
        return [(name or b"").decode() for name in found]

    def facts(self) -> dict[str, str]:
        """Return what the server knows of the crawl; nothing if it has none."""
        found: dict[bytes, bytes] = self.client.hgetall(self._crawl)
        return {name.decode(): fact.decode() for name, fact in found.items()}

    def agree(self, facts: dict[str, Any]) -> dict[str, str]:
        """Set facts that are not set yet; return all."""
        for name, fact in facts.items():
            self.client.hsetnx(self._crawl, name, fact)
        return self.facts()

    def put_facts(self, **facts: Any) -> None:
        self.client.hset(self._crawl, mapping=facts)

    def share_seeds(self, found: SeedAddresses) -> SeedAddresses:
        """Record the private addresses of seeds; return what is on record, of all if none given.

        What the first worker records is what all use.
        """
        key = f"{self.prefix}:seeds"
        for host, addresses in found.items():
            self.client.hsetnx(key, host, " ".join(addresses))
        known = self.client.hgetall(key)
        shared = {host.decode(): addresses.decode().split() for host, addresses in known.items()}
        return {host: shared[host] for host in found} if found else shared

    def delete(self, brain_seconds: float = 0.0, *, absent: Iterable[str] = ()) -> None:
        """Delete the crawl from the server; its store is not touched.

        If it has a brain, that is told by a name in its place, for some seconds. The last messages
        to hands that are `absent` stay until they expire.
        """
        has_brain = brain_seconds and self.brain()
        if has_brain:
            self.client.set(self._brain, "nobody", px=int(1000 * brain_seconds))
        kept = {self._brain.encode(), *(self._out(hand).encode() for hand in absent)}
        pattern = "".join(f"[{char}]" if char in "*?[\\" else char for char in self.prefix)
        for key in self.client.scan_iter(match=f"{pattern}:*", count=1000):
            if key not in kept:
                self.client.unlink(key)
        if not has_brain:  # until now, no other could begin
            self.client.unlink(self._brain)
