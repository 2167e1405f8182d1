"""The timed simulator: its compiled loop, its event-by-event driver and the oracle agree."""

import json
import math
import pickle
import random
from fractions import Fraction

import numpy as np
import pytest
from drawn_network import drawn_network
from driver import WebPages, hot_queue_of
from examples import examples
from graphs import TOPIC_PHRASES, power_law_web, seeds_of, webs
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Topic, Web
from oracles.timed import Roads, shares
from oracles.timed import pause as oracle_pause
from oracles.timed import timed_crawl as oracle_crawl
from ordering_cases import ALL_CASES, graph_of, ordering_of, url_of

from crawlprio.errors import ConfigError
from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.orderings.baseline import BacklinkCount, BreadthFirst
from crawlprio.orderings.opic import Opic
from crawlprio.ranking.pagerank import pagerank
from crawlprio.show.simulation_results import Simulation, simulate
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import crawl_order, pause, timed_crawl
from crawlprio.simulator.transfers import fair_share
from crawlprio.store import Store

CASES = [case for case in ALL_CASES if "anchor-similarity" not in str(case)]
WITH_RANKS = ["pagerank", "partial-pagerank", "batch-pagerank"]


def rows_of(crawl):
    """A crawl as the oracle reports it: page, start, end and place among the visits."""
    place = {page: k for k, page in enumerate(crawl.visits.tolist())}
    return [
        (page, started, ended, place[page])
        for page, started, ended in zip(
            crawl.order.tolist(), crawl.started.tolist(), crawl.ended.tolist(), strict=True
        )
    ]


def network_of(roads, graph):
    """Return the network that matches the oracle's roads."""
    politeness = Politeness(
        delay=roads.delay,
        small_site_delay=roads.small_site_delay,
        small_site_pages=roads.small_site_pages,
        adaptive=roads.adaptive,
        max_adaptive=roads.max_adaptive,
        site_bandwidth=roads.site_bandwidth,
    )
    speeds = [roads.speed.get(site) for site in range(graph.n_sites)]
    return Network(
        robots=roads.robots,
        politeness=politeness,
        pages_per_visit=roads.k,
        bandwidth=roads.bandwidth,
        latency=[float(roads.latency.get(site, 0.0)) for site in range(graph.n_sites)],
        page_bytes=[float(roads.n_bytes.get(page, 0.0)) for page in range(graph.n_pages)],
        site_speed=[math.inf if speed is None else float(speed) for speed in speeds],
    )


def three_ways(web, seeds, name, options, roads, topic=None, budget=None):
    """Return the results of the compiled loop, the event-by-event driver and the oracle."""
    graph = graph_of(web)
    network = network_of(roads, graph)
    loop, events = (
        rows_of(
            timed_crawl(
                graph,
                seeds,
                ordering_of(web, name, options),
                network,
                budget=budget,
                hot_queue=None if topic is None else hot_queue_of(topic),
                recorded=None,
                compiled=compiled,
            )
        )
        for compiled in (True, False)
    )
    return loop, events, oracle_crawl(web, seeds, name, roads, budget, topic, **options)


@st.composite
def roads_of(draw, web):
    """Networks with few distinct numbers, so that many events coincide."""

    def by(keys, numbers):
        rng = random.Random(draw(st.integers(0, 2**16)))
        few = rng.sample(numbers, rng.randint(1, len(numbers)))
        return {key: rng.choice(few) for key in keys}

    pages, sites = range(max(web.pages) + 1), range(5)
    return Roads(
        robots=draw(st.integers(1, 6)),
        k=draw(st.sampled_from([1, 1, 2, 3, 100])),
        bandwidth=draw(st.sampled_from([None, 10.0, 30.0, 100.0, 1000.0])),
        latency=by(sites, [0.0, 0.0, 0.1, 0.3, 1.0]),
        n_bytes=by(pages, [0.0, 1.0, 10.0, 20.0, 33.0, 100.0]),
        speed=by(sites, [None, 7.0, 10.0, 25.0, 60.0]),
        delay=draw(st.sampled_from([0.0, 0.0, 0.3, 1.0, 5.0])),
        small_site_delay=draw(st.sampled_from([None, None, 0.0, 2.0])),
        small_site_pages=draw(st.integers(1, 8)),
        adaptive=draw(st.sampled_from([0.0, 0.0, 1.5, 10.0])),
        max_adaptive=draw(st.sampled_from([2.0, 60.0])),
        site_bandwidth=draw(st.sampled_from([0.0, 0.0, 3.0, 50.0])),
    )


