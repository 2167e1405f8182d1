"""How the `site` spider handles responses, arguments and settings."""

import asyncio
import hashlib
from types import SimpleNamespace

import pytest
from crawls import page, run_spider
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings

from crawlprio.errors import ConfigError
from crawlprio.items import LinkPairs
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.spiders.site import SiteSpider

SEED = "http://a.org/"


def make_spider(settings=None, **arguments):
    crawler = Crawler(SiteSpider, Settings(settings or {}))
    spider = SiteSpider.from_crawler(crawler, **arguments)
    assert CrawlContext.of(crawler).failure is None
    return spider


def spider_without_web(**arguments):
    """Return a spider that has no seeds and has not started the demo web for itself."""
    spider = SiteSpider(**arguments)
    spider.crawler = Crawler(SiteSpider, Settings())
    return spider


def answer(
    body,
    url=SEED,
    content_type="text/html; charset=utf-8",
    meta=None,
    headers=None,
    cls=HtmlResponse,
):
    headers = dict(headers or {})
    if content_type is not None:
        headers["Content-Type"] = content_type
    raw = body.encode() if isinstance(body, str) else body
    return cls(url, body=raw, headers=headers, request=Request(url, meta=meta))


def only_item(spider, response):
    (pairs,) = spider.parse(response)
    assert isinstance(pairs, LinkPairs)
    return pairs


def test_a_page_is_one_item_with_its_links_in_page_order():
    body = """<title>A page</title><a href=z>Z</a><a href="http://other.org/">other</a>
        <a href=/#top>self</a><a href=b rel=nofollow>b</a><a href=x.pdf>x</a><a href=c>C</a>"""
    pairs = only_item(make_spider(seeds=SEED), answer(body))
    digest = hashlib.blake2b(body.encode(), digest_size=8).digest()
    assert pairs == LinkPairs(
        source="http://a.org/",
        targets=["http://a.org/z", "http://a.org/c"],
        anchors=["Z", "C"],
        outside=[
            ("http://other.org/", "other"),
            ("http://a.org/b", "b"),
            ("http://a.org/x.pdf", "x"),
        ],
        status=200,
        title="A page",
        text="",
        content_hash=int.from_bytes(digest, "big", signed=True),
        n_bytes=len(body),
    )


def test_text_is_filled_only_if_somebody_needs_it():
    spider = make_spider(seeds=SEED)
    assert only_item(spider, answer("<p>visible")).text == ""
    spider.crawler = Crawler(SiteSpider, Settings({"TOPIC": "chess"}))
    assert only_item(spider, answer("<p>visible")).text == "visible"


@pytest.mark.parametrize(
    ("content_type", "cls", "n_targets"),
    [
        ("text/html", HtmlResponse, 1),
        ("Application/XHTML+xml;charset=utf-8", Response, 1),
        (None, HtmlResponse, 1),
        (None, Response, 1),
        ("text/plain", HtmlResponse, 0),
        ("application/pdf", Response, 0),
    ],
)
def test_only_html_has_links_and_every_page_is_an_item(content_type, cls, n_targets):
    body = "<title>t</title><a href=x>x</a>"
    pairs = only_item(make_spider(seeds=SEED), answer(body, content_type=content_type, cls=cls))
    assert (len(pairs.targets), len(pairs.title)) == (n_targets, n_targets)
    assert (pairs.n_bytes, pairs.outside) == (len(body), [])


@pytest.mark.parametrize(("follows", "n_targets"), [(False, 0), (True, 2)])
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ("<a href=x rel=nofollow>x</a><a href=y rel='ugc nofollow'>y</a>", {}),
        ("<meta name=robots content=nofollow><a href=x>x</a><a href=y>y</a>", {}),
        ("<a href=x>x</a><a href=y>y</a>", {"X-Robots-Tag": "nofollow"}),
    ],
)
def test_nofollow_is_obeyed_unless_the_setting_says_otherwise(body, headers, follows, n_targets):
    spider = make_spider({"CRAWLPRIO_FOLLOW_NOFOLLOW": follows}, seeds=SEED)
    pairs = only_item(spider, answer(body, headers=headers))
    assert (len(pairs.targets), len(pairs.outside)) == (n_targets, 2 - n_targets)


