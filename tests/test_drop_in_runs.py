"""Special ways to run a crawl work the same with the add-on.

Several in a process, without a reactor, or driven by hand by a project.
"""

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest
from crawls import ADDON, Site, run_spider
from drop_in import ROOT, SpiderCase, assert_alike, html, kinds
from forked import run_forked
from scrapy import Request, Spider, signals
from spiders import Follower

WEB = {f"/{n}": html(f"page {n}", f"/{2 * n + 1}", f"/{2 * n + 2}") for n in range(31)}
HERE = Path(__file__).parent


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


def test_consecutive_crawlers_have_the_same_results():
    starts = {"site": WEB, "start_urls": [f"{ROOT}/0"]}
    runs = [run_spider(Follower, addon, **starts) for addon in ({}, {}, ADDON, ADDON)]
    assert {len(run.items) for run in runs} == {31}


def test_a_projects_unit_tests_can_make_a_crawler_without_a_reactor(tmp_path):
    """`get_crawler` of `scrapy.utils.test`, as projects use it."""
    (tmp_path / "script.py").write_text(
        "from scrapy.utils.test import get_crawler\n"
        "from scrapy import Spider\n"
        "crawler = get_crawler(Spider, {'ADDONS': {'crawlprio.Addon': 500}})\n"
        "print(crawler.settings.getbool('TWISTED_REACTOR_ENABLED'))\n"
    )
    done = run_forked(tmp_path / "script.py", [], tmp_path, check=True)
    assert done.stdout.strip() == "False"
