"""A frontier in this process; and a brain and one hand, with messages as between two processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scrapy.utils.test import get_crawler

from crawlprio.frontier.protocol import Handout
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.live.workers import Shard
from crawlprio.plugins.shared.brain import Brain, Hand
from crawlprio.plugins.shared.hand_frontier import HandFrontier
from crawlprio.plugins.shared.messages import Statement, read, written
from crawlprio.settings_table.config import CrawlConfig


def local_frontier(settings: Mapping[str, Any], shard: Shard | None = None) -> LocalFrontier:
    """Return a frontier in this process that records nothing, and computes keys at once."""
    crawler = get_crawler(settings_dict={**settings, "CRAWLPRIO_STORE": None})
    config = CrawlConfig.from_settings(crawler.settings)
    recorder = Recorder(config, Identities(crawler), shard=shard)
    frontier = LocalFrontier(config, recorder)
    frontier.queue.recompute = lambda work: frontier.queue.accept(work())
    return frontier


class SettledShared(HandFrontier):
    """A hand's frontier that waits for what each of its calls does, for tests of the answers."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(lambda shard, statement: self._tell(statement))
        self.brain = Brain(local_frontier(settings))
        self.hand = Hand(self._hear)

    def next_page(self, now: float) -> Handout | None:
        handout = self.brain.frontier.next_page(now)
        if handout is not None:
            self.brain.lease(self.hand, handout)
        self._hear([self.brain.status(0)])
        return super().next_page(now)

    def _tell(self, statement: Statement) -> None:
        self.brain.received(self.hand, read(written([statement])))
        self._hear([self.brain.status(0)])

    def _hear(self, statements: list[Statement]) -> None:
        for statement in read(written(statements)):
            self.received(0, statement)