@pytest.mark.slow
@settings(max_examples=examples(125), deadline=None)
@given(st.data())
def test_on_any_small_web_loop_driver_and_oracle_agree_on_pages_and_times(data):
    web = data.draw(webs())
    seeds = data.draw(seeds_of(web))
    roads = data.draw(roads_of(web))
    name, options = data.draw(st.sampled_from(CASES))
    budget = data.draw(st.sampled_from([None, None, 0, 1, 5]))
    if name == "historical-pagerank":
        options = {**options, "scores": {web.pages[0]: 0.5, web.pages[-1]: 0.25}}
    web.urls = {page: url_of(web, page) for page in range(max(web.pages) + 1)}
    loop, events, expected = three_ways(web, seeds, name, options, roads, budget=budget)
    assert loop == events == expected


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_with_a_hot_queue_driver_and_oracle_agree(data):
    web = data.draw(webs(max_pages=25))
    for texts in (web.titles, web.bodies, web.anchors):
        texts.clear()
    web.urls = {page: url_of(web, page) for page in range(max(web.pages) + 1)}
    roads = data.draw(roads_of(web))
    names = ["opic", "breadth-first", "larger-sites-first", "batch-pagerank"]
    name = data.draw(st.sampled_from(names))
    options = {"every": 3} if name == "batch-pagerank" else {}
    topic = Topic(list(TOPIC_PHRASES))
    seeds = data.draw(seeds_of(web))
    loop, events, expected = three_ways(web, seeds, name, options, roads, topic)
    assert loop == events == expected


@pytest.mark.long
@pytest.mark.parametrize("name", ["opic", "larger-sites-first", *WITH_RANKS])
def test_loop_and_driver_agree_on_2000_pages_and_40_robots(name):
    web = power_law_web(2000, seed=32)
    graph = graph_of(web)
    options = {"every": 150} if name in WITH_RANKS else {}
    for bandwidth in (None, 20_000.0, 300_000.0):
        network = drawn_network(
            graph,
            seed=32,
            robots=40,
            politeness=Politeness(delay=5.0, small_site_delay=15.0, adaptive=2.0),
            bandwidth=bandwidth,
        )
        loop, events = (
            rows_of(
                timed_crawl(
                    graph, [5, 17], make_ordering(name, options), network, compiled=compiled
                )
            )
            for compiled in (True, False)
        )
        assert loop == events
        assert len(loop) > 1000


@pytest.mark.parametrize("seed", range(6))
def test_times_match_exact_arithmetic(seed):
    """Without ties, exact fractions give the same order, and the same times to 1e-9."""
    rng = random.Random(seed)
    web = power_law_web(120, seed)
    pages, sites = web.pages, range(max(web.site.values()) + 1)
    bandwidth = rng.uniform(500, 5000)
    in_floats = {
        "bandwidth": bandwidth,
        "latency": {site: rng.uniform(0.1, 1) for site in sites},
        "n_bytes": {page: rng.uniform(100, 9000) for page in pages},
        "speed": {site: rng.uniform(0.1, 0.6) * bandwidth for site in sites},
        "delay": rng.uniform(0, 2),
    }
    exact = {
        name: {key: Fraction(number) for key, number in numbers.items()}
        if isinstance(numbers, dict)
        else Fraction(numbers)
        for name, numbers in in_floats.items()
    }
    graph = graph_of(web)
    network = network_of(Roads(robots=3, k=2, **in_floats), graph)
    found = rows_of(timed_crawl(graph, [0, 60], Opic(), network, budget=60))
    expected = oracle_crawl(
        web, [0, 60], "opic", Roads(robots=3, k=2, **exact), 60, zero=Fraction(0)
    )
    assert [row[0] for row in found] == [row[0] for row in expected], f"seed {seed}"
    assert [row[3] for row in found] == [row[3] for row in expected]
    for place in (1, 2):
        assert [row[place] for row in found] == pytest.approx(
            [float(row[place]) for row in expected], rel=1e-9
        )


