"""The live crawl, the simulator and the naive oracle have the same order, page for page."""

import copy
from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import oracles
import pytest
from crawls import PROJECT, fetched_urls, run_spider, scrapy

from crawlprio.demo.server import LoopbackServer
from crawlprio.demo.web import DemoWeb
from crawlprio.graph.pages import NO_PAGES
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.orderings import ORDERINGS, make_ordering
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.simulator.timed import crawl_order
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph

PAGES = 150
SITES = 6
SEED = 5
WORDS = "geology, music"


@cache
def demo_web():
    return DemoWeb(PAGES, SITES, SEED)


@cache
def true_ranks():
    """PageRank of every page of the demo web, by URL."""
    graph, urls = demo_web().graph(), demo_web().urls()
    rows = {
        page: graph.indices[graph.indptr[page] : graph.indptr[page + 1]].tolist()
        for page in range(graph.n_pages)
    }
    ranks = oracles.true_pagerank(oracles.Web(links=rows))
    return {urls[page]: rank for page, rank in ranks.items()}


def earlier_scores():
    """Scores of every second page, the best page last."""
    return {url: 1.0 + number % 10 for number, url in enumerate(demo_web().urls()) if number % 2}


OPTIONS = {
    "random": {"seed": 7},
    "pagerank": {"every": 1},
    "partial-pagerank": {"every": 20},
    "batch-pagerank": {"every": 20},
    "historical-pagerank": {"scores": earlier_scores(), "new": "random", "seed": 3},
    "anchor-similarity": {"words": "music, geology section"},
    "batched": {"every": 20, "weights": {"breadth-first": 1.0, "backlink-count": 2.0}},
    "batched in turns": {"every": 20, "weights": {"larger-sites-first": 1.0}},
    "combined": {
        "weights": {"opic": 1.0, "location": 0.25, "anchor-similarity": 0.5},
        "options": {"anchor-similarity": {"words": "music"}},
    },
}
"""Options that exercise all of an ordering on a small web; other orderings use their defaults."""

ALIKE = ("depth-first", "backlink-count", "location", "fica", "partial-pagerank", "scout")
"""Orderings in front of which a hot queue does what it does in front of others."""

CASES = [
    *(pytest.param((name, None), id=name) for name in ORDERINGS),
    *(pytest.param((name, 3), id=f"{name}-topic") for name in ORDERINGS if name not in ALIKE),
    *(
        pytest.param((f"{name} in turns", None), id=f"{name}-in-turns")
        for name in ("opic", "random", "batch-pagerank", "batched")
    ),
    *(pytest.param((name, 0), id=f"{name}-topic-at-distance-0") for name in ("opic", "random")),
]


class Crawled:
    """A live crawl, and everything that server and store report about it."""

    def __init__(self, folder, name, distance, options, **settings):
        self.folder = folder
        self.name = name
        self.distance = distance
        self.options = options
        topic = {} if distance is None else {"TOPIC": WORDS, "TOPIC_OPTIONS": self.topic_options}
        n_before = len(fetched_urls(self.server_log))
        self.run = run_spider(
            SiteSpider,
            {
                **PROJECT,
                **topic,
                "ORDERING": name,
                "ORDERING_OPTIONS": options,
                "CONCURRENT_REQUESTS": 1,
                "ROBOTSTXT_OBEY": False,
                "CRAWLPRIO_DEMO_PAGES": PAGES,
                "CRAWLPRIO_DEMO_SITES": SITES,
                "CRAWLPRIO_DEMO_SEED": SEED,
                "CRAWLPRIO_STORE": folder / "crawl.sqlite",
                **settings,
            },
            priority="cmdline",
        )
        self.store = folder / "crawl.sqlite"
        self.asked_for = fetched_urls(self.server_log)[n_before:]
        with Store.open(self.store, readonly=True) as store:
            self.pages = store.load_pages()
            self.seeds = store.seeds()
            self.visits = [visit for visit in store.visits() if visit.page >= 0]

    @property
    def topic_options(self):
        return {"distance": self.distance or 0, "title": 1, "body": 4}

    @property
    def visited(self):
        return self.pages.urls(visit.page for visit in self.visits)

    @cached_property
    def web(self):
        """The web as the crawl recorded it."""
        return oracles.Web(
            links={visit.page: visit.targets.tolist() for visit in self.visits},
            site=dict(enumerate(self.pages.sites.tolist())),
            urls={page: self.pages.url(page) for page in range(len(self.pages))},
            anchors={
                (visit.page, target): anchor
                for visit in self.visits
                for target, anchor in zip(visit.targets.tolist(), visit.anchors, strict=False)
            },
            titles={visit.page: visit.title for visit in self.visits},
            bodies={visit.page: visit.text for visit in self.visits},
        )

    def oracle_order(self):
        """Return the order of the naive crawler on that web."""
        web = self.web
        name, options = self.name, copy.deepcopy(self.options)
        if name == "omniscient":
            name, options = "historical-pagerank", {"scores": true_ranks()}
        if name == "historical-pagerank":
            ids = {url: page for page, url in web.urls.items()}
            options["scores"] = {
                ids.get(url, -1 - number): score
                for number, (url, score) in enumerate(options["scores"].items())
            }
        for of_member in (options, *options.get("options", {}).values()):
            if "words" in of_member:
                of_member["words"] = [word.strip() for word in of_member["words"].split(",")]
        topic = None
        if self.distance is not None:
            words = [word.strip() for word in WORDS.split(",")]
            topic = oracles.Topic(words, title=1, body=4, distance=self.distance)
        return self.pages.urls(oracles.crawl(web, self.seeds, name, topic=topic, **options))

    def simulated_order(self):
        """Return the order of the simulator on the links that were evidence in the crawl.

        The graph in its store may have more: links that were too deep when their page was fetched,
        and whose target was found through another path.
        """
        whole = read_graph(self.store)
        urls = whole.urls
        rows = {visit.page: visit.targets for visit in self.visits}
        links = [rows.get(page, NO_PAGES) for page in range(whole.n_pages)]
        indptr = np.cumsum([0, *map(len, links)])
        graph = replace(whole, indptr=indptr, indices=np.concatenate(links))
        assert graph.n_links <= whole.n_links
        is_omniscient = self.name == "omniscient"
        order = crawl_order(
            graph,
            self.seeds,
            make_ordering(self.name, self.options),
            hot_queue=None
            if self.distance is None
            else HotQueue(Topic(WORDS), **self.topic_options),
            truth=np.array([true_ranks().get(url, 0.0) for url in urls]) if is_omniscient else None,
            recorded=RecordedVisits(self.store, with_texts=True),
        )
        return [urls[page] for page in order]


