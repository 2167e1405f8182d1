"""Each share of importance is said with its measure, whatever command says it, on one store."""

import re
from pathlib import Path

import numpy as np
import pytest
from crawls import ROOT, Site, page
from forked import run_forked
from oracles.coverage import trusted_pagerank

from crawlprio.live.crawl_report import in_a_line
from crawlprio.ranking.pagerank import pagerank_from

WEB = {"/": page("/1", "/2"), "/1": page("/3", "/2"), "/2": page("/4"), "/3": page(), "/4": page()}
SHARE = re.compile(r"\d[\d.]* ?%")
MEASURES = ("counted from the seeds", "from the seeds", "of all pages", "of all reachable pages")


def crawlprio(*words, folder):
    return run_forked("crawlprio", words, folder)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measures")
    with Site(WEB) as site:
        said = crawlprio("crawl", f"http://{site.address}/", "--pages", "3", "--delay", "0",
                         "--folder", "job", folder=folder)  # fmt: skip
    assert said.returncode == 0, said.stderr
    return folder, said.stdout


def said_by(store, *words):
    folder, _ = store
    done = crawlprio(*words, folder=folder)
    assert done.returncode == 0, done.stderr
    return " ".join(re.sub(r"[│┃\n]", " ", done.stdout).split())


COMMANDS = {
    "receipt": ("receipt", "job"),
    "score": ("score", "job"),
    "simulate": ("simulate", "job/crawl.sqlite"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_says_a_share_says_its_measure(store, command):
    said = said_by(store, *COMMANDS[command])
    assert any(measure in said for measure in MEASURES)
    for found in re.finditer(r"[^.]*\bimportance\b[^.]*?\d%?[^.]*\.(?!\d)", said):
        if SHARE.search(found[0]):
            assert any(measure in found[0] for measure in MEASURES), found[0]


def test_the_end_table_and_the_receipt_say_that_they_count_from_the_seeds(store):
    shown = " ".join(re.sub(r"[│┃\n]", " ", store[1]).split())
    for said in (shown, said_by(store, "receipt", "job")):
        assert re.search(
            r"At least \d+% of the importance of this site, counted from the seeds", said
        )
    assert "counted from the seeds, in" in shown


def test_a_receipt_says_nothing_twice(store):
    said = said_by(store, "receipt", "job")
    sentences = [one.strip() for one in re.split(r"(?<=\.) ", said) if len(one) > 30]
    assert len(sentences) == len(set(sentences))
    assert said.count("At least") == 1


def test_the_best_line_has_one_name_on_all_screens(store):
    for words in COMMANDS.values():
        said = said_by(store, *words)
        assert not re.search(r"\bideal\b|best possible|\bbound\b(?<!upper-bound)", said)
    assert "upper-bound" in said_by(store, "score", "job", "--model", "threshold")
    assert "ideal" not in said_by(store, "score", "job", "--model", "threshold")


def test_the_best_line_and_a_share_have_one_name_in_pages_and_pictures():
    root = Path(ROOT)
    written = [*root.glob("docs/**/*.md"), *root.glob("docs/**/figures.jsonl"),
               *root.glob("experiments/*.py"), *root.glob("benchmarks/*.py")]  # fmt: skip
    other = re.compile(
        r"share of all (PageRank|importance)|best possible|upper bound\]|\"ideal\": *[\[{]|'ideal'",
        re.I,
    )
    found = [(str(page.relative_to(root)), *other.findall(page.read_text())) for page in written]
    assert [each for each in found if len(each) > 1] == []


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_a_line_of_progress_is_as_wide_as_the_terminal_at_most_and_keeps_what_matters(width):
    parts = ["1,234,567 pages", "1,234/s", "importance from the seeds at least 19%",
             "3.2 min left", "9,876,543 waiting", "12,345 sites"]  # fmt: skip
    line = in_a_line(parts, width)
    assert len(line) <= width
    assert line.startswith(parts[0])
    assert (parts[2] in line) == (width > 60)
    assert set(line.split(", ")) <= {"1,234,567 pages", *parts}


def test_a_simulation_of_a_stopped_crawl_says_that_pages_not_fetched_have_no_links(store):
    folder, _ = store
    done = crawlprio("simulate", "job/crawl.sqlite", folder=folder)
    assert "2 of these pages were not fetched, so they have no links here" in done.stderr


def test_the_importance_from_the_seeds_is_that_of_the_oracle():
    links = {0: [1, 2], 1: [2], 2: [], 3: [0, 4], 4: []}
    indptr = np.cumsum([0, *map(len, links.values())])
    indices = np.array([t for row in links.values() for t in row], dtype=np.int32)
    for seeds in ([0], [3, 1], [4]):
        expected = trusted_pagerank(links, seeds)
        found = pagerank_from(seeds, indptr, indices)
        assert found == pytest.approx([expected[at] for at in links], abs=1e-9)


def test_the_demo_says_its_truth_in_the_measure_of_its_receipt_and_resumes(tmp_path):
    crawlprio("crawl", "--demo", "--pages", "50", "--folder", "job", "-s",
              "CRAWLPRIO_DEMO_PAGES=400", "-s", "CRAWLPRIO_PLOT=None", folder=tmp_path)  # fmt: skip
    done = crawlprio("resume", "job", "--pages", "50", "-s", "CRAWLPRIO_PLOT=None", folder=tmp_path)
    said = " ".join(re.sub(r"[│┃\n]", " ", done.stdout).split())
    low = int(re.search(r"At least (\d+)%", said)[1])
    (truth,) = re.findall(r"\(this crawl\)? ?[\d.]+% ([\d.]+)%", said) or re.findall(
        r"sibling-sampling \(this [\d.]+% ([\d.]+)%", said
    )
    assert float(truth) >= low
