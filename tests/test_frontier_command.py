"""`crawlprio frontier` shows and deletes the crawls on a server; see also
test_redis_coordinator.py.
"""

import json

import pytest
from commands import run_command

from crawlprio.plugins.shared.redis_streams import RedisStreams

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
    """A crawl as its coordinator has described it."""
    streams = RedisStreams(redis_server.client(), "shop")
    streams.claim("coordinator", 60.0)
    streams.put_facts(id="7", folder="/srv/crawls/shop", host="host")
    streams.turn("coordinator", "7", 60.0, status=json.dumps(SHOWN))
    return streams


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
    assert (shown["sites"], shown["folder"]) == (4, "/srv/crawls/shop")
    assert [worker["dead_in"] for worker in shown["workers"]] == [60.0]
    assert [letter["url"] for letter in shown["dead"]] == ["http://d.test/"]
    assert [page["url"] for page in shown["head"]] == [LONG, "http://a.test/2"]
    assert out.count("http://a.test/2") == out.count("http://d.test/") == 1
    _, out, _ = run("show", "shop", "--most", "1")
    after = out.partition("Next pages")[2].partition("\n\n")[0].splitlines()
    assert len(after) == 3  # remaining title, header, one page


def test_without_arguments_all_crawls_are_listed(run, shop, redis_server):
    RedisStreams(redis_server.client(), "another").put_facts(id="8")
    _, out, _ = run()
    assert [line.split() for line in out.splitlines()] == [
        ["crawl", "state", "fetched", "waiting", "leased", "workers"],
        ["another", "without", "a", "coordinator", "0", "0", "0", "0"],
        ["shop", "running", "1", "3", "1", "1"],
    ]


def test_a_paused_crawl_is_shown_as_such_until_it_is_resumed(run, shop):
    assert run("pause", "shop")[1] == "shop: no pages are handed out until it is resumed.\n"
    assert "(as before)" in run("pause", "shop")[1]
    assert run("show", "shop")[1].startswith("shop: paused, ")
    assert run("resume", "shop")[1] == "shop: pages are handed out again.\n"
    assert run("show", "shop")[1].startswith("shop: running, ")


def test_a_crawl_is_deleted_once_it_has_no_coordinator_and_that_is_confirmed(
    run, shop, redis_server
):
    assert run("delete", "shop", "--yes")[2].startswith("The crawl 'shop' is running; ")
    shop.leave("coordinator")
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


def test_a_crawl_is_deleted_before_its_coordinator_leaves(redis_server, monkeypatch):
    client, coordinators = redis_server.client(), []
    streams = RedisStreams(client, "site")
    streams.claim("a coordinator", 60.0)
    streams.put_facts(id="1")
    streams.send("worker", [(1, b"hello")])
    unlink = client.unlink
    monkeypatch.setattr(
        client, "unlink", lambda key: coordinators.append(streams.coordinator()) or unlink(key)
    )
    streams.delete()
    assert coordinators == ["a coordinator"] * 3
    assert client.keys("*") == []


@pytest.mark.parametrize(
    "status",
    [
        *(b"\xff", b"{", b"[]", b"5", b'{"sites": 1}', b"[" * 100_000),
        json.dumps({**SHOWN, "counts": 5}).encode(),
        json.dumps({**SHOWN, "sites": True}).encode(),
        json.dumps({**SHOWN, "workers": [{}]}).encode(),
        json.dumps({**SHOWN, "leases": [{**SHOWN["leases"][0], "age": float("nan")}]}).encode(),
        json.dumps({**SHOWN, "head": [{**SHOWN["head"][0], "priority": 10**400}]}).encode(),
        json.dumps({**SHOWN, "dead": "x"}).encode(),
    ],
)
def test_a_status_that_is_none_is_said_and_other_crawls_are_shown(status, run, shop, redis_server):
    other = RedisStreams(redis_server.client(), "other")
    other.put_facts(id="8", status=status, folder="\x1b[31m/srv", host=b"\xff", state="")
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "unreadable" in out
    assert "shop  " in out
    code, out, err = run("show", "other")
    assert (code, err) == (0, "")
    assert out.startswith("other: with an unreadable status")
    assert "\x1b" not in out
    code, out, err = run("delete", "other", "--yes")
    assert (code, err, "\x1b" in out) == (0, "", False)


def test_hostile_texts_of_a_status_cannot_command_a_terminal(run, shop):
    odd = "\x1b]0;owned\x07\u202e"
    shown = {**SHOWN, "ordering": odd, "workers": [{**SHOWN["workers"][0], "name": odd}]}
    shop.put_facts(status=json.dumps(shown), state=odd, folder=odd, host=odd)
    code, out, _ = run("show", "shop")
    assert code == 0
    assert not {*odd} & {*"\x1b\x07\u202e"} & {*out}
