"""The command `manners` tells rude crawlers from polite ones by what a server saw of them."""

import shutil
import subprocess

import pytest
from access_logs import logged, write_log
from crawls import Answer, Site, page, run_spider

from crawlprio.commands.crawl import bundled_settings
from crawlprio.plugins.manners.access_log import AccessLog
from crawlprio.plugins.manners.judge import Judge, Limits, RobotsHistory
from crawlprio.spiders.site import SiteSpider

ROBOTS = "User-agent: *\nDisallow: /no\n"
LINKS = [path for n in range(8) for path in (f"/no{n}", f"/yes{n}", f"/search?q={n}")]
WEB = {
    "/robots.txt": Answer(ROBOTS),
    "/": page(*LINKS),
    **{path: Answer("<p>x", headers={"Content-Type": "text/html"}, seconds=0.02) for path in LINKS},
}
WGET = shutil.which("wget")


def verdicts(folder, fetches, agent, **limits):
    """Return how often a crawler broke which rule, by a log of what the server saw."""
    (folder / "robots.txt").write_text(ROBOTS)
    log = AccessLog([write_log(folder / "access.log", logged(fetches))])
    judge = Judge(log, agent, Limits(**limits), RobotsHistory(folder / "robots.txt", agent))
    judge.run()
    assert judge.n_requests == log.n_lines == len(fetches) > 3
    return {str(rule): found.n_broken for rule, found in judge.findings.items() if found.n_broken}


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
    found = verdicts(tmp_path, site.fetches, "wget", delay=1, at_once=1, queries=5)
    n_pages = 1 + len(LINKS)
    assert found.pop("delay") > n_pages / 2
    assert found == {"robots-first": n_pages, "disallowed": 8, "queries": 3, "contact": 1}


class Busy(Site):
    """Answers 503 once on one of its hosts."""

    def answer_to(self, fetch):
        asked = [before.path for before in self.fetches if before.host == fetch.host]
        if fetch.host == "b.test" and len(asked) == 2:
            return Answer("later", 503, {"Retry-After": "1"})
        return super().answer_to(fetch)


def test_ours_breaks_none(tmp_path):
    """On two hosts, one of which asks for a pause, and answers 503 once."""
    home = page("/yes1", "/no1", "http://b.test/", "/search?q=1", "/yes2")
    with Busy({**WEB, "a.test/": home, "b.test/": page("/yes1", "/no2")}) as site:
        run_spider(
            SiteSpider,
            {
                **bundled_settings(),
                "USER_AGENT": "crawlprio/1 (+https://a.test/)",
                "DOWNLOAD_DELAY": 0.3,
                "RETRY_ENABLED": True,
                "CRAWLPRIO_STORE": None,
                "CRAWLPRIO_PRINT": False,
            },
            site=site,
            seeds="http://a.test/,http://b.test/",
        )
    assert [fetch.host for fetch in site.fetches].count("b.test") > 3
    found = verdicts(
        tmp_path, site.fetches, "crawlprio", delay=0.3, at_once=1, retry_after=1, queries=5
    )
    assert found == {}


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
                **bundled_settings(),
                "USER_AGENT": "crawlprio/1 (+https://a.test/)",
                "DOWNLOAD_DELAY": 0.2,
                "CONCURRENT_REQUESTS_PER_DOMAIN": at_once,
                "RETRY_ENABLED": True,
                "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite"),
                "CRAWLPRIO_WARC": str(tmp_path),
                "CRAWLPRIO_REQUISITES": "all",
                "CRAWLPRIO_PRINT": False,
            },
            site=site,
            seeds="http://a.test/",
        )
    fetched = [f"http://{fetch.host}{fetch.path}" for fetch in site.fetches]
    assert [url for url in needs if "/i" in url and url not in fetched] == []
    # Between starts, of which a busy machine lets some arrive late.
    limits = {"delay": 0.2 / at_once, "at_once": at_once, "retry_after": 1}
    assert verdicts(tmp_path, site.fetches, "crawlprio", **limits) == {}
