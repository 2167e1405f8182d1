"""`crawlprio simulate`: what it writes, and its one-line errors."""

import gzip
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run_scrapy_command
from driver import WebPages
from forked import run_forked, run_to_end
from graphs import power_law_web
from linkgraphs import as_arrays, graph_of_web
from stores import record_visits

from crawlprio.commands.simulate import Command
from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.orderings import COMPARED, make_ordering
from crawlprio.simulator.graph_pages import Source
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import crawl_order, timed_crawl
from crawlprio.store.graph_files import read_graph

N_PAGES = 200


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder with a graph, with and without URLs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    web = power_law_web(N_PAGES, seed=1)
    graph = graph_of_web(web)
    write_npz(graph, "bare.npz")
    urls = [f"http://s{web.site[page]}.example/{page}" for page in range(N_PAGES)]
    write_npz(LinkGraph(graph.indptr, graph.indices, graph.site, urls), "graph.npz")
    return tmp_path


def record_crawl(n_visits):
    """Record a crawl of the web of the graph, whose pages differ in size and time."""
    web = power_law_web(N_PAGES, seed=1)
    web.urls = {page: f"http://s{web.site[page]}.example/{page}" for page in web.pages}
    pages = WebPages(web)
    seeds = pages.seeds([9, 4]).targets.tolist()
    visits = [
        pages.visit(page)._replace(n_bytes=500 * page, elapsed=0.1 * page)
        for page in range(n_visits)
    ]
    record_visits(Path("crawl.sqlite"), pages, *visits, seeds=seeds)


def simulate(*arguments):
    return run_scrapy_command(Command, "simulate", *arguments)


def scrapy_simulate(*arguments):
    """Run the command as a user would, in the current folder."""
    return run_forked("scrapy", ["simulate", *arguments], ".")


def order_in(path):
    return [int(line) for line in path.read_text().splitlines()]


def test_json_has_the_promised_figures(folder):
    arguments = ["--ordering", "opic", "--ordering", "random", "--seeds", "0,7"]
    assert simulate("graph.npz", *arguments, "--json", "out.json") == 0
    figures = json.loads((folder / "out.json").read_text())
    graph = read_graph("graph.npz")
    assert (figures["pages"], figures["links"]) == (graph.n_pages, graph.n_links)
    assert figures["seeds"] == [0, 7]
    assert [run["ordering"] for run in figures["runs"]] == ["opic", "random"]
    for run in figures["runs"]:
        assert run["fetched"] == figures["reachable"]
        assert run["pages_per_second"] == pytest.approx(run["fetched"] / run["seconds"])
        assert 0 < run["average_cumulative_pagerank"] < 1
        assert -1 <= run["kendall_tau"] <= 1
        assert run["curve"][0] == [0, 0]
        assert run["curve"][-1] == [1, pytest.approx(1)]
        assert list(run["pagerank_at"]) == ["0.05", "0.1", "0.3"]
        assert run["options"] == {}


def test_without_an_ordering_the_default_ones_are_simulated(folder, capsys):
    assert simulate("bare.npz", "--json", "out.json") == 0
    figures = json.loads((folder / "out.json").read_text())
    assert tuple(run["ordering"] for run in figures["runs"]) == COMPARED
    printed = capsys.readouterr()
    assert printed.err == ""
    first_words = [line.split()[0] for line in printed.out.splitlines() if line.strip()]
    assert [word for word in first_words if word in COMPARED] == list(COMPARED)


def test_there_is_an_order_file_for_each_ordering(folder):
    names = ["opic", "larger-sites-first"]
    named = [argument for name in names for argument in ("--ordering", name)]
    assert simulate("graph.npz", *named, "--seeds", "3,0", "--order", "order-%s.txt") == 0
    graph = read_graph("graph.npz")
    for name in names:
        expected = crawl_order(graph, [3, 0], make_ordering(name)).tolist()
        assert order_in(folder / f"order-{name}.txt") == expected


