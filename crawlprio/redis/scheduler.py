"""The scheduler of a worker on a shared frontier."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from redis.exceptions import RedisError
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

from crawlprio.config import read_setting
from crawlprio.errors import ConfigError
from crawlprio.live import engine
from crawlprio.live.crawl import Crawl
from crawlprio.live.request_json import from_json
from crawlprio.redis.connection import (
    check_server,
    connect,
    delete_crawl,
    open_crawl,
    share_seeds,
)
from crawlprio.redis.elected import Elected, ElectedThread
from crawlprio.redis.frontier import RedisFrontier
from crawlprio.redis.moving import shared_options
from crawlprio.redis.operating import DrainWatch
from crawlprio.redis.rules import rules_of
from crawlprio.redis.scripts import load_scripts
from crawlprio.redis.shards import prefix_of
from crawlprio.redis.start_urls import StartUrls
from crawlprio.schedulers import Scheduler

if TYPE_CHECKING:
    from scrapy import Spider

_MAX_POLL = 1.0
"""The longest time, in seconds, between two attempts to become the elected worker."""


class RedisScheduler(Scheduler):
    """crawlprio's scheduler on a frontier in Redis that any number of workers share.

    `CRAWLPRIO_FRONTIER = "redis"` selects it under the add-on; alternatively, set it as
    `SCHEDULER`. REDIS_URL, REDIS_PARAMS, SCHEDULER_PERSIST and SCHEDULER_FLUSH_ON_START have the
    meaning that scrapy-redis gives them.

    A worker ends once nothing is waiting and no worker holds a lease.
    """

    def open(self, spider: Spider) -> None:
        # A local store would hold only this worker's visits.
        self._crawl.record_elsewhere()
        super().open(spider)
        if self.dispatcher is not None:
            # Requests from outside the crawl, such as `<spider>:start_urls`, are seeds.
            self.dispatcher.takes_seeds = True

    def make_frontier(self, crawl: Crawl) -> RedisFrontier:
        from twisted.internet import reactor

        running: Any = reactor
        read = partial(read_setting, self._crawler.settings)
        config = crawl.config
        if config.max_waiting is not None:
            raise ConfigError(
                "CRAWLPRIO_MAX_WAITING is set, which a frontier in Redis does not support; unset "
                "it, or set CRAWLPRIO_FRONTIER = 'local'."
            )
        if config.keeps_items:
            raise ConfigError(
                "CRAWLPRIO_ITEMS is on, which a frontier in Redis does not support; use a feed or "
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
            # A virtual web has no traps and is judged as a whole.
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
                others=shared_options(self._crawler.settings),
                **shared,
            )
        except RedisError as error:
            raise ConfigError(
                f"The frontier in Redis at {_without_password(url)} cannot be opened: {error}."
            ) from None
        crawl.share_seeds = partial(share_seeds, client, prefix)
        stats = self._crawler.stats
        assert stats is not None
        frontier = RedisFrontier(
            client,
            shards,
            config,
            rules,
            call_from_thread=running.callFromThread,
            identity_of=crawl.identities.of_url,
            read_request=lambda request: from_json(request, spider),
            figures=crawl.recorder.figures,
            pages=crawl.recorder.pages,
            on_failure=crawl.fail,
            on_refused=lambda reason: stats.inc_value(f"crawlprio/refused/{reason}"),
            persists=read("SCHEDULER_PERSIST"),
            awaits_keys=rules.is_elected and config.concurrency == 1,
            **shared,
        )

        def ends(reason: str) -> None:
            frontier.ends_crawl = reason == "finished"

        crawl.on_close(ends)
        key = read("REDIS_START_URLS_KEY")
        # Spiders of scrapy-redis read their own key.
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
        """Read start URLs that others push to Redis."""
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
        """Compute keys for all workers whenever no other worker does."""
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
            call_from_thread=running.callFromThread,
            on_keys_changed=frontier.keys_changed,
            on_failure=crawl.fail,
            poll_seconds=min(lease_seconds / 4, _MAX_POLL),
        )

        def stop(reason: str) -> None:
            thread.stop()
            client.close()

        crawl.on_close(stop)
        thread.start()

    def dupefilter_class(self) -> type[BaseDupeFilter]:
        """Ignore scrapy-redis's dupefilter, since the frontier deduplicates."""
        found = super().dupefilter_class()
        return RFPDupeFilter if found.__module__.startswith("scrapy_redis.") else found


def _without_password(url: str) -> str:
    """Return a URL without credentials, for messages."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
