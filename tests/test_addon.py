"""The add-on in other projects: one extra line, the same items, and a crawl store."""

import gc
import json
import os
import sys
from collections import Counter

import pytest
from crawls import ADDON, page, run_spider
from forked import run_forked, run_to_end
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http import HtmlResponse
from spiders import Plain

from crawlprio.demo.server import LoopbackServer
from crawlprio.items import LinkPairs
from crawlprio.live.crawl_report import CrawlReport
from crawlprio.middlewares import (
    LinksMiddleware,
    PolitenessMiddleware,
    RefusalMiddleware,
    RobotsMiddleware,
    YieldedLinksMiddleware,
)
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.store import Store

SPIDER = """
import os
import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class Rules(CrawlSpider):
    name = "rules"
    start_urls = [os.environ["SEED"]]
    rules = [Rule(LinkExtractor(deny=("calendar",)), callback="parse_item", follow=True)]

    def parse_item(self, response):
        title = response.css("title::text").get()
        yield {"url": response.url, "title": title, "text": response.meta.get("link_text")}
"""

FAST = """
ROBOTSTXT_OBEY = False
DOWNLOAD_DELAY = 0
CONCURRENT_REQUESTS_PER_DOMAIN = 8
LOG_LEVEL = "INFO"
"""


def in_project(folder, arguments, **environment):
    """Run scrapy in a project; return its stderr."""
    done = run_forked("scrapy", arguments, folder, environment=environment, check=True)
    return done.stderr


def test_a_new_project_scrapes_the_same_items_with_one_extra_line(tmp_path):
    in_project(tmp_path, ["startproject", "tutorial"])
    project = tmp_path / "tutorial"
    (project / "tutorial/spiders/ours.py").write_text(SPIDER)
    settings = project / "tutorial/settings.py"
    settings.write_text(settings.read_text() + FAST)
    items = []
    with LoopbackServer(pages=100, sites=4, seed=3) as server:
        environment = {"http_proxy": f"http://{server.address}", "SEED": server.seeds[0]}
        for line in ("", 'ADDONS = {"crawlprio.Addon": 500}\nORDERING = "opic"\n'):
            settings.write_text(settings.read_text() + line)
            said = in_project(project, ["crawl", "rules", "-O", "out.jsonl"], **environment)
            assert "Traceback" not in said
            items.append(Counter(_lines(project / "out.jsonl")))
            assert f"'item_scraped_count': {items[-1].total()}" in said
    assert items[0] == items[1]
    assert items[1].total() > 80
    with Store.open(project / "crawl.sqlite", readonly=True) as store:
        visited = {visit.page for visit in store.visits() if visit.page >= 0}
        assert len(visited) > 80


LOADED = """
import sys
import scrapy
import scrapy.crawler


class OnePage(scrapy.Spider):
    name = "one"
    start_urls = [sys.argv.pop()]

    def parse(self, response):
        yield {"url": response.url}

    def closed(self, reason):
        print(sorted({"numba", "scipy", "rich", "numpy.ma", "redis"} & sys.modules.keys()))


process = scrapy.crawler.CrawlerProcess({"ADDONS": {"crawlprio.Addon": 500}})
process.crawl(OnePage)
process.start()
"""


def test_a_small_crawl_loads_no_library_that_it_does_not_need(tmp_path):
    """Each costs a guest's crawl up to 40 MB and half a second of its start."""
    (tmp_path / "crawl.py").write_text(LOADED)
    with LoopbackServer(pages=3, sites=1, seed=3) as server:
        done = run_to_end(
            [sys.executable, "crawl.py", server.seeds[0]],
            tmp_path,
            env={**os.environ, "http_proxy": f"http://{server.address}"},
        )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert recorded(tmp_path / "crawl.sqlite")


def _lines(file):
    return [json.dumps(json.loads(line), sort_keys=True) for line in file.read_text().splitlines()]


