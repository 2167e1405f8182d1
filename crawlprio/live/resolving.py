"""The check of the addresses that host names resolve to, in the resolver that Twisted uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Any

from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred, DeferredList, TimeoutError
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IResolutionReceiver,
)
from zope.interface import implementer  # type: ignore[import-untyped]

from crawlprio.web.addresses import PrivateAddresses, normal_host

RESOLVE_SECONDS = 20.0
"""Seconds within which the names of the seeds are resolved before a crawl begins."""

_RESOLVED_AT_ONCE = 10
"""The threads that Twisted resolves names with, unless told otherwise."""


@dataclass(slots=True, eq=False)
class Asker:
    """A fetch in progress, on whose behalf names are resolved.

    Parameters
    ----------
    private
        the private addresses that its crawl may fetch from.
    request
        the request; with a proxy, which a handler may set late, nothing is checked.
    host
        the host of the request, normalised.
    is_own
        whether the project's own code asks for it, so that no address is removed.

    is_refused
        whether the last name resolved on its behalf has only private addresses; None if none was
        resolved.
    """

    private: PrivateAddresses
    request: Request
    host: str
    is_own: bool
    is_refused: bool | None = None


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
        self.inner = reactor.nameResolver
        self._askers: set[Asker] = set()

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

    def begin(self, asker: Asker) -> None:
        """Note that a fetch begins; call it in the context in which its handler is called."""
        _asker.set(asker)
        self._askers.add(asker)

    def end(self, asker: Asker) -> None:
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
        resolution: IHostResolution = self.inner.resolveHostName(
            receiver, hostName, portNumber, addressTypes, transportSemantics
        )
        return resolution


@implementer(IResolutionReceiver)
class _Checked:
    """Passes on the addresses of one resolution that every crawl concerned may connect to."""

    def __init__(
        self,
        receiver: Any,
        host: str,
        crawls: Collection[PrivateAddresses],
        asker: Asker | None = None,
    ) -> None:
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
        found = allowed = [address.host for address in self._addresses]
        for private in self._crawls:
            allowed = private.allowed_of(self._host, allowed)
        asker = self._asker
        if asker is not None and asker.is_own:
            if len(allowed) < len(found):
                asker.private.close_name(self._host)
            allowed = found
        elif asker is not None:
            asker.is_refused = bool(found) and not allowed
        for address in self._addresses:
            if address.host in allowed:
                self._receiver.addressResolved(address)
        self._receiver.resolutionComplete()


async def addresses_of(hosts: Iterable[str]) -> dict[str, list[str]]:
    """Return the addresses of the names among some hosts, without those that have none in time.

    At most `RESOLVE_SECONDS` in all, because some of many seeds have servers that do not answer.
    """
    from twisted.internet import reactor

    running: Any = reactor
    resolver = running.nameResolver
    if isinstance(resolver, CheckingResolver):
        resolver = resolver.inner
    until = monotonic() + RESOLVE_SECONDS
    waiting = iter(hosts)
    found: dict[str, list[str]] = {}

    async def resolve() -> None:
        for host in waiting:
            answer = _Answer()
            resolver.resolveHostName(answer, host)
            answer.complete.addTimeout(max(until - monotonic(), 0.0), running)
            with suppress(TimeoutError):
                await maybe_deferred_to_future(answer.complete)
            if answer.addresses:
                found[host] = answer.addresses

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
