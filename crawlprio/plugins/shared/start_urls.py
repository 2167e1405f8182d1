"""Start URLs pushed to Redis during a crawl, as in scrapy-redis."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

from redis.exceptions import RedisError
from scrapy import FormRequest, Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro

from crawlprio.live.engine import sleep
from crawlprio.plugins.shared.connection import Client

logger = logging.getLogger("crawlprio")

_POLL = 0.5
"""Seconds between two polls."""


class StartUrls:
    """Pops start URLs from a Redis key and schedules them, even while pages are waiting.

    An entry is a URL, or a JSON object with `url`, `method`, `meta` and further members, which are
    form data. If the spider defines `make_request_from_data`, that method makes the request.
    Requests are seeds with `dont_filter`. An invalid entry is logged and counted. As in
    scrapy-redis, a worker that is killed while it pops a batch loses that batch.

    `key` is of a list, a set or a sorted set, from which `batch_size` entries are popped at once.
    After `max_idle` seconds without a start URL, an idle spider may close; 0: never.
    """

    def __init__(
        self, crawler: Crawler, client: Client, key: str, *, batch_size: int, max_idle: float
    ) -> None:
        self._crawler, self._client = crawler, client
        self._key, self._batch_size, self._max_idle = key, batch_size, max_idle
        self._busy_at = monotonic()
        self._is_closed = self._is_down = False
        crawler.signals.connect(self._idle, signal=signals.spider_idle)
        crawler.signals.connect(self.close, signal=signals.spider_closed)

    def begin(self) -> None:
        """Start to poll, now that the spider is open."""
        deferred_from_coro(self._poll()).addErrback(
            lambda failure: logger.error("Start URLs: %s", failure.getTraceback())
        )

    def close(self) -> None:
        """Stop polling."""
        self._is_closed = True
        self._client.close()

    async def _poll(self) -> None:
        """Pop batch after batch, with a pause after an empty one."""
        while not self._is_closed:
            try:
                entries = await run_in_thread(self._pop)
                self._is_down = False
            except RedisError as error:
                entries = []
                if not self._is_down and not self._is_closed:
                    self._is_down = True
                    logger.warning("Start URLs cannot be read from Redis: %s.", error)
            spider, engine = self._crawler.spider, self._crawler.engine
            if self._is_closed or spider is None or engine is None:
                if entries:
                    lost = "%d start URLs arrived after the crawl had ended and are lost."
                    logger.error(lost, len(entries))
                return
            for entry in entries:
                self._busy_at = monotonic()
                for request in self._requests(spider, entry):
                    engine.crawl(request)
            await sleep(0 if entries else _POLL)

    def _pop(self) -> list[bytes]:
        """Take entries from the head of a list, the highest scores of a sorted set, or any set."""
        client, key, n = self._client, self._key, self._batch_size
        kind = client.type(key)
        if kind == b"zset":
            return [member for member, _ in client.zpopmax(key, n)]
        return list((client.spop if kind == b"set" else client.lpop)(key, n) or ())

    def _requests(self, spider: Spider, entry: bytes) -> Iterable[Request]:
        make = getattr(spider, "make_request_from_data", request_of)
        try:
            made = make(entry)
            return [made] if isinstance(made, Request) else list(made or ())
        except Exception as error:
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value("crawlprio/start_urls_not_read")
            logger.error("Invalid start URL %.200r: %s", entry, error)
            return []

    def _idle(self) -> None:
        idle = monotonic() - self._busy_at
        if self._max_idle == 0 or idle < self._max_idle:
            raise DontCloseSpider


def request_of(entry: bytes) -> Request:
    """Return the request for an entry, parsed as scrapy-redis 0.9 does.

    Raises ValueError or TypeError if it is invalid.
    """
    text = entry.decode()
    try:
        members: Any = json.loads(text)
    except ValueError:
        return Request(text.strip(), dont_filter=True)
    if not isinstance(members, Mapping) or not isinstance(members.get("url"), str):
        raise ValueError("the JSON is not an object with a url")
    form = dict(members)
    url, method, meta = form.pop("url"), form.pop("method", "GET"), form.pop("meta", {})
    return FormRequest(url, method=method.upper(), formdata=form, meta=meta, dont_filter=True)
