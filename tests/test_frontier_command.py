"""`crawlprio frontier` shows the crawls in Redis, and pauses, drains and resumes them."""

import json
from collections.abc import Callable
from time import monotonic, sleep

import pytest
from redis_workers import Workers
from settled_redis import SettledRedis

from crawlprio.commands import cli
from crawlprio.frontier.protocol import Entry, PageVisit
from crawlprio.items import LinkPairs

LONG = "http://a.test/" + "long/" * 30

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(redis_server, capsys):
    def call(*words):
        with pytest.raises(SystemExit) as ended:
            cli.main(["frontier", *words, "-s", f"REDIS_URL={redis_server.url}"])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def frontier(redis_server):
    """A crawl with pages in every state."""
    frontier = SettledRedis(
        redis_server.client(), "shop", ORDERING="sibling-sampling", DOWNLOAD_DELAY=0
    )
    frontier.add_seeds(["http://a.test/", "http://b.test/", "http://c.test/"])
    first = frontier.next_page(0.0)
    frontier.observe(first.lease, PageVisit(LinkPairs(first.url, [LONG, "http://a.test/2"])))
    frontier.add(Entry("http://d.test/", "http://d.test/", "d.test", priority=3))
    second = frontier.next_page(0.0)
    frontier._call(0, "end_lease", second.lease, "bury", "a\x1b[31mreason", "", ends=second.lease)
    frontier._leases.end(second.lease)
    assert frontier.next_page(0.0) is not None
    yield frontier
    frontier.close()


def test_the_output_about_a_crawl_fits_a_terminal_and_matches_the_json(run, frontier, tmp_path):
    status, out, err = run("show", "shop", "--json", str(tmp_path / "shop.json"))
    assert (status, err) == (0, "")
    lines = out.splitlines()
    print(out)
    assert lines[0] == "shop: running, sibling-sampling"
    assert max(map(len, lines)) <= 80
    assert out.isascii()
    assert "\x1b" not in out
    shown = json.loads((tmp_path / "shop.json").read_text())
    counts = shown["counts"]
    assert (counts["pages"], counts["visits"], counts["waiting"]) == (6, 1, 3)
    assert (counts["leased"], counts["dead"], shown["sites"]) == (1, 1, 4)
    assert shown["elected"]["read"] == counts["recorded"] == 3
    assert [worker["leases"] for worker in shown["workers"]] == [1]
    (lease,) = shown["leases"]
    assert lease["url"] not in [page["url"] for page in shown["head"]]
    assert [letter["url"] for letter in shown["dead"]] == ["http://d.test/"]
    head = [page["url"] for page in shown["head"]]
    assert "  ".join(lines).count("http://d.test/") == 1
    # The head of the order is what leaves next.
    handout = frontier.next_page(0.0)
    assert handout.url == head[0]


def test_no_more_is_shown_than_requested(run, frontier):
    _, out, _ = run("show", "shop", "--most", "1")
    after = out.partition("Next pages")[2].partition("\n\n")[0].splitlines()
    assert len(after) == 3  # remaining title, header, one page


def test_without_arguments_all_crawls_are_listed(run, frontier, redis_server):
    other = SettledRedis(redis_server.client(), "another", ORDERING="opic", DOWNLOAD_DELAY=0)
    other.add_seeds(["http://a.test/"])
    _, out, _ = run()
    assert [line.split() for line in out.splitlines()] == [
        ["crawl", "state", "fetched", "waiting", "leased", "workers"],
        ["another", "running", "0", "1", "0", "1"],
        ["shop", "running", "1", "3", "1", "1"],
    ]
    other.close()


def test_a_server_without_crawls_is_reported_as_such(run):
    assert run() == (0, "There is no crawl in Redis.\n", "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "shoop"), "There is no crawl 'shoop' in Redis; the crawls there are shop."),
        (("pause", "shoop"), "There is no crawl 'shoop' in Redis; the crawls there are shop."),
        (("show",), "frontier: found show; expected: "),
        (("stop", "shop"), "frontier: found stop shop; expected: "),
        (("show", "shop", "--most", "0"), "--most is '0'; give a whole number of 1 or more."),
    ],
)
def test_bad_input_ends_with_one_sentence(words, sentence, run, frontier):
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_no_page_leaves_a_paused_crawl_until_it_is_resumed(run, frontier):
    assert run("pause", "shop")[1] == "shop: no pages are handed out until it is resumed.\n"
    assert "(as before)" in run("pause", "shop")[1]
    assert run("show", "shop")[1].startswith("shop: paused, ")
    frontier._all[0].ask_at = 0.0
    asked_at = monotonic()
    assert frontier.next_page(asked_at) is None
    assert frontier.ready_at() > asked_at
    assert run("resume", "shop")[1] == "shop: pages are handed out again.\n"
    frontier._all[0].ask_at = 0.0
    assert frontier.next_page(monotonic()) is not None


def test_a_drained_crawl_continues_with_other_workers_and_fetches_everything_once(
    run, redis_server, tmp_path
):
    workers = Workers(
        tmp_path,
        redis_server.url,
        pages=300,
        sites=30,
        # What waits must also stay without SCHEDULER_PERSIST.
        settings={"DOWNLOAD_DELAY": 0.1, "SCHEDULER_PERSIST": False},
    )
    try:
        workers.start(2)
        workers.wait_for(60)
        run("drain", "site")
        assert workers.wait() == [0] * 2
        assert workers.logs().count("'finish_reason': 'drained'") == 2
        n_fetched = workers.n_fetched()
        assert 60 <= n_fetched < 300
        status, out, _ = run("show", "site")
        assert status == 0
        assert out.startswith("site: draining, ")
        until = monotonic() + 1.0
        while monotonic() < until:
            assert workers.n_fetched() == n_fetched
            sleep(0.1)
        run("resume", "site")
        workers.processes.clear()
        workers.start()
        assert workers.wait() == [0]
        urls = [fetch["url"] for fetch in workers.fetches()]
        assert len(urls) == len(set(urls)) == 300
    finally:
        workers.stop()
