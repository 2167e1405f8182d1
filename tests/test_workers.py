"""Crawls of several processes, on one machine and through Redis.

They are judged by a server's log and by the true graph alone.
"""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest
from forked import run_forked
from shared_crawls import DELAY, InRedis, OnOneMachine, is_alive, options, shared_crawl
from watched_crawls import ADDRESS, Client

from crawlprio.live.roles import COORDINATOR, WORKER, facts_of
from crawlprio.plugins.shared.socket_transport import fork_each

N_RUNS = int(os.environ.get("CRAWLPRIO_FAULT_RUNS", "1"))
"""Runs with random faults; `make shared-kills` does ten for each kind of crawl."""

MOST_BETWEEN = 60 if N_RUNS == 1 else 40
"""Fetches between two random faults, at most."""

crawl = shared_crawl

every_kind = pytest.mark.parametrize("crawl", ["one machine", "redis"], indirect=True)
on_one_machine = pytest.mark.parametrize("crawl", ["one machine"], indirect=True)


@every_kind
def test_workers_get_every_page_once_and_keep_robots_and_delays(crawl):
    crawl.ordering = "sibling-sampling"
    crawl.start(2, SCHEDULER_PERSIST=False)
    crawl.wait_for_fetches(20)
    assert len(crawl.workers()) == 2
    for worker in crawl.workers():  # forked, and not started again with facts in its environment
        assert WORKER not in Path(f"/proc/{worker}/environ").read_text()
    if isinstance(crawl, InRedis):
        for body in (b"\x80\x04pickle", b"[]", b'{"a": 1}'):
            crawl.streams.send("nobody", [(1, body)])
    crawl.end_whole()
    assert min(crawl.web.rests()) >= DELAY
    n_robots = sum(each.path == "/robots.txt" for each in crawl.web.seen)
    assert n_robots == crawl.web.n_sites
    receipt = json.loads((crawl.store.parent / "receipt.json").read_text())
    assert receipt["got"]["pages"] == crawl.web.n_pages
    if isinstance(crawl, InRedis):
        assert crawl.said().count("A message in Redis is none of crawlprio:") == 3
        assert crawl.client.keys("*") == []
    else:
        assert crawl.said().count("pages fetched") == 1


@pytest.mark.sampled(1)
@every_kind
def test_ctrl_c_lets_workers_finish_and_the_crawl_is_resumed(crawl):
    crawl.start()
    crawl.wait_for_fetches(40)
    crawl.wait_for_coordinators()
    workers = crawl.workers()
    crawl.interrupt()
    crawl.end()
    assert not any(map(is_alive, workers))
    n_fetched = crawl.web.fetches().total()
    assert crawl.visits().total() == n_fetched < crawl.web.n_pages
    crawl.start()
    crawl.end_whole()


@pytest.mark.sampled(1)
@every_kind
def test_coordinators_that_are_killed_lose_nothing(crawl):
    """On one machine their workers end with them, and the crawl is resumed."""
    crawl.start(2, SCHEDULER_PERSIST=False)
    for n_fetched in (15, 60, 100):
        crawl.wait_for_fetches(n_fetched)
        crawl.kill_coordinator()
    if isinstance(crawl, OnOneMachine):
        crawl.end_whole(most_refetched=3 * crawl.web.n_sites)
    else:
        crawl.end_whole()
        assert crawl.client.keys("*") == [], "the last coordinator knows that the crawl is over"
        assert min(crawl.web.rests()) >= DELAY


@pytest.mark.sampled(1)
@every_kind
def test_workers_that_are_killed_lose_nothing(crawl):
    crawl.start()
    for n_fetched in (15, 60, 100):
        crawl.wait_for_fetches(n_fetched)
        crawl.kill_worker()
    crawl.end_whole(most_refetched=3 * crawl.web.n_sites)
    if isinstance(crawl, OnOneMachine):
        assert crawl.said().count("died; another takes its place") == 3


