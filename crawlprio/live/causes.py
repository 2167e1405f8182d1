"""Short causes of failed fetches, for the store and the figures."""

from __future__ import annotations

from crawlprio.store.outcomes import REFUSED, ROBOTS, UNREACHABLE

_CAUSES = {
    "CannotResolveHostError": "name not resolved",
    "DNSLookupError": "name not resolved",
    "UnknownHostError": "name not resolved",
    "DownloadConnectionRefusedError": "connection refused",
    "ConnectionRefusedError": "connection refused",
    "DownloadTimeoutError": "timed out",
    "TimeoutError": "timed out",
    "TCPTimedOutError": "timed out",
    "DownloadCancelledError": "too large",
    "ResponseDataLossError": "cut short",
    "UnsupportedURLSchemeError": "scheme not supported",
    "NotSupported": "scheme not supported",
    "DownloadFailedError": "connection failed",
    "ConnectionLost": "connection failed",
    "ConnectionDone": "connection failed",
    "ResponseNeverReceived": "connection failed",
    "ResponseFailed": "connection failed",
}
"""Causes by class name of the exception or of one of its bases, from Scrapy and Twisted."""


def cause_of(error: BaseException) -> str:
    """Return why a fetch failed: a fixed phrase, or the name of the exception's class."""
    for cause in _chain(error):
        text = str(cause)
        if text.startswith(UNREACHABLE):
            return text
        if "robots.txt" in text and type(cause).__name__ == "IgnoreRequest":
            return ROBOTS
        if _is_tls(cause):
            return "TLS failed"
    for cls in type(error).__mro__:
        if cls.__name__ in _CAUSES:
            return _CAUSES[cls.__name__]
    if type(error).__name__ == "IgnoreRequest":
        return f"{REFUSED}: {error}" if str(error) else REFUSED
    return type(error).__name__


def _chain(error: BaseException) -> list[BaseException]:
    """Return the exception and all that it was raised from or wraps."""
    chain: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo and len(chain) < 20:
        found = todo.pop()
        if found is None or found in chain:
            continue
        chain.append(found)
        todo += [found.__cause__, found.__context__]
        for reason in getattr(found, "reasons", None) or ():
            todo.append(getattr(reason, "value", None))
    return chain


def _is_tls(error: BaseException) -> bool:
    return type(error).__module__.startswith(("OpenSSL", "service_identity", "ssl"))
