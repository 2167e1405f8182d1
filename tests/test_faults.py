"""Whatever goes wrong around a crawl: no hang, one sentence, and nothing lost for the next run."""

import logging
import re
import signal
import subprocess
import threading

import numpy as np
import pytest
from crawls import ADDON, ONE_AT_A_TIME, Site, crawl_demo_web, options, page, run_spider, scrapy
from forked import Forked, run_forked
from spiders import OneByOne
from stores import change, visited_urls
from waiting import until

from crawlprio import ALL_PAGES, Ordering

SETTINGS = {
    **ONE_AT_A_TIME,
    "CRAWLPRIO_DEMO_PAGES": 300,
    "CRAWLPRIO_DEMO_SITES": 8,
    "CRAWLPRIO_DEMO_SEED": 1,
    "LOG_LEVEL": "WARNING",
    "CRAWLPRIO_PLOT": None,
    "CRAWLPRIO_PRINT": False,
}

N_LINKS = 30
PATHS = ["/", *(f"/{n}" for n in range(N_LINKS))]
WEB = {"/": page(*PATHS[1:6]), **{path: page() for path in PATHS[1:]}}
WEB |= {f"/{n}": page(*PATHS[5 * n + 6 : 5 * n + 11]) for n in range(5)}


class Wrong(Ordering):
    """An ordering that works for a number of visits, and then fails as a subclass says."""

    patience = 4

    def open(self, pages, truth=None):
        super().open(pages, truth)
        self.n_visits = 0

    @property
    def is_wrong(self):
        return self.n_visits > self.patience

    def observe(self, visit):
        self.n_visits += 1
        return self.go_wrong() if self.is_wrong else visit.targets

    def go_wrong(self):
        return []


def _raise(error):
    raise error


def discover(self, first, last, visit):
    if self.n_visits > 1:
        raise KeyError("x")


WRONG = {
    "observe raised ZeroDivisionError: division by zero": {"go_wrong": lambda self: 1 / 0},
    "observe gave a page the key nan": {"go_wrong": lambda self: self.keys[:1].fill(np.nan) or [0]},
    "discover gave a page the key inf": {
        "discover": lambda self, first, last, visit: self.keys[first:last].fill(
            np.inf if self.n_visits >= 1 else 0.0
        )
    },
    "observe returned rubbish, which is neither ALL_PAGES nor an array of page ids": {
        "go_wrong": lambda self: "rubbish"
    },
    "observe returned None, which": {"go_wrong": lambda self: None},
    "observe returned [1000000000], which": {"go_wrong": lambda self: np.array([10**9])},
    "observe returned [-1], which": {"go_wrong": lambda self: [-1]},
    "keys is <class 'list'>; it must remain a float64 array": {
        "go_wrong": lambda self: setattr(self, "keys", [1.0]) or ALL_PAGES
    },
    "keys is float64, (2,); it must remain": {
        "go_wrong": lambda self: setattr(self, "keys", self.keys[:2]) or ALL_PAGES
    },
    "discover raised KeyError: 'x'": {"discover": discover},
    "site_key returned nan": {
        "site_key": lambda self, site, best_key, n: np.nan if self.is_wrong else best_key
    },
    "site_key raised ValueError": {
        "site_key": lambda self, site, best_key, n: "far" if self.is_wrong else best_key
    },
    "site_key raised LookupError: 0": {
        "site_key": lambda self, site, *_: _raise(LookupError(site))
    },
    "recomputation raised ValueError: no rank": {
        "recomputation": lambda self: (
            (lambda: _raise(ValueError("no rank"))) if self.n_visits == self.patience else None
        )
    },
}
"""What the error says, and the methods of an ordering with this error."""


@pytest.mark.sampled(14)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("n_at_once", [1, 8])
def test_a_failing_ordering_stops_the_crawl_which_resumes_under_another(tmp_path, wrong, n_at_once):
    ordering = type("Failing", (Wrong,), WRONG[wrong])
    jobdir = {**ADDON, "JOBDIR": str(tmp_path / "job"), "CRAWLPRIO_STORE": "crawl.sqlite"}
    settings = {**jobdir, "CONCURRENT_REQUESTS": n_at_once, "ORDERING": ordering}
    with Site(WEB) as site:
        run = run_spider(OneByOne, settings, site=site)
        assert run.reason == "crawlprio_failed"
        (sentence,) = run.messages(logging.ERROR)
        assert sentence.startswith(f"Ordering {__name__}.Failing: {wrong}")
        n_before = len(site.paths())
        assert n_before < len(PATHS)
        resumed = run_spider(OneByOne, {**settings, "ORDERING": "opic"}, site=site)
        assert resumed.reason == "finished"
        assert resumed.messages() == []
        assert sorted(site.paths()) == sorted(PATHS)


