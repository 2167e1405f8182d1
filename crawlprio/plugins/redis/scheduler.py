"""The scheduler of a worker on a shared frontier."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter

from crawlprio.errors import ConfigError
from crawlprio.live import engine
from crawlprio.live.request_json import from_json
from crawlprio.live.running import Callbacks, RunningCrawl
from crawlprio.measure.stored_crawl import ENOUGH_PAGES
from crawlprio.plugins.redis.connection import (
    Unavailable,
    check_server,
    connect,
    delete_crawl,
    open_crawl,
    share_seeds,
    shown_url,
    when_available,
)
from crawlprio.plugins.redis.elected import Elected, ElectedThread
from crawlprio.plugins.redis.failures import is_transient
from crawlprio.plugins.redis.frontier import RedisFrontier
from crawlprio.plugins.redis.moving import shared_options
from crawlprio.plugins.redis.operating import DrainWatch
from crawlprio.plugins.redis.rules import Rules, rules_of
from crawlprio.plugins.redis.scripts import Client, load_scripts
from crawlprio.plugins.redis.shards import Shards, prefix_of
from crawlprio.plugins.redis.start_urls import StartUrls
from crawlprio.schedulers import Scheduler
from crawlprio.settings_table.config import CrawlConfig, read_setting
from crawlprio.spiders.site import SiteSpider

if TYPE_CHECKING:
    from scrapy import Spider

_PAGES = "CRAWLPRIO_MAX_PAGES"

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

    def make_frontier(self, crawl: RunningCrawl) -> RedisFrontier:
        config, spider = crawl.config, self._spider
        assert spider is not None
        _check_supported(config)
        rules = rules_of(
            config.ordering,
            config.ordering_name,
            has_topic=config.topic is not None,
            n_shards=self._read("CRAWLPRIO_REDIS_SHARDS"),
        )
        prefix = prefix_of(self._read("CRAWLPRIO_REDIS_CRAWL") or spider.name)
        shared: dict[str, Any] = {
            "lease_seconds": self._read("CRAWLPRIO_LEASE_SECONDS"),
            "records": rules.is_elected or self._read("CRAWLPRIO_STORE") is not None,
            # A virtual web has no traps and is judged as a whole.
            "bounded": crawl.web is None,
        }
        client, shards = when_available(partial(self._join, prefix, config, rules, shared))
        crawl.share_seeds = partial(share_seeds, client, prefix)
        frontier = self._frontier(crawl, client, shards, rules, shared)

        def ends(reason: str) -> None:
            frontier.ends_crawl = reason == "finished"

        crawl.parts.add(Callbacks(closed=ends))
        key = self._read("REDIS_START_URLS_KEY")
        # Spiders of scrapy-redis read their own key.
        if key is not None and not hasattr(spider, "redis_key"):
            self._read_start_urls(crawl, key % {"name": spider.name})
        watch = DrainWatch(
            self._connect(), prefix, partial(engine.close_spider, self._crawler, "drained")
        )
        crawl.parts.add(Callbacks(closed=lambda reason: watch.close()))
        watch.start()
        if rules.is_elected:
            self._stand_for_election(crawl, frontier, prefix, shared["lease_seconds"])
        return frontier

    def _read(self, name: str) -> Any:
        return read_setting(self._crawler.settings, name)

    def _connect(self) -> Client:
        return connect(self._read("REDIS_URL"), self._read("REDIS_PARAMS"))

    def _join(
        self, prefix: str, config: CrawlConfig, rules: Rules, shared: dict[str, Any]
    ) -> tuple[Client, Shards]:
        """Connect, and begin the crawl or join it."""
        url = self._read("REDIS_URL")
        client = self._connect()
        check_server(client, url)
        try:
            if self._read("SCHEDULER_FLUSH_ON_START"):
                delete_crawl(client, prefix)
            shards = open_crawl(
                client,
                prefix,
                config,
                rules,
                n_shards=self._read("CRAWLPRIO_REDIS_SHARDS"),
                others=shared_options(self._crawler.settings),
                scope=_scope_of(self._spider),
                **shared,
            )
        except RedisError as error:
            refuse = Unavailable if is_transient(error) else ConfigError
            raise refuse(
                f"The frontier in Redis at {shown_url(url)} cannot be opened: "
                f"{str(error).rstrip('.')}."
            ) from None
        return client, shards

    def _frontier(
        self,
        crawl: RunningCrawl,
        client: Client,
        shards: Shards,
        rules: Rules,
        shared: dict[str, Any],
    ) -> RedisFrontier:
        """Return this worker's view of the crawl."""
        spider, stats, max_pages = self._spider, self._crawler.stats, self._read(_PAGES)
        assert spider is not None
        assert stats is not None
        if max_pages is not None and len(shards) > 1:
            raise ConfigError(
                f"{_PAGES} is {max_pages}, but CRAWLPRIO_REDIS_SHARDS is {len(shards)}, and shards "
                "are counted apart; use 1 shard, or leave the limit out."
            )
        return RedisFrontier(
            client,
            shards,
            crawl.config,
            rules,
            call_from_thread=_reactor().callFromThread,
            identity_of=crawl.identities.of_url,
            read_request=lambda request: from_json(request, spider),
            figures=crawl.recorder.figures,
            pages=crawl.recorder.pages,
            on_failure=crawl.fail,
            on_refused=lambda reason: stats.inc_value(f"crawlprio/refused/{reason}"),
            max_pages=max_pages,
            on_enough=partial(engine.close_spider, self._crawler, ENOUGH_PAGES),
            persists=self._read("SCHEDULER_PERSIST"),
            awaits_keys=rules.is_elected and crawl.config.concurrency == 1,
            **shared,
        )

    def _read_start_urls(self, crawl: RunningCrawl, key: str) -> None:
        """Read start URLs that others push to Redis."""
        kind = "list"
        if self._read("REDIS_START_URLS_AS_SET"):
            kind = "set"
        elif self._read("REDIS_START_URLS_AS_ZSET"):
            kind = "zset"
        urls = StartUrls(
            self._crawler,
            self._connect(),
            key,
            kind=kind,
            batch_size=self._read("REDIS_START_URLS_BATCH_SIZE") or crawl.config.concurrency or 16,
            max_idle=self._read("MAX_IDLE_TIME_BEFORE_CLOSE"),
        )
        crawl.parts.add(Callbacks(closed=lambda reason: urls.close()))

    def _stand_for_election(
        self, crawl: RunningCrawl, frontier: RedisFrontier, prefix: str, lease_seconds: float
    ) -> None:
        """Compute keys for all workers whenever no other worker does."""
        client = self._connect()
        load_scripts(client)
        thread = ElectedThread(
            Elected(
                client,
                prefix,
                crawl.config,
                lease_seconds=lease_seconds,
                truth=None if crawl.web is None else crawl.web.rank,
            ),
            call_from_thread=_reactor().callFromThread,
            on_keys_changed=frontier.keys_changed,
            on_failure=crawl.fail,
            poll_seconds=min(lease_seconds / 4, _MAX_POLL),
        )

        def stop(reason: str) -> None:
            thread.stop()
            client.close()

        crawl.parts.add(Callbacks(closed=stop))
        thread.start()

    def _warn_not_resumed(self) -> None:
        """Warn about nothing: the crawl is in Redis, whatever JOBDIR holds."""

    def dupefilter_class(self) -> type[BaseDupeFilter]:
        """Ignore scrapy-redis's dupefilter, since the frontier deduplicates."""
        found = super().dupefilter_class()
        return RFPDupeFilter if found.__module__.startswith("scrapy_redis.") else found


