"""What of pages and visits goes over the wire, as the scripts and `collect` read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from json import dumps

from crawlprio.frontier.protocol import PageVisit
from crawlprio.redis.rules import Rules
from crawlprio.redis.session import Argument
from crawlprio.web.budgets import pattern_of
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of

_HASH_BYTES = 12
"""Two of 10**9 pages have the same hash of so many bytes with a probability of one in 10**11."""


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
        number_of, pattern = self._number_of, self.pattern
        yield len(hosts)
        for host in hosts:
            yield host
            yield self.domain(host)
        yield len(identities) + len(outside)
        for at, identity in enumerate(identities):
            yield hash_of(identity)
            url = urls[at] if urls else ""
            yield url
            yield identity if urls and identity != url else ""
            yield at_host[at] if urls else ""
            yield pattern(url) if urls else ""
            yield repr(number_of(url or identity, anchors[at] if anchors else ""))
        for identity, anchor in outside:
            yield from (hash_of(identity), "", "", "", "", repr(number_of(identity, anchor)))

    def domain(self, host: str) -> str:
        """Return the registered domain of a host, where pages are counted by it."""
        return _domain_of(host) if self._counts_domains else ""

    def pattern(self, url: str) -> Argument:
        """Return a hash of the pattern of a URL, where pages are counted by it."""
        if not self._counts_patterns:
            return ""
        pattern = pattern_of(url)
        return blake2b(pattern, digest_size=8).digest() if pattern else ""


@lru_cache(10_000)
def _domain_of(host: str) -> str:
    return registered_domain(host)


def hash_of(identity: str) -> bytes:
    """Return what stands for an identity in Redis."""
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()


def record(visit: PageVisit) -> str:
    """What the stream says of a visit beside the pages: a list, read by `collect`."""
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
        ],
        separators=(",", ":"),
    )
