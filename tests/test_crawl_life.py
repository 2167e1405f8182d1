"""A crawl closes what it opened, under every scheduler, with any of its parts, however it ends."""

import logging

import pytest
from crawls import ADDON, PROJECT, Site, page, run_spider
from scrapy.settings import BaseSettings
from spiders import Follower, Pairing

from crawlprio.errors import ConfigError
from crawlprio.live import recorder
from crawlprio.live.crawl_context import CrawlContext, without_parts
from crawlprio.settings_table.config import read_setting
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store, keep_existing

WEB = {"/": page("/1", "/2"), "/1": page("/2"), "/2": page()}


class Pairs(Pairing):
    """Yields the link pairs of three pages."""

    start_urls = [f"http://a.test{path}" for path in WEB]


def assert_closed(store):
    """Assert that a store is cleanly closed and nobody holds it."""
    assert sorted(path.name for path in store.parent.iterdir()) == [store.name, "receipt.json"]
    with Store.open(store) as opened:
        assert opened.ended_at is not None


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_crawl_that_begins_as_another_does_takes_a_numbered_name(
    tmp_path, monkeypatch, has_ended
):
    store = tmp_path / "crawl.sqlite"
    others = []

    def keep_existing_and_be_overtaken(path):
        kept = keep_existing(path)
        others.append(Store.create(path))
        if has_ended:
            others[0].close()
        return kept

    class Ending(Pairs):
        def closed(self, reason):
            if not has_ended:
                others[0].close()

    monkeypatch.setattr(recorder, "keep_existing", keep_existing_and_be_overtaken)
    run = run_spider(Ending, {**ADDON, "CRAWLPRIO_STORE": store}, site=WEB)
    assert (run.reason, run.messages()) == ("finished", [])
    with Store.open(tmp_path / "crawl.1.sqlite", readonly=True) as opened:
        assert opened.n_pages == 3


PARTS = {
    "add-on": ADDON,
    "add-on under Scrapy's scheduler": {**ADDON, "SCHEDULER": "scrapy.core.scheduler.Scheduler"},
    "a priority queue": {
        **ADDON,
        "SCHEDULER": "scrapy.core.scheduler.Scheduler",
        "SCHEDULER_PRIORITY_QUEUE": "crawlprio.schedulers.BreadthFirstQueue",
    },
    "the pipeline": {"ITEM_PIPELINES": {"crawlprio.pipelines.LinkPairPipeline": 100}},
    "the links middleware": {"SPIDER_MIDDLEWARES": {"crawlprio.middlewares.LinksMiddleware": 10}},
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_under_every_scheduler_the_store_is_closed(path, parts):
    run = run_spider(Pairs, {**parts, "CRAWLPRIO_STORE": str(path)}, site=WEB)
    assert (run.reason, run.messages()) == ("finished", [])
    assert_closed(path)


def test_a_crawl_that_fails_halfway_closes_the_store(path):
    class Failing(Pairs):
        def parse(self, response):
            CrawlContext.of(self.crawler).fail(ConfigError("X is 1; give 2."))
            yield from super().parse(response)

    run = run_spider(Failing, {**ADDON, "CRAWLPRIO_STORE": str(path)}, site=WEB)
    assert run.reason == "crawlprio_failed"
    assert_closed(path)


def crawl_of_demo_web(store, **settings):
    return run_spider(
        SiteSpider,
        {
            **PROJECT,
            **{"CRAWLPRIO_DEMO_PAGES": 30, "CRAWLPRIO_DEMO_SITES": 2},
            **{"CRAWLPRIO_STORE": str(store), "ROBOTSTXT_OBEY": False},
            **settings,
        },
        priority="cmdline",
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "finished"),
        ({"ORDERING": "opick"}, "crawlprio_refused"),
        ({"CRAWLPRIO_PRIVATE_ADDRESSES": "deny"}, "crawlprio_refused"),
    ],
)
def test_the_server_of_a_virtual_crawl_is_stopped(tmp_path, settings, reason):
    run = crawl_of_demo_web(tmp_path / "crawl.sqlite", **settings)
    web = CrawlContext.of(run.crawler).web
    assert run.reason == reason
    assert web is None or web.server.pid is None


def test_the_report_counts_index_files_with_the_body_of_their_folder(tmp_path):
    home = page("/index.html", "/a/", "/a/index.html")
    with Site(
        {"/": home, "/index.html": home, "/a/": page(), "/a/index.html": page("/a/")}
    ) as site:
        settings = {**ADDON, "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite")}
        run = run_spider(SiteSpider, settings, site=site, seeds="http://a.test/")
    assert run.stats["crawlprio/pages_fetched"] == 4
    assert run.stats["crawlprio/index_files_like_their_folder"] == 1


@pytest.mark.parametrize("name", without_parts())
def test_every_part_can_be_left_out_of_dry_runs_and_workers(name):
    assert read_setting(BaseSettings(without_parts()), name) in (None, False)
    assert name not in without_parts(name)


def test_an_earlier_crawls_store_is_kept_and_the_log_names_it(path, tmp_path):
    settings = {**ADDON, "CRAWLPRIO_STORE": str(path)}
    with Site({"/": page()}) as site:
        first, second = (run_spider(Follower, settings, site=site) for _ in range(2))
    assert [text for text in first.messages(logging.INFO) if "it was renamed to" in text] == []
    (text,) = (text for text in second.messages(logging.INFO) if "it was renamed to" in text)
    (kept,) = (file for file in tmp_path.glob("crawl*.sqlite") if file != path)
    assert text == f"{path} already existed; it was renamed to {kept}."
    for file in (path, kept):
        with Store.open(file) as store:
            assert store.n_pages == 1
