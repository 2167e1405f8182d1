"""Properties of the oracles on every web, independent of `crawlprio`."""

from fractions import Fraction

import networkx as nx
import pytest
from graphs import TOPIC_PHRASES, cho_figure_3, power_law_web, seeds_of, webs
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Topic, crawl, crawling, pagerank, true_pagerank
from oracles.rank import iterated, solved

TOPIC = Topic(TOPIC_PHRASES)
few = settings(max_examples=25, deadline=None)


def test_pagerank_solves_its_equation_in_exact_fractions():
    web = cho_figure_3()
    links = {u: [] if u in (5, 8) else web.links_of(u) for u in web.pages}
    d, n = Fraction(85, 100), len(links)
    rank = {u: Fraction(x) for u, x in pagerank(links).items()}
    for u in links:
        received = sum((rank[v] / len(row) for v, row in links.items() if u in row), Fraction())
        lost = sum((rank[v] for v, row in links.items() if not row), Fraction())
        assert abs((1 - d) / n + d * (received + lost / n) - rank[u]) < Fraction(1, 10**15)


def test_the_direct_and_the_iterated_pagerank_agree_with_networkx():
    web = power_law_web(300, seed=5)
    links = {u: web.links_of(u) for u in web.pages}
    graph = nx.DiGraph()
    graph.add_nodes_from(links)
    graph.add_edges_from((u, v) for u, row in links.items() for v in row)
    expected = nx.pagerank(graph, alpha=0.85, tol=1e-16, max_iter=1000)
    assert solved(links, 0.85) == pytest.approx(expected, rel=1e-10)
    assert iterated(links, 0.85) == pytest.approx(solved(links, 0.85), rel=1e-12)


@few
@given(st.data(), st.sampled_from([None, TOPIC]))
def test_equivalent_orderings_agree(data, topic):
    web = data.draw(webs())
    seeds = data.draw(seeds_of(web))

    def order(name, **options):
        return crawl(web, seeds, name, topic=topic, **options)

    assert order("batch-pagerank", every=1) == order("pagerank")
    assert order("partial-pagerank", every=1) == order("pagerank")
    assert order("partial-pagerank", every=4) == order("pagerank", every=4)
    truth = true_pagerank(web)
    assert order("historical-pagerank", scores=truth) == order("omniscient")
    assert order("historical-pagerank", scores={}, new="omniscient") == order("omniscient")
    assert order("historical-pagerank", scores={}) == order("breadth-first")
    assert order("combined", weights={"opic": 2.0}) == order("opic")
    assert order("opic", pass_on=1e9) == order("opic")
    web.site = dict.fromkeys(web.site, 0)
    assert order("larger-sites-first") == order("breadth-first")


@few
@given(st.data(), st.sampled_from([None, 0.1, 0.5]))
def test_cash_is_neither_created_nor_lost(data, pass_on):
    web = data.draw(webs())
    seeds = data.draw(seeds_of(web))
    for record, ordering in crawling(web, seeds, "opic", pass_on=pass_on, pass_on_budget=50):
        cash = ordering.keys()
        assert list(cash) == record.discovered
        assert sum(cash.values()) == pytest.approx(len(cash), rel=1e-12)
