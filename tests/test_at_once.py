"""How many fetches are in flight: more as a crawl reaches more registered domains."""

import math

import pytest
from crawls import ADDON, Together, page, run_spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from crawlprio import Addon
from crawlprio.live.dispatch import ConcurrencyLimit
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.spiders.site import SiteSpider

GROWS = {"CRAWLPRIO_MAX_CONCURRENT_REQUESTS": 20}
OWNERS = [f"www.owner{at}.example" for at in range(40)]
SUBDOMAINS = [f"site{at}.owner.example" for at in range(40)]


def test_the_number_is_that_of_the_domains_fetched_from_within_its_bounds():
    at_once = ConcurrencyLimit(2, 4)
    seen = []
    for host in ("a.example", "www.a.example", "b.example", "c.example", "d.example", "e.example"):
        at_once.fetch_from(host)
        seen.append(at_once.now)
    assert seen == [2, 2, 2, 3, 4, 4]
    assert at_once.most == 4


@pytest.mark.parametrize(("least", "most"), [(3, None), (3, 2)])
def test_the_number_stays_where_nothing_larger_is_given(least, most):
    at_once = ConcurrencyLimit(least, most)
    for host in OWNERS:
        at_once.fetch_from(host)
    assert (at_once.now, at_once.most) == (least, least)


def test_no_limit_stays_none():
    assert (ConcurrencyLimit(0, 100).now, ConcurrencyLimit(0, 100).most) == (math.inf, 0)


@pytest.mark.parametrize(
    ("project", "crawl", "most"),
    [
        ({}, {}, 100),
        ({"CONCURRENT_REQUESTS": 1}, {}, None),
        ({}, {"CONCURRENT_REQUESTS": 16}, None),
        ({}, {"CONCURRENT_REQUESTS": 30}, None),
        ({"CONCURRENT_REQUESTS": 30}, {"CRAWLPRIO_MAX_CONCURRENT_REQUESTS": 50}, 50),
    ],
)
def test_a_number_that_is_set_is_kept(project, crawl, most):
    bundled = Settings()
    bundled.setmodule("crawlprio.settings", priority="project")
    bundled.setdict(project, priority="project")
    bundled.setdict(crawl, priority="cmdline")
    Addon(get_crawler(SiteSpider)).update_settings(bundled)
    assert CrawlConfig.from_settings(bundled).max_concurrent_requests == most


def test_a_project_with_the_add_on_keeps_its_number():
    crawler = get_crawler(SiteSpider, {**ADDON, "CONCURRENT_REQUESTS": 30})
    assert CrawlConfig.from_settings(crawler.settings).max_concurrent_requests is None


@pytest.mark.parametrize(("hosts", "expected"), [(OWNERS, 20), (SUBDOMAINS, 16)])
def test_sites_of_many_owners_are_fetched_from_at_once(hosts, expected):
    together = Together(expected)
    begun = set()

    def answer(host, path):
        begun.add(host)
        # The first ones end at once, as the number grows with the sites that were fetched from.
        return page("/1") if len(begun) <= 20 else together.hold(page("/1"))

    seeds = ",".join(f"http://{host}/" for host in hosts)
    settings = {**ADDON, **GROWS, "ROBOTSTXT_OBEY": False, "ORDERING": "breadth-first"}
    run = run_spider(SiteSpider, settings, site=({}, answer), seeds=seeds)
    assert len(run.site.fetches) == 2 * len(hosts)
    assert together.most == expected
