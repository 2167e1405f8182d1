"""Faults of coordinator, workers and Redis, judged by a server's log and the true graph alone.

Those that random sequences also have, and workers and coordinators that are killed:
test_workers.py.
"""

import os
import signal
import socket
import threading
from contextlib import suppress
from select import select
from socketserver import BaseRequestHandler, ThreadingTCPServer
from time import sleep

import pytest
from redis_servers import RedisServer, migrate_slot, sentinel_of
from shared_crawls import shared_crawl

crawl = shared_crawl


def test_a_server_that_is_killed_forgets_everything_is_full_or_hangs_makes_a_crawl_wait(crawl):
    """What hands have said and the coordinator has not heard, they say again."""

    def wait_for(message, n_before):
        crawl.wait(lambda: crawl.said().count(message) > n_before)

    gone, again = "Redis is unavailable", "Redis is available again"
    crawl.start()
    for n_fetched, fault in ((30, "killed"), (60, "forgets"), (90, "full")):
        crawl.wait_for_fetches(n_fetched)
        n_gone, n_again = crawl.said().count(gone), crawl.said().count(again)
        if fault == "full":
            crawl.client.config_set("maxmemory", "1mb")
            wait_for(gone, n_gone + 1)
            crawl.client.config_set("maxmemory", "0")
        else:
            crawl.server.kill()
            wait_for(gone, n_gone)
            for file in (crawl.server.folder / "appendonlydir").iterdir():
                if fault == "forgets":
                    file.unlink()
            crawl.server.start()
        wait_for(again, n_again)
    crawl.wait_for_fetches(120)
    assert max(crawl.web.fetches().values()) == 1
    crawl.server.send(signal.SIGSTOP)
    sleep(1.5 * crawl.lease_timeout)
    crawl.server.send(signal.SIGCONT)
    crawl.end_whole(most_refetched=crawl.web.n_sites)


def test_a_job_goes_on_though_coordinator_and_server_are_lost(crawl):
    crawl.job = crawl.folder / "job"
    crawl.start(1)
    crawl.wait_for_fetches(50)
    worker = crawl.started.pop()
    worker.kill()
    worker.wait()
    crawl.kill_coordinator()
    crawl.client.flushall()
    crawl.start()
    crawl.end_whole(most_refetched=crawl.web.n_sites + 4)


@pytest.mark.long
def test_a_cluster_moves_the_slot_of_a_crawl_whose_coordinator_is_killed(crawl, redis_cluster):
    crawl.serve_by(redis_cluster)
    crawl.start(1, "--delay", "0.5")
    crawl.wait_for_fetches(30)
    crawl.web.latency = 5.0  # the crawl must not be over when the other worker comes

    def start_worker(n_moved):
        """Once some keys have moved, start another worker, and wait until it waits."""
        if n_moved and len(crawl.started) == 1:
            crawl.start(1, "--delay", "0.5")
            crawl.wait(lambda: "Redis is unavailable" in crawl.said())

    assert migrate_slot(redis_cluster, crawl.streams.prefix, each=start_worker) >= 3
    crawl.web.latency = 0.01
    crawl.wait_for_fetches(80)
    crawl.kill_coordinator()
    crawl.end_whole()


@pytest.mark.long
def test_a_worker_that_joins_while_the_server_has_forgotten_all_begins_no_other_crawl(crawl):
    """The coordinator, which hangs just then, tells the server again."""
    crawl.start(1)
    crawl.wait_for_fetches(20)
    coordinator = crawl.kill_coordinator(signal.SIGSTOP)
    crawl.client.flushall()
    crawl.start(1)
    sleep(6)
    os.kill(coordinator, signal.SIGCONT)
    crawl.end_whole(most_refetched=crawl.web.n_sites)
    assert "was renamed" not in crawl.said()


def test_a_crawl_goes_on_with_the_replica_that_sentinels_promote(crawl, tmp_path):
    primary = crawl.server
    options = ("--replicaof", "127.0.0.1", str(primary.port), "--repl-diskless-sync-delay", "0")
    replica = RedisServer(tmp_path / "replica", *options)
    replica.start()
    try:
        with sentinel_of(primary, tmp_path) as address:
            crawl.start(2, REDIS_URL=f"redis+sentinel://{address}/crawls/0")
            crawl.wait_for_fetches(30)
            primary.kill()
            crawl.serve_by(replica)
            crawl.end_whole()
        assert crawl.client.role()[0] in (b"master", "master")
    finally:
        replica.kill()