def test_one_ordering_needs_no_placeholder_and_a_budget_ends_the_crawl(folder):
    arguments = ["--ordering", "depth-first", "--budget", "17", "--seeds", "0"]
    assert simulate("graph.npz", *arguments, "--order", "order.txt") == 0
    graph = read_graph("graph.npz")
    whole = crawl_order(graph, [0], make_ordering("depth-first")).tolist()
    assert order_in(folder / "order.txt") == whole[:17]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"every": 5}', {"every": 5}),
        ('{"pagerank": {"every": 5}}', {"every": 5}),
        ('{"every": 5, "seed_cash": 3}', {"every": 5}),
    ],
)
def test_options_go_to_the_orderings_that_have_them(folder, text, expected):
    arguments = ["--ordering", "pagerank", "--ordering", "opic", "--seeds", "0"]
    assert simulate("graph.npz", *arguments, "--ordering-options", text, "--order", "%s.txt") == 0
    order = crawl_order(read_graph("graph.npz"), [0], make_ordering("pagerank", expected))
    assert order_in(folder / "pagerank.txt") == order.tolist()


def test_seeds_are_ids_urls_or_the_lines_of_a_file(folder):
    graph = read_graph("graph.npz")
    (folder / "seeds.txt").write_text(f"# where to start\n\n 12 \n{graph.urls[5]}\n")
    for seeds in ("12,5", f"12,{graph.urls[5]}", "@seeds.txt"):
        arguments = ["--ordering", "breadth-first", "--seeds", seeds, "--order", "order.txt"]
        assert simulate("graph.npz", *arguments) == 0
        assert order_in(folder / "order.txt")[:2] == [12, 5]


def test_a_topic_from_the_settings_comes_first(folder):
    graph = read_graph("graph.npz")
    rows = [[1, 2, 3], [], [], []]
    urls = [f"http://a.example/{name}" for name in ("", "one", "two", "topic")]
    write_npz(LinkGraph(*as_arrays(rows), urls=urls), "topic.npz")
    arguments = ["topic.npz", "--ordering", "breadth-first", "--order", "order.txt"]
    assert simulate(*arguments, "-s", "TOPIC=topic") == 0
    assert order_in(folder / "order.txt") == [0, 3, 1, 2]
    assert simulate(*arguments) == 0
    assert order_in(folder / "order.txt") == [0, 1, 2, 3]
    assert graph.n_pages == N_PAGES


def test_a_crawl_store_is_crawled_from_its_seeds_and_with_its_texts(folder):
    record_crawl(30)
    arguments = ["crawl.sqlite", "--ordering", "opic", "--order", "order.txt"]
    assert simulate(*arguments) == 0
    plain = order_in(folder / "order.txt")
    source = Source.open("crawl.sqlite")
    assert plain == crawl_order(source.graph, [0, 1], make_ordering("opic")).tolist()
    assert simulate(*arguments, "-s", "TOPIC=web crawling") == 0
    with_topic = crawl_order(
        source.graph,
        [0, 1],
        make_ordering("opic"),
        hot_queue=HotQueue(Topic("web crawling")),
        recorded=source.recorded(with_texts=True),
    ).tolist()
    assert order_in(folder / "order.txt") == with_topic != plain


