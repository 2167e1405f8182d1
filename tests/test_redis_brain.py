"""Workers whose brain is heard through Redis, judged by a server's log and the true graph alone."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from forked import run_forked
from logged_web import LoggedWeb
from redis_servers import (
    RedisServer,
    require_redis,
)
from shared_crawls import DELAY, PATIENCE, InRedis, Run, crawl_in_redis, logged_web
from watched_crawls import ADDRESS, Client

from crawlprio.commands import cli
from crawlprio.plugins.shared.far_crawls import FarCrawls

web, crawl = logged_web, crawl_in_redis


def test_two_workers_get_every_page_once_and_keep_robots_and_delays(crawl: InRedis) -> None:
    crawl.ordering = "sibling-sampling"
    crawl.start(2, "-s", "SCHEDULER_PERSIST=False")
    crawl.wait_for_fetches(20)
    for body in (b"\x80\x04pickle", b"[]", b'{"a": 1}'):
        crawl.mailbox.send("nobody", [(0, [(1, body)])])
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole()
    assert crawl.said().count("A message in Redis is none of crawlprio:") == 3
    assert min(crawl.web.rests()) >= DELAY
    n_robots = sum(each.path == "/robots.txt" for each in crawl.web.seen)
    assert n_robots == crawl.web.n_sites
    receipt = json.loads((crawl.store.parent / "receipt.json").read_text())
    assert receipt["got"]["pages"] == crawl.web.n_pages
    assert crawl.server.client().keys("*") == []


def test_a_site_that_a_seed_redirects_to_is_followed_by_all_workers(crawl: InRedis) -> None:
    web = crawl.web
    web.redirects[web.url(0)] = web.url(1)
    crawl.start(2, "--follow", "site")
    assert crawl.end() == [0, 0], crawl.said()
    of_site = {web.url(page) for page in range(1, web.n_pages, web.n_sites)}
    assert of_site <= set(web.fetches())
    assert {url.split("/")[2] for url in web.fetches()} == {
        f"{web.host(number)}:{web.port}" for number in (0, 1)
    }
    assert max(crawl.visits().values()) == 1


def test_ctrl_c_lets_workers_finish_and_the_crawl_goes_on_later(crawl: InRedis) -> None:
    crawl.start(2)
    crawl.wait_for_fetches(40)
    for worker in crawl.alive():
        worker.send_signal(signal.SIGINT)
    assert crawl.end() == [0, 0], crawl.said()
    n_fetched = crawl.web.fetches().total()
    assert crawl.visits().total() == n_fetched < crawl.web.n_pages
    crawl.start(2)
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole()


def test_a_worker_without_the_folder_of_the_crawl_is_no_brain(crawl: InRedis) -> None:
    crawl.start()
    crawl.wait_for_fetches(40)
    crawl.alive()[0].send_signal(signal.SIGINT)
    assert crawl.end() == [0]
    crawl.cwd = crawl.folder / "elsewhere"
    crawl.cwd.mkdir()
    crawl.start()
    crawl.wait(lambda: "can be no brain" in crawl.said())
    crawl.cwd = crawl.folder
    crawl.start(brain="only")
    crawl.workers.pop()
    assert crawl.end() == [0], crawl.said()
    crawl.check_whole()


@pytest.mark.parametrize(
    "chosen",
    [
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
    crawl: InRedis, chosen: tuple[str, ...]
) -> None:
    at_once = ("--delay", "0", "--at-once", "1", "--pages", "120", *chosen)
    crawl.start(1, *at_once)
    assert crawl.end() == [0], crawl.said()
    there = pages_in_order(crawl.web)
    crawl.web.seen.clear()
    here = [
        *("crawl", crawl.web.url(0), "--follow", "web", *at_once),
        *("-s", "CRAWLPRIO_PRIVATE_NETWORKS=127.0.0.0/8", "-s", "CRAWLPRIO_COMPILE=False"),
    ]
    assert run_forked("crawlprio", here, crawl.folder).returncode == 0
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


def test_any_spider_with_media_keeps_robots_and_delays_and_stores_items(crawl: InRedis) -> None:
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
        "CRAWLPRIO_LEASE_SECONDS": crawl.term,
        "CRAWLPRIO_COMPILE": False,
        "CRAWLPRIO_ITEMS": True,
        "CRAWLPRIO_MAX_PAGES": 40,
        "CRAWLPRIO_REDIS_CRAWL": "site",
        "FEEDS": {str(crawl.folder / "items-%(time)s.jsonl"): {"format": "jsonlines"}},
        "LOG_LEVEL": "INFO",
    }
    for _ in range(2):
        crawl.run_script(MEDIA_SPIDER.format(start=web.url(0), settings=settings))
    assert crawl.end() == [0, 0], crawl.said()
    assert min(web.starts()) >= DELAY
    fetches = web.fetches()
    assert not [url for url in fetches if "/private/" in url]
    assert sum(n for url, n in fetches.items() if "/page-" in url) >= 40
    assert len([url for url in fetches if "/file-" in url]) >= 8
    (n_items,) = crawl.rows("SELECT count(*) FROM items")[0]
    n_feed = sum(file.read_text().count("\n") for file in crawl.folder.glob("items-*.jsonl"))
    assert n_items == n_feed >= 40


def test_a_site_with_several_fetches_at_once_keeps_its_delay_between_their_starts(
    crawl: InRedis,
) -> None:
    crawl.web.latency = 0.9
    crawl.start(
        *(2, "--delay", "0.4", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=4", "--pages", "60"),
    )
    crawl.wait_for_fetches(40)
    crawl.kill_brain()
    assert crawl.end() == [0, 0], crawl.said()
    assert min(crawl.web.starts()) >= 0.25, "0.4 s less what a start takes on a busy machine"
    assert min(crawl.web.rests()) < 0, "fetches overlap"
    assert max(crawl.visits().values()) == 1


def test_start_urls_that_others_push_are_fetched(crawl: InRedis) -> None:
    client = crawl.server.client()
    crawl.start(
        *(1, "-s", "REDIS_START_URLS_KEY=%(name)s:start_urls"),
        *("-s", "MAX_IDLE_TIME_BEFORE_CLOSE=8", "--pages", "40", "--follow", "site"),
    )
    crawl.wait_for_fetches(10)
    lonely = f"http://{crawl.web.host(0)}:{crawl.web.port}/lonely.html"
    crawl.web.others["/lonely.html"] = "text/html", b"<html><title>Lonely</title>no links</html>"
    client.rpush("site:start_urls", lonely)
    assert crawl.end() == [0], crawl.said()
    assert crawl.visits()[lonely] == 1


def test_what_a_robots_txt_forbids_or_delays_is_so_for_all_workers(crawl: InRedis) -> None:
    crawl.web.robots = b"User-agent: *\nCrawl-delay: 1\nDisallow: /private/\nDisallow: /page-9\n"
    crawl.web.n_pages = 40
    crawl.start(2)
    assert crawl.end() == [0, 0], crawl.said()
    assert not [url for url in crawl.web.fetches() if "/private" in url or "/page-9" in url]
    assert min(crawl.web.rests()[1:]) >= DELAY
    by_site = crawl.web.page_rests()
    assert min(by_site) >= 1.0


def test_a_site_whose_robots_txt_cannot_be_read_is_left_alone_by_all(crawl: InRedis) -> None:
    crawl.web.robots_status = 503
    crawl.start(2, "-s", "RETRY_ENABLED=False")
    assert set(crawl.end()) <= {0, 1}, crawl.said()
    assert not crawl.web.fetches()
    assert sum(each.path == "/robots.txt" for each in crawl.web.seen) <= 3


def frontier_command(crawl: InRedis, *words: str) -> str:
    said = StringIO()
    with redirect_stdout(said), pytest.raises(SystemExit) as ended:
        cli.main(["frontier", *words, "-s", f"REDIS_URL={crawl.server.url}"])
    assert not ended.value.code
    return said.getvalue()


def test_a_crawl_is_shown_paused_resumed_drained_and_deleted(crawl: InRedis) -> None:
    def shown() -> dict[str, Any]:
        return FarCrawls(crawl.server.client()).overview("site")

    def wait_for_reports() -> None:
        """Wait for the second report of the brain from now, which knows what it was told before."""
        since = shown()["workers"][0]["age"]
        crawl.wait(lambda: shown()["workers"][0]["age"] > since + 3)

    crawl.start(1, "--delay", "3")
    crawl.wait_for_fetches(20)
    assert frontier_command(crawl).splitlines()[1].split()[:2] == ["site", "running"]
    assert "no pages are handed out" in frontier_command(crawl, "pause", "site")
    wait_for_reports()
    crawl.wait(lambda: shown()["counts"]["leased"] == 0)
    n_fetched = len(crawl.web.seen)
    text = frontier_command(crawl, "show", "site")
    assert text.startswith("site: paused, opic")
    assert "Workers" in text
    assert "Next pages" in text
    wait_for_reports()
    assert len(crawl.web.seen) == n_fetched
    frontier_command(crawl, "resume", "site")
    crawl.wait_for_fetches(n_fetched + 5)
    frontier_command(crawl, "drain", "site")
    assert crawl.end() == [0], crawl.said()
    assert len(crawl.web.seen) < crawl.web.n_pages
    assert "kept" in frontier_command(crawl, "delete", "site", "--yes")
    assert frontier_command(crawl) == "There is no crawl in Redis.\n"


def test_sitemaps_archive_and_values_are_those_of_a_crawl_alone(crawl: InRedis) -> None:
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
    assert crawl.end() == [0, 0], crawl.said()
    index = "".join(file.read_text() for file in (crawl.folder / "warc").glob("*.cdxj"))
    assert len(index.splitlines()) == len(web.seen)
    rows = crawl.rows("SELECT title, text, value FROM page_values JOIN visits USING (seq)")
    assert len(rows) == web.n_pages + 1
    assert {row[2] for row in rows} != {0.0}
    assert lonely in crawl.visits()


def test_a_worker_with_other_settings_is_refused(crawl: InRedis) -> None:
    crawl.start(1, "--delay", "2")
    crawl.wait_for_fetches(10)
    crawl.start(1, "--delay", "3")
    assert crawl.workers[1].wait(PATIENCE) != 0
    assert "was begun with DOWNLOAD_DELAY 2.0, but this worker has 3.0" in crawl.said()
    crawl.start(1, "--delay", "2", "--allow", "page")
    assert crawl.workers[2].wait(PATIENCE) != 0
    assert "was begun with allow none, but this worker has page" in crawl.said()
    crawl.workers[0].send_signal(signal.SIGINT)
    assert crawl.end() == [0], crawl.said()


def test_limits_of_pages_hold_for_all_workers_together(crawl: InRedis) -> None:
    site = ("-s", "CRAWLPRIO_MAX_PAGES_PER_SITE=6")
    crawl.start(3, "--pages", "40", *site)
    assert crawl.end() == [0, 0, 0], crawl.said()
    assert crawl.visits().total() == 40
    assert crawl.web.fetches().total() == 40
    assert max(Counter(url.split("/")[2] for url in crawl.visits()).values()) <= 6


def test_a_crawl_moves_to_workers_and_back_and_its_store_is_copied(
    crawl: InRedis, tmp_path: Path
) -> None:
    alone = Run(tmp_path / "job", crawl.web, "--pages", "40", workers=0)
    assert alone.start().end() == 0, alone.said()
    crawl.job = alone.folder
    crawl.start(2, "--delay", "1")
    crawl.wait_for_fetches(90)
    FarCrawls(crawl.server.client()).set_state("site", "draining")
    assert crawl.end() == [0, 0], crawl.said()
    assert 90 <= len(crawl.web.seen) < crawl.web.n_pages
    asked_again = ("-s", "CRAWLPRIO_FRONTIER=local", "-s", f"REDIS_URL={crawl.server.url}")
    alone.more = (*alone.options(), *asked_again)
    assert alone.start().end() == 0, alone.said()
    crawl.check_whole()
    copy = tmp_path / "copy.sqlite"
    words = ["links", "collect", "site", str(copy), "-s", f"REDIS_URL={crawl.server.url}"]
    collected = run_forked("crawlprio", words, tmp_path)
    (n_visits,) = crawl.rows("SELECT count(*) FROM visits")[0]
    assert f"{n_visits} visits and" in collected.stdout
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT count(*) FROM link_urls").fetchone() == (len(crawl.pairs()),)
    again = run_forked("crawlprio", words, tmp_path)
    assert again.stderr == f"{copy}: the file exists; name a new one.\n"


def test_a_crawl_of_the_same_name_begins_anew_in_a_folder_of_its_own(crawl: InRedis) -> None:
    crawl.start(1, "--pages", "20")
    assert crawl.end() == [0], crawl.said()
    crawl.start(1, "--pages", "30", "-s", "SCHEDULER_FLUSH_ON_START=True")
    assert crawl.end() == [0], crawl.said()
    assert crawl.visits().total() == 30
    crawl.job = crawl.folder / "crawls" / "site.1"
    assert crawl.visits().total() == 20


ODD_SPIDER = """
import os

