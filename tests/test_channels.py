"""What a worker makes of what a coordinator says through Redis: echoes and numbers."""

import json

import pytest

from crawlprio.plugins.shared import channels
from crawlprio.plugins.shared.channels import ALIVE_SHARE, REST_SHARE, WorkerChannel
from crawlprio.plugins.shared.messages import OF_ONE_COORDINATOR, from_coordinator

TERM = 60.0


class Talk:
    """What carries a worker's post, to a coordinator that a test speaks for; `now` is the worker's
    clock.
    """

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.sent, self.failures, self.heard = [], [], []
        self.failed = self.failures.append
        self.leases = [[7, 1, None, 0]]
        self.n_answers = OF_ONE_COORDINATOR
        monkeypatch.setattr(channels, "boot_time", lambda: self.now)
        schema = from_coordinator(lambda data: True)
        self.channel = WorkerChannel(self, TERM, schema, has=self.has, arrived=self.heard.extend)

    def has(self):
        return 4, self.leases, []

    def send(self, messages):
        self.sent += [(number, json.loads(body)) for number, body in messages]

    def answer(self, n_read, echo, *said, skip=0):
        """Say something as the coordinator, after messages that are lost, and return its number."""
        self.n_answers += 1 + skip
        self.channel.arrived([json.dumps([self.n_answers, n_read, echo, said]).encode()])
        return self.n_answers


@pytest.fixture
def talk(monkeypatch):
    """The worker has said hello, and the coordinator has heard it."""
    talk = Talk(monkeypatch)
    talk.channel.say([["hello", {}, {}]])
    assert not talk.channel.is_alive
    talk.answer(1, 1000.0)
    talk.sent.clear()
    return talk


def test_a_worker_whose_clock_is_years_behind_is_heard_and_hears(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 0.0)
    talk = Talk(monkeypatch)
    talk.channel.say([["hello", {}, {}]])
    talk.n_answers = 2_000_000_000 * OF_ONE_COORDINATOR
    talk.answer(1, 1000.0)
    assert talk.channel.is_alive
    talk.answer(1, 1000.0, ["status", 1, 2, 3, 4], skip=2**61)  # of no coordinator
    assert talk.heard == []


def test_fetches_start_within_two_thirds_of_a_term_after_what_the_coordinator_has_heard(talk):
    talk.now += ALIVE_SHARE * TERM - 0.1
    assert talk.channel.is_alive
    talk.now += 0.2
    assert not talk.channel.is_alive


def test_a_worker_gives_fewer_signs_of_life_while_it_has_nothing_and_all_is_heard(talk):
    assert talk.channel.is_due
    talk.leases.clear()
    assert not talk.channel.is_due
    talk.now += REST_SHARE * TERM
    assert talk.channel.is_due
    talk.channel.say([["scope", "one"]])
    assert talk.channel.is_due, "the coordinator may not have heard it"
    talk.answer(2, talk.now)
    assert not talk.channel.is_due


def test_no_answer_confirms_leases_that_is_old_or_lacks_something_said_before_its_echo(talk):
    talk.now += 10 * TERM
    talk.answer(1, 1001.0)
    assert not talk.channel.is_alive
    talk.channel.say([["scope", "one"]])
    talk.answer(1, talk.now)
    assert not talk.channel.is_alive
    talk.answer(2, talk.now)
    assert talk.channel.is_alive


def test_what_a_coordinator_has_not_heard_though_it_heard_something_later_is_said_again(talk):
    for text in ("one", "two"):
        talk.now += 1.0
        talk.channel.say([["scope", text]])
    talk.now += 1.0
    talk.answer(1, 1001.0)
    assert [number for number, _ in talk.sent] == [2, 3]
    talk.answer(1, 1001.5)
    first, second, *again = [(number, message[1:]) for number, message in talk.sent]
    assert again == [first, second]
    talk.answer(1, 1002.5)
    assert len(talk.sent) == 4
    talk.answer(3, talk.now)
    assert talk.channel.is_acknowledged


def test_each_message_lists_what_the_worker_has_and_the_last_that_it_has_heard(talk):
    number = talk.answer(1, 1000.5, skip=1)
    talk.channel.say([["scope", "one"]])
    talk.channel.say([])
    has = [4, number, [[7, 1, None, 0]], []]
    assert talk.sent == [(2, [1000.0, *has, [["scope", "one"]]]), (2, [1000.0, *has, []])]


@pytest.mark.parametrize("n_lost", [0, 1])
def test_a_new_coordinator_is_told_at_once_and_the_old_one_is_not_heard(talk, n_lost):
    before = talk.n_answers
    talk.n_answers = 2 * OF_ONE_COORDINATOR
    number = talk.answer(1, 0.0, skip=n_lost)
    assert [(n, message[2], message[-1]) for n, message in talk.sent] == [(1, number, [])]
    talk.n_answers = before
    talk.answer(1, 1001.0, ["lease", "of the old one"])
    assert talk.heard == []


def test_a_worker_notices_that_its_coordinator_has_an_older_store(talk):
    talk.n_answers = 2 * OF_ONE_COORDINATOR
    talk.answer(0, 0.0)
    assert talk.failures == []
    talk.channel.say([["scope", "one"]])
    talk.now += 5.0
    talk.answer(0, talk.now)
    assert "older copy" in str(talk.failures[0])


def test_what_is_said_twice_is_heard_once(talk):
    number = talk.answer(0, 0.0, ["status", 1, 2, 3, 4])
    talk.channel.arrived([json.dumps([number, 0, 0.0, [["status", 5, 6, 7, 8]]]).encode()])
    talk.channel.arrived([b"{", b"[1]"])
    assert talk.heard == [["status", 1, 2, 3, 4]]