BAD_INPUT = [
    ([], "scrapy simulate takes one GRAPH and was given none"),
    (["graph.npz", "bare.npz"], "takes one GRAPH and was given 2 arguments"),
    (["graph.npz", "--sedes", "1"], "scrapy simulate has no option --sedes"),
    (["graph.npz", "--budget"], "argument --budget: expected one argument"),
    (["graph.npz", "--budget", "0"], "--budget is '0'; give a whole number of 1 or more."),
    (["graph.npz", "--budget", "1e3"], "--budget is '1e3'; give a whole number of 1 or more."),
    (["absent.npz"], "absent.npz: there is no such file"),
    (["short.npz"], "short.npz cannot be read as .npz"),
    (["notes.md"], "notes.md is not a graph in a known format"),
    (["edges.txt"], "edges.txt:2:"),
    (["edges.txt.gz"], "edges.txt.gz"),
    (["empty.npz"], "empty.npz has no pages; there is nothing to crawl."),
    (["graph.npz", "--seeds", str(N_PAGES)], f"seed {N_PAGES} is not a page of graph.npz"),
    (["graph.npz", "--seeds", "http://x.example/"], "seed http://x.example/ is not a page"),
    (["bare.npz", "--seeds", "http://x.example/"], "is a URL, but bare.npz has no URLs"),
    (["graph.npz", "--seeds", ","], "--seeds is ',', which names no page"),
    (["graph.npz", "--seeds", "@absent.txt"], "--seeds @absent.txt: the file cannot be read"),
    (["graph.npz", "--ordering", "opick"], "ORDERING is 'opick'; known orderings: anchor-sim"),
    (["graph.npz", "--ordering", "own.Absent"], "ORDERING is 'own.Absent', which cannot be imp"),
    (["graph.npz", "--ordering", "json.JSONDecoder"], "is not a subclass of crawlprio.Ordering"),
    (["graph.npz", "--ordering-options", "{every: 1}"], "which is not valid JSON"),
    (["graph.npz", "--ordering-options", "[1]"], "--ordering-options is '[1]'; give a JSON object"),
    (["graph.npz", "--ordering-options", '{"evry": 1}'], "'evry', which no simulated ordering has"),
    (
        ["graph.npz", "--ordering", "opic", "--ordering-options", '{"random": {"seed": 1}}'],
        "has options of random, which is not simulated; simulated orderings: opic.",
    ),
    (
        ["graph.npz", "--ordering", "opic", "--ordering-options", '{"seed_cash": "a lot"}'],
        "ORDERING_OPTIONS of opic: seed_cash is 'a lot'; give a number of 0 or more.",
    ),
    (["graph.npz", "--ordering", "historical-pagerank"], "scores is missing"),
    (
        ["graph.npz", "--ordering", "historical-pagerank", "--ordering-options",
         '{"scores": "scores.csv"}'],
        "scores.csv has scores of 1 URLs, none of which is in the graph",
    ),
    (["bare.npz", "--ordering", "location"], "The graph has no URLs, which the ordering or topic"),
    (["bare.npz", "-s", "TOPIC=web"], "The graph has no URLs, which the ordering or topic needs"),
    (["graph.npz", "-s", "TOPIC=?!"], "TOPIC is '?!', which contains no word"),
    (["graph.npz", "-s", "TOPIC"], "Invalid -s value, use -s NAME=VALUE"),
    (["graph.npz", "--robots", "0"], "--robots is '0'; give a whole number of 1 or more."),
    (["graph.npz", "--delay", "-1"], "--delay is '-1'; give a number of 0 or more."),
    (["graph.npz", "--delay", "soon"], "--delay is 'soon'; give a number of 0 or more."),
    (["graph.npz", "--small-site-delay", "nan"], "--small-site-delay is 'nan'; give a number of"),
    (["graph.npz", "--adaptive-delay", "-10"], "--adaptive-delay is '-10'; give a number of 0 or"),
    (["graph.npz", "--max-adaptive-delay", "9"], "--max-adaptive-delay is 9, but there is no --ad"),
    (["graph.npz", "--pages-per-visit", "1.5"], "--pages-per-visit is '1.5'; give a whole number"),
    (["graph.npz", "--latency", "inf"], "--latency is 'inf'; give a number of 0 or more, or reco"),
    (["graph.npz", "--page-bytes", "-5"], "--page-bytes is '-5'; give a number of 0 or more, or"),
    (["graph.npz", "--page-bytes", "1", "--bandwidth", "0"], "--bandwidth is '0'; give a number a"),
    (["graph.npz", "--page-bytes", "1", "--site-speed", "0"], "--site-speed is '0'; give a number"),
    (["graph.npz", "--bandwidth", "9"], "--bandwidth is 9, but pages have no size; give --page-b"),
    (["graph.npz", "--latency", "recorded"], "--latency is 'recorded', but graph.npz is not a"),
    (["graph.npz", "--order", "order.txt"], "--order is 'order.txt' for 7 orderings; write %s"),
    (["graph.npz", "--json", "absent/out.json"], "--json absent/out.json cannot be written"),
    (["graph.npz", "--order", "absent/%s.txt"], "--order absent/omniscient.txt cannot be w"),
    (["graph.npz", "--json", "."], "--json . cannot be written"),
    (["graph.npz", "--json", "graph.npz"], "--json graph.npz is also the file of GRAPH"),
    (["graph.npz", "--json", "a.png", "--plot", "a.png"], "a.png is also the file of --plot"),
    (["graph.npz", "--plot", "curves.xls"], "curves.xls is not a plot file"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "sentence"), BAD_INPUT)
