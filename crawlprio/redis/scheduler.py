"""The scheduler of a worker whose frontier is in Redis."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from redis.exceptions import RedisError
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

from crawlprio.config import read_setting
from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live import engine
from crawlprio.live.crawl import Crawl
from crawlprio.live.request_json import from_json
from crawlprio.redis.connection import (
    check_server,
    connect,
    delete_crawl,
    open_crawl,
)
from crawlprio.redis.elected import Elected, ElectedThread
from crawlprio.redis.frontier import RedisFrontier
from crawlprio.redis.moving import alike
from crawlprio.redis.operating import DrainWatch
from crawlprio.redis.rules import rules_of
from crawlprio.redis.session import load_scripts
from crawlprio.redis.shards import prefix_of
from crawlprio.redis.start_urls import StartUrls
from crawlprio.schedulers import Scheduler

if TYPE_CHECKING:
    from scrapy import Spider

_MOST_POLL = 1.0
"""Seconds between two questions of a worker whether the elected one is gone, at most."""


class RedisScheduler(Scheduler):
    """crawlprio's scheduler over one frontier in Redis, which any number of workers share.

    `CRAWLPRIO_FRONTIER = "redis"` brings it under the add-on, or set it as `SCHEDULER`. REDIS_URL,
    REDIS_PARAMS, SCHEDULER_PERSIST and SCHEDULER_FLUSH_ON_START mean what they mean to
    scrapy-redis.

    A worker ends when nothing waits and no worker has anything leased.
    """

    def open(self, spider: Spider) -> None:
        crawl = self._crawl
        try:
            if crawl.failure is None:
                # A store of its own would know this worker's visits alone.
                crawl.record_elsewhere()
        except CrawlprioError as error:
            crawl.refuse(error)
        super().open(spider)
        if self.dispatcher is not None:
            # What comes to the engine from outside, as from `<spider>:start_urls`, is a seed.
            self.dispatcher.takes_seeds = True

    def make_frontier(self, crawl: Crawl) -> RedisFrontier:
        from twisted.internet import reactor

        running: Any = reactor
        read = partial(read_setting, self._crawler.settings)
        config = crawl.config
        if config.max_waiting is not None:
            raise ConfigError(
                "CRAWLPRIO_MAX_WAITING is set, which a frontier in Redis cannot keep yet; unset "
                "it, or set CRAWLPRIO_FRONTIER = 'local'."
            )
        if config.keeps_items:
            raise ConfigError(
                "CRAWLPRIO_ITEMS is on, and a frontier in Redis keeps no items yet; use a feed or "
                "a pipeline, or set CRAWLPRIO_FRONTIER = 'local'."
            )
        n_shards = read("CRAWLPRIO_REDIS_SHARDS")
        rules = rules_of(
            config.ordering,
            config.ordering_name,
            has_topic=config.topic is not None,
            n_shards=n_shards,
        )
        url = read("REDIS_URL")
        client = connect(url, read("REDIS_PARAMS"))
        check_server(client, _without_password(url))
        assert self._spider is not None
        spider = self._spider
        prefix = prefix_of(read("CRAWLPRIO_REDIS_CRAWL") or spider.name)
        shared: dict[str, Any] = {
            "lease_seconds": read("CRAWLPRIO_LEASE_SECONDS"),
            "records": rules.is_elected or read("CRAWLPRIO_STORE") is not None,
            # A web that is wholly known has no traps, and is judged as a whole.
            "bounded": crawl.web is None,
        }
        try:
            if read("SCHEDULER_FLUSH_ON_START"):
                delete_crawl(client, prefix)
            shards = open_crawl(
                client,
                prefix,
                config,
                rules,
                n_shards=n_shards,
                others=alike(self._crawler.settings),
                **shared,
            )
        except RedisError as error:
            raise ConfigError(
                f"The frontier in Redis at {_without_password(url)} cannot be opened: {error}."
            ) from None
        stats = self._crawler.stats
        assert stats is not None
        frontier = RedisFrontier(
            client,
            shards,
            config,
            rules,
            deliver=running.callFromThread,
            identity_of=crawl.identities.of_url,
            read_request=lambda request: from_json(request, spider),
            figures=crawl.recorder.figures,
            pages=crawl.recorder.pages,
            failed=crawl.fail,
            refused=lambda reason: stats.inc_value(f"crawlprio/refused/{reason}"),
            persists=read("SCHEDULER_PERSIST"),
            awaits_keys=rules.is_elected and config.concurrency == 1,
            **shared,
        )
        key = read("REDIS_START_URLS_KEY")
        # A spider of scrapy-redis reads them itself.
        if key is not None and not hasattr(spider, "redis_key"):
            self._read_start_urls(crawl, key % {"name": spider.name})
        watch = DrainWatch(
            connect(url, read("REDIS_PARAMS")),
            prefix,
            partial(engine.close_spider, self._crawler, "drained"),
        )
        crawl.on_close(lambda reason: watch.close())
        watch.start()
        if rules.is_elected:
            self._stand_for_election(crawl, frontier, prefix, shared["lease_seconds"])
        return frontier

    def _read_start_urls(self, crawl: Crawl, key: str) -> None:
        """Take start URLs that others push to Redis."""
        read = partial(read_setting, self._crawler.settings)
        kind = "list"
        if read("REDIS_START_URLS_AS_SET"):
            kind = "set"
        elif read("REDIS_START_URLS_AS_ZSET"):
            kind = "zset"
        urls = StartUrls(
            self._crawler,
            connect(read("REDIS_URL"), read("REDIS_PARAMS")),
            key,
            kind=kind,
            batch_size=read("REDIS_START_URLS_BATCH_SIZE") or crawl.config.concurrency or 16,
            max_idle=read("MAX_IDLE_TIME_BEFORE_CLOSE"),
        )
        crawl.on_close(lambda reason: urls.close())

    def _stand_for_election(
        self, crawl: Crawl, frontier: RedisFrontier, prefix: str, lease_seconds: float
    ) -> None:
        """Have this worker compute keys for all, if no other does."""
        from twisted.internet import reactor

        running: Any = reactor
        read = partial(read_setting, self._crawler.settings)
        client = connect(read("REDIS_URL"), read("REDIS_PARAMS"))
        load_scripts(client)
        thread = ElectedThread(
            Elected(
                client,
                prefix,
                crawl.config,
                lease_seconds=lease_seconds,
                truth=None if crawl.web is None else crawl.web.rank,
            ),
            deliver=running.callFromThread,
            keys_changed=frontier.keys_changed,
            failed=crawl.fail,
            poll_seconds=min(lease_seconds / 4, _MOST_POLL),
        )

        def stop(reason: str) -> None:
            thread.stop()
            client.close()

        crawl.on_close(stop)
        thread.start()

    def dupefilter_class(self) -> type[BaseDupeFilter]:
        """That of scrapy-redis is passed over, as the frontier knows what was seen."""
        found = super().dupefilter_class()
        return RFPDupeFilter if found.__module__.startswith("scrapy_redis.") else found

    def close(self, reason: str) -> None:
        super().close(reason)
        frontier = self._crawl.frontier
        if isinstance(frontier, RedisFrontier):
            frontier.ends_crawl = reason == "finished"


def _without_password(url: str) -> str:
    """A server's URL as a message may show it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
