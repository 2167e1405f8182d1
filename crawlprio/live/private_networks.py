"""Which private addresses seeds open, and the resolver that checks what pages connect to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

from scrapy import Request
from scrapy.settings import BaseSettings
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.abstract import isIPv6Address
from twisted.internet.address import IPv6Address
from twisted.internet.defer import Deferred, DeferredList, TimeoutError
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IResolutionReceiver,
)
from zope.interface import implementer  # type: ignore[import-untyped]

from crawlprio.settings_table.config import read_setting
from crawlprio.store import Store
from crawlprio.store.files import damaged
from crawlprio.web.addresses import (
    PrivateAddresses,
    SeedAddresses,
    address_of,
    normal_host,
    private_of,
)

logger = logging.getLogger("crawlprio")

Share = Callable[[SeedAddresses], SeedAddresses]
"""Records the private addresses of seeds; returns what is on record for their hosts, or, if given
none, for all. What is on record for a host stays as it is."""

_KEY = "seed_addresses "


class SeedHosts:
    """Opens the private addresses of seeds, and no others.

    What a seed's name resolves to when the crawl begins is kept with the crawl by `share`: in its
    store, or in Redis for all of its workers. A name that points elsewhere later opens nothing.
    """

    def __init__(self, settings: BaseSettings, addresses: PrivateAddresses, share: Share) -> None:
        self._addresses = addresses
        self._share = share
        # A loopback server answers for every name.
        self._resolves = read_setting(settings, "TWISTED_REACTOR_ENABLED") and not read_setting(
            settings, "CRAWLPRIO_LOOPBACK"
        )
        if addresses.opens_seeds:
            self._open(share({}))

    async def add(self, hosts: Iterable[str]) -> None:
        """Open the private addresses of seeds: their own, or those that their names have now."""
        is_seed = self._addresses.is_seed
        new = {normal_host(host) for host in hosts if host}
        new = {host for host in new if not is_seed(host)}
        if not (self._addresses.opens_seeds and new):
            return
        names = [host for host in new if address_of(host) is None]
        resolved = await addresses_of(names) if names and self._resolves else {}
        resolved |= {host: [host] for host in new.difference(names)}
        found = {host: private_of(host, addresses) for host, addresses in resolved.items()}
        self._open(self._share(found) if found else {})
        # A name that has no address now opens none in this run, and is resolved again in the next.
        self._open({host: [] for host in new if not is_seed(host)})
        for host in names:
            if found.get(host):
                logger.info(
                    "Seed %s has the private addresses %s, which this crawl may fetch from; to "
                    "open their network, add it to CRAWLPRIO_PRIVATE_NETWORKS.",
                    host,
                    ", ".join(found[host]),
                )

    def _open(self, record: SeedAddresses) -> None:
        for host, addresses in record.items():
            self._addresses.add_seed(host, addresses)


def record_in(store: Store | None) -> Share:
    """Return the `Share` of a crawl that has one worker; without a store, it records nothing.

    A damaged record raises StoreError.
    """
    if store is None:
        return lambda found: found
    known = {
        key.removeprefix(_KEY): addresses.split() for key, addresses in store.facts(_KEY).items()
    }
    try:
        is_sound = all(private_of(host, known[host]) == known[host] for host in known)
    except ValueError:
        is_sound = False
    if not is_sound:
        raise damaged(store.path, "addresses of its seeds")

    def share(found: SeedAddresses) -> SeedAddresses:
        for host in found.keys() - known.keys():
            known[host] = found[host]
            store.set_meta(f"{_KEY}{host}", " ".join(found[host]))
        return {host: known[host] for host in found or known}

    return share


RESOLVE_SECONDS = 20.0
"""Seconds within which the names of the seeds are resolved before a crawl begins."""

_RESOLVED_AT_ONCE = 10
"""The threads that Twisted resolves names with, unless told otherwise."""


@dataclass(slots=True, eq=False)
class AddressCheck:
    """A fetch in progress, on whose behalf names are resolved.

    `private` are the private addresses that its crawl may fetch from, `host` is normalised. With a
    proxy, which a handler may set late, nothing is checked. If it `is_own`, the project's own code
    asks for it, and no address is removed. `is_refused`: the last name resolved on its behalf has
    only private addresses; None: none was resolved.
    """

    private: PrivateAddresses
    request: Request
    host: str
    is_own: bool
    is_refused: bool | None = None


_asker: ContextVar[AddressCheck | None] = ContextVar("asker", default=None)


@implementer(IHostnameResolver)
class CheckingResolver:
    """A name resolver for the reactor that removes private addresses for pages that crawls fetch.

    It wraps the reactor's own resolver while a crawl needs it. A download handler resolves a name
    in the context of the fetch, so whatever name it connects to is checked by the rules of that
    fetch, however the URL was written. A name resolved in another context is checked if a crawl is
    fetching from it. Other names (a database's, a mail server's) are resolved as usual.
    """

    def __init__(self, reactor: Any) -> None:
        self.n_users = 0
        self._reactor = reactor
        self.inner = reactor.nameResolver
        self._askers: set[AddressCheck] = set()

    @classmethod
    def installed(cls, known: CheckingResolver | None = None) -> CheckingResolver:
        """Return the reactor's own resolver, installing it if necessary."""
        from twisted.internet import reactor

        running: Any = reactor
        current = running.nameResolver
        if isinstance(current, cls):
            return current
        resolver = known or cls(running)
        resolver.inner = current
        running.installNameResolver(resolver)
        return resolver

    @property
    def is_installed(self) -> bool:
        """Whether it still wraps the reactor's own resolver."""
        return self._reactor.nameResolver is self

    def uninstall_if_unused(self) -> None:
        """Restore the reactor's own resolver once no crawl needs this one."""
        if self.n_users == 0 and self.is_installed:
            self._reactor.installNameResolver(self.inner)

    def begin(self, asker: AddressCheck) -> None:
        """Note that a fetch begins; call it in the context in which its handler is called."""
        _asker.set(asker)
        self._askers.add(asker)

    def end(self, asker: AddressCheck) -> None:
        """Note that a fetch is over."""
        self._askers.discard(asker)

    def resolveHostName(  # noqa: N802
        self,
        resolutionReceiver: Any,  # noqa: N803
        hostName: str,  # noqa: N803
        portNumber: int = 0,  # noqa: N803
        addressTypes: Sequence[type[IAddress]] | None = None,  # noqa: N803
        transportSemantics: str = "TCP",  # noqa: N803
    ) -> IHostResolution:
        """Resolve a name on behalf of Twisted."""
        host = normal_host(hostName)
        receiver = resolutionReceiver
        asker = _asker.get()
        if asker in self._askers:
            if not asker.request.meta.get("proxy"):
                receiver = _Checked(receiver, host, {asker.private}, asker)
        else:
            crawls = {a.private for a in self._askers if a.host == host and not a.is_own}
            receiver = _Checked(receiver, host, crawls)
        resolution: Any
        if isIPv6Address(hostName):  # which Scrapy's resolver finds no address for
            resolution = SimpleNamespace(name=hostName, cancel=lambda: None)
            receiver.resolutionBegan(resolution)
            receiver.addressResolved(IPv6Address("TCP", hostName, portNumber))
            receiver.resolutionComplete()
        else:
            resolution = self.inner.resolveHostName(
                receiver, hostName, portNumber, addressTypes, transportSemantics
            )
        return cast("IHostResolution", resolution)


