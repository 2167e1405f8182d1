"""The verdicts and the summary of the reproduction follow from their cases, by the stated rule.

The committed pages in docs are compared with the figures next to them; no experiment runs here.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import castillo_time
import cho_similarity
import drawing
import measured
import numpy as np
import paper_crawls
import pytest
import report
import sources
import summary
import webs
from batched import crawl_in_batches
from PIL import Image
from stores import record_visits, table, visit
from verdicts import Case, Margin, at_spreads, by_web, in_words, judge

from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.graph.pages import NO_PAGE
from crawlprio.measure.crawl_order import depth_from_seeds
from crawlprio.measure.importance import importance_of, open_repository
from crawlprio.orderings import make_ordering
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import crawl_order

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reproduction"


def sections():
    """The findings of the committed sections, by name."""
    return [
        (path.stem, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(PAGES.glob("*.json"))
        if path.stem != "manifest"
    ]


@pytest.mark.parametrize(
    ("held", "of", "verdict"),
    [
        (10, 10, "reproduced"),
        (9, 10, "reproduced"),
        (8, 10, "mostly reproduced"),
        (2, 3, "mostly reproduced"),
        (1, 2, "reproduced in part"),
        (1, 3, "reproduced in part"),
        (1, 4, "mostly not reproduced"),
        (1, 10, "mostly not reproduced"),
        (1, 11, "not reproduced"),
        (0, 3, "not reproduced"),
    ],
)
def test_a_verdict_follows_the_share_of_cases_in_which_a_claim_holds(held, of, verdict):
    cases = [Case(f"web {k}", 1.0 if k < held else -1.0) for k in range(of)]
    assert judge(cases) == verdict


def test_margins_of_zero_or_below_the_error_decide_nothing():
    below, above = Case("synthetic", 0.05, 0.09), Case("synthetic", -0.1, 0.09)
    recorded = Case("recorded", 0.001)
    for cases, verdict in (
        ([], "not tested"),
        ([below], "undecided"),
        ([below, above], "not reproduced"),
        ([recorded, below], "reproduced"),
        ([Case("synthetic", 5.0, math.inf)], "undecided"),
        ([Case("alike", 0.0)], "undecided"),
    ):
        assert judge(cases) == verdict
    assert not Case("alike", 0.0).holds
    words = "1 of 1 (one web: recorded); undecided: synthetic"
    assert in_words([recorded, below]) == words


def test_a_verdict_may_change_if_margins_have_to_exceed_two_spreads():
    cases = [Case("one", 0.03, 0.02), Case("two", -0.05, 0.02), Case("three", 0.1, 0.02)]
    assert judge(cases) == "mostly reproduced"
    assert judge(at_spreads(cases, 2.0)) == "reproduced in part"


def test_a_depth_with_few_pages_is_left_out_and_moves_no_other():
    """Hollins' depth 1 was printed as depth 0, as its depth 0 has 4 pages."""
    rows = [list(range(2, 42)), [2], list(range(42, 82)), *([[]] * 79)]
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    targets = np.array([target for row in rows for target in row], dtype=np.int32)
    graph = LinkGraph.cleaned(indptr, targets, site=np.zeros(len(rows), dtype=np.int32))
    begun = measured.Start(webs.Web("two homes", graph, 0), [0, 1])
    means = castillo_time.means_by_depth(begun)
    assert list(means) == [1, 2]
    scaled = begun.web.ranks / begun.web.ranks.mean()
    assert means == pytest.approx({1: scaled[2:42].mean(), 2: scaled[42:].mean()})


def test_crawls_that_differ_only_in_their_start_are_one_case():
    n_pages = 400
    ring = LinkGraph(
        np.arange(n_pages + 1, dtype=np.int64),
        np.roll(np.arange(n_pages, dtype=np.int32), -1),
        np.zeros(n_pages, dtype=np.int32),
    )
    made = {"breadth-first": lambda: make_ordering("breadth-first")}
    crawls = paper_crawls.Crawls("ring", ring, [[0], [1], [200]], made)
    assert crawls.distinct("breadth-first") == [0, 2]
    assert crawls.cases([0.1, 0.2, 0.3]) == {"ring, seed 1": 0.1, "ring, seed 3": 0.3}


def test_a_web_decides_only_beyond_the_spread_of_both_sides():
    case = Margin([0.6, 0.7, 0.8], [0.5, 0.5, 0.5]).case("web")
    assert (case.margin, case.error) == (pytest.approx(0.2), pytest.approx(0.1))
    assert case.decides
    # Each side varies by 0.1: together by 0.14, so that a margin of 0.1 decides nothing.
    assert not Margin([0.6, 0.7, 0.8], [0.5, 0.6, 0.7]).case("web").decides
    assert not Margin([0.6, 0.6], [0.5, 0.5]).case("web", least=0.2).decides


