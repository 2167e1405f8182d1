"""Each part of crawlprio works as the only line that a project adds, and with all others."""

import random
from itertools import combinations, pairwise

import pytest
from commands import refusal
from crawls import ADDON, Answer, Site, page, run_spider
from forked import run_forked
from scrapy import Request
from scrapy.core.scheduler import Scheduler as StockScheduler
from scrapy.http import HtmlResponse
from spiders import OneByOne, Pairing

from crawlprio.measure.importance import open_repository
from crawlprio.middlewares import (
    LinksMiddleware,
    PolitenessMiddleware,
    RefusalMiddleware,
    YieldedLinksMiddleware,
)
from crawlprio.orderings import ORDERINGS
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.plugins import ADDED
from crawlprio.store import Store

SCHEDULER = {"SCHEDULER": "crawlprio.schedulers.Scheduler"}
POLITENESS = {"DOWNLOADER_MIDDLEWARES": {"crawlprio.middlewares.PolitenessMiddleware": 543}}
PIPELINE = {"ITEM_PIPELINES": {"crawlprio.pipelines.LinkPairPipeline": 300}}
LINES = {"scheduler": SCHEDULER, "politeness": POLITENESS, "pipeline": PIPELINE}

ONE = {"CONCURRENT_REQUESTS": 1}


def queue(name):
    """Return the line that sets the priority queue of an ordering."""
    return {"SCHEDULER_PRIORITY_QUEUE": f"crawlprio.schedulers.{name}Queue"}


def random_web(seed, n_pages=24, n_links=4):
    """Return a web in which every page but `/` is linked to, and reached from there."""
    print(f"web of seed {seed}")
    draw = random.Random(seed)
    links = {n: {draw.randrange(1, n_pages) for _ in range(n_links)} for n in range(n_pages)}
    for n in range(1, n_pages):
        links[draw.randrange(n)].add(n)
    return {
        "/" if n == 0 else f"/{n}": page(*(f"/{m}" for m in sorted(links[n])))
        for n in range(n_pages)
    }


def order(settings, web, spider=OneByOne):
    """Return the requested paths and the end of a crawl with one fetch at a time."""
    run = run_spider(spider, {**ONE, **settings}, site=web)
    return run.site.paths(), run.reason, run.messages()


NEED_MORE = {
    "anchor-similarity": {"ORDERING_OPTIONS": {"words": "7"}},
    "combined": {"ORDERING_OPTIONS": {"weights": {"opic": 1.0, "location": 0.5}}},
}
"""What orderings need besides their name."""

