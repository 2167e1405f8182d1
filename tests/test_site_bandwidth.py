"""CRAWLPRIO_SITE_BANDWIDTH limits the average bytes per second requested from a site."""

import json
from itertools import pairwise

import numpy as np
import pytest
from crawls import ADDON, page, run_spider
from scrapy.cmdline import execute
from spiders import Follower

from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.orderings import make_ordering
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import timed_crawl


@pytest.mark.parametrize(
    ("n_bytes", "elapsed", "seconds"),
    [(0, 0.0, 2.0), (10_000, 0.0, 10.0), (10_000, 4.0, 6.0), (10_000, 9.5, 2.0), (500, 1.0, 2.0)],
)
def test_a_fetch_and_its_pause_last_as_long_as_the_body_takes_at_the_bandwidth(
    n_bytes, elapsed, seconds
):
    politeness = Politeness(delay=2.0, site_bandwidth=1000.0)
    assert politeness.pause(elapsed=elapsed, n_bytes=n_bytes) == seconds


def test_without_a_bandwidth_the_bytes_of_a_fetch_do_not_matter():
    assert Politeness(delay=2.0).pause(n_bytes=10**9) == 2.0


def test_the_longest_of_all_pauses_applies():
    politeness = Politeness(adaptive=10.0, site_bandwidth=1000.0)
    found = [politeness.pause(elapsed=1.0, n_bytes=n) for n in (5_000, 50_000)]
    assert found == [10.0, 49.0]


STAR = LinkGraph(np.array([0, 3, 3, 3, 3]), np.array([1, 2, 3], dtype=np.int32))
"""Page 0 links to three others of its site."""


@pytest.mark.parametrize("compiled", [True, False])
def test_a_simulated_site_sends_no_more_than_the_bandwidth(compiled):
    network = Network(
        politeness=Politeness(site_bandwidth=100.0), page_bytes=[500, 100, 200, 0], site_speed=1000
    )
    crawl = timed_crawl(STAR, [0], make_ordering("breadth-first"), network, compiled=compiled)
    assert crawl.started.tolist() == pytest.approx([0.0, 5.0, 6.0, 8.0])


def test_the_command_has_an_option_for_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_npz(STAR, tmp_path / "star.npz")
    arguments = ["star.npz", "--ordering", "breadth-first", "--seeds", "0", "--json", "out.json"]
    with pytest.raises(SystemExit) as ended:
        execute(["scrapy", "simulate", *arguments, "--page-bytes", "300", "--site-bandwidth", "50"])
    assert ended.value.code == 0
    figures = json.loads((tmp_path / "out.json").read_text())
    assert figures["network"]["site_bandwidth"] == 50
    assert figures["runs"][0]["hours"] == pytest.approx(3 * 6 / 3600)
    assert "at most 50 bytes/s from a site" in capsys.readouterr().out


def test_a_live_crawl_pauses_according_to_the_bytes_received():
    bodies = [40_000, 10_000, 20_000]
    pages = {f"/{n}": page(title="x" * n) for n in bodies}
    pages["/"] = page(*pages)
    crawled = {**ADDON, "CRAWLPRIO_SITE_BANDWIDTH": 20_000, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    run = run_spider(Follower, crawled, site=pages)
    fetches = sorted(run.site.fetches, key=lambda fetch: fetch.start)
    assert [fetch.path for fetch in fetches[-3:]] == [f"/{n}" for n in bodies]
    took = [(later.start - one.start) for one, later in pairwise(fetches[-3:])]
    for seconds, n_bytes in zip(took, bodies, strict=False):
        assert n_bytes / 20_000 - 0.02 <= seconds <= n_bytes / 20_000 + 1.4