def fork(n):
    """Page 0 on site 0, with links to n pages, each on its own site."""
    return LinkGraph(
        np.array([0, n, *[n] * n]),
        np.arange(1, n + 1, dtype=np.int32),
        site=np.arange(n + 1, dtype=np.int32),
    )


def chain(n):
    """Pages 0, ..., n - 1 of one site; page 0 links to all others."""
    return LinkGraph(np.array([0, *[n - 1] * n]), np.arange(1, n, dtype=np.int32))


@pytest.mark.parametrize("compiled", [True, False])
def test_transfers_share_the_bandwidth_and_none_is_faster_than_its_site(compiled):
    # Page 0 takes 1 s at 100 bytes/s. Then 20 + 40 + 40 bytes/s, until the second has its 120 bytes
    # at 4 s; by then the third has 120 of 240, and gets 80 bytes/s: 1.5 s more. The first has 20
    # bytes/s throughout.
    graph = fork(3)
    network = Network(
        robots=3,
        bandwidth=100.0,
        page_bytes=np.array([100, 200, 120, 240]),
        site_speed=np.array([math.inf, 20.0, 90.0, math.inf]),
    )
    crawl = timed_crawl(graph, [0], BreadthFirst(), network, compiled=compiled)
    assert crawl.order.tolist() == [0, 1, 2, 3]
    assert crawl.started.tolist() == [0, 1, 1, 1]
    assert crawl.ended.tolist() == [1, 11, 4, 5.5]
    assert crawl.visits.tolist() == [0, 2, 3, 1]
    assert crawl.seconds == 11


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_one_robot_without_a_delay_fetches_in_the_order_of_the_order_only_loop(name, options):
    web = power_law_web(200, seed=33)
    web.urls = {page: url_of(web, page) for page in web.pages}
    graph = graph_of(web)
    plain = crawl_order(graph, [0, 9], ordering_of(web, name, options)).tolist()
    slow = Network(bandwidth=100.0, page_bytes=10, latency=0.5)
    for network, seconds in ((Network(), 0.0), (slow, 0.6)):
        for compiled in (True, False):
            crawl = timed_crawl(
                graph, [0, 9], ordering_of(web, name, options), network, compiled=compiled
            )
            assert crawl.order.tolist() == crawl.visits.tolist() == plain
            assert crawl.seconds == pytest.approx(len(plain) * seconds)


class FewestWaiting(Ordering):
    """A custom ordering with a rule for sites, which runs event by event."""

    def observe(self, visit):
        if visit.page >= 0:
            self.keys[visit.targets] += 1
        return visit.targets

    def site_key(self, site, best_key, n_waiting):
        return -n_waiting


class OwnCount(FewestWaiting):
    """Backlinks, counted in Python."""

    site_key = Ordering.site_key


def test_a_custom_ordering_runs_like_the_compiled_one_that_it_repeats():
    graph = graph_of(power_law_web(300, seed=34))
    network = drawn_network(graph, robots=5, politeness=Politeness(delay=1.0), bandwidth=1e5)
    own = rows_of(timed_crawl(graph, [0], OwnCount(), network))
    assert own == rows_of(timed_crawl(graph, [0], BacklinkCount(), network))
    other = rows_of(timed_crawl(graph, [0], FewestWaiting(), network))
    assert sorted(row[0] for row in other) == sorted(row[0] for row in own)
    assert other != own


class Impatient(Politeness):
    def pause(self, **said):
        return super().pause(**said) / 2


