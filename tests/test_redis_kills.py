"""Workers that are killed every few seconds lose no page, delay or link pair.

By default on a small web; `make redis-kills` uses 20,000 pages and kills every ten seconds. It
prints the figures given in docs/distributed.md.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

import pytest
from redis_servers import RedisServer, require_redis
from redis_workers import Workers, leased_by, smallest_gap

from crawlprio.demo.web import DemoWeb
from crawlprio.plugins.redis.collect import collect
from crawlprio.plugins.redis.collector import ids_by_shard
from crawlprio.plugins.redis.shards import prefix_of, shards_of
from crawlprio.store import Store

N_PAGES = int(os.environ.get("CRAWLPRIO_REDIS_KILL_PAGES", "300"))
N_SITES = max(N_PAGES // 100, 40)
IS_LARGE = N_PAGES > 5_000
KILL_SECONDS = 10.0 if IS_LARGE else 6.0
DELAY, N_WORKERS, IN_FLIGHT = 0.1 if IS_LARGE else 0.3, 4 if IS_LARGE else 2, 16
SEED = int(os.environ.get("CRAWLPRIO_KILLS_SEED", "20261122"))
PREFIX = prefix_of("site")


@pytest.mark.parametrize("n_shards", [1, 4], ids=["one-shard", "four-shards"])
def test_workers_killed_in_turn_fetch_every_page_and_record_each_link_once(
    n_shards: int,
    tmp_path: Path,
) -> None:
    require_redis()
    print("seed", SEED)
    rng = random.Random(SEED)
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    server.start()
    settings = {
        "DOWNLOAD_DELAY": DELAY,
        "CONCURRENT_REQUESTS": IN_FLIGHT,
        "CRAWLPRIO_LEASE_SECONDS": 5,
        "CRAWLPRIO_REDIS_SHARDS": n_shards,
        "CRAWLPRIO_MAX_STATIC_DEPTH": None,
        "CRAWLPRIO_MAX_DYNAMIC_DEPTH": None,
        "LOG_LEVEL": "INFO",
    }
    workers = Workers(tmp_path, server.url, pages=N_PAGES, sites=N_SITES, settings=settings)
    leased: list[list[tuple[int, int]]] = []
    try:
        started = monotonic()
        workers.start(N_WORKERS)
        workers.wait_for(N_PAGES // 20)
        while True:
            until = monotonic() + KILL_SECONDS
            while monotonic() < until and len(workers.alive()) == N_WORKERS:
                sleep(0.1)
            if len(workers.alive()) < N_WORKERS:
                break  # a worker ended because nothing was left to fetch
            chosen = rng.randrange(N_WORKERS)
            workers.pause(chosen)
            with server.client() as client:
                leased.append(leased_by(client, workers.processes[chosen].pid, n_shards))
            workers.kill(chosen)
            workers.start()
        seconds = monotonic() - started
        assert workers.wait() == [0] * N_WORKERS
        store = tmp_path / "collected.sqlite"
        shards = shards_of(server.client(), PREFIX)
        collected = collect(server.client(), PREFIX, store)
        fetches = workers.fetches()
    finally:
        workers.stop()
        server.kill()

    times = Counter(fetch["url"] for fetch in fetches)
    with sqlite3.connect(store) as db:
        ids = dict(db.execute("SELECT url, id FROM pages"))
        visited = [page for (page,) in db.execute("SELECT page FROM visits WHERE page >= 0")]
        found = db.execute(
            "SELECT sources.url, targets.url FROM links "
            "JOIN pages AS sources ON sources.id = links.source "
            "JOIN pages AS targets ON targets.id = links.target"
        ).fetchall()
    again = {ids[url]: n - 1 for url, n in times.items() if n > 1}
    print(
        f"{len(times):,} pages, {len(fetches):,} fetches, {len(leased)} kills in {seconds:.0f} s; "
        f"{sum(map(len, leased))} leases ended with their workers, {len(again)} pages were fetched "
        f"again; the smallest gap on a site is {1000 * smallest_gap(fetches):.1f} ms of a delay of "
        f"{1000 * DELAY:.0f}; {len(found):,} link pairs"
    )
    assert leased
    assert len(times) == N_PAGES
    with Store.open(store, readonly=True) as opened:
        page_ids = ids_by_shard(opened.load_pages(), shards)
    n_leased = Counter(page_ids[shard][page] for pages in leased for shard, page in pages)
    assert all(n <= n_leased[page] for page, n in again.items()), "only leased pages"
    assert smallest_gap(fetches) >= DELAY
    assert Counter(visited) == Counter(ids[url] for url in times), "each page is recorded once"
    assert collected.n_visits == N_PAGES
    web = DemoWeb(N_PAGES, N_SITES, seed=1)
    known = set(web.urls())
    expected = Counter(
        (web.url(page), web.url(int(target)))
        for page in range(N_PAGES)
        for target in web.indices[web.indptr[page] : web.indptr[page + 1]]
    )
    assert Counter(pair for pair in found if pair[1] in known) == expected
