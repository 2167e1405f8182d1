"""The check at the last moment before the bytes of a fetch are sent."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError
from twisted.internet.tcp import Connection
from twisted.protocols.policies import ProtocolWrapper

from crawlprio.live import engine

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(slots=True, eq=False)
class Sending:
    """The permission of one fetch to send, asked before each write to its socket.

    Parameters
    ----------
    is_allowed
        whether the fetch may still send.
    was_refused
        whether it was refused, and its connection closed.
    """

    is_allowed: Callable[[], bool]
    was_refused: bool = False


sending: ContextVar[Sending | None] = ContextVar("sending", default=None)
"""The fetch in whose context a download handler asks for a connection."""


def check_sends(crawler: Crawler) -> None:
    """Check each write of Scrapy's HTTP/1.1 download handlers by the fetch that it is for.

    A process can be stopped between the check that starts a fetch and the turn of the event loop
    that sends it.
    """
    for connections in engine.connection_pools(crawler):
        _check_pool(connections)


def _check_pool(connections: Any) -> None:
    """Check the writes of all connections that a pool hands out from now on."""
    get_connection = connections.getConnection

    def get_checked(key: Any, endpoint: Any) -> Any:
        found, fetch = get_connection(key, endpoint), sending.get()
        return found if fetch is None else found.addCallback(_checked, fetch)

    connections.getConnection = get_checked


def _checked(connection: Any, fetch: Sending) -> Any:
    """Check the writes of a connection, and of the one that replaces it if it is stale."""
    transport = engine.transport_of(connection, lambda again: _checked(again, fetch))
    while isinstance(transport, ProtocolWrapper):  # TLS
        transport = transport.transport
    if isinstance(transport, Connection):
        send = type(transport).writeSomeData

        def send_if_allowed(data: bytes) -> int | Exception:
            # Twisted closes a connection, perhaps long after its fetch, by sending nothing.
            if not data or fetch.is_allowed():
                return send(transport, data)
            fetch.was_refused = True
            return CancelledError()  # after any other error Twisted would try again

        transport.writeSomeData = send_if_allowed  # type: ignore[assignment, method-assign]
    return connection