PAGES = {"/": page("/1", "/2", "/", "/1"), "/1": page("/gone", title="One"), "/2": page()}


def recorded(store):
    with Store.open(store, readonly=True) as opened:
        return list(opened.visits())


def named(store):
    """Return URL, status and links with anchor texts of each visit in a store."""
    with Store.open(store, readonly=True) as opened:
        pages = opened.load_pages()
        return [
            (
                pages.url(visit.page),
                visit.status,
                list(zip(pages.urls(visit.targets.tolist()), visit.anchors, strict=True))
                if visit.anchors
                else [(url, "") for url in pages.urls(visit.targets.tolist())],
            )
            for visit in opened.visits()
            if visit.page >= 0
        ]


STOCK_ROBOTS = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


@pytest.mark.parametrize("own", [{}, {"DOWNLOADER_MIDDLEWARES": {STOCK_ROBOTS: 543}}])
def test_the_addon_installs_everything_that_the_project_does_not_set(own):
    run = run_spider(Plain, {**ADDON, **own, "ROBOTSTXT_OBEY": True}, site=PAGES)
    settings, crawler = run.crawler.settings, run.crawler
    in_use = [type(each) for each in crawler.engine.downloader.middleware.middlewares]
    assert RobotsMiddleware in in_use
    assert not {RobotsTxtMiddleware, HttpCompressionMiddleware} & set(in_use)
    assert settings["SCHEDULER"] == "crawlprio.schedulers.Scheduler"
    assert settings["DOWNLOADER"] == "crawlprio.live.downloader.Downloader"
    assert settings.getint("REDIRECT_PRIORITY_ADJUST") == 0
    assert settings.getint("RETRY_PRIORITY_ADJUST") == 0
    assert crawler.get_spider_middleware(LinksMiddleware) is not None
    assert crawler.get_downloader_middleware(PolitenessMiddleware) is not None
    assert crawler.get_item_pipeline(LinkPairPipeline) is not None
    assert crawler.get_extension(CrawlReport) is not None


CHANGED_BY_THE_ADDON = {
    *("SCHEDULER", "DOWNLOADER"),
    *("REDIRECT_PRIORITY_ADJUST", "RETRY_PRIORITY_ADJUST"),
    *("SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS"),
    "DOWNLOADER_MIDDLEWARES_BASE",
}
"""What the add-on sets, according to `docs/settings.md` and `docs/add-on.md`."""


def test_the_addon_changes_no_other_setting_of_a_project():
    settings = {}
    for name, own in (("with", ADDON), ("without", {})):
        crawler = run_spider(Plain, own, site=PAGES).crawler
        settings[name] = crawler.settings.copy_to_dict()
    changed = {
        name
        for name in settings["with"].keys() | settings["without"].keys()
        if settings["with"].get(name) != settings["without"].get(name)
    }
    assert changed - {"ADDONS", "CRAWLPRIO_LOOPBACK"} == CHANGED_BY_THE_ADDON


class Collected(Plain):
    def parse(self, response):
        self.seen = (gc.get_threshold(), gc.get_freeze_count())
        yield from super().parse(response)


