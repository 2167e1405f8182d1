"""Workers whose brain is heard through Redis, judged by a server's log and the true graph alone."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from logged_web import FORBIDDEN, LoggedWeb
from redis_servers import ClusterOfServers, RedisServer, migrate_slot, require_redis

from crawlprio.plugins.shared.mailbox import Mailbox

DELAY, TERM = 0.15, 6.0

N_RUNS = int(os.environ.get("CRAWLPRIO_FAULT_RUNS", "2"))
"""Runs with random faults."""


class Shared:
    """A crawl of a web by workers, in a folder, with a server of its own."""

    def __init__(self, folder: Path, web: LoggedWeb, *more: str, server: Any = None) -> None:
        self.folder, self.web = folder, web
        (folder / "redis").mkdir()
        self.server = server or RedisServer(
            folder / "redis", "--appendonly", "yes", "--appendfsync", "everysec"
        )
        self.server.start()
        self.more = (
            *("--delay", str(DELAY), "--at-once", "8"),
            *("-s", "CRAWLPRIO_PRIVATE_NETWORKS=127.0.0.0/8"),
            *("-s", f"CRAWLPRIO_LEASE_SECONDS={TERM}"),
            *("-s", "CRAWLPRIO_COMPILE=False", "-s", "CRAWLPRIO_FRONTIER=redis"),
            *("-s", f"REDIS_URL={self.server.url}", "-s", "LOG_LEVEL=INFO"),
            *("-s", "SCHEDULER_PERSIST=True"),
            *more,
        )
        self.workers: list[subprocess.Popen[bytes]] = []
        self._n_started = 0
        self.mailbox = Mailbox(self.server.client(), "site")

    def start(self, n: int = 1, *more: str, brain: str = "auto") -> None:
        for _ in range(n):
            self._n_started += 1
            with open(self.folder / f"worker{self._n_started}.log", "ab") as log:
                self.workers.append(
                    subprocess.Popen(
                        [
                            *(sys.executable, "-m", "crawlprio", "crawl", self.web.url(0)),
                            *("--follow", "web", *self.more, "-s", f"CRAWLPRIO_BRAIN={brain}"),
                            *more,
                        ],
                        stdout=log,
                        stderr=log,
                        cwd=self.folder,
                    )
                )

    @property
    def store(self) -> Path:
        return self.folder / "crawls" / "site" / "crawl.sqlite"

    def brain(self) -> int | None:
        """Return the process id of the brain."""
        with suppress(Exception):
            name = self.mailbox.brain()
            return int(name.split()[-1]) if name.count(" ") else None
        return None

    def alive(self) -> list[subprocess.Popen[bytes]]:
        return [worker for worker in self.workers if worker.poll() is None]

    def logs(self) -> str:
        logs = sorted(self.folder.glob("worker*.log"))
        return "\n".join(f"{log.name}\n{log.read_text()[-4000:]}" for log in logs)

    def log(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("worker*.log")))

    def wait(self, condition: Callable[[], object], seconds: float = 120.0) -> None:
        until = monotonic() + seconds
        while not condition():
            assert monotonic() < until, self.logs()
            sleep(0.01)

    def wait_for_fetches(self, n: int) -> None:
        self.wait(lambda: len(self.web.seen) >= n or not self.alive())
        assert self.alive(), self.logs()

    def wait_for_brain(self) -> int:
        self.wait(self.brain)
        found = self.brain()
        assert found is not None
        return found

    def end(self, seconds: float = 240.0) -> list[int]:
        """Wait until all workers and the brain have ended; return the statuses of those alive."""
        alive = self.alive()
        try:
            statuses = [worker.wait(seconds) for worker in alive]
        except subprocess.TimeoutExpired:
            raise AssertionError(self.logs()) from None
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
        self.server.kill()

    # The store

    def rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.store)) as db:
            return db.execute(query).fetchall()

    def visits(self) -> Counter[str]:
        query = "SELECT url FROM visits JOIN pages ON id = page WHERE status > 0"
        return Counter(url for (url,) in self.rows(query))

    def pairs(self) -> list[tuple[str, str]]:
        return self.rows("SELECT source_url, target_url FROM link_urls")


@pytest.fixture
def web() -> Iterator[LoggedWeb]:
    with LoggedWeb(n_pages=160, n_sites=8) as served:
        yield served


@pytest.fixture
def crawl(tmp_path: Path, web: LoggedWeb) -> Iterator[Shared]:
    require_redis()
    shared = Shared(tmp_path, web)
    yield shared
    shared.stop()


def check_whole(crawl: Shared, *, most_refetched: int = 0) -> None:
    """Check that all was got and recorded, once, and nothing else, however the crawl went."""
    web, everything = crawl.web, {crawl.web.url(page) for page in range(crawl.web.n_pages)}
    fetches = web.fetches()
    assert not [url for url in fetches if url.endswith(FORBIDDEN)]
    assert set(fetches) == everything
    assert fetches.total() - len(fetches) <= most_refetched
    assert crawl.visits() == dict.fromkeys(everything, 1)
    pairs = crawl.pairs()
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == web.pairs()
    assert min(web.starts()) >= DELAY


def test_two_workers_get_every_page_once_and_keep_robots_and_delays(crawl: Shared) -> None:
    crawl.start(2, "-s", "SCHEDULER_PERSIST=False")
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl)
    assert min(crawl.web.rests()) >= DELAY
    n_robots = sum(each.path == "/robots.txt" for each in crawl.web.seen)
    assert n_robots == crawl.web.n_sites
    receipt = json.loads((crawl.store.parent / "receipt.json").read_text())
    assert receipt["got"]["pages"] == crawl.web.n_pages
    assert crawl.server.client().keys("*") == []


def test_a_brain_that_is_killed_is_replaced_and_nothing_is_lost(crawl: Shared) -> None:
    crawl.start(2)
    for n_fetched in (15, 60, 100):
        crawl.wait_for_fetches(n_fetched)
        os.kill(crawl.wait_for_brain(), signal.SIGKILL)
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl)
    assert min(crawl.web.rests()) >= DELAY


def test_workers_that_are_killed_lose_nothing(crawl: Shared) -> None:
    rng = random.Random(3)
    crawl.start(2)
    for n_fetched in (15, 60, 100):
        crawl.wait_for_fetches(n_fetched)
        worker = rng.choice(crawl.alive())
        worker.kill()
        worker.wait()
        crawl.start()
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl, most_refetched=3 * crawl.web.n_sites)


def test_a_worker_that_is_stopped_beyond_its_term_comes_back(crawl: Shared) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(30)
    stopped = crawl.alive()[0]
    stopped.send_signal(signal.SIGSTOP)
    sleep(1.5 * TERM)
    n_before = len(crawl.web.seen)
    stopped.send_signal(signal.SIGCONT)
    crawl.wait_for_fetches(min(n_before + 5, 150))
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl, most_refetched=crawl.web.n_sites)


def test_a_brain_that_is_stopped_beyond_its_term_is_ended_by_the_next(crawl: Shared) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(30)
    stopped = crawl.wait_for_brain()
    os.kill(stopped, signal.SIGSTOP)
    crawl.wait(lambda: crawl.brain() not in (None, stopped))
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl)


def test_a_server_that_is_killed_and_comes_back_loses_nothing(crawl: Shared) -> None:
    crawl.start(2)
    for n_fetched in (30, 90):
        crawl.wait_for_fetches(n_fetched)
        crawl.server.kill()
        sleep(1.0)
        crawl.server.start()
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl)


def test_a_server_that_forgets_everything_loses_nothing(crawl: Shared) -> None:
    """What hands have said and the brain has not heard, they say again."""
    crawl.start(2)
    crawl.wait_for_fetches(50)
    crawl.server.kill()
    for file in (crawl.folder / "redis" / "appendonlydir").iterdir():
        file.unlink()
    crawl.server.start()
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl)


def test_a_job_goes_on_though_brain_and_server_are_lost(crawl: Shared) -> None:
    crawl.start(1, "--folder", "job")
    crawl.wait_for_fetches(50)
    brain = crawl.wait_for_brain()
    crawl.workers[0].kill()
    crawl.workers[0].wait()
    os.kill(brain, signal.SIGKILL)
    crawl.server.client().flushall()
    crawl.start(2, "--folder", "job")
    assert crawl.end() == [0, 0], crawl.logs()
    (crawl.folder / "crawls").mkdir()
    (crawl.folder / "job").rename(crawl.folder / "crawls" / "site")
    check_whole(crawl, most_refetched=crawl.web.n_sites + 4)


def test_ctrl_c_lets_workers_finish_and_the_crawl_goes_on_later(crawl: Shared) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(40)
    for worker in crawl.alive():
        worker.send_signal(signal.SIGINT)
    assert crawl.end() == [0, 0], crawl.logs()
    n_fetched = crawl.web.fetches().total()
    assert crawl.visits().total() == n_fetched < crawl.web.n_pages
    crawl.start(2)
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl)


def test_a_worker_without_the_folder_of_the_crawl_is_no_brain(crawl: Shared) -> None:
    crawl.start()
    crawl.wait_for_fetches(40)
    crawl.alive()[0].send_signal(signal.SIGINT)
    assert crawl.end() == [0]
    (crawl.folder / "elsewhere").mkdir()
    folder, crawl.folder = crawl.folder, crawl.folder / "elsewhere"
    crawl.start()
    crawl.wait(lambda: "can be no brain" in crawl.log())
    crawl.folder = folder
    crawl.start(brain="only")
    crawl.workers.pop()
    assert crawl.end() == [0], crawl.logs()
    check_whole(crawl)


def test_a_full_server_makes_a_crawl_wait(crawl: Shared) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(30)
    with crawl.server.client() as client:
        client.config_set("maxmemory", "1mb")
        crawl.wait(lambda: crawl.log().count("Redis is unavailable") >= 2)
        client.config_set("maxmemory", "0")
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl)
    assert crawl.log().count("Redis is available again") >= 2


def test_a_server_that_hangs_makes_a_crawl_wait(crawl: Shared) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(30)
    crawl.server.send(signal.SIGSTOP)
    sleep(1.5 * TERM)
    crawl.server.send(signal.SIGCONT)
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl, most_refetched=crawl.web.n_sites)


def test_a_cluster_moves_the_slot_of_a_crawl_whose_brain_is_killed(
    tmp_path: Path, web: LoggedWeb
) -> None:
    require_redis()
    (tmp_path / "nodes").mkdir()
    cluster = ClusterOfServers(tmp_path / "nodes")
    crawl = Shared(tmp_path, web, server=cluster)
    try:
        crawl.start(2)
        crawl.wait_for_fetches(30)
        assert migrate_slot(cluster, crawl.mailbox.prefix) >= 3
        crawl.wait_for_fetches(80)
        os.kill(crawl.wait_for_brain(), signal.SIGKILL)
        assert crawl.end() == [0, 0], crawl.logs()
        check_whole(crawl)
    finally:
        crawl.stop()


@pytest.mark.parametrize(
    "chosen",
    [
        ("--ordering", "opic"),
        ("--ordering", "sibling-sampling"),
        (
            "--ordering",
            "combined",
            "-s",
            'ORDERING_OPTIONS={"weights": {"opic": 1, "location": 1}}',
        ),
        ("--ordering", "pagerank", "-s", 'ORDERING_OPTIONS={"every": 1}'),
        ("--ordering", "opic", "-s", "TOPIC=page-1, words"),
    ],
    ids=lambda chosen: chosen[1],
)
def test_one_worker_with_one_fetch_at_a_time_has_the_order_of_a_local_crawl(
    crawl: Shared, chosen: tuple[str, ...]
) -> None:
    at_once = ("--delay", "0", "--at-once", "1", "--pages", "120", *chosen)
    crawl.start(1, *at_once)
    assert crawl.end() == [0], crawl.logs()
    there = pages_in_order(crawl.web)
    crawl.web.seen.clear()
    here = [
        *(sys.executable, "-m", "crawlprio", "crawl", crawl.web.url(0), "--follow", "web"),
        *("-s", "CRAWLPRIO_PRIVATE_NETWORKS=127.0.0.0/8", "-s", "CRAWLPRIO_COMPILE=False"),
        *at_once,
    ]
    subprocess.run(here, cwd=crawl.folder, check=True, capture_output=True, timeout=120)
    assert len(there) == 120
    assert there == pages_in_order(crawl.web)


def pages_in_order(web: LoggedWeb) -> list[tuple[str, str]]:
    seen = sorted(web.seen, key=lambda each: each.came)
    return [(each.site, each.path) for each in seen if each.path != "/robots.txt"]


MEDIA_SPIDER = """
from scrapy import Spider
from scrapy.crawler import CrawlerProcess


