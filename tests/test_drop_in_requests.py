"""The add-on loses no request.

Not several requests for the same page, not those of slow callbacks, and not those of a resumed
crawl.
"""

import asyncio
from collections import Counter

import pytest
from crawls import ADDON, Answer, Site, Together, job_in, run_spider
from drop_in import ROOT, CountingSite, html
from scrapy import Request, Spider, signals

from crawlprio.store import Store

PLAIN = {}


class Any200(Site):
    def __init__(self, hold=lambda answer: answer):
        super().__init__({}, lambda host, path: hold(html("there")))


class Anchored(Spider):
    """Requests two pages by URLs with fragments."""

    name = "anchored"
    start_urls = [f"{ROOT}/guide#install"]

    def parse(self, response):
        yield {"url": response.request.url}
        if response.url.endswith("/guide"):
            yield response.follow("/api?x=1#top")


def test_the_url_of_a_page_has_no_fragment_but_its_request_has(path):
    with Any200() as site:
        run = run_spider(Anchored, {**ADDON, "CRAWLPRIO_STORE": str(path)}, site=site)
    assert [item["url"] for item in run.items] == [f"{ROOT}/guide#install", f"{ROOT}/api?x=1#top"]
    with Store.open(path, readonly=True) as store:
        urls = [url for url, _ in store.read_urls(range(store.n_pages))]
    assert urls == [f"{ROOT}/guide", f"{ROOT}/api?x=1"]


class Crowd(Spider):
    """Forty sessions that request one URL at once."""

    name = "crowd"

    async def start(self):
        for jar in range(40):
            yield Request(f"{ROOT}/cart", meta={"cookiejar": jar}, dont_filter=True)

    def parse(self, response):
        yield {"jar": response.meta["cookiejar"]}


def test_requests_for_one_url_are_fetched_as_concurrently_as_others():
    together = Together(8)  # CONCURRENT_REQUESTS_PER_DOMAIN
    with Any200(together.hold) as site:
        run = run_spider(Crowd, {**ADDON, "CONCURRENT_REQUESTS": 16}, site=site)
    assert sorted(item["jar"] for item in run.items) == list(range(40))
    assert together.most == 8


class Sleeper(Spider):
    """Each callback awaits for a while, without blocking the event loop."""

    name = "sleeper"
    n_pages, seconds = 20, 2.0

    def __init__(self):
        super().__init__()
        self.n_asleep = self.most_asleep = 0

    async def start(self):
        for number in range(self.n_pages):
            yield Request(f"{ROOT}/{number}")

    async def parse(self, response):
        self.n_asleep += 1
        self.most_asleep = max(self.most_asleep, self.n_asleep)
        await asyncio.sleep(self.seconds)
        self.n_asleep -= 1
        yield {"url": response.url}


@pytest.mark.parametrize("n_at_once", [1, 16])
def test_callbacks_that_await_do_not_keep_others_from_being_fetched(n_at_once):
    with Any200() as site:
        run = run_spider(Sleeper, {**ADDON, "CONCURRENT_REQUESTS": n_at_once}, site=site)
    assert len(run.items) == 20
    assert run.spider.most_asleep > 1


class Stopped(Spider):
    """Makes some start requests, and is stopped at the first response of its first run."""

    name = "stopped"
    dont_filter = False
    stops = False
    n_pages = 6

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        if spider.stops:
            crawler.signals.connect(spider.stop, signal=signals.response_downloaded)
        return spider

    def stop(self):
        if self.stops:
            self.stops = False
            closing = self.crawler.engine.close_spider_async(reason="stopped")
            self.closing = asyncio.ensure_future(closing)

    async def start(self):
        for number in range(self.n_pages):
            yield Request(f"{ROOT}/{number}", dont_filter=self.dont_filter)

    def parse(self, response):
        yield {"url": response.url}


def crawl_in_two_runs(spider, site, settings, jobdir, **arguments):
    """Crawl until the first response, then to the end; return the items of both runs."""
    items = []
    for stops in (True, False):
        every = {**settings, **job_in(jobdir), "RETRY_ENABLED": True}
        run = run_spider(spider, every, site=site, stops=stops, **arguments)
        items.append(run.items)
    assert run.reason == "finished"
    return items


@pytest.mark.parametrize("addon", [PLAIN, ADDON], ids=["plain", "addon"])
def test_failing_start_pages_of_a_resumed_crawl_are_retried(tmp_path, addon):
    answers = {f"/{number}": [Answer("", 503)] * 3 + [html("there")] for number in range(6)}
    settings = {**addon, "RETRY_TIMES": 5, "CRAWLPRIO_MAX_BACK_OFF": 0.05}
    with CountingSite(answers) as site:
        first, second = crawl_in_two_runs(Stopped, site, settings, tmp_path / "job")
    assert sorted(item["url"] for item in first + second) == [
        f"{ROOT}/{number}" for number in range(6)
    ]


@pytest.mark.parametrize("addon", [PLAIN, ADDON], ids=["plain", "addon"])
def test_start_pages_of_a_resumed_crawl_may_redirect_to_themselves_with_a_cookie(tmp_path, addon):
    class Again(Stopped):
        n_pages = 5
        dont_filter = True

    answers = {
        f"/{number}": [Answer("", 302, {"Location": f"/{number}", "Set-Cookie": "a=b"})] * 3
        + [html("there")]
        for number in range(5)
    }
    with CountingSite(answers) as site:
        first, second = crawl_in_two_runs(Again, site, addon, tmp_path / "job")
    assert {item["url"] for item in first + second} == {f"{ROOT}/{number}" for number in range(5)}


class Session(Stopped):
    """Logs in with a start request that is never a duplicate, then asks for pages."""

    async def start(self):
        yield Request(f"{ROOT}/login", self.logged_in, dont_filter=True, priority=10)

    def logged_in(self, response):
        yield {"login": True}
        for number in range(6):
            yield Request(f"{ROOT}/{number}")

    def parse(self, response):
        yield {"url": response.url, "text": response.css("body::text").get()}


class MembersSite(Site):
    """A site that shows its pages only to logged-in sessions."""

    def answer_to(self, fetch):
        if fetch.path == "/login":
            return html("welcome", **{"Set-Cookie": "session=1"})
        return html("member" if "session=1" in fetch.headers.get("cookie", "") else "stranger")


@pytest.mark.parametrize("addon", [PLAIN, ADDON], ids=["plain", "addon"])
def test_a_resumed_crawl_repeats_a_login_among_the_start_requests(tmp_path, addon):
    settings = {**addon, "CONCURRENT_REQUESTS": 1}
    with MembersSite({}) as site:
        first, second = crawl_in_two_runs(Session, site, settings, tmp_path / "job")
    pages = Counter(item["text"] for item in first + second if "url" in item)
    assert pages == {"member": 6}
    assert {"login": True} in first
    assert {"login": True} in second