def test_the_skipped_extensions_are_a_setting():
    body = "<a href=a.pdf>a</a><a href=b.js>b</a><a href=c.html>c</a>"
    for extensions, followed in ((None, ["b.js", "c.html"]), ("js,html", ["a.pdf"])):
        settings = {} if extensions is None else {"CRAWLPRIO_SKIP_EXTENSIONS": extensions}
        pairs = only_item(make_spider(settings, seeds=SEED), answer(body))
        assert pairs.targets == [f"{SEED}{name}" for name in followed]


@pytest.mark.parametrize(
    ("header", "followed"),
    [
        ("nofollow", False),
        ("noindex, NoFollow", False),
        ("none", False),
        (["noindex", "nofollow"], False),
        ("*: nofollow", False),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow", False),
        ("noindex", True),
        ("otherbot: noindex, nofollow", True),
        ("otherbot: none, *: noindex", True),
        ("unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT, nofollow", False),
        ("unavailable_after: Friday, 25-Jun-27 15:00:00 GMT, none", False),
        ("UNAVAILABLE_AFTER:Fri, 25 Jun 2027, 15:00:00 GMT, NoFollow", False),
        ("unavailable_after: 2027-06-25T15:00:00Z,nofollow", False),
        ("nofollow, unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT", False),
        ("unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT", True),
        ("otherbot: unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT, nofollow", True),
        ("otherbot: noindex, crawlprio: nofollow", False),
        ("CrawlPrio: NoFollow", False),
        ("crawlprio/1.0: none", False),
        ("crawlprio: noindex, otherbot: nofollow", True),
        ("crawlprio-news: nofollow", True),
        ("crawl: nofollow", True),
        (["otherbot: noindex", "nofollow"], False),
        (["nofollow", "otherbot: noindex"], False),
        (["otherbot: nofollow", "crawlprio: noindex"], True),
        ("max-image-preview: none", True),
        ("max-snippet: -1, max-image-preview:large, nofollow", False),
        ("otherbot: max-snippet: 20, nofollow", True),
        ("something, nofollow", False),
        ("something: other, nofollow", False),
        ("noindex nofollow", False),
        ("noindex; nofollow", False),
        ("nofollowing, nonesuch", True),
        (":, ,,*:", True),
        ("follow", True),
        ("", True),
    ],
)
def test_x_robots_tag_nofollow_is_honoured(header, followed):
    response = answer("<a href=x>x</a>", headers={"X-Robots-Tag": header})
    spider = make_spider({"USER_AGENT": "crawlprio/1.0 (a crawler)"}, seeds=SEED)
    assert bool(only_item(spider, response).targets) is followed


@pytest.mark.parametrize(
    ("settings", "name", "is_ours"),
    [
        ({"USER_AGENT": "crawlprio/1.0 (a Scrapy crawler)"}, "CrawlPrio", True),
        ({"USER_AGENT": "crawlprio/1.0 (a Scrapy crawler)"}, "scrapy", False),
        ({"USER_AGENT": "mybot/1.0 crawlprio/0 (me@a.test)"}, "mybot", True),
        ({"USER_AGENT": "mybot/1.0"}, "crawlprio", False),
        ({"USER_AGENT": "Mozilla/5.0", "ROBOTSTXT_USER_AGENT": "mybot/2"}, "mybot", True),
        ({"USER_AGENT": "Mozilla/5.0", "ROBOTSTXT_USER_AGENT": "mybot/2"}, "mozilla", False),
    ],
)
@pytest.mark.parametrize("where", ["header", "meta"])
def test_what_is_said_to_one_robot_is_for_those_who_bear_its_name(settings, name, is_ours, where):
    body, headers = "<a href=x>x</a>", {}
    if where == "header":
        headers = {"X-Robots-Tag": f"{name}: nofollow"}
    else:
        body = f"<meta name=robots content=follow><meta name='{name}' content=nofollow>{body}"
    spider = make_spider(settings, seeds=SEED)
    assert bool(only_item(spider, answer(body, headers=headers)).targets) is not is_ours


