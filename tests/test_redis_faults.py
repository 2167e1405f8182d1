"""Faults of brain, workers and Redis, judged by a server's log and the true graph alone."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest
from logged_web import LoggedWeb
from redis_servers import (
    ClusterOfServers,
    RedisServer,
    migrate_slot,
    require_redis,
    sentinel_of,
)
from shared_crawls import (
    DELAY,
    MOST_BETWEEN,
    N_RUNS,
    PATIENCE,
    InRedis,
    Proxy,
    crawl_in_redis,
    logged_web,
)

from crawlprio.plugins.shared.mailbox import Mailbox

web, crawl = logged_web, crawl_in_redis


def test_a_brain_that_is_killed_is_replaced_and_nothing_is_lost(crawl: InRedis) -> None:
    crawl.start(2, "-s", "SCHEDULER_PERSIST=False")
    for n_fetched in (15, 60, 100):
        crawl.wait_for_fetches(n_fetched)
        crawl.kill_brain()
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole()
    assert crawl.server.client().keys("*") == [], "the last brain knows that the crawl is over"
    assert min(crawl.web.rests()) >= DELAY


def test_workers_that_are_killed_lose_nothing(crawl: InRedis) -> None:
    rng = random.Random(3)
    crawl.start(2)
    for n_fetched in (15, 60, 100):
        crawl.wait_for_fetches(n_fetched)
        worker = rng.choice(crawl.alive())
        worker.kill()
        worker.wait()
        crawl.start()
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole(most_refetched=3 * crawl.web.n_sites)


def test_a_worker_that_is_stopped_beyond_its_term_comes_back(crawl: InRedis) -> None:
    crawl.start(2, "--delay", "0.6")  # the crawl must not be over when the worker comes back
    crawl.wait_for_fetches(30)
    stopped = crawl.alive()[0]
    stopped.send_signal(signal.SIGSTOP)
    sleep(1.5 * crawl.term)
    n_before = len(crawl.web.seen)
    stopped.send_signal(signal.SIGCONT)
    crawl.wait_for_fetches(min(n_before + 5, 150))
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole(most_refetched=crawl.web.n_sites)


def test_a_brain_that_is_stopped_beyond_its_term_is_ended_by_the_next(crawl: InRedis) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(30)
    stopped = crawl.kill_brain(signal.SIGSTOP)
    crawl.wait(lambda: crawl.brain() not in (None, stopped))
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole()


def test_a_server_that_is_killed_and_comes_back_loses_nothing(crawl: InRedis) -> None:
    crawl.start(2)
    for n_fetched in (30, 90):
        crawl.wait_for_fetches(n_fetched)
        n_noticed = crawl.said().count("Redis is unavailable")
        crawl.server.kill()
        crawl.wait(lambda n=n_noticed: crawl.said().count("Redis is unavailable") > n)  # type: ignore[misc]
        crawl.server.start()
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole()


def test_a_server_that_forgets_everything_loses_nothing(crawl: InRedis) -> None:
    """What hands have said and the brain has not heard, they say again."""
    crawl.start(2)
    crawl.wait_for_fetches(50)
    crawl.server.kill()
    for file in (crawl.folder / "redis" / "appendonlydir").iterdir():
        file.unlink()
    crawl.server.start()
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole()


def test_a_job_goes_on_though_brain_and_server_are_lost(crawl: InRedis) -> None:
    crawl.job = crawl.folder / "job"
    crawl.start()
    crawl.wait_for_fetches(50)
    brain = crawl.wait_for_brain()
    crawl.workers[0].kill()
    crawl.workers[0].wait()
    os.kill(brain, signal.SIGKILL)
    crawl.server.client().flushall()
    crawl.start(2)
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole(most_refetched=crawl.web.n_sites + 4)


def test_a_full_server_makes_a_crawl_wait(crawl: InRedis) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(30)
    with crawl.server.client() as client:
        client.config_set("maxmemory", "1mb")
        crawl.wait(lambda: crawl.said().count("Redis is unavailable") >= 2)
        client.config_set("maxmemory", "0")
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole()
    assert crawl.said().count("Redis is available again") >= 2


def test_a_server_that_hangs_makes_a_crawl_wait(crawl: InRedis) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(30)
    crawl.server.send(signal.SIGSTOP)
    sleep(1.5 * crawl.term)
    crawl.server.send(signal.SIGCONT)
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole(most_refetched=crawl.web.n_sites)


def test_a_cluster_moves_the_slot_of_a_crawl_whose_brain_is_killed(
    tmp_path: Path, web: LoggedWeb, redis_cluster: ClusterOfServers
) -> None:
    crawl = InRedis(tmp_path, web, server=redis_cluster)
    try:
        crawl.start(1, "--delay", "0.5")
        crawl.wait_for_fetches(30)
        web.latency = 5.0  # the crawl must not be over when the other worker comes

        def start_worker(n_moved: int) -> None:
            """Once some keys have moved, start another worker, and wait until it waits."""
            if n_moved and len(crawl.workers) == 1:
                crawl.start(1, "--delay", "0.5")
                crawl.wait(lambda: "Redis is unavailable" in crawl.said())

        assert migrate_slot(redis_cluster, crawl.mailbox.prefix, each=start_worker) >= 3
        web.latency = 0.01
        crawl.wait_for_fetches(80)
        crawl.kill_brain()
        assert set(crawl.end()) == {0}, crawl.said()
        crawl.check_whole()
    finally:
        crawl.stop()


def test_a_crawl_goes_on_with_the_replica_that_sentinels_promote(
    tmp_path: Path, web: LoggedWeb
) -> None:
    require_redis()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = RedisServer(tmp_path / "first")
    first.start()
    replica = ("--replicaof", "127.0.0.1", str(first.port), "--repl-diskless-sync-delay", "0")
    second = RedisServer(tmp_path / "second", *replica)
    second.start()
    crawl = InRedis(tmp_path, web, server=first)
    try:
        with sentinel_of(first, tmp_path) as address:
            crawl.start(2, url=f"redis+sentinel://{address}/crawls/0")
            crawl.wait_for_fetches(30)
            first.kill()
            crawl.mailbox = Mailbox(second.client(), "site")
            assert crawl.end() == [0, 0], crawl.said()
        crawl.check_whole()
        assert second.client().role()[0] in (b"master", "master")
    finally:
        crawl.stop()
        for server in (first, second):
            server.kill()


@pytest.mark.parametrize("is_healed", [False, True], ids=["for ever", "for a while"])
def test_a_running_brain_that_is_cut_off_from_redis_is_replaced(
    crawl: InRedis, is_healed: bool
) -> None:
    proxy = Proxy(crawl.server.port)
    crawl.start(1, brain="only", url=proxy.url)
    first = crawl.wait_for_brain()
    crawl.start(2)
    crawl.wait_for_fetches(30)
    proxy.cut()
    crawl.wait(lambda: crawl.brain() not in (first, None))
    if is_healed:
        proxy.is_cut = False
    assert crawl.end()[-2:] == [0, 0], crawl.said()
    crawl.check_whole()


def test_a_worker_that_is_cut_off_from_redis_fetches_nothing_of_what_it_loses(
    crawl: InRedis,
) -> None:
    proxy = Proxy(crawl.server.port)
    slow = "--delay", "0.6"  # the crawl must not be over when the worker comes back
    crawl.start(1, *slow)
    crawl.wait_for_brain()
    crawl.start(1, *slow, brain="never", url=proxy.url)
    crawl.wait(lambda: len(crawl.mailbox.client.keys("*:out:*")) == 2)
    crawl.wait_for_fetches(30)
    proxy.cut()
    sleep(1.5 * crawl.term)
    proxy.is_cut = False
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole(most_refetched=crawl.web.n_sites)


@pytest.mark.parametrize(("brain", "is_lost"), [("never", False), ("auto", False), ("auto", True)])
def test_a_worker_that_was_stopped_until_its_crawl_had_finished_says_so_and_ends(
    crawl: InRedis, brain: str, is_lost: bool
) -> None:
    forgets = "-s", "SCHEDULER_PERSIST=False"
    crawl.start(1, *forgets, brain="only")
    crawl.wait_for_brain()
    crawl.start(2, *forgets, brain=brain)
    crawl.wait(lambda: len(crawl.mailbox.client.keys("*:out:*")) == 2)
    crawl.wait_for_fetches(30)
    late = crawl.workers.pop()
    late.send_signal(signal.SIGSTOP)
    try:
        assert crawl.end() == [0, 0], crawl.said()
        if is_lost:
            crawl.server.client().flushall()
        late.send_signal(signal.SIGCONT)
        assert late.wait(PATIENCE) == int(is_lost), crawl.said()
    finally:
        late.kill()
    said = "is not in Redis any more" if is_lost else "has finished without this worker"
    assert crawl.said().count(said) == 1, crawl.said()
    crawl.check_whole(most_refetched=crawl.web.n_sites)
    assert not (crawl.folder / "crawls" / "site.1").exists(), "no other crawl has begun"
    if not is_lost:
        assert crawl.mailbox.client.keys("*") == []


@pytest.mark.parametrize("seed", range(N_RUNS))
def test_any_sequence_of_faults_loses_and_doubles_nothing(crawl: InRedis, seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    n_fetched, n_faults = 10, 0
    stopped: list[tuple[float, int]] = []
    crawl.start(3)
    while n_fetched < 0.9 * crawl.web.n_pages:
        crawl.wait(lambda n=n_fetched: len(crawl.web.seen) >= n or _wake(stopped))  # type: ignore[misc]
        n_faults += 1
        asleep = {number for _, number in stopped}
        awake = [worker for worker in crawl.alive() if worker.pid not in asleep]
        fault = rng.choice(["kill brain", "stop brain", "kill hand", "stop hand", "redis", "both"])
        brain = crawl.brain()
        print(fault, len(crawl.web.seen))
        if brain is not None and brain not in asleep and fault in ("kill brain", "both"):
            with suppress(ProcessLookupError):
                os.kill(brain, signal.SIGKILL)
        if brain is not None and brain not in asleep and fault == "stop brain":
            with suppress(ProcessLookupError):
                os.kill(brain, signal.SIGSTOP)
                stopped.append((monotonic() + rng.uniform(0.5, 2 * crawl.term), brain))
        if fault == "kill hand" and awake:
            worker = rng.choice(awake)
            worker.kill()
            worker.wait()
            crawl.start()
        if fault == "stop hand" and len(awake) > 1:
            number = rng.choice(awake).pid
            os.kill(number, signal.SIGSTOP)
            stopped.append((monotonic() + rng.uniform(0.5, 2 * crawl.term), number))
        if fault in ("redis", "both"):
            crawl.server.kill()
            sleep(rng.uniform(0, 2))
            crawl.server.start()
        n_fetched = len(crawl.web.seen) + rng.randrange(1, MOST_BETWEEN)
    crawl.wait(lambda: _wake(stopped) or not stopped)
    assert set(crawl.end()) == {0}, crawl.said()
    crawl.check_whole(most_refetched=n_faults * crawl.web.n_sites)


def _wake(stopped: list[tuple[float, int]]) -> bool:
    """Let processes go on whose time has come; always False."""
    for until, number in [*stopped]:
        if monotonic() >= until:
            stopped.remove((until, number))
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)
    return False
