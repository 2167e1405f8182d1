"""What a worker makes of what a brain says through Redis: echoes, numbers and generations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crawlprio.plugins.shared import post
from crawlprio.plugins.shared.messages import Statement
from crawlprio.plugins.shared.post import ALIVE_SHARE, HandPost

TERM = 60.0


class Silent:
    """A mailbox of a server that never answers."""

    def send(self, *_: Any) -> None:
        """Take it."""

    def answers(self, *_: Any, **__: Any) -> Any:
        raise post._Closed


class Talk:
    """A hand's post, and a brain that a test speaks for; `now` is the hand's clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.sent: list[tuple[int, list[Statement]]] = []
        self.heard: list[Statement] = []
        self.failures: list[Exception] = []
        self._n_answers: dict[int, int] = {}
        monkeypatch.setattr(post, "boot_time", lambda: self.now)
        self.post = HandPost(
            Silent,  # type: ignore[arg-type]
            "hand",
            TERM,
            wants=lambda: 4,
            heard=self.heard.extend,
            has=lambda: [[7, [1, None], False]],
            call_from_thread=lambda action, *arguments: action(*arguments),
            failed=self.failures.append,
        )
        put = self.post._outgoing.put

        def note(messages: Any) -> None:
            for number, body in messages or ():
                self.sent.append((number, json.loads(body)[2]))
            put(messages)

        monkeypatch.setattr(self.post, "_outgoing", type("Q", (), {"put": staticmethod(note)}))

    def answer(
        self, heard: int, echo: float, *said: Statement, generation: int = 1, skip: int = 0
    ) -> None:
        number = self._n_answers.get(generation, 0) + 1 + skip
        self._n_answers[generation] = number
        self.post._arrived([json.dumps([generation, number, heard, echo, said]).encode()])

    def last(self) -> tuple[int, list[Statement]]:
        return self.sent[-1]


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Talk:
    return Talk(monkeypatch)


def test_fetches_start_within_two_thirds_of_a_term_after_what_the_brain_has_heard(
    talk: Talk,
) -> None:
    talk.post.say([["hello", {}, {}]])
    assert not talk.post.is_alive
    talk.answer(1, 1000.0, ["held"])
    talk.now += ALIVE_SHARE * TERM - 0.1
    assert talk.post.is_alive
    talk.now += 0.2
    assert not talk.post.is_alive


def test_an_old_answer_does_not_confirm_the_leases_of_a_hand_that_was_stopped(talk: Talk) -> None:
    talk.post.say([["hello", {}, {}]])
    talk.answer(1, 1000.0, ["held"])
    talk.now += 10 * TERM
    talk.answer(1, 1001.0)
    assert not talk.post.is_alive
    talk.answer(1, talk.now)
    assert talk.post.is_alive


def test_what_a_brain_has_not_heard_though_it_heard_something_later_is_said_again(
    talk: Talk,
) -> None:
    talk.post.say([["scope", "one"]])
    talk.now += 1.0
    talk.post.say([["scope", "two"]])
    talk.now += 1.0
    talk.answer(0, 1000.0)
    assert len(talk.sent) == 2
    talk.answer(0, 1000.5)
    assert [number for number, _ in talk.sent] == [1, 2, 1, 2]
    talk.answer(0, 1001.5)
    assert len(talk.sent) == 4
    talk.answer(2, talk.now)
    assert talk.post.is_heard


def test_a_hand_that_misses_an_answer_says_what_it_has_and_waits_for_agreement(
    talk: Talk,
) -> None:
    talk.post.say([["hello", {}, {}]])
    talk.answer(1, 1000.0, ["held"])
    talk.now += 1.0
    talk.answer(1, 1000.5, skip=1)
    assert talk.last() == (2, [["holds", 3, [[7, [1, None], False]]]])
    assert not talk.post.is_alive
    talk.answer(1, 1000.9, ["held"])
    assert not talk.post.is_alive
    talk.answer(2, talk.now, ["held"])
    assert talk.post.is_alive


def test_a_new_brain_is_told_what_the_hand_has_and_the_old_one_is_not_heard(talk: Talk) -> None:
    talk.post.say([["hello", {}, {}]])
    talk.answer(1, 1000.0, ["held"])
    talk.now += 1.0
    talk.answer(1, 0.0, ["hold"], generation=2)
    assert talk.last() == (2, [["holds", 1, [[7, [1, None], False]]]])
    talk.heard.clear()
    talk.answer(1, 1001.0, ["lease", "of the old one"])
    assert talk.heard == []
    assert not talk.post.is_alive
    talk.answer(2, 1001.0, ["held"], generation=2)
    assert talk.post.is_alive


def test_a_new_brain_whose_first_message_is_lost_is_told_too(talk: Talk) -> None:
    talk.post.say([["hello", {}, {}]])
    talk.answer(1, 1000.0, ["held"])
    talk.answer(1, 1000.0, generation=2, skip=1)
    assert talk.last()[1][0][0] == "holds"
    assert not talk.post.is_alive


def test_a_hand_notices_that_its_brain_has_an_older_store(talk: Talk) -> None:
    talk.post.say([["hello", {}, {}]])
    talk.answer(1, 1000.0, ["held"])
    talk.post.say([["scope", "one"]])
    talk.answer(0, 0.0, ["hold"], generation=2)
    assert talk.failures == []
    talk.now += 5.0
    talk.answer(0, talk.now, generation=2)
    assert "older copy" in str(talk.failures[0])


def test_what_is_said_twice_is_heard_once(talk: Talk) -> None:
    talk.answer(0, 0.0, ["status", 1, 2, 3, 4])
    talk.post._arrived([json.dumps([1, 1, 0, 0.0, [["status", 5, 6, 7, 8]]]).encode()])
    talk.post._arrived([b"{", b"[1]"])
    assert talk.heard == [["status", 1, 2, 3, 4]]