@pytest.fixture(scope="module", autouse=True)
def served(tmp_path_factory):
    """Serve all crawls by one server: to start it takes six times as long as a crawl."""
    Crawled.server_log = tmp_path_factory.mktemp("server") / "log.jsonl"
    web = {"pages": PAGES, "sites": SITES, "seed": SEED, "log": Crawled.server_log}
    with LoopbackServer(**web) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "stop", lambda: None)
        patch.setattr("crawlprio.live.replay_server.LoopbackServer", lambda **_: server)
        yield


@pytest.fixture(scope="module", params=CASES)
def crawled(request, tmp_path_factory):
    name, distance = request.param
    options = OPTIONS.get(name, {})
    if name.endswith(" in turns"):
        name = name.removesuffix(" in turns")
        options = {**(options or OPTIONS.get(name, {})), "site_share": 2}
    return Crawled(tmp_path_factory.mktemp(name), name, distance, options)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return Crawled(tmp_path_factory.mktemp("plain"), "opic", None, {})


@pytest.mark.sampled(5)
def test_the_server_is_asked_in_the_order_of_store_oracle_and_simulator(crawled):
    assert crawled.run.reason == "finished"
    assert crawled.run.messages() == []
    assert len(crawled.asked_for) > 0.8 * PAGES
    assert crawled.asked_for == crawled.visited
    assert crawled.oracle_order() == crawled.asked_for
    assert crawled.simulated_order() == crawled.asked_for


@pytest.mark.slow
@pytest.mark.parametrize("fill", [False, True])
def test_no_page_outside_a_batch_is_fetched_before_all_of_the_batch_are(tmp_path, fill):
    """With eight fetches at once; failed pages count as fetched. With `fill`, others leave too."""
    options = {"every": 20, "fill": fill}
    crawled = Crawled(tmp_path, "batch-pagerank", None, options, CONCURRENT_REQUESTS=8)
    assert crawled.run.reason == "finished"
    record = oracles.Record(crawled.web, crawled.seeds)
    for seed in crawled.seeds:
        record.discover(seed, record.url_queue)
    batches = oracles.ORDERINGS["batch-pagerank"](record, every=20)
    outside = 0
    for visit in crawled.visits:
        outside += not batches.may_leave(visit.page)
        record.crawled_pages.append(visit.page)
        for target in visit.targets.tolist():
            record.record_link(visit.page, target)
            if target not in record.found_after:
                record.discover(target, record.url_queue)
        batches.observe(visit.page)
    assert len(crawled.visits) > 0.8 * PAGES
    assert bool(outside) == fill


def test_the_web_of_these_crawls_has_failures_redirects_duplicates_and_dead_ends(plain):
    visits = plain.visits
    statuses = {visit.status for visit in visits}
    assert {200, 404, 500} <= statuses
    assert statuses & {301, 302}
    redirects = [visit for visit in visits if visit.status in (301, 302)]
    assert [len(visit.targets) for visit in redirects] == [1] * len(redirects)
    bodies = [visit.content_hash for visit in visits if visit.status == 200]
    assert len(set(bodies)) < len(bodies)
    assert any(len(visit.targets) == 0 for visit in visits if visit.status == 200)
    assert [visit.targets.tolist() for visit in visits if visit.status >= 400] == [
        [] for visit in visits if visit.status >= 400
    ]


def test_the_topic_has_hot_pages_and_others():
    """Otherwise the crawls with a topic would not exercise the hot queue."""
    titles = [demo_web().title(page) for page in range(PAGES)]
    topic = Topic(WORDS)
    assert 10 < sum(topic.count(title) > 0 for title in titles) < PAGES - 10


def test_the_simulate_command_reproduces_the_order_of_a_crawls_store(plain, tmp_path):
    order_file = tmp_path / "order.txt"
    line = ["simulate", str(plain.store), "--ordering", plain.name, "--order", str(order_file)]
    done = scrapy(line, tmp_path)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    order = [int(page) for page in order_file.read_text().split()]
    assert plain.pages.urls(order) == plain.asked_for
