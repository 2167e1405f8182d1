"""The pages that leave a queue next are those that then leave it."""

import random
from collections import Counter

import numpy as np
import pytest

from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.plugins.watch.monitor import LinkNotes

CASES = {
    "breadth-first": {},
    "opic": {},
    "opic, rounds": {"site_share": 2},
    "sibling-sampling": {},
    "larger-sites-first": {},
    "scout": {},
}


class HeldBack(Ordering):
    """Holds back pages whose number is not a multiple of three, which come first otherwise."""

    held_below = 0.5

    def discover(self, first, last, visit):
        self.keys[first:last] = [0.9 if page % 3 == 0 else 0.1 for page in range(first, last)]


def grown(ordering, seed, *, plain_until, has_topic):
    """Return a queue after a random history, and the pages that are leased."""
    draw, pages = random.Random(seed), PageTable()
    topic = HotQueue(Topic(["hot"])) if has_topic else None
    queue = PageQueue(ordering, pages, limit=2, hot_queue=topic, plain_until=plain_until)

    def discover(n_pages):
        sites = [draw.randrange(6) for _ in range(n_pages)]
        urls = [f"http://s{site}.test/{len(pages) + at}" for at, site in enumerate(sites)]
        return [
            pages.add(url, url, pages.site(f"s{site}.test"), 0)
            for url, site in zip(urls, sites, strict=True)
        ]

    queue.observe(Visit(NO_PAGE, np.array(discover(5), dtype=np.int32)))
    leased = []
    for _ in range(60):
        page = queue.next_page(0.0)
        if page != NO_PAGE:
            leased.append(page)
        if leased and draw.random() < 0.8:
            done = leased.pop(draw.randrange(len(leased)))
            known = draw.sample(range(len(pages)), 3)
            targets = dict.fromkeys([*known, *discover(draw.randrange(6))])
            targets.pop(done, None)
            anchors = [draw.choice(["hot", "cold"]) for _ in targets]
            queue.observe(Visit(done, np.array(list(targets), dtype=np.int32), anchors))
            queue.release(done)
        if (
            draw.random() < 0.1
            and (waiting := np.flatnonzero(queue.page_records["state"] == 1)).size
        ):
            queue.add(int(draw.choice(waiting.tolist())), draw.randrange(-2, 3))
    return queue, leased


@pytest.mark.parametrize("plain_until", [0, 100_000])
@pytest.mark.parametrize("name", [*CASES, "topic", "held back"])
def test_upcoming_pages_are_those_that_leave_if_no_site_has_to_wait(name, plain_until):
    for seed in range(4):
        ordering = HeldBack()
        if name != "held back":
            ordering = make_ordering(
                name.partition(",")[0].replace("topic", "opic"), CASES.get(name)
            )
        queue, leased = grown(ordering, seed, plain_until=plain_until, has_topic=name == "topic")
        told, n_waiting = queue.upcoming(30), len(queue)
        few, again = queue.upcoming(3), queue.upcoming(30)
        assert (few, again, len(queue)) == (told[:3], told, n_waiting)
        for page in leased:
            queue.release(page)
        left = []
        while len(left) < 30 and (page := queue.next_page(0.0)) != NO_PAGE:
            queue.release(page)
            left.append(page)
        assert told == left, f"seed {seed}"
        assert len(told) == min(n_waiting, 30) > 5


def test_links_are_noted_as_one_by_one():
    draw, notes = random.Random(3), LinkNotes(2)
    n_linking, found_by = Counter[int](), dict[int, int]()
    for source in range(600):
        targets = draw.sample(range(3_000), draw.randrange(4))
        n_linking.update(targets)
        for target in targets:
            found_by.setdefault(target, source)
        notes.note(Visit(source, np.array(targets, dtype=np.int32), title=str(source)))
        if source % 97 == 0:
            pages = [*targets, draw.randrange(9_000)]
            told = [(found_by.get(page, NO_PAGE), n_linking[page]) for page in pages]
            assert notes.finders(pages) == told
    every = list(range(3_000))
    assert notes.finders(every) == [(found_by.get(at, NO_PAGE), n_linking[at]) for at in every]
    assert [each.title for each in notes.latest] == ["599", "598"]


def test_an_empty_queue_has_no_upcoming_pages():
    assert PageQueue(make_ordering("opic"), PageTable()).upcoming(20) == []
