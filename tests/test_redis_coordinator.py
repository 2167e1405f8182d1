"""Workers whose coordinator is heard through Redis, judged by a server's log and the true graph
alone.
"""

import os
import signal
from collections import Counter
from time import sleep

from commands import run_command
from forked import run_forked
from shared_crawls import DELAY, OnOneMachine, shared_crawl
from stores import query

from crawlprio.live.roles import COORDINATOR
from crawlprio.plugins.shared.crawl_administration import CrawlAdministration

crawl = shared_crawl


def test_a_site_that_a_seed_redirects_to_is_followed_by_all_workers(crawl):
    web = crawl.web
    web.redirects[web.url(0)] = web.url(1)
    crawl.start(2, "--follow", "site")
    crawl.end()
    of_site = {web.url(page) for page in range(1, web.n_pages, web.n_sites)}
    assert of_site <= set(web.fetches())
    assert {url.split("/")[2] for url in web.fetches()} == {
        f"{web.host(number)}:{web.port}" for number in (0, 1)
    }
    assert max(crawl.visits().values()) == 1


def test_a_worker_without_the_folder_of_the_crawl_is_no_coordinator(crawl):
    crawl.start(1)
    crawl.wait_for_fetches(40)
    crawl.interrupt()
    crawl.end()
    crawl.cwd = crawl.folder / "elsewhere"
    crawl.cwd.mkdir()
    crawl.start(1)
    crawl.wait(lambda: "cannot start a coordinator" in crawl.said())
    crawl.cwd = crawl.folder
    crawl.start(1, CRAWLPRIO_COORDINATOR="only")
    crawl.end_whole()


MEDIA = """
class Media(scrapy.Spider):
    name = "media"

    def parse(self, response):
        yield from response.follow_all(css="a[href*=page-]")
        files = "/file-" + response.url[-1], "/private/file"
        yield {"url": response.url, "file_urls": [*map(response.urljoin, files)]}
"""


def test_any_spider_with_media_keeps_robots_and_delays_and_stores_items(crawl):
    web = crawl.web
    for number in range(10):
        web.others[f"/file-{number}"] = "text/plain", b"media"
    web.others["/private/file"] = "text/plain", b"secret"
    crawl.run_spider(
        MEDIA,
        2,
        ROBOTSTXT_OBEY=True,
        ITEM_PIPELINES={"scrapy.pipelines.files.FilesPipeline": 1},
        FILES_STORE=str(crawl.folder / "files"),
        DOWNLOAD_DELAY=DELAY,
        CONCURRENT_REQUESTS_PER_DOMAIN=1,
        CRAWLPRIO_ITEMS=True,
        CRAWLPRIO_MAX_PAGES=40,
        FEEDS={str(crawl.folder / "items-%(time)s.jsonl"): {"format": "jsonlines"}},
    )
    crawl.end()
    assert min(web.starts()) >= DELAY
    fetches = web.fetches()
    assert not [url for url in fetches if "/private/" in url]
    assert sum(n for url, n in fetches.items() if "/page-" in url) >= 40
    assert len([url for url in fetches if "/file-" in url]) >= 8
    (n_items,) = crawl.rows("SELECT count(*) FROM items")[0]
    n_feed = sum(file.read_text().count("\n") for file in crawl.folder.glob("items-*.jsonl"))
    assert n_items == n_feed >= 40


def test_what_a_robots_txt_forbids_or_delays_is_so_for_all_workers(crawl):
    crawl.web.robots = b"User-agent: *\nCrawl-delay: 1\nDisallow: /private/\nDisallow: /page-9\n"
    crawl.web.n_pages = 40
    crawl.start()
    crawl.end()
    assert not [url for url in crawl.web.fetches() if "/private" in url or "/page-9" in url]
    assert min(crawl.web.rests()[1:]) >= DELAY
    assert min(crawl.web.page_rests()) >= 1.0


def test_a_site_whose_robots_txt_cannot_be_read_is_left_alone_by_all(crawl):
    crawl.web.robots_status = 503
    crawl.start(2, RETRY_ENABLED=False)
    crawl.end({0, 1})
    assert not crawl.web.fetches()
    assert sum(each.path == "/robots.txt" for each in crawl.web.seen) <= 3