@pytest.mark.parametrize(("settings", "tunes"), [({}, False), ({"CRAWLPRIO_TUNE_GC": True}, True)])
def test_garbage_collection_is_left_alone_unless_asked(settings, tunes):
    before = (gc.get_threshold(), gc.get_freeze_count())
    run = run_spider(Collected, {**ADDON, **settings}, site=PAGES)
    assert (run.spider.seen != before) == tunes
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_the_addon_overrides_nothing_that_the_project_set():
    own = {
        "SCHEDULER": "scrapy.core.scheduler.Scheduler",
        "DOWNLOADER": "scrapy.core.downloader.Downloader",
        "STATS_CLASS": "scrapy.statscollectors.MemoryStatsCollector",
        "REDIRECT_PRIORITY_ADJUST": 3,
        "RETRY_PRIORITY_ADJUST": -2,
        "SPIDER_MIDDLEWARES": {
            "crawlprio.middlewares.LinksMiddleware": 77,
            Quiet: 5,
            YieldedLinksMiddleware: None,
        },
        "DOWNLOADER_MIDDLEWARES": {
            PolitenessMiddleware: None,
            RefusalMiddleware: 970,
        },
        "ROBOTSTXT_PARSER": "scrapy.robotstxt.PythonRobotParser",
        "ITEM_PIPELINES": {"crawlprio.pipelines.LinkPairPipeline": 900},
        "EXTENSIONS": {CrawlReport: None},
    }
    run = run_spider(Plain, {**ADDON, **own}, site=PAGES)
    assert run.reason == "finished"
    assert isinstance(run.crawler.settings["SCHEDULER"], str)
    for name, value in own.items():
        found = run.crawler.settings[name]
        assert (dict(found) if isinstance(value, dict) else found) == value


class Quiet:
    """A spider middleware that does nothing."""


def test_pairs_are_recorded_and_are_not_items(tmp_path):
    feed, store = tmp_path / "feed.jsonl", tmp_path / "crawl.sqlite"
    settings = {
        **ADDON,
        "CRAWLPRIO_STORE": store,
        "FEEDS": {feed: {"format": "jsonlines"}},
        "CONCURRENT_REQUESTS": 1,
    }
    run = run_spider(Plain, settings, site=PAGES)
    urls = ["http://a.test/", "http://a.test/1", "http://a.test/2"]
    assert sorted(item["url"] for item in run.items) == urls
    assert sorted(json.loads(line)["url"] for line in feed.read_text().splitlines()) == urls
    assert run.stats["item_scraped_count"] == 3
    assert sorted(named(store)) == [
        ("http://a.test/", 200, [("http://a.test/1", "/1"), ("http://a.test/2", "said")]),
        ("http://a.test/1", 200, [("http://a.test/gone", "/gone")]),
        ("http://a.test/2", 200, []),
        ("http://a.test/gone", 404, []),
    ]
    visits = {visit.page: visit for visit in recorded(store)}
    assert visits[1].title == "One"
    assert all(visit.fetched_at > 1e9 for visit in visits.values() if visit.page >= 0)
    assert all(0 < visit.elapsed < 60 for visit in visits.values() if visit.page >= 0)


def test_nothing_is_recorded_if_the_store_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_spider(Plain, {**ADDON, "CRAWLPRIO_STORE": None}, site=PAGES)
    assert run.reason == "finished"
    assert list(tmp_path.iterdir()) == []


class Pairing(Plain):
    """Yields its own pairs, and nothing else."""

    def parse(self, response):
        if isinstance(response, HtmlResponse):
            links = [response.urljoin(u) for u in response.css("a::attr(href)").getall()]
            yield LinkPairs(
                source=response.url,
                targets=list(dict.fromkeys(links)),
                anchors=[f"to {url}" for url in dict.fromkeys(links)],
            )


PAIRED = [
    (
        "http://a.test/",
        200,
        [("http://a.test/1", "to http://a.test/1"), ("http://a.test/2", "to http://a.test/2")],
    ),
    ("http://a.test/1", 200, [("http://a.test/gone", "to http://a.test/gone")]),
    ("http://a.test/2", 200, []),
]


def test_a_spider_that_yields_pairs_makes_no_requests(path):
    settings = {**ADDON, "CRAWLPRIO_STORE": path, "ORDERING": "breadth-first"}
    run = run_spider(Pairing, settings, site=PAGES)
    assert sorted(run.site.paths()) == ["/", "/1", "/2", "/gone"]
    assert [item.source for item in run.items] == [url for url, _, _ in PAIRED]
    assert [visit for visit in named(path) if visit[1] == 200] == PAIRED
    for stat in ("enqueued", "dequeued"):
        assert run.stats[f"scheduler/{stat}"] == 4
