"""Runs several workers, each a Scrapy process, on one demo web and one frontier in Redis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from crawls import ROOT, options, server_log
from redis_invariants import lease_of

from crawlprio.demo.process import LoopbackServer
from crawlprio.plugins.redis.connection import connect
from crawlprio.plugins.redis.scripts import Client
from crawlprio.plugins.redis.shards import prefix_of

_HANDLER = "crawlprio.demo.handler.LoopbackHandler"


class Workers:
    """A demo web and the workers that crawl it.

    Parameters
    ----------
    folder
        The folder for the logs of the web server and the workers.
    redis_url
        The server of the frontier.
    pages, sites
        The size of the web.
    settings
        Settings of all workers.
    """

    def __init__(
        self,
        folder: Path,
        redis_url: str,
        *,
        pages: int,
        sites: int,
        settings: Mapping[str, object] = {},
    ) -> None:
        self.folder = folder
        self.log = folder / "server.jsonl"
        self._web = LoopbackServer(pages=pages, sites=sites, seed=1, port=0, log=self.log)
        self._web.start()
        self._redis_url = redis_url
        self._settings = {
            "CRAWLPRIO_FRONTIER": "redis",
            "ORDERING": "opic",
            "REDIS_URL": redis_url,
            "DOWNLOAD_HANDLERS": {"http": _HANDLER, "https": _HANDLER},
            "CRAWLPRIO_LOOPBACK": self._web.address,
            "CRAWLPRIO_HEURISTICS": False,
            "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None,
            "CRAWLPRIO_PRIVATE_ADDRESSES": "allow",
            "CRAWLPRIO_COMPILE": False,
            "CRAWLPRIO_PRINT": False,
            "ROBOTSTXT_OBEY": False,
            "RETRY_ENABLED": False,
            "SCHEDULER_PERSIST": True,
            **settings,
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self._n_started = 0

    def start(self, n_workers: int = 1) -> None:
        """Start more workers."""
        (self.folder / "scrapy.cfg").write_text("[settings]\ndefault = crawlprio.settings\n")
        for _ in range(n_workers):
            self._n_started += 1
            log = self.folder / f"worker{self._n_started}.log"
            line = [sys.executable, "-m", "scrapy", "crawl", "site"]
            line += ["-a", f"seeds={','.join(self._web.seeds)}", "-a", "follow=web"]
            line += ["-a", r"deny=/calendar\?month=[1-9]"]  # an infinite calendar
            line += ["--logfile", str(log), *options(self._settings)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            self.processes.append(
                subprocess.Popen(
                    line,
                    cwd=self.folder,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )

    def n_fetched(self) -> int:
        """Return how many requests the web has answered so far."""
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def wait_for(self, n_fetches: int, seconds: float = 120.0) -> None:
        """Wait until the web has answered this many requests."""
        until = monotonic() + seconds
        while self.n_fetched() < n_fetches:
            assert monotonic() < until, self.last_lines()
            sleep(0.05)

    def wait_until_joined(self, n_workers: int, seconds: float = 120.0) -> None:
        """Wait until this many workers have opened the crawl."""
        until = monotonic() + seconds
        key = f"{prefix_of('site')}:workers"
        with connect(self._redis_url, {}) as client:
            while (n_joined := client.zcard(key)) < n_workers:
                assert monotonic() < until, f"{n_joined} workers joined\n{self.last_lines()}"
                sleep(0.05)

    def wait_until_logged(self, text: str, seconds: float = 120.0) -> None:
        """Wait until every worker has logged a text."""
        until = monotonic() + seconds
        while (n_logs := self.n_logs_with(text)) < self._n_started:
            assert monotonic() < until, f"{n_logs} logs say {text!r}\n{self.last_lines()}"
            sleep(0.05)

    def n_logs_with(self, text: str) -> int:
        """Return how many workers have logged a text."""
        return sum(text in log.read_text() for log in self.folder.glob("worker*.log"))

    def wait(self, seconds: float = 240.0) -> list[int]:
        """Wait for all workers that were not killed; return their exit statuses."""
        until = monotonic() + seconds
        try:
            return [process.wait(max(until - monotonic(), 0.1)) for process in self.processes]
        except subprocess.TimeoutExpired:
            raise AssertionError(self.last_lines()) from None

    def alive(self) -> list[int]:
        """Return the indices in `processes` of the workers that are running."""
        return [at for at, process in enumerate(self.processes) if process.poll() is None]

    def pause(self, at: int) -> None:
        """Stop a worker; it can only be killed afterwards."""
        self.processes[at].send_signal(signal.SIGSTOP)

    def kill_counting(self, client: Client, at: int) -> int:
        """Kill a worker; return how many pages it had leased, and so may be fetched again."""
        self.pause(at)
        n_leased = len(leased_by(client, self.processes[at].pid))
        self.kill(at)
        return n_leased

    def kill(self, at: int) -> None:
        """Kill a worker with SIGKILL and forget it."""
        process = self.processes.pop(at)
        process.kill()
        process.wait()

    def fetches(self) -> list[dict[str, Any]]:
        """Return all requests to the web, in order of arrival."""
        return server_log(self.log)

    def logs(self) -> str:
        """Return the logs of all workers."""
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("worker*.log")))

    def last_lines(self) -> str:
        return "\n".join(
            "\n".join(log.read_text().splitlines()[-8:])
            for log in sorted(self.folder.glob("worker*.log"))
        )

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._web.stop()


def leased_by(client: Client, pid: int, n_shards: int = 1) -> list[tuple[int, int]]:
    """Return the pages leased to a worker, each with its shard."""
    found = []
    for shard in range(n_shards):
        prefix = prefix_of("site", shard)
        for key in client.scan_iter(f"{prefix.replace('{', '[{]')}:worker:*"):
            name = client.hget(key, "name") or b""
            if name.endswith(b":%d" % pid):
                worker = key.rsplit(b":", 1)[1].decode()
                leases = client.hvals(f"{prefix}:leases:{worker}")
                found += [(shard, page) for page, _, _ in map(lease_of, leases) if page >= 0]
    return found


def smallest_gap(fetches: list[dict[str, Any]]) -> float:
    """Return the shortest time between two fetches on one site, from end to start, in seconds."""
    by_site = defaultdict(list)
    for fetch in fetches:
        by_site[fetch["url"].split("/")[2]].append(fetch)
    gaps = [
        after["start"] - before["end"]
        for site in by_site.values()
        for before, after in pairwise(site)
    ]
    return min(gaps)
