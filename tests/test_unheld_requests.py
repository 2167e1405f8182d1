"""A request that JSON cannot hold is resumed by no other in its place, however the crawl ended."""

import logging
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import partial

import pytest
import scrapy
from crawls import ADDON, Site, page, run_spider
from forked import run_to_end
from stores import change, letters, query, visit, visited_urls

from crawlprio.frontier import PageQueue
from crawlprio.frontier.struct_layouts import UNKNOWN, WAITING
from crawlprio.graph.pages import NO_PAGE
from crawlprio.items import LinkPairs
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.measure.explanations import Policy, explain_head, explain_url
from crawlprio.orderings import make_ordering
from crawlprio.store import Store

ROOT = "http://shop.test"


@dataclass
class Product:
    name: str


class Colour(Enum):
    RED = 1


class Opaque:
    """Nothing that JSON holds."""


class Text(str):
    """Neither is this, though a cookie may be one."""

    __slots__ = ()


class Tokened(scrapy.Request):
    """Keeps something that its `attributes` do not name."""

    def __init__(self, *args, token=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.token = token


class Other(scrapy.Spider):
    name = "other"

    def detail(self, response): ...


class Orders(scrapy.Spider):
    """Yields requests of all kinds from one page."""

    name = "orders"
    custom_settings = {"CONCURRENT_REQUESTS": 1}
    fetched: list[tuple[str, str, str]] = []

    async def start(self):
        yield scrapy.Request(f"{ROOT}/", self.first)

    def first(self, response):
        def nested(response): ...

        def request(path, callback=self.detail, kind=scrapy.Request, **more):
            return kind(f"{ROOT}/{path}", callback, **more)

        opaque = {"meta": {"item": Opaque()}}
        yield request("post", method="POST", body=b"x=1", **opaque)
        yield request("lambda", lambda response: None)
        yield request("partial", partial(self.detail, n=1))
        yield request("nested", nested)
        yield request("other", Other().detail)
        yield request("errback", errback=lambda failure: None)
        yield request("keyword", cb_kwargs={"n": Opaque()})
        yield request("flags", flags=[Opaque()])
        yield request("cookies", cookies={"a": Text("b")})
        yield request("class", kind=Tokened, token="secret")
        yield request("priority", priority=3, meta={"of": {"a": [Opaque()]}})
        yield request("again", lambda response: None, dont_filter=True)
        yield request("held-post", method="POST", body=b"y=1", meta={"item": Product("p")})
        yield request("held", meta={"colour": Colour.RED}, headers={"X-Of": "first"})
        yield request("plain")

    def detail(self, response, n=0):
        self.fetched.append((response.request.method, response.url, repr(response.meta)))

    def parse(self, response):
        raise AssertionError("no request names this callback")


HELD = [("GET", "/held"), ("GET", "/plain"), ("POST", "/held-post")]
N_UNHELD = 12


def run(folder, site, spider=Orders, **settings):
    every = {**ADDON, "JOBDIR": str(folder), "CRAWLPRIO_STORE": "crawl.sqlite", **settings}
    return run_spider(spider, {"ORDERING": "breadth-first", **every}, site=site)


def asked_for(site, n_before=0):
    return sorted((fetch.method, fetch.path) for fetch in site.fetches[n_before:])


def said(run):
    return [each for each in run.messages() if "will not be sent" in each]


class TestResumed:
    @pytest.mark.parametrize("killed", [False, True], ids=["in good order", "killed"])
    def test_what_json_holds_comes_back_whole_and_nothing_else_is_sent(self, tmp_path, killed):
        with Site({}, lambda host, path: page()) as site:
            first = run(tmp_path, site, CLOSESPIDER_PAGECOUNT=1)
            assert asked_for(site) == [("GET", "/")]
            assert first.stats["scheduler/unserializable"] == N_UNHELD
            if killed:
                change(tmp_path / "crawl.sqlite", "DELETE FROM meta WHERE key = 'ended_at'")
            Orders.fetched.clear()
            second = run(tmp_path, site)
            assert asked_for(site, 1) == HELD
            whole = {url: meta for _, url, meta in Orders.fetched}
            assert "Product(name='p')" in whole[f"{ROOT}/held-post"]
            assert "<Colour.RED: 1>" in whole[f"{ROOT}/held"]
            (held,) = (fetch for fetch in site.fetches if fetch.path == "/held")
            assert held.headers["x-of"] == "first"
            assert second.messages(logging.ERROR) == []
            (sentence,) = said(second)
            assert sentence.startswith(f"{N_UNHELD} of the requests that waited could not be")
            assert f"<POST {ROOT}/post>: meta['item'] is an Opaque, which JSON cannot" in sentence
            assert second.stats["crawlprio/pages_fetched"] == 4
            third = run(tmp_path, site)
            assert len(site.fetches) == 4
            assert said(third) == said(second)
        assert sorted(visited_urls(tmp_path / "crawl.sqlite")) == [
            f"{ROOT}/{path}" for path in ("", "held", "held-post", "plain")
        ]

    def test_in_one_run_all_are_sent_and_leave_no_row(self, tmp_path):
        with Site({}, lambda host, path: page()) as site:
            assert run(tmp_path, site).reason == "finished"
            assert len(asked_for(site)) == N_UNHELD + 4
            assert query(tmp_path / "crawl.sqlite", "SELECT * FROM requests") == []
            assert said(run(tmp_path, site)) == []
            assert len(asked_for(site)) == N_UNHELD + 4

    def test_a_start_request_that_json_cannot_hold_is_sent_again_and_no_more_missed(self, tmp_path):
        class Starts(Orders):
            async def start(self):
                for n in range(3):
                    yield scrapy.Request(f"{ROOT}/{n}", lambda response: None, dont_filter=n == 1)

        with Site({}, lambda host, path: page()) as site:
            run(tmp_path, site, Starts, CLOSESPIDER_PAGECOUNT=1)
            n_before = len(site.fetches)
            assert n_before < 3
            run(tmp_path, site, Starts)
            left = Counter(site.paths()[n_before:])
            assert set(left) >= {"/0", "/1", "/2"} - {*site.paths()[:n_before]}
            n_before = len(site.fetches)
            assert said(run(tmp_path, site, Starts)) == []
            assert site.paths()[n_before:] == ["/1"]

    @pytest.mark.parametrize("yields", ["a request", "a link"])
    def test_a_later_request_for_its_page_or_link_to_it_is_followed(self, tmp_path, yields):
        class Later(Orders):
            def first(self, response):
                yield scrapy.Request(f"{ROOT}/lost", lambda response: None, priority=-1)
                yield scrapy.Request(f"{ROOT}/last", self.last)

            def last(self, response):
                if yields == "a request":
                    yield scrapy.Request(f"{ROOT}/lost", self.detail)
                else:
                    yield LinkPairs(response.url, [f"{ROOT}/lost", f"{ROOT}/new"])

            def parse(self, response):
                self.detail(response)

        with Site({}, lambda host, path: page()) as site:
            run(tmp_path, site, Later, CLOSESPIDER_PAGECOUNT=1)
            Later.fetched.clear()
            assert len(said(run(tmp_path, site, Later))) == 1
            new = [] if yields == "a request" else ["/new"]
            assert sorted(site.paths()) == ["/", "/last", "/lost", *new]
            assert sorted(url for _, url, _ in Later.fetched) == [
                f"{ROOT}{path}" for path in ["/lost", *new]
            ]
            assert said(run(tmp_path, site, Later)) == []

    def test_a_request_for_a_page_that_was_fetched_is_missed_too(self, tmp_path):
        class Polls(Orders):
            def first(self, response):
                yield scrapy.Request(f"{ROOT}/", lambda response: None, dont_filter=True)

        with Site({}, lambda host, path: page()) as site:
            run(tmp_path, site, Polls, CLOSESPIDER_PAGECOUNT=1)
            assert len(said(run(tmp_path, site, Polls))) == 1
            assert site.paths() == ["/"]

    def test_a_retry_that_json_cannot_hold_is_resumed_as_the_request_that_it_repeats(
        self, tmp_path
    ):
        class Marks:
            def process_response(self, request, response):
                if response.status != 503:
                    return response
                return request.replace(meta={**request.meta, "o": Opaque()}, dont_filter=True)

        class Posts(Orders):
            def first(self, response):
                body = b"x=1"
                yield scrapy.Request(f"{ROOT}/busy", self.detail, method="POST", body=body)

        is_busy = True

        def answer(host, path):
            return page()._replace(status=503 if is_busy and path == "/busy" else 200)

        marks = {"DOWNLOADER_MIDDLEWARES": {Marks: 950}}
        with Site({}, answer) as site:
            with pytest.MonkeyPatch.context() as patch:
                n_sent = Counter()

                def next_request(dispatcher, taken=Dispatcher.next_request):
                    if n_sent["all"] == 2:  # the retry waits from now on
                        return None
                    request = taken(dispatcher)
                    n_sent["all"] += request is not None
                    return request

                patch.setattr(Dispatcher, "next_request", next_request)
                run(tmp_path, site, Posts, CLOSESPIDER_TIMEOUT=2, **marks)
            assert asked_for(site) == [("GET", "/"), ("POST", "/busy")]
            is_busy = False
            Posts.fetched.clear()
            assert said(run(tmp_path, site, Posts, **marks)) == []
            assert asked_for(site, 2) == [("POST", "/busy")]
            assert site.fetches[2].body == b"x=1"
            assert [url for _, url, _ in Posts.fetched] == [f"{ROOT}/busy"]

    def test_a_damaged_reason_is_no_obstacle(self, tmp_path):
        with Site({}, lambda host, path: page()) as site:
            run(tmp_path, site, CLOSESPIDER_PAGECOUNT=1)
            for damaged in ("", "[1]}", '"\\u001b[2J"}', '{"$tuple": 7}}'):
                change(
                    tmp_path / "crawl.sqlite",
                    "UPDATE requests SET request = ? WHERE request LIKE '{\"unheld\":%'",
                    '{"unheld":' + damaged,
                )
                (sentence,) = said(run(tmp_path, site, CLOSESPIDER_PAGECOUNT=1))
                assert sentence.isprintable()


def test_a_retry_that_json_cannot_hold_is_a_failed_page_where_none_can_be_kept(
    tmp_path, monkeypatch
):
    """As among workers: the request as it was before would be retried for ever."""
    monkeypatch.setattr(LocalFrontier, "keeps_objects", False)

    class Marks:
        def process_response(self, request, response):
            if response.status != 503:
                return response
            return request.replace(meta={**request.meta, "o": Opaque()}, dont_filter=True)

    class Plain(Orders):
        async def start(self):
            yield scrapy.Request(f"{ROOT}/busy", self.detail)
            yield scrapy.Request(f"{ROOT}/lambda", lambda response: None)

    with Site({}, lambda host, path: page()._replace(status=503)) as site:
        run(tmp_path, site, Plain, DOWNLOADER_MIDDLEWARES={Marks: 950}, RETRY_ENABLED=False)
        assert asked_for(site) == [("GET", "/busy")]
    failed = query(tmp_path / "crawl.sqlite", "SELECT error FROM visits WHERE page = 0")
    assert failed == [("cannot be sent to workers",)]


@pytest.mark.parametrize("state", [UNKNOWN, WAITING], ids=["not to be", "to be"])
def test_a_limited_buffer_does_not_bring_back_a_page_that_is_not_to_be_fetched(state):
    queue = PageQueue(make_ordering("backlink-count"), letters(13), max_waiting=5)
    queue.observe(visit(NO_PAGE, 0), 1)
    queue.observe(visit(0, 1, 2, 3, 4, 5), 6)
    if state == UNKNOWN:
        queue.finish(5, UNKNOWN)
    queue.observe(visit(1, 6, 7, 8), 9)
    queue.observe(visit(2, 3, 4, 6, 9, 10, 11), 12)
    queue.observe(visit(3, 4, 6, 9, 10, 11, 12), 13)
    assert queue.state(5) == UNKNOWN
    queue.observe(visit(4, 5))
    assert queue.state(5) == state


KILLED = """
import os, scrapy

class Killed(scrapy.Spider):
    name = "killed"
    custom_settings = {"ADDONS": {"crawlprio.Addon": 500}, "CONCURRENT_REQUESTS": 1}
    root = os.environ["ROOT"]

    async def start(self):
        yield scrapy.Request(f"{self.root}/", self.first)

    def first(self, response):
        yield scrapy.Request(f"{self.root}/die", self.die, priority=1)
        yield scrapy.Request(f"{self.root}/lambda", lambda response: None)
        yield scrapy.Request(f"{self.root}/post", self.detail, method="POST", meta={"o": object()})
        yield scrapy.Request(f"{self.root}/plain", self.detail)

    def die(self, response):
        if "DIES" in os.environ:
            os.kill(os.getpid(), 9)

    def detail(self, response): ...
"""


def test_after_kill_9_nothing_is_sent_in_place_of_what_was_lost(tmp_path):
    (tmp_path / "spider.py").write_text(KILLED)
    line = [sys.executable, "-m", "scrapy", "runspider", "spider.py", "-s", "JOBDIR=job"]
    line += ["-s", "DOWNLOAD_DELAY=0"]
    with Site({}, lambda host, path: page()) as site:
        for more, returned, paths in (
            ({"DIES": "1"}, -signal.SIGKILL, ["/", "/die"]),
            ({}, 0, ["/", "/die", "/die", "/plain"]),
        ):
            done = run_to_end(
                line, tmp_path, env={"ROOT": f"http://{site.address}", "PATH": "", **more}
            )
            assert (done.returncode, sorted(site.paths())) == (returned, paths), done.stderr
    assert "2 of the requests that waited could not be stored" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_of_the_store_says_why_its_page_does_not_wait(tmp_path):
    run(tmp_path, ({}, lambda host, path: page()), CLOSESPIDER_PAGECOUNT=1)
    path = tmp_path / "crawl.sqlite"
    policy = Policy(lambda name: make_ordering("breadth-first"))
    head = explain_head(path, policy)
    assert sorted(each["url"] for each in head["head"]) == [
        f"{ROOT}/{path}" for path in ("held", "held-post", "plain")
    ]
    found = explain_url(path, policy, f"{ROOT}/lambda")
    assert (found["state"], found["rule"][:29]) == ("dropped", "its request cannot be stored,")
    with Store.open(path, readonly=True) as store:
        assert sum(request.is_unheld for request in store.requests()) == N_UNHELD
