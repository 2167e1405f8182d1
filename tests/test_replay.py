"""`crawlprio replay` of a WARC file and of a crawl store: what is fetched, recorded and shown."""

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import pytest
from crawls import ROOT, fetched_urls, options, scrapy
from forked import run_forked
from warcs import write_warc

HTML = [("Content-Type", "text/html; charset=utf-8")]
HOME, SEED = "http://a.test/", "http://a.test/"

PAGES = [
    (
        HOME,
        "200 OK",
        HTML,
        """<title>Home</title> <a href="/one">one</a> <a href="two.html#part">two</a>
        <a href="https://b.test">b</a> <a href="missing">missing</a> <a href="/old">old</a>
        <a href="/one">one again</a> <a href="/">self</a> <a href="#top">top</a>
        <a href="mailto:x@a.test">mail</a> <a rel="nofollow" href="/private">private</a>
        <a href="http://elsewhere.test/">elsewhere</a> <a href="paper.PDF">paper</a>
        <a href="/cgi-bin/find">find</a>""",
    ),
    (
        "http://a.test/one",
        "200 OK",
        HTML,
        """<a href="two.html?b=1&amp;a=2">first</a> <a href="./two.html?a=2&amp;b=1">same</a>
        <a href="//a.test:80/two.html">two</a> <a href="d/../one">self</a> <a href="javascript:x()">
        script</a>""",
    ),
    (
        "https://a.test/two.html",
        "200 OK",
        HTML,
        """<a href="https://a.test/two.html">over https</a> <a href="http://a.test/">home</a>""",
    ),
    ("http://a.test/two.html?a=2&b=1", "200 OK", HTML, """<a href="/one">one</a>"""),
    ("http://a.test/old", "302 Found", [("Location", "/new")], ""),
    ("http://a.test/new", "200 OK", HTML, """<a href="http://c.test/deep/copy">copy</a>"""),
    ("http://b.test/", "301 Moved Permanently", [("Location", "https://b.test/")], ""),
    (
        "https://b.test/",
        "200 OK",
        HTML,
        """<base href="https://c.test/deep/"> <a href="page">page</a> <a href="../up">up</a>
        <map><area href="http://c.test/deep/copy" alt="copy"></map>""",
    ),
    (
        "http://c.test/deep/page",
        "200 OK",
        HTML,
        """<meta name="robots" content="noindex, nofollow"> <a href="/up">up</a>""",
    ),
    ("https://c.test/deep/copy", "200 OK", HTML, "<p>the same words"),
    ("https://c.test/up", "200 OK", HTML, "<p>the same words"),
]

TWO = (200, ["https://a.test/two.html", HOME], [])
EXPECTED = {
    HOME: (
        200,
        [
            *("http://a.test/one", "http://a.test/two.html", "https://b.test/"),
            *("http://a.test/missing", "http://a.test/old"),
        ],
        [
            *("http://a.test/private", "http://elsewhere.test/", "http://a.test/paper.PDF"),
            "http://a.test/cgi-bin/find",
        ],
    ),
    "http://a.test/missing": (404, [], []),
    "http://a.test/new": (200, ["http://c.test/deep/copy"], []),
    "http://a.test/old": (302, ["http://a.test/new"], []),
    "http://a.test/one": (200, ["http://a.test/two.html?b=1&a=2", "http://a.test/two.html"], []),
    "http://a.test/two.html": TWO,
    "http://a.test/two.html?b=1&a=2": (200, ["http://a.test/one"], []),
    "http://c.test/deep/copy": (200, [], []),
    "https://a.test/two.html": (200, [HOME], []),
    "https://b.test/": (
        200,
        ["https://c.test/deep/page", "https://c.test/up", "http://c.test/deep/copy"],
        [],
    ),
    # Not followed from here, but found through another path.
    "https://c.test/deep/page": (200, ["https://c.test/up"], []),
    "https://c.test/up": (200, [], []),
}
"""Each page that a whole crawl fetches; one that is on http and https is fetched under both."""

GRAPH = {
    "a": ["one", "two", "b", "old"],
    "one": ["two?", "two"],
    "two": ["a"],
    "two?": ["one"],
    "old": ["new"],
    "new": ["copy"],
    "b": ["page", "up", "copy"],
    "page": [],
    "copy": [],
    "up": [],
}
"""The web of the recording, by hand: http and https are one, and nofollow is not followed."""