class Media(Spider):
    name = "media"
    start_urls = [{start!r}]
    custom_settings = {settings!r}

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            if "/page-" in link:
                yield response.follow(link)
        yield {{"url": response.url, "file_urls": [response.urljoin("/file-" + response.url[-1]),
                                                  response.urljoin("/private/file")]}}


if __name__ == "__main__":
    process = CrawlerProcess()
    process.crawl(Media)
    process.start()
"""


def test_any_spider_with_media_keeps_robots_and_delays_and_stores_items(crawl: Shared) -> None:
    web = crawl.web
    for number in range(10):
        web.others[f"/file-{number}"] = "text/plain", b"media"
    web.others["/private/file"] = "text/plain", b"secret"
    settings = {
        "ADDONS": {"crawlprio.Addon": 500},
        "SCHEDULER": "crawlprio.schedulers.RedisScheduler",
        "REDIS_URL": crawl.server.url,
        "SCHEDULER_PERSIST": True,
        "ROBOTSTXT_OBEY": True,
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(crawl.folder / "files"),
        "DOWNLOAD_DELAY": DELAY,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "CRAWLPRIO_PRIVATE_NETWORKS": ["127.0.0.0/8"],
        "CRAWLPRIO_LEASE_SECONDS": TERM,
        "CRAWLPRIO_COMPILE": False,
        "CRAWLPRIO_ITEMS": True,
        "CRAWLPRIO_MAX_PAGES": 40,
        "CRAWLPRIO_REDIS_CRAWL": "site",
        "FEEDS": {str(crawl.folder / "items-%(time)s.jsonl"): {"format": "jsonlines"}},
        "LOG_LEVEL": "INFO",
    }
    (crawl.folder / "media.py").write_text(MEDIA_SPIDER.format(start=web.url(0), settings=settings))
    for number in range(2):
        with open(crawl.folder / f"worker{number}.log", "ab") as log:
            crawl.workers.append(
                subprocess.Popen(
                    [sys.executable, "media.py"], stdout=log, stderr=log, cwd=crawl.folder
                )
            )
    assert crawl.end() == [0, 0], crawl.logs()
    assert min(web.starts()) >= DELAY
    fetches = web.fetches()
    assert not [url for url in fetches if "/private/" in url]
    assert sum(n for url, n in fetches.items() if "/page-" in url) >= 40
    assert len([url for url in fetches if "/file-" in url]) >= 8
    (n_items,) = crawl.rows("SELECT count(*) FROM items")[0]
    n_feed = sum(file.read_text().count("\n") for file in crawl.folder.glob("items-*.jsonl"))
    assert n_items == n_feed >= 40


class Proxy:
    """Passes bytes on to a server, and cuts its clients off from it on demand."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[socket.socket] = []
        self.is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
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


