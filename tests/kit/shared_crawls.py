"""Crawls of a logged web by several processes, with and without Redis; judged by its log alone."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from crawls import options
from forked import Forked
from logged_web import FORBIDDEN, LoggedWeb
from redis.exceptions import RedisError
from redis_servers import RedisServer
from scrapy import Spider
from stores import query
from waiting import MAX_SECONDS, until

from crawlprio.plugins.shared.collect import merge
from crawlprio.plugins.shared.mailbox import Mailbox

DELAY = 0.1

_SCRIPT = """
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.utils.misc import load_object
{}

if __name__ == "__main__":
    process = CrawlerProcess({settings!r})
    process.crawl({spider}, **{arguments!r})
    process.start()
"""


class SharedCrawl:
    """The crawl `site` of a web, by processes that are given a folder to work in.

    Its brain loads no compiled code under `opic`, which takes most of the time of its start. `job`
    is its job directory, if that is named.
    """

    ordering = "opic"
    n_shards = 1

    def __init__(self, folder, web, *, term=4.0):
        self.folder, self.web, self.term = folder, web, term
        self.cwd = folder
        self.job = None
        self.rng = random.Random(3)
        self.workers = []
        self._again = self.start

    @property
    def settings(self):
        return {
            "CRAWLPRIO_PRIVATE_NETWORKS": "127.0.0.0/8",
            "CRAWLPRIO_LEASE_SECONDS": self.term,
            "CRAWLPRIO_COMPILE": False,
        }

    def _run(self, words, more, settings):
        policy = "--ordering", self.ordering, "--delay", str(DELAY)
        self.run("crawlprio", [*words, *policy, *options({**self.settings, **settings}), *more])

    def run(self, program, words=()):
        """Start a worker by a command line of its own."""
        log = self.folder / f"worker{len(self._logs()) + 1}.log"
        self.workers.append(Forked(program, words, self.cwd, stdout=log))

    def _logs(self):
        return sorted(self.folder.glob("worker*.log"))

    def said(self):
        """Return all that its processes have said."""
        return "\n".join(log.read_text() for log in self._logs())

    # Processes

    def alive(self):
        return [worker for worker in self.workers if worker.poll() is None]

    def hands(self):
        """Return the process ids of the workers that live."""
        return [worker.pid for worker in self.alive()]

    def wait_for_brains(self):
        self.wait(lambda: len(self.brains()) == self.n_shards)
        return self.brains()

    def kill_brain(self, number=signal.SIGKILL):
        self.wait(self.brains)
        brain = self.rng.choice(self.brains())
        os.kill(brain, number)
        return brain

    def interrupt(self):
        """Press Ctrl-C."""
        for worker in self.alive():
            worker.send_signal(signal.SIGINT)

    def wait(self, condition):
        until(condition, said=self.said)

    def wait_for_fetches(self, n):
        self.wait(lambda: len(self.web.seen) >= n or not self.alive())
        assert self.alive(), self.said()

    def end(self, statuses=(0,)):
        """Wait until all workers and brains have ended, workers with one of some statuses."""
        self.wait(lambda: not self.alive())
        assert {worker.wait() for worker in self.workers} <= {*statuses}, self.said()
        self.wait(lambda: not self.brains())

    def stop(self):
        """End all at once."""
        for number in {*self.brains(), *self.hands()}:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for worker in self.workers:
            worker.wait()

    # What came of it

    @property
    def store(self):
        return (self.job or self.folder / "crawls" / "site") / "crawl.sqlite"

    def rows(self, sql):
        return query(self.store, sql)

    def visits(self):
        sql = "SELECT url FROM visits JOIN pages ON id = page WHERE status > 0"
        return Counter(url for (url,) in self.rows(sql))

    def pairs(self):
        return self.rows("SELECT source_url, target_url FROM link_urls")

    def end_whole(self, *, most_refetched=0):
        """Check that all was got and recorded, once, and nothing else, however the crawl went."""
        self.end()
        web, everything = self.web, {self.web.url(page) for page in range(self.web.n_pages)}
        fetches = web.fetches()
        assert not [url for url in fetches if url.endswith(FORBIDDEN)]
        assert set(fetches) == everything
        assert fetches.total() - len(fetches) <= most_refetched
        assert self.visits() == dict.fromkeys(everything, 1)
        pairs = self.pairs()
        assert len(pairs) == len(set(pairs))
        assert set(pairs) == web.pairs()
        assert min(web.starts()) >= DELAY


class OnOneMachine(SharedCrawl):
    """A crawl by `crawlprio crawl --workers`."""

    def __init__(self, folder, web, name="job"):
        super().__init__(folder, web)
        self.job = folder / name

    def start(self, n=2, *more, **settings):
        """Start a brain with workers, or a crawl in one process if there are none."""
        self._again = partial(self.start, n, *more, **settings)
        words = ["crawl", self.web.url(0), "--folder", str(self.job), "--follow", "web"]
        if self.store.exists():
            words = ["resume", str(self.job)]
        workers = ["--workers", str(n)] if n else []
        self._run([*words, *workers], more, settings)

    def hands(self):
        found = [
            int(number)
            for brain in self.brains()
            for task in Path(f"/proc/{brain}/task").glob("*/children")
            for number in task.read_text().split()
        ]
        return [hand for hand in found if is_alive(hand)]

    def brains(self):
        """Return the process ids of the brains."""
        return [brain.pid for brain in self.alive()]

    def kill_brain(self, number=signal.SIGKILL):
        """Kill it, and resume its crawl once no worker is left."""
        hands = self.hands()
        brain = super().kill_brain(number)
        if number == signal.SIGKILL:
            self.workers.pop().wait()
            self.wait(lambda: not any(map(is_alive, hands)))
            self._again()
        return brain

    def kill_hand(self, asleep=()):
        """Kill a worker that is not asleep; another takes its place."""
        self.wait(self.hands)
        os.kill(self.rng.choice([hand for hand in self.hands() if hand not in asleep]), 9)


class InRedis(SharedCrawl):
    """A crawl by workers that hear their brains through Redis, with a server of its own."""

    def __init__(self, folder, web, *, n_shards=1, term=4.0):
        super().__init__(folder, web, term=term)
        self.n_shards = n_shards
        self._own_server = RedisServer(folder / "redis", "--appendonly", "yes")
        self._own_server.start()
        self.serve_by(self._own_server)

    def serve_by(self, server):
        """Hear brains through a server that runs."""
        self.server, self.client = server, server.client()
        self.mailboxes = Mailbox(self.client, "site").of_shards(self.n_shards)

    @property
    def settings(self):
        return {
            **super().settings,
            "CRAWLPRIO_FRONTIER": "redis",
            "CRAWLPRIO_REDIS_CRAWL": "site",
            "CRAWLPRIO_REDIS_SHARDS": self.n_shards,
            "LOG_LEVEL": "INFO",
            "REDIS_URL": self.server.url,
            "SCHEDULER_PERSIST": True,
        }

    def start(self, n=2, *more, **settings):
        self._again = partial(self.start, 1, *more, **settings)
        job = ["--folder", str(self.job)] if self.job else []
        for _ in range(n):
            self._run(["crawl", self.web.url(0), "--follow", "web", *job], more, settings)

    def run_spider(self, spider, n=1, *urls, **settings):
        """Start workers with the spider that some code, which need not import Scrapy, defines."""
        name = spider.rpartition("class ")[2].partition("(")[0]
        start = {"start_urls": [*urls] or [self.web.url(0)]}
        every = {"ADDONS": {"crawlprio.Addon": 500}, **self.settings, **settings}
        file = self.folder / "script.py"
        file.write_text(_SCRIPT.format(spider, settings=every, spider=name, arguments=start))
        for _ in range(n):
            self.run(file)

    def brains(self):
        with suppress(RedisError):
            names = self.mailboxes[0].brains(self.n_shards)
            found = [int(name.split()[-1]) for name in names if " " in name]
            return [brain for brain in found if is_alive(brain)]
        return []

    def kill_hand(self, asleep=()):
        worker = self.rng.choice([each for each in self.alive() if each.pid not in asleep])
        worker.kill()
        worker.wait()
        self.workers.remove(worker)
        self._again()

    def stop(self):
        super().stop()
        self._own_server.kill()

    def store_of(self, shard):
        return self.folder / "crawls" / "site" / str(shard) / "crawl.sqlite"

    @property
    def store(self):
        """The store of the crawl; of shards, what is collected now."""
        if self.n_shards == 1:
            return super().store
        path = self.folder / "whole.sqlite"
        path.unlink(missing_ok=True)
        merge([self.store_of(shard) for shard in range(self.n_shards)], path)
        return path


KINDS = {
    "one machine": OnOneMachine,
    "redis": InRedis,
    "shards": partial(InRedis, n_shards=3, term=6.0),
}


@pytest.fixture
def shared_crawl(request, tmp_path):
    """A crawl in Redis, or of another of `KINDS` by an indirect parameter."""
    with LoggedWeb(n_pages=160, n_sites=8) as web:
        crawl = KINDS[getattr(request, "param", "redis")](tmp_path, web)
        yield crawl
        crawl.stop()


def is_alive(number):
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@contextmanager
def brain_of(folder, name, settings, spider=Spider):
    """Run the brain of a spider whose worker, with CRAWLPRIO_BRAIN `never`, is in this process.

    The class matters only if its requests have callbacks of their own.
    """
    path = f"{spider.__module__}.{spider.__qualname__}"
    plain = {"DOWNLOAD_DELAY": 0, "CRAWLPRIO_PRINT": False, "CRAWLPRIO_COMPILE": False}
    script = _SCRIPT.format(
        "",
        settings={**plain, **settings, "CRAWLPRIO_BRAIN": "only"},
        spider=f"load_object({path!r})",
        arguments={"name": name},
    )
    with open(folder / "brain.log", "ab") as log:
        line = [sys.executable, "-c", script]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(line, stderr=log, cwd=folder, env=environment)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(MAX_SECONDS) == 0, (folder / "brain.log").read_text()
    finally:
        process.kill()
        process.wait()
