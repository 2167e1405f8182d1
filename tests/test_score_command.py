"""`crawlprio score`: what it prints and writes, and its one-line errors."""

import csv
import json
import os
import re
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run_scrapy_command
from crawls import options, scrapy
from driver import WebPages
from forked import run_forked
from graphs import power_law_web
from linkgraphs import as_arrays, graph_of_web
from stores import query

from crawlprio.commands.score import Command
from crawlprio.commands.simulate import Command as Simulate
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.graph.pages import NO_PAGES, PageTable, Visit
from crawlprio.measure.crawl_models import (
    crawl_and_stop,
    crawl_and_stop_with_threshold,
    pagerank_seen,
)
from crawlprio.measure.crawl_order import (
    cumulative_pagerank,
    depth_from_seeds,
    kendall_tau,
    mean_importance_by_depth,
    mean_importance_by_slice,
    mean_slice_of_top,
    overlap_of_top,
    scaled_to_mean_one,
    slices_by_fetch,
)
from crawlprio.measure.importance import importance_of, open_repository
from crawlprio.ranking.pagerank import round_significant
from crawlprio.show.figures import ORDERING_STYLES
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph

N_PAGES = 200
N_FETCHED = 60


def web_with_urls():
    web = power_law_web(N_PAGES, seed=1)
    web.urls = {page: f"http://s{web.site[page]}.example/{page}" for page in web.pages}
    return web


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder with a graph, with and without URLs, and the store of a crawl."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    web = web_with_urls()
    graph = graph_of_web(web)
    write_npz(graph, "bare.npz")
    urls = [web.urls[page] for page in range(N_PAGES)]
    write_npz(LinkGraph(graph.indptr, graph.indices, graph.site, urls), "graph.npz")
    pages = WebPages(web)
    with Store.create(tmp_path / "crawl.sqlite") as store:
        store.record(pages.seeds([9, 4]), pages)
        for page in range(N_FETCHED):
            store.record(pages.visit(page), pages)
        store.set_meta("ordering", "breadth-first")
        store.set_meta("topic", "web crawling,frontier")
    return tmp_path


def run(*arguments, command=Command):
    return run_scrapy_command(command, "it", *arguments)


def score(*arguments):
    return run(*arguments)


def figures_in(path):
    return json.loads(Path(path).read_text())


def rows_in(path):
    with Path(path).open(newline="") as file:
        return list(csv.reader(file))