DAMAGES = {
    "cut in half": lambda content: content[: len(content) // 2],
    "garbage in the middle": lambda content: (
        content[:4096] + b"\xa5" * (len(content) - 8192) + content[-4096:]
    ),
    "no head": lambda content: bytes(100) + content[100:],
    "no store": lambda content: b"a text",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_refused_in_one_sentence_and_left_unchanged(tmp_path, damage):
    settings = {**ADDON, "JOBDIR": str(tmp_path / "job"), "CRAWLPRIO_STORE": "crawl.sqlite"}
    store = tmp_path / "job" / "crawl.sqlite"
    with Site(WEB) as site:
        run_spider(OneByOne, settings, site=site)
        content = DAMAGES[damage](store.read_bytes())
        store.write_bytes(content)
        run = run_spider(OneByOne, settings, site=site)
    assert run.reason == "crawlprio_refused"
    (sentence,) = run.messages(logging.ERROR)
    assert sentence.startswith(f"{store}: ")
    assert store.read_bytes() == content


def test_a_damaged_visit_is_refused_on_resume(tmp_path):
    settings = {**ADDON, "JOBDIR": str(tmp_path), "CRAWLPRIO_STORE": "crawl.sqlite"}
    with Site(WEB) as site:
        run_spider(OneByOne, {**settings, "CLOSESPIDER_PAGECOUNT": 5}, site=site)
        change(tmp_path / "crawl.sqlite", "UPDATE visits SET targets = '[1, 99]' WHERE seq = 2")
        (tmp_path / "crawl.sqlite-state").unlink(missing_ok=True)  # else that visit is not read
        n_before = len(site.fetches)
        run = run_spider(OneByOne, settings, site=site)
    assert run.reason == "crawlprio_refused"
    (sentence,) = run.messages(logging.ERROR)
    assert sentence.startswith(f"{tmp_path}/crawl.sqlite: the file is damaged (a link from page 1")
    assert len(site.fetches) == n_before


@pytest.mark.parametrize("content", [b"", b"wal"])
def test_a_store_whose_creation_was_killed_is_created_again(tmp_path, content):
    job = tmp_path / "job"
    job.mkdir()
    if content:
        change(job / "crawl.sqlite", "PRAGMA journal_mode = WAL")
    else:
        (job / "crawl.sqlite").touch()
    run = run_spider(
        OneByOne, {**ADDON, "JOBDIR": str(job), "CRAWLPRIO_STORE": "crawl.sqlite"}, site=WEB
    )
    assert (run.reason, run.messages()) == ("finished", [])
    assert len(visited_urls(job / "crawl.sqlite")) == len(PATHS)


def test_a_job_directory_of_scrapys_own_scheduler_is_left_unchanged(tmp_path):
    queue = tmp_path / "requests.queue"
    queue.mkdir()
    (queue / "active.json").write_text("[]")
    settings = {**ADDON, "JOBDIR": str(tmp_path), "CRAWLPRIO_STORE": "crawl.sqlite"}
    run = run_spider(OneByOne, settings, site=WEB)
    (warning,) = run.messages()
    assert warning.startswith(f"JOBDIR {tmp_path} holds the requests of a crawl with Scrapy's own")
    assert (queue / "active.json").read_text() == "[]"


@pytest.fixture(scope="module")
def whole_order(tmp_path_factory):
    """The pages of a crawl of the demo web without a fault, in order."""
    return visited_urls(crawl_demo_web(tmp_path_factory.mktemp("whole"), SETTINGS).store)


NO_ROOM = {
    "limit": (
        'ulimit -f 200; "$@"; "$@"',
        "the disk cannot be read or written, or a size limit is reached.",
    ),
    "disk": (
        'mkdir job && mount -t tmpfs -o size=260k none job && "$@"; "$@"; status=$?; '
        "cp -r job kept; exit $status",
        "the disk is full; free some space, then resume the crawl.",
    ),
}
"""Shell scripts that run a command twice without room for its files, and what it then says."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", NO_ROOM)
def test_a_full_disk_stops_the_crawl_which_resumes_when_there_is_room(tmp_path, whole_order, kind):
    script, reason = NO_ROOM[kind]
    shell = ["bash", "-c", script, "-"]
    if kind == "disk":
        shell = ["unshare", "--map-root-user", "--mount", *shell]
        mount = [*shell[:3], "mount", "-t", "tmpfs", "none", "/mnt"]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("this system lets nobody mount a disk")
    store = tmp_path / "job" / "crawl.sqlite"
    line = ["crawl", "site", *options({**SETTINGS, "JOBDIR": "job"})]
    full = scrapy(line, tmp_path, wrapper=lambda line: [*shell, *line])
    assert full.returncode == 1
    errors = [line for line in full.stderr.splitlines() if "resumed with" not in line]
    assert [error.rpartition("ERROR: ")[2] for error in errors] == [
        f"job/crawl.sqlite: {reason}"
    ] * 2
    if kind == "disk":
        (tmp_path / "job").rmdir()
        (tmp_path / "kept").rename(tmp_path / "job")
    n_recorded = len(visited_urls(store))
    assert 0 < n_recorded < len(whole_order)
    assert scrapy(line, tmp_path).returncode == 0
    assert visited_urls(store) == whole_order


@pytest.mark.parametrize(
    ("signals", "ends_fetch"),
    [
        ([signal.SIGINT], True),
        ([signal.SIGTERM], True),
        ([signal.SIGINT, signal.SIGINT], False),
        ([signal.SIGTERM, signal.SIGTERM], False),
    ],
    ids=["SIGINT", "SIGTERM", "SIGINT twice", "SIGTERM twice"],
)
def test_the_first_signal_lets_fetches_end_and_the_second_does_not(tmp_path, signals, ends_fetch):
    asked = threading.Event()
    n_asked = 0

    def answer(host, path):
        nonlocal n_asked
        if path != "/3":
            return None
        n_asked += 1
        asked.set()
        return WEB["/3"]._replace(seconds=(1.5 if ends_fetch else 600.0) if n_asked == 1 else 0.0)

    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = crawlprio.settings\n")
    store = tmp_path / "job" / "crawl.sqlite"
    with Site(WEB, answer) as site:
        line = [
            *("crawl", "site", "-a", f"url=http://{site.address}/"),
            *options({**ONE_AT_A_TIME, "JOBDIR": "job", "LOG_LEVEL": "INFO"}),
            *options({"CRAWLPRIO_PRINT": False, "ORDERING": "breadth-first"}),
        ]
        log = tmp_path / "log.txt"
        process = Forked("scrapy", line, tmp_path, stderr=log)
        assert asked.wait(60)
        process.send_signal(signals[0])
        until(lambda: "shutting down gracefully" in log.read_text(), process=process)
        for second in signals[1:]:
            process.send_signal(second)
        process.wait(60)
        assert "Traceback" not in log.read_text()
        before = visited_urls(store)
        assert [url.endswith("/3") for url in before].count(True) == ends_fetch
        done = run_forked("scrapy", line, tmp_path, check=True)
        assert "Traceback" not in done.stderr
        home = f"http://{site.address}"
        assert visited_urls(store) == [home + path for path in PATHS]
        assert n_asked == (1 if ends_fetch else 2)


FEW_FILES = """
import os, resource
from scrapy import signals

class FewFiles:
    is_lowered = False

    @classmethod
    def from_crawler(cls, crawler):
        few = cls()
        crawler.signals.connect(few.lower, signals.response_received)
        return few

    def lower(self):
        if self.is_lowered:
            return
        self.is_lowered = True
        n_open = len(os.listdir("/proc/self/fd"))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (n_open + 2, hard))
"""


def test_a_machine_without_free_file_descriptors_retries_and_fails_no_page(tmp_path):
    (tmp_path / "few_files.py").write_text(FEW_FILES)
    paths = [f"/{n}" for n in range(12)]
    web = {path: page()._replace(seconds=0.2) for path in paths}
    with Site({"/": page(*paths), **web}) as site:
        line = ["crawl", f"http://{site.address}/", "--delay", "0", "--at-once", "32"]
        words = [*line, *options({"CONCURRENT_REQUESTS_PER_DOMAIN": 0, "ROBOTSTXT_OBEY": False})]
        words += ["-s", 'EXTENSIONS={"few_files.FewFiles": 1}']
        done = run_forked("crawlprio", words, tmp_path)
        home = f"http://{site.address}"
        assert sorted(site.paths()) == sorted(["/", *paths])
    assert done.returncode == 0
    assert done.stderr.count("Too many open files") == 1, done.stderr
    fetched = [home + path for path in ["/", *paths]]
    assert sorted(visited_urls(tmp_path / "crawl.sqlite")) == sorted(fetched)
    assert re.search("failed +│ 0 ", done.stdout)