def test_bad_input_ends_with_status_2_and_one_line(arguments, sentence, folder, capsys):
    (folder / "short.npz").write_bytes((folder / "graph.npz").read_bytes()[:-300])
    (folder / "notes.md").write_text("A graph has pages and links.\n")
    (folder / "edges.txt").write_text("0 1\n1 two\n")
    with gzip.open(folder / "edges.txt.gz", "wb") as file:
        file.write(b"0 1\n1 0\n" * 5000)
    (folder / "edges.txt.gz").write_bytes((folder / "edges.txt.gz").read_bytes()[:-20])
    write_npz(LinkGraph(np.array([0]), np.array([], dtype=np.int32)), folder / "empty.npz")
    (folder / "scores.csv").write_text("url,score\nhttp://elsewhere.example/,0.5\n")
    before = sorted(os.listdir(folder))
    assert simulate(*arguments) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert sorted(os.listdir(folder)) == before


def test_options_under_which_nothing_takes_time_change_neither_order_nor_figures(folder):
    arguments = ["graph.npz", "--ordering", "opic", "--order", "order.txt", "--json", "out.json"]
    none = ["--robots", "1", "--delay", "0.0", "--pages-per-visit", "1", "--latency", "0"]
    found = []
    for more in ([], none, ["--page-bytes", "100"]):
        assert simulate(*arguments, *more) == 0
        figures = json.loads((folder / "out.json").read_text())
        for name in ("seconds", "pages_per_second"):
            del figures["runs"][0][name]
        found.append((order_in(folder / "order.txt"), figures))
    assert found[0] == found[1] == found[2]
    assert "network" not in found[0][1]
    assert "hours" not in found[0][1]["runs"][0]


def test_a_timed_crawl_uses_the_network_and_is_reported_by_the_hour(folder, capsys):
    options = {
        "--robots": "3", "--delay": "1.5", "--small-site-delay": "4", "--pages-per-visit": "2",
        "--bandwidth": "5000", "--site-speed": "3000", "--latency": "0.25", "--page-bytes": "2000",
    }  # fmt: skip
    named = [argument for pair in options.items() for argument in pair]
    wanted = ["--order", "%s.txt", "--json", "out.json", "--plot", "curves.svg"]
    names = ["opic", "larger-sites-first"]
    orderings = [argument for name in names for argument in ("--ordering", name)]
    assert simulate("graph.npz", *orderings, "--seeds", "0,7", *named, *wanted) == 0
    figures = json.loads((folder / "out.json").read_text())
    graph = read_graph("graph.npz")
    network = Network(
        robots=3,
        politeness=Politeness(delay=1.5, small_site_delay=4.0),
        pages_per_visit=2,
        bandwidth=5000.0,
        latency=0.25,
        page_bytes=2000.0,
        site_speed=3000.0,
    )
    assert figures["network"] == network.as_json()
    for name, run in zip(names, figures["runs"], strict=True):
        crawl = timed_crawl(graph, [0, 7], make_ordering(name), network)
        assert order_in(folder / f"{name}.txt") == crawl.order.tolist()
        assert run["hours"] == crawl.seconds / 3600
        assert run["pages_per_hour"] == pytest.approx(run["fetched"] / run["hours"])
        assert run["optimal_hours"] == run["fetched"] * 2000 / 5000 / 3600 < run["hours"]
        assert 0 < run["mean_active_robots"] <= 3
        assert 0 < run["average_pagerank_by_time"] < 1
        assert list(run["pagerank_at_time"]) == ["0.1", "0.25", "0.5"]
        assert run["curve_by_time"][0][0] == 0
        assert run["curve_by_time"][-1] == [run["hours"], pytest.approx(1), pytest.approx(1)]
        assert len(run["active_robots"]) == 100
    drawn = (folder / "curves.svg").read_text()
    for text in ("opic", "larger-sites-first", "PageRank by time", "Active robots", "hours"):
        assert text in drawn
    printed = capsys.readouterr()
    assert printed.err == ""
    assert (
        "3 robots, delay 1.5 s (4 s under 100 pages), 2 pages per visit, 5,000 bytes/s, latency "
        "0.25 s, pages of 2,000 bytes, sites of 3,000 bytes/s:" in " ".join(printed.out.split())
    )
    assert "pages/hour" in printed.out
    assert "T*: hours in which the link, if it were always full" in " ".join(printed.out.split())


