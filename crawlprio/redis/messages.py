"""Links to pages of other shards: they are sent as messages, each of which counts once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from crawlprio.frontier.protocol import PageVisit
from crawlprio.redis.scripts import Argument
from crawlprio.redis.session import Answer
from crawlprio.redis.shards import Shards
from crawlprio.redis.wire import Wire
from crawlprio.web.urls import host_if_any, host_of

_MOST = 50
"""Messages of other workers that are asked for at once."""

_REMEMBERED = 10_000
"""Identities whose shard is remembered, as it does not follow from them."""


Message: TypeAlias = tuple[int, int, int, list[Argument]]
"""Shard, distinct targets of links that are followed or were added, such links, all its links."""


class SplitLinks:
    """The links of a visit by shard.

    Attributes
    ----------
    shards
        that of each link: of those that are followed, then of those that are not.
    """

    def __init__(self, home: int) -> None:
        self._home = home
        self.shards: list[int] = []
        self._of_shard: dict[int, tuple[list[str], list[str], list[str], list[tuple[str, str]]]]
        self._of_shard = {home: ([], [], [], [])}

    def add(self, shard: int, url: str | None, identity: str, anchor: str | None) -> None:
        """Add a link that is followed, or was added before: then it has no URL."""
        self.shards.append(shard)
        urls, identities, anchors, _ = self._of_shard.setdefault(shard, ([], [], [], []))
        identities.append(identity)
        if url is not None:
            urls.append(url)
        if anchor is not None:
            anchors.append(anchor)

    def add_outside(self, shard: int, identity: str, anchor: str) -> None:
        """Add a link that is not followed."""
        self.shards.append(shard)
        self._of_shard.setdefault(shard, ([], [], [], []))[3].append((identity, anchor))

    def at_home(self, wire: Wire) -> list[Argument]:
        """Return the links to pages of the shard of the visited page, as arguments."""
        return list(wire.links(*self._of_shard[self._home]))

    def elsewhere(self, wire: Wire) -> list[Message]:
        """Return the links to pages of other shards."""
        return [
            (shard, len(set(links[1])), len(links[1]), list(wire.links(*links)))
            for shard, links in self._of_shard.items()
            if shard != self._home
        ]


class Messages:
    """Sends the links of visits to the shards of their targets.

    A message stands in the shard of the visited page, written by the script that took the visit in,
    until it was delivered. It is delivered again by this worker, or by another one, where it is not
    known that it was; the shard that receives it knows which messages it has.

    Parameters
    ----------
    shards
        of the crawl.
    wire
        writes links.
    call
        calls a script of a shard: its number, script, arguments, and `answered`.
    refused
        is called with the answer of a message, whose result says which links have no room.
    """

    def __init__(
        self,
        shards: Shards,
        wire: Wire,
        call: Callable[..., None],
        refused: Callable[[Answer], None],
    ) -> None:
        self._shards = shards
        self._wire = wire
        self._call = call
        self._refused = refused
        self._of_identity: dict[str, int] = {}
        self._under_way: set[tuple[int, bytes]] = set()
        self._recovering: set[int] = set()

    def remember(self, identity: str, site: str, shard: int) -> None:
        """Remember where a page is whose identity does not say it."""
        if len(self._shards) > 1 and host_if_any(identity) != site:
            if len(self._of_identity) >= _REMEMBERED:
                self._of_identity.clear()
            self._of_identity[identity] = shard

    def split(
        self,
        home: int,
        visit: PageVisit,
        identities: Sequence[str],
        outside: Sequence[tuple[str, str]],
    ) -> SplitLinks:
        """Return the links of a visit by the shards of their targets."""
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
        """The shard of a page that may be known; where nobody knows, the script finds no page."""
        shard = self._of_identity.get(identity)
        if shard is None:
            host = host_if_any(identity)
            shard = self._shards.of(host) if host else home
        return shard

    def send(self, home: int, messages: Sequence[Message], answer: Answer) -> None:
        """Deliver the messages of a visit, which `observe.lua` answered."""
        outcome, sent = answer.result[:2]
        if int(outcome) == 2:
            self.recover(home)
            return
        for (shard, _, _, links), head in zip(messages, sent, strict=False):
            self._deliver(home, shard, [*head, *links])

    def recover(self, home: int) -> None:
        """Deliver messages that stand in a shard, and of which nobody knows that they were."""
        if home not in self._recovering:
            self._recovering.add(home)
            self._call(home, "undelivered", _MOST, answered=partial(self._recovered, home))

    def _recovered(self, home: int, answer: Answer) -> None:
        self._recovering.discard(home)
        fields = iter(answer.result)
        for name, arguments in zip(fields, fields, strict=True):
            if (home, name) not in self._under_way:
                self._deliver(home, int(name.partition(b" ")[0]), arguments)
        if len(answer.result) == 2 * _MOST:
            self.recover(home)

    def _deliver(self, home: int, shard: int, arguments: list[Any]) -> None:
        sender, number = arguments[:2]
        name = b"%d %s %s" % (shard, sender.partition(b" ")[2], number)
        self._under_way.add((home, name))
        self._call(shard, "deliver", *arguments, answered=partial(self._delivered, home, name))

    def _delivered(self, home: int, name: bytes, answer: Answer) -> None:
        self._refused(answer)
        self._call(
            home,
            "delivered",
            name,
            answered=lambda answer: self._under_way.discard((home, name)),
        )


def arguments_of(messages: Sequence[Message]) -> list[Argument]:
    """Return messages as `observe.lua` reads them behind the links of the shard itself."""
    found: list[Argument] = [len(messages)]
    for shard, n_targets, n_links, links in messages:
        found += [shard, n_targets, n_links, len(links), *links]
    return found