def test_an_index_file_with_the_body_of_its_folder_is_counted_and_paired(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    root = "http://a.example/"
    bodies = [(root, 7), (f"{root}index.html", 7), (f"{root}x/", 7), (f"{root}x/index.php", 8)]
    bodies += [(f"{root}index.htm", 0), (f"{root}myindex.html", 7)]
    pages = PageTable()
    for url, _ in bodies:
        pages.add(url, url, pages.site("a.example"))
    with Store.create(tmp_path / "crawl.sqlite") as store:
        for page, (_, body) in enumerate(bodies):
            store.record(Visit(page, NO_PAGES, content_hash=body), pages)
    assert query(Path("crawl.sqlite"), "SELECT * FROM index_aliases") == [(1, 0)]
    assert score("crawl.sqlite", "--importance", "forward-links", "--json", "out.json") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Fetched: 6; index files with the same body as their folder: 1; failed: 0" in printed
    assert figures_in("out.json")["index_files"] == 1


def test_both_orderings_of_a_crawl_are_named_and_drawn_from_where_they_ruled(folder, capsys):
    web = web_with_urls()
    pages = WebPages(web)
    with Store.create(folder / "two.sqlite") as store:
        store.add_ordering("opic")
        store.record(pages.seeds([9, 4]), pages)
        for page in range(20):
            store.record(pages.visit(page), pages)
        store.add_ordering("opic")
        store.add_ordering("breadth-first")
        for page in range(20, N_FETCHED):
            store.record(pages.visit(page), pages)
        assert store.orderings() == [(1, "opic"), (22, "breadth-first")]
    assert score("two.sqlite", "--json", "out.json", "--plot", "out.svg") == 0
    summary = " ".join(capsys.readouterr().out.split())
    assert "Fetched under opic, then breadth-first: 60;" in summary
    figures = figures_in("out.json")
    assert figures["ordering"] == "opic, then breadth-first"
    assert figures["orderings"] == [[0, "opic"], [20, "breadth-first"]]
    drawn = Path("out.svg").read_text()
    assert [f'id="{name}"' in drawn for name in ("opic", "breadth-first")] == [True, True]

    several = ["--model", "threshold", "--by-day", "6", "--top", "10,20", "--plot", "more.svg"]
    assert score("two.sqlite", *several) == 0
    gids = re.findall(
        r'id="((?:opic|breadth-first|this|reference).*?)"', Path("more.svg").read_text()
    )
    assert [gid for gid in gids if "upper-bound" not in gid and "random" not in gid] == [
        *(f"{name} ({panel})" for panel in (1, 2, 3) for name in ("breadth-first", "opic")),
        "reference (4): change to breadth-first",
        "this order (4)",
    ]


def test_every_line_of_the_only_ordering_has_its_name_and_colour(folder):
    several = ["--model", "buffer", "--by-day", "6", "--top", "10,20", "--overlap", "50"]
    assert score("crawl.sqlite", *several, "--plot", "more.svg") == 0
    drawn = Path("more.svg").read_text()
    assert "this order" not in drawn
    blue = ORDERING_STYLES["breadth-first"][0].lower()
    for panel in range(1, 6):
        line = drawn.partition(f'id="breadth-first ({panel})"')[2].partition("</g>")[0]
        assert f"stroke: {blue}" in line


def test_a_store_is_scored_by_the_pagerank_of_everything_seen_in_visit_order(folder, capsys):
    assert score("crawl.sqlite", "--json", "out.json") == 0
    graph = read_graph("crawl.sqlite")
    ranks = importance_of(graph)
    gathered = cumulative_pagerank(range(N_FETCHED), ranks)
    figures = figures_in("out.json")
    (scored,) = figures["importances"]
    about = ("pages", "links", "sites", "fetched", "failed", "ordering", "order_file")
    assert [figures[name] for name in about] == [
        *(graph.n_pages, graph.n_links, graph.n_sites),
        *(N_FETCHED, 0, "breadth-first", None),
    ]
    assert scored["importance"] == "pagerank"
    assert scored["order"]["average_cumulative_importance"] == gathered.mean()
    assert scored["order"]["gathered_at"] == {
        "0.05": gathered[2],
        "0.1": gathered[5],
        "0.3": gathered[17],
        "1": gathered[-1],
    }
    assert scored["order"]["curve"][-1] == [N_FETCHED / graph.n_pages, gathered[-1]]
    assert scored["kendall_tau"] == kendall_tau(range(N_FETCHED), ranks)
    best = np.sort(ranks)[::-1][:N_FETCHED].sum()
    assert scored["bound"]["gathered_at"]["1"] == pytest.approx(best)
    assert scored["random"]["gathered_at"]["1"] == N_FETCHED / graph.n_pages
    top = np.argsort(-ranks, kind="stable")[:10].tolist()
    assert scored["top"] == [
        {"page": page, "url": graph.urls[page], "value": ranks[page]} for page in top
    ]
    printed = capsys.readouterr().out
    summary = " ".join(printed.split())
    assert f"Fetched under breadth-first: {N_FETCHED}; failed: 0; " in summary
    assert f"seen in links only: {graph.n_pages - N_FETCHED}" in summary
    assert [line.split()[2] for line in printed.splitlines() if "http://" in line] == [
        graph.urls[page] for page in top
    ]
    (row,) = [line.split() for line in printed.splitlines() if " breadth-first  " in line]
    shown = [gathered.mean(), gathered[2], gathered[5], gathered[17], gathered[-1]]
    assert row == [
        *("pagerank", "breadth-first", str(N_FETCHED)),
        *(f"{share:.4f}" for share in shown),
        f"{scored['kendall_tau']:.4f}",
    ]


def test_an_order_file_from_simulate_has_the_same_figures(folder):
    for budget in ([], ["--budget", "50"]):
        arguments = ["graph.npz", "--ordering", "opic", "--seeds", "0", *budget]
        files = ["--order", "order.txt", "--json", "run.json"]
        assert run(*arguments, *files, command=Simulate) == 0
        assert score("graph.npz", "--order", "order.txt", "--json", "out.json") == 0
        (simulated,) = figures_in("run.json")["runs"]
        (scored,) = figures_in("out.json")["importances"]
        order = scored["order"]
        assert scored["known"] == figures_in("run.json")["reachable"]
        assert scored["fetched"] == simulated["fetched"]
        assert order["average_cumulative_importance"] == simulated["average_cumulative_pagerank"]
        assert order["curve"] == simulated["curve"]
        assert scored["kendall_tau"] == simulated["kendall_tau"]
        assert figures_in("out.json")["order_file"] == "order.txt"


def test_a_graph_without_an_order_has_only_importance(folder, capsys):
    assert score("bare.npz", "--importance", "backlinks", "--json", "out.json") == 0
    figures = figures_in("out.json")
    (scored,) = figures["importances"]
    assert [figures[name] for name in ("fetched", "failed", "ordering")] == [None] * 3
    assert [scored[name] for name in ("fetched", "order", "bound", "kendall_tau")] == [None] * 4
    backlinks = importance_of(read_graph("bare.npz"), "backlinks")
    top = np.argsort(-backlinks, kind="stable")[:10].tolist()
    assert scored["top"] == [{"page": page, "value": backlinks[page]} for page in top]
    printed = capsys.readouterr().out
    assert "To judge an order of the graph's pages, give --order FILE." in printed
    first = printed.splitlines()[5].split()
    assert first == ["1", f"{backlinks.max():g}", str(top[0])]


@pytest.mark.parametrize("name", ["pagerank", "backlinks", "0.5*pagerank+0.5*location"])
def test_csv_has_url_and_score_of_each_page_in_page_order(folder, name):
    assert score("crawl.sqlite", "--importance", name, "--csv", "scores.csv") == 0
    graph = read_graph("crawl.sqlite")
    values = round_significant(importance_of(graph, name)).tolist()
    assert graph.urls is not None
    header, *rows = rows_in("scores.csv")
    assert header == ["url", "score"]
    assert [url for url, _ in rows] == list(graph.urls)
    assert [float(value) for _, value in rows] == values


def test_models_days_tops_overlap_and_depths_are_those_of_the_order_of_visits(folder, capsys):
    """Whose definitions test_crawl_models.py and test_crawl_in_time.py compare with the papers."""
    asked = ["--model", "crawl-stop", "--model", "threshold", "--threshold", "6", "--by-day", "6"]
    asked += ["--top", "30,1", "--overlap", "50", "--by-depth", "--json", "out.json"]
    assert score("crawl.sqlite", *asked, "--importance", "backlinks", "--plot", "out.svg") == 0
    (scored,) = figures_in("out.json")["importances"]
    graph, order = read_graph("crawl.sqlite"), np.arange(N_FETCHED)
    values = importance_of(graph, "backlinks")
    curves = {
        "crawl-stop": crawl_and_stop(order, values),
        "threshold": crawl_and_stop_with_threshold(order, values, 6),
    }
    for name, curve in curves.items():
        for line in ("performance", "ideal", "random"):
            assert scored["models"][name][line] == list(map(list, curve.points(line)))
    assert scored["models"]["threshold"]["hot"] == (values >= 6).sum() > 0
    scaled, days = scaled_to_mean_one(values), slices_by_fetch(N_FETCHED, 6)
    by_day = mean_importance_by_slice(order, scaled, days).points()
    assert scored["by_day"] == list(map(list, by_day))
    places = mean_slice_of_top(order, values, order + 1, [1, 30]).mean / N_FETCHED
    found = mean_slice_of_top(order, values, days, [1, 30]).mean
    assert scored["tops"] == [
        [n, pytest.approx(place), pytest.approx(day)]
        for n, place, day in zip([1, 30], places, found, strict=True)
    ]
    depths = mean_importance_by_depth(depth_from_seeds(graph, [0, 1]), scaled).points()
    assert scored["by_depth"] == [[depth, pytest.approx(mean)] for depth, mean in depths]
    seen = (pagerank_seen(graph, np.arange(n)) for n in (N_FETCHED // 2, N_FETCHED))
    overlaps = overlap_of_top(*seen, [1, 30]).points()
    assert scored["overlap"] == [[n, pytest.approx(share)] for n, share in overlaps]
    assert "6 stretches of the crawl" in capsys.readouterr().out
    drawn = Path("out.svg").read_text()
    assert "When the best pages were fetched" in drawn
    assert "mean day" in drawn


def test_rarely_linked_pages_are_left_out_as_if_they_were_not_there(folder):
    graph = read_graph("crawl.sqlite")
    in_links = np.bincount(graph.indices, minlength=graph.n_pages)
    kept = [page for page in range(graph.n_pages) if page < N_FETCHED or in_links[page] >= 4]
    assert N_FETCHED < len(kept) < graph.n_pages
    place = {page: k for k, page in enumerate(kept)}
    rows = [[place[t] for t in graph.out_links(page).tolist() if t in place] for page in kept]
    ranks = importance_of(LinkGraph(*as_arrays(rows)))
    wanted = ["--csv", "few.csv", "--json", "out.json"]
    assert score("crawl.sqlite", "--least-links", "4", *wanted) == 0
    found = np.array([float(value) for _, value in rows_in("few.csv")[1:]])
    assert found / found.sum() == pytest.approx(ranks, rel=1e-6)
    assert figures_in("out.json")["importances"][0]["known"] == len(kept)


def test_a_buffer_of_similar_pages_is_kept_by_what_is_known_of_the_words(folder):
    asked = ["--importance", "similarity", "--model", "buffer", "--json", "out.json"]
    options = ["--importance-options", '{"similarity": {"idf": "none", "measure": "inner"}}']
    assert score("crawl.sqlite", *asked, *options) == 0
    (scored,) = figures_in("out.json")["importances"]
    lines = scored["models"]["buffer"]
    # Without idf, IS'(P) is IS(P): nothing that is hot is ever dropped.
    assert lines["performance"] == lines["ideal"]


def test_csv_of_a_similarity_has_only_pages_whose_text_is_known(folder):
    assert score("crawl.sqlite", "--importance", "similarity", "--csv", "scores.csv") == 0
    crawl = open_repository("crawl.sqlite")
    values = importance_of(crawl, "similarity", topic="web crawling,frontier")
    assert [[url, float(value)] for url, value in rows_in("scores.csv")[1:]] == [
        [crawl.graph.urls[page], pytest.approx(values[page])] for page in range(N_FETCHED)
    ]
    assert values[:N_FETCHED].max() > 0.0


def test_with_several_importances_files_are_named_after_them(folder):
    names = ["backlinks", "0.5*pagerank+2*backlinks"]
    named = [argument for name in names for argument in ("--importance", name)]
    assert score("crawl.sqlite", *named, "--csv", "s-%s.csv", "--plot", "p-%s.svg") == 0
    for name in names:
        values = importance_of(read_graph("crawl.sqlite"), name)
        found = [float(value) for _, value in rows_in(f"s-{name}.csv")[1:]]
        assert found == pytest.approx(values.tolist(), rel=1e-7)
        assert f"by {name}" in (folder / f"p-{name}.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "web crawling,frontier"),
        (["-s", "TOPIC=shop"], "shop"),
        (["--topic", "the web"], "the web"),
        (["--topic", "the web", "-s", "TOPIC=shop"], "the web"),
    ],
)
def test_the_topic_comes_from_the_option_or_the_settings_or_the_crawl(folder, arguments, words):
    named = ["--importance", "term-count", "--json", "out.json"]
    assert score("crawl.sqlite", *named, *arguments) == 0
    counts = importance_of(open_repository("crawl.sqlite"), "term-count", topic=words)
    (scored,) = figures_in("out.json")["importances"]
    assert scored["distribution"]["total"] == counts.sum()
    assert len(scored["top"]) == 10


def test_options_reach_the_importance_and_the_json(folder):
    named = ["--importance", "pagerank+cho-pagerank", "--importance", "backlinks"]
    given = '{"cho-pagerank": {"damping": 0.5}}'
    files = ["--json", "out.json", "--csv", "%s.csv"]
    assert score("crawl.sqlite", *named, "--importance-options", given, *files) == 0
    values = importance_of(
        read_graph("crawl.sqlite"), "pagerank+cho-pagerank", options=json.loads(given)
    )
    found = [float(value) for _, value in rows_in("pagerank+cho-pagerank.csv")[1:]]
    assert found == pytest.approx(values.tolist(), rel=1e-7)
    assert [entry["options"] for entry in figures_in("out.json")["importances"]] == [
        json.loads(given),
        {},
    ]


def test_importance_that_is_zero_everywhere_leaves_no_row_and_no_traceback(folder, capsys):
    assert score("crawl.sqlite", "--importance", "term-count", "--topic", "xyzzy") == 0
    printed = capsys.readouterr().out
    assert "No page has any importance by term-count, so no order is better." in printed
    assert "bound" not in printed


def test_urls_are_printed_unchanged(folder, capsys):
    urls = ["http://a.test/[bold]x[/bold]", "http://a.test/:smile:/[/]"]
    write_npz(LinkGraph(np.array([0, 1, 1]), np.array([1]), urls=urls), "odd.npz")
    assert score("odd.npz") == 0
    printed = capsys.readouterr().out.split()
    assert [url for url in urls if url in printed] == urls


def test_an_order_file_replaces_the_order_of_the_store(folder):
    (folder / "order.txt").write_text("5\n\n3\n")
    assert score("crawl.sqlite", "--order", "order.txt", "--json", "out.json") == 0
    (scored,) = figures_in("out.json")["importances"]
    assert scored["fetched"] == 2
    ranks = importance_of(read_graph("crawl.sqlite"))
    shares = [share for _, share in scored["order"]["curve"][1:]]
    assert shares[1] / shares[0] == pytest.approx((ranks[5] + ranks[3]) / ranks[5])


def test_a_store_with_only_seeds_has_no_order_yet(folder):
    pages = WebPages(web_with_urls())
    with Store.create("young.sqlite") as store:
        store.record(pages.seeds([1, 2]), pages)
    assert score("young.sqlite", "--json", "out.json") == 0
    (scored,) = figures_in("out.json")["importances"]
    assert (figures_in("out.json")["fetched"], scored["order"]) == (0, None)


BAD_INPUT = [
    (["crawl.sqlite", "--model", "perfect"], "--model is 'perfect'; known models: crawl-stop, thr"),
    (["crawl.sqlite", "--threshold", "3"], "--threshold is 3, but no model uses it; add --model"),
    (
        ["crawl.sqlite", "--model", "threshold", "--threshold", "G"],
        "--threshold is 'G'; give a num",
    ),
    (
        ["crawl.sqlite", "--model", "threshold", "--threshold", "1e9"],
        "no page has importance 1e+09",
    ),
    (["crawl.sqlite", "--by-day", "0"], "--by-day is '0'; give a whole number of 1 or more."),
    (["crawl.sqlite", "--top", "10,x"], "--top is 'x'; give a whole number of 1 or more."),
    (["bare.npz", "--by-day", "3"], "--model, --by-day and --top rate an order, but bare.npz has"),
    ([], "scrapy score takes one STORE, FOLDER or GRAPH and was given none"),
    (["graph.npz", "bare.npz"], "takes one STORE, FOLDER or GRAPH and was given 2 arguments"),
    (["graph.npz", "--picture", "a.html"], "scrapy score has no option --picture"),
    (["graph.npz", "--json"], "argument --json: expected one argument"),
    (["absent.sqlite"], "absent.sqlite: there is no such file"),
    (["short.npz"], "short.npz cannot be read as .npz"),
    (["empty.npz"], "empty.npz has no pages; there is nothing to score."),
    (["broken.sqlite"], "broken.sqlite"),
    (["other.sqlite"], "other.sqlite: an SQLite database, but not a crawl store"),
    (["graph.npz", "--importance", "page-rank"], "Importance 'page-rank' is unknown; known"),
    (["graph.npz", "--importance", "2*"], "Importance '2*' cannot be parsed at '2*'"),
    (["graph.npz", "--importance", "similarity"], "Importance similarity needs a topic"),
    (["graph.npz", "--topic", "web"], "graph.npz has no texts, which the importance similarity"),
    (["crawl.sqlite", "--topic", "?!"], "TOPIC is '?!', which contains no word"),
    (["crawl.sqlite", "--topic", "web", "--importance", "hubs"], "none of hubs uses a topic"),
    (["bare.npz", "--importance", "location"], "bare.npz has no URLs, which the importance loc"),
    (["bare.npz", "--csv", "a.csv"], "bare.npz has no URLs for --csv to write; leave --csv out."),
    (["graph.npz", "--plot", "a.png"], "--plot draws an order, but graph.npz has none; give --ord"),
    (
        ["young.sqlite", "--plot", "a.png"],
        "--plot has nothing to draw: young.sqlite has no visits yet",
    ),
    (["crawl.sqlite", "--plot", "a.xls"], "a.xls is not a plot file"),
    (["crawl.sqlite", "--topic", "web", "--csv", "a.csv"], "--csv is 'a.csv' for 2 importances;"),
    (["crawl.sqlite", "--topic", "web", "--plot", "a.png"], "--plot is 'a.png' for 2 importances"),
    (["crawl.sqlite", "--csv", "crawl.sqlite"], "is also the file of STORE or GRAPH; name another"),
    (["graph.npz", "--order", "order.txt", "--json", "order.txt"], "is also the file of --order"),
    (["crawl.sqlite", "--csv", "a", "--json", "./a"], "--json a is also the file of --csv"),
    (["crawl.sqlite", "--json", "absent/a.json"], "--json absent/a.json cannot be written"),
    (["graph.npz", "--order", "absent.txt"], "--order absent.txt: the file cannot be read"),
    (["graph.npz", "--order", "words.txt"], "words.txt:2: expected a page id; found 'one'."),
    (["graph.npz", "--order", "nothing.txt"], "--order nothing.txt has no page ids"),
    (["graph.npz", "--order", "far.txt"], "graph.npz: order[1] is 200; give 0 or more, below 200"),
    (["graph.npz", "--order", "twice.txt"], "the order has page 3 more than once"),
    (["graph.npz", "--importance-options", "{d: 1}"], "which is not valid JSON"),
    (["graph.npz", "--importance-options", '{"damping": 1}'], "give options by importance, as in"),
    (["graph.npz", "--importance-options", '{"hubs": {}}'], "has options of hubs, which is not"),
    (
        ["graph.npz", "--importance-options", '{"pagerank": {"damping": 1}}'],
        "Options of importance pagerank: damping is 1; give a number of 0 or more, below 1.",
    ),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD_INPUT)
def test_bad_input_ends_with_status_2_and_one_line(arguments, sentence, folder, capsys):
    (folder / "short.npz").write_bytes((folder / "graph.npz").read_bytes()[:-300])
    (folder / "broken.sqlite").write_bytes(b"SQLite format 3\0" + b"?" * 2000)
    write_npz(LinkGraph(np.array([0]), np.array([], dtype=np.int32)), folder / "empty.npz")

    other = sqlite3.connect(folder / "other.sqlite")
    other.execute("CREATE TABLE t(x)")
    other.close()
    pages = WebPages(web_with_urls())
    with Store.create("young.sqlite") as store:
        store.record(pages.seeds([1, 2]), pages)
    for name, text in {
        "order.txt": "0\n1\n",
        "words.txt": "0\none\n",
        "nothing.txt": "\n",
        "far.txt": f"0\n{N_PAGES}\n",
        "twice.txt": "0\n3\n1\n3\n",
    }.items():
        (folder / name).write_text(text)
    before = {name: (folder / name).stat().st_size for name in sorted(os.listdir(folder))}
    assert score(*arguments) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    after = {name: (folder / name).stat().st_size for name in sorted(os.listdir(folder))}
    assert after == before


def test_a_crawl_of_the_demo_web_is_scored_outside_a_project(tmp_path):
    """The command is installed under its name, and a crawl with a topic has texts."""
    settings = {
        "CRAWLPRIO_DEMO_PAGES": 120,
        "CRAWLPRIO_DEMO_SITES": 4,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "TOPIC": "web crawling, the",
        "CLOSESPIDER_PAGECOUNT": 40,
    }
    done = scrapy(["crawl", "site", *options(settings)], tmp_path)
    assert done.returncode == 0, done.stderr
    crawl = open_repository(tmp_path / "crawl.sqlite")
    assert crawl.texts is not None
    assert any(page.text for page in crawl.texts)
    (tmp_path / "scrapy.cfg").unlink()
    measures = ["--importance", "term-count", "--importance", "pagerank"]
    words = ["score", "crawl.sqlite", *measures, "--plot", "%s.png", "--json", "out.json"]
    scored = run_forked("scrapy", words, tmp_path)
    assert (scored.returncode, scored.stderr) == (0, "")
    figures = json.loads((tmp_path / "out.json").read_text())
    by_name = {entry["importance"]: entry for entry in figures["importances"]}
    assert crawl.order is not None
    assert figures["fetched"] == crawl.n_fetched == len(crawl.order) - crawl.n_failed >= 40
    counts = importance_of(crawl, "term-count", topic="web crawling, the")
    assert by_name["term-count"]["distribution"]["total"] == counts.sum() > 0
    assert by_name["pagerank"]["known"] == figures["pages"] > figures["fetched"]
    assert (tmp_path / "pagerank.png").stat().st_size > 10_000


def test_file_contents_do_not_affect_the_terminal(folder, capfd):
    graph = read_graph("bare.npz")
    urls = [f"http://a.example/\x1b]0;evil\x07\x9b2J\u202e{page}" for page in range(N_PAGES)]
    write_npz(LinkGraph(graph.indptr, graph.indices, graph.site, urls), "evil\x1b[2J.npz")
    assert score("evil\x1b[2J.npz") == 0
    printed = capfd.readouterr()
    assert "evil" in printed.out
    for text in printed:
        assert text.replace("\n", "").isprintable()
    assert score("no\x1b[2J.npz") == 2
    sentence = "no?[2J.npz: there is no such file; give a graph or a crawl store.\n"
    assert capfd.readouterr().err == sentence


def test_spreadsheet_formulas_can_be_neutralised(folder):
    graph = read_graph("bare.npz")
    urls = [f"{'=+-@h'[page % 5]}SUM({page})" for page in range(N_PAGES)]
    write_npz(LinkGraph(graph.indptr, graph.indices, graph.site, urls), "sums.npz")
    for option, mark in (("", ""), ("--spreadsheet", "'")):
        assert score("sums.npz", "--csv", "a.csv", *option.split()) == 0
        cells = [row[0] for row in rows_in("a.csv")][1:]
        assert cells == [url if url[0] == "h" else f"{mark}{url}" for url in urls]


def test_in_80_columns_the_table_of_an_order_is_complete_and_the_distribution_a_sentence(
    folder, capsys, monkeypatch
):
    """It once read `hold 24.3% of the total, 1.`, and the name of the order was broken in two."""
    with Store.open(folder / "crawl.sqlite") as store:
        store.set_meta("ordering", "larger-sites-first")
    monkeypatch.setenv("COLUMNS", "80")
    assert score("crawl.sqlite") == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if len(line) > 80] == []
    (row,) = re.findall(r"^ ?pagerank +larger-sites-first .*$", printed, re.MULTILINE)
    assert row.split()[:2] == ["pagerank", "larger-sites-first"]
    spread = r"the top 1 % of pages hold [0-9.]+% of the importance of all pages, which sums to 1\."
    assert re.search(spread, " ".join(printed.split()))


def test_pages_that_failed_are_not_counted_as_fetched(folder, capsys):
    pages = WebPages(web_with_urls())
    with Store.create("failing.sqlite") as store:
        seeds = pages.seeds([1, 2])
        store.record(seeds, pages)
        first, second = seeds.targets.tolist()
        store.record(Visit(first, seeds.targets[1:], status=200), pages)
        store.record(Visit(second, NO_PAGES, status=404), pages)
    assert score("failing.sqlite", "--json", "out.json") == 0
    figures = figures_in("out.json")
    assert (figures["fetched"], figures["failed"]) == (1, 1)
    assert "Fetched: 1; failed: 1; " in " ".join(capsys.readouterr().out.split())
