"""What a crawl reports at its end: once, and with what limited it."""

import logging
import re

import pytest
from crawls import ADDON, Site, page, run_spider

from crawlprio.settings_table.table import SETTINGS
from crawlprio.spiders.site import SiteSpider

PAGES = {"/": page(*(f"/a{n}" for n in range(9)), "/b1", "/b2")}


def crawl(settings):
    with Site(PAGES, lambda host, path: None if path == "/" else page("/a7", "/b2")) as site:
        every = {**ADDON, "CONCURRENT_REQUESTS": 1, "ORDERING": "breadth-first", **settings}
        return run_spider(SiteSpider, every, site=site, seeds="http://a.test/")


@pytest.mark.parametrize("prints", [True, False])
def test_the_report_is_printed_or_logged_and_not_both(prints, capfd):
    run = crawl({"CRAWLPRIO_PRINT": prints})
    logged = [text for text in run.messages(logging.INFO) if "pages fetched: 12" in text]
    printed = [line for line in capfd.readouterr().out.splitlines() if "pages fetched" in line]
    assert (len(printed), len(logged)) == (int(prints), int(not prints))
    assert run.stats["crawlprio/pages_fetched"] == 12


def test_a_crawl_that_nothing_limited_is_just_finished():
    assert crawl({}).stats["crawlprio/ended_because"] == "finished"


@pytest.mark.parametrize(
    ("settings", "cuts"),
    [
        # The home page and 3 more are admitted. Each of those links to /a7 and /b2 once more.
        ({"CRAWLPRIO_MAX_PAGES_PER_SITE": 4}, ["14 links refused by CRAWLPRIO_MAX_PAGES_PER_SITE"]),
        (
            {"CRAWLPRIO_MAX_PAGES_PER_DOMAIN": 4},
            ["14 links refused by CRAWLPRIO_MAX_PAGES_PER_DOMAIN"],
        ),
        # /a0, /a1, /b1 and /b2 are admitted, and each of them links to /a7 once more.
        (
            {"CRAWLPRIO_MAX_PAGES_PER_PATTERN": 2},
            ["11 links refused by CRAWLPRIO_MAX_PAGES_PER_PATTERN"],
        ),
        # 5 of the 11 are dropped; /a7 and /b2 return through later links.
        ({"CRAWLPRIO_MAX_WAITING": 6}, ["3 pages dropped by CRAWLPRIO_MAX_WAITING"]),
        # /a0 to /a7 are admitted, /a4 to /a7 dropped, and /a7 returns. The home page has 3 refused
        # links, and 5 more pages link to /b2.
        (
            {"CRAWLPRIO_MAX_PAGES_PER_SITE": 9, "CRAWLPRIO_MAX_WAITING": 4},
            [
                "8 links refused by CRAWLPRIO_MAX_PAGES_PER_SITE",
                "3 pages dropped by CRAWLPRIO_MAX_WAITING",
            ],
        ),
    ],
)
def test_what_limited_a_crawl_is_named_next_to_why_it_ended(settings, cuts):
    run = crawl(settings)
    assert run.reason == "finished"
    assert run.stats["crawlprio/ended_because"] == "; ".join(["finished", *cuts])
    assert [name for name in settings if name not in SETTINGS] == []


def test_a_name_with_brackets_is_shown_as_it_is(tmp_path, capfd):
    (tmp_path / "[").mkdir()
    store = tmp_path / "[" / "red].sqlite"
    run = crawl({"CRAWLPRIO_PRINT": True, "CRAWLPRIO_STORE": store})
    assert run.messages() == []
    assert str(store) in re.sub(r"[│\s]", "", capfd.readouterr().out)