@pytest.mark.parametrize("is_healed", [False, True], ids=["for ever", "for a while"])
def test_a_running_brain_that_is_cut_off_from_redis_is_replaced(
    crawl: Shared, is_healed: bool
) -> None:
    proxy = Proxy(crawl.server.port)
    crawl.start(1, "-s", f"REDIS_URL=redis://127.0.0.1:{proxy.port}/0", brain="only")
    first = crawl.wait_for_brain()
    crawl.start(2)
    crawl.wait_for_fetches(30)
    proxy.cut()
    crawl.wait(lambda: crawl.brain() not in (first, None))
    if is_healed:
        proxy.is_cut = False
    assert crawl.end()[-2:] == [0, 0], crawl.logs()
    check_whole(crawl)


def test_a_worker_that_is_cut_off_from_redis_fetches_nothing_of_what_it_loses(
    crawl: Shared,
) -> None:
    proxy = Proxy(crawl.server.port)
    crawl.start()
    crawl.wait_for_brain()
    crawl.start(1, "-s", f"REDIS_URL=redis://127.0.0.1:{proxy.port}/0", brain="never")
    crawl.wait(lambda: len(crawl.mailbox.client.keys("*:out:*")) == 2)
    crawl.wait_for_fetches(30)
    proxy.cut()
    sleep(1.5 * TERM)
    proxy.is_cut = False
    assert crawl.end() == [0, 0], crawl.logs()
    check_whole(crawl, most_refetched=crawl.web.n_sites)


