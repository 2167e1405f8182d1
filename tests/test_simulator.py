"""The order-only simulator: its compiled loop, its page-by-page driver and the oracles agree."""

import dataclasses
import json
from typing import ClassVar, NamedTuple

import numpy as np
import oracles
import pytest
from driver import WebPages, fetch_order, hot_queue_of
from examples import examples
from graphs import TOPIC_PHRASES, power_law_web, seeds_of, webs
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import Topic
from ordering_cases import ALL_CASES, CASES, graph_of, ordering_of, url_of

from crawlprio.errors import ConfigError, GraphError
from crawlprio.frontier import PageQueue
from crawlprio.graph.compiled import Layout, njit
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageIds
from crawlprio.measure.crawl_order import cumulative_pagerank, kendall_tau
from crawlprio.orderings import ORDERINGS, CompiledOrdering, make_ordering
from crawlprio.orderings.baseline import BacklinkCount, BreadthFirst
from crawlprio.orderings.historical import Omniscient
from crawlprio.orderings.opic import Opic
from crawlprio.ranking.pagerank import pagerank, with_room
from crawlprio.show.simulation_results import Simulation
from crawlprio.simulator.graph_pages import Source
from crawlprio.simulator.network import Network
from crawlprio.simulator.order_only import runs_compiled
from crawlprio.simulator.timed import crawl_order, timed_crawl
from crawlprio.store import Store

WORDS = list(TOPIC_PHRASES)
EVERY_SO_OFTEN = ("pagerank", {})
"""Whose oracle has to be told how often it computes."""
PAGE_BY_PAGE = ["location", "anchor-similarity", "batched", "combined"]


def both_drivers(web, seeds, name, options, **more):
    """Return the order of the compiled loop and that of the page-by-page driver."""
    graph = graph_of(web)
    loop, pages = (
        crawl_order(graph, seeds, ordering_of(web, name, options), compiled=compiled, **more)
        for compiled in (True, False)
    )
    return loop.tolist(), pages.tolist()


def recorded(web, seeds, path):
    """Record a breadth-first crawl of a web in a crawl store; return the web's page for each id."""
    pages = WebPages(web)
    frontier = PageQueue(BreadthFirst(), pages)
    with Store.create(path) as store:
        visit = pages.seeds(seeds)
        store.record_pages(pages, visit.targets.tolist())
        frontier.observe(visit)
        while (page := frontier.next_page(0.0)) != NO_PAGE:
            visit = pages.visit(page)
            store.record(visit, pages)
            frontier.observe(visit)
            frontier.release(page)
    return pages.numbers


def test_all_orderings_but_four_run_in_the_compiled_loop():
    web = power_law_web(30, seed=0)
    slow = [
        name
        for name in ORDERINGS
        if not runs_compiled(ordering_of(web, name, CASES.get(name, [{}])[0]), None)
    ]
    assert slow == PAGE_BY_PAGE
    assert not runs_compiled(Opic(pass_on=1.0), None)
    assert not runs_compiled(Opic(), hot_queue_of(Topic(WORDS)))


@pytest.mark.sampled(28)
@pytest.mark.parametrize(("name", "options"), [*ALL_CASES, EVERY_SO_OFTEN])
def test_the_simulator_fetches_like_the_oracle(name, options):
    web = power_law_web(150, seed=4)
    web.anchors.clear()
    web.urls = {page: url_of(web, page) for page in web.pages}
    seeds = [3, 0, 120]
    loop, pages = both_drivers(web, seeds, name, options)
    assert loop == pages
    if (name, options) != EVERY_SO_OFTEN:
        assert loop == oracles.crawl(web, seeds, name, **options)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_on_any_small_web_loop_page_by_page_driver_and_oracle_agree(data):
    web = data.draw(webs())
    seeds = data.draw(seeds_of(web))
    name, options = data.draw(
        st.sampled_from([case for case in ALL_CASES if case[0] not in PAGE_BY_PAGE])
    )
    if name == "historical-pagerank":
        options = {**options, "scores": {web.pages[0]: 0.5, web.pages[-1]: 0.25}}
    web.urls = {page: url_of(web, page) for page in range(max(web.pages) + 1)}
    loop, pages = both_drivers(web, seeds, name, options)
    assert loop == pages == oracles.crawl(web, seeds, name, **options)


