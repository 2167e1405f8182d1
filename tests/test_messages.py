"""What others may have written to Redis in place of crawlprio's messages, and what comes of it."""

import copy
import json
import math
import random
from contextlib import suppress

import pytest
from shared_crawls import shared_crawl
from shared_frontier import local_frontier

from crawlprio.frontier.protocol import HttpRecord, LeasedPage, PageVisit, QueueEntry
from crawlprio.items import Directives, LinkPairs, TextNotes
from crawlprio.plugins.shared.coordinator import Coordinator, Worker
from crawlprio.plugins.shared.messages import (
    coordinator_message,
    entry_row,
    from_coordinator,
    from_worker,
    leased_page_row,
    name_of_worker,
    number_of,
    visit_row,
    worker_message,
    written,
)

crawl = shared_crawl

URL = "http://a.test/1"
EXCHANGE = HttpRecord(URL, 1.5, 200, "text/html", b"d", False, b"answer", b"question", [URL])
PAIRS = LinkPairs(URL, [URL + "1"], ["one"], [("http://b.test/", "two")], value=0.5)
PAIRS.directives, PAIRS.notes = Directives("noindex"), TextNotes("de")
PAIRS.extras["bodies"] = (b"body",)

BY_HAND = [
    ["hello", {"ORDERING": "'opic'"}, {"allow": None, "seeds": [URL]}],
    ["add", entry_row(QueueEntry(URL, URL, "a.test", 1, 2, b'{"url":"http://a.test/1"}'))],
    ["add_seeds", [URL]],
    ["begun", 7],
    ["observe", 7, visit_row(PageVisit(PAIRS, False, 1e9, 0.5, "", ["{}"], EXCHANGE))],
    ["put_back", 7, None, 3],
    ["release_site", 7],
    ["started", "a.test", True],
    ["ended", "a.test", [True, 0.1, 200, 9, 1.0]],
    ["set_delay", "a.test", 1.5],
    ["refused", "too-deep", 3, [URL]],
    ["archive", json.loads(written([EXCHANGE]))[0]],
    ["stats", {"downloader/request_count": 3}],
    ["scope", URL],
    ["bye"],
]
BY_COORDINATOR = [
    ["lease", leased_page_row(LeasedPage(7, URL, 1, None)), "", [1, None, "a.test"]],
    ["scope", URL],
    ["end", "finished"],
    ["lost", [7]],
    ["revoked_below", 7],
    ["may", 1, ""],
    ["refuse", "why"],
    ["status", 5, 1, 0.5, 3],
]
FROM_WORKER = from_worker(lambda data: b"url" in data)
FROM_COORDINATOR = from_coordinator(lambda data: b"url" in data)
LEASES, ASKS = [[7, 1, None, 0], [8, 2, 3, 1]], [[1, "http://a.test/image", "agent", True, ""]]

DEEP = "deep"
ODD = [
    *(None, True, False, 0, -1, 1.5, -0.5, 2**31, 2**63, -(2**70), 10**400, 1e308, math.inf),
    *(-math.inf, math.nan, "", "x", "\ud800", "\x00", "\x1b[31m", "http://[", "//", "x" * 10_000),
    *([], {}, [[]], [None], {"": None}, [[[[]]]], ["\udfff"], DEEP),
]
"""Values of which most are wrong wherever they stand."""


def places(found, path=()):
    """Yield the path of each value in JSON."""
    yield path
    if isinstance(found, dict | list):
        for at in found if isinstance(found, dict) else range(len(found)):
            yield from places(found[at], (*path, at))


def changed(found, rng):
    """Return JSON in which one thing is another, is missing, is there twice, or is odd."""
    found = copy.deepcopy(found)
    path = rng.choice([path for path in places(found) if path])
    holder = found
    for at in path[:-1]:
        holder = holder[at]
    deed = rng.random()
    if deed < 0.7:
        holder[path[-1]] = rng.choice(ODD)
    elif deed < 0.85:
        del holder[path[-1]]
    elif isinstance(holder, list):
        holder.insert(path[-1], rng.choice([*ODD, *holder]))
    else:
        holder[rng.choice(["x", ""])] = rng.choice(ODD)
    return found


def body_of(found):
    return json.dumps(found).encode().replace(b'"deep"', b"[" * 5_000 + b"]" * 5_000)


@pytest.mark.parametrize("kind", ["hand", "coordinator"])
def test_whatever_is_written_to_a_mailbox_is_a_message_or_is_refused_as_none(kind):
    rng = random.Random(7)
    print("seed 7")
    statements, schema = {
        "hand": (BY_HAND, FROM_WORKER),
        "coordinator": (BY_COORDINATOR, FROM_COORDINATOR),
    }[kind]
    whole = (
        [5, 1, 3.5, statements] if kind == "coordinator" else [3.5, 4, 1, LEASES, ASKS, statements]
    )
    read = coordinator_message if kind == "coordinator" else worker_message
    assert len(read(body_of(whole), schema).statements) == len(statements)
    n_refused = 0
    for _ in range(3_000):
        try:
            read(body_of(changed(whole, rng)), schema)
        except ValueError:
            n_refused += 1
    assert n_refused > 1_500
    for body in (b"", b"{", b"{}", b"[]", b"1", b"null", b"\xff", b"\x80\x04p", b"9" * 5_000):
        with pytest.raises(ValueError, match=r"."):
            read(body, schema)
    with pytest.raises(ValueError, match="nested too deeply"):
        read(b"[" * 200_000, schema)