@pytest.mark.long
@every_kind
@pytest.mark.parametrize("seed", range(N_RUNS))
def test_any_sequence_of_faults_loses_and_doubles_nothing(crawl, seed):
    rng = crawl.rng
    rng.seed(seed)
    asleep = {}

    def wake():
        """Let processes go on whose time has come."""
        for number, until in [*asleep.items()]:
            if monotonic() >= until:
                del asleep[number]
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGCONT)

    faults = ["kill coordinator", "stop coordinator", *["kill worker"] * 2, *["stop worker"] * 2]
    if isinstance(crawl, InRedis):
        faults += ["redis", "redis, kill coordinator"]
    n_fetched, n_faults = 10, 0
    crawl.start(3)
    while n_fetched < 0.9 * crawl.web.n_pages:
        crawl.wait(lambda n=n_fetched: wake() or len(crawl.web.seen) >= n)
        fault, n_faults = rng.choice(faults), n_faults + 1
        print(fault, len(crawl.web.seen))
        coordinators = [
            coordinator for coordinator in crawl.coordinators() if coordinator not in asleep
        ]
        workers = [worker for worker in crawl.workers() if worker not in asleep]
        if "kill coordinator" in fault and coordinators:
            crawl.kill_coordinator()
        if fault == "kill worker" and workers:
            crawl.kill_worker(asleep)
        stopped = {
            "stop coordinator": coordinators,
            "stop worker": workers if workers[1:] else [],
        }.get(fault)
        if stopped:
            number = rng.choice(stopped)
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGSTOP)
                asleep[number] = monotonic() + rng.uniform(0.5, 2 * crawl.lease_timeout)
        if "redis" in fault:
            crawl.server.kill()
            sleep(rng.uniform(0, 2))
            crawl.server.start()
        n_fetched = len(crawl.web.seen) + rng.randrange(1, MOST_BETWEEN)
    crawl.wait(lambda: wake() or not asleep)
    crawl.end_whole(most_refetched=n_faults * crawl.web.n_sites)


@pytest.mark.sampled(1)
@every_kind
def test_a_site_with_several_fetches_at_once_keeps_its_delay_between_their_starts(crawl):
    crawl.web.latency = 0.9
    crawl.start(2, "--delay", "0.4", "--pages", "60", CONCURRENT_REQUESTS_PER_DOMAIN=4)
    if isinstance(crawl, InRedis):
        crawl.wait_for_fetches(40)
        crawl.kill_coordinator()
    crawl.end()
    assert min(crawl.web.starts()) >= 0.25, "0.4 s less what a start takes on a busy machine"
    assert min(crawl.web.rests()) < 0, "fetches overlap"
    assert max(crawl.visits().values()) == 1


@pytest.mark.sampled(2)
@every_kind
@pytest.mark.parametrize(
    "chosen",
    [
        ("combined", "-s", 'ORDERING_OPTIONS={"weights": {"opic": 1, "location": 1}}'),
        ("pagerank", "-s", 'ORDERING_OPTIONS={"every": 1}'),
        ("opic", "-s", "TOPIC=page-1, words"),
    ],
    ids=lambda chosen: chosen[0],
)
def test_one_worker_with_one_fetch_at_a_time_has_the_order_of_a_crawl_alone(crawl, chosen):
    at_once = ("--delay", "0", "--at-once", "1", "--pages", "120", "--ordering", *chosen)
    alone, orders = OnOneMachine(crawl.folder, crawl.web, "alone"), []
    for each, n_workers in ((alone, 0), (crawl, 1)):
        crawl.web.seen.clear()
        each.start(n_workers, *at_once)
        each.end()
        orders.append(crawl.web.urls())
    assert len(orders[0]) == 120
    assert orders[1] == orders[0]


@pytest.mark.sampled(1)
@every_kind
def test_archive_values_texts_and_sitemaps_are_those_of_a_crawl_alone(crawl):
    web = crawl.web
    site = f"http://{web.host(0)}:{web.port}"
    sitemap = f"<urlset><url><loc>{site}/lonely.html</loc></url></urlset>"
    web.others["/sitemap.xml"] = "application/xml", sitemap.encode()
    web.others["/lonely.html"] = "text/html", b"<html><title>Lonely</title>no links</html>"
    alone, found = OnOneMachine(crawl.folder, web, "alone"), []
    for each, n_workers in ((crawl, 2), (alone, 0)):
        web.seen.clear()
        warc = crawl.folder / f"{n_workers}-warc"
        each.start(
            n_workers,
            *("--warc", str(warc), "--value", "words:words", "--keep-text"),
            *("--sitemaps", f"{site}/sitemap.xml"),
        )
        each.end()
        index = "".join(file.read_text() for file in warc.glob("*.cdxj")).splitlines()
        records = [json.loads(line.split(" ", 2)[2]) for line in index]
        archived = sorted((record["url"], record.get("status")) for record in records)
        assert len(archived) == len(web.seen)
        rows = each.rows(
            "SELECT url, title, text, value FROM visits JOIN pages ON id = visits.page"
            " JOIN page_values ON page_values.seq = visits.seq ORDER BY 1"
        )
        assert f"{site}/lonely.html" in {row[0] for row in rows}
        assert {row[3] for row in rows} != {0.0}
        found.append((archived, rows, sorted(each.pairs())))
    assert found[0] == found[1]


