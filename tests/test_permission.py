"""No page of a site is requested before its robots.txt has been read, whoever leads there."""

import itertools
import logging
from time import time

import pytest
from crawls import ADDON, Answer, Site, page, run_spider
from scrapy import Request, Spider, signals
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from spiders import OneByOne

from crawlprio.middlewares import RobotsMiddleware, permission
from crawlprio.spiders.site import SiteSpider

ROBOTS = Answer("User-agent: *\nDisallow: /no\n", seconds=0.2)
OPEN = [f"/yes{n}" for n in range(8)]
CLOSED = [f"/no{n}" for n in range(8)]
MANY = {**ADDON, "ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS": 64}


def both():
    """Allowed and forbidden paths, alternating."""
    return [path for pair in zip(CLOSED, OPEN, strict=True) for path in pair]


def forbidden(site):
    return [f"{fetch.host}{fetch.path}" for fetch in site.fetches if fetch.path.startswith("/no")]


def is_after_robots(fetches):
    """Return whether every fetch started after the response to its host's robots.txt."""
    read = {}
    for fetch in fetches:
        if fetch.path == "/robots.txt":
            read.setdefault(fetch.host, fetch.end)
    return all(fetch.start >= read[fetch.host] for fetch in fetches if fetch.path != "/robots.txt")


def crawl(site, n_at_once, seeds, **settings):
    every = {**MANY, "CONCURRENT_REQUESTS_PER_DOMAIN": n_at_once, **settings}
    return run_spider(SiteSpider, every, site=site, seeds=",".join(seeds), follow="web")


@pytest.mark.parametrize("n_at_once", [1, 4, 16])
@pytest.mark.parametrize("lead", ["seeds", "links", "redirects"])
def test_pages_of_a_new_site_wait_for_its_robots_txt(lead, n_at_once):
    def answer(host, path):
        if lead == "redirects" and host == "a.test" and path in both():
            return Answer("", 302, {"Location": f"http://b.test{path}"})
        return page() if path in both() else None

    there = [f"http://b.test{path}" for path in both()]
    home = page(*(both() if lead == "redirects" else there))
    seeds = there if lead == "seeds" else ["http://a.test/"]
    run = crawl(({"a.test/": home, "b.test/robots.txt": ROBOTS}, answer), n_at_once, seeds)
    fetched = [fetch.path for fetch in run.site.fetches if fetch.host == "b.test"]
    assert sorted(fetched) == sorted(["/robots.txt", *OPEN])
    assert is_after_robots(run.site.fetches)
    assert run.stats["robotstxt/forbidden"] == len(CLOSED)


@pytest.mark.parametrize("n_at_once", [1, 16])
def test_retries_wait_for_robots_txt(n_at_once):
    """Every page fails once, and so does robots.txt."""

    class Failing(Site):
        def answer_to(self, fetch):
            asked = [before for before in self.fetches if before.path == fetch.path]
            return super().answer_to(fetch) if asked else Answer("", 500)

    pages = {path: page() for path in both()}
    with Failing({**pages, "/robots.txt": ROBOTS}) as site:
        crawl(
            site,
            n_at_once,
            [f"http://a.test{path}" for path in both()],
            RETRY_ENABLED=True,
            CRAWLPRIO_MAX_BACK_OFF=0,
        )
    assert forbidden(site) == []
    assert sorted(site.paths()) == sorted(OPEN * 2)


@pytest.mark.parametrize("n_at_once", [1, 16])
def test_a_resumed_crawl_reads_robots_txt_first(n_at_once, tmp_path):
    pages = {path: page() for path in both()}
    home = page(*both())
    with Site({**pages, "/": home, "/robots.txt": ROBOTS}) as site:
        for _ in range(5):
            before = len(site.fetches)
            crawl(
                site,
                n_at_once,
                ["http://a.test/"],
                JOBDIR=str(tmp_path),
                CRAWLPRIO_STORE="crawl.sqlite",
                CLOSESPIDER_PAGECOUNT=3,
                CLOSESPIDER_TIMEOUT=120,
            )
            assert is_after_robots(site.fetches[before:])
    assert forbidden(site) == []


def test_under_the_add_on_a_failing_robots_txt_allows_all_pages_with_one_log_line():
    pages = {path: page() for path in OPEN} | {"/robots.txt": Answer("", 0)}
    starts = [f"http://a.test{path}" for path in OPEN]
    settings = {**MANY, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}
    run = run_spider(OneByOne, settings, site=pages, start_urls=starts)
    assert sorted(run.site.paths()) == sorted(OPEN)
    told = [record for record in run.log if "robots.txt" in record.getMessage()]
    assert [(record.levelno, record.exc_info) for record in told] == [(logging.ERROR, None)]
    assert "http://a.test/robots.txt" in told[0].getMessage()


class Refusing:
    """A downloader middleware that refuses each robots.txt."""

    def process_request(self, request):
        if request.url.endswith("/robots.txt"):
            raise IgnoreRequest("not this one")


def moved(host, path):
    """Redirect a robots.txt for ever."""
    target = f"http://a.test{path}x"
    return Answer("", 302, {"Location": target}) if path.startswith("/robots.txt") else page()


def answering(status):
    return lambda host, path: Answer("", status) if path == "/robots.txt" else page()


