"""Special ways to run a crawl work the same with the add-on.

Stopped and resumed, several in a process, without a reactor, or driven by hand by a project.
"""

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest
from crawls import ADDON, Site, run_spider
from drop_in import ROOT, CountingSite, SpiderCase, assert_alike, html, kinds
from forked import run_forked
from scrapy import Request, Spider, signals

WEB = {f"/{n}": html(f"page {n}", f"/{2 * n + 1}", f"/{2 * n + 2}") for n in range(31)}
HERE = Path(__file__).parent


class Resumed(SpiderCase, Spider):
    """Stopped twice, resumed twice: the runs together have the results of a single run.

    Requests carry what has to survive: callback, errback, arguments, meta, body, priority.
    """

    pages = WEB
    options = {"CRAWLPRIO_STORE": "crawl.sqlite"}
    stops = (4, 9, None)

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.state = {}
        return spider

    async def start(self):
        yield Request(f"{ROOT}/0", cb_kwargs={"path": "0"})

    def parse(self, response, path):
        self.state["n_pages"] = self.state.get("n_pages", 0) + 1
        yield {"url": response.url, "path": path, "mine": response.meta.get("mine")}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(
                link,
                self.parse,
                errback=self.failed,
                cb_kwargs={"path": f"{path}>{link[1:]}"},
                meta={"mine": len(path)},
                priority=int(link[1:]) % 3,
            )
        if path == "0":
            yield Request(f"{ROOT}/form", self.posted, method="POST", body=bytes(range(256)))

    def posted(self, response):
        yield {"posted": response.url}

    def failed(self, failure):
        yield {"failed": failure.request.url, **failure.request.cb_kwargs}

    @classmethod
    def crawl(cls, folder, settings):
        items = Counter()
        with CountingSite(cls.pages) as site:
            for n_pages in cls.stops:
                every = {**settings, "JOBDIR": str(folder / "job")}
                if n_pages is not None:
                    every["CLOSESPIDER_PAGECOUNT"] = n_pages
                run = cls.run(folder, every, site)
                items.update(repr(item) for item in run.items)
            brought = cls.brought(run, site)
        notes = [run.reason, run.spider.state]
        return brought._replace(items=items, stats={}, notes=notes)


class Unserializable(SpiderCase, Spider):
    """A request that no job directory can hold stays in memory, is counted and is reported once."""

    pages = WEB
    options = {"SCHEDULER_DEBUG": True, "CRAWLPRIO_STORE": "crawl.sqlite"}
    logged = "Unable to serialize request"

    @classmethod
    def settings(cls, folder):
        return {**cls.options, "JOBDIR": str(folder / "job")}

    async def start(self):
        for n in range(3):
            yield Request(f"{ROOT}/{n}", callback=lambda response: {"url": response.url})

    @classmethod
    def brought(cls, run, site):
        found = super().brought(run, site)
        said = Counter({message.partition(" - reason")[0]: n for message, n in found.log.items()})
        return found._replace(log=said)


class Paused(SpiderCase, Spider):
    pages = WEB
    options = {"CONCURRENT_REQUESTS": 1}

    async def start(self):
        for n in range(4):
            yield Request(f"{ROOT}/{n}")

    async def parse(self, response):
        if response.url.endswith("/1"):
            self.crawler.engine.pause()
            await asyncio.sleep(0.2)
            self.crawler.engine.unpause()
        yield {"url": response.url}


