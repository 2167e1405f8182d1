"""What a brain makes of what hands say, and of their deaths."""

import math
from time import monotonic

import pytest
from shared_frontier import local_frontier

from crawlprio.frontier.protocol import Entry, Exchange, Handout, PageVisit
from crawlprio.items import Directives, LinkPairs, TextNotes
from crawlprio.plugins.shared.brain import Brain, Hand
from crawlprio.plugins.shared.hand_frontier import HandFrontier
from crawlprio.plugins.shared.messages import (
    FETCHING,
    OF_ONE_BRAIN,
    entry_row,
    handout_row,
    read,
    row_entry,
    row_handout,
    row_visit,
    visit_row,
    written,
)

URL = "http://a.test/1"


def sent(row):
    """A row as the other side gets it."""
    return read(written([["said", row]]))[0][1]


class TestMessages:
    def test_a_visit_arrives_as_it_was_sent(self):
        pairs = LinkPairs(
            URL,
            ["http://a.test/2", "http://a.test/\udc80"],
            anchors=["zwei", ""],
            outside=[("http://b.test/", "außen")],
            status=404,
            title="\x00title",
            text="Text " * 1000,
            content_hash=-(2**63),
            n_bytes=2**40,
            directives=Directives("noindex", "a", "b", "c"),
            value=0.25,
            notes=TextNotes("de", "de-DE", "licence"),
            fingerprint=2**63 - 1,
        )
        records = b"\x00\xff", True, b"answer", b"question"
        exchange = Exchange(URL, 1.5, 200, "text/html", *records, ["http://a.test/style.css"])
        visit = PageVisit(pairs, True, 1e9, 0.5, "cause", ['{"item":1}'], exchange, b"\xff\x00body")
        assert row_visit(sent(visit_row(visit))) == visit
        for notes, value in ((None, None), (TextNotes(), 0.0)):
            plain = PageVisit(LinkPairs(URL, [], notes=notes, value=value))
            assert row_visit(sent(visit_row(plain)))._replace(items=()) == plain

    def test_entries_and_handouts_arrive_as_they_were_sent(self):
        entry = Entry(URL, URL, "a.test", 3, -2, b'{"url": "x"}', True, True)
        assert row_entry(sent(entry_row(entry))) == entry
        handout = Handout(7, URL, 2, None)
        assert row_handout(sent(handout_row(handout))) == handout

    @pytest.mark.parametrize("message", [b"", b"{}", b"[1]", b"[[]]", b"[[1]]", b"\xff"])
    def test_what_is_no_message_is_refused(self, message):
        with pytest.raises(ValueError, match=r"message|Expecting|decode"):
            read(message)


