"""A crawl is replayed without heaps, and then goes on as if it had had them."""

import random

import oracles
import pytest
from driver import WebPages
from graphs import power_law_web
from oracles import true_pagerank
from ordering_cases import CASES, ours, with_urls

from crawlprio.frontier import PageQueue
from crawlprio.frontier.replaying import columns_of, replay
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.orderings import ORDERINGS, KeyHistory, Part, make_ordering

PLAIN = 10**6


def order_after(visits, pages, plain_until, name, options):
    """Return the order in which the other pages leave, nothing more being learnt."""
    queue = PageQueue(make_ordering(name, options), pages, plain_until=plain_until)
    seeds = {0, 1}
    replayed = replay(queue, columns_of(visits), seeds, len(pages))
    known = [n_before for some in replayed for _, n_before in some.evidence()]
    assert known == sorted(known)
    queue.add(len(pages) - 2, 3)
    order = []
    while (page := queue.next_page(0.0)) != NO_PAGE:
        order.append(page)
        queue.release(page)
    return order


@pytest.mark.parametrize("n_visits", [0, 1, 25, 70])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("opic", {}),
        ("opic", {"site_share": 2}),
        ("breadth-first", {"site_share": 1}),
        ("sibling-sampling", {}),
        ("batch-pagerank", {"every": 4}),
        ("larger-sites-first", {}),
    ],
)
def test_pages_leave_in_the_same_order(name, options, n_visits):
    """Pages 3 and 8 are fetched twice, and page 5 is refused; the last pages are asked for."""
    pages = WebPages(with_urls(power_law_web(150, seed=8)))
    pages.seeds([0, 7])
    fetched = [*range(n_visits), 3, 8] if n_visits > 8 else list(range(n_visits))
    visits = [pages.visit(page)._replace(status=200) for page in fetched]
    if n_visits > 8:
        visits[5] = Visit(5, visits[5].targets, status=0, error="forbidden by robots.txt")
    pages.find_or_add([900, 901, 902])
    with_heaps = order_after(visits, pages, PLAIN, name, options)
    assert order_after(visits, pages, 0, name, options) == with_heaps
    assert with_heaps[0] == len(pages) - 2
    assert sorted(with_heaps) == sorted(set(range(len(pages))) - ({*fetched} - {5}))


class RandomCrawl:
    """Visits of a random web in random order: some again, some refused, to pages asked for."""

    def __init__(self, seed, name, options):
        rng = random.Random(seed)
        web = with_urls(power_law_web(rng.randrange(40, 120), seed=seed))
        self.name, self.options, truth = name, ours(web, options), true_pagerank(web)
        self.pages = pages = WebPages(web)
        pages.seeds(rng.sample(web.pages, 3))
        self.truth = lambda page: truth[pages.numbers[page]]
        self.visits = []
        for _ in range(rng.randrange(1, 60)):
            if rng.random() < 0.1:
                pages.find_or_add(rng.sample(web.pages, 2))
            visit = pages.visit(rng.randrange(min(len(pages), len(self.visits) + 4)))
            refusal = {"status": 0, "error": "forbidden by robots.txt"}
            fields = refusal if rng.random() < 0.1 else {"status": 200}
            self.visits.append(visit._replace(**fields))
        self.watched = rng.randrange(len(pages))

    def replayed(self, plain_until):
        """Replay until the page watched is fetched; return all that can then be seen."""
        ordering = make_ordering(self.name, self.options)
        queue = PageQueue(ordering, self.pages, truth=self.truth, plain_until=plain_until)
        assert queue.takes_rows or self.name != "sibling-sampling"
        history = KeyHistory(ordering, self.watched)
        known = []
        visits = columns_of(self.visits)
        replaying = replay(queue, visits, {0, 1}, len(self.pages), history)
        for visit, n_before in (each for some in replaying for each in some.evidence()):
            known.append(n_before)
            if visit.page == self.watched:
                replaying.close()
        part = ordering.explain_history(history)
        if part.amount != part.amount:  # NaN: no visit discovered the page
            part = Part("", 0.0)
        keys, order = queue.page_records["key"].tolist(), []
        while (page := queue.next_page(0.0)) != NO_PAGE:
            order.append(page)
            queue.release(page)
        return known, keys, part, order


@pytest.mark.parametrize("name", ORDERINGS)
def test_visits_replayed_together_leave_what_visits_replayed_one_by_one_do(name):
    """A plain queue replays one by one, and shares no code with the loop that replays rows."""
    cases = CASES.get(name, oracles.ORDERINGS[name].cases)
    for seed in range(20):
        crawl = RandomCrawl(seed, name, cases[seed % len(cases)])
        assert crawl.replayed(0) == crawl.replayed(PLAIN), seed


def crawled(queue, pages, n_visits):
    """Crawl on, one page at a time; return the visits."""
    visits = []
    while len(visits) < n_visits and (page := queue.next_page(0.0)) != NO_PAGE:
        visits.append(pages.visit(page)._replace(status=200))
        queue.observe(visits[-1])
        queue.release(page)
    return visits


@pytest.mark.sampled(4)
@pytest.mark.parametrize("plain_until", [0, PLAIN])
@pytest.mark.parametrize("name", ORDERINGS)
def test_a_resumed_crawl_goes_on_as_if_it_had_not_stopped(name, plain_until):
    """Seeds link to each other, so a visit may lead to a page that was known as a seed."""
    cases = CASES.get(name, oracles.ORDERINGS[name].cases)
    for seed in range(6):
        rng = random.Random(seed)
        web = with_urls(power_law_web(rng.randrange(40, 120), seed=seed))
        truth, options = true_pagerank(web), ours(web, cases[seed % len(cases)])
        first = rng.choice([page for page in web.pages if len(web.links_of(page)) > 1])
        seeds, n_visits = [first, *rng.sample(web.links_of(first), 2)], rng.randrange(1, 30)
        orders = []
        for stops in (False, True):
            pages = WebPages(web)
            queues = [
                PageQueue(
                    make_ordering(name, options),
                    pages,
                    truth=lambda page, pages=pages, truth=truth: truth[pages.numbers[page]],
                    plain_until=plain_until,
                )
                for _ in range(2)
            ]
            start = pages.seeds(seeds)
            queues[0].observe(start)
            visits = crawled(queues[0], pages, n_visits)
            if stops:
                list(replay(queues[1], columns_of(visits), set(start.targets), len(pages)))
            rest = crawled(queues[stops], pages, 10**6)
            orders.append([visit.page for visit in visits + rest])
        assert orders[0] == orders[1], seed
