"""Workers that are stopped for longer than their lease, and go on, judged by the web's own log."""

from __future__ import annotations

import os
import random
import signal
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

from redis_servers import RedisServer, require_redis
from redis_workers import Workers, leased_by

from crawlprio.plugins.redis.collect import collect
from crawlprio.plugins.redis.scripts import Client
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.store import Store

SEED = int(os.environ.get("CRAWLPRIO_KILLS_SEED", "20261122"))
N_CYCLES, N_WORKERS = 3, 3
N_PAGES, N_SITES, DELAY = 20_000, 400, 0.2
LEASE_SECONDS = 4
PREFIX = prefix_of("site")
HANDLER = "tests.kit.stopping_handler.StoppingHandler"
SETTINGS = {
    "DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER},
    "DOWNLOAD_DELAY": DELAY,
    "CONCURRENT_REQUESTS": 16,
    "CRAWLPRIO_LEASE_SECONDS": LEASE_SECONDS,
    "CRAWLPRIO_MAX_STATIC_DEPTH": None,
    "CRAWLPRIO_MAX_DYNAMIC_DEPTH": None,
    "LOG_LEVEL": "INFO",
}


def workers_known(client: Client) -> dict[str, str]:
    """Return the workers that the server has, as process id -> identifier."""
    found = {}
    for worker in client.zrange(f"{PREFIX}:workers", 0, -1):
        name = client.hget(f"{PREFIX}:worker:{worker.decode()}", "name") or b""
        found[name.decode().rpartition(":")[2]] = worker.decode()
    return found


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def wait_until(is_so: Callable[[], bool], workers: Workers, seconds: float = 120.0) -> None:
    until = monotonic() + seconds
    while not is_so():
        assert monotonic() < until, workers.last_lines()
        sleep(0.02)


def test_stopped_workers_that_go_on_fetch_nothing_of_what_they_have_lost(tmp_path: Path) -> None:
    require_redis()
    print("seed", SEED)
    rng = random.Random(SEED)
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    server.start()
    workers = Workers(tmp_path, server.url, pages=N_PAGES, sites=N_SITES, settings=SETTINGS)
    stopped_at: list[float] = []
    leased: list[list[int]] = []
    try:
        workers.start(N_WORKERS)
        workers.wait_until_joined(N_WORKERS)
        workers.wait_for(300)
        client = server.client()
        for cycle in range(N_CYCLES):
            process = workers.processes[rng.randrange(N_WORKERS)]
            workers.wait_for(workers.n_fetched() + rng.randrange(20))
            if cycle % 2 == 0:
                (tmp_path / f"stop-{process.pid}").touch()
            else:
                process.send_signal(signal.SIGSTOP)
            wait_until(lambda pid=process.pid: is_stopped(pid), workers)
            stopped_at.append(monotonic())
            leased.append([page for _, page in leased_by(client, process.pid)])
            name = str(process.pid)
            wait_until(lambda name=name: name not in workers_known(client), workers)
            # Others fetch what it had.
            workers.wait_for(workers.n_fetched() + 40)
            process.send_signal(signal.SIGCONT)
            wait_until(lambda name=name: name in workers_known(client), workers)
            workers.wait_for(workers.n_fetched() + 40)
        assert workers.alive() == list(range(N_WORKERS))
        workers.stop()
        fetches = workers.fetches()
        collect(client, PREFIX, tmp_path / "collected.sqlite")
        pages = Store.open(tmp_path / "collected.sqlite", readonly=True).load_pages()
    finally:
        workers.stop()
        server.kill()

    by_url, by_site = defaultdict(list), defaultdict(list)
    for fetch in sorted(fetches, key=lambda fetch: fetch["start"]):
        by_url[fetch["url"]].append(fetch["start"])
        by_site[fetch["url"].split("/")[2]].append((fetch["start"], fetch["end"]))
    gaps = [
        (site, after[0] - before[1])
        for site, times in by_site.items()
        for before, after in pairwise(times)
    ]
    again = {url: starts for url, starts in by_url.items() if len(starts) > 1}
    smallest = min(gap for _, gap in gaps)
    print(f"{len(by_url)} pages, {len(fetches)} fetches; smallest gap {smallest:.3f} s of {DELAY}")
    print(f"{len(again)} pages were in flight when their worker was stopped, and fetched again")
    assert [gap for gap in gaps if gap[1] < DELAY] == [], "short gaps and overlaps"
    # A request that was on its way when its worker was stopped cannot be called back, and what the
    # page answered is unknown to all. A stopped process sends nothing, so whatever the web logs
    # before the lease can have lapsed was sent before the stop.
    stops = defaultdict(list)
    for at, held in zip(stopped_at, leased, strict=True):
        for page in held:
            if page < len(pages):
                stops[pages.url(page)].append(at + LEASE_SECONDS / 2)
    twice = {
        url: starts
        for url, starts in again.items()
        for before, after in pairwise(starts)
        if not any(before <= lapsing < after for lapsing in stops[url])
    }
    assert twice == {}, "pages fetched twice"
