"""The check of the addresses that host names resolve to, in the resolver that Twisted uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from scrapy import Request
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IResolutionReceiver,
)
from zope.interface import implementer  # type: ignore[import-untyped]

from crawlprio.web.addresses import PrivateAddresses, normal_host


class Asker:
    """A fetch in progress, on whose behalf names are resolved.

    Parameters
    ----------
    private
        the private addresses that its crawl may fetch from.
    request
        the request; with a proxy, which a handler may set late, nothing is checked.
    host
        the host of the request.
    is_own
        whether the project's own code asks for it, so that no address is removed.

    Attributes
    ----------
    is_refused
        whether the last name resolved on its behalf has only private addresses; None if none was
        resolved.
    """

    __slots__ = ("host", "is_over", "is_own", "is_refused", "private", "request")

    def __init__(
        self, private: PrivateAddresses, request: Request, host: str, *, is_own: bool
    ) -> None:
        self.private = private
        self.request = request
        self.host = host
        self.is_own = is_own
        self.is_over = False
        self.is_refused: bool | None = None


_asker: ContextVar[Asker | None] = ContextVar("asker", default=None)


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
        self._inner = reactor.nameResolver
        self._checks: dict[str, Counter[PrivateAddresses]] = {}
        self._refused: dict[PrivateAddresses, set[str]] = {}
        self._own: dict[PrivateAddresses, set[str]] = {}

    @classmethod
    def installed(cls, known: CheckingResolver | None = None) -> CheckingResolver:
        """Return the one that wraps the reactor's own resolver, installing it if necessary."""
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
        """Whether it still wraps the reactor's own resolver."""
        return self._reactor.nameResolver is self

    def uninstall_if_unused(self) -> None:
        """Restore the reactor's own resolver once no crawl needs this one."""
        if self.n_users == 0 and self.is_installed:
            self._reactor.installNameResolver(self._inner)

    def begin(
        self, private: PrivateAddresses, request: Request, host: str, *, is_own: bool
    ) -> Asker:
        """Note that a fetch begins; call it in the context in which its handler is called."""
        asker = Asker(private, request, normal_host(host), is_own=is_own)
        _asker.set(asker)
        if not is_own:
            checks = self._checks.get(asker.host)
            if checks is None:
                checks = self._checks[asker.host] = Counter()
            checks[private] += 1
        return asker

    def end(self, asker: Asker) -> None:
        """Note that a fetch is over."""
        asker.is_over = True
        checks = self._checks.get(asker.host)
        if not asker.is_own and checks is not None:
            checks[asker.private] -= 1
            if checks[asker.private] <= 0:
                del checks[asker.private]
                if not checks:
                    del self._checks[asker.host]

    def has_refused(self, private: PrivateAddresses, host: str) -> bool:
        """Return whether a host last resolved to private addresses only."""
        return normal_host(host) in self._refused.get(private, ())

    def is_own(self, private: PrivateAddresses, host: str) -> bool:
        """Return whether a project's own fetch has connected a host to a private address.

        A connection to it may still be open, and a page's fetch would use it unchecked.
        """
        return private in self._own and normal_host(host) in self._own[private]

    def forget(self, private: PrivateAddresses) -> None:
        """Discard the state of a crawl that has ended."""
        self._refused.pop(private, None)
        self._own.pop(private, None)
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
        """Resolve a name on behalf of Twisted."""
        host = normal_host(hostName)
        receiver = resolutionReceiver
        asker = _asker.get()
        if asker is not None and not asker.is_over:
            if not asker.request.meta.get("proxy"):
                receiver = _Checked(self, receiver, host, [asker.private], asker)
        elif host in self._checks:
            receiver = _Checked(self, receiver, host, list(self._checks[host]))
        resolution: IHostResolution = self._inner.resolveHostName(
            receiver, hostName, portNumber, addressTypes, transportSemantics
        )
        return resolution

    def note_own(self, private: PrivateAddresses, host: str) -> None:
        """Note that a project's own fetch connects a host to a private address."""
        self._own.setdefault(private, set()).add(host)

    def note(self, private: PrivateAddresses, host: str, is_refused: bool) -> None:
        """Note whether a resolution that found addresses left any to connect to."""
        refused = self._refused.setdefault(private, set())
        if is_refused:
            refused.add(host)
        else:
            refused.discard(host)


@implementer(IResolutionReceiver)
class _Checked:
    """Passes on the addresses of one resolution that every crawl concerned may connect to."""

    def __init__(
        self,
        resolver: CheckingResolver,
        receiver: Any,
        host: str,
        crawls: list[PrivateAddresses],
        asker: Asker | None = None,
    ) -> None:
        self._resolver = resolver
        self._receiver = receiver
        self._host = host
        self._crawls = crawls
        self._asker = asker
        self._addresses: list[Any] = []

    def resolutionBegan(self, resolution: IHostResolution) -> None:  # noqa: N802
        self._receiver.resolutionBegan(resolution)

    def addressResolved(self, address: IAddress) -> None:  # noqa: N802
        self._addresses.append(address)

    def resolutionComplete(self) -> None:  # noqa: N802
        allowed = found = [address.host for address in self._addresses]
        for private in self._crawls:
            public = private.allowed_of(self._host, found)
            if self._asker is not None and self._asker.is_own:
                if len(public) < len(found):
                    self._resolver.note_own(private, self._host)
                continue
            is_refused = bool(found) and not public
            if self._asker is not None:
                self._asker.is_refused = is_refused
            elif found:
                self._resolver.note(private, self._host, is_refused)
            allowed = [host for host in allowed if host in public]
        for address in self._addresses:
            if address.host in allowed:
                self._receiver.addressResolved(address)
        self._receiver.resolutionComplete()
