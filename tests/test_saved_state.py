"""The saved state of a crawl: a resume from it goes on as a replay of all visits does."""

import json
import logging
import random
import shutil
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from scrapy.utils.test import get_crawler

from crawlprio.errors import ConfigError
from crawlprio.frontier.protocol import PageVisit, QueueEntry
from crawlprio.graph import compiled
from crawlprio.items import LinkPairs
from crawlprio.live import state_keeper
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.orderings import ORDERINGS, make_ordering
from crawlprio.orderings.ordering_validation import is_by_rule_alone
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store.outcomes import ROBOTS
from crawlprio.store.saved_state import FORMAT

N_PAGES = 400


@pytest.fixture(autouse=True)
def _few_visits_are_enough(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(state_keeper, "LEAST_VISITS", 40)
    compiled.load()


def url_of(page):
    return f"http://s{page % 7}.d{page % 3}.test/p{page}?n={page}"


def links_of(page):
    rng = random.Random(page)
    found = [2 * page + 1, 2 * page + 2, *(int(N_PAGES * rng.random() ** 2) for _ in range(5))]
    return [url_of(each) for each in dict.fromkeys(found) if each < N_PAGES and each != page]


@contextmanager
def crawl_in(folder, ordering="sibling-sampling", *, compiles=False, **settings):
    """A crawl that is closed at the end of the block, as after Ctrl-C."""
    crawler = get_crawler(
        settings_dict={
            "ORDERING": ordering,
            "JOBDIR": str(folder),
            "CRAWLPRIO_STORE": "crawl.sqlite",
            "CONCURRENT_REQUESTS": 8,
            "CRAWLPRIO_MAX_PAGES_PER_SITE": 55,
            "CRAWLPRIO_MAX_PAGES_PER_DOMAIN": 130,
            "CRAWLPRIO_MAX_PAGES_PER_PATTERN": 100,
            **settings,
        }
    )
    config = CrawlConfig.from_settings(crawler.settings)
    if compiles:
        config.ordering.compile()
    recorder = Recorder(config, Identities(crawler))
    frontier = LocalFrontier(config, recorder, call_soon=lambda work: None)
    recorder.open()
    yield frontier, recorder
    frontier.close()
    recorder.close()


def fetch(frontier, n_visits, *, keep=0):
    """Fetch pages, several at once; return their URLs in the order handed out.

    `keep` pages are handed out and not fetched.
    """
    order = []
    while len(order) < n_visits:
        n_asked = min(4, n_visits - len(order))
        leased_pages = [
            each for _ in range(n_asked) if (each := frontier.next_page(0.0)) is not None
        ]
        if not leased_pages:
            break
        for leased_page in leased_pages:
            order.append(leased_page.url)
            page = int(leased_page.url.rpartition("=")[2])
            status = 500 if page % 11 == 10 else 200
            pairs = LinkPairs(
                leased_page.url, links_of(page) if status == 200 else [], status=status
            )
            pairs.content_hash = page // 2 + 1
            frontier.observe(
                leased_page.lease, PageVisit(pairs, fetched_at=1e9 + page, elapsed=0.1)
            )
    for _ in range(keep):
        assert frontier.next_page(0.0) is not None
    return order


def begin(frontier):
    frontier.add_seeds([url_of(0), url_of(399)])


def test_a_state_is_used_whether_the_ordering_has_been_compiled_or_not(tmp_path):
    with crawl_in(tmp_path) as (frontier, _):
        begin(frontier)
        fetch(frontier, 60)
    for compiles in (True, False):
        with crawl_in(tmp_path, compiles=compiles) as (_, recorder):
            assert recorder.state is not None


def ask_for(frontier, page):
    """Add a request that is more than a link."""
    url = url_of(page)
    entry = QueueEntry(f"POST {url}", url, f"s{page % 7}.d{page % 3}.test", 1, 2, b"{}")
    frontier._requests.priority_of = lambda request: 2
    assert frontier.add(entry)


def killed(folder, into):
    """Copy the folder of a crawl as a kill would leave it now."""
    shutil.copytree(folder, into, ignore=shutil.ignore_patterns("*lock*", "*-shm"))
    return into


def rest_of(folder, *, from_state, **settings):
    """Resume a crawl; return what it fetches to the end, and what it counted by then."""
    if not from_state:
        state_keeper.state_path(folder / "crawl.sqlite").unlink(missing_ok=True)
    with crawl_in(folder, **settings) as (frontier, recorder):
        assert (recorder.state is not None) == from_state
        budgets = recorder.budgets
        counts = [
            recorder.figures.n_unique,
            recorder.figures.n_links,
            recorder.figures.n_sites,
            sorted(recorder.figures.failures.items()),
            list(recorder.figures.visited),
            [budgets.is_claim(page) for page in range(len(recorder.pages))],
            [
                budgets._refusal(
                    site, budgets.domain(site), budgets._slot(url_of(site)), is_claim=True
                )
                for site in range(recorder.pages.n_sites)
            ],
            [recorder.pages.find(url_of(page)) for page in range(N_PAGES)],
        ]
        order = fetch(frontier, 10**6)
        return order, [*counts, list(recorder.figures.visited), len(recorder.pages)]


@pytest.mark.parametrize(
    "ordering", ["sibling-sampling", "rankmass", "opic", "breadth-first", "backlink-count", "fica"]
)
def test_a_killed_crawl_goes_on_from_its_state_as_from_a_replay(tmp_path, ordering):
    with crawl_in(tmp_path / "job", ordering) as (frontier, recorder):
        begin(frontier)
        fetch(frontier, 120, keep=3)
        recorder.states.wait()
        fetch(frontier, 20, keep=1)  # the state is older than the store
        recorder.states.wait()
        recorder.commit()
        one, other = (killed(tmp_path / "job", tmp_path / name) for name in ("one", "other"))
    found = rest_of(one, from_state=True, ordering=ordering)
    assert found == rest_of(other, from_state=False, ordering=ordering)
    assert len(found[0]) > 100


def test_an_interrupted_crawl_resumes_from_its_end_however_often(tmp_path):
    orders = {"saved": [], "replayed": []}
    for turn in range(4):
        for name, order in orders.items():
            with crawl_in(tmp_path / name) as (frontier, recorder):
                if turn == 0:
                    begin(frontier)
                elif name == "saved":
                    assert recorder.state is not None
                    assert state_keeper.n_known(recorder.state)[0] == recorder.store.last_seq
                order += fetch(frontier, 40)
            if name == "replayed":
                state_keeper.state_path(tmp_path / name / "crawl.sqlite").unlink()
    assert orders["saved"] == orders["replayed"]


def test_a_state_takes_as_much_as_the_pages_known_though_budgets_have_a_million_counters(tmp_path):
    with crawl_in(tmp_path, CRAWLPRIO_MAX_SITES=1000) as (frontier, recorder):
        begin(frontier)
        fetch(frontier, 120)
        n_known = len(recorder.pages)
    assert state_keeper.state_path(tmp_path / "crawl.sqlite").stat().st_size < 400 * n_known


def is_saved(name):
    with suppress(ConfigError):  # it lacks an option, as no ordering does whose state is saved
        return is_by_rule_alone(make_ordering(name))
    return False


@pytest.mark.parametrize("name", list(filter(is_saved, ORDERINGS.class_names())))
def test_a_state_is_known_by_no_address_which_another_process_would_not_have(tmp_path, name):
    with crawl_in(tmp_path, name, compiles=True) as (_, recorder):
        assert " at 0x" not in recorder.states._maker


def test_requests_that_wait_are_kept_beside_the_state(tmp_path):
    with crawl_in(tmp_path / "job") as (frontier, _):
        begin(frontier)
        fetch(frontier, 100)
        ask_for(frontier, 350)
    with crawl_in(tmp_path / "job", CONCURRENT_REQUESTS=1) as (frontier, recorder):
        assert recorder.state is not None
        leased_page = frontier.next_page(0.0)
        assert (leased_page.url, leased_page.request) == (url_of(350), b"{}")


def test_what_was_refused_waits_again_and_is_not_counted_twice(tmp_path):
    with crawl_in(tmp_path / "job") as (frontier, _):
        begin(frontier)
        fetch(frontier, 60)
        refused = frontier.next_page(0.0)
        visit = PageVisit(LinkPairs(refused.url, [], status=0), fetched_at=1.0, error=ROBOTS)
        frontier.observe(refused.lease, visit)
        fetch(frontier, 60)
    with crawl_in(tmp_path / "job") as (frontier, recorder):
        assert recorder.state is not None
        assert recorder.figures.n_forbidden == 0
        assert refused.url in fetch(frontier, 10**6)


class TestOnlyAFittingStateIsUsed:
    @pytest.fixture
    def job(self, tmp_path):
        with crawl_in(tmp_path / "job") as (frontier, _):
            begin(frontier)
            fetch(frontier, 120)
        return tmp_path / "job"

    def is_replayed(self, job, **settings):
        with crawl_in(job, **settings) as (frontier, recorder):
            n_fetched = recorder.figures.n_fetched + recorder.figures.n_failed
            assert n_fetched == 120
            assert len(fetch(frontier, 40)) == 40
            return recorder.state is None

    def test_one_that_is_not_damaged(self, job):
        assert not self.is_replayed(job)

    @pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "head", "nested", "vast"])
    def test_not_a_damaged_one(self, job, damage, caplog):
        path = state_keeper.state_path(job / "crawl.sqlite")
        content = bytearray(path.read_bytes())
        if damage == "flipped":
            content[len(content) // 2] ^= 1
        if damage == "head":
            content[3] ^= 1
        vast = {"format": FORMAT, "facts": {}, "arrays": [["a", "S0", 10**14]]}
        others = {
            "cut": content[:-500],
            "empty": b"",
            "nested": b"[" * 1_000_000 + b"\n",
            "vast": json.dumps(vast).encode() + b"\n" + bytes(32),
        }
        path.write_bytes(others.get(damage, bytes(content)))
        with caplog.at_level(logging.WARNING):
            assert self.is_replayed(job)
        assert "all visits are replayed" in caplog.text

    def test_not_one_that_another_user_wrote(self, job, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
        assert self.is_replayed(job)

    def test_not_that_of_a_store_that_went_on_otherwise(self, job, tmp_path):
        backup = killed(job, tmp_path / "backup")
        with crawl_in(job) as (frontier, _):
            fetch(frontier, 80)
        state = state_keeper.state_path(job / "crawl.sqlite")
        for name in ("crawl.sqlite", "crawl.sqlite-wal"):
            (job / name).unlink(missing_ok=True)
        shutil.copy(backup / "crawl.sqlite", job / "crawl.sqlite")
        shutil.copy(state, backup / "newer")
        assert self.is_replayed(job)  # the state is newer than the store
        shutil.copy(backup / "newer", state)  # and now the store has other visits
        with crawl_in(job) as (frontier, recorder):
            assert recorder.state is None
            fetch(frontier, 80)

    def test_not_one_of_another_ordering_or_option(self, job):
        assert self.is_replayed(job, ORDERING_OPTIONS={"decay": 0.5})

    def test_not_one_that_counts_for_fewer_budgets(self, job):
        assert self.is_replayed(job, CRAWLPRIO_MAX_PAGES_PER_SITE=None)


def test_a_state_that_cannot_be_written_is_reported_and_the_crawl_goes_on(
    tmp_path, monkeypatch, caplog
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING), crawl_in(tmp_path / "job") as (frontier, _):
        begin(frontier)
        assert len(fetch(frontier, 120)) == 120
    assert "cannot be saved" in caplog.text
    with crawl_in(tmp_path / "job") as (frontier, recorder):
        assert recorder.state is None
        assert fetch(frontier, 40)


@pytest.mark.parametrize("before", list(filter(is_saved, ORDERINGS.class_names())))
def test_an_update_resumes_from_the_state_of_any_ordering_as_from_a_replay(tmp_path, before):
    with crawl_in(tmp_path / "saved", before) as (frontier, recorder):
        begin(frontier)
        fetch(frontier, 100, keep=2)
        assert not recorder.state
    shutil.copytree(tmp_path / "saved", tmp_path / "replayed")
    state_keeper.state_path(tmp_path / "replayed" / "crawl.sqlite").unlink()
    orders = []
    for name in ("saved", "replayed"):
        with crawl_in(tmp_path / name, "gain") as (frontier, recorder):
            assert (recorder.state is not None) == (name == "saved")
            new = fetch(frontier, 5)
            n_pages = len(recorder.pages)
            keys = np.random.default_rng(3).random(n_pages) - 0.5
            frontier.fetch_again(np.arange(n_pages), keys)
            orders.append([*new, *fetch(frontier, 150)])
    assert orders[0] == orders[1]
    assert len({*orders[0]}) > 100