@pytest.mark.parametrize("name", ["opic", "random", "larger-sites-first", "batch-pagerank"])
@pytest.mark.parametrize("share", [1, 3])
def test_the_loop_lets_sites_take_turns_like_the_page_by_page_driver(name, share):
    options = {"site_share": share, **({"every": 13} if name == "batch-pagerank" else {})}
    web = power_law_web(400, seed=21)
    loop, pages = both_drivers(web, [0, 5], name, options)
    assert loop == pages == oracles.crawl(web, [0, 5], name, **options)
    assert loop != both_drivers(web, [0, 5], name, {**options, "site_share": 10**9})[0]


@pytest.mark.long
def test_only_three_orderings_depend_on_sites():
    web = power_law_web(300, seed=5)
    one_site = dataclasses.replace(web, site={})
    urls = {page: url_of(web, page) for page in web.pages}
    web.urls = one_site.urls = urls
    differ = []
    for name in ORDERINGS:
        options = CASES.get(name, [{}])[0]
        _, on_sites = both_drivers(web, [0, 1], name, options)
        _, on_one = both_drivers(one_site, [0, 1], name, options)
        if on_sites != on_one:
            differ.append(name)
    assert differ == ["larger-sites-first", "scout", "sibling-sampling"]


@pytest.mark.parametrize("name", ["opic", "larger-sites-first", "batch-pagerank", "location"])
@pytest.mark.parametrize("budget", [0, 1, 2, 37, 10_000])
def test_a_crawl_with_a_budget_is_a_prefix_of_the_crawl_without_one(name, budget):
    web = power_law_web(200, seed=6)
    options = {"every": 9} if name == "batch-pagerank" else {}
    whole, _ = both_drivers(web, [0], name, options)
    for order in both_drivers(web, [0], name, options, budget=budget):
        assert order == whole[:budget]


def test_a_loop_that_stops_and_continues_fetches_the_same(monkeypatch):
    web = power_law_web(300, seed=7)
    for name in ("opic", "partial-pagerank"):
        whole, _ = both_drivers(web, [0], name, {})
        reports = []
        with monkeypatch.context() as patch:
            patch.setattr("crawlprio.simulator.order_only.STRIDE", 7)
            in_parts = crawl_order(
                graph_of(web), [0], make_ordering(name), on_progress=reports.append
            )
        assert in_parts.tolist() == whole
        assert reports == [*range(7, len(whole), 7), len(whole)]


def test_seeds_are_discovered_in_the_given_order_and_duplicates_do_not_count():
    graph = LinkGraph(np.array([0, 0, 0, 0, 0]), np.array([], dtype=np.int32))
    for compiled in (True, False):
        for seeds in ([2, 0, 3], [2, 2, 0, 3, 0, 2]):
            order = crawl_order(graph, seeds, BreadthFirst(), compiled=compiled)
            assert order.tolist() == [2, 0, 3]
            assert order.dtype == np.int32


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [
        ([], "there are no seeds; give at least one page."),
        ([0, 2], "seeds[1] is 2; give 0 or more, below 2."),
        ([-1], "seeds[0] is -1; give 0 or more, below 2."),
    ],
)
def test_seeds_that_are_not_pages_are_refused(seeds, sentence):
    graph = LinkGraph(np.array([0, 1, 1]), np.array([1], dtype=np.int32))
    with pytest.raises(GraphError) as refused:
        crawl_order(graph, seeds, BreadthFirst())
    assert str(refused.value) == sentence


