"""Crawls of a logged web by several processes, with and without Redis; judged by its log alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from crawls import ROOT
from forked import Forked
from logged_web import FORBIDDEN, LoggedWeb
from redis_servers import RedisServer, require_redis
from scrapy import Spider

from crawlprio.plugins.shared.collect import merge
from crawlprio.plugins.shared.mailbox import Mailbox

DELAY = 0.1
N_RUNS = int(os.environ.get("CRAWLPRIO_FAULT_RUNS", "1"))
"""Runs with random faults; `make shared-kills` does twenty."""

MOST_BETWEEN = 60 if N_RUNS == 1 else 40
"""Fetches between two random faults, at most."""

PATIENCE = 300.0
"""Seconds that anything may take on a busy machine."""


class SharedCrawl:
    """What any such crawl has: a web, a store in a folder, and processes that say something.

    Its brain loads no compiled code under `opic`, which takes most of the time of its start.
    """

    ordering = "opic"

    def __init__(self, folder: Path, web: LoggedWeb, term: float) -> None:
        self.folder, self.web, self.term = folder, web, term

    @property
    def store(self) -> Path:
        raise NotImplementedError

    def said(self) -> str:
        """Return all that its processes have said."""
        raise NotImplementedError

    def is_running(self) -> bool:
        raise NotImplementedError

    def wait(self, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
        until = monotonic() + seconds
        while not condition():
            assert monotonic() < until, self.said()
            sleep(0.01)

    def wait_for_fetches(self, n: int) -> None:
        self.wait(lambda: len(self.web.seen) >= n or not self.is_running())
        assert self.is_running(), self.said()

    def rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.store)) as db:
            return db.execute(query).fetchall()

    def visits(self) -> Counter[str]:
        query = "SELECT url FROM visits JOIN pages ON id = page WHERE status > 0"
        return Counter(url for (url,) in self.rows(query))

    def pairs(self) -> list[tuple[str, str]]:
        return self.rows("SELECT source_url, target_url FROM link_urls")

    def check_whole(self, *, most_refetched: int = 0) -> None:
        """Check that all was got and recorded, once, and nothing else, however the crawl went."""
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

    def options(self) -> tuple[str, ...]:
        return (
            *("--ordering", self.ordering, "--delay", str(DELAY)),
            *("-s", "CRAWLPRIO_PRIVATE_NETWORKS=127.0.0.0/8"),
            *("-s", f"CRAWLPRIO_LEASE_SECONDS={self.term}", "-s", "CRAWLPRIO_COMPILE=False"),
        )


class Run(SharedCrawl):
    """A crawl by `crawlprio crawl --workers`, in a job directory."""

    def __init__(
        self, folder: Path, web: LoggedWeb, *more: str, workers: int = 2, term: float = 4.0
    ) -> None:
        super().__init__(folder, web, term)
        shared = ("--workers", str(workers)) if workers else ()
        self.more: tuple[str, ...] = (*shared, *self.options(), *more)
        self.stderr = folder.with_suffix(".stderr")
        self.process: Forked | None = None

    def start(self) -> Run:
        if self.store.exists():
            what = ["resume", str(self.folder)]
        else:
            what = ["crawl", self.web.url(0), "--folder", str(self.folder), "--follow", "web"]
        words = [*what, *self.more]
        self.process = Forked("crawlprio", words, self.folder.parent, stdout=self.stderr)
        return self

    @property
    def store(self) -> Path:
        return self.folder / "crawl.sqlite"

    def said(self) -> str:
        return self.stderr.read_text()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def brain(self) -> int:
        assert self.process is not None
        return self.process.pid

    def hands(self) -> list[int]:
        """Return the process ids of the workers that live."""
        found = []
        for task in Path(f"/proc/{self.brain}/task").glob("*/children"):
            found += [int(number) for number in task.read_text().split()]
        return [hand for hand in found if is_alive(hand)]

    def end(self, seconds: float = PATIENCE) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class InRedis(SharedCrawl):
    """A crawl by workers that hear their brain through Redis, with a server of its own."""

    def __init__(
        self, folder: Path, web: LoggedWeb, *, server: Any = None, term: float = 4.0
    ) -> None:
        super().__init__(folder, web, term)
        self._owns_server = server is None
        if server is None:
            (folder / "redis").mkdir()
            server = RedisServer(folder / "redis", "--appendonly", "yes")
            server.start()
        self.server: Any = server
        self.workers: list[Forked] = []
        self.mailbox = Mailbox(self.server.client(), "site")
        self.job: Path | None = None
        self.cwd = folder

    def start(self, n: int = 1, *more: str, brain: str = "auto", url: str = "") -> None:
        """Start workers."""
        shared = {
            **{"CRAWLPRIO_FRONTIER": "redis", "CRAWLPRIO_BRAIN": brain, "LOG_LEVEL": "INFO"},
            **{"REDIS_URL": url or self.server.url, "SCHEDULER_PERSIST": True},
        }
        chosen = [word for name, value in shared.items() for word in ("-s", f"{name}={value}")]
        if self.job is not None:
            chosen += ["--folder", str(self.job)]
        line = ["crawl", self.web.url(0), "--follow", "web", "--at-once", "8"]
        for _ in range(n):
            self.run("crawlprio", [*line, *self.options(), *chosen, *more])

    def run(self, program: str | Path, words: Sequence[str] = ()) -> None:
        """Start a worker by a command line of its own."""
        log = self.folder / f"worker{len(self._logs()) + 1}.log"
        self.workers.append(Forked(program, words, self.cwd, stdout=log))

    def run_script(self, text: str) -> None:
        """Start a worker that runs a script."""
        file = self.folder / "script.py"
        file.write_text(text)
        self.run(file)

    @property
    def store(self) -> Path:
        return (self.job or self.folder / "crawls" / "site") / "crawl.sqlite"

    def _logs(self) -> list[Path]:
        return sorted(self.folder.glob("worker*.log"))

    def said(self) -> str:
        return "\n".join(log.read_text() for log in self._logs())

    def is_running(self) -> bool:
        return bool(self.alive())

    def brain(self) -> int | None:
        """Return the process id of the brain."""
        with suppress(Exception):
            name = self.mailbox.brain()
            return int(name.split()[-1]) if name.count(" ") else None
        return None

    def alive(self) -> list[Forked]:
        return [worker for worker in self.workers if worker.poll() is None]

    def wait_for_brain(self) -> int:
        self.wait(self.brain)
        found = self.brain()
        assert found is not None
        return found

    def kill_brain(self, number: signal.Signals = signal.SIGKILL) -> int:
        brain = self.wait_for_brain()
        os.kill(brain, number)
        return brain

    def end(self, seconds: float = PATIENCE) -> list[int]:
        """Wait until all workers and the brain have ended; return the statuses of those alive."""
        alive = self.alive()
        try:
            statuses = [worker.wait(seconds) for worker in alive]
        except subprocess.TimeoutExpired:
            raise AssertionError(self.said()) from None
        self.wait(lambda: not self.mailbox.brain())
        return statuses

    def stop(self) -> None:
        brain = self.brain()
        for worker in self.alive():
            worker.kill()
            worker.wait()
        if brain is not None:
            with suppress(ProcessLookupError):
                os.kill(brain, signal.SIGKILL)
        if self._owns_server:
            self.server.kill()


class InShards(InRedis):
    """A crawl with a brain for each of several shards; its store is collected once it has ended."""

    def __init__(self, folder: Path, web: LoggedWeb, n: int, **chosen: object) -> None:
        super().__init__(folder, web, **chosen)  # type: ignore[arg-type]
        self.n = n
        self.mailboxes = [Mailbox(self.mailbox.client, "site", shard) for shard in range(n)]

    def options(self) -> tuple[str, ...]:
        return (*super().options(), "-s", f"CRAWLPRIO_REDIS_SHARDS={self.n}")

    def store_of(self, shard: int) -> Path:
        return self.folder / "crawls" / "site" / str(shard) / "crawl.sqlite"

    @property
    def store(self) -> Path:
        path = self.folder / "whole.sqlite"
        if not path.exists():
            merge([self.store_of(shard) for shard in range(self.n)], path)
        return path

    def brains(self) -> list[int]:
        """Return the process ids of the brains."""
        found = []
        for mailbox in self.mailboxes:
            with suppress(Exception):
                name = mailbox.brain()
                if name.count(" "):
                    found.append(int(name.split()[-1]))
        return found

    def wait_for_brains(self) -> list[int]:
        self.wait(lambda: len(self.brains()) == self.n)
        return self.brains()

    def end(self, seconds: float = PATIENCE) -> list[int]:
        statuses = super().end(seconds)
        self.wait(lambda: not self.brains())
        return statuses

    def stop(self) -> None:
        for brain in self.brains():
            with suppress(ProcessLookupError):
                os.kill(brain, signal.SIGKILL)
        super().stop()


@pytest.fixture
def logged_web() -> Iterator[LoggedWeb]:
    with LoggedWeb(n_pages=160, n_sites=8) as served:
        yield served


@pytest.fixture
def crawl_in_redis(tmp_path: Path, web: LoggedWeb) -> Iterator[InRedis]:
    require_redis()
    shared = InRedis(tmp_path, web)
    yield shared
    shared.stop()


class Proxy:
    """Passes bytes on to a server, and cuts its clients off from it on demand."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[socket.socket] = []
        self.is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        self.is_cut = True
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while found := one.recv(65536):
                other.sendall(found)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def is_alive(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


_BRAIN = """
import sys, json
from scrapy import Spider
from scrapy.crawler import CrawlerProcess
from scrapy.utils.misc import load_object

path, name, settings = sys.argv[1:]
process = CrawlerProcess(json.loads(settings))
process.crawl(load_object(path) if path else type("Any", (Spider,), {"name": name}))
process.start()
"""


@contextmanager
def brain_of(
    folder: Path, spider: type[Spider] | str, settings: dict[str, Any]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the brain of a spider whose worker, with CRAWLPRIO_BRAIN `never`, is in this process.

    A spider whose requests have no callbacks of its own may be given by its name.
    """
    path = "" if isinstance(spider, str) else f"{spider.__module__}.{spider.__qualname__}"
    name = spider if isinstance(spider, str) else spider.name
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("", "tests", "tests/kit"))
    plain = {"DOWNLOAD_DELAY": 0, "CRAWLPRIO_PRINT": False, "CRAWLPRIO_COMPILE": False}
    chosen = json.dumps({**plain, **settings, "CRAWLPRIO_BRAIN": "only"})
    with open(folder / "brain.log", "ab") as log:
        line = [sys.executable, "-c", _BRAIN, path, name, chosen]
        environment = {**os.environ, "PYTHONPATH": paths}
        process = subprocess.Popen(line, stderr=log, cwd=folder, env=environment)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0, (folder / "brain.log").read_text()
    finally:
        process.kill()
        process.wait()
