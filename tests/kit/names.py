"""A resolver of names for crawls in this process, in place of the system's."""

from crawls import _called, _in_loop, _reactor
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IHostnameResolver
from zope.interface import implementer

from crawlprio.web.addresses import address_of


@implementer(IHostnameResolver)
class Names:
    """Replaces the reactor's resolver: knows some names, and no others."""

    def __init__(self, known):
        self._known = known
        self.asked = []

    def __enter__(self):
        self._before = _in_loop(_called(lambda: _install(self)), 10)
        return self

    def __exit__(self, *_):
        current = _in_loop(_called(lambda: _install(self._before)), 10)
        assert current is self, "a crawl left its resolver behind"

    def resolveHostName(self, receiver, name, portNumber=0, *others):  # noqa: N802, N803
        if address_of(name) is not None:
            return self._before.resolveHostName(receiver, name, portNumber, *others)
        self.asked.append(name)
        receiver.resolutionBegan(self)
        for host in self._known.get(name, []):
            kind = IPv6Address if ":" in host else IPv4Address
            receiver.addressResolved(kind("TCP", host, portNumber))
        receiver.resolutionComplete()
        return self

    def cancel(self):
        pass


def _install(resolver):
    """Let the reactor resolve names by another resolver; return the one before."""
    running = _reactor()
    before = running.nameResolver
    running.installNameResolver(resolver)
    return before