@implementer(IResolutionReceiver)
@dataclass(slots=True)
class _Checked:
    """Passes on the addresses of one resolution that every crawl concerned may connect to."""

    receiver: Any
    host: str
    crawls: Collection[PrivateAddresses]
    asker: AddressCheck | None = None
    addresses: list[Any] = field(default_factory=list)

    def resolutionBegan(self, resolution: IHostResolution) -> None:  # noqa: N802
        self.receiver.resolutionBegan(resolution)

    def addressResolved(self, address: IAddress) -> None:  # noqa: N802
        self.addresses.append(address)

    def resolutionComplete(self) -> None:  # noqa: N802
        found = allowed = [address.host for address in self.addresses]
        for private in self.crawls:
            allowed = private.allowed_of(self.host, allowed)
        asker = self.asker
        if asker is not None and asker.is_own:
            if len(allowed) < len(found):
                asker.private.close_name(self.host)
            allowed = found
        elif asker is not None:
            asker.is_refused = bool(found) and not allowed
        for address in self.addresses:
            if address.host in allowed:
                self.receiver.addressResolved(address)
        self.receiver.resolutionComplete()


async def resolved(host: str, seconds: float | None = None) -> list[str]:
    """Return the addresses of a name that the fetch in this context may connect to.

    With a number of seconds, those that are found within it, unchecked.
    """
    from twisted.internet import reactor

    running: Any = reactor
    resolver, answer = running.nameResolver, _Answer()
    if seconds is not None:
        answer.complete.addTimeout(seconds, running)
        if isinstance(resolver, CheckingResolver):
            resolver = resolver.inner
    resolver.resolveHostName(answer, host)
    with suppress(TimeoutError):
        await maybe_deferred_to_future(answer.complete)
    return answer.addresses


async def addresses_of(hosts: Iterable[str]) -> dict[str, list[str]]:
    """Return the addresses of the names among some hosts, without those that have none in time.

    At most `RESOLVE_SECONDS` in all, because some of many seeds have servers that do not answer.
    """
    until = monotonic() + RESOLVE_SECONDS
    waiting = iter(hosts)
    found: dict[str, list[str]] = {}

    async def resolve() -> None:
        for host in waiting:
            addresses = await resolved(host, max(until - monotonic(), 0.0))
            if addresses:
                found[host] = addresses

    at_once = [deferred_from_coro(resolve()) for _ in range(_RESOLVED_AT_ONCE)]
    await maybe_deferred_to_future(DeferredList(at_once, fireOnOneErrback=True))
    return found


@implementer(IResolutionReceiver)
class _Answer:
    """Collects the addresses of a name."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.complete: Deferred[None] = Deferred()

    def resolutionBegan(self, resolution: IHostResolution) -> None:  # noqa: N802
        pass

    def addressResolved(self, address: Any) -> None:  # noqa: N802
        self.addresses.append(address.host)

    def resolutionComplete(self) -> None:  # noqa: N802
        if not self.complete.called:
            self.complete.callback(None)
