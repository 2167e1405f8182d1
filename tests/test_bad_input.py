"""What the commands do with bad input: one sentence, an exit status, and all files unchanged."""

import re
import socket
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from crawls import Site, page, scrapy

from crawlprio.store import Store

SEED = ("-a", "seeds=http://127.0.0.1:9/")
QUIET = ("-s", "LOG_LEVEL=WARNING")
EXISTING = {
    "crawl.sqlite": b"an older crawl",
    "garbage.warc": b"\x00garbage\xff" * 50,
    "garbage.sqlite": b"SQLite format 3\x00garbage",
    "file": b"in the way",
}
"""The contents of the folder before each command, which must be the same after it."""


class Case(NamedTuple):
    """A command line, and what its one sentence must name."""

    line: Sequence[str]
    names: Sequence[str]


def crawl(*line):
    return ("crawl", "site", *line)


def setting(name, value):
    return crawl(*SEED, "-s", f"{name}={value}")


CASES = {
    "ordering that cannot be imported": Case(setting("ORDERING", "no.such.Class"), ["no.such"]),
    "ordering that is none": Case(
        setting("ORDERING", "scrapy.Spider"), ["scrapy.Spider", "subclass of crawlprio.Ordering"]
    ),
    "ordering that needs the whole graph": Case(
        setting("ORDERING", "omniscient"), ["Omniscient", "whole graph"]
    ),
    "unknown spider argument": Case(crawl("-a", "sed=http://a.test/"), ["'sed'", "seeds"]),
    "no limit of concurrency": Case(
        setting("CONCURRENT_REQUESTS", "0"), ["CONCURRENT_REQUESTS", "0", "1 or more"]
    ),
    "slot that is no dict": Case(
        setting("DOWNLOAD_SLOTS", '{"a.test": 3}'), ["DOWNLOAD_SLOTS", "a.test", "3"]
    ),
    "slot with a bad delay": Case(
        setting("DOWNLOAD_SLOTS", '{"a.test": {"delay": "long"}}'), ["DOWNLOAD_SLOTS", "long"]
    ),
    "robots.txt that is neither obeyed nor not": Case(
        setting("ROBOTSTXT_OBEY", "flase"), ["ROBOTSTXT_OBEY", "'flase'", "True or False"]
    ),
    "several bad settings of Scrapy's": Case(
        crawl(*SEED, "-s", "DOWNLOAD_TIMEOUT=soon", "-s", "DOWNLOAD_MAXSIZE=10M"),
        ["DOWNLOAD_TIMEOUT", "'soon'"],
    ),
    "job directory that is a file": Case(
        setting("JOBDIR", "file"), ["JOBDIR", "'file'", "is a file"]
    ),
    "job directory below a file": Case(
        setting("JOBDIR", "file/job"), ["JOBDIR", "'file/job'", "cannot be created"]
    ),
    "store below a file in the job directory": Case(
        crawl(*SEED, "-s", "JOBDIR=.", "-s", "CRAWLPRIO_STORE=file/crawl.sqlite"),
        ["CRAWLPRIO_STORE", "file/crawl.sqlite", "JOBDIR"],
    ),
    "unknown topic option": Case(
        crawl(*SEED, "-s", "TOPIC=chess", "-s", 'TOPIC_OPTIONS={"far": 1}'), ["'far'", "distance"]
    ),
    "store in a folder that is not there": Case(
        setting("CRAWLPRIO_STORE", "no/such/crawl.sqlite"), ["no/such"]
    ),
    "store below a file": Case(setting("CRAWLPRIO_STORE", "file/crawl.sqlite"), ["file"]),
    "job directory with a store that is none": Case(
        crawl(*SEED, "-s", "JOBDIR=.", "-s", "CRAWLPRIO_STORE=garbage.sqlite"), ["garbage.sqlite"]
    ),
    "demo web with no page": Case(
        crawl("-s", "CRAWLPRIO_DEMO_PAGES=0"), ["CRAWLPRIO_DEMO_PAGES", "0"]
    ),
    "demo web with more sites than pages": Case(
        crawl("-s", "CRAWLPRIO_DEMO_PAGES=20", "-s", "CRAWLPRIO_DEMO_SITES=30"),
        ["CRAWLPRIO_DEMO_SITES is 30", "CRAWLPRIO_DEMO_PAGES, which is 20"],
    ),
    "replay of garbage": Case(("replay", "garbage.warc"), ["garbage.warc"]),
    "replay of a broken store": Case(("replay", "garbage.sqlite"), ["garbage.sqlite"]),
}


def sentences(done):
    """Return what a command reports: the warnings and errors in its log, and all other lines."""
    log_line = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ \[.*?\] \w+: (.*)")
    matches = [(line, log_line.match(line)) for line in done.stderr.splitlines()]
    return [matched[1] if matched else line for line, matched in matches]


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_named_in_one_sentence_and_nothing_is_lost(name, tmp_path):
    for file, content in EXISTING.items():
        (tmp_path / file).write_bytes(content)
    done = scrapy([*CASES[name].line, *QUIET], tmp_path)
    assert "Traceback" not in done.stderr
    assert done.returncode != 0
    (sentence,) = sentences(done)
    assert sentence.endswith(".")
    assert [word for word in CASES[name].names if word not in sentence] == []
    left = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.name in EXISTING}
    assert left == EXISTING


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a store that this process is writing to."""
    with Store.create(tmp_path / "crawl.sqlite"):
        yield tmp_path


def content(store):
    """Read a store that this process has open; reading it here would drop SQLite's locks on it."""
    return subprocess.run(["cat", store], capture_output=True, check=True).stdout


def test_a_store_in_use_cannot_be_resumed(folder):
    before = content(folder / "crawl.sqlite")
    done = scrapy([*crawl(*SEED), *QUIET, "-s", "JOBDIR=."], folder)
    (sentence,) = sentences(done)
    assert done.returncode != 0
    assert "crawl.sqlite" in sentence
    assert "is writing to this crawl store" in sentence
    assert content(folder / "crawl.sqlite") == before


def test_a_new_crawl_leaves_a_store_in_use_alone_and_takes_a_numbered_name(folder):
    before = content(folder / "crawl.sqlite")
    with Site({"/": page("/1"), "/1": page()}) as site:
        line = crawl("-a", f"seeds=http://{site.address}/", "-s", "DOWNLOAD_DELAY=0")
        done = scrapy([*line, *QUIET], folder)
    remark = "crawlprio: crawl.sqlite is in use; this crawl is recorded in crawl.1.sqlite."
    assert (done.returncode, sentences(done)) == (0, [remark])
    assert content(folder / "crawl.sqlite") == before
    with Store.open(folder / "crawl.1.sqlite", readonly=True) as store:
        assert store.n_visits == 2


def test_a_port_in_use_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = scrapy([*crawl(), *QUIET, "-s", f"CRAWLPRIO_DEMO_PORT={port}"], tmp_path)
    (sentence,) = sentences(done)
    assert done.returncode != 0
    assert str(port) in sentence
    assert "Traceback" not in done.stderr