def test_a_budget_below_0_is_refused():
    graph = LinkGraph(np.array([0, 0]), np.array([], dtype=np.int32))
    with pytest.raises(ConfigError, match="budget is -1; give 0 or more"):
        crawl_order(graph, [0], BreadthFirst(), budget=-1)


def test_an_ordering_that_reads_urls_is_refused_on_a_graph_without_urls():
    graph = LinkGraph(np.array([0, 1, 1]), np.array([1], dtype=np.int32))
    with pytest.raises(GraphError, match=r"^The graph has no URLs, which the ordering or topic"):
        crawl_order(graph, [0], make_ordering("location"))
    with pytest.raises(GraphError, match=r"^The graph has no URLs"):
        crawl_order(graph, [0], make_ordering("opic"), hot_queue=hot_queue_of(Topic(["web"])))


@pytest.mark.parametrize("with_topic", [False, True])
def test_earlier_scores_of_other_pages_are_refused(with_topic):
    web = power_law_web(20, seed=9)
    ordering = make_ordering("historical-pagerank", {"scores": {"http://elsewhere.example/": 1.0}})
    hot_queue = hot_queue_of(Topic(["web"])) if with_topic else None
    with pytest.raises(ConfigError, match="none of which is in the graph"):
        crawl_order(graph_of(web), [0], ordering, hot_queue=hot_queue)


class LateCount(BacklinkCount):
    """A refinement of a compiled ordering, whose rules no longer describe it completely."""

    def observe(self, visit):
        return super().observe(visit) if self.n_pages > 20 else visit.targets


class Upside(Omniscient):
    """Another refinement: scores that `first_scores` does not know."""

    def score_of(self, page):
        return -super().score_of(page)


def test_a_subclass_that_changes_the_rules_meaning_does_not_run_in_the_loop():
    graph = graph_of(power_law_web(200, seed=12))
    for own, base in ((LateCount, BacklinkCount), (Upside, Omniscient)):
        assert issubclass(own, CompiledOrdering)
        assert runs_compiled(base(), None)
        assert not runs_compiled(own(), None)
        order = crawl_order(graph, [0], own())
        assert order.tolist() != crawl_order(graph, [0], base()).tolist()


@pytest.mark.parametrize(
    ("name", "options", "topic"),
    [
        ("anchor-similarity", {"words": WORDS}, None),
        ("opic", {}, Topic(WORDS)),
        ("breadth-first", {}, Topic(WORDS, distance=0)),
        ("larger-sites-first", {}, Topic(["crawl", "Frontiers"], stem=True)),
        ("batch-pagerank", {"every": 20}, Topic(WORDS)),
        ("opic", {}, None),
        ("pagerank", {"every": 10}, None),
    ],
)
def test_a_crawl_store_is_crawled_again_as_the_web_that_it_recorded(name, options, topic, tmp_path):
    web = power_law_web(200, seed=13)
    web.urls = {page: f"{web.urls[page]}&id={page}" for page in web.pages}
    numbers = recorded(web, [0, 50], tmp_path / "crawl.sqlite")
    source = Source.open(tmp_path / "crawl.sqlite")
    assert [numbers[seed] for seed in source.default_seeds()] == [0, 50]
    order = crawl_order(
        source.graph,
        source.default_seeds(),
        make_ordering(name, options),
        hot_queue=None if topic is None else hot_queue_of(topic),
        recorded=source.recorded(with_texts=True),
    )
    live = fetch_order(web, [0, 50], name, options, topic)
    assert [numbers[page] for page in order.tolist()] == live


def test_without_named_seeds_a_crawl_starts_where_most_pages_can_be_reached(tmp_path):
    # Page 0 leads nowhere; 1 has the most links, 2 leads to all but page 0.
    rows = [[], [3, 4, 5], [1, 6], [], [], [], []]
    graph = LinkGraph(np.cumsum([0, *map(len, rows)]), np.array([3, 4, 5, 1, 6], dtype=np.int32))
    assert Source(tmp_path, graph).default_seeds() == [2]


