"""No registered domain holds more than half of the fetches while pages of others wait."""

import math
import random
from time import process_time

import numpy as np
import pytest
from crawls import ADDON, Answer, page, run_spider
from twisted.internet.defer import Deferred

from crawlprio.frontier import PageQueue
from crawlprio.frontier.politeness import LATELY, DomainShares
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.orderings import make_ordering
from crawlprio.spiders.site import SiteSpider

SITES = 100
"""Sites of a domain; site s of domain d has the number d * SITES + s."""


class Crawl:
    """Pages of several domains; each entry of `sites` is the site of one more page, in order."""

    def __init__(self, sites, most, *, plain=True, **more):
        self.pages = PageTable()
        for n, site in enumerate(sites):
            self.pages.add(f"{n}", f"http://{n}.test/", self.pages.site(f"{site}"))
        self.queue = PageQueue(
            make_ordering("breadth-first"), self.pages, plain_until=10**9 if plain else 0, **more
        )
        self.queue.observe(Visit(NO_PAGE, np.arange(len(sites), dtype=np.int32)))
        self.shares = DomainShares(self.queue, most, self.domain_of)

    def domain_of(self, site):
        return int(self.pages.host(site)) // SITES + 1

    def domain(self, page):
        return self.domain_of(int(self.pages.sites[page]))

    def end(self, page):
        self.queue.release(page)
        self.shares.ended(int(self.pages.sites[page]))

    def next_pages(self, now):
        """All pages that leave at this moment."""
        found = []
        while (page := self.shares.next_page(now)) != NO_PAGE:
            found.append(page)
        return found


def test_a_domain_leaves_half_of_the_fetches_to_others_that_are_ready():
    many, few = [n % SITES for n in range(50)], [SITES, SITES + 1]
    crawl = Crawl([*many, *few], most=4)
    left = [crawl.shares.next_page(0.0) for _ in range(6)]
    assert left == [0, 1, 2, 3, 50, 51]
    # Others left just now, and may be inside their delays.
    assert crawl.next_pages(LATELY - 1) == []
    crawl.end(2)
    assert crawl.next_pages(LATELY - 1) == [4]
    # Nobody else has waited for a while.
    assert crawl.next_pages(LATELY) == list(range(5, 50))


def test_the_order_of_a_domain_that_is_alone_is_that_of_the_queue():
    sites = [n * 7 % 10 for n in range(60)]
    crawl, plain = Crawl(sites, most=2, limit=3), Crawl(sites, most=100, limit=3)
    found = []
    for one in (crawl, plain):
        order = []
        in_flight = []
        now = 0.0
        while len(order) < len(sites):
            now += 1.0
            left = one.next_pages(now)
            order += left
            in_flight += left
            for ended in in_flight[:5]:
                one.end(ended)
            del in_flight[:5]
        found.append(order)
    assert found[0] == found[1]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "compiled"])
@pytest.mark.parametrize("seed", range(20))
def test_every_page_leaves_and_no_domain_exceeds_its_share_while_others_wait(seed, plain):
    draw = random.Random(seed)
    most, at_once = draw.choice([(1, 2), (2, 5), (4, 8)])
    n_domains = draw.randint(1, 4)
    sites = [draw.randrange(n_domains) * SITES + draw.randrange(10) for _ in range(200)]
    crawl = Crawl(sites, most, plain=plain, limit=draw.choice([1, 2]), delay=draw.choice([0, 0.5]))
    in_flight = []
    left_at = {}
    done = []
    now = 0.0
    while len(done) < len(sites):
        now += draw.choice([0.0, 0.1, 1.0, 1.0, 30.0])
        while len(in_flight) < at_once:
            page = crawl.shares.next_page(now)
            if page == NO_PAGE:
                break
            domain = crawl.domain(page)
            held = sum(crawl.domain(other) == domain for other in in_flight)
            others = [at for other, at in left_at.items() if other != domain]
            if held >= most:
                assert now - max(others, default=-LATELY) >= LATELY
            in_flight.append(page)
            left_at[domain] = now
        if not in_flight:
            assert now < crawl.queue.ready_at() < math.inf
            continue
        page = in_flight.pop(draw.randrange(len(in_flight)))
        crawl.end(page)
        done.append(page)
    assert sorted(done) == list(range(len(sites)))


def test_looking_for_others_is_rare_when_there_are_none():
    """Ten thousand pages of one domain leave with few more operations than from the queue."""
    crawl = Crawl([n % 1_000 % SITES for n in range(10_000)], most=4, limit=20)
    put_back = crawl.queue.put_back
    calls = []

    def counted(page, **more):
        calls.append(page)
        put_back(page, **more)

    crawl.queue.put_back = counted
    in_flight = []
    for n in range(10_000):
        in_flight.append(crawl.shares.next_page(n / 1_000))
        if len(in_flight) == 8:
            crawl.end(in_flight.pop(0))
    assert len(calls) <= SITES
    print(f"{process_time():.2f} s of processor time")


def test_sites_that_never_answer_do_not_starve_others():
    """Forty subdomains hang until the time limit, and would take all sixteen fetches."""

    others_ended, asked = Deferred(), []

    def answer(host, path):
        if host.endswith(".slow.test"):
            return Answer("", after=others_ended)
        asked.append(path)
        if len(asked) == 3 * 31:
            others_ended.callback(None)
        return page(*(f"/{n}" for n in range(30)))

    slow = [f"http://{n}.slow.test/" for n in range(40)]
    others = [f"http://{name}.test/" for name in ("a", "b", "c")]
    settings = {
        **ADDON,
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0.02,
        "ORDERING": "breadth-first",
        "CLOSESPIDER_PAGECOUNT": 3 * 31,
    }
    run = run_spider(SiteSpider, settings, site=({}, answer), seeds=",".join([*slow, *others]))
    starts = sorted(run.site.fetches, key=lambda fetch: fetch.start)
    last = max(n for n, fetch in enumerate(starts) if not fetch.host.endswith(".slow.test"))
    n_slow = sum(fetch.host.endswith(".slow.test") for fetch in starts[:last])
    assert (last - n_slow + 1, n_slow) == (3 * 31, 8)
