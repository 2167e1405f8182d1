"""The format of links and visits sent to the scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from json import dumps
from struct import Struct
from typing import NamedTuple

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis.rules import Rules
from crawlprio.plugins.redis.scripts import Argument
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.web.budgets import pattern_of
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of

_HASH_BYTES = 10
"""Among 10**9 pages, two hashes of this length collide with a probability of 1 in 2 million."""

_PATTERN_BYTES = 8

LINKS_PER_CALL = 200
"""Followed links per call, so that no call takes long (`docs/distributed.md` states how long)."""

_OTHERS_PER_CALL = 1_000
"""Links per call that are not followed; each costs a lookup only."""

_LINK = Struct(f">{_HASH_BYTES}sI{_PATTERN_BYTES}sd")
"""Hash of a link's identity, number of its host from 1 (0: not followed), pattern, link value."""


class Piece(NamedTuple):
    """Some links of a visit: how many are followed, their new targets, and what is sent."""

    n_followed: int
    n_targets: int
    arguments: list[Argument]

    @property
    def packed(self) -> bytes:
        """The arguments as msgpack."""
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in self.arguments]
        strings = [b"\xdb" + len(text).to_bytes(4, "big") + text for text in texts]
        return b"\xdd" + len(texts).to_bytes(4, "big") + b"".join(strings)


class Wire:
    """Packs links for the scripts.

    Parameters
    ----------
    rules
        The rules of the ordering.
    config
        The budgets.
    bounded
        Whether the budget by URL pattern applies.
    """

    def __init__(self, rules: Rules, config: CrawlConfig, *, bounded: bool) -> None:
        self._number_of = rules.link_value
        self._counts_patterns = bounded and config.max_pages_per_pattern is not None

    def links(
        self,
        urls: Sequence[str],
        identities: Sequence[str],
        anchors: Sequence[str] = (),
        outside: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Argument]:
        """Yield links as arguments for `read_links` in `learning.lua`.

        Parameters
        ----------
        urls, identities, anchors
            The followed links. Without URLs they are evidence only.
        outside
            Identity and anchor text of each link that is not followed.
        """
        hosts: dict[str, int] = {}
        at_host = [hosts.setdefault(host_of(url), len(hosts) + 1) for url in urls]
        yield len(hosts)
        for host in hosts:
            yield host
            yield self.domain(host)
        yield len(identities) + len(outside)
        link_value, pattern = self._number_of, self.pattern
        texts = anchors or [""] * len(identities)
        packed = (
            [
                _LINK.pack(hash_of(identity), host, pattern(url), link_value(url, anchor))
                for identity, host, url, anchor in zip(
                    identities, at_host, urls, texts, strict=True
                )
            ]
            if urls
            else [
                _LINK.pack(hash_of(identity), 0, b"", link_value(identity, anchor))
                for identity, anchor in zip(identities, texts, strict=True)
            ]
        )
        packed += [
            _LINK.pack(hash_of(identity), 0, b"", link_value(identity, anchor))
            for identity, anchor in outside
        ]
        yield b"".join(packed)
        yield from urls
        own = [
            at_and_identity
            for at_and_identity, url in zip(enumerate(identities, 1), urls, strict=False)
            if at_and_identity[1] != url
        ]
        yield len(own)
        for at_and_identity in own:
            yield from at_and_identity

    def pieces(
        self,
        urls: Sequence[str],
        identities: Sequence[str],
        anchors: Sequence[str] = (),
        outside: Sequence[tuple[str, str]] = (),
        *,
        own: str = "",
        outside_last: bool = False,
    ) -> list[Piece]:
        """Return links, given as to `links`, in pieces of at most `LINKS_PER_CALL` followed links.

        Parameters
        ----------
        own
            Identity of the visited page, which is no target.
        outside_last
            Whether links that are not followed come after the followed ones, and not from the first
            piece on.
        """
        n, n_others = LINKS_PER_CALL, _OTHERS_PER_CALL
        starts = range(0, max(len(identities), 1), n)
        first = len(starts) - 1 if outside_last else 0
        n_pieces = max(len(starts), first - (-len(outside) // n_others))
        seen = {own}
        pieces = []
        for at in range(n_pieces):
            those = slice(at * n, (at + 1) * n)
            others = outside[max(at - first, 0) * n_others :][: n_others if at >= first else 0]
            here = identities[those]
            repeated = [link for link, identity in enumerate(here, 1) if identity in seen]
            n_targets = len(set(here) - seen)
            seen.update(here)
            links = self.links(urls[those], here, anchors[those], others)
            pieces.append(Piece(len(here), n_targets, [len(here), dumps(repeated), *links]))
        return pieces

    def domain(self, host: str) -> str:
        """Return the registered domain of a host."""
        return _domain_of(host)

    def pattern(self, url: str) -> bytes:
        """Return a hash of a URL's pattern; b"" unless budgets count pages by it."""
        if not self._counts_patterns:
            return b""
        pattern = pattern_of(url)
        return _hash_of_pattern(pattern) if pattern else b""


@lru_cache(10_000)
def _hash_of_pattern(pattern: bytes) -> bytes:
    return blake2b(pattern, digest_size=_PATTERN_BYTES).digest()


@lru_cache(10_000)
def _domain_of(host: str) -> str:
    return registered_domain(host)


def hash_of(identity: str) -> bytes:
    """Return the hash by which a page is found in Redis."""
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()


def record(visit: PageVisit, shards: Sequence[int] = ()) -> str:
    """Return a visit as JSON for its stream entry: a list, which `entries.visit_of` reads.

    `shards`: the shard of each link, if any of them is in another shard than the page.
    """
    pairs = visit.pairs
    return dumps(
        [
            pairs.status,
            pairs.title,
            pairs.n_bytes,
            # 64 bits are too many for a JSON number in some parsers.
            str(pairs.content_hash),
            visit.fetched_at,
            visit.elapsed,
            visit.error,
            pairs.anchors,
            pairs.outside,
            pairs.text,
            visit.items,
            *_rest_of(pairs, shards),
        ],
        separators=(",", ":"),
    )


def _rest_of(pairs: LinkPairs, shards: Sequence[int]) -> list[object]:
    """Return the fields that most visits lack, up to the last one that this visit has."""
    rest: list[object] = [
        shards,
        pairs.directives if any(pairs.directives) else (),
        pairs.value,
        pairs.notes,
    ]
    while rest and rest[-1] in ((), [], None):
        rest.pop()
    return rest