def test_the_crawls_of_a_web_are_one_case():
    crawls = [Case("uci-ics, seed 1", 0.3), Case("hollins", 0.2), Case("uci-ics, seed 2", 0.1)]
    crawls += [Case("uci-ics site of 649 pages", 0.2)]
    merged = by_web(crawls)
    assert [(c.name, c.margin) for c in merged] == [
        ("uci-ics", pytest.approx(0.2)),
        ("hollins", 0.2),
    ]
    assert merged[0].error == pytest.approx(0.1)
    words = "1 of 1 (one web: hollins)"
    assert in_words([merged[1]]) == words


def test_a_web_whose_hash_differs_is_named(tmp_path):
    path = tmp_path / "wiki.npz"
    np.savez(path, indptr=np.array([0, 1, 1]), indices=np.array([1], dtype=np.int32))
    source = sources.Source("wiki", "wikis", "somewhere", "archives.py", sources.hash_of(path))
    assert source.problem(tmp_path, tmp_path) == ""
    np.savez(path, indptr=np.array([0, 1, 1]), indices=np.array([0], dtype=np.int32))
    assert "is not the wiki of the committed figures" in source.problem(tmp_path, tmp_path)
    path.unlink()
    assert "is missing and left out; run make webs" in source.problem(tmp_path, tmp_path)


@pytest.mark.parametrize(("section", "found"), sections())
def test_the_verdicts_of_a_section_follow_from_its_cases(section, found):
    page = (PAGES / f"{section}.md").read_text(encoding="utf-8")
    for finding in found["findings"]:
        cases = [Case.from_json(case) for case in finding["cases"]]
        assert finding["verdict"] == judge(cases), finding["claim"]
        assert report.finding_row(finding) in page, finding["claim"]
        if finding["picture"]:
            assert (PAGES / finding["picture"]).exists()


def test_crawls_of_a_synthetic_web_keep_the_error_of_the_generator():
    alike = [Case("country, w = 15 s", 0.05, 0.09), Case("country, rounds", 0.05, 0.09)]
    assert [c.error for c in by_web(alike)] == [pytest.approx(0.09)]
    made = [Case("country, halves", 0.5, math.inf), Case("country, whole", 0.5, math.inf)]
    assert not by_web(made)[0].decides


def test_the_committed_summary_matches_the_sections():
    found = summary.Found.read(PAGES)
    assert set(found.sections) == set(summary.SECTIONS)
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page == summary.summary_page(found)
    table = (PAGES / "README.md").read_text(encoding="utf-8")
    assert table == summary.table_of_claims(found)


def test_the_advice_on_orderings_repeats_the_figures_of_the_summary():
    words = summary.which(summary.Found.read(PAGES))
    page = (ROOT / "docs" / "orderings.md").read_text(encoding="utf-8")
    assert words in " ".join(page.split())


def small_graph():
    """A web of 300 pages on 12 sites, all reachable from page 0."""
    rng = np.random.default_rng(11)
    n_pages, degree = 300, 6
    targets = rng.integers(0, n_pages, n_pages * degree).astype(np.int32)
    targets[::degree] = (np.arange(n_pages) + 1) % n_pages
    indptr = np.arange(0, n_pages * degree + 1, degree, dtype=np.int64)
    site = rng.integers(0, 12, n_pages).astype(np.int32)
    return LinkGraph.cleaned(indptr, targets, site=site)


@pytest.mark.parametrize("name", ["breadth-first", "larger-sites-first"])
def test_a_crawl_in_batches_of_one_page_is_the_crawl_in_order(name):
    graph = small_graph()
    order, ended = crawl_in_batches(
        graph, [0], lambda: make_ordering(name), Network(latency=2.0), 1
    )
    assert order.tolist() == crawl_order(graph, [0], make_ordering(name)).tolist()
    assert ended.tolist() == [2.0 * (k + 1) for k in range(300)]


def test_no_page_of_a_batch_is_known_before_the_last_page_of_an_earlier_one_arrived():
    """With robots for all, each batch of unlimited size is a level of the breadth-first search."""
    graph = small_graph()
    network = Network(robots=300, politeness=Politeness(1.0), latency=0.5)
    order, ended = crawl_in_batches(
        graph, [0], lambda: make_ordering("breadth-first"), network, 300
    )
    assert sorted(order.tolist()) == list(range(300))
    depth = depth_from_seeds(graph, [0])
    now = 0.0
    for level in range(int(depth.max()) + 1):
        of_level = depth[order] == level
        assert set(np.flatnonzero(of_level).tolist()) == set(
            range(int((depth < level).sum()), int((depth <= level).sum()))
        )
        most = np.bincount(graph.site[order[of_level]]).max()
        now += 0.5 * most + 1.0 * (most - 1)
        assert ended[of_level].max() == pytest.approx(now)