def test_the_user_agent_that_a_request_was_sent_with_names_the_robot():
    spider = make_spider(seeds=SEED)
    request = Request(SEED, headers={"User-Agent": "hired/1.0"})
    response = answer("<a href=x>x</a>", headers={"X-Robots-Tag": "hired: nofollow"})
    assert only_item(spider, response.replace(request=request)).targets == []


def test_depth_counts_from_the_page_and_links_too_deep_are_outside():
    body = "<a href=x>static</a><a href=?q>dynamic</a>"
    spider = make_spider(seeds=SEED)
    counts = [
        len(only_item(spider, answer(body, meta={"depth": depth})).targets)
        for depth in (0, 4, 5, 14, 15)
    ]
    assert counts == [2, 2, 1, 1, 0]
    limited = make_spider({"DEPTH_LIMIT": 2}, seeds=SEED)
    pages = [only_item(limited, answer(body, meta={"depth": depth})) for depth in (1, 2)]
    assert [(len(page.targets), len(page.outside)) for page in pages] == [(2, 0), (0, 2)]


def test_settings_change_the_heuristics():
    body = "<a href=x>static</a><a href=?q>dynamic</a><a href=/cgi-bin/x>cgi</a>"
    settings = {"CRAWLPRIO_MAX_STATIC_DEPTH": "1", "CRAWLPRIO_MAX_DYNAMIC_DEPTH": "None"}
    deep = answer(body, meta={"depth": 30})
    assert only_item(make_spider(settings, seeds=SEED), deep).targets == ["http://a.org/?q"]
    off = make_spider({"CRAWLPRIO_HEURISTICS": "False"}, seeds=SEED)
    assert len(only_item(off, deep).targets) == 3


def test_a_page_is_known_by_its_request_url_and_after_a_redirect_by_its_final_url():
    request = Request("http://a.org/asked")
    body = b"<a href=asked>1</a><a href=answered>2</a>"
    response = HtmlResponse("http://a.org/answered", body=body, request=request)
    pairs = only_item(make_spider(seeds=SEED), response)
    assert (pairs.source, pairs.targets) == ("http://a.org/asked", [])
    request.meta["redirect_urls"] = ["http://a.org/asked"]
    pairs = only_item(make_spider(seeds=SEED), response)
    assert (pairs.source, pairs.targets) == ("http://a.org/answered", ["http://a.org/asked"])


def test_a_redirected_seed_brings_the_other_site_into_scope():
    spider = make_spider(seeds=SEED)
    body = "<a href=x>x</a>"
    no_seed = answer(body, "http://c.org/", meta={"redirect_urls": ["http://a.org/page"]})
    assert only_item(spider, no_seed).targets == []
    seed = answer(body, "http://b.org/", meta={"redirect_urls": [SEED]})
    assert only_item(spider, seed).targets == ["http://b.org/x"]


class SeedList:
    def __init__(self):
        self.seeds = []

    def add_seeds(self, urls):
        self.seeds += urls


def start(spider, scheduler):
    """Return what the spider yields at its start under a scheduler."""
    spider.crawler.engine = SimpleNamespace(scheduler=scheduler)

    async def collect():
        return [output async for output in spider.start()]

    return asyncio.run(collect())


def test_seeds_go_to_the_scheduler_at_once_and_links_only_in_the_item():
    spider, scheduler = make_spider(seeds="http://b.org,http://a.org/x,http://b.org/"), SeedList()
    assert start(spider, scheduler) == []
    assert scheduler.seeds == ["http://b.org/", "http://a.org/x"]
    assert only_item(spider, answer("<a href=x>x</a>")).targets == ["http://a.org/x"]


