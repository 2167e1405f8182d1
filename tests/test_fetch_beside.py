"""What a crawl fetches beside its pages, for whoever asks it: under its rules, and not twice."""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest
from crawls import ADDON, Answer, Site, page, run_spider
from scrapy import Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.side_fetches import AnswerCache, fetch_beside, fresh_seconds

ROBOTS = Answer("User-agent: *\nDisallow: /private\nDisallow: /to/private")
SCRIPT = {"Content-Type": "text/javascript; charset=utf-8"}
JSON = {"Content-Type": "application/json"}
ASKED = ["/app.js", "/now.json", "/app.js", "/now.json", "/page.json", "/page.json", "/missing"]


class Asking(Spider):
    """Asks the crawl for URLs, one after the other, then all at once."""

    name = "asking"
    one_by_one = ()
    together = ()

    def __init__(self):
        super().__init__()
        self.answers, self.errors = [], {}

    async def ask(self, url):
        try:
            answer = await fetch_beside(CrawlContext.of(self.crawler), url)
        except IgnoreRequest as error:
            self.errors[url] = error
        else:
            self.answers.append((url, answer.status, answer.text))

    async def parse(self, response):
        for url in self.one_by_one:
            await self.ask(response.urljoin(url))
        await asyncio.gather(*(self.ask(response.urljoin(url)) for url in self.together))


def asked(site, *, one_by_one=(), together=(), **settings):
    spider = type("Asked", (Asking,), {"one_by_one": one_by_one, "together": together})
    spider.start_urls = [f"http://{site.address}/"]
    return run_spider(spider, {**ADDON, "ROBOTSTXT_OBEY": True, **settings})


def test_scripts_are_fetched_once_and_others_as_their_cache_control_says():
    web = {
        "/": page(),
        "/app.js": Answer("run()", headers={**SCRIPT, "Cache-Control": "no-store"}),
        "/now.json": Answer("1", headers={**JSON, "Cache-Control": "no-cache, max-age=60"}),
        "/page.json": Answer("2", headers=JSON),
    }
    with Site(web) as site:
        done = asked(site, one_by_one=ASKED)
    n_fetches = Counter(site.paths())
    assert n_fetches == {"/": 1, "/app.js": 1, "/now.json": 2, "/page.json": 1, "/missing": 1}
    texts = [text for _, _, text in done.spider.answers]
    assert texts == ["run()", "1", "run()", "1", "2", "2", "nothing here"]
    assert done.stats["response_received_count"] == 2, "the page and robots.txt"


def test_who_asks_while_it_is_fetched_gets_the_same_answer():
    answers = {"/": page(), "/x": Answer("x", headers={"Cache-Control": "no-store"})}
    with Site(answers) as site:
        done = asked(site, together=["/x"] * 5)
    assert site.paths() == ["/", "/x"]
    assert [text for _, _, text in done.spider.answers] == ["x"] * 5


def test_robots_txt_and_the_guard_hold_even_after_redirects():
    with Site({}) as site:
        port = site.address.rpartition(":")[2]
        private = f"http://127.0.0.9:{port}/secret"
        to = {
            "/to/outside": private,
            "/to/robots": "/private/2",
        }
        web = {path: Answer("", 302, {"Location": target}) for path, target in to.items()}
        site._pages = {"/": page(), "/robots.txt": ROBOTS, "/secret": Answer("no"), **web}
        wanted = ["/private/1", private, "http://10.255.255.1/", *to]
        done = asked(site, one_by_one=wanted, CRAWLPRIO_PRIVATE_ADDRESSES="seeds")
    assert site.paths() == ["/", "/to/outside", "/to/robots"]
    assert len(done.spider.errors) == len(wanted)
    assert not done.spider.answers


def test_side_fetches_keep_the_delay_of_their_site():
    answers = {"/": page(), **{f"/{n}": Answer("x") for n in range(4)}}
    with Site(answers) as site:
        # One at a time: then the delay is from the end of a fetch, which a busy machine keeps.
        own = {"DOWNLOAD_DELAY": 0.3, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
        asked(site, together=[f"/{n}" for n in range(4)], **own)
    starts = sorted(fetch.start for fetch in site.fetches if fetch.path != "/robots.txt")
    assert len(starts) == 5
    assert min(after - before for before, after in pairwise(starts)) >= 0.29


def answer(n_bytes, kind="application/json", status=200, control=None):
    headers = {"Content-Type": kind} | ({"Cache-Control": control} if control else {})
    return Response("http://a.example/", status, headers, b"x" * n_bytes)


@pytest.mark.parametrize(
    ("control", "kind", "status", "seconds"),
    [
        (None, "application/json", 200, 60),
        ('public, Max-Age="5"', "application/json", 200, 5),
        ("no-store", "application/json", 200, 0),
        ("max-age=5, no-cache", "application/json", 200, 0),
        ("max-age=0", "application/json", 200, 0),
        ("max-age=soon", "application/json", 200, 60),
        ("no-store", "application/javascript", 200, float("inf")),
        (None, "application/json", 404, 60),
        (None, "application/json", 503, 0),
        (None, "text/javascript", 503, 0),
    ],
)
def test_an_answer_is_fresh_for_as_long_as_it_says(control, kind, status, seconds):
    assert fresh_seconds(answer(1, kind, status, control)) == seconds


def test_the_least_recently_used_answers_leave_a_full_cache():
    cache = AnswerCache(max_bytes=100)
    for name in "abc":
        cache.put(name, answer(30), now=0.0)
    assert cache.get("a", 1.0) is not None
    cache.put("d", answer(30), now=1.0)
    cache.put("too large", answer(101), now=1.0)
    assert [name for name in "abcd" if cache.get(name, 2.0)] == ["a", "c", "d"]
    cache.put("a", answer(90), now=2.0)
    assert [name for name in "abcd" if cache.get(name, 61.5)] == ["a"]
    assert cache.get("a", 62.5) is None