@pytest.mark.parametrize("mode", ["forbid", "allow"])
@pytest.mark.parametrize(
    ("answer", "settings", "cause"),
    [
        (moved, {}, "refused"),
        (answering(302), {"REDIRECT_ENABLED": False}, "status 302"),
        (answering(429), {}, "status 429"),
        (answering(500), {}, "status 500"),
        (answering(0), {}, "connection failed"),
        (answering(200), {"DOWNLOADER_MIDDLEWARES": {Refusing: 900}}, "refused"),
    ],
    ids=["6-redirects", "302", "429", "500", "none", "refused"],
)
def test_a_robots_txt_that_was_not_read_allows_nothing_unless_set(answer, settings, cause, mode):
    seeds = [f"http://a.test{path}" for path in OPEN]
    own = {"CRAWLPRIO_ROBOTS_UNREACHABLE": mode, "CRAWLPRIO_MAX_BACK_OFF": 0, **settings}
    run = crawl(({}, answer), 8, seeds, RETRY_ENABLED=False, **own)
    pages = [path for path in run.site.paths() if not path.startswith("/robots.txt")]
    if mode == "allow":
        assert sorted(pages) == sorted(OPEN)
    else:
        assert pages == []
        assert run.stats["crawlprio/refused/robots-unreachable"] == len(OPEN)
        assert run.stats["crawlprio/failed_because"] == f"robots.txt unreachable ({cause}): 8"


def test_a_robots_txt_is_fetched_again_once_it_is_no_longer_valid(monkeypatch):
    """It then allows what it forbade; once it cannot be read, the rules read last remain."""
    monkeypatch.setattr(permission.robots_txt, "ASK_AGAIN", 0)
    n_asked = itertools.count()
    answers = [
        Answer("User-agent: *\nDisallow: /no", headers={"Cache-Control": "max-age=0"}),
        Answer("User-agent: *\nDisallow: /yes2", headers={"Cache-Control": "max-age=0"}),
        Answer("", 503),
    ]

    def answer(host, path):
        return answers[min(next(n_asked), 2)] if path == "/robots.txt" else page()

    seeds = [f"http://a.test/{path}" for path in ("no1", "no2", "yes1", "yes2", "yes3")]
    one = {"CONCURRENT_REQUESTS": 1, "CRAWLPRIO_ROBOTS_UNREACHABLE": "forbid"}
    run = crawl(({}, answer), 1, seeds, **one, CRAWLPRIO_MAX_BACK_OFF=0, ORDERING="breadth-first")
    assert run.site.paths(robots=True) == [
        *("/robots.txt", "/robots.txt", "/no2", "/robots.txt", "/yes1", "/robots.txt"),
        *("/robots.txt", "/yes3"),
    ]


@pytest.mark.parametrize(
    ("said", "seconds"), [({}, 86_400), ({"Cache-Control": "max-age=3600"}, 3600)]
)
def test_a_long_crawl_fetches_robots_txt_again_after_a_day_or_its_max_age(
    said, seconds, monkeypatch
):
    """The second page comes just before, the third just after."""
    passed = {"/1": seconds - 100, "/2": seconds + 100}
    offset = [0]

    def later():
        return time() + offset[0]

    def answer(host, path):
        offset[0] = passed.get(path, offset[0])
        return Answer("User-agent: *\nDisallow:", headers=said)

    monkeypatch.setattr(permission, "time", later)
    run = crawl(
        ({}, answer),
        1,
        [f"http://a.test/{n}" for n in (1, 2, 3)],
        CONCURRENT_REQUESTS=1,
        ORDERING="breadth-first",
    )
    assert run.site.paths(robots=True) == ["/robots.txt", "/1", "/2", "/robots.txt", "/3"]


def test_a_robots_txt_that_was_dropped_is_fetched_again(monkeypatch):
    monkeypatch.setattr(permission, "MAX_BYTES_KEPT", 0)
    with Site({path: page() for path in both()} | {"/robots.txt": ROBOTS}) as site:
        crawl(site, 1, ["http://a.test/no1", "http://a.test/yes1"], CONCURRENT_REQUESTS=1)
    assert sorted(site.paths(robots=True)) == ["/robots.txt", "/robots.txt", "/yes1"]


class Two(Spider):
    """Has a User-Agent for each request, and notes the Crawl-delays that it is told of."""

    name = "two"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.delays = []
        crawler.signals.connect(spider.note, signal=signals.robots_parsed)
        return spider

    def note(self, robotparser):
        self.delays.append(robotparser.rp.crawl_delay("any"))

    async def start(self):
        for path, agent in itertools.product(("/no", "/yes"), ("one", "two", "one")):
            url = f"http://a.test{path}"
            yield Request(url, headers={"User-Agent": agent}, dont_filter=True)

    def parse(self, response):
        pass


@pytest.mark.parametrize("n_at_once", [1, 16])
def test_each_user_agent_obeys_its_own_rules_of_a_file_that_is_read_once(n_at_once):
    robots = Answer(
        "User-agent: one\nDisallow: /no\nCrawl-delay: 0.01\n\n"
        "User-agent: two\nDisallow: /yes\nCrawl-delay: 0.02"
    )
    with Site({"/no": page(), "/yes": page(), "/robots.txt": robots}) as site:
        run = run_spider(Two, {**MANY, "CONCURRENT_REQUESTS": n_at_once}, site=site)
    assert sorted(site.paths(robots=True)) == ["/no", "/robots.txt", "/yes", "/yes"]
    assert run.spider.delays == [0.01, 0.02]


def test_a_projects_own_middleware_remains():
    class Own(RobotsTxtMiddleware):
        pass

    class Empty(Spider):
        name = "empty"
        start_urls = ()

    own = {**MANY, "DOWNLOADER_MIDDLEWARES": {Own: 100, RobotsTxtMiddleware: None}}
    used = run_spider(Empty, own).crawler.get_downloader_middleware
    assert used(Own) is not None
    assert used(RobotsMiddleware) is None
    stock = run_spider(Empty, MANY).crawler.get_downloader_middleware
    assert type(stock(RobotsTxtMiddleware)) is RobotsMiddleware