def test_a_scheduler_that_does_not_accept_seeds_gets_requests_for_seeds_and_links():
    spider = make_spider(seeds="http://b.org,http://a.org/")
    seeds = start(spider, object())
    assert [(seed.url, seed.dont_filter) for seed in seeds] == [
        ("http://b.org/", False),
        ("http://a.org/", False),
    ]
    body = "<a href=x>x</a><a href=y rel=nofollow>y</a><a href=http://b.org/z>z</a>"
    pairs, *requests = spider.parse(answer(body))
    assert isinstance(pairs, LinkPairs)
    assert [request.url for request in requests if isinstance(request, Request)] == pairs.targets
    assert pairs.targets == ["http://a.org/x", "http://b.org/z"]


def test_without_seeds_the_spider_waits_for_a_web():
    spider = spider_without_web()
    assert (spider.seeds, spider.needs_demo) == ([], True)
    spider.use_web(["http://h1.demo"], ["h1.demo", "h2.demo"])
    assert (spider.seeds, spider.needs_demo) == (["http://h1.demo/"], False)
    body = "<a href=http://h2.demo/x>x</a><a href=http://real.org/>real</a>"
    pairs = only_item(spider, answer(body, "http://h1.demo/"))
    assert pairs.targets == ["http://h2.demo/x"]
    assert pairs.outside == [("http://real.org/", "real")]


def test_follow_also_applies_to_a_given_web():
    spider = spider_without_web(follow="site", deny="private")
    spider.use_web(["http://h1.demo/"], ["h1.demo", "h2.demo"])
    body = "<a href=/y>y</a><a href=http://h2.demo/x>x</a><a href=/private/z>z</a>"
    assert only_item(spider, answer(body, "http://h1.demo/")).targets == ["http://h1.demo/y"]


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ({"seeds": "a.org"}, {}, "seeds: 'a.org' has no scheme; write"),
        ({"seeds": ""}, {}, "seeds is empty; give URL[,URL...] or @FILE."),
        ({"seeds": SEED, "url": SEED}, {}, "seeds and url are both given"),
        ({"seed": SEED}, {}, "'seed' is not an argument of the spider 'site'; known arguments: "),
        ({"url": SEED, "follow": "all"}, {}, "follow is 'all'; known values: domain, site, web."),
        ({"url": SEED, "deny": "["}, {}, "deny is '[', which is not a regular expression: "),
        ({}, {"CRAWLPRIO_HEURISTICS": "maybe"}, "CRAWLPRIO_HEURISTICS is 'maybe'; give True or"),
        ({}, {"CRAWLPRIO_MAX_STATIC_DEPTH": "-1"}, "CRAWLPRIO_MAX_STATIC_DEPTH is '-1'; give a"),
        ({}, {"CRAWLPRIO_MAX_DYNAMIC_DEPTH": 1.5}, "CRAWLPRIO_MAX_DYNAMIC_DEPTH is 1.5; give a"),
    ],
)
def test_a_bad_argument_or_setting_is_one_sentence_and_refuses_the_crawl(
    arguments, settings, message
):
    crawler = Crawler(SiteSpider, Settings(settings))
    SiteSpider.from_crawler(crawler, **arguments)
    refusal = CrawlContext.of(crawler).failure
    assert isinstance(refusal, ConfigError)
    assert str(refusal).startswith(message)
    assert "\n" not in str(refusal)


def test_under_the_stock_scheduler_it_crawls_what_it_finds():
    ring = {f"/{n}": page(f"/{(n + 1) % 4}") for n in range(4)}
    run = run_spider(SiteSpider, {}, site=ring, seeds="http://a.org/0")
    assert [(item.source, item.targets) for item in run.items] == [
        (f"http://a.org/{n}", [f"http://a.org/{(n + 1) % 4}"]) for n in range(4)
    ]
