"""Start URLs that others push to Redis while a crawl runs, as scrapy-redis has them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from scrapy import FormRequest, Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.asyncio import call_later, run_in_thread
from scrapy.utils.defer import deferred_from_coro

from crawlprio.redis.scripts import Client

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger("crawlprio")

_POLL = 0.5
"""Seconds between two looks for start URLs."""


class StartUrls:
    """Takes start URLs from a key in Redis and has them fetched, whether or not pages wait.

    An entry is a URL, or JSON: an object with `url`, `method` and `meta`, whose other members are
    form data. A spider that has `make_request_from_data` makes the request itself. Requests are
    seeds with `dont_filter`, as with scrapy-redis. One that cannot be made is logged and counted.
    A worker that is killed while it takes a batch loses that batch, as with scrapy-redis.

    Parameters
    ----------
    crawler
        its spider stays open for `max_idle` seconds in which there was nothing to fetch; 0: always.
    client, key
        of the server, and where the URLs are there.
    kind
        "list", "set" or "zset".
    batch_size
        entries that are taken at once.
    max_idle
        see `crawler`.
    """

    def __init__(
        self,
        crawler: Crawler,
        client: Client,
        key: str,
        *,
        kind: str,
        batch_size: int,
        max_idle: float,
    ) -> None:
        self._crawler = crawler
        self._client = client
        self._key = key
        self._take: Callable[[], Iterable[bytes]] = partial(_TAKE[kind], client, key, batch_size)
        self._max_idle = max_idle
        self._busy_at = monotonic()
        self._is_closed = False
        self._is_away = False
        crawler.signals.connect(self._idle, signal=signals.spider_idle)
        crawler.signals.connect(self._opened, signal=signals.spider_opened)

    def close(self) -> None:
        """Take no more."""
        self._is_closed = True
        self._client.close()

    def _opened(self) -> None:
        self._look()

    def _look(self) -> None:
        if not self._is_closed:
            deferred_from_coro(self._take_batch()).addErrback(
                lambda failure: logger.error("Start URLs: %s", failure.getTraceback())
            )

    async def _take_batch(self) -> None:
        """Take what is there, without a pause while there is more, then again in a while."""
        try:
            entries = list(await run_in_thread(self._take))
            self._is_away = False
        except RedisError as error:
            entries = []
            if not self._is_away and not self._is_closed:
                self._is_away = True
                logger.warning("Start URLs cannot be read from Redis: %s.", error)
        spider, engine = self._crawler.spider, self._crawler.engine
        if self._is_closed or spider is None or engine is None:
            if entries:
                logger.error("%d start URLs came too late to be fetched.", len(entries))
            return
        for entry in entries:
            self._busy_at = monotonic()
            for request in self._requests(spider, entry):
                engine.crawl(request)
        call_later(0 if entries else _POLL, self._look)

    def _requests(self, spider: Spider, entry: bytes) -> Iterable[Request]:
        """The requests that an entry means."""
        make = getattr(spider, "make_request_from_data", request_of)
        try:
            made = make(entry)
            return [made] if isinstance(made, Request) else list(made or ())
        except Exception as error:
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value("crawlprio/start_urls_not_read")
            logger.error("Start URL %.200r cannot be used: %s", entry, error)
            return []

    def _idle(self) -> None:
        idle = monotonic() - self._busy_at
        if self._max_idle == 0 or idle < self._max_idle:
            raise DontCloseSpider


def request_of(entry: bytes) -> Request:
    """Return the request of an entry, as scrapy-redis 0.9 reads it.

    Raises
    ------
    ValueError, TypeError
        if there is none in it.
    """
    text = entry.decode()
    try:
        members: Any = json.loads(text)
    except ValueError:
        return Request(text.strip(), dont_filter=True)
    if not isinstance(members, Mapping) or not isinstance(members.get("url"), str):
        raise ValueError("its JSON is not an object with a url")
    form = dict(members)
    url, method, meta = form.pop("url"), form.pop("method", "GET"), form.pop("meta", {})
    return FormRequest(url, method=method.upper(), formdata=form, meta=meta, dont_filter=True)


def _from_list(client: Client, key: str, n: int) -> Iterable[bytes]:
    found: list[bytes] | None = client.lpop(key, n)
    return found or []


def _from_set(client: Client, key: str, n: int) -> Iterable[bytes]:
    found: Iterable[bytes] = client.spop(key, n)
    return found


def _from_zset(client: Client, key: str, n: int) -> Iterable[bytes]:
    return (member for member, _ in client.zpopmax(key, n))


_TAKE: dict[str, Callable[[Client, str, int], Iterable[bytes]]] = {
    "list": _from_list,
    "set": _from_set,
    "zset": _from_zset,
}
