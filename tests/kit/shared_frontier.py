"""A frontier in this process; and coordinators and workers, with messages as between processes."""

from scrapy.utils.test import get_crawler

from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.plugins.shared.coordinator import Coordinator, Worker
from crawlprio.plugins.shared.messages import from_coordinator, from_worker, read, written
from crawlprio.plugins.shared.worker_frontier import WorkerFrontier
from crawlprio.settings_table.config import CrawlConfig


def local_frontier(settings):
    """Return a frontier in this process that computes keys at once.

    It records nothing, unless a setting names a store.
    """
    crawler = get_crawler(settings_dict={"CRAWLPRIO_STORE": None, **settings})
    config = CrawlConfig.from_settings(crawler.settings)
    recorder = Recorder(config, Identities(crawler))
    frontier = LocalFrontier(config, recorder)
    frontier.queue.recompute = lambda work: frontier.queue.accept(work())
    recorder.open()
    return frontier


def said(*statements):
    """Return statements as a coordinator gets them from a worker."""
    return read(written([*statements]), from_worker(lambda data: True))


def heard(*statements):
    """Return statements as a worker gets them from a coordinator."""
    return read(written([*statements]), from_coordinator(lambda data: True))


def say(coordinator, worker, *statements):
    """Let a coordinator carry out what a worker says."""
    for kind, *values in said(*statements):
        coordinator.handlers[kind](worker, *values)


class SettledShared(WorkerFrontier):
    """A worker's frontier that waits for what each of its calls does, for tests of the answers."""

    def __init__(self, settings):
        super().__init__(self._tell)
        self.coordinator = Coordinator(local_frontier(settings))
        self.worker = Worker(self._hear)

    def next_page(self, now):
        leased_page = self.coordinator.frontier.next_page(now)
        if leased_page is not None:
            self.coordinator.lease(self.worker, leased_page)
        self._hear([self.coordinator.status()])
        return super().next_page(now)

    def _tell(self, statement):
        say(self.coordinator, self.worker, statement)
        self._hear([self.coordinator.status()])

    def _hear(self, statements):
        for statement in heard(*statements):
            self.received(statement)
