"""Side effects of the add-on that a project would notice: waits, refusals, files, log lines."""

import os
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from crawls import ADDON, Answer, Site, run_spider
from drop_in import ROOT, CountingSite, html
from forked import run_forked, run_to_end
from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse

HERE = Path(__file__).parent


class Pages(Spider):
    name = "pages"
    n_pages = 21

    async def start(self):
        for number in range(self.n_pages):
            yield Request(f"{ROOT}/{number}")

    def parse(self, response):
        yield {"url": response.url}


WEB = {f"/{number}": html(str(number)) for number in range(60)}
LONG_DELAY = {"DOWNLOAD_DELAY": 8, "CLOSESPIDER_TIMEOUT": 100}
"""A crawl that waits after each page is closed before it has them all."""


@pytest.mark.parametrize("per_domain", [1, 8])
def test_pages_from_the_cache_are_not_delayed(tmp_path, per_domain):
    settings = {
        **ADDON,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_domain,
    }
    with Site(WEB) as site:
        run_spider(Pages, settings, site=site)
        n_fetches = len(site.fetches)
        second = run_spider(Pages, {**settings, **LONG_DELAY}, site=site)
    assert len(site.fetches) == n_fetches == 21
    assert len(second.items) == 21
    assert second.reason == "finished"


class Never:
    """Keeps most requests from being fetched, in one way or another."""

    def process_request(self, request):
        number = int(request.url.rpartition("/")[2])
        if number % 3 == 0:
            raise IgnoreRequest("not wanted")
        if number % 3 == 1:
            return HtmlResponse(request.url, request=request)
        return None if number == 2 else HtmlResponse(request.url, request=request)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("per_domain", [1, 8])
def test_requests_that_a_middleware_drops_or_answers_are_not_delayed(per_domain):
    settings = {
        **ADDON,
        "DOWNLOADER_MIDDLEWARES": {Never: 450},
        **LONG_DELAY,
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_domain,
    }
    run = run_spider(Pages, settings, site=WEB)
    assert run.site.paths() == ["/2"]
    assert len(run.items) == 14
    assert run.reason == "finished"


def test_single_503s_do_not_add_up_to_half_a_minute():
    """Five pages of one site, each busy once, at Scrapy's own settings."""
    answers = {f"/{number}": [Answer("", 503), html("there")] for number in range(5)}

    class Five(Pages):
        n_pages = 5

    with CountingSite(answers) as site:
        run = run_spider(Five, {**ADDON, "RETRY_ENABLED": True}, site=site)
    assert len(run.items) == 5
    starts = sorted(fetch.start for fetch in site.fetches)
    # Pauses that add up would be 2, 4, 8, 16 and 32 seconds.
    assert sorted(b - a for a, b in pairwise(starts))[-2] < 12


PROJECT = """
import sys
ADDONS = {"crawlprio.Addon": 500}
SPIDER_MODULES = ["project"]
LOG_LEVEL = "INFO"
TELNETCONSOLE_ENABLED = False
"""

SPIDER = """
import scrapy


class Own(scrapy.Spider):
    name = "own"

    def parse(self, response):
        '''
        @url URL
        @returns items 1 1
        '''
        yield {"url": response.url}
"""

COMMANDS = {
    "fetch": ["fetch", "URL"],
    "parse": ["parse", "--spider", "own", "URL"],
    "check": ["check", "own"],
    "shell": ["shell", "URL", "-c", "print('status', response.status)"],
    "view": ["view", "URL"],
}
"""The arguments of each command, and something that it must print."""

PRINTED = {"fetch": "home", "parse": "'url'", "check": "", "shell": "status 200", "view": ""}


def test_commands_that_do_not_crawl_leave_the_last_crawls_store_alone(tmp_path):
    with Site({"/": html("home")}) as site:
        url = f"http://{site.address}/"
        (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = project_settings\n")
        (tmp_path / "project_settings.py").write_text(PROJECT)
        (tmp_path / "project.py").write_text(SPIDER.replace("URL", url))
        (tmp_path / "crawl.sqlite").write_bytes(b"the last crawl")
        before = sorted(path.name for path in tmp_path.iterdir())
        for name, line in COMMANDS.items():
            words = [url if word == "URL" else word for word in line]
            done = run_forked("scrapy", words, tmp_path, environment={"BROWSER": "true"})
            assert (done.returncode, PRINTED[name] in done.stdout) == (0, True), done
    after = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert sorted(after) == before
    assert (tmp_path / "crawl.sqlite").read_bytes() == b"the last crawl"


def test_the_debug_log_has_nothing_from_the_add_ons_libraries(tmp_path):
    """Numba logs each step of a compilation at DEBUG, some 74,000 lines in a first crawl.

    charset_normalizer logs below DEBUG: a record per line for nobody, half the time of its guess.
    """
    script = (
        "import logging\n"
        "from scrapy.crawler import AsyncCrawlerProcess\n"
        "from scrapy import Spider\n"
        "class Own(Spider):\n"
        "    name = 'own'\n"
        "    start_urls = ['data:,x']\n"
        "    def parse(self, response):\n"
        "        for name in ('numba.core', 'charset_normalizer'):\n"
        "            print(name, 'at', logging.getLogger(name).getEffectiveLevel())\n"
        "process = AsyncCrawlerProcess({'ADDONS': {'crawlprio.Addon': 500}})\n"
        "process.crawl(Own)\n"
        "process.start()\n"
    )
    done = run_to_end(
        [sys.executable, "-c", script], tmp_path, env={**os.environ, "PYTHONPATH": str(HERE.parent)}
    )
    closed = ["numba.core at 30", "charset_normalizer at 30"]
    assert done.stdout.splitlines()[-2:] == closed, done.stdout[-500:] + done.stderr[-1000:]
    loggers = set(re.findall(r"\[([\w.]+)\] DEBUG: ", done.stderr))
    assert loggers
    assert {name.partition(".")[0] for name in loggers} <= {"scrapy", "crawlprio", "asyncio"}


class Forbidden(Spider):
    """Requests pages at once, some of which robots.txt forbids."""

    name = "forbidden"
    paths = ("/secret/1", "/secret/2", "/1", "/secret/3", "/2", "/secret/4")

    async def start(self):
        for path in self.paths:
            yield Request(f"{ROOT}{path}")

    def parse(self, response):
        yield {"url": response.url}


def test_the_addon_refuses_what_robots_txt_forbids_where_scrapy_alone_lets_pages_through():
    """Of pages that wait for one robots.txt, Scrapy alone checks the first two."""
    web = {**WEB, **{path: html() for path in Forbidden.paths}}
    web["/robots.txt"] = Answer("User-agent: *\nDisallow: /secret/\n", seconds=0.2)
    fetched = {}
    for name, addon in (("plain", {}), ("ours", ADDON)):
        settings = {**addon, "ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}
        run = run_spider(Forbidden, settings, site=web)
        fetched[name] = sorted(run.site.paths())
    assert fetched["ours"] == ["/1", "/2"]
    assert set(fetched["plain"]) > {"/1", "/2"}, "Scrapy has mended it: say so in docs/add-on.md"
