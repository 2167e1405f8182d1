"""`crawlprio crawl --workers N`, judged by a server's own log and by the true graph alone."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest
from logged_web import LoggedWeb
from shared_crawls import DELAY, MOST_BETWEEN, N_RUNS, Run, is_alive, logged_web
from watched_crawls import Client

from crawlprio.live.workers import BRAIN_VARIABLE, VARIABLE, brain_facts, hand_facts

web = logged_web


@pytest.fixture
def run(tmp_path: Path, web: LoggedWeb) -> Iterator[Run]:
    crawl = Run(tmp_path / "job", web)
    yield crawl
    crawl.stop()


def test_two_workers_get_every_page_once_and_keep_robots_and_delays(run: Run) -> None:
    run.more += ("--ordering", "sibling-sampling")
    run.start()
    run.wait_for_fetches(20)
    assert len(run.hands()) == 2
    assert run.end() == 0, run.said()
    run.check_whole()
    assert min(run.web.rests()) >= DELAY
    n_robots = sum(each.path == "/robots.txt" for each in run.web.seen)
    assert n_robots == run.web.n_sites
    receipt = json.loads((run.folder / "receipt.json").read_text())
    assert receipt["got"]["pages"] == run.web.n_pages
    assert run.said().count("pages fetched") == 1


def test_workers_that_are_killed_are_replaced_and_lose_nothing(run: Run) -> None:
    rng = random.Random(3)
    run.start()
    for n_fetched in (15, 60, 100):
        run.wait_for_fetches(n_fetched)
        run.wait(lambda: len(run.hands()) == 2)
        os.kill(rng.choice(run.hands()), signal.SIGKILL)
    assert run.end() == 0, run.said()
    run.check_whole(most_refetched=3 * run.web.n_sites)
    assert run.said().count("died; another takes its place") == 3


def test_a_worker_that_is_stopped_for_longer_than_its_term_is_replaced(run: Run) -> None:
    run.start()
    run.wait_for_fetches(30)
    stopped = run.hands()[0]
    os.kill(stopped, signal.SIGSTOP)
    assert run.end() == 0, run.said()
    assert not is_alive(stopped)
    run.check_whole(most_refetched=run.web.n_sites)


def test_a_brain_that_is_stopped_goes_on_with_its_workers(run: Run) -> None:
    run.start()
    run.wait_for_fetches(30)
    run.wait(lambda: len(run.hands()) == 2)
    hands = run.hands()
    os.kill(run.brain, signal.SIGSTOP)
    sleep(1.5 * run.term)
    os.kill(run.brain, signal.SIGCONT)
    n_before = len(run.web.seen)
    run.wait_for_fetches(n_before + 20)
    assert run.hands() == hands
    assert run.end() == 0, run.said()
    run.check_whole()


def test_a_killed_brain_leaves_no_worker_and_its_crawl_is_resumed(run: Run) -> None:
    run.start()
    n_kills = 0
    for n_fetched in (30, 80):
        run.wait_for_fetches(n_fetched)
        hands = run.hands()
        os.kill(run.brain, signal.SIGKILL)
        run.end()
        n_kills += 1
        run.wait(lambda hands=hands: not any(map(is_alive, hands)))  # type: ignore[misc]
        run.start()
    assert run.end() == 0, run.said()
    run.check_whole(most_refetched=n_kills * run.web.n_sites)


@pytest.mark.parametrize("seed", range(N_RUNS))
def test_any_sequence_of_faults_loses_and_doubles_nothing(run: Run, seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    most_refetched, n_fetched = 0, 10
    stopped: list[int] = []
    run.start()
    while n_fetched < 0.9 * run.web.n_pages:
        run.wait_for_fetches(n_fetched)
        fault = rng.choice(["kill brain", "stop brain", *["kill hand"] * 2, *["stop hand"] * 2])
        alive = [hand for hand in run.hands() if hand not in stopped]
        if fault == "kill brain":
            hands = run.hands()
            os.kill(run.brain, signal.SIGKILL)
            run.end()
            run.wait(lambda hands=hands: not any(map(is_alive, hands)))  # type: ignore[misc]
            run.start()
        elif fault == "stop brain":
            os.kill(run.brain, signal.SIGSTOP)
            sleep(rng.uniform(0.1, 1.2 * run.term))
            os.kill(run.brain, signal.SIGCONT)
        elif alive and fault == "kill hand":
            os.kill(rng.choice(alive), signal.SIGKILL)
        elif len(alive) > 1:
            stopped.append(rng.choice(alive))
            os.kill(stopped[-1], signal.SIGSTOP)
        most_refetched += run.web.n_sites
        n_fetched = len(run.web.seen) + rng.randrange(1, MOST_BETWEEN)
    assert run.end() == 0, run.said()
    run.check_whole(most_refetched=most_refetched)


def test_ctrl_c_lets_workers_finish_and_the_crawl_is_resumed(run: Run) -> None:
    run.start()
    run.wait_for_fetches(40)
    hands = run.hands()
    os.kill(run.brain, signal.SIGINT)
    assert run.end() == 0, run.said()
    assert not any(map(is_alive, hands))
    n_fetched = run.web.fetches().total()
    assert run.visits().total() == n_fetched < run.web.n_pages
    run.start()
    assert run.end() == 0, run.said()
    run.check_whole()


def test_archive_values_texts_and_sitemaps_are_those_of_a_crawl_alone(
    tmp_path: Path, web: LoggedWeb
) -> None:
    lonely = f"http://{web.host(0)}:{web.port}/lonely.html"
    sitemap = f"<urlset><url><loc>{lonely}</loc></url></urlset>"
    web.others["/sitemap.xml"] = "application/xml", sitemap.encode()
    web.others["/lonely.html"] = "text/html", b"<html><title>Lonely</title>no links</html>"
    found = []
    for name, workers in (("shared", 2), ("alone", 0)):
        web.seen.clear()
        run = Run(
            tmp_path / name,
            web,
            *("--warc", f"{name}-warc", "--value", "words:words", "--keep-text"),
            *("--sitemaps", f"http://{web.host(0)}:{web.port}/sitemap.xml"),
            workers=workers,
        )
        assert run.start().end() == 0, run.said()
        index = [file.read_text() for file in (tmp_path / f"{name}-warc").glob("*.cdxj")]
        records = [json.loads(line.split(" ", 2)[2]) for line in "".join(index).splitlines()]
        archived = sorted((record["url"], record.get("status")) for record in records)
        assert len(archived) == len(web.seen)
        rows = run.rows(
            "SELECT url, title, text, value FROM visits JOIN pages ON id = visits.page"
            " JOIN page_values ON page_values.seq = visits.seq ORDER BY 1"
        )
        assert lonely in {row[0] for row in rows}
        found.append((archived, rows, sorted(run.pairs())))
    assert found[0] == found[1]


def test_the_live_view_shows_what_workers_have(tmp_path: Path) -> None:
    with LoggedWeb(n_pages=24, n_sites=4, latency=1.2) as web:
        _check_live_view(Run(tmp_path / "job", web))


def _check_live_view(run: Run) -> None:
    run.more += ("--monitor", "0")
    run.start()
    address = re.compile(r"live view at http://127\.0\.0\.1:(\d+)/#token=(\S+)")
    run.wait(lambda: address.search(run.said()) is not None)
    said = address.search(run.said())
    assert said is not None
    run.wait_for_fetches(10)
    client = Client(int(said[1]), said[2])
    run.wait(lambda: "at a worker" in json.dumps(client.state()))
    tables = client.state()["tables"]
    assert run.web.host(0) in json.dumps(tables["slow"])
    assert run.end() == 0, run.said()
    run.check_whole()


def test_what_workers_cannot_do_is_refused_in_one_sentence(run: Run) -> None:
    for more, said in (
        (("-o", "out.jsonl"), "items go to a file (FEEDS, -o)"),
        (("-s", "CRAWLPRIO_FRONTIER=redis"), "processes of one machine"),
    ):
        run.more, kept = (*run.more, *more), run.more
        assert run.start().end() == 2
        run.more = kept
        assert said in run.said()
    assert "Traceback" not in run.said()
    assert not run.web.seen


def test_a_site_with_several_fetches_at_once_keeps_its_delay_between_their_starts(
    run: Run,
) -> None:
    run.web.latency = 0.9
    run.more += ("--delay", "0.4", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=4", "--pages", "60")
    assert run.start().end() == 0, run.said()
    assert min(run.web.starts()) >= 0.25, "0.4 s less what a start takes on a busy machine"
    assert min(run.web.rests()) < 0, "fetches overlap"


def test_workers_that_die_at_once_end_the_crawl(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.folder.parent / "sitecustomize.py").write_text(
        "import os, signal\nif 'HAND_OF_CRAWL' in os.environ: os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(run.folder.parent))
    assert run.start().end() == 1
    assert "workers in a row died" in run.said()


def test_a_crawl_that_a_worker_starts_is_none_of_its_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, facts in ((VARIABLE, hand_facts), (BRAIN_VARIABLE, brain_facts)):
        monkeypatch.setenv(variable, '{"at_once": 4}')
        facts.cache_clear()
        assert (facts(), facts()) == ({"at_once": 4}, {"at_once": 4})
        assert variable not in os.environ
        facts.cache_clear()
        assert facts() is None


def test_one_worker_and_one_fetch_at_a_time_have_the_order_of_a_crawl_alone(
    tmp_path: Path, web: LoggedWeb
) -> None:
    orders = []
    for name, workers in (("shared", 1), ("alone", 0)):
        web.seen.clear()
        free = ("--at-once", "1", "--delay", "0", "-s", "ROBOTSTXT_OBEY=False")
        run = Run(tmp_path / name, web, *free, workers=workers)
        assert run.start().end() == 0, run.said()
        orders.append([each.path for each in web.seen if each.path != "/robots.txt"])
    assert orders[0] == orders[1]