def test_a_site_with_several_fetches_at_once_keeps_its_delay_between_their_starts(
    crawl: Shared,
) -> None:
    crawl.web.latency = 0.9
    crawl.start(
        *(2, "--delay", "0.4", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=4", "--pages", "60"),
    )
    crawl.wait_for_fetches(40)
    os.kill(crawl.wait_for_brain(), signal.SIGKILL)
    assert crawl.end() == [0, 0], crawl.logs()
    assert min(crawl.web.starts()) >= 0.25, "0.4 s less what a start takes on a busy machine"
    assert min(crawl.web.rests()) < 0, "fetches overlap"
    assert max(crawl.visits().values()) == 1


def test_start_urls_that_others_push_are_fetched(crawl: Shared) -> None:
    client = crawl.server.client()
    crawl.start(
        *(1, "-s", "REDIS_START_URLS_KEY=%(name)s:start_urls"),
        *("-s", "MAX_IDLE_TIME_BEFORE_CLOSE=8", "--pages", "40", "--follow", "site"),
    )
    crawl.wait_for_fetches(10)
    lonely = f"http://{crawl.web.host(0)}:{crawl.web.port}/lonely.html"
    crawl.web.others["/lonely.html"] = "text/html", b"<html><title>Lonely</title>no links</html>"
    client.rpush("site:start_urls", lonely)
    assert crawl.end() == [0], crawl.logs()
    assert crawl.visits()[lonely] == 1


def test_what_a_robots_txt_forbids_or_delays_is_so_for_all_workers(crawl: Shared) -> None:
    crawl.web.robots = b"User-agent: *\nCrawl-delay: 1\nDisallow: /private/\nDisallow: /page-9\n"
    crawl.web.n_pages = 40
    crawl.start(2)
    assert crawl.end() == [0, 0], crawl.logs()
    assert not [url for url in crawl.web.fetches() if "/private" in url or "/page-9" in url]
    assert min(crawl.web.rests()[1:]) >= DELAY
    by_site = crawl.web.page_rests()
    assert min(by_site) >= 1.0


def test_a_site_whose_robots_txt_cannot_be_read_is_left_alone_by_all(crawl: Shared) -> None:
    crawl.web.robots_status = 503
    crawl.start(2, "-s", "RETRY_ENABLED=False")
    assert set(crawl.end()) <= {0, 1}, crawl.logs()
    assert not crawl.web.fetches()
    assert sum(each.path == "/robots.txt" for each in crawl.web.seen) <= 3


def frontier_command(crawl: Shared, *words: str) -> str:
    line = [sys.executable, "-m", "crawlprio", "frontier", *words]
    line += ["-s", f"REDIS_URL={crawl.server.url}"]
    return subprocess.run(line, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_crawl_is_shown_paused_resumed_drained_and_deleted(crawl: Shared) -> None:
    crawl.start(1, "--delay", "1")
    crawl.wait_for_fetches(20)
    assert frontier_command(crawl).splitlines()[1].split()[:2] == ["site", "running"]
    assert "no pages are handed out" in frontier_command(crawl, "pause", "site")
    sleep(1.0)
    n_fetched = len(crawl.web.seen)
    shown = frontier_command(crawl, "show", "site")
    assert shown.startswith("site: paused, sibling-sampling")
    assert "Workers" in shown
    assert "Next pages" in shown
    sleep(1.0)
    assert len(crawl.web.seen) == n_fetched
    frontier_command(crawl, "resume", "site")
    crawl.wait_for_fetches(n_fetched + 5)
    frontier_command(crawl, "drain", "site")
    assert crawl.end() == [0], crawl.logs()
    assert len(crawl.web.seen) < crawl.web.n_pages
    assert "kept" in frontier_command(crawl, "delete", "site", "--yes")
    assert frontier_command(crawl) == "There is no crawl in Redis.\n"


def test_sitemaps_archive_and_values_are_those_of_a_crawl_alone(crawl: Shared) -> None:
    web = crawl.web
    lonely = f"http://{web.host(0)}:{web.port}/lonely.html"
    sitemap = f"<urlset><url><loc>{lonely}</loc></url></urlset>"
    web.others["/sitemap.xml"] = "application/xml", sitemap.encode()
    web.others["/lonely.html"] = "text/html", b"<html><title>Lonely</title>no links</html>"
    crawl.start(
        2,
        *("--warc", "warc", "--value", "words:words", "--keep-text"),
        *("--sitemaps", f"http://{web.host(0)}:{web.port}/sitemap.xml"),
    )
    assert crawl.end() == [0, 0], crawl.logs()
    index = "".join(file.read_text() for file in (crawl.folder / "warc").glob("*.cdxj"))
    assert len(index.splitlines()) == len(web.seen)
    rows = crawl.rows("SELECT title, text, value FROM page_values JOIN visits USING (seq)")
    assert len(rows) == web.n_pages + 1
    assert {row[2] for row in rows} != {0.0}
    assert lonely in crawl.visits()


def test_a_worker_with_other_settings_is_refused(crawl: Shared) -> None:
    crawl.start(1, "--delay", "2")
    crawl.wait_for_fetches(10)
    crawl.start(1, "--delay", "3")
    assert crawl.workers[1].wait(60) != 0
    assert "was begun with DOWNLOAD_DELAY 2.0, but this worker has 3.0" in crawl.log()
    crawl.start(1, "--delay", "2", "--allow", "page")
    assert crawl.workers[2].wait(60) != 0
    assert "was begun with allow none, but this worker has page" in crawl.log()
    crawl.workers[0].send_signal(signal.SIGINT)
    assert crawl.end() == [0], crawl.logs()


@pytest.mark.parametrize("seed", range(N_RUNS))
def test_any_sequence_of_faults_loses_and_doubles_nothing(crawl: Shared, seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    n_fetched, n_faults = 10, 0
    stopped: list[tuple[float, int]] = []
    crawl.start(3)
    while n_fetched < 0.9 * crawl.web.n_pages:
        crawl.wait(lambda n=n_fetched: len(crawl.web.seen) >= n or _wake(stopped), 180)  # type: ignore[misc]
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
                stopped.append((monotonic() + rng.uniform(0.5, 2 * TERM), brain))
        if fault == "kill hand" and awake:
            worker = rng.choice(awake)
            worker.kill()
            worker.wait()
            crawl.start()
        if fault == "stop hand" and len(awake) > 1:
            number = rng.choice(awake).pid
            os.kill(number, signal.SIGSTOP)
            stopped.append((monotonic() + rng.uniform(0.5, 2 * TERM), number))
        if fault in ("redis", "both"):
            crawl.server.kill()
            sleep(rng.uniform(0, 2))
            crawl.server.start()
        n_fetched = len(crawl.web.seen) + rng.randrange(1, 40)
    crawl.wait(lambda: _wake(stopped) or not stopped)
    assert set(crawl.end()) == {0}, crawl.logs()
    check_whole(crawl, most_refetched=n_faults * crawl.web.n_sites)


def _wake(stopped: list[tuple[float, int]]) -> bool:
    """Let processes go on whose time has come; always False."""
    for until, number in [*stopped]:
        if monotonic() >= until:
            stopped.remove((until, number))
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)
    return False