def test_a_crawl_is_shown_paused_resumed_drained_and_deleted(crawl, capsys):
    def command(*words):
        assert run_command("frontier", *words, "-s", f"REDIS_URL={crawl.server.url}") == 0
        return capsys.readouterr().out

    def shown():
        return CrawlAdministration(crawl.client).overview("site")

    def wait_for_reports():
        """Wait for the second report of the coordinator from now, which knows what it was told
        before.
        """
        since = shown()["workers"][0]["age"]
        crawl.wait(lambda: shown()["workers"][0]["age"] > since + 3)

    crawl.start(1, "--delay", "3")
    crawl.wait_for_fetches(20)
    assert command().splitlines()[1].split()[:2] == ["site", "running"]
    command("pause", "site")
    wait_for_reports()
    crawl.wait(lambda: shown()["counts"]["leased"] == 0)
    n_fetched = len(crawl.web.seen)
    text = command("show", "site")
    assert text.startswith("site: paused, opic")
    assert "Workers" in text
    assert "Next pages" in text
    wait_for_reports()
    assert len(crawl.web.seen) == n_fetched
    command("resume", "site")
    crawl.wait_for_fetches(n_fetched + 5)
    command("drain", "site")
    crawl.end()
    assert len(crawl.web.seen) < crawl.web.n_pages
    assert "kept" in command("delete", "site", "--yes")
    assert command() == "There is no crawl in Redis.\n"


def test_a_worker_with_other_settings_is_refused(crawl):
    crawl.start(1, "--delay", "2")
    crawl.wait_for_fetches(10)
    for other, said in (
        (("--delay", "3"), "was begun with DOWNLOAD_DELAY 2.0, but this worker has 3.0"),
        (("--allow", "page"), "was begun with allow none, but this worker has page"),
        (("-s", "CRAWLPRIO_REDIS_SHARDS=2"), "is '2', but crawls are not spread over shards any"),
    ):
        crawl.start(1, "--delay", "2", *other)
        assert crawl.started.pop().wait() == 2
        assert said in crawl.said()
    crawl.interrupt()
    crawl.end()
    assert "Traceback" not in crawl.said()


def test_limits_of_pages_hold_for_all_workers_together(crawl):
    crawl.start(3, "--pages", "40", CRAWLPRIO_MAX_PAGES_PER_SITE=6)
    crawl.end()
    assert crawl.visits().total() == crawl.web.fetches().total() == 40
    assert max(Counter(url.split("/")[2] for url in crawl.visits()).values()) <= 6


def test_a_crawl_moves_to_workers_and_back_and_its_store_is_copied(crawl):
    alone = OnOneMachine(crawl.folder, crawl.web)
    alone.start(0, "--pages", "40")
    alone.end()
    crawl.job = alone.job
    crawl.start(2, "--delay", "1")
    crawl.wait_for_fetches(90)
    CrawlAdministration(crawl.client).set_state("site", "draining")
    crawl.end()
    assert 90 <= len(crawl.web.seen) < crawl.web.n_pages
    alone.start(0, CRAWLPRIO_FRONTIER="local", REDIS_URL=crawl.server.url)
    alone.end_whole()
    copy = crawl.folder / "copy.sqlite"
    words = ["links", "collect", "site", str(copy), "-s", f"REDIS_URL={crawl.server.url}"]
    collected = run_forked("crawlprio", words, crawl.folder)
    (n_visits,) = crawl.rows("SELECT count(*) FROM visits")[0]
    assert f"{n_visits} visits and" in collected.stdout
    assert query(copy, "SELECT count(*) FROM link_urls") == [(len(crawl.pairs()),)]
    again = run_forked("crawlprio", words, crawl.folder)
    assert again.stderr == f"{copy}: the file exists; name a new one.\n"


def test_a_crawl_that_is_drained_while_a_worker_hangs_has_not_finished(crawl):
    """Scrapy's engine looks every five seconds whether anything is left."""
    crawl.lease_timeout = 60.0
    crawl.start(1, "--delay", "1")
    crawl.wait_for_fetches(5)
    os.kill(crawl.started[0].pid, signal.SIGSTOP)
    CrawlAdministration(crawl.client).set_state("site", "draining")
    sleep(6)
    os.kill(crawl.started[0].pid, signal.SIGCONT)
    crawl.end()
    assert "has finished" not in crawl.said()
    assert crawl.rows("SELECT value FROM meta WHERE key = 'ended_because'") == [("drained",)]


def test_a_crawl_of_the_same_name_begins_anew_in_a_folder_of_its_own(crawl):
    for n_pages in (20, 30):
        crawl.start(1, "--pages", str(n_pages), SCHEDULER_FLUSH_ON_START=True)
        crawl.end()
        assert crawl.visits().total() == n_pages
    crawl.job = crawl.folder / "crawls" / "site.1"
    assert crawl.visits().total() == 20


