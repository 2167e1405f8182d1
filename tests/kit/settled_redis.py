"""A frontier in Redis for tests, with synchronous calls."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import Any

from redis import Redis
from scrapy.utils.test import get_crawler

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import Handout
from crawlprio.live.requests import Identities
from crawlprio.plugins.redis.connection import open_crawl
from crawlprio.plugins.redis.counts import pack_counts, read_counts
from crawlprio.plugins.redis.elected import Elected
from crawlprio.plugins.redis.frontier import RedisFrontier
from crawlprio.plugins.redis.rules import rules_of
from crawlprio.plugins.redis.scripts import load_scripts
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.settings_table.config import CrawlConfig

_NUMBERS = count()


class SettledRedis(RedisFrontier):
    """A frontier in Redis whose methods return after the server has answered.

    Parameters
    ----------
    client
        The server.
    crawl
        The crawl's name; by default a new one.
    truth
        Returns the PageRank of a URL.
    settings
        The crawl's settings, by name.
    """

    def __init__(
        self,
        client: Redis,
        crawl: str | None = None,
        lease_seconds: float = 60.0,
        n_shards: int = 1,
        truth: Callable[[str], float] | None = None,
        **settings: Any,
    ) -> None:
        self._answers: queue.Queue[Callable[[], object]] = queue.Queue()
        self._is_together = False
        crawler = get_crawler(settings_dict={**settings, "CRAWLPRIO_STORE": None})
        config = CrawlConfig.from_settings(crawler.settings)
        has_topic = config.topic is not None
        rules = rules_of(
            config.ordering, config.ordering_name, has_topic=has_topic, n_shards=n_shards
        )
        prefix = prefix_of(crawl or f"crawl {next(_NUMBERS)}")
        shards = open_crawl(
            client, prefix, config, rules, lease_seconds=lease_seconds, n_shards=n_shards
        )
        self.failures: list[CrawlprioError] = []
        self.elected: Elected | None = None
        if rules.is_elected:
            load_scripts(client)
            self.elected = Elected(client, prefix, config, lease_seconds=lease_seconds, truth=truth)
        super().__init__(
            client,
            shards,
            config,
            rules,
            lease_seconds=lease_seconds,
            call_from_thread=self._answers.put,
            identity_of=Identities(crawler).of_url,
            on_failure=self.failures.append,
            ahead=1,
            awaits_keys=rules.is_elected,
        )
        while not (self.failures or all(shard.session.is_alive for shard in self._all)):
            self._answers.get(timeout=120.0)()

    def settle(self) -> None:
        """Wait until all calls have been answered."""
        until = monotonic() + 120.0
        while self._n_pending and not self.failures:
            self._answers.get(timeout=max(until - monotonic(), 0.0))()
        if self.failures:
            raise self.failures[0]
        if self.elected is not None and (self.elected.is_elected or self.elected.claim()):
            while self.elected.step():
                pass

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send the calls made in this context in one batch, as a busy worker does."""
        self._gather(True)
        yield
        self._gather(False)
        self.settle()

    def _gather(self, is_together: bool) -> None:
        self._is_together = is_together
        for shard in self._all:
            shard.session._linger = 0.1 if is_together else 0.0

    def _call(self, shard: int, script: str, *arguments: Any, **how: Any) -> None:
        super()._call(shard, script, *arguments, **how)
        if not self._is_together:
            self.settle()

    def _ask(self, now: float) -> None:
        super()._ask(now)
        if not self._is_together:
            self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass on the server."""
        for prefix in self._shards.prefixes:
            counts = read_counts(self._client, prefix)
            counts["offset"] += seconds
            self._client.set(f"{prefix}:counts", pack_counts(counts))
        for shard in self._all:
            shard.session.time.forget()  # otherwise the scripts see through it

    def next_page(self, now: float) -> Handout | None:
        if now > monotonic():
            self.advance(now - monotonic())
        # The first question may only return the state of the shards, the second one pages.
        for _ in range(2 if len(self._all) == 1 else 4):
            found = super().next_page(now)
            if found is not None:
                return found
        return None
