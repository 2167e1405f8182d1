"""The check of the addresses that names resolve to, where Twisted's connections take them from.

It knows names and addresses; it must not know requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IResolutionReceiver,
)
from zope.interface import implementer  # type: ignore[import-untyped]

from crawlprio.web.addresses import PrivateAddresses, normal_host


@implementer(IHostnameResolver)
class CheckingResolver:
    """The reactor's resolver of names, which for hosts that crawls fetch leaves out private ones.

    One stands before the reactor's own while a crawl needs it. Names that no crawl is fetching from
    at that moment (a database's, a mail server's) are resolved as ever.
    """

    def __init__(self, reactor: Any) -> None:
        self.n_users = 0
        self._reactor = reactor
        self._inner = reactor.nameResolver
        self._checks: dict[str, Counter[PrivateAddresses]] = {}
        self._refused: dict[PrivateAddresses, set[str]] = {}

    @classmethod
    def installed(cls, known: CheckingResolver | None = None) -> CheckingResolver:
        """Return the one that stands before the reactor's resolver, installing it if need be."""
        from twisted.internet import reactor

        running: Any = reactor
        current = running.nameResolver
        if isinstance(current, cls):
            return current
        resolver = known or cls(running)
        resolver._inner = current
        running.installNameResolver(resolver)
        return resolver

    @property
    def is_installed(self) -> bool:
        """Whether it still stands before the reactor's own."""
        return self._reactor.nameResolver is self

    def uninstall_if_unused(self) -> None:
        """Give the reactor its own resolver back once no crawl needs this one."""
        if self.n_users == 0 and self.is_installed:
            self._reactor.installNameResolver(self._inner)

    def check(self, private: PrivateAddresses, host: str, n_fetches: int = 1) -> None:
        """Check a host while fetches from it are under way."""
        host = normal_host(host)
        checks = self._checks.get(host)
        if checks is None:
            checks = self._checks[host] = Counter()
        checks[private] += n_fetches
        if checks[private] <= 0:
            del checks[private]
            if not checks:
                del self._checks[host]

    def has_refused(self, private: PrivateAddresses, host: str) -> bool:
        """Return whether a host has been resolved to private addresses alone, the last time."""
        return normal_host(host) in self._refused.get(private, ())

    def forget(self, private: PrivateAddresses) -> None:
        """Forget a crawl that has ended."""
        self._refused.pop(private, None)
        for host in [host for host, checks in self._checks.items() if private in checks]:
            del self._checks[host][private]

    def resolveHostName(  # noqa: N802
        self,
        resolutionReceiver: Any,  # noqa: N803
        hostName: str,  # noqa: N803
        portNumber: int = 0,  # noqa: N803
        addressTypes: Sequence[type[IAddress]] | None = None,  # noqa: N803
        transportSemantics: str = "TCP",  # noqa: N803
    ) -> IHostResolution:
        """Resolve a name, as Twisted asks for it."""
        host = normal_host(hostName)
        crawls = self._checks.get(host)
        receiver = resolutionReceiver
        if crawls:
            receiver = _Checked(self, receiver, host, list(crawls))
        resolution: IHostResolution = self._inner.resolveHostName(
            receiver, hostName, portNumber, addressTypes, transportSemantics
        )
        return resolution

    def note(self, private: PrivateAddresses, host: str, is_refused: bool) -> None:
        """Note whether a resolution left anything to connect to."""
        refused = self._refused.setdefault(private, set())
        if is_refused:
            refused.add(host)
        else:
            refused.discard(host)


@implementer(IResolutionReceiver)
class _Checked:
    """Passes on the addresses of one resolution that every crawl concerned may connect to."""

    def __init__(
        self, resolver: CheckingResolver, receiver: Any, host: str, crawls: list[PrivateAddresses]
    ) -> None:
        self._resolver = resolver
        self._receiver = receiver
        self._host = host
        self._crawls = crawls
        self._addresses: list[Any] = []

    def resolutionBegan(self, resolution: IHostResolution) -> None:  # noqa: N802
        self._receiver.resolutionBegan(resolution)

    def addressResolved(self, address: IAddress) -> None:  # noqa: N802
        self._addresses.append(address)

    def resolutionComplete(self) -> None:  # noqa: N802
        allowed = found = [address.host for address in self._addresses]
        for private in self._crawls:
            its_own = private.allowed_of(self._host, found)
            self._resolver.note(private, self._host, bool(found) and not its_own)
            allowed = [host for host in allowed if host in its_own]
        for address in self._addresses:
            if address.host in allowed:
                self._receiver.addressResolved(address)
        self._receiver.resolutionComplete()
