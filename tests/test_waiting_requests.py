"""The requests of a crawl with a job directory: each leaves the frontier once, whatever happens.

The model is a list of requests by page. What a turn of the event loop observes is committed at its
end, so every step may come before or after that.
"""

import json
import random
from collections import defaultdict

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from crawlprio.frontier.protocol import PageVisit, QueueEntry
from crawlprio.items import LinkPairs
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.request_json import RequestNotStorable, Unheld, to_json
from crawlprio.live.requests import Identities
from crawlprio.settings_table.config import CrawlConfig

URLS = [f"http://{site}.test/{number}" for site in "ab" for number in range(2)]


class Job:
    """A frontier with a job directory, and control over the ends of its event-loop turns."""

    def __init__(self, folder, **settings):
        self._folder = folder
        self._settings = settings
        self._spider = Spider(name="waiting")
        self._due = []
        self._n_requests = 0
        self.open()

    def open(self):
        crawler = get_crawler(
            settings_dict={
                "ORDERING": "breadth-first",
                "JOBDIR": str(self._folder),
                "CRAWLPRIO_STORE": "crawl.sqlite",
                "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
                "DOWNLOAD_DELAY": 0,
                **self._settings,
            }
        )
        config = CrawlConfig.from_settings(crawler.settings)
        self._recorder = Recorder(config, Identities(crawler))
        self.frontier = LocalFrontier(config, self._recorder, call_soon=self._due.append)
        self._recorder.open()

    def close(self):
        self.frontier.close()
        self._recorder.close()
        self._due.clear()

    def end_turn(self):
        """Run what was deferred to the end of this turn of the event loop."""
        due, self._due[:] = list(self._due), []
        for call in due:
            call()

    def request(self, url, priority, *, is_held=True):
        """Return a unique request and its number; JSON cannot hold it unless it `is_held`."""
        self._n_requests += 1
        request = Request(url, priority=priority, cb_kwargs={"number": self._n_requests})
        if is_held:
            return self._n_requests, to_json(request, self._spider)
        return self._n_requests, Unheld.of(request, RequestNotStorable("It is not."))

    def add(self, url, priority=0, *, is_held=True):
        """Queue one more request for a page; return its number."""
        number, request = self.request(url, priority, is_held=is_held)
        site = url.split("/")[2]
        assert self.frontier.add(
            QueueEntry(url, url, site, priority=priority, request=request, repeats=True)
        )
        return number

    def lease(self):
        return self.frontier.next_page(0.0)


def number_of(leased_page):
    """Return the number of the request that was handed out."""
    if isinstance(leased_page.request, Request):
        return leased_page.request.cb_kwargs["number"]
    assert isinstance(leased_page.request, bytes)
    number = json.loads(leased_page.request)["cb_kwargs"]["number"]
    assert isinstance(number, int)
    return number


def no_links():
    return PageVisit(LinkPairs("", []), links_are_entries=True)


@pytest.fixture
def job(tmp_path):
    made = Job(tmp_path / "job")
    yield made
    made.close()


def test_a_second_request_finds_the_first_that_waits_for_the_end_of_the_turn(job):
    """The first is neither among those to record nor on disk yet; it was once lost here."""
    job.add(URLS[0])
    job.end_turn()
    leased_page = job.lease()
    first = job.add(URLS[1])
    job.frontier.observe(
        leased_page.lease, no_links()
    )  # takes the first along; no commit before ...
    second = job.add(URLS[1])  # ... the second arrives
    job.end_turn()
    left = [job.lease(), job.lease()]
    assert [number_of(leased_page) for leased_page in left if leased_page] == [first, second]


@pytest.mark.parametrize("seed", range(20))
def test_each_request_leaves_once_and_by_priority(job, seed):
    """After a restart, all but those that JSON cannot hold, in place of which none leaves."""
    unheld = set()
    choose = random.Random(seed)
    waiting = defaultdict(dict)
    leased = {}

    def lease():
        leased_page = job.lease()
        if leased_page is not None:
            number, url = number_of(leased_page), leased_page.url
            priority = waiting[url].pop(number)
            assert priority >= max(waiting[url].values(), default=priority)
            leased[number] = leased_page, url, priority
        return leased_page

    for _ in range(300):
        action = choose.choice(
            ("add", "add", "add", "next", "next", "next", "observe", "observe", "let go")
            + ("give back", "retry", "end turn")
            + ("resume",) * (choose.random() < 0.1)
        )
        if action == "add":
            url, priority = choose.choice(URLS), choose.choice((0, 0, 0, 2, -1))
            is_held = choose.random() < 0.8
            number = job.add(url, priority, is_held=is_held)
            waiting[url][number] = priority
            if not is_held:
                unheld.add(number)
        elif action == "next":
            lease()
        elif action == "end turn":
            job.end_turn()
        elif action == "resume":
            job.close()
            for number, (_, url, priority) in leased.items():
                waiting[url][number] = priority
            leased.clear()
            for numbers in waiting.values():
                for number in unheld & numbers.keys():
                    del numbers[number]
            job.open()
        elif leased:
            number = choose.choice(list(leased))
            leased_page, url, priority = leased[number]
            if action == "let go":
                job.frontier.release_site(leased_page.lease)
                continue
            del leased[number]
            if action == "observe":
                job.frontier.observe(leased_page.lease, no_links())
            elif action == "give back":
                job.frontier.put_back(leased_page.lease)
                waiting[url][number] = priority
            else:
                priority = choose.choice((0, 2, -1))
                again, request = job.request(url, priority, is_held=number not in unheld)
                unheld.update([again] if number in unheld else [])
                job.frontier.put_back(leased_page.lease, request, priority)
                waiting[url][again] = priority
        assert len(job.frontier) == sum(map(len, waiting.values()))
    job.end_turn()
    while any(waiting.values()) or leased:
        while lease() is not None:
            pass
        assert leased
        for leased_page, _, _ in leased.values():
            job.frontier.observe(leased_page.lease, no_links())
        leased.clear()


@pytest.mark.parametrize("seed", range(20))
def test_after_a_restart_sites_take_the_turns_they_would_have_taken(tmp_path, seed):
    """Whether or not pages were put back, retried or fetched twice before."""
    choose = random.Random(seed)
    jobs = [
        Job(tmp_path / name, CONCURRENT_REQUESTS=1, ORDERING_OPTIONS={"site_share": 2})
        for name in ("whole", "resumed")
    ]
    urls = [f"http://{choose.choice('abc')}.test/{number}" for number in range(30)]
    orders = [[], []]
    for step in range(60):
        url = urls[step % len(urls)]  # in the second half each page is fetched again
        what = choose.choice(("observe", "observe", "observe", "give back", "retry"))
        does_resume = choose.random() < 0.1
        for job, order in zip(jobs, orders, strict=True):
            job.add(url)
            if does_resume and job is jobs[1]:
                job.end_turn()
                job.close()
                job.open()
            if step % 3 == 2:
                continue  # so that some pages wait
            leased_page = job.lease()
            order.append(leased_page.url)
            if what == "observe":
                job.frontier.observe(leased_page.lease, no_links())
            elif what == "give back":
                job.frontier.put_back(leased_page.lease)
            else:
                _, request = job.request(leased_page.url, 0)
                job.frontier.put_back(leased_page.lease, request, 0)
            job.end_turn()
    for job in jobs:
        job.close()
    assert orders[0] == orders[1]