import crawlprio
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess


class LongestFirst(crawlprio.Ordering):
    def observe(self, visit):
        for target in visit.targets:
            self.keys[target] = len(self.pages.url(target))
        return visit.targets

    def site_key(self, site, best_key, n_waiting):
        return -best_key


class Odd(Spider):
    name = "odd"
    start_urls = ["data:,text", {start!r}]
    custom_settings = {settings!r}

    def parse(self, response):
        yield {{"from": response.url[:5]}}
        if response.url.startswith("data:"):
            return
        yield Request({start!r} + "?lambda", lambda response: None)
        yield Request({start!r}[:-1] + "8", self.parse_thing, meta={{"n": 3}})

    def parse_thing(self, response):
        if response.meta["n"] == 3:
            os._exit(9)


if __name__ == "__main__":
    process = CrawlerProcess()
    process.crawl(Odd)
    process.start()
"""


def test_what_cannot_be_written_as_json_is_dropped_and_a_page_that_kills_is_a_dead_letter(
    crawl: InRedis,
) -> None:
    settings = {
        **{"ADDONS": {"crawlprio.Addon": 500}, "CRAWLPRIO_FRONTIER": "redis"},
        **{"REDIS_URL": crawl.server.url, "SCHEDULER_PERSIST": True, "LOG_LEVEL": "INFO"},
        **{"CRAWLPRIO_PRIVATE_NETWORKS": ["127.0.0.0/8"], "CRAWLPRIO_LEASE_SECONDS": 2.0},
        **{"CRAWLPRIO_REDIS_CRAWL": "site", "CRAWLPRIO_COMPILE": False, "DOWNLOAD_DELAY": 1.0},
        **{"ORDERING": "__main__.LongestFirst", "ORDERING_OPTIONS": {"site_share": 1}},
    }
    script = ODD_SPIDER.format(start=crawl.web.url(0), settings=settings)
    for _ in range(4):
        crawl.run_script(script)
    crawl.wait(lambda: "is silent; its" in crawl.said())
    crawl.kill_brain()  # the next one knows how many workers have died with a page
    crawl.end()
    assert sorted(worker.wait(0) for worker in crawl.workers) == [0, 9, 9, 9], crawl.said()
    assert "It is dropped because other workers could not fetch it" in crawl.said()
    rows = crawl.rows("SELECT url, error FROM visits JOIN pages ON id = page WHERE error != ''")
    assert rows == [(crawl.web.url(8), "worker died")]


FAILING_SPIDER = """
import redis
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess


