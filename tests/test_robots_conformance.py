"""Ours obeys a robots.txt as RFC 9309 says: 75 files against the matcher, 25 fetches.

`benchmarks/robots_txt.py` puts the same questions to other crawlers.
"""

import gzip

import pytest
from crawls import PROJECT, Answer, run_spider
from log_judge import RobotsRules
from robots_cases import BOT, CASES
from scrapy import Request

from crawlprio.middlewares import RobotsMiddleware
from crawlprio.spiders.site import SiteSpider
from crawlprio.web.robots_txt import MAX_BYTES, decoded


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_rules_mean_what_rfc_9309_says(case):
    assert RobotsRules(decoded(case.robots), BOT).allows(case.path) == case.allowed


def test_every_case_shows_something_else():
    assert len(CASES) >= 60
    assert len({case.claim for case in CASES}) == len(CASES)
    assert sum(case.allowed for case in CASES) > len(CASES) / 4


TEXT = {"Content-Type": "text/plain"}
RULES = "User-agent: *\nDisallow: /no\n"


def text(body=RULES, status=200, **headers):
    return Answer(body, status, {**TEXT, **headers})


def moved(to, status=301):
    return Answer("", status, {"Location": to})


def hops(n_hops, last, away=""):
    """Answer /robots.txt with redirects, the last of which leads to an answer."""

    def answer(path):
        n_done = 0 if path == "/robots.txt" else int(path.removeprefix("/hop"))
        return last if n_done == n_hops else moved(f"{away}/hop{n_done + 1}")

    return answer


def only(answer):
    return lambda path: answer


ALL, SOME, NONE = ["/no", "/yes"], ["/yes"], list[str]()

FETCHES = {
    "200": (only(text()), SOME),
    "204": (only(text("", 204)), ALL),
    "empty": (only(text("")), ALL),
    "401": (only(text(status=401)), ALL),
    "403": (only(text(status=403)), ALL),
    "404": (only(text(status=404)), ALL),
    "410": (only(text(status=410)), ALL),
    "429": (only(text(status=429)), NONE),
    "500": (only(text(status=500)), NONE),
    "503": (only(text(status=503)), NONE),
    "no-answer": (only(Answer("", 0)), NONE),
    "1-redirect": (hops(1, text()), SOME),
    "5-redirects": (hops(5, text()), SOME),
    "6-redirects": (hops(6, text()), NONE),
    "302": (lambda path: text() if path == "/r" else moved("/r", 302), SOME),
    "308": (lambda path: text() if path == "/r" else moved("/r", 308), SOME),
    "redirect-to-404": (hops(1, text(status=404)), ALL),
    "redirect-to-500": (hops(1, text(status=500)), NONE),
    "redirect-away": (only(moved("http://elsewhere.test/rules")), SOME),
    "html": (only(Answer("<title>Home</title>", headers={"Content-Type": "text/html"})), ALL),
    "rules-as-html": (only(Answer(RULES, headers={"Content-Type": "text/html"})), SOME),
    "no-type": (only(Answer(RULES)), SOME),
    "latin-1-header": (only(text(**{"Content-Type": "text/plain; charset=iso-8859-1"})), SOME),
    "over-500-kib": (only(text(RULES + "# x\n" * (MAX_BYTES // 4) + "Disallow: /\n")), SOME),
}  # fmt: skip
"""What the robots.txt of a host answers, and which of its two pages are then fetched."""


def test_robots_txt_is_fetched_as_rfc_9309_says():
    """Departures, both towards less: 429 and a sixth redirect allow nothing (2.3.1.2, 2.3.1.3)."""
    names = {f"{name}.test": name for name in FETCHES}

    def answer(host, path):
        if path in ALL:
            return Answer("x", headers={"Content-Type": "text/html"})
        if host == "elsewhere.test":
            return text() if path == "/rules" else text("User-agent: *\nDisallow: /\n")
        return FETCHES[names[host]][0](path)

    settings = {**PROJECT, "CRAWLPRIO_MAX_BACK_OFF": 0, "CONCURRENT_REQUESTS": 50}
    seeds = ",".join(f"http://{host}{path}" for host in names for path in ALL)
    run = run_spider(SiteSpider, settings, site=({}, answer), seeds=seeds)
    fetched = {
        name: sorted(f.path for f in run.site.fetches if f.host == host and f.path in ALL)
        for host, name in names.items()
    }
    assert fetched == {name: allowed for name, (_, allowed) in FETCHES.items()}
    asked = [f.host for f in run.site.fetches if f.path == "/robots.txt"]
    assert sorted(asked) == sorted(names)
    # What is permitted at once is permitted after waiting, too; only files that were read count.
    robots = run.crawler.get_downloader_middleware(RobotsMiddleware)
    for host, name in names.items():
        at_once = [path for path in ALL if robots.permits(Request(f"http://{host}{path}"))]
        assert at_once == fetched[name] or (at_once == [] and fetched[name] == ALL)


def test_a_packed_robots_txt_is_unpacked():
    from hostile import RawSite, crawl, raw

    body = raw(gzip.compress(RULES.encode()), "Content-Encoding: gzip", "Content-Type: text/plain")

    def answer(host, path):
        return body if path == "/robots.txt" else raw(b"<a href=/no>x</a><a href=/yes>y</a>")

    with RawSite(answer) as site:
        crawl(site, {"ROBOTSTXT_OBEY": True})
    assert [path for _, path in site.requests if path != "/robots.txt"] == ["/", "/yes"]
