"""What a coordinator makes of what hands say, and of their deaths."""

import math
from time import monotonic

import pytest
from shared_frontier import heard, local_frontier, said, say

from crawlprio.frontier.protocol import HttpRecord, LeasedPage, PageVisit, QueueEntry
from crawlprio.items import Directives, LinkPairs, TextNotes
from crawlprio.plugins.shared.coordinator import MOST_DEATHS, Coordinator, Worker
from crawlprio.plugins.shared.messages import (
    ENDED,
    FETCHING,
    OF_ONE_COORDINATOR,
    UNSTARTED,
    entry_row,
    leased_page_row,
    visit_row,
)
from crawlprio.plugins.shared.worker_frontier import WorkerFrontier
from crawlprio.store.outcomes import DIED

URL = "http://a.test/1"


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
        exchange = HttpRecord(URL, 1.5, 200, "text/html", *records, ["http://a.test/style.css"])
        pairs.extras["bodies"] = (b"\xff\x00body",)
        visit = PageVisit(pairs, True, 1e9, 0.5, "cause", ['{"item":1}'], exchange)
        arrived = said(["observe", 7, visit_row(visit)])
        assert arrived == [["observe", 7, visit]]
        assert arrived[0][2].pairs.extras == pairs.extras
        for notes, value in ((None, None), (TextNotes(), 0.0)):
            plain = PageVisit(LinkPairs(URL, [], notes=notes, value=value))
            assert said(["observe", 7, visit_row(plain)])[0][2]._replace(items=()) == plain

    def test_entries_and_handouts_arrive_as_they_were_sent(self):
        entry = QueueEntry(URL, URL, "a.test", 3, -2, b'{"url": "x"}', True, True)
        assert said(["add", entry_row(entry)]) == [["add", entry]]
        leased_page = LeasedPage(7, URL, 2, None)
        key = [1, None, "a.test"]
        assert heard(["lease", leased_page_row(leased_page), "", key]) == [
            ["lease", leased_page, "", key]
        ]


class TestDeaths:
    @pytest.fixture
    def coordinator(self):
        settings = {"ORDERING": "breadth-first", "DOWNLOAD_DELAY": 1000}
        coordinator = Coordinator(local_frontier({**settings, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}))
        coordinator.frontier.add_seeds([URL])
        return coordinator

    def leased(self, coordinator, now):
        worker = Worker(lambda statements: None)
        leased_page = coordinator.frontier.next_page(now)
        coordinator.lease(worker, leased_page)
        return worker, leased_page

    def test_the_page_of_a_dead_worker_waits_again_and_its_site_rests(self, coordinator):
        worker, _ = self.leased(coordinator, monotonic())
        say(coordinator, worker, ["started", "a.test", True])
        assert coordinator.holds("a.test")
        coordinator.died(worker)
        assert not coordinator.holds("a.test")
        assert len(coordinator.frontier) == 1
        assert coordinator.frontier.next_page(monotonic()) is None
        assert coordinator.frontier.ready_at() > monotonic() + 900
        assert self.leased(coordinator, monotonic() + 2000)[1].url == URL

    def die(self, coordinator, n, *statements):
        """Let workers die that had leased the page, after `statements`; return all visits."""
        now, visits, observe = monotonic(), [], coordinator.frontier.observe
        coordinator.frontier.observe = lambda lease, visit: (
            visits.append(visit) or observe(lease, visit)
        )
        for _ in range(n):
            now += 2000
            worker, leased_page = self.leased(coordinator, now)
            say(
                coordinator,
                worker,
                *([kind, leased_page.lease, *rest] for kind, *rest in statements),
            )
            coordinator.died(worker)
        return visits

    def test_deaths_of_workers_that_had_not_begun_to_fetch_a_page_do_not_count_against_it(
        self, coordinator
    ):
        assert self.die(coordinator, 3 * MOST_DEATHS) == []
        assert (len(coordinator.frontier), coordinator.deaths) == (1, {})

    def test_a_page_fails_with_the_third_worker_that_dies_while_it_fetches_it(self, coordinator):
        visits = self.die(coordinator, MOST_DEATHS, ["begun"])
        assert [visit.error for visit in visits] == [DIED]
        assert len(coordinator.frontier) == 0
        assert coordinator.dead_letters == [URL]

    def test_what_an_earlier_coordinator_leased_counts_if_its_fetch_has_begun(self, coordinator):
        for progress, n_deaths in ((UNSTARTED, 0), (FETCHING, 1), (ENDED, 2)):
            leased_page = coordinator.frontier.next_page(monotonic() + 1e6)
            row = [leased_page.lease, leased_page.page, leased_page.number, progress]
            coordinator.frontier.put_back(leased_page.lease)
            worker = Worker(lambda statements: None, n_sent=2**40)
            coordinator.reconcile_leases(worker, 0, [row])
            coordinator.died(worker)
            assert coordinator.deaths[URL] == n_deaths

    def test_a_page_that_a_worker_never_got_waits_again_and_is_not_about_to_start(
        self, coordinator
    ):
        worker, _ = self.leased(coordinator, monotonic())
        assert coordinator.starting["a.test"] == 1
        coordinator.reconcile_leases(worker, 0, [])
        assert coordinator.starting["a.test"] == 1, "it may be on its way"
        coordinator.reconcile_leases(worker, 1, [])
        assert (coordinator.starting["a.test"], worker.starting["a.test"]) == (0, 0)
        assert self.leased(coordinator, monotonic() + 2000)[1].url == URL

    def test_a_page_of_an_earlier_coordinator_is_adopted_unless_its_worker_was_taken_for_dead(
        self, coordinator
    ):
        leased_page = coordinator.frontier.next_page(monotonic())
        row = [leased_page.lease, leased_page.page, leased_page.number, FETCHING]
        coordinator.frontier.put_back(leased_page.lease)
        said = []
        worker = Worker(said.extend, n_sent=OF_ONE_COORDINATOR)
        coordinator.reconcile_leases(worker, 0, [row])
        assert (len(coordinator.frontier), [*worker.leases], said) == (0, [leased_page.lease], [])
        assert not coordinator.frontier.clock.has_room("a.test")
        coordinator.died(worker)
        coordinator.reconcile_leases(worker, 0, [row])
        assert (len(coordinator.frontier), said) == (1, [["lost", [leased_page.lease]]])
        say(coordinator, worker, ["ended", "a.test", [True, 0.1, 200, 9, None]])
        assert coordinator.frontier.clock.has_room("a.test")

    def test_what_a_worker_says_of_a_page_that_it_has_lost_is_ignored(self, coordinator):
        worker, leased_page = self.leased(coordinator, monotonic())
        coordinator.died(worker)
        row = visit_row(PageVisit(LinkPairs(URL, ["http://a.test/2"])))
        for kind, *values in (["observe", row], ["put_back", None, 1], ["release_site"]):
            say(coordinator, worker, [kind, leased_page.lease, *values])
        assert len(coordinator.frontier) == 1
        assert coordinator.frontier._recorder.figures.n_fetched == 0

    def test_only_methods_of_the_clock_can_be_called(self, coordinator):
        worker = Worker(lambda statements: None)
        for statement in (["restore"], ["_save", 0]):
            with pytest.raises(ValueError, match="expected one of the statements"):
                say(coordinator, worker, statement)