def test_each_number_of_robots_has_its_crawl_and_its_speed_up(folder, capsys):
    arguments = ["--seeds", "0", "--ordering", "opic", "--delay", "1", "--robots", "4,1"]
    assert simulate("graph.npz", *arguments, "--order", "%s.txt", "--json", "out.json") == 0
    runs = json.loads((folder / "out.json").read_text())["runs"]
    assert [run["ordering"] for run in runs] == ["opic, r = 1", "opic, r = 4"]
    assert [run["robots"] for run in runs] == [1, 4]
    for run in runs:
        network = Network(robots=run["robots"], politeness=Politeness(delay=1.0))
        crawl = timed_crawl(read_graph("graph.npz"), [0], make_ordering("opic"), network)
        assert order_in(folder / f"{run['ordering']}.txt") == crawl.order.tolist()
        assert run["hours"] == crawl.seconds / 3600
    printed = capsys.readouterr().out
    assert "1 and 4 robots, delay 1 s:" in printed
    assert "T*" not in printed
    assert runs[0]["optimal_hours"] is None
    (row,) = [line.split() for line in printed.splitlines() if "r = 4" in line][1:]
    assert float(row[6]) == pytest.approx(runs[0]["hours"] / runs[1]["hours"], abs=0.006)


def test_a_store_is_crawled_with_its_recorded_sizes_and_times(folder):
    record_crawl(40)
    recorded = [
        argument
        for option in ("--latency", "--page-bytes", "--site-speed")
        for argument in (option, "recorded")
    ]
    arguments = ["crawl.sqlite", "--ordering", "opic", "--json", "out.json", "--order", "o.txt"]
    assert simulate(*arguments, "--robots", "2", "--bandwidth", "9000", *recorded) == 0
    source = Source.open("crawl.sqlite")
    crawl = timed_crawl(
        source.graph,
        source.default_seeds(),
        make_ordering("opic"),
        Network.from_store("crawl.sqlite", robots=2, bandwidth=9000.0),
    )
    assert order_in(folder / "o.txt") == crawl.order.tolist()
    (run,) = json.loads((folder / "out.json").read_text())["runs"]
    assert run["hours"] == crawl.seconds / 3600 > 0


def test_an_interrupt_ends_the_command_with_status_130_and_one_line(folder, capsys):
    (folder / "own_interrupt.py").write_text(
        "from crawlprio import Ordering\n"
        "class Interrupted(Ordering):\n"
        "    def observe(self, visit):\n"
        "        raise KeyboardInterrupt\n"
    )
    assert simulate("graph.npz", "--ordering", "own_interrupt.Interrupted") == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_the_table_has_a_dash_where_a_figure_has_no_meaning(folder, capsys):
    arguments = ["--ordering", "opic", "--seeds", "0", "--budget", "10"]
    assert simulate("graph.npz", *arguments) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if " opic " in line]
    assert row[:2] == ["opic", "10"]
    assert [word == "-" for word in row[3:]] == [False, False, True, True, False]


def test_loading_the_command_is_fast():
    loaded = run_to_end(
        [sys.executable, "-c", "import sys, crawlprio.commands.simulate; print(*sys.modules)"],
        check=True,
    ).stdout.split()
    assert "scrapy.commands" in loaded
    slow = ("numpy", "numba", "scipy", "matplotlib", "rich")
    assert [name for name in slow if name in loaded] == []


def test_in_80_columns_no_name_is_broken_and_no_table_line_wraps(folder):
    """`larger-sites-first` was once broken into `larger-sites-fi` and `rst`."""
    done = scrapy_simulate(
        *("bare.npz", "--seeds", "0", "--robots", "16", "--delay", "1"),
        *("--ordering", "larger-sites-first", "--ordering", "sibling-sampling"),
    )
    assert done.returncode == 0
    rows = [line for line in done.stdout.splitlines() if line.startswith(" ")]
    assert [line.split()[0] for line in rows if line.strip(" \u2500")] == [
        *("ordering", "larger-sites-first", "sibling-sampling") * 2
    ]
    assert max(map(len, rows)) <= 80