REFUSED = {"omniscient", "historical-pagerank", *ADDED["orderings by value"]}
"""Orderings that need a known web, an earlier crawl or a value model."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ORDERINGS)
def test_the_scheduler_and_each_queue_alone_fetch_in_the_same_order_as_the_add_on(name):
    web = random_web(seed=7)
    asked_for = {"ORDERING": name, **NEED_MORE.get(name, {})}
    with_addon = order({**ADDON, **asked_for}, web)
    assert order({**SCHEDULER, **asked_for}, web) == with_addon
    own = queue(ORDERINGS.class_names()[name])
    assert order({**asked_for, **own, "ORDERING": "random"}, web) == with_addon
    assert order({**queue("Ordered"), **asked_for}, web) == with_addon
    assert len(with_addon[0]) == (0 if name in REFUSED else len(web))
    assert len(with_addon[2]) == (name in REFUSED), "one sentence"


@pytest.mark.parametrize("line", [ADDON, SCHEDULER], ids=["add-on", "scheduler"])
def test_beside_crawlprios_own_scheduler_a_queue_sets_the_ordering(line, tmp_path):
    web, store = random_web(seed=7), tmp_path / "crawl.sqlite"
    settings = {**queue("Opic"), "ORDERING": "random", "CRAWLPRIO_STORE": store}
    in_order = order(queue("Opic"), web)
    assert order({**line, **settings}, web) == in_order != order(queue("BreadthFirst"), web)
    with Store.open(store, readonly=True) as opened:
        assert opened.orderings() == [(1, "opic")]


@pytest.mark.parametrize("line", [SCHEDULER, queue("BreadthFirst")], ids=["scheduler", "queue"])
def test_a_topic_puts_hot_pages_first_under_the_scheduler_or_a_queue_alone(line):
    web = {"/": page("/1", "/2", "/chess"), "/chess": page("/more-chess"), "/more-chess": page()}
    web |= {"/1": page(), "/2": page()}
    paths, reason, messages = order({**line, "ORDERING": "breadth-first", "TOPIC": "chess"}, web)
    assert (paths, reason, messages) == (["/", "/chess", "/more-chess", "/1", "/2"], "finished", [])


class OwnScheduler(StockScheduler):
    """A scheduler that a project brings."""


class PairsAndRequests(OneByOne, Pairing):
    """Yields the links of each page as pairs, and a request for each."""

    def parse(self, response):
        for pairs in Pairing.parse(self, response):
            yield pairs
            yield from map(Request, pairs.targets)


COMBINED = [
    pytest.param({name: LINES[name] for name in names}, id="+".join(names))
    for n in (1, 2, 3)
    for names in combinations(LINES, n)
]


def settings_of(lines):
    return {name: value for line in lines.values() for name, value in line.items()}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("also", [{}, ADDON, queue("Opic")], ids=["", "add-on", "queue"])
@pytest.mark.parametrize("lines", COMBINED)
def test_every_combination_does_what_its_parts_do_and_installs_none_twice(lines, also, tmp_path):
    web = random_web(seed=3, n_pages=8)
    store = tmp_path / "crawl.sqlite"
    settings = {**settings_of(lines), **also, "CRAWLPRIO_STORE": store, "ORDERING": "opic"}
    keeps_delays = bool(also) or "scheduler" in lines or "politeness" in lines
    if keeps_delays:
        settings |= {"DOWNLOAD_DELAY": 0.2, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    run = run_spider(PairsAndRequests, settings, site=web)
    fetches = sorted(run.site.fetches, key=lambda fetch: fetch.start)
    assert (run.reason, run.messages()) == ("finished", [])
    assert sorted(fetch.path for fetch in fetches) == sorted(web)
    if keeps_delays:
        gaps = [two.start - one.end for one, two in pairwise(fetches)]
        assert min(gaps) >= 0.2
    engine = run.crawler.engine
    used = [
        *engine.scraper.spidermw.middlewares,
        *engine.downloader.middleware.middlewares,
        *engine.scraper.itemproc.middlewares,
    ]
    ours = [type(each) for each in used if type(each).__module__.startswith("crawlprio.")]
    assert len(ours) == len(set(ours))
    orders = "scheduler" in lines or bool(also)
    assert (LinksMiddleware in ours) == orders
    assert (PolitenessMiddleware in ours) == keeps_delays
    assert (LinkPairPipeline in ours) == ("pipeline" in lines or also is ADDON)
    with Store.open(store, readonly=True) as opened:
        assert [name for _, name in opened.orderings()] == [
            "opic" if orders else "Scrapy's own order"
        ]
        pages = [visit.page for visit in opened.visits() if visit.page >= 0]
    n_recorded = len(web) if orders or "pipeline" in lines else 0
    assert (len(pages), len(set(pages))) == (n_recorded, n_recorded)
    if n_recorded:
        recorded = open_repository(store)
        assert recorded.graph.n_links == sum(
            link != path for path, each in web.items() for link in each.body.split('"')[1::2]
        )


def test_a_store_names_the_scheduler_of_a_project_that_has_its_own(path):
    own = {"SCHEDULER": f"{__name__}.OwnScheduler", **PIPELINE}
    with Site(random_web(seed=3, n_pages=5)) as site:
        run_spider(PairsAndRequests, {**own, "CRAWLPRIO_STORE": path}, site=site)
    with Store.open(path, readonly=True) as opened:
        assert opened.orderings() == [(1, f"the order of {__name__}.OwnScheduler")]


def test_explain_says_that_scrapys_own_order_has_no_keys(path, capsys):
    with Site(random_web(seed=3, n_pages=5)) as site:
        run_spider(PairsAndRequests, {**PIPELINE, "CRAWLPRIO_STORE": path}, site=site)
    said = refusal(capsys, "explain", path, "http://a.test/")
    assert "used Scrapy's own order, which has no keys to explain" in said


def test_the_scheduler_adds_its_middlewares_around_those_of_the_project():
    class Innermost:
        def process_request(self, request):
            pass

    class Outermost:
        async def process_start(self, start):
            async for each in start:
                yield each

    settings = {
        **SCHEDULER,
        "SPIDER_MIDDLEWARES": {Outermost: 1},
        "DOWNLOADER_MIDDLEWARES": {Innermost: 99_999},
        "DEPTH_LIMIT": 9,
    }
    run = run_spider(OneByOne, settings, site={"/": page()})
    spidermw = run.crawler.engine.scraper.spidermw.middlewares
    assert [type(each) for each in spidermw[:2]] == [LinksMiddleware, Outermost]
    assert type(spidermw[-1]) is YieldedLinksMiddleware
    downloader = [type(each) for each in run.crawler.engine.downloader.middleware.middlewares]
    assert downloader[-3:] == [Innermost, RefusalMiddleware, PolitenessMiddleware]


@pytest.mark.parametrize("line", [SCHEDULER, queue("Opic")], ids=["scheduler", "queue"])
def test_a_project_that_disables_what_reads_links_is_refused(line):
    disabled = {"SPIDER_MIDDLEWARES": {"crawlprio.middlewares.LinksMiddleware": None}}
    run = run_spider(OneByOne, {**line, **disabled}, site={"/": page()})
    assert run.site.fetches == []
    assert run.crawler.spider is None
    assert run.messages() == [
        "crawlprio orders pages by the links that its LinksMiddleware reads; set ADDONS = "
        "{'crawlprio.Addon': 500}, or add LinksMiddleware to SPIDER_MIDDLEWARES."
    ]


@pytest.mark.parametrize("line", [SCHEDULER, queue("Opic")], ids=["scheduler", "queue"])
def test_an_unknown_ordering_or_option_is_refused_in_one_sentence(line):
    for wrong, said in (
        ({"ORDERING_OPTIONS": {"no_such": 1}}, "no_such"),
        ({"CRAWLPRIO_STORES": "x"}, "CRAWLPRIO_STORES is not a setting"),
    ):
        run = run_spider(OneByOne, {**line, **wrong}, site={"/": page()})
        assert run.site.fetches == []
        (message,) = run.messages()
        assert said in message


class Answering:
    """A downloader middleware that answers some pages without a fetch, as a cache does."""

    def process_request(self, request):
        if request.url.endswith(("/1", "/3")):
            return HtmlResponse(request.url, body=b"<a href='/5'>5</a>", request=request)
        return None


@pytest.mark.parametrize(
    "lines", [POLITENESS, {**SCHEDULER, **POLITENESS}, {**ADDON, **POLITENESS}]
)
def test_pages_that_another_middleware_answers_do_not_hold_their_site(lines):
    middlewares = {**POLITENESS["DOWNLOADER_MIDDLEWARES"], Answering: 900}
    settings = {**lines, "DOWNLOADER_MIDDLEWARES": middlewares, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    web = {"/": page("/1", "/2", "/3", "/4"), **{f"/{n}": page() for n in range(2, 6)}}
    run = run_spider(OneByOne, {**settings, "CLOSESPIDER_TIMEOUT": 60}, site=web)
    assert (run.reason, sorted(run.site.paths())) == ("finished", ["/", "/2", "/4", "/5"])


@pytest.mark.parametrize("line", [SCHEDULER, queue("Opic")], ids=["scheduler", "queue"])
def test_a_crawl_that_was_stopped_resumes_in_the_order_that_it_would_have_had(line, tmp_path):
    web = random_web(seed=11)
    settings = {**line, "ORDERING": "opic"}
    whole, *_ = order(settings, web)
    job = {**settings, "JOBDIR": tmp_path / "job", "CRAWLPRIO_STORE": "crawl.sqlite"}
    first, reason, messages = order({**job, "CLOSESPIDER_PAGECOUNT": 9}, web)
    assert (reason, messages) == ("closespider_pagecount", [])
    assert 9 <= len(first) < len(whole)
    second, reason, messages = order(job, web)
    assert (first + second, reason, messages) == (whole, "finished", [])


@pytest.mark.parametrize("line", [SCHEDULER, queue("Opic")], ids=["scheduler", "queue"])
def test_redirects_retries_and_failures_are_as_under_the_add_on(line):
    """Their priorities are Scrapy's own, as the add-on alone changes them."""
    web = {
        **random_web(seed=5),
        "/2": Answer(status=301, headers={"Location": "/3"}),
        "/4": Answer(status=404),
        "/6": Answer(status=500),
    }
    adjusted = {
        **{"REDIRECT_PRIORITY_ADJUST": 2, "RETRY_PRIORITY_ADJUST": -1},
        **{"ORDERING": "opic", "RETRY_ENABLED": True, "RETRY_TIMES": 1},
    }
    assert order({**adjusted, **line}, web) == order({**adjusted, **ADDON}, web)


