"""What of pages and visits goes over the wire, as the scripts and `collect` read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from json import dumps
from struct import Struct

from crawlprio.frontier.protocol import PageVisit
from crawlprio.redis.rules import Rules
from crawlprio.redis.scripts import Argument
from crawlprio.web.budgets import pattern_of
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of

_HASH_BYTES = 10
"""Two of 10**9 pages have the same hash of so many bytes with a probability of one in 2 million."""

_PATTERN_BYTES = 8

_LINK = Struct(f">{_HASH_BYTES}sI{_PATTERN_BYTES}sd")
"""Hash of a link's identity, number of its host from 1 (0: none), pattern, number for the rules."""


class Wire:
    """Writes links as the scripts read them.

    Parameters
    ----------
    rules
        of the ordering.
    counts_domains, counts_patterns
        whether pages are counted by registered domain, and by pattern of URLs.
    """

    def __init__(self, rules: Rules, *, counts_domains: bool, counts_patterns: bool) -> None:
        self._number_of = rules.number_of
        self._counts_domains = counts_domains
        self._counts_patterns = counts_patterns

    def links(
        self,
        urls: Sequence[str],
        identities: Sequence[str],
        anchors: Sequence[str] = (),
        outside: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Argument]:
        """Links as `read_links` in `learning.lua` reads them.

        Parameters
        ----------
        urls, identities, anchors
            of the links that are followed; without URLs, they are evidence alone.
        outside
            identity and anchor text of those that are not.
        """
        hosts: dict[str, int] = {}
        at_host = [hosts.setdefault(host_of(url), len(hosts) + 1) for url in urls]
        yield len(hosts)
        for host in hosts:
            yield host
            yield self.domain(host)
        yield len(identities) + len(outside)
        number_of, pattern = self._number_of, self.pattern
        texts = anchors or [""] * len(identities)
        packed = (
            [
                _LINK.pack(hash_of(identity), host, pattern(url), number_of(url, anchor))
                for identity, host, url, anchor in zip(
                    identities, at_host, urls, texts, strict=True
                )
            ]
            if urls
            else [
                _LINK.pack(hash_of(identity), 0, b"", number_of(identity, anchor))
                for identity, anchor in zip(identities, texts, strict=True)
            ]
        )
        packed += [
            _LINK.pack(hash_of(identity), 0, b"", number_of(identity, anchor))
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

    def domain(self, host: str) -> str:
        """Return the registered domain of a host, where pages are counted by it."""
        return _domain_of(host) if self._counts_domains else ""

    def pattern(self, url: str) -> bytes:
        """Return a hash of the pattern of a URL, where pages are counted by it."""
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
    """Return what stands for an identity in Redis."""
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()


def record(visit: PageVisit, shards: Sequence[int] = ()) -> str:
    """What the stream says of a visit beside the pages: a list, read by `collect`.

    `shards`: that of each link, where some are in others than the page.
    """
    pairs = visit.pairs
    return dumps(
        [
            pairs.status,
            pairs.title,
            pairs.n_bytes,
            # 64 bits, which JSON's numbers do not hold everywhere
            str(pairs.content_hash),
            visit.fetched_at,
            visit.elapsed,
            visit.error,
            pairs.anchors,
            pairs.outside,
            pairs.text,
            visit.items,
            *([shards] if shards else []),
        ],
        separators=(",", ":"),
    )