def test_a_page_whose_workers_died_waits_again_on_resume_and_counts_as_failed_until_then(tmp_path):
    settings = {"ORDERING": "breadth-first", "JOBDIR": str(tmp_path), "DOWNLOAD_DELAY": 0}
    settings["CRAWLPRIO_STORE"] = "crawl.sqlite"
    frontier = local_frontier(settings)
    frontier.add_seeds([URL, "http://b.test/"])
    for error in (DIED, "timed out"):
        leased_page = frontier.next_page(monotonic() + 1e6)
        frontier.observe(
            leased_page.lease, PageVisit(LinkPairs(leased_page.url, [], status=0), error=error)
        )
    assert len(frontier) == 0
    assert frontier._recorder.figures.failures.total() == 2
    frontier._recorder.close()
    again = local_frontier(settings)
    assert [again.next_page(monotonic() + 1e6).url, len(again)] == [URL, 0]
    again._recorder.close()


def test_a_domain_has_at_most_half_of_the_fetches_of_all_workers():
    settings = {"ORDERING": "breadth-first", "DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS": 4}
    coordinator = Coordinator(local_frontier(settings))
    many = [f"http://{n}.evil.test/" for n in range(2_000)]
    coordinator.frontier.add_seeds([*many, "http://good.test/", "http://other.test/"])
    workers = [Worker(lambda statements: None) for _ in range(3)]
    coordinator.frontier.leases.share_between(12)  # what three workers of four fetches each want
    left = []
    while (leased_page := coordinator.frontier.next_page(monotonic())) is not None:
        coordinator.lease(workers[len(left) % 3], leased_page)
        left.append(leased_page.url)
    assert left == [*many[:6], "http://good.test/", "http://other.test/"]


def test_a_worker_drops_what_it_had_before_it_was_taken_for_dead():
    class User:
        def page_ready(self):
            pass

        def lease_lost(self, lease):
            lost.append(lease)

    frontier, lost = WorkerFrontier(lambda statement: None), []
    frontier.attach(User())
    for lease in (5, 6):
        leased_page = leased_page_row(LeasedPage(lease, URL, 0, None))
        frontier.received(heard(["lease", leased_page, "", [1, None, "a.test"]])[0])
    frontier.received(["revoked_below", 6])
    assert lost == [5]
    assert [row[0] for row in frontier.listed()] == [*frontier.held] == [6]


def test_a_worker_waits_for_its_coordinator_and_not_for_the_time_at_which_a_page_was_due():
    """Without an answer, say while the server is down, that time passes; it must not be idle."""
    frontier = WorkerFrontier(lambda statement: None)
    frontier.received(["status", 5, 0, -1.0, 0])
    assert (len(frontier), frontier.next_page(monotonic())) == (5, None)
    assert frontier.ready_at() == math.inf
    frontier.received(["lease", LeasedPage(1, URL, 0, None), "", [1, None, "a.test"]])
    assert frontier.ready_at() <= monotonic()