NAMES = {
    HOME: "a",
    "http://a.test/one": "one",
    "http://a.test/two.html": "two",
    "https://a.test/two.html": "two",
    "http://a.test/two.html?b=1&a=2": "two?",
    "http://a.test/old": "old",
    "http://a.test/new": "new",
    "https://b.test/": "b",
    "https://c.test/deep/page": "page",
    "http://c.test/deep/copy": "copy",
    "https://c.test/up": "up",
}

# Writes each address that a process connects to or resolves to a file.
SPY = """
import os, sys
_file = os.open(os.environ["SPY_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def _spy(event, arguments):
    if event == "socket.connect":
        os.write(_file, f"{arguments[1][0]}\\n".encode())
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        os.write(_file, f"{arguments[0]}\\n".encode())
sys.addaudithook(_spy)
"""


class Replay(NamedTuple):
    """The outcome of a replay, and its folder."""

    done: subprocess.CompletedProcess[str]
    folder: Path

    @property
    def store(self):
        return self.folder / "replay.sqlite"

    @property
    def fetched(self):
        """Return the URLs that the loopback server was asked for, without robots.txt."""
        urls = fetched_urls(self.folder / "server.jsonl")
        return [url for url in urls if not url.endswith("/robots.txt")]

    def shares(self):
        """Return the printed table of shares."""
        rows = re.findall(
            r"│ ([a-z-]+)(?: \(this(?: crawl\))?)? +│ +([0-9.]+%) │", self.done.stdout
        )
        return dict(rows)


def arguments(recording, folder, more, **settings):
    every = {
        "CONCURRENT_REQUESTS": 1,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "WARNING",
        "CRAWLPRIO_SERVER_LOG": folder / "server.jsonl",
        **settings,
    }
    return ["replay", str(recording), *more, *options(every)]


def replay(recording, folder, *more, **settings):
    """Replay a recording in a new folder."""
    folder.mkdir()
    return Replay(scrapy(arguments(recording, folder, more, **settings), folder), folder)


