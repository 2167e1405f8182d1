"""Failures are told apart from fetches: in table, stats, store, log and exit status."""

import logging
import re
import socket

import pytest
from crawls import ADDON, Answer, Site, page, run_spider, scrapy, times_out
from stores import query

from crawlprio.measure.importance import open_repository
from crawlprio.settings_table.table import SETTINGS
from crawlprio.spiders.site import SiteSpider

QUIET = {**ADDON, "LOG_FORMATTER": "crawlprio.live.engine.QuietLogFormatter"}


def errors(store):
    """Return status and cause of each visit, by path."""
    rows = query(store, "SELECT url, status, error FROM visits JOIN pages ON pages.id = page")
    return {"/" + url.split("/", 3)[3]: (status, error) for url, status, error in rows}


def test_a_page_is_fetched_if_it_was_got_and_failures_are_counted_by_cause(path):
    links = ["/no/1", "/no/2", "/gone", "/gone2", "/broken", "/slow", "/cut", "/fine"]
    pages = {
        "/": page(*links),
        "/fine": page(),
        "/broken": Answer("", 500),
        "/slow": Answer(seconds=9.0),
        "/cut": Answer("", 0),
        "/robots.txt": Answer("User-agent: *\nDisallow: /no"),
    }
    settings = {
        **QUIET,
        "ROBOTSTXT_OBEY": True,
        "DOWNLOADER_MIDDLEWARES": {times_out("/slow"): 50},
        "CRAWLPRIO_STORE": str(path),
        "SPIDER_MIDDLEWARES": {"scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None},
    }
    run = run_spider(SiteSpider, settings, site=pages, seeds="http://a.test/")
    assert errors(path) == {
        "/": (200, ""),
        "/fine": (200, ""),
        "/gone": (404, ""),
        "/gone2": (404, ""),
        "/broken": (500, ""),
        "/slow": (0, "timed out"),
        "/cut": (0, "connection failed"),
        "/no/1": (0, "forbidden by robots.txt"),
        "/no/2": (0, "forbidden by robots.txt"),
    }
    figures = {
        name.removeprefix("crawlprio/"): value
        for name, value in run.stats.items()
        if name.startswith("crawlprio/")
    }
    assert figures["pages_fetched"] == 2
    assert figures["failed"] == 5
    told = set(figures["failed_because"].split(", "))
    assert told == {"HTTP 404: 2", "HTTP 500: 1", "timed out: 1", "connection failed: 1"}
    assert figures["forbidden_by_robots.txt"] == 2
    crawl = open_repository(path)
    assert (len(crawl.order), crawl.n_failed, crawl.n_unanswered) == (5, 3, 4)


def test_a_failure_is_one_log_line_without_a_traceback():
    """Thirty hosts refuse connections; each page and robots.txt is tried three times."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        settings = {
            **QUIET,
            "ROBOTSTXT_OBEY": True,
            "RETRY_ENABLED": True,
            "RETRY_GIVE_UP_LOG_LEVEL": "DEBUG",
        }
        seeds = ",".join(f"http://127.0.0.{n}:{port}/" for n in range(1, 31))
        run = run_spider(SiteSpider, settings, seeds=seeds)
    assert run.stats["crawlprio/failed_because"] == "connection refused: 30"
    assert [record for record in run.log if record.exc_info] == []
    lines = [text for text in run.messages(logging.WARNING) if "127.0.0.7:" in text]
    assert lines == [
        f"http://127.0.0.7:{port}/robots.txt could not be read: connection refused.",
        f"http://127.0.0.7:{port}/: connection refused",
    ]


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        (Answer("", 0), 1, "No page could be fetched (connection failed: 2); check the seeds."),
        (Answer("", 304), 1, "No page could be fetched (HTTP 304: 2); check the seeds."),
        (page(), 0, ""),
    ],
)
def test_a_crawl_exits_with_an_error_if_no_seed_is_got(answer, status, told, tmp_path):
    with Site({}, lambda host, path: answer) as site:
        seeds = f"http://{site.address}/a,http://{site.address}/b"
        line = ["-s", "RETRY_ENABLED=False", "-s", "DOWNLOAD_DELAY=0", "-s", "ROBOTSTXT_OBEY=False"]
        done = scrapy(["crawl", "site", "-a", f"seeds={seeds}", *line], tmp_path)
    assert done.returncode == status
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", [["--demo"], ["--pages=9", "-a", "seeds=http://a.test/"], ["-x"]])
def test_an_option_that_scrapy_crawl_lacks_is_named_in_one_sentence(line, tmp_path):
    done = scrapy(["crawl", "site", *line], tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"scrapy: error: scrapy crawl has no option {line[0]}; see scrapy crawl --help, or "
        "crawlprio crawl --help, which has more."
    )


def test_a_redirect_that_is_followed_counts_as_fetched_and_one_to_nowhere_does_not():
    there = Answer("", 302, {"Location": "/there"})
    nowhere = Answer("", 302)
    loop = Answer("", 302, {"Location": "/loop"})
    web = {"/": page("/moved", "/lost", "/loop"), "/moved": there, "/there": page()}
    web |= {"/lost": nowhere, "/loop": loop}
    run = run_spider(SiteSpider, QUIET, site=web, seeds="http://a.test/")
    assert run.stats["crawlprio/pages_fetched"] == 3
    told = run.stats["crawlprio/failed_because"].split(", ")
    assert sorted(told) == ["HTTP 302: 1", "redirects to itself: 1"]


@pytest.mark.parametrize(
    ("web", "settings", "sentence"),
    [
        ({"/": page()}, {"CLOSESPIDER_PAGECOUNT": 1, "DOWNLOAD_DELAY": 60},
         "No page was fetched: robots.txt files used up CLOSESPIDER_PAGECOUNT; set "
         "CRAWLPRIO_MAX_PAGES (--pages) instead."),
        ({"/robots.txt": Answer("User-agent: *\nDisallow: /")}, {},
         "No page could be fetched (forbidden by robots.txt: 1); check the seeds."),
    ],
    ids=["uses up its pages", "forbids everything"],
)  # fmt: skip
def test_a_crawl_exits_with_an_error_if_robots_txt_leaves_no_page(web, settings, sentence):
    every = {**QUIET, "ROBOTSTXT_OBEY": True, **settings}
    run = run_spider(SiteSpider, every, site=web, seeds="http://a.test/")
    assert run.crawler.spider is None
    assert run.messages(logging.ERROR) == [sentence]


def test_an_unreachable_robots_txt_does_not_count_as_forbidding(path):
    settings = {
        **QUIET,
        "ROBOTSTXT_OBEY": True,
        "CRAWLPRIO_ROBOTS_UNREACHABLE": "forbid",
        "CRAWLPRIO_STORE": str(path),
    }
    with Site({"/robots.txt": Answer("", 0), "/": page()}) as site:
        run = run_spider(SiteSpider, settings, site=site, seeds="http://a.test/")
    cause = "robots.txt unreachable (connection failed)"
    assert errors(path) == {"/": (0, cause)}
    assert run.stats["crawlprio/failed_because"] == f"{cause}: 1"
    assert "crawlprio/forbidden_by_robots.txt" not in run.stats
    assert run.messages(logging.ERROR) == [
        "http://a.test/robots.txt could not be read: connection failed; nothing of the site is "
        "fetched for 600 s.",
        f"No page could be fetched ({cause}: 1); check the seeds.",
    ]


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