def test_custom_delay_rules_are_obeyed():
    network = Network(politeness=Impatient(delay=10.0), latency=1.0)
    crawl = timed_crawl(chain(3), [0], BreadthFirst(), network)
    assert crawl.started.tolist() == [0, 6, 12]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.builds(
        Roads,
        delay=st.floats(0, 100),
        small_site_delay=st.none() | st.floats(0, 100),
        small_site_pages=st.integers(0, 200),
        adaptive=st.floats(0, 20),
        max_adaptive=st.floats(0, 100),
        site_bandwidth=st.floats(0, 1e6),
    ),
    st.floats(0, 1000),
    st.integers(0, 10**7),
    st.integers(0, 250),
)
def test_the_compiled_pause_matches_the_live_crawl(roads, elapsed, n_bytes, n_pages):
    politeness = network_of(roads, chain(2)).politeness
    live = politeness.pause(elapsed=elapsed, n_bytes=n_bytes, n_pages=n_pages)
    assert pause(politeness.rules, elapsed, float(n_bytes), n_pages) == live
    assert oracle_pause(roads, elapsed, n_bytes, n_pages) == live


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.floats(0.1, 1e6) | st.sampled_from([1.0, 10.0, math.inf]), min_size=1),
    st.floats(0.1, 1e6),
)
def test_the_share_is_max_min_fair(speeds, bandwidth):
    share = fair_share(np.sort(np.array(speeds)), len(speeds), bandwidth)
    rates = [min(speed, share) for speed in speeds]
    limits = [None if math.isinf(speed) else speed for speed in speeds]
    assert rates == shares(limits, bandwidth)
    if all(rate == speed for rate, speed in zip(rates, speeds, strict=True)):
        assert sum(rates) <= bandwidth * (1 + 1e-9)
    else:
        # All bandwidth is used, and a transfer slower than its site is as fast as any other.
        assert sum(rates) == pytest.approx(bandwidth, rel=1e-9)
        slowed = {rate for rate, speed in zip(rates, speeds, strict=True) if rate < speed}
        assert slowed == {max(rates)}


def test_the_optimal_time_is_all_bytes_over_the_bandwidth_whatever_sites_and_delays_allow():
    sizes = [7200.0, 3600.0, 0.0, 1800.0]
    network = Network(bandwidth=2.0, page_bytes=sizes, politeness=Politeness(delay=99.0))
    for budget, n_bytes in ((None, 12600.0), (2, 10800.0)):
        (run,) = simulate(fork(3), [0], ["breadth-first"], network=network, budget=budget)
        assert run.timed.optimal_hours == n_bytes / 2.0 / 3600 <= run.timed.hours


def test_figures_by_time_match_the_ends_of_fetches():
    # One robot, 3,600 s per page: of 4 pages, the first is there after one hour.
    graph = fork(3)
    network = Network(latency=3600.0)
    (run,) = simulate(graph, [0], {"breadth-first": BreadthFirst()}, network=network)
    timed = run.timed
    ranks = pagerank(graph.indptr, graph.indices)
    gathered = np.cumsum(ranks).tolist()
    assert (timed.hours, timed.pages_per_hour, timed.mean_active_robots) == (4, 1, 1)
    assert timed.pagerank_at_time == pytest.approx((0, gathered[0], gathered[1]))
    assert timed.average_pagerank_by_time == pytest.approx(sum(gathered[:3]) / 4)
    assert timed.curve_by_time[25] == [1, pytest.approx(gathered[0]), 0.25]
    assert timed.curve_by_time[24] == [pytest.approx(0.96), 0, 0]
    assert timed.curve_by_time[100] == [4, pytest.approx(1), 1]
    assert [row[1] for row in timed.active_robots] == pytest.approx([1] * 100)
    assert json.loads(json.dumps(run.as_json(), allow_nan=False))["hours"] == 4


def test_a_crawl_that_takes_no_time_has_no_figures_by_time():
    simulation = Simulation(fork(3), [0], network=Network(robots=2))
    run = simulation.run("breadth-first", BreadthFirst())
    figures = json.loads(json.dumps(simulation.as_json([run]), allow_nan=False))
    assert figures["network"]["robots"] == 2
    assert figures["runs"][0]["hours"] == 0
    assert figures["runs"][0]["average_pagerank_by_time"] is None
    assert figures["runs"][0]["curve_by_time"] == []
    runs = simulate(fork(3), [0], {"breadth-first": BreadthFirst()})
    (plain,) = pickle.loads(pickle.dumps(runs))  # as from another process
    assert plain.timed is None