def spied(recording, folder, *more, **settings):
    """Replay a recording in a new folder that spies on its connections."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SPY)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "SPY_FILE": str(folder / "addresses.txt"),
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
    }
    return Replay(
        scrapy(arguments(recording, folder, more, **settings), folder, **environment), folder
    )


def recorded(store):
    """Return what a store holds about each visited page, by plain SQL and ordered by URL."""
    found = {}
    with sqlite3.connect(store) as db:
        visits = db.execute("SELECT url, status, page FROM visits JOIN pages ON pages.id = page")
        for url, status, page in visits.fetchall():
            links = db.execute(
                "SELECT url FROM links JOIN pages ON pages.id = target WHERE source = ?", (page,)
            )
            outside = db.execute("SELECT url FROM outside_links WHERE source = ?", (page,))
            assert url not in found
            found[url] = (status, [row[0] for row in links], [row[0] for row in outside])
    return dict(sorted(found.items()))


@pytest.fixture(scope="module")
def warc(tmp_path_factory):
    path = tmp_path_factory.mktemp("warc") / "small.warc.gz"
    write_warc(path, PAGES)
    return path


@pytest.fixture(scope="module")
def by_opic(warc):
    """A replay that runs to its end."""
    return replay(warc, warc.parent / "opic", f"-aseeds={SEED}", ORDERING="opic")


@pytest.fixture(scope="module")
def by_depth_first(warc):
    """The same in another order."""
    return spied(warc, warc.parent / "depth", f"-aseeds={SEED}", ORDERING="depth-first")


@pytest.fixture(params=["by_opic", "by_depth_first"])
def whole(request):
    """Each of the replays that run to their end."""
    return request.getfixturevalue(request.param)


def test_a_replay_records_exactly_the_links_of_each_page(whole):
    assert (whole.done.returncode, whole.done.stderr) == (0, "")
    assert recorded(whole.store) == EXPECTED


def test_a_replay_fetches_each_page_once_and_no_others(whole):
    assert sorted(whole.fetched) == list(EXPECTED)


def test_equal_bodies_are_one_unique_page(whole):
    n_same = 2  # two.html over http and https; two pages with the same words
    n_not_pages = 2  # a redirect and a 404
    rows = dict(re.findall(r"│ ([a-z ]+?) +│ (.+?) +│", whole.done.stdout))
    assert rows["pages fetched"] == str(len(EXPECTED) - 1)
    assert rows["unique pages"] == str(len(EXPECTED) - n_same - n_not_pages)
    assert rows["failed"] == "1"


def test_a_complete_replay_holds_all_of_the_pagerank(whole):
    assert f"PageRank held by {len(GRAPH)} of {len(GRAPH)} pages of the" in whole.done.stdout
    assert set(whole.shares().values()) == {"100.0%"}
    assert {"breadth-first", "random", "upper-bound"} < set(whole.shares())
    assert (whole.folder / "replay.png").read_bytes().startswith(b"\x89PNG")


def test_a_replay_connects_only_to_the_loopback_server(by_depth_first):
    addresses = (by_depth_first.folder / "addresses.txt").read_text().split()
    assert "127.0.0.1" in addresses
    assert [address for address in addresses if address not in ("127.0.0.1", "::1")] == []


def test_a_replay_of_its_own_store_fetches_and_records_the_same_again(by_opic, tmp_path):
    again = replay(by_opic.store, tmp_path / "again", ORDERING="breadth-first")
    assert (again.done.returncode, again.done.stderr) == (0, "")
    assert recorded(again.store) == EXPECTED
    assert again.fetched[0] == SEED


def test_the_share_of_a_stopped_replay_is_that_of_its_pages(warc, tmp_path):
    stopped = replay(
        warc,
        tmp_path / "stopped",
        f"-aseeds={SEED}",
        ORDERING="breadth-first",
        ROBOTSTXT_OBEY=False,
        CLOSESPIDER_PAGECOUNT=6,
    )
    assert stopped.done.returncode == 0
    assert stopped.fetched[:6] == [SEED, *EXPECTED[SEED][1]]
    assert len(stopped.fetched) < len(EXPECTED)
    ranks = nx.pagerank(nx.DiGraph(GRAPH), alpha=0.85, tol=1e-12)
    fetched = dict.fromkeys(NAMES[url] for url in stopped.fetched if url in NAMES)
    best = sorted(ranks.values())[-len(fetched) :]
    assert stopped.shares()["breadth-first"] == f"{sum(ranks[page] for page in fetched):.1%}"
    assert stopped.shares()["upper-bound"] == f"{sum(best):.1%}"


def test_a_replay_succeeds_even_if_nobody_reads_its_tables(warc, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "scrapy", *arguments(warc, tmp_path, [f"-aseeds={SEED}"])]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert recorded(tmp_path / "replay.sqlite") == EXPECTED


def test_a_link_to_another_page_over_http_does_not_keep_a_replay_from_being_judged(tmp_path):
    pages = [
        (SEED, "200 OK", HTML, """<a href="/over">over http, recorded over https</a>"""),
        ("https://a.test/over", "200 OK", HTML, """<a href="http:under">relative?</a>"""),
        ("http://a.test/under", "200 OK", HTML, ""),
    ]
    write_warc(tmp_path / "a.warc.gz", pages)
    whole = replay(tmp_path / "a.warc.gz", tmp_path / "run", f"-aseeds={SEED}")
    assert (whole.done.returncode, whole.done.stderr) == (0, "")
    assert whole.fetched == [SEED, "http://a.test/over", "http://a.test/under"]
    assert set(whole.shares().values()) == {"100.0%"}


def test_a_seed_missing_from_a_recording_is_bad_input(warc, tmp_path):
    """It used to be a crawl of one 404, with exit status 0."""
    done = replay(warc, tmp_path / "run", "-aseeds=http://nowhere.test/").done
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "seed http://nowhere.test/ is not in the recording" in line


def compare(warc, store, n_pages):
    """Run the benchmark that reads the links of a recording without crawlprio."""
    script = ROOT / "benchmarks" / "recorded_pairs.py"
    return run_forked(script, [warc, store, f"--pages={n_pages}"], ROOT)


def test_recorded_links_are_found_again_without_crawlprio(by_opic, warc):
    judged = compare(warc, by_opic.store, 100)
    assert (judged.returncode, judged.stderr) == (0, "")
    for cause in ("empty path", "default port", "duplicate by: ", "rel=nofollow", "/cgi-bin/"):
        assert cause in judged.stdout