class TestDeaths:
    @pytest.fixture
    def brain(self):
        settings = {"ORDERING": "breadth-first", "DOWNLOAD_DELAY": 1000}
        brain = Brain(local_frontier({**settings, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}))
        brain.frontier.add_seeds([URL])
        return brain

    def leased(self, brain, now):
        hand = Hand(lambda statements: None)
        handout = brain.frontier.next_page(now)
        brain.lease(hand, handout)
        return hand, handout

    def test_the_page_of_a_dead_hand_waits_again_and_its_site_rests(self, brain):
        hand, _ = self.leased(brain, monotonic())
        brain.received(hand, [["clock", "started", ["a.test"], {"was_handed_out": True}]])
        assert brain.holds("a.test")
        brain.died(hand)
        assert not brain.holds("a.test")
        assert len(brain.frontier) == 1
        assert brain.frontier.next_page(monotonic()) is None
        assert brain.frontier.ready_at() > monotonic() + 900
        assert self.leased(brain, monotonic() + 2000)[1].url == URL

    def test_a_page_that_a_hand_never_got_waits_again_and_is_not_about_to_start(self, brain):
        hand, _ = self.leased(brain, monotonic())
        assert brain.starting["a.test"] == 1
        brain.agree(hand, 0, [])
        assert brain.starting["a.test"] == 1, "it may be on its way"
        brain.agree(hand, 1, [])
        assert (brain.starting["a.test"], hand.starting["a.test"]) == (0, 0)
        assert self.leased(brain, monotonic() + 2000)[1].url == URL

    def test_a_page_of_an_earlier_brain_is_adopted_unless_its_hand_was_taken_for_dead(self, brain):
        handout = brain.frontier.next_page(monotonic())
        row = [handout.lease, *brain.frontier.key_of(handout.lease), FETCHING]
        brain.frontier.put_back(handout.lease)
        said = []
        hand = Hand(said.extend, n_sent=OF_ONE_BRAIN)
        brain.agree(hand, 0, [row])
        assert (len(brain.frontier), [*hand.leases], said) == (0, [handout.lease], [])
        assert not brain.frontier.clock.has_room("a.test")
        brain.died(hand)
        brain.agree(hand, 0, [row])
        assert (len(brain.frontier), said) == (1, [["lost", [handout.lease]]])
        ended = {"was_handed_out": True, "elapsed": 0.1, "status": 200, "retry_after": None}
        brain.received(hand, [["clock", "ended", ["a.test"], ended]])
        assert brain.frontier.clock.has_room("a.test")

    def test_what_a_hand_says_of_a_page_that_it_has_lost_is_ignored(self, brain):
        hand, handout = self.leased(brain, monotonic())
        brain.died(hand)
        row = visit_row(PageVisit(LinkPairs(URL, ["http://a.test/2"])))
        for said in (["observe", row], ["put_back", None, 1], ["release_site"]):
            brain.received(hand, [[said[0], handout.lease, *said[1:]]])
        assert len(brain.frontier) == 1
        assert brain.frontier._recorder.figures.n_fetched == 0

    def test_only_methods_of_the_clock_can_be_called(self, brain):
        hand = Hand(lambda statements: None)
        brain.received(hand, [["clock", "restore", [], {}], ["clock", "_save", [0], {}]])


def test_a_domain_has_at_most_half_of_the_fetches_of_all_hands():
    settings = {"ORDERING": "breadth-first", "DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS": 4}
    brain = Brain(local_frontier(settings))
    many = [f"http://{n}.evil.test/" for n in range(2_000)]
    brain.frontier.add_seeds([*many, "http://good.test/", "http://other.test/"])
    hands = [Hand(lambda statements: None) for _ in range(3)]
    brain.frontier.share_between(12)  # what three workers of four fetches each want
    left = []
    while (handout := brain.frontier.next_page(monotonic())) is not None:
        brain.lease(hands[len(left) % 3], handout)
        left.append(handout.url)
    assert left == [*many[:6], "http://good.test/", "http://other.test/"]


def test_a_hand_drops_what_it_had_before_it_was_taken_for_dead():
    frontier, lost = HandFrontier(lambda shard, statement: None), []
    frontier.on_lost = lost.append
    for lease in (5, 6):
        handout = handout_row(Handout(lease, URL, 0, None))
        frontier.received(0, ["lease", handout, "", [1, None, "a.test"]])
    frontier.received(0, ["lost_below", 6])
    assert lost == [5]
    assert [row[0] for row in frontier.listed(0)] == [*frontier.held] == [6]


def test_a_hand_waits_for_its_brain_and_not_for_the_time_at_which_a_page_was_due():
    """Without an answer, say while the server is down, that time passes; it must not be idle."""
    frontier = HandFrontier(lambda shard, statement: None)
    frontier.received(0, ["status", 5, 0, -1.0, 0])
    assert (len(frontier), frontier.next_page(monotonic())) == (5, None)
    assert frontier.ready_at() == math.inf
    frontier.received(0, ["lease", handout_row(Handout(1, URL, 0, None)), "", [1, None, "a.test"]])
    assert frontier.ready_at() <= monotonic()
