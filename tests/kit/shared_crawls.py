"""Crawls of a logged web by several processes, with and without Redis; judged by its log alone."""

import os
import random
import signal
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from crawls import options
from forked import Forked, running
from logged_web import FORBIDDEN, LoggedWeb
from redis.exceptions import RedisError
from redis_servers import RedisServer
from scrapy import Spider
from stores import query
from waiting import MAX_SECONDS, until

from crawlprio.plugins.shared.redis_streams import RedisStreams

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

    Its coordinator loads no compiled code under `opic`, which takes most of the time of its start.
    `job` is its job directory, if that is named.
    """

    ordering = "opic"

    def __init__(self, folder, web, *, lease_timeout=4.0):
        self.folder, self.web, self.lease_timeout = folder, web, lease_timeout
        self.cwd = folder
        self.job = None
        self.rng = random.Random(3)
        self.started = []
        self._again = self.start

    @property
    def settings(self):
        return {
            "CRAWLPRIO_PRIVATE_NETWORKS": "127.0.0.0/8",
            "CRAWLPRIO_LEASE_SECONDS": self.lease_timeout,
            "CRAWLPRIO_COMPILE": False,
        }

    def _run(self, words, more, settings):
        policy = "--ordering", self.ordering, "--delay", str(DELAY)
        self.run("crawlprio", [*words, *policy, *options({**self.settings, **settings}), *more])

    def run(self, program, words=()):
        """Start a worker by a command line of its own."""
        log = self.folder / f"worker{len(self._logs()) + 1}.log"
        self.started.append(Forked(program, words, self.cwd, stdout=log))

    def _logs(self):
        return sorted(self.folder.glob("worker*.log"))

    def said(self):
        """Return all that its processes have said."""
        return "\n".join(log.read_text() for log in self._logs())

    def alive(self):
        return [worker for worker in self.started if worker.poll() is None]

    def workers(self):
        """Return the process ids of the workers that live."""
        return [worker.pid for worker in self.alive()]

    def wait_for_coordinators(self):
        self.wait(self.coordinators)
        return self.coordinators()

    def kill_coordinator(self, number=signal.SIGKILL):
        self.wait(self.coordinators)
        coordinator = self.rng.choice(self.coordinators())
        os.kill(coordinator, number)
        return coordinator

    def interrupt(self):
        for worker in self.alive():
            worker.send_signal(signal.SIGINT)

    def wait(self, condition):
        until(condition, said=self.said)

    def wait_for_fetches(self, n):
        self.wait(lambda: len(self.web.seen) >= n or not self.alive())
        assert self.alive(), self.said()

    def end(self, statuses=(0,)):
        """Wait until all workers and coordinators have ended, workers with one of some statuses."""
        self.wait(lambda: not self.alive())
        assert {worker.wait() for worker in self.started} <= {*statuses}, self.said()
        self.wait(lambda: not self.coordinators())

    def stop(self):
        for number in {*self.coordinators(), *self.workers()}:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for worker in self.started:
            worker.wait()

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
        """Start a coordinator with workers, or a crawl in one process if there are none."""
        self._again = partial(self.start, n, *more, **settings)
        words = ["crawl", self.web.url(0), "--folder", str(self.job), "--follow", "web"]
        if self.store.exists():
            words = ["resume", str(self.job)]
        workers = ["--workers", str(n)] if n else []
        self._run([*words, *workers], more, settings)

    def workers(self):
        found = [
            int(number)
            for coordinator in self.coordinators()
            for task in Path(f"/proc/{coordinator}/task").glob("*/children")
            for number in task.read_text().split()
        ]
        return [worker for worker in found if is_alive(worker)]

    def coordinators(self):
        """Return the process ids of the coordinators."""
        return [coordinator.pid for coordinator in self.alive()]

    def kill_coordinator(self, number=signal.SIGKILL):
        """Kill it, and resume its crawl once no worker is left."""
        workers = self.workers()
        coordinator = super().kill_coordinator(number)
        if number == signal.SIGKILL:
            self.started.pop().wait()
            self.wait(lambda: not any(map(is_alive, workers)))
            self._again()
        return coordinator

    def kill_worker(self, asleep=()):
        """Kill a worker that is not asleep; another takes its place."""
        self.wait(self.workers)
        os.kill(self.rng.choice([worker for worker in self.workers() if worker not in asleep]), 9)


class InRedis(SharedCrawl):
    """A crawl by workers that hear their coordinator through Redis, with a server of its own."""

    def __init__(self, folder, web, *, lease_timeout=4.0):
        super().__init__(folder, web, lease_timeout=lease_timeout)
        self._own_server = RedisServer(folder / "redis", "--appendonly", "yes")
        self._own_server.start()
        self.serve_by(self._own_server)

    def serve_by(self, server):
        """Hear the coordinator through a server that runs."""
        self.server, self.client = server, server.client()
        self.streams = RedisStreams(self.client, "site")

    @property
    def settings(self):
        return {
            **super().settings,
            "CRAWLPRIO_FRONTIER": "redis",
            "CRAWLPRIO_REDIS_CRAWL": "site",
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

    def coordinators(self):
        with suppress(RedisError):
            name = self.streams.coordinator()
            if " " in name and is_alive(int(name.split()[-1])):
                return [int(name.split()[-1])]
        return []

    def coordinator_hears(self):
        """Return the names of the workers to which the coordinator has said something."""
        keys = self.client.scan_iter(f"{self.streams.prefix}:out:*".replace("{", "[{]"))
        return [key.split(b":out:")[1] for key in keys]

    def kill_worker(self, asleep=()):
        worker = self.rng.choice([each for each in self.alive() if each.pid not in asleep])
        worker.kill()
        worker.wait()
        self.started.remove(worker)
        self._again()

    def stop(self):
        super().stop()
        self._own_server.kill()


KINDS = {"one machine": OnOneMachine, "redis": InRedis}


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
def coordinator_of(folder, name, settings, spider=Spider):
    """Run the coordinator of a spider whose worker, with CRAWLPRIO_COORDINATOR `never`, is in this
    process.

    The class matters only if its requests have callbacks of their own.
    """
    path = f"{spider.__module__}.{spider.__qualname__}"
    plain = {"DOWNLOAD_DELAY": 0, "CRAWLPRIO_PRINT": False, "CRAWLPRIO_COMPILE": False}
    script = _SCRIPT.format(
        "",
        settings={**plain, **settings, "CRAWLPRIO_COORDINATOR": "only"},
        spider=f"load_object({path!r})",
        arguments={"name": name},
    )
    with open(folder / "coordinator.log", "ab") as log:
        line = [sys.executable, "-c", script]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with running(line, folder, stderr=log, env=environment) as process:
            yield process
            # It ends of itself; a signal would kill it where its loop has ended and Python has not.
            assert process.wait(MAX_SECONDS) == 0, (folder / "coordinator.log").read_text()