def test_a_loop_that_stops_and_continues_has_the_same_times(monkeypatch):
    graph = graph_of(power_law_web(300, seed=36))
    network = drawn_network(graph, robots=6, politeness=Politeness(delay=1.0), bandwidth=5e4)
    for name in ("opic", "batch-pagerank"):
        ordering = make_ordering(name, {"every": 40} if name == "batch-pagerank" else {})
        whole = rows_of(timed_crawl(graph, [0], ordering, network))
        reports = []
        with monkeypatch.context() as patch:
            patch.setattr("crawlprio.simulator.order_only.STRIDE", 7)
            in_parts = timed_crawl(graph, [0], ordering, network, on_progress=reports.append)
        assert rows_of(in_parts) == whole
        assert reports == sorted(reports)
        assert reports[-1] == len(whole)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"robots": 0}, "robots is 0; give a whole number of 1 or more."),
        ({"robots": 1.5}, "robots is 1.5; give a whole number of 1 or more."),
        ({"pages_per_visit": 0}, "pages_per_visit is 0; give a whole number of 1 or more."),
        ({"bandwidth": 0.0}, "bandwidth is 0; give numbers above 0."),
        ({"bandwidth": math.inf}, "bandwidth is inf; give bytes/s above 0, or None for no limit."),
        ({"latency": -0.5}, "latency is -0.5; give numbers of 0 or more."),
        ({"latency": math.nan}, "latency is nan; give numbers of 0 or more."),
        ({"latency": math.inf}, "latency has an infinite value; give finite numbers."),
        ({"latency": [0.1, -2.0]}, "latency is -2; give numbers of 0 or more."),
        ({"page_bytes": "many"}, "page_bytes is 'many'; give numbers of 0 or more."),
        (
            {"page_bytes": [[1]]},
            "page_bytes has 2 dimensions; give one number, or a one-dimensional array.",
        ),
        ({"site_speed": 0}, "site_speed is 0; give numbers above 0."),
        ({"politeness": Politeness(delay=-1.0)}, "delay is -1; give numbers of 0 or more."),
        (
            {"politeness": Politeness(small_site_delay=-1.0)},
            "small_site_delay is -1; give numbers of 0 or more.",
        ),
    ],
)
def test_an_impossible_network_is_refused(given, sentence):
    with pytest.raises(ConfigError) as refused:
        Network(**given)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"latency": [1.0]}, "latency has shape (1,); give one number, or one for each site"),
        ({"page_bytes": [1] * 5}, "page_bytes has shape (5,); give one number, or one for"),
        ({"site_speed": [1] * 3}, "site_speed has shape (3,); give one number, or one for"),
    ],
)
def test_arrays_that_do_not_fit_the_graph_are_refused(given, sentence):
    with pytest.raises(ConfigError) as refused:
        timed_crawl(fork(3), [0], BreadthFirst(), Network(**given))
    assert str(refused.value).startswith(sentence)
    assert str(refused.value).endswith(", 4.")


def test_a_store_provides_the_sizes_and_times_that_it_recorded(tmp_path):
    # Site 0: 0.5 s for 100 bytes, 2.5 s for 900 bytes, so 0.5 s and 1000 bytes in 2 s. Site 1: one
    # fetch; site 2: a failed one, and none with a response.
    web = Web(links={0: [1, 2, 3, 4]}, site={0: 0, 1: 0, 2: 1, 3: 2, 4: 0})
    web.urls = {page: f"http://s{web.site[page]}.example/{page}" for page in range(5)}
    pages = WebPages(web)
    with Store.create(tmp_path / "crawl.sqlite") as store:
        store.record_pages(pages, pages.seeds([0]).targets.tolist())
        for page, n_bytes, elapsed, status in (
            (0, 900, 9.0, 200),
            (0, 100, 0.5, 200),
            (1, 900, 2.5, 200),
            (2, 300, 1.5, 404),
            (3, 0, 30.0, 0),
        ):
            visit = pages.visit(page)._replace(n_bytes=n_bytes, elapsed=elapsed, status=status)
            store.record(visit, pages)
    network = Network.from_store(tmp_path / "crawl.sqlite", robots=3, bandwidth=1e6)
    assert (network.robots, network.bandwidth) == (3, 1e6)
    assert network.sizes().tolist() == [100, 900, 300, 300, 300]
    assert network.latencies(3).tolist() == [0.5, 1.5, 1.0]
    assert network.speeds(3).tolist() == [500, math.inf, math.inf]
