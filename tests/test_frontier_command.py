"""`crawlprio frontier` shows and deletes the crawls on a server; see also test_redis_brain.py."""

import json

import pytest
from commands import run_command

from crawlprio.plugins.shared.mailbox import Mailbox

LONG = "http://a.test/" + "long/" * 30
SHOWN = {
    "ordering": "sibling-sampling",
    "sites": 4,
    "delayed": 1,
    "counts": {
        **{"pages": 6, "visits": 1, "ready": 2, "waiting": 3},
        **{"leased": 1, "dead": 1, "taken_over": 0},
    },
    "workers": [{"name": "host:1:a", "leases": 1, "age": 100.0, "dead_in": 60.0}],
    "leases": [{"age": 10.0, "worker": "host:1:a", "url": "http://b.test/"}],
    "head": [
        {"url": LONG, "key": 0.5, "hot": 0, "priority": 3},
        {"url": "http://a.test/2", "key": 0.25, "hot": 1, "priority": 0},
    ],
    "dead": [{"url": "http://d.test/", "reason": "a\x1b[31mreason"}],
}


@pytest.fixture
def run(redis_server, capsys):
    def call(*words):
        status = run_command("frontier", *words, "-s", f"REDIS_URL={redis_server.url}")
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def shop(redis_server):
    """A crawl as its brain has described it."""
    mailbox = Mailbox(redis_server.client(), "shop")
    mailbox.claim("brain", 60.0)
    mailbox.put_facts(id="7", folder="/srv/crawls/shop", host="host")
    mailbox.turn("brain", "7", 60.0, status=json.dumps(SHOWN))
    return mailbox


def test_the_output_about_a_crawl_fits_a_terminal_and_matches_the_json(run, shop, tmp_path):
    status, out, err = run("show", "shop", "--json", str(tmp_path / "shop.json"))
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "shop: running, sibling-sampling"
    assert lines[1] == "Its store is in /srv/crawls/shop on host."
    assert max(map(len, lines)) <= 80
    assert out.isascii()
    assert "\x1b" not in out
    shown = json.loads((tmp_path / "shop.json").read_text())
    assert shown["counts"] == SHOWN["counts"]
    assert (shown["sites"], shown["shards"], shown["folder"]) == (4, 1, "/srv/crawls/shop")
    assert [worker["dead_in"] for worker in shown["workers"]] == [60.0]
    assert [letter["url"] for letter in shown["dead"]] == ["http://d.test/"]
    assert [page["url"] for page in shown["head"]] == [LONG, "http://a.test/2"]
    assert out.count("http://a.test/2") == out.count("http://d.test/") == 1
    _, out, _ = run("show", "shop", "--most", "1")
    after = out.partition("Next pages")[2].partition("\n\n")[0].splitlines()
    assert len(after) == 3  # remaining title, header, one page


def test_without_arguments_all_crawls_are_listed(run, shop, redis_server):
    Mailbox(redis_server.client(), "another").put_facts(id="8")
    _, out, _ = run()
    assert [line.split() for line in out.splitlines()] == [
        ["crawl", "state", "fetched", "waiting", "leased", "workers"],
        ["another", "without", "a", "brain", "0", "0", "0", "0"],
        ["shop", "running", "1", "3", "1", "1"],
    ]


def test_the_shards_of_a_crawl_are_shown_changed_and_deleted_as_one(run, shop, redis_server):
    shop.put_facts(shards=2)
    other = Mailbox(redis_server.client(), "shop", 1)
    other.put_facts(id="7", shards=2, status=json.dumps(SHOWN))
    shown = run("show", "shop")[1]
    assert "shards" in shown
    assert " 12 " in shown, "pages of both"
    run("pause", "shop")
    assert [mailbox.facts()["state"] for mailbox in (shop, other)] == ["paused"] * 2
    shop.leave("brain")
    run("delete", "shop", "--yes")
    assert redis_server.client().keys("*") == []


def test_a_paused_crawl_is_shown_as_such_until_it_is_resumed(run, shop):
    assert run("pause", "shop")[1] == "shop: no pages are handed out until it is resumed.\n"
    assert "(as before)" in run("pause", "shop")[1]
    assert run("show", "shop")[1].startswith("shop: paused, ")
    assert run("resume", "shop")[1] == "shop: pages are handed out again.\n"
    assert run("show", "shop")[1].startswith("shop: running, ")


def test_a_crawl_is_deleted_once_it_has_no_brain_and_that_is_confirmed(run, shop, redis_server):
    assert run("delete", "shop", "--yes")[2].startswith("The crawl 'shop' is running; ")
    shop.leave("brain")
    code, _, err = run("delete", "shop")
    assert (code, "6 pages, 3 of them waiting; add --yes" in err) == (2, True)
    code, out, _ = run("delete", "shop", "--yes")
    assert out == (
        "shop: deleted with 6 pages, 3 of them waiting; its store in /srv/crawls/shop is kept.\n"
    )
    assert redis_server.client().keys("*") == []


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
def test_bad_input_ends_with_one_sentence(words, sentence, run, shop):
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_a_crawl_is_deleted_before_its_brain_leaves(redis_server, monkeypatch):
    client, brains = redis_server.client(), []
    mailbox = Mailbox(client, "site")
    mailbox.claim("a brain", 60.0)
    mailbox.put_facts(id="1")
    mailbox.send("hand", [(0, [(1, b"hello")])])
    unlink = client.unlink
    monkeypatch.setattr(client, "unlink", lambda key: brains.append(mailbox.brain()) or unlink(key))
    mailbox.delete()
    assert brains == ["a brain"] * 3
    assert client.keys("*") == []