class Proxy(ThreadingTCPServer):
    """Passes bytes on to a server, and cuts its clients off from it on demand."""

    daemon_threads = True
    is_cut = False

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), BaseRequestHandler)
        self._port = port
        self._sockets = []
        self.url = f"redis://127.0.0.1:{self.server_address[1]}/0"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def cut(self):
        self.is_cut = True
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def finish_request(self, request, client_address):
        """Pass bytes on, in a thread of its own, until one of both ends hangs up."""
        if self.is_cut:
            return
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as server:
            ends = request, server
            self._sockets += ends
            while True:
                for end in select(ends, (), ())[0]:
                    found = end.recv(65536)
                    if not found:
                        return
                    ends[end is request].sendall(found)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", ["stopped", "cut off for ever", "cut off for a while"])
def test_a_coordinator_that_is_not_heard_for_its_term_is_replaced(crawl, fault):
    proxy = Proxy(crawl.server.port)
    crawl.start(1, CRAWLPRIO_COORDINATOR="only", REDIS_URL=proxy.url)
    first = crawl.wait_for_coordinators()
    crawl.start()
    crawl.wait_for_fetches(30)
    if fault == "stopped":
        crawl.kill_coordinator(signal.SIGSTOP)
    else:
        proxy.cut()
    crawl.wait(lambda: crawl.coordinators() not in (first, []))
    proxy.is_cut = fault == "cut off for ever"
    crawl.started.pop(0).wait()
    crawl.end_whole()


@pytest.mark.long
@pytest.mark.parametrize("fault", ["stopped", "cut off"])
def test_a_worker_that_is_not_heard_for_its_term_fetches_nothing_of_what_it_loses(crawl, fault):
    proxy = Proxy(crawl.server.port)
    slow = "--delay", "0.6"  # the crawl must not be over when the worker comes back
    crawl.start(1, *slow)
    crawl.wait_for_coordinators()
    crawl.start(1, *slow, CRAWLPRIO_COORDINATOR="never", REDIS_URL=proxy.url)
    crawl.wait(lambda: len(crawl.client.keys("*:out:*")) == 2)
    crawl.wait_for_fetches(30)
    late = crawl.started[1]
    if fault == "stopped":
        late.send_signal(signal.SIGSTOP)
    else:
        proxy.cut()
    sleep(1.5 * crawl.lease_timeout)
    proxy.is_cut = False
    late.send_signal(signal.SIGCONT)
    crawl.wait_for_fetches(min(len(crawl.web.seen) + 5, 150))
    crawl.end_whole(most_refetched=crawl.web.n_sites)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("coordinator", "is_lost"), [("never", False), ("auto", False), ("auto", True)]
)
def test_a_worker_that_was_stopped_until_its_crawl_had_finished_says_so_and_ends(
    crawl, coordinator, is_lost
):
    crawl.start(1, CRAWLPRIO_COORDINATOR="only", SCHEDULER_PERSIST=False)
    crawl.wait_for_coordinators()
    crawl.start(2, CRAWLPRIO_COORDINATOR=coordinator, SCHEDULER_PERSIST=False)
    crawl.wait(lambda: len(crawl.client.keys("*:out:*")) == 2)
    crawl.wait_for_fetches(30)
    late = crawl.started.pop()
    late.send_signal(signal.SIGSTOP)
    try:
        crawl.end_whole(most_refetched=crawl.web.n_sites)
        if is_lost:
            crawl.client.flushall()
        late.send_signal(signal.SIGCONT)
        assert late.wait() == int(is_lost), crawl.said()
    finally:
        late.kill()
    said = "is not in Redis any more" if is_lost else "has finished without this worker"
    assert crawl.said().count(said) == 1, crawl.said()
    assert not (crawl.folder / "crawls" / "site.1").exists(), "no other crawl has begun"
    if not is_lost:
        assert crawl.client.keys("*") == []
