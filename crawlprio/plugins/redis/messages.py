"""Messages: the links of a visit to pages of other shards, each applied exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from crawlprio.frontier.protocol import PageVisit
from crawlprio.plugins.redis.scripts import Argument
from crawlprio.plugins.redis.session import ServerAnswer
from crawlprio.plugins.redis.shards import Shards
from crawlprio.plugins.redis.wire import LINKS_PER_CALL, Piece, Wire
from crawlprio.web.urls import host_if_any, host_of

_MAX_MESSAGES = 50
"""Undelivered messages to take over per call."""

_CACHE_SIZE = 10_000
"""Identities whose shard is cached because they do not name their host."""


Message: TypeAlias = tuple[int, Piece]
"""The shard that links lead to, and the links."""


class SplitLinks:
    """The links of a visit, grouped by shard.

    Attributes
    ----------
    shards
        The shard of each link: first the followed ones, then the others.
    """

    def __init__(self, home: int) -> None:
        self._home = home
        self.shards: list[int] = []
        self._by_shard: dict[int, tuple[list[str], list[str], list[str], list[tuple[str, str]]]]
        self._by_shard = {home: ([], [], [], [])}

    def add(self, shard: int, url: str | None, identity: str, anchor: str | None) -> None:
        """Add a followed link. One whose target was queued before has no URL."""
        self.shards.append(shard)
        urls, identities, anchors, _ = self._by_shard.setdefault(shard, ([], [], [], []))
        identities.append(identity)
        if url is not None:
            urls.append(url)
        if anchor is not None:
            anchors.append(anchor)

    def add_outside(self, shard: int, identity: str, anchor: str) -> None:
        """Add a link that is not followed."""
        self.shards.append(shard)
        self._by_shard.setdefault(shard, ([], [], [], []))[3].append((identity, anchor))

    def local(self, wire: Wire, own: str) -> list[Piece]:
        """Return the links within the visited page's shard."""
        return wire.pieces(*self._by_shard[self._home], own=own)

    def remote(self, wire: Wire) -> list[Message]:
        """Return the links to each other shard, as messages."""
        return [
            (shard, piece)
            for shard, links in self._by_shard.items()
            if shard != self._home
            for piece in wire.pieces(*links, outside_last=True)
        ]


class Messages:
    """Sends the links of visits to the shards of their targets.

    The script that observes a visit writes its messages to an outbox in the visited page's shard,
    where they stay until they are delivered. A message whose delivery was not acknowledged is
    delivered again, by this worker or by the one that takes over from it; the receiving shard
    ignores repeats.

    Parameters
    ----------
    shards
        The crawl's shards.
    wire
        Packs links.
    call
        Calls a script in a shard: shard number, script, arguments, `on_answer`.
    on_refused
        Called with the answer to a message; its result counts the links that budgets refused.
    """

    def __init__(
        self,
        shards: Shards,
        wire: Wire,
        call: Callable[..., None],
        on_refused: Callable[[ServerAnswer], None],
    ) -> None:
        self._shards = shards
        self._wire = wire
        self._call = call
        self._on_refused = on_refused
        self._shard_by_identity: dict[str, int] = {}
        self._in_flight: set[tuple[int, bytes]] = set()
        self._recovering: set[int] = set()

    def remember(self, identity: str, site: str, shard: int) -> None:
        """Cache the shard of a page whose identity does not name its host."""
        if len(self._shards) > 1 and host_if_any(identity) != site:
            if len(self._shard_by_identity) >= _CACHE_SIZE:
                self._shard_by_identity.clear()
            self._shard_by_identity[identity] = shard

    def split(
        self,
        home: int,
        visit: PageVisit,
        identities: Sequence[str],
        outside: Sequence[tuple[str, str]],
    ) -> SplitLinks:
        """Group the links of a visit by the shards of their targets."""
        links, pairs, of = SplitLinks(home), visit.pairs, self._shards.of
        for at, (url, identity) in enumerate(zip(pairs.targets, identities, strict=True)):
            anchor = pairs.anchors[at] if pairs.anchors else None
            if visit.links_are_entries:
                links.add(self._shard_of(identity, home), None, identity, anchor)
            else:
                links.add(of(host_of(url)), url, identity, anchor)
        for identity, anchor in outside:
            links.add_outside(self._shard_of(identity, home), identity, anchor)
        return links

    def _shard_of(self, identity: str, home: int) -> int:
        """Return the shard of a page, or any shard for a page that exists in none."""
        shard = self._shard_by_identity.get(identity)
        if shard is None:
            host = host_if_any(identity)
            shard = self._shards.of(host) if host else home
        return shard

    def send(self, home: int, messages: Sequence[Message], answer: ServerAnswer) -> None:
        """Deliver the messages of a visit, given the answer of `observe.lua`."""
        outcome, sent = answer.result[:2]
        if int(outcome) == 2:
            self.recover(home)
            return
        for (shard, piece), head in zip(messages, sent, strict=False):
            self._deliver(home, shard, [*head, piece.packed], piece.n_followed)

    def recover(self, home: int) -> None:
        """Deliver the messages in a shard's outbox that no live worker is delivering."""
        if home not in self._recovering:
            self._recovering.add(home)
            self._call(home, "undelivered", _MAX_MESSAGES, on_answer=partial(self._recovered, home))

    def _recovered(self, home: int, answer: ServerAnswer) -> None:
        self._recovering.discard(home)
        fields = iter(answer.result)
        for name, arguments in zip(fields, fields, strict=True):
            if name.startswith(b"parts "):
                for _ in range(max(int(arguments[0]), 1)):
                    self.take_part(home, name.removeprefix(b"parts "), LINKS_PER_CALL)
            elif (home, name) not in self._in_flight:
                self._deliver(home, int(name.partition(b" ")[0]), arguments)
        if len(answer.result) == 2 * _MAX_MESSAGES:
            self.recover(home)

    def take_part(self, home: int, name: Argument, n_links: int) -> None:
        """Take the next part of a visit with many links."""
        self._call(home, "more", name, on_answer=self._on_refused, n_links=n_links)

    def _deliver(
        self, home: int, shard: int, arguments: list[Any], n_links: int = LINKS_PER_CALL
    ) -> None:
        sender, number = arguments[:2]
        name = b"%d %s %s" % (shard, sender.partition(b" ")[2], number)
        self._in_flight.add((home, name))
        self._call(
            shard,
            "deliver",
            *arguments,
            on_answer=partial(self._delivered, home, name),
            n_links=n_links,
        )

    def _delivered(self, home: int, name: bytes, answer: ServerAnswer) -> None:
        self._on_refused(answer)
        self._call(
            home,
            "delivered",
            name,
            on_answer=lambda answer: self._in_flight.discard((home, name)),
        )


def message_arguments(messages: Sequence[Message]) -> list[Argument]:
    """Return messages as arguments of `observe.lua`."""
    found: list[Argument] = [len(messages)]
    for shard, piece in messages:
        found += [shard, piece.n_targets, piece.packed]
    return found
