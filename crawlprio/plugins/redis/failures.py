"""Errors of Redis: which may pass, and the others as ours."""

from __future__ import annotations

from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong

from crawlprio.errors import CrawlprioError

_TRANSIENT = ("BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED")
"""Codes of transient errors that have no class in redis-py."""


class RedisFailure(CrawlprioError):
    """The frontier in Redis cannot be used."""


def is_transient(error: RedisError) -> bool:
    """Return whether an error may pass: the server is down, starting, full or a replica."""
    if isinstance(error, AuthenticationError):
        return False
    passing = (
        *(NoConnection, TookTooLong, OutOfMemoryError, ReadOnlyError),
        # The cluster has no node for the slot, or is migrating it.
        *(ClusterError, AskError, TryAgainError),
    )
    return isinstance(error, passing) or str(error).startswith(_TRANSIENT)


def failure(error: RedisError) -> RedisFailure:
    """Return a Redis error as one sentence."""
    text = str(error)
    if text.startswith("NOCRAWL"):
        return RedisFailure(
            "The crawl is no longer in Redis, because it was flushed or the server lost it; enable "
            "persistence (appendonly yes) and start the crawl again."
        )
    return RedisFailure(f"The frontier in Redis is unusable: {text.rstrip('.')}.")