SPIDER = """
import os
import scrapy
from crawlprio import LinkPairs


class Newcomer(scrapy.Spider):
    name = "newcomer"
    start_urls = [os.environ.get("SEED")]

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")


class Pairs(Newcomer):
    name = "pairs"

    def parse(self, response):
        links = [response.urljoin(link) for link in response.css("a::attr(href)").getall()]
        yield LinkPairs(response.url, links)
        yield from map(scrapy.Request, links)
"""

WEB = random_web(seed=7, n_pages=12)


LINE_OF_A_PROJECT = [
    ('SCHEDULER = "crawlprio.schedulers.Scheduler"', "newcomer", "under opic: 12"),
    (
        'DOWNLOADER_MIDDLEWARES = {"crawlprio.middlewares.PolitenessMiddleware": 543}',
        "newcomer",
        "Scrapy's own order",
    ),
    (
        'ITEM_PIPELINES = {"crawlprio.pipelines.LinkPairPipeline": 300}',
        "pairs",
        "under Scrapy's own order: 12",
    ),
    ('SCHEDULER_PRIORITY_QUEUE = "crawlprio.schedulers.OpicQueue"', "newcomer", "under opic: 12"),
]


@pytest.mark.parametrize(("line", "spider", "said"), LINE_OF_A_PROJECT)
def test_a_new_project_with_one_line_crawls_and_its_store_can_be_scored(
    tmp_path, line, spider, said
):
    ran = run_forked("scrapy", ["startproject", "mine"], tmp_path, check=True)
    folder = tmp_path / "mine"
    (folder / "mine/spiders/ours.py").write_text(SPIDER)
    settings = folder / "mine/settings.py"
    assert "DOWNLOAD_DELAY = 1\n" in settings.read_text()
    settings.write_text(f"{settings.read_text()}\n{line}\n")
    words = ["crawl", spider, "-s", "DOWNLOAD_DELAY=0.2", "-s", "ORDERING=opic", "-L", "WARNING"]
    with Site(WEB) as site:
        environment = {"SEED": f"http://{site.address}/"}
        ran = run_forked("scrapy", words, folder, environment=environment)
        fetches, paths = sorted(site.fetches, key=lambda fetch: fetch.start), site.paths()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert sorted(paths) == sorted(WEB)
    if "under opic" in said:
        assert paths == order(queue("Opic"), WEB)[0]
    if "PIPELINES" not in line:
        assert min(two.start - one.end for one, two in pairwise(fetches)) >= 0.2
    assert said in run_forked("crawlprio", ["score", "crawl.sqlite"], folder).stdout