class Failing(Spider):
    name = "failing"

    async def start(self):
        client = redis.Redis.from_url({url!r})
        client.delete("crawlprio:{{failing:0}}:in")
        client.set("crawlprio:{{failing:0}}:in", "no stream")
        try:
            await self.crawler.engine.download_async(Request("http://127.0.0.1:1/media"))
        except Exception as error:
            print(type(error).__name__, flush=True)
        for request in ():
            yield request


process = CrawlerProcess(
    {{"ADDONS": {{"crawlprio.Addon": 500}}, "CRAWLPRIO_FRONTIER": "redis", "REDIS_URL": {url!r},
      "CRAWLPRIO_BRAIN": "never", "CRAWLPRIO_LEASE_SECONDS": 4, "CRAWLPRIO_COMPILE": False}}
)
process.crawl(Failing)
process.start()
"""


def test_a_request_without_a_lease_does_not_wait_for_a_frontier_that_failed(
    crawl: InRedis,
) -> None:
    crawl.run_script(FAILING_SPIDER.format(url=crawl.server.url))
    crawl.workers[0].wait(PATIENCE)
    assert "\nIgnoreRequest\n" in crawl.said()
    assert "The frontier in Redis is unusable" in crawl.said()


def test_the_live_view_of_a_brain_shows_pauses_and_stops_all_workers(crawl: InRedis) -> None:
    crawl.start(2, "--monitor", "0")
    crawl.wait(lambda: ADDRESS.search(crawl.said()))
    told = ADDRESS.search(crawl.said())
    assert told is not None
    client = Client(int(told[1]), told[2])
    crawl.wait_for_fetches(20)
    crawl.wait(lambda: len(client.state()["tables"]["workers"]) == 2)
    assert client.post("/first", url=crawl.web.url(crawl.web.n_pages - 1)).status in (200, 409)
    assert client.post("/pause").body["said"].startswith("Paused")
    crawl.wait(lambda: not client.state()["tables"]["flight"])
    n_before = len(crawl.web.seen)
    crawl.wait(lambda: client.state()["state"] == "paused")
    assert client.post("/resume").status == 200
    crawl.wait_for_fetches(n_before + 5)
    assert client.post("/stop").status == 200
    assert crawl.end() == [0, 0], crawl.said()
    assert len(crawl.web.seen) < crawl.web.n_pages


def test_no_log_and_no_key_tells_the_password_of_the_server(tmp_path: Path, web: LoggedWeb) -> None:
    require_redis()
    (tmp_path / "guarded").mkdir()
    server = RedisServer(tmp_path / "guarded")
    server.start()
    server.client().config_set("requirepass", "hush")
    server.url = server.url.replace("//", "//:hush@")
    crawl = InRedis(tmp_path, web, server=server)
    try:
        crawl.start(1, "--pages", "20", "-s", "LOG_LEVEL=DEBUG")
        assert crawl.end() == [0], crawl.said()
        client = server.client()
        dumped = b"".join(client.dump(key) for key in client.keys("*"))
        assert dumped
        shown = frontier_command(crawl, "show", "site")
        files = [*tmp_path.glob("*.log"), *crawl.store.parent.iterdir()]
        kept = b"".join(file.read_bytes() for file in files if file.is_file())
        assert b"hush" not in dumped + shown.encode() + kept
    finally:
        crawl.stop()
        server.kill()


def test_a_crawl_that_is_drained_while_a_worker_hangs_has_not_finished(crawl: InRedis) -> None:
    """Scrapy's engine looks every five seconds whether anything is left."""
    crawl.term = 60.0
    crawl.start(1, "--delay", "1")
    crawl.wait_for_fetches(5)
    worker = crawl.workers[0]
    os.kill(worker.pid, signal.SIGSTOP)
    frontier_command(crawl, "drain", "site")
    sleep(6)
    os.kill(worker.pid, signal.SIGCONT)
    assert crawl.end() == [0], crawl.said()
    assert "has finished" not in crawl.said()
    assert crawl.rows("SELECT value FROM meta WHERE key = 'ended_because'") == [("drained",)]