def test_a_coordinator_that_starts_when_its_worker_has_ended_begins_no_other_crawl(
    crawl, monkeypatch
):
    crawl.web.n_pages = 20
    crawl.start(1, SCHEDULER_PERSIST=False)
    crawl.end()
    monkeypatch.setenv(COORDINATOR, '{"crawl": "site", "name": "late", "worker": 1}')
    crawl.start(1)
    crawl.end_whole()
    assert crawl.client.keys("*") == []


PROXIES = """
class SlotPerPage:
    def process_request(self, request):
        request.meta["download_slot"] = "proxy" + request.url[-1:]


class Rotating(scrapy.Spider):
    name = "rotating"

    def parse(self, response):
        yield from response.follow_all(css="a[href*=page-]")
"""


def test_a_worker_waits_for_the_slots_that_its_middlewares_set_and_for_no_site(crawl):
    slots = {f"proxy{number}": {"delay": DELAY} for number in range(10)}
    crawl.run_spider(
        PROXIES,
        1,
        DOWNLOADER_MIDDLEWARES={"__main__.SlotPerPage": 700},
        DOWNLOAD_DELAY=1000,
        DOWNLOAD_SLOTS=slots,
        CONCURRENT_REQUESTS_PER_DOMAIN=1,
        CRAWLPRIO_MAX_PAGES=20,
    )
    crawl.end()
    assert sum(n for url, n in crawl.web.fetches().items() if "/page-" in url) >= 20


ODD = """
import os

import crawlprio


class LongestFirst(crawlprio.Ordering):
    def observe(self, visit):
        for target in visit.targets:
            self.keys[target] = len(self.pages.url(target))
        return visit.targets

    def site_key(self, site, best_key, n_waiting):
        return -best_key


class Odd(scrapy.Spider):
    name = "odd"

    def parse(self, response):
        yield {"from": response.url[:5]}
        if not response.url.startswith("data:"):
            yield scrapy.Request(response.url + "?lambda", lambda response: None)
            yield scrapy.Request(response.url[:-1] + "8", self.parse_thing, meta={"n": 3})

    def parse_thing(self, response):
        if response.meta["n"] == 3:
            os._exit(9)
"""


def test_what_cannot_be_written_as_json_is_dropped_and_a_page_that_kills_is_a_dead_letter(crawl):
    crawl.lease_timeout = 2.0
    own = {"ORDERING": "__main__.LongestFirst", "ORDERING_OPTIONS": {"site_share": 1}}
    crawl.run_spider(ODD, 4, "data:,text", crawl.web.url(0), DOWNLOAD_DELAY=1.0, **own)
    crawl.wait(lambda: "is silent; its" in crawl.said())
    crawl.kill_coordinator()  # the next one knows how many workers have died with a page
    crawl.end({0, 9})
    assert sorted(worker.wait() for worker in crawl.started) == [0, 9, 9, 9], crawl.said()
    assert "It is dropped because other workers could not fetch it" in crawl.said()
    rows = crawl.rows("SELECT url, error FROM visits JOIN pages ON id = page WHERE error != ''")
    assert rows == [(crawl.web.url(8), "worker died")]


FAILING = """
class Failing(scrapy.Spider):
    name = "failing"

    async def start(self):
        try:
            await self.crawler.engine.download_async(scrapy.Request("http://127.0.0.1:1/media"))
        except Exception as error:
            print(type(error).__name__, flush=True)
        for request in ():
            yield request
"""


def test_a_request_without_a_lease_does_not_wait_for_a_frontier_that_failed(crawl):
    envelopes = "crawlprio:{site:0}:in"
    crawl.run_spider(FAILING, CRAWLPRIO_COORDINATOR="never")
    crawl.wait(
        lambda: crawl.client.xlen(envelopes) >= 2
    )  # it has said hello, and asked for the file
    crawl.client.set(envelopes, "no stream")
    crawl.started[0].wait()
    assert "\nIgnoreRequest\n" in crawl.said()
    assert "The frontier in Redis is unusable" in crawl.said()


def test_no_log_and_no_key_tells_the_password_of_the_server(crawl, capsys):
    crawl.client.config_set("requirepass", "hush")
    crawl.server.url = crawl.server.url.replace("//", "//:hush@")
    crawl.serve_by(crawl.server)
    crawl.start(1, "--pages", "20", LOG_LEVEL="DEBUG")
    crawl.end()
    dumped = b"".join(crawl.client.dump(key) for key in crawl.client.keys("*"))
    assert dumped
    assert run_command("frontier", "show", "site", "-s", f"REDIS_URL={crawl.server.url}") == 0
    files = [*crawl.folder.glob("*.log"), *crawl.store.parent.iterdir()]
    kept = b"".join(file.read_bytes() for file in files if file.is_file())
    assert b"hush" not in dumped + capsys.readouterr().out.encode() + kept