class Lazy(SpiderCase, Spider):
    """`start()` waits until the scheduler is empty before it yields more, as in Scrapy's docs.

    The number of start requests that it is ahead of the responses is compared, in steps of ten.
    """

    pages = {f"/{n}": html(str(n)) for n in range(60)}
    # While the site is inside its delay, Scrapy's downloader holds as many requests as may be in
    # flight.
    options = {"CONCURRENT_REQUESTS": 4, "DOWNLOAD_DELAY": 0.02, "DOWNLOAD_DELAY_JITTER": 0.0}

    def __init__(self):
        super().__init__()
        self.n_started = self.n_answered = self.most_ahead = 0

    async def start(self):
        for n in range(60):
            if self.crawler.engine.needs_backout():
                await self.crawler.signals.wait_for(signals.scheduler_empty)
            self.n_started += 1
            self.most_ahead = max(self.most_ahead, self.n_started - self.n_answered)
            yield Request(f"{ROOT}/{n}")

    def parse(self, response):
        self.n_answered += 1
        self.notes = [f"at most {self.most_ahead // 10 * 10 + 9} ahead"]
        yield {"url": response.url}


@pytest.mark.parametrize("kind", kinds(vars()))
def test_it_goes_the_same_as_with_scrapy_alone(kind, tmp_path):
    with contextlib.chdir(tmp_path):
        assert_alike(kind, tmp_path)


class Links(Spider):
    name = "links"
    start = Resumed.start

    def parse(self, response, path=""):
        yield {"url": response.url}
        yield from response.follow_all(css="a")


IN_ONE_PROCESS = """
import asyncio, json, sys
from scrapy import Spider
from scrapy.crawler import {process}
from scrapy.utils.log import configure_logging

sys.path.insert(0, {here!r})
address, settings = sys.argv[1], json.loads(sys.argv[2])


class Links(Spider):
    name = "links"

    def __init__(self, first):
        super().__init__()
        self.first, self.n_items = first, 0

    async def start(self):
        from scrapy import Request
        yield Request("http://" + address + self.first)

    def parse(self, response):
        self.n_items += 1
        yield {{"url": response.url}}
        yield from response.follow_all(css="a")

    def closed(self, reason):
        print(self.first, reason, self.n_items, flush=True)


process = {process}(settings)
for first in {firsts}:
    process.crawl(Links, first=first)
process.start()
"""


def run_process(script, folder, site, settings):
    """Run a script against a site; return its printed lines, sorted, and its log."""
    folder.mkdir()
    (folder / "script.py").write_text(script)
    done = run_forked(folder / "script.py", [site.address, json.dumps(settings)], folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return sorted(done.stdout.splitlines()), done.stderr


@pytest.mark.parametrize(
    ("process", "more"),
    [("CrawlerProcess", {}), ("AsyncCrawlerProcess", {"TWISTED_REACTOR_ENABLED": False})],
    ids=["reactor", "no reactor"],
)
def test_two_crawlers_in_one_process_have_the_results_they_have_alone(tmp_path, process, more):
    script = IN_ONE_PROCESS.format(process=process, firsts=["/0", "/1"], here=str(HERE))
    quiet = {"LOG_LEVEL": "WARNING", "TELNETCONSOLE_ENABLED": False, **more}
    ended = []
    for name, addon in (("plain", {}), ("ours", {**ADDON, "CRAWLPRIO_PRINT": False})):
        with Site(WEB) as site:
            ended.append(run_process(script, tmp_path / name, site, {**quiet, **addon}))
    assert len(ended[0][0]) == 2
    assert ended[0][0] == ended[1][0]
    assert "Traceback" not in ended[1][1]


def test_consecutive_crawlers_have_the_same_results(tmp_path):
    counts = []
    for addon in ({}, ADDON):
        with Site(WEB) as site:
            for _ in range(2):
                run = run_spider(Links, addon, site=site)
                counts.append(len(run.items))
    assert len(set(counts)) == 1


def test_a_projects_unit_tests_can_make_a_crawler_without_a_reactor(tmp_path):
    """`get_crawler` of `scrapy.utils.test`, as projects use it."""
    (tmp_path / "script.py").write_text(
        "from scrapy.utils.test import get_crawler\n"
        "from scrapy import Spider\n"
        "crawler = get_crawler(Spider, {'ADDONS': {'crawlprio.Addon': 500}})\n"
        "print(crawler.settings.getbool('TWISTED_REACTOR_ENABLED'))\n"
    )
    done = run_forked(tmp_path / "script.py", [], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "False"
