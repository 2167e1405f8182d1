"""The tables of a crawl are its store, row by row, in batches, for whatever reads Arrow."""

import json
import sys
from pathlib import Path

import duckdb
import numpy as np
import polars
import pytest
from doc_blocks import N_FETCHED, N_PAGES, write_store
from stores import change, query

import crawlprio
from crawlprio.errors import ConfigError, StoreError


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("crawl") / "crawl.sqlite"
    write_store(path)
    return path


def rows(table):
    return [tuple(row.values()) for row in table.arrow().to_pylist()]


def test_the_tables_hold_what_sql_finds_in_the_store(store):
    crawl = crawlprio.read(store)
    pages = "SELECT pages.id, url, host, depth, seed FROM pages JOIN sites ON sites.id = site"
    assert rows(crawl.pages) == query(store, f"{pages} ORDER BY 1")
    assert rows(crawl.links) == query(store, "SELECT source, target, anchor FROM links")
    visits = [(*row[:2], row[2].timestamp(), *row[3:]) for row in rows(crawl.visits)]
    assert visits == query(
        store,
        "SELECT page, status, fetched_at, elapsed, n_bytes, content_hash, "
        "json_array_length(targets), title, text, error FROM visits ORDER BY seq",
    )
    assert [(page, json.loads(item)) for page, item in rows(crawl.items)] == [
        (page, {"title": f"Page {page}"}) for page in (0, 40, 80)
    ]


def test_scores_are_the_importance_of_every_page_beside_the_order_of_fetches(store):
    table = crawlprio.read(store).scores("pagerank", "backlinks").arrow()
    graph = crawlprio.read_graph(store)
    assert table.column_names == ["page", "fetched", "pagerank", "backlinks"]
    assert table["pagerank"].to_pylist() == crawlprio.pagerank(graph).tolist()
    assert table["backlinks"].to_pylist() == crawlprio.importance_of(graph, "backlinks").tolist()
    places = [*range(1, N_FETCHED + 1), *[None] * (N_PAGES - N_FETCHED)]
    assert table["fetched"].to_pylist() == places


def test_a_batch_is_all_that_is_in_memory(store):
    passed = []

    def numbers():
        for number in range(10):
            passed.append(number)
            yield (number,)

    table = crawlprio.Table("numbers", [("number", "int32")], numbers, batch_rows=4)
    batches = table.batches()
    assert passed == []
    assert [next(batches).num_rows, len(passed)] == [4, 4]
    assert [batch.num_rows for batch in batches] == [4, 2]
    assert table.arrow()["number"].to_pylist() == list(range(10)), "a pass starts again"


def test_other_tools_read_a_table_as_it_is(store):
    pages = crawlprio.read(store).pages
    assert polars.DataFrame(pages).equals(pages.polars())
    assert pages.pandas()["url"].tolist() == pages.polars()["url"].to_list()
    found = duckdb.sql("SELECT count(*), sum(id) FROM pages").fetchall()
    assert found == [(N_PAGES, sum(range(N_PAGES)))]


@pytest.mark.parametrize("missing", ["pyarrow", "pandas", "polars"])
def test_a_library_that_is_missing_is_one_sentence(store, missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)

    def ask():
        pages = crawlprio.read(store).pages
        pages.pandas() if missing == "pandas" else pages.polars()

    with pytest.raises(ConfigError) as raised:
        ask()
    what = "crawlprio.read" if missing == "pyarrow" else f"pages.{missing}()"
    package = "crawlprio[parquet]" if missing == "pyarrow" else missing
    assert str(raised.value) == (
        f"{what} needs {missing}, which is not installed; run `pip install '{package}'`."
    )


def test_bad_input_is_one_sentence(store, tmp_path):
    with pytest.raises(StoreError):
        crawlprio.read(tmp_path / "missing.sqlite")
    with pytest.raises(ConfigError, match="Importance 'pagerang' is unknown"):
        crawlprio.read(store).scores("pagerang")
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(store.read_bytes())
    change(damaged, "UPDATE pages SET depth = -1 WHERE id = 7")
    change(damaged, "UPDATE visits SET fetched_at = 1e300 WHERE seq = 3")
    crawl = crawlprio.read(damaged)
    with pytest.raises(StoreError, match="damaged"):
        crawl.pages.arrow()
    with pytest.raises(StoreError, match="damaged"):
        crawl.visits.arrow()


def test_runs_are_tables_by_name_and_draw_themselves(store, tmp_path):
    graph = crawlprio.read_graph(store)
    runs = crawlprio.simulate(graph, [0], ["opic", "breadth-first"])
    assert [run.ordering for run in runs] == ["opic", "breadth-first"]
    lines = repr(runs).splitlines()
    assert lines[0].split()[:3] == ["ordering", "fetched", "pages/s"]
    assert [line.split()[0] for line in lines[2:]] == ["opic", "breadth-first"]
    assert repr(runs["opic"]).splitlines()[2].split() == lines[2].split()
    html = runs._repr_html_()
    assert html.count("<tr>") == 3
    assert "data:image/svg+xml" in html
    svg = runs.plot(tmp_path / "curves.svg").svg()
    assert (tmp_path / "curves.svg").read_text() == svg
    for name in ("opic", "breadth-first", "upper bound"):
        assert name in svg.replace("upper-bound", "upper bound")
    assert "upper-bound" not in runs["opic"].plot().svg()
    with pytest.raises(KeyError, match="opic, breadth-first"):
        runs["random"]


def test_orderings_are_names_objects_or_both(store):
    graph = crawlprio.read_graph(store)
    given = [
        crawlprio.simulate(graph, graph.urls[0], "opic"),
        crawlprio.simulate(graph, 0, crawlprio.make_ordering("opic")),
        crawlprio.simulate(graph, 0, type(crawlprio.make_ordering("opic"))),
        crawlprio.simulate(graph, [0], {"opic": "opic"}),
        crawlprio.simulate(graph, [0], iter([crawlprio.make_ordering("opic")])),
    ]
    assert [runs[0].ordering for runs in given] == ["opic"] * 5
    for runs in given:
        assert np.array_equal(runs["opic"].order, given[0]["opic"].order)
    with pytest.raises(ConfigError, match="two named opic"):
        crawlprio.simulate(graph, [0], ["opic", crawlprio.make_ordering("opic")])
    with pytest.raises(crawlprio.errors.GraphError, match="not a page of the graph"):
        crawlprio.simulate(graph, "https://nowhere.example/", "opic")


def test_all_names_at_the_root_exist_and_are_documented():
    page = (Path(__file__).parent.parent / "docs" / "api.md").read_text("utf-8")
    for name in crawlprio.__all__:
        assert getattr(crawlprio, name) is not None
        assert f"`{name}`" in page
