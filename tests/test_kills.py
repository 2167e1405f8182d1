"""A crawl that is killed again and again, at any moment, ends like an undisturbed one.

By default it is killed four times. `CRAWLPRIO_KILLS=100 pytest tests/test_kills.py` kills it a
hundred and fifty times, in crawls of 2,000 pages. `CRAWLPRIO_KILLS_SEED` draws other moments.
"""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
from collections import Counter
from time import monotonic
from typing import NamedTuple

import pytest
from crawls import Site, options, page, signalled
from forked import Forked, run_forked
from waiting import until

from crawlprio.demo.server import LoopbackServer

N_KILLS = int(os.environ.get("CRAWLPRIO_KILLS", "4"))
N_PAGES = 2_000 if "CRAWLPRIO_KILLS" in os.environ else 300
SEED = int(os.environ.get("CRAWLPRIO_KILLS_SEED", "20261121"))
KILLS_PER_CRAWL = max(N_KILLS // 10, 5)

ONE_AT_A_TIME = {"ORDERING": "opic", "CONCURRENT_REQUESTS": 1}
DEFAULT = {**ONE_AT_A_TIME, "ORDERING": "sibling-sampling"}
MANY_AT_ONCE = {
    "ORDERING": "backlink-count",
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
}
SETTINGS = {
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "RETRY_ENABLED": False,
    # Otherwise the links followed depend on the path by which a page was first reached, and with
    # many fetches at once that differs from crawl to crawl.
    "CRAWLPRIO_MAX_STATIC_DEPTH": None,
    "CRAWLPRIO_MAX_DYNAMIC_DEPTH": None,
    "CRAWLPRIO_PRINT": False,
    "LOG_LEVEL": "WARNING",
    "JOBDIR": "job",
}


class Ended(NamedTuple):
    """What a crawl leaves behind: its visits in order, its links sorted, the requests per page."""

    order: list[str]
    links: list[tuple[str, ...]]
    asked_for: Counter[str]


class Killed(NamedTuple):
    """One kill: its time, in seconds since the start of the process, and the number of visits."""

    seconds: float
    n_visits: int
    got_on: bool
    """Whether this run completed a visit of its own."""
    of_finished: list[str]
    """Pages requested in this run although their visits were already recorded."""


class Web:
    """The demo web, served by a process that outlives the crawls and logs each request."""

    def __init__(self, folder):
        self.log = folder / "server.jsonl"
        self.server = LoopbackServer(pages=N_PAGES, sites=N_PAGES // 40, seed=1, log=self.log)

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop()

    def asked_for(self):
        """Return the URLs requested so far, in order of the responses."""
        return [json.loads(line)["url"] for line in self.log.read_text().splitlines()]

    def crawl(self, folder, settings):
        """Start a crawl in `folder`, or resume the one that is there."""
        handler = "crawlprio.demo.handler.LoopbackHandler"
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = crawlprio.settings\n")
        loopback = {
            "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
            "CRAWLPRIO_LOOPBACK": self.server.address,
        }
        words = [
            *("crawl", "site", "-a", f"seeds={','.join(self.server.seeds)}"),
            *("-a", "follow=web", "-a", r"allow=^https?://[^/]*\.example/"),
            *("-a", "deny=[?]month=", *options({**SETTINGS, **loopback, **settings})),
        ]
        return Forked("scrapy", words, folder, stdout=folder / "log.txt")


def query(folder, sql):
    """Query the store of a crawl; return nothing until it exists."""
    store = folder / "job" / "crawl.sqlite"
    if not store.exists():
        return []
    # Read-only, so that the log that a kill leaves behind stays for the crawl to recover from.
    uri = f"{store.as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=30)) as db:
        try:
            return db.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise


def said(folder):
    """Return what the crawls in a folder wrote to the terminal: warnings and errors."""
    return (folder / "log.txt").read_text()[-3000:]


def visited(folder):
    sql = "SELECT url FROM visits JOIN pages ON pages.id = page ORDER BY seq"
    return [url for (url,) in query(folder, sql)]


def n_visited(folder):
    rows = query(folder, "SELECT max(seq) FROM visits")
    return int(rows[0][0] or 0) if rows else 0


def ended(folder, asked_for):
    links = query(folder, "SELECT source_url, target_url, anchor FROM link_urls ORDER BY 1, 2, 3")
    return Ended(visited(folder), links, Counter(asked_for))


def undisturbed(web, folder, settings):
    """Crawl to the end; return what is left, and the seconds it took."""
    folder.mkdir()
    before = len(web.asked_for())
    started_at = monotonic()
    assert web.crawl(folder, settings).wait(timeout=600) == 0, said(folder)
    return ended(folder, web.asked_for()[before:]), monotonic() - started_at


def crawl_until_killed(web, folder, settings, n_more, seconds):
    """Crawl until `n_more` more visits and some seconds; return None if the crawl ended before."""
    finished = set(visited(folder))
    before = len(web.asked_for())
    n_before = n_visited(folder)
    started_at = monotonic()
    process = web.crawl(folder, settings)
    until(lambda: process.poll() is not None or n_visited(folder) >= n_before + n_more)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    if process.poll() is not None:
        assert process.returncode == 0, said(folder)
        return None
    process.kill()
    process.wait()
    killed_after = monotonic() - started_at
    again = [url for url in web.asked_for()[before:] if url in finished]
    n_visits = n_visited(folder)
    return Killed(killed_after, n_visits, n_visits > n_before, again)


def moments(choose, n_kills, start_seconds):
    """Return when to kill: a quarter while the process starts, the others after so many visits."""
    for _ in range(n_kills):
        if choose.random() < 0.25:
            yield 0, choose.uniform(0.0, start_seconds)
        else:
            yield choose.randint(1, N_PAGES // n_kills), choose.uniform(0.0, 0.02)


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    with Web(tmp_path_factory.mktemp("web")) as served:
        yield served


@pytest.mark.parametrize(
    "settings", [ONE_AT_A_TIME, DEFAULT, MANY_AT_ONCE], ids=["opic", "default", "many at once"]
)
def test_a_crawl_killed_at_random_moments_reaches_every_page_and_fetches_none_twice(
    tmp_path, web, settings
):
    print("seed", SEED)
    choose = random.Random(SEED + len(str(settings)))
    whole, seconds = undisturbed(web, tmp_path / "undisturbed", settings)
    print(f"undisturbed: {len(whole.order)} visits, {len(whole.links)} links, {seconds:.1f} s")
    assert len(set(whole.order)) == len(whole.order) > N_PAGES / 2
    n_at_once = int(str(settings["CONCURRENT_REQUESTS"]))
    kills = []
    crawl = 0
    while len(kills) < N_KILLS // 2:
        crawl += 1
        folder = tmp_path / f"killed {crawl}"
        folder.mkdir()
        before = len(web.asked_for())
        n_kills = min(KILLS_PER_CRAWL, N_KILLS // 2 - len(kills))
        for n_more, delay in moments(choose, n_kills, 1.0):
            killed = crawl_until_killed(web, folder, settings, n_more, delay)
            if killed is None:
                break
            kills.append(killed)
            print(f"crawl {crawl}: {killed.n_visits} visits when killed at {killed.seconds:.2f} s")
            assert killed.of_finished == []
            if n_at_once == 1:
                assert visited(folder) == whole.order[: killed.n_visits]
        finished = set(visited(folder))
        so_far = len(web.asked_for())
        assert web.crawl(folder, settings).wait(timeout=600) == 0, said(folder)
        assert [url for url in web.asked_for()[so_far:] if url in finished] == []
        found = ended(folder, web.asked_for()[before:])
        if n_at_once == 1:
            assert found.order == whole.order
        assert sorted(found.order) == sorted(whole.order)
        assert found.links == whole.links
        n_again = sum(found.asked_for.values()) - len(found.asked_for)
        print(f"crawl {crawl}: {n_again} fetches cut off by {n_kills} kills and made again")
        assert n_again <= n_kills * n_at_once
        assert said(folder) == ""
    n_getting_on = sum(kill.got_on for kill in kills)
    print(f"{len(kills)} kills in {crawl} crawls, {n_getting_on} of them after a further visit")


WAITING_CALLBACK = """
import asyncio, os, sys
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess

class Waiting(Spider):
    name = "waiting"
    start_urls = ["http://a.test/"]

    async def parse(self, response):
        for n in range(25):
            yield response.follow(f"/{n}", self.parse_leaf, dont_filter=True)
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)
        yield response.follow("/last", self.parse_leaf, dont_filter=True)

    def parse_leaf(self, response):
        if sys.argv[3] == "errback":
            raise ValueError
        yield {"url": response.url}

class Failing(Waiting):
    start_urls = []

    async def start(self):
        yield Request("http://a.test/missing", errback=self.recover, dont_filter=True)

    async def recover(self, failure):
        async for request in self.parse(failure.value.response):
            yield request

handler = "crawlprio.demo.handler.LoopbackHandler"
process = AsyncCrawlerProcess({
    "ADDONS": {"crawlprio.Addon": 500}, "JOBDIR": "job", "ROBOTSTXT_OBEY": False,
    "DOWNLOAD_HANDLERS": {"http": handler, "https": handler}, "CRAWLPRIO_LOOPBACK": sys.argv[1],
    "LOG_LEVEL": "CRITICAL", "TELNETCONSOLE_ENABLED": False, "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS": int(sys.argv[2]), "CRAWLPRIO_PRINT": False,
})
process.crawl(Failing if sys.argv[3] == "errback" else Waiting)
process.start()
"""


@pytest.mark.parametrize("n_at_once", [1, 4])
@pytest.mark.parametrize("of", ["callback", "errback"])
def test_what_a_callback_yields_before_it_awaits_is_not_fetched_again_after_a_kill(
    tmp_path, of, n_at_once
):
    script = tmp_path / "waiting.py"
    script.write_text(WAITING_CALLBACK)
    leaves = [f"/{n}" for n in range(25)]
    with Site({name: page() for name in ("/", *leaves, "/last")}) as site:
        words = [site.address, n_at_once, of]
        for n_fetched in (10, 20):
            signalled(
                *(script, words, tmp_path, signal.SIGKILL),
                lambda said, least=n_fetched: n_visited(tmp_path) >= least,
            )
        (tmp_path / "go").touch()
        run_forked(script, words, tmp_path, check=True)
    again = Counter(site.paths()) - Counter(set(site.paths()))
    of_page = again.pop("/" if of == "callback" else "/missing")
    assert set(site.paths()) >= {*leaves, "/last"}
    assert of_page == 2  # its callback was running at both kills
    assert sum(again.values()) <= 2 * n_at_once, again
    query_left = "SELECT (SELECT count(*) FROM requests) + (SELECT count(*) FROM yielded)"
    assert query(tmp_path, query_left) == [(0,)]