def test_figures_match_the_order():
    graph = graph_of(power_law_web(400, seed=15))
    simulation = Simulation(graph, [0, 7])
    run = simulation.run("opic", Opic())
    ranks = pagerank(graph.indptr, graph.indices)
    assert run.order.tolist() == crawl_order(graph, [0, 7], Opic()).tolist()
    assert run.fetched == simulation.n_reachable == len(run.order)
    assert run.average_cumulative_pagerank == pytest.approx(
        cumulative_pagerank(run.order, ranks, simulation.reachable).mean()
    )
    assert run.kendall_tau == pytest.approx(
        kendall_tau(run.order, ranks, reachable=simulation.reachable)
    )
    assert run.curve[0] == [0.0, 0.0]
    assert run.curve[-1] == [1.0, pytest.approx(1.0)]
    assert len(run.curve) == 101
    n_tenth = -(-run.fetched // 10)
    share = ranks[run.order[:n_tenth]].sum() / ranks[run.order].sum()
    assert run.pagerank_at[1] == pytest.approx(share)
    for (fetched, share), bound in zip(run.curve, simulation.best_curve(), strict=True):
        assert bound[0] == fetched
        assert bound[1] >= share - 1e-12


def test_with_a_budget_curves_end_with_the_crawl_and_missing_figures_are_null():
    graph = graph_of(power_law_web(400, seed=15))
    simulation = Simulation(graph, [0], budget=simulation_budget(graph, 0.2))
    run = simulation.run("random", make_ordering("random"))
    figures = json.loads(json.dumps(simulation.as_json([run]), allow_nan=False))
    assert figures["budget"] == figures["runs"][0]["fetched"] == run.fetched
    assert figures["runs"][0]["curve"][-1][0] == run.fetched / figures["reachable"]
    assert [share is None for share in figures["runs"][0]["pagerank_at"].values()] == [
        False, False, True
    ]  # fmt: skip


def simulation_budget(graph, share):
    """A subset of the pages reachable from page 0."""
    return int(share * Simulation(graph, [0]).n_reachable)


class Tally(NamedTuple):
    counts: NDArray[np.void]
    changed: PageIds
    before: NDArray[np.float64]


TALLY = Layout(Tally, np.dtype([("links", np.int64), ("weight", np.float64)]), np.int32, np.float64)


@njit(cache=True)
def tally(keys, page, targets, first, last, again, numbers, sites, addresses):
    """Backlink count, counted in records of its own."""
    counts = TALLY(addresses).counts
    for new in range(first, last):
        keys[new] = 0.0
    if not again:
        for target in targets:
            counts[target].links += 1
            keys[target] = counts[target].links
    return 0


class Tallied(CompiledOrdering):
    """A user's compiled ordering whose records are like those of no other."""

    rule = tally
    layout = TALLY
    changes_known: ClassVar[bool] = True

    def with_room(self, n_pages, n_sites, n_links, most_links):
        state = self.state
        return state._replace(counts=with_room(state.counts, n_pages))


def test_an_ordering_with_records_of_its_own_runs_after_any_other():
    """The loop is compiled once; a second layout used to end in a KeyError."""
    graph = graph_of(power_law_web(300, seed=8))
    network = Network(robots=3, latency=0.5)
    for name in ("sibling-sampling", "scout", "opic"):
        crawl_order(graph, [0], make_ordering(name))
        expected = crawl_order(graph, [0], BacklinkCount()).tolist()
        assert crawl_order(graph, [0], Tallied()).tolist() == expected
        assert crawl_order(graph, [0], Tallied(), compiled=False).tolist() == expected
        timed = [
            timed_crawl(graph, [0], ordering, network).visits.tolist()
            for ordering in (Tallied(), BacklinkCount())
        ]
        assert timed[0] == timed[1]
