"""Drives the real frontier over a web of the oracle, one page at a time, as a live crawl would."""

import numpy as np
from oracles import true_pagerank

from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.orderings import Ordering, make_ordering


class WebPages(PageTable):
    """A page table over a web: ids in order of discovery, mapped to and from page numbers."""

    def __init__(self, web):
        super().__init__()
        self.web = web
        self.numbers = []

    def graph_page(self, page):
        """Return the page number in the web."""
        return self.numbers[page]

    def find_or_add(self, numbers):
        """Return the ids of pages of the web; new pages get the next ids."""
        pages = []
        for number in numbers:
            page = self.find(str(number))
            if page == NO_PAGE:
                site = self.site(f"s{self.web.site.get(number, 0)}")
                page = self.add(str(number), self.web.urls.get(number, ""), site)
                self.numbers.append(number)
            pages.append(page)
        return pages

    def seeds(self, numbers):
        """Return the visit that introduces the seeds."""
        return Visit(NO_PAGE, np.array(self.find_or_add(dict.fromkeys(numbers)), dtype=np.int32))

    def visit(self, page):
        """Return the visit of a fetched page: distinct links in page order, no self-links."""
        number = self.numbers[page]
        links = self.web.links_of(number)
        return Visit(
            page,
            np.array(self.find_or_add(links), dtype=np.int32),
            anchors=[self.web.anchors.get((number, target), "") for target in links],
            title=self.web.titles.get(number, ""),
            text=self.web.bodies.get(number, ""),
        )


def hot_queue_of(topic):
    """Return the hot queue for the oracle's topic."""
    return HotQueue(
        Topic(topic.words, stem="english" if topic.stem else None),
        distance=topic.distance,
        title=topic.title,
        body=topic.body,
    )


def fetch_order(web, seeds, ordering, options=None, topic=None, budget=None, plain_for=0):
    """Return the pages of a web in the order in which the frontier hands them out.

    The first `plain_for` pages are handed out in plain Python.
    """
    policy = ordering if isinstance(ordering, Ordering) else make_ordering(ordering, options)
    pages = WebPages(web)
    truth = true_pagerank(web) if policy.needs_truth else {}
    frontier = PageQueue(
        policy,
        pages,
        hot_queue=None if topic is None else hot_queue_of(topic),
        truth=lambda page: truth[pages.numbers[page]],
        plain_until=2**31 if plain_for else 0,
    )
    frontier.observe(pages.seeds(seeds))
    order = []
    while budget is None or len(order) < budget:
        assert frontier.is_plain == policy.is_plain == (len(order) < plain_for)
        if len(order) + 1 == plain_for:
            frontier.compile()
            plain_for = 0
        page = frontier.next_page(0.0)
        if page == NO_PAGE:
            break
        order.append(pages.numbers[page])
        frontier.observe(pages.visit(page))
        frontier.release(page)
    return order