TEXTS = {
    0: ("Courses", "student course student"),
    1: ("", "research computer research"),
    2: ("Research", "research research"),
    3: ("", "nothing of that"),
    4: ("", "course research course course"),
}
QUERY = ["student", "course", "research"]


@pytest.fixture
def texts(tmp_path):
    """A crawl store of five pages with texts, page 0 linking to all others."""
    visits = [
        visit(page, status=200, title=title, text=text) for page, (title, text) in TEXTS.items()
    ]
    anchors = ["a student", "course", "research", "more research"]
    visits[0] = visits[0]._replace(targets=np.arange(1, 5, dtype=np.int32), anchors=anchors)
    pages = table(*(f"http://a.example/{page}" for page in TEXTS))
    return record_visits(tmp_path / "texts.sqlite", pages, visit(NO_PAGE, 0), *visits)


def test_similarity_estimated_from_all_pages_matches_the_package(texts):
    query = cho_similarity.Query(QUERY, texts, len(TEXTS))
    exact = importance_of(
        open_repository(texts), "similarity", topic=",".join(QUERY),
        options={"idf": "inverse", "measure": "inner"},
    )  # fmt: skip
    assert query.similarity().tolist() == pytest.approx(exact.tolist())
    assert query.seen(list(TEXTS)).tolist() == pytest.approx(exact.tolist())


def write_webs(folder, shared):
    """Write two small webs under names of the list, so that the section on every web finds them."""
    shared.mkdir()
    for name, seed in (("erlang", 1), ("racket", 2)):
        rng = np.random.default_rng(seed)
        targets = rng.integers(0, 60, 240).astype(np.int32)
        targets[::4] = (np.arange(60) + 1) % 60
        graph = LinkGraph.cleaned(
            np.arange(0, 241, 4), targets, site=np.zeros(60, dtype=np.int32),
            urls=[f"http://{name}.example/{page}" for page in range(60)],
        )  # fmt: skip
        write_npz(graph, folder / f"{name}.npz")
        (folder / f"{name}.homes.txt").write_text("0\n")


@pytest.mark.long
def test_a_second_run_of_a_section_writes_the_same_bytes(tmp_path):
    """Each run is a process of its own, with another seed of Python's hashes."""
    write_webs(tmp_path, tmp_path / "shared")
    written = []
    for seed in ("1", "2"):
        output = tmp_path / f"run {seed}"
        command = [sys.executable, ROOT / "experiments" / "reproduce.py", "--section", "every_web"]
        command += ["--shared", tmp_path / "shared", "--webs", tmp_path, "--output", output]
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True)
        written.append({path.name: path.read_bytes() for path in sorted(output.iterdir())})
    ends = ("-curves.csv", "-curves.png", ".json", ".md")
    assert list(written[0]) == [*(f"every_web{end}" for end in ends), "figures.jsonl"]
    assert written[0] == written[1]


def test_the_readme_gives_the_recorded_shares_by_kind_of_web():
    tables = json.loads((ROOT / "docs/reproduction/every_web.json").read_text())["tables"]
    kinds = {row[0]: row[1] for row in tables["averages"]["rows"]}
    columns = tables["at-20"]["columns"]
    table = re.findall(
        r"^\| ([\w ,]+) \((\d+)\) \| (\d+) % \| (\d+) % \| (\d+) % \|$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    assert sum(int(n_webs) for _, n_webs, *_ in table) == len(kinds)
    for named, n_webs, *shares in table:
        rows = [row for row in tables["at-20"]["rows"] if kinds[row[0]] in named.split(", ")]
        assert len(rows) == int(n_webs)
        for ordering, share in zip(
            ("sibling-sampling", "breadth-first", "random"), shares, strict=True
        ):
            at = columns.index(ordering)
            mean = sum(float(row[at]) for row in rows) / len(rows)
            assert f"{100 * mean:.0f}" == share, (named, ordering)


def test_the_committed_pictures_have_lines_and_axes_to_draw_them_from():
    """Not the pictures' bytes, which depend on the versions of libraries."""
    recorded = drawing._axes(PAGES)
    assert sorted(path.stem for path in PAGES.glob("*.png")) == sorted(recorded)
    assert sorted(path.stem for path in PAGES.glob("*.csv")) == sorted(recorded)


def test_recorded_figures_are_drawn_as_wide_as_a_page(tmp_path):
    for name in ("castillo-table-1", "generator-distributions", "cho-small"):
        shutil.copy(PAGES / f"{name}.csv", tmp_path)
    shutil.copy(PAGES / "figures.jsonl", tmp_path)
    for name in ("castillo-table-1", "generator-distributions", "cho-small"):
        drawing.draw(tmp_path, name)
    widths = {Image.open(path).width for path in (*tmp_path.glob("*.png"), *PAGES.glob("*.png"))}
    assert widths == {1350}