def test_a_coordinator_survives_any_statements_that_pass_as_those_of_a_worker(tmp_path):
    rng = random.Random(11)
    print("seed 11")
    settings = {"ORDERING": "breadth-first", "JOBDIR": str(tmp_path), "DOWNLOAD_DELAY": 0}
    coordinator = Coordinator(local_frontier({**settings, "CRAWLPRIO_STORE": "crawl.sqlite"}))
    coordinator.frontier.add_seeds([f"http://{name}.test/" for name in "abcd"])
    hand, now, n_carried_out = Worker(lambda statements: None), 0.0, 0
    statements = [each for each in BY_HAND if each[0] in coordinator.handlers]
    for _ in range(2_000):
        now += 10.0
        leased_page = coordinator.frontier.next_page(now)
        if leased_page is not None:
            coordinator.lease(hand, leased_page)
        statement = copy.deepcopy(rng.choice(statements))
        if type(statement[1]) is int:
            statement[1] = rng.choice([*hand.leases, 7])
        if rng.random() < 0.8:
            statement = changed(statement, rng)
        with suppress(ValueError):
            said = worker_message(body_of([3.5, 4, 1, [], [], [statement]]), FROM_WORKER)
            kind, *values = said.statements[0]
            if kind in coordinator.handlers:
                n_carried_out += 1
                coordinator.handlers[kind](hand, *values)
    coordinator.died(hand)
    coordinator.frontier._recorder.flush()
    assert n_carried_out > 300
    assert not coordinator.n_leased
    while (leased_page := coordinator.frontier.next_page(now := now + 1e6)) is not None:
        coordinator.frontier.observe(leased_page.lease, PageVisit(LinkPairs(leased_page.url, [])))
    coordinator.frontier._recorder.close()


@pytest.mark.parametrize("name", [b"", b"\xff", b"a\nb", b"\x1b[31m", b"x" * 301])
def test_what_is_no_name_of_a_worker_is_refused(name):
    with pytest.raises(ValueError, match=r"name of a worker|decode"):
        name_of_worker(name)


@pytest.mark.parametrize("number", [b"", b"abc", b"-1", b"1.0", b" 1", b"1_0", b"9" * 20, b"\xff"])
def test_what_is_no_number_of_a_message_is_refused(number):
    with pytest.raises(ValueError, match="number of a message"):
        number_of(number)


def foreign_messages(worker):
    """Return messages of others to a coordinator: name, number and body."""
    hello = [1.0, 9, 0, [], [], [BY_HAND[0]]]
    good = [1.0, 9, 0, [], [], []]
    of_worker = [
        [1e300, *good[1:]],
        *([*good[:at], odd, *good[at + 1 :]] for at in range(6) for odd in (None, "x", -1, {})),
        *([*good[:3], [leases], *good[4:]] for leases in (5, [1], [1, 2, 3, 4], ["a"] * 4)),
        *([*good[:5], [each]] for each in (5, [], ["x"], ["_hear"], ["bye", 1], ["observe", 1, 2])),
        [*good[:5], [["add", ["i", "u", "s", 0, 0, None, False, False, None]]]],
        [*good[:5], [["add", [URL, URL, "a.test", 0, 0, '{"url": 1}', False, False, None]]]],
        [*good[:5], [["links", URL, 1, 0.5, 3, [URL], [], False]]],
        [*good[:5], [["ended", "a.test", [True, math.nan, 200, 9, 1.0]]]],
        [*good[:5], [["observe", 1, BY_HAND[4][2][:-1]]]],
    ]
    bodies = [*map(body_of, of_worker), b"", b"\xff", b"[" * 100_000, b"9" * 5_000]
    bodies.remove(b"")
    for body in bodies:
        for number in (b"1", b"2", b"1000"):
            yield worker, number, body
        yield b"stranger", b"1", body
    for name in (b"\xff\xfe", b"a\x1b[31m", b"x" * 10_000):
        yield name, b"1", body_of(hello)
    for number in (b"", b"abc", b"-1", b"1.5", b"9" * 400):
        yield worker, number, body_of(good)
    yield b"", b"1", body_of(hello)
    yield b"stranger", b"1", body_of([*good[:5], [BY_HAND[2]]])
    yield b"stranger", b"2", body_of([*good[:5], [BY_HAND[0]]])


def test_no_message_of_others_costs_a_page_a_second_fetch_or_a_term(crawl):
    crawl.term = 60.0
    crawl.start(1, SCHEDULER_PERSIST=False)
    crawl.wait_for_fetches(20)
    prefix, (hand,) = crawl.streams.prefix, crawl.coordinator_hears()
    messages = [*foreign_messages(hand)]
    for name, number, body in messages:
        crawl.client.xadd(f"{prefix}:in", {"h": name, "n": number, "b": body})
    answers = [b"", b"\xff", b"{}", b"[1]", b"[" * 100_000]
    of_coordinator = [2**62, 0, 1.0, [["status", 0, 0, None, 0]]]
    answers += [
        body_of(of_coordinator),
        body_of([2**40, 10**6, 1.0, []]),
        body_of([2**61, 0, 1e300, []]),
    ]
    for kind in (["x"], ["end"], ["end", 5], ["lost", 7], ["lease", 1, 2, 3], ["status", "x"]):
        answers.append(body_of([2**60, 0, 1.0, [kind]]))
    for body in answers:
        crawl.client.xadd(f"{prefix}:out:{hand.decode()}", {"b": body})
    crawl.client.xadd(f"{prefix}:in", {"other": "fields", "b": b"?"})
    crawl.client.hset(f"{prefix}:crawl", mapping={b"\xff": b"\xff", "state": "\x1b[31mfrozen"})
    began = len(crawl.web.seen)
    crawl.end_whole()
    assert began < crawl.web.n_pages
    said = crawl.said()
    assert "Traceback" not in said
    assert said.count("is none of crawlprio") == len(messages) + len(answers) + 1
    assert "\x1b" not in said
    assert crawl.client.keys("*") == []