@pytest.mark.sampled(1)
@every_kind
def test_the_live_view_shows_pauses_and_stops_all_workers(crawl):
    crawl.web.latency = 1.2
    crawl.start(2, "--monitor", "0")
    crawl.wait(lambda: ADDRESS.search(crawl.said()))
    client = Client(*ADDRESS.search(crawl.said()).groups())
    crawl.wait_for_fetches(10)
    crawl.wait(lambda: "at a worker" in json.dumps(client.state()))
    crawl.wait(lambda: len(client.state()["tables"]["workers"]) == 2)
    assert crawl.web.host(0) in json.dumps(client.state()["tables"]["slow"])
    assert client.post("/first", url=crawl.web.url(crawl.web.n_pages - 1)).status in (200, 409)
    assert client.post("/pause").body["said"].startswith("Paused")
    crawl.wait(lambda: not client.state()["tables"]["flight"])
    n_before = len(crawl.web.seen)
    crawl.wait(lambda: client.state()["state"] == "paused")
    assert len(crawl.web.seen) == n_before
    assert client.post("/resume").status == 200
    crawl.wait_for_fetches(n_before + 5)
    assert client.post("/stop").status == 200
    crawl.end()
    assert len(crawl.web.seen) < crawl.web.n_pages


@on_one_machine
def test_a_worker_that_is_stopped_for_longer_than_its_term_is_replaced(crawl):
    crawl.start()
    crawl.wait_for_fetches(30)
    stopped = crawl.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    crawl.end_whole(most_refetched=crawl.web.n_sites)
    assert not is_alive(stopped)


@on_one_machine
def test_a_coordinator_that_is_stopped_goes_on_with_its_workers(crawl):
    crawl.start()
    crawl.wait_for_fetches(30)
    crawl.wait(lambda: len(crawl.workers()) == 2)
    workers = crawl.workers()
    coordinator = crawl.kill_coordinator(signal.SIGSTOP)
    sleep(1.5 * crawl.lease_timeout)
    os.kill(coordinator, signal.SIGCONT)
    crawl.wait_for_fetches(len(crawl.web.seen) + 20)
    assert crawl.workers() == workers
    crawl.end_whole()


@on_one_machine
def test_what_workers_cannot_do_is_refused_in_one_sentence(crawl):
    for more, said in (
        (["-o", "out.jsonl"], "items go to a file (FEEDS, -o)"),
        (["-s", "CRAWLPRIO_FRONTIER=redis"], "processes of one machine"),
    ):
        crawl.start(2, *more)
        assert crawl.started.pop().wait() == 2
        assert said in crawl.said()
    assert "Traceback" not in crawl.said()
    assert not crawl.web.seen


@on_one_machine
def test_workers_that_die_at_once_end_the_crawl(crawl):
    """Those that are forked, and those that are started in their place."""
    (crawl.folder / "sitecustomize.py").write_text(
        "import os, signal\n"
        "def die(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.register_at_fork(after_in_child=die)\n"
        "if 'WORKER_OF_CRAWL' in os.environ: die()\n"
    )
    words = ["crawl", crawl.web.url(0), "--folder", "job", "--workers", "2"]
    environment = {"PYTHONPATH": str(crawl.folder)}
    done = run_forked(
        "crawlprio", [*words, *options(crawl.settings)], crawl.folder, environment=environment
    )
    assert done.returncode == 1
    assert "workers in a row died" in done.stdout + done.stderr


def test_no_worker_is_forked_beside_a_thread_or_an_event_loop(monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    monkeypatch.delitem(sys.modules, "twisted.internet.reactor", raising=False)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(int)
        fork_each(2)
    monkeypatch.setitem(sys.modules, "twisted.internet.reactor", object())
    fork_each(2)


def test_a_crawl_that_a_worker_starts_is_none_of_its_workers(monkeypatch):
    for role in (WORKER, COORDINATOR):
        monkeypatch.setenv(role, '{"at_once": 4}')
        facts_of.cache_clear()
        assert (facts_of(role), facts_of(role)) == ({"at_once": 4}, {"at_once": 4})
        assert role not in os.environ
        facts_of.cache_clear()
        assert facts_of(role) is None