def _reactor() -> Any:
    from twisted.internet import reactor

    return reactor


def _check_supported(config: CrawlConfig) -> None:
    """Refuse settings that a frontier in Redis does not support."""
    if config.max_waiting is not None:
        raise ConfigError(
            "CRAWLPRIO_MAX_WAITING is set, which a frontier in Redis does not support; unset "
            "it, or set CRAWLPRIO_FRONTIER = 'local'."
        )
    for is_on, name, way in (
        (config.keeps_items, "CRAWLPRIO_ITEMS", "use a feed or a pipeline"),
        (config.keeps_bodies, "CRAWLPRIO_BODIES", "use CRAWLPRIO_WARC"),
        (config.novelty is not None, "CRAWLPRIO_NOVELTY", "unset it"),
    ):
        if is_on:
            raise ConfigError(
                f"{name} is on, which a frontier in Redis does not support; {way}, or set "
                "CRAWLPRIO_FRONTIER = 'local'."
            )


def _scope_of(spider: Any) -> dict[str, Any]:
    """Return what distinguishes this crawl from others of the same name.

    That is the arguments of the spider `site`. Of other spiders, whose start requests may differ
    between workers on purpose, only Scrapy's `allowed_domains`.
    """
    if isinstance(spider, SiteSpider):
        return spider.arguments
    domains = getattr(spider, "allowed_domains", None)
    return {"allowed_domains": sorted(map(str, domains)) if isinstance(domains, list) else None}
