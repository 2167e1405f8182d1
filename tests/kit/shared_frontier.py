"""A frontier in this process; and brains and hands, with messages as between processes."""

import json

from scrapy.utils.test import get_crawler

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.live.workers import Shard
from crawlprio.plugins.shared.brain import Brain, Hand
from crawlprio.plugins.shared.hand_frontier import HandFrontier
from crawlprio.plugins.shared.messages import read, written
from crawlprio.plugins.shared.shards import FACTS
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.web.urls import host_of


def local_frontier(settings, shard=None):
    """Return a frontier in this process that computes keys at once.

    It records nothing, unless a setting names a store.
    """
    crawler = get_crawler(settings_dict={"CRAWLPRIO_STORE": None, **settings})
    config = CrawlConfig.from_settings(crawler.settings)
    recorder = Recorder(config, Identities(crawler), shard=shard)
    frontier = LocalFrontier(config, recorder)
    frontier.queue.recompute = lambda work: frontier.queue.accept(work())
    recorder.open()
    return frontier


class SettledShared(HandFrontier):
    """A hand's frontier that waits for what each of its calls does, for tests of the answers."""

    def __init__(self, settings):
        super().__init__(lambda shard, statement: self._tell(statement))
        self.brain = Brain(local_frontier(settings))
        self.hand = Hand(self._hear)

    def next_page(self, now):
        handout = self.brain.frontier.next_page(now)
        if handout is not None:
            self.brain.lease(self.hand, handout)
        self._hear([self.brain.status(0)])
        return super().next_page(now)

    def _tell(self, statement):
        self.brain.received(self.hand, read(written([statement])))
        self._hear([self.brain.status(0)])

    def _hear(self, statements):
        for statement in read(written(statements)):
            self.received(0, statement)


class Shardwise:
    """The frontiers of all shards of a crawl; it always gets the page that ranks first in them.

    `links` returns the URLs that a page links to, or None if there is no such page. Stores are in
    subfolders of `folder`, if there is one.
    """

    def __init__(self, links, shards, ordering, folder=None):
        self.links, self.shards, self.ordering, self.folder = links, shards, ordering, folder
        self.each = [self._open(shard) for shard in range(len(shards))]
        self.order = []
        self.in_flight = []
        self.told = {}
        self.now = 0.0

    def _open(self, shard):
        settings = {
            **{"ORDERING": self.ordering, "DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS": 1},
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        }
        if self.folder is not None:
            settings |= {"CRAWLPRIO_STORE": "crawl.sqlite", "JOBDIR": str(self.folder / str(shard))}
        frontier = local_frontier(settings, Shard(self.shards.of, shard))
        if self.folder is not None:
            frontier._recorder.store.set_meta(FACTS, json.dumps({"shards": self.shards.facts()}))
        return frontier

    def seed(self, *urls):
        for url in urls:
            self.each[self.shards.of(host_of(url))].add_seeds([url])

    def fetch(self, n=float("inf"), *, delivers=True):
        """Fetch pages until there are `n` of them, or none waits."""
        while len(self.order) < n:
            self.now += 1.0
            heads = [(each.queue.head(self.now), -at) for at, each in enumerate(self.each)]
            best = max(((head, at) for head, at in heads if head is not None), default=None)
            if best is None:
                return
            frontier = self.each[-best[1]]
            handout = frontier.next_page(self.now)
            self.order.append(handout.url)
            found = self.links(handout.url)
            pairs = LinkPairs(handout.url, found or [], status=404 if found is None else 200)
            frontier.observe(handout.lease, PageVisit(pairs))
            self.in_flight += frontier.links_out
            frontier.links_out.clear()
            if delivers:
                self.deliver()

    def deliver(self):
        for shard, links in self.in_flight:
            self.each[shard].take_links(links)
            self.told[shard, host_of(links.url)] = links.site_visits + 1
        self.in_flight.clear()

    def close(self):
        for frontier in self.each:
            frontier.close()
            frontier._recorder.close()

    def reopen(self):
        self.close()
        self.each = [self._open(shard) for shard in range(len(self.shards))]
