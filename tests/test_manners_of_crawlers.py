"""Ours breaks no rule of politeness, by what a server saw of it; wget without robots.txt does."""

import shutil
import subprocess

import pytest
from crawls import PROJECT, Answer, Site, page, run_spider
from log_judge import Seen, broken_rules, seen_by_site

from crawlprio.spiders.site import SiteSpider

ROBOTS = "User-agent: *\nDisallow: /no\n"
LINKS = [path for n in range(8) for path in (f"/no{n}", f"/yes{n}", f"/search?q={n}")]
WEB = {
    "/robots.txt": Answer(ROBOTS),
    "/": page(*LINKS),
    **{path: Answer("<p>x", headers={"Content-Type": "text/html"}, seconds=0.02) for path in LINKS},
}
WGET = shutil.which("wget")


def n_broken(site, **limits):
    """Return how many requests broke each rule, by what the server saw."""
    seen = seen_by_site(site.fetches, getattr(site, "busy", ()))
    assert len(seen) > 3
    broken = broken_rules(seen, ROBOTS, **limits)
    return {rule: len(requests) for rule, requests in broken.items()}


@pytest.mark.skipif(WGET is None, reason="wget is not installed")
def test_wget_without_robots_txt_breaks_five_rules(tmp_path):
    with Site(WEB) as site:
        subprocess.run(
            ["wget", "-q", "-r", "-e", "robots=off", f"http://{site.address}/"],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
            timeout=60,
            check=False,
        )
    found = n_broken(site, delay=1, at_once=1, queries=5)
    n_pages = 1 + len(LINKS)
    assert found.pop("delay") > n_pages / 2
    assert found == {"robots-first": n_pages, "disallowed": 8, "queries": 3, "contact": n_pages}


class Busy(Site):
    """Answers 503 once on one of its hosts."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.busy = []

    def answer_to(self, fetch):
        asked = [before.path for before in self.fetches if before.host == fetch.host]
        if fetch.host == "b.test" and len(asked) == 2:
            self.busy.append((fetch.host, fetch.start))
            return Answer("later", 503, {"Retry-After": "1"})
        return super().answer_to(fetch)


def test_ours_breaks_none():
    """On two hosts, one of which asks for a pause, and answers 503 once."""
    home = page("/yes1", "/no1", "http://b.test/", "/search?q=1", "/yes2")
    with Busy({**WEB, "a.test/": home, "b.test/": page("/yes1", "/no2")}) as site:
        run_spider(
            SiteSpider,
            {
                **PROJECT,
                "USER_AGENT": "crawlprio/1 (+https://a.test/)",
                "DOWNLOAD_DELAY": 0.3,
                "RETRY_ENABLED": True,
            },
            site=site,
            seeds="http://a.test/,http://b.test/",
        )
    assert [fetch.host for fetch in site.fetches].count("b.test") > 3
    assert len(site.busy) == 1
    assert n_broken(site, delay=0.3, at_once=1, queries=5) == {}


@pytest.mark.parametrize("at_once", [1, 2])
def test_ours_breaks_none_with_page_requisites(tmp_path, at_once):
    needs = [
        f"http://{host}.test/{name}{n}" for host in "abc" for name in ("no", "i") for n in "12"
    ]
    images = "".join(f"<img src={url}>" for url in needs)
    home = Answer(f"<a href=/no1>1</a>{images}", headers={"Content-Type": "text/html"})
    slow = {f"/i{n}": Answer("image", seconds=0.05) for n in "12"}
    with Busy({**WEB, **slow, "a.test/": home}) as site:
        run_spider(
            SiteSpider,
            {
                **PROJECT,
                "USER_AGENT": "crawlprio/1 (+https://a.test/)",
                "DOWNLOAD_DELAY": 0.2,
                "CONCURRENT_REQUESTS_PER_DOMAIN": at_once,
                "RETRY_ENABLED": True,
                "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite"),
                "CRAWLPRIO_WARC": str(tmp_path),
                "CRAWLPRIO_REQUISITES": "all",
            },
            site=site,
            seeds="http://a.test/",
        )
    fetched = [f"http://{fetch.host}{fetch.path}" for fetch in site.fetches]
    assert [url for url in needs if "/i" in url and url not in fetched] == []
    # Between starts, of which a busy machine lets some arrive late.
    assert n_broken(site, delay=0.2 / at_once, at_once=at_once) == {}


POLITE = [Seen("a", path, "GET", 200, "bot (+https://b.test/)", t, t + 0.2)
          for path, t in (("/robots.txt", 0), ("/yes", 2), ("/yes?q=1", 4), ("/", 6))]  # fmt: skip
RUDE = {
    "robots-first": [POLITE[1]._replace(start=-9, end=-8.8)],
    "robots-age": [POLITE[1]._replace(start=90_000, end=90_001)],
    "disallowed": [POLITE[1]._replace(target="/no/1", start=9, end=10)],
    "delay": [POLITE[1]._replace(start=6.5, end=6.6)],
    "back-off": [
        POLITE[1]._replace(start=9, end=10, status=503),
        POLITE[1]._replace(start=11.2, end=12),
    ],
    "at-once": [POLITE[1]._replace(start=9, end=20), POLITE[1]._replace(start=12, end=13)],
    "queries": [POLITE[2]._replace(start=9 + n, end=9 + n) for n in (0, 2)],
    "methods": [POLITE[1]._replace(method="POST", start=9, end=10)],
    "contact": [POLITE[1]._replace(agent="bot", start=9, end=10)],
}


@pytest.mark.parametrize("rule", RUDE)
def test_the_judge_finds_each_planted_violation(rule):
    limits = {"delay": 1, "at_once": 1, "retry_after": 3, "queries": 2}
    assert broken_rules(POLITE, ROBOTS, **limits) == {}
    broken = broken_rules([*POLITE, *RUDE[rule]], ROBOTS, **limits)
    assert len(broken.pop(rule)) == 1
    assert set(broken) <= {"delay"}
