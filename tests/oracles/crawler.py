"""The crawling loop of Cho, Garcia-Molina and Page (WWW7, 1998)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .base import ORDERINGS
from .text import occurrences
from .web import Record


@dataclass(frozen=True)
class Topic:
    """The topic of a hot queue; each of `words` is a word or a phrase of consecutive words."""

    words: Sequence[str]
    title: int = 1
    body: int = 10
    distance: int = 3
    stem: bool = False

    def is_named_in(self, text):
        """Return whether an anchor text or URL contains the topic."""
        return occurrences(text, self.words, self.stem) > 0

    def is_hot(self, title, body):
        """Return whether a fetched page is on the topic."""
        return (
            occurrences(title, self.words, self.stem) >= self.title
            or occurrences(body, self.words, self.stem) >= self.body
        )


class Turns:
    """Rounds over the sites with waiting pages, each of which gives `share` pages per round.

    A site that gives a page uses up a turn. A site without waiting pages misses its turns in all
    rounds before the current one.
    """

    def __init__(self, record, share):
        self.record = record
        self.share = share
        self.had = Counter()
        self.latest = 0

    def site(self, page):
        return self.record.web.site.get(page, 0)

    def found(self, page):
        """Record that a page is about to wait."""
        site = self.site(page)
        if site not in map(self.site, self.record.waiting()):
            self.had[site] = max(self.had[site], self.latest // self.share * self.share)

    def first(self, ordered):
        """Take the first page of the sites whose round is the earliest."""
        page = min(ordered, key=lambda page: self.had[self.site(page)] // self.share)
        self.latest = max(self.latest, self.had[self.site(page)])
        self.had[self.site(page)] += 1
        return page


def dequeue2(record, ordering, turns):
    """Take the first page of the hot queue, or of the URL queue if the hot queue is empty."""
    queue = record.hot_queue or record.url_queue
    hot = queue is record.hot_queue
    ordered = ordering.reorder([u for u in queue if hot or ordering.may_leave(u)])
    page = ordered[0] if turns is None else turns.first(ordered)
    queue.remove(page)
    return page


def belongs_in_hot_queue(record, topic, source, page):
    """Judge a page that `source` has just linked to: Fig. 5, or Fig. 4 if the distance is 0."""
    web = record.web
    if topic.is_named_in(web.anchors.get((source, page), "")):
        return True
    if topic.is_named_in(web.urls.get(page, "")):
        return True
    return record.distance_from_hotpage(page) < topic.distance


def crawling(web, seeds, ordering, budget=None, topic=None, site_share=None, **options):
    """Yield the record and the ordering, always the same two objects, after each visit.

    Fig. 1 (Algorithm 5.1); with a topic, Fig. 4 (5.2) or Fig. 5 (5.3), whose loop condition must
    read "or". The queues stay in order of discovery and are sorted again for each page.
    """
    if topic is not None and not isinstance(topic, Topic):
        topic = Topic([topic] if isinstance(topic, str) else topic)
    distinct_seeds = list(dict.fromkeys(seeds))
    record = Record(web, distinct_seeds, site_share=site_share)
    turns = None if site_share is None else Turns(record, site_share)
    for seed in distinct_seeds:
        record.discover(seed, record.url_queue)
    policy = ORDERINGS[ordering](record, **options)

    while record.hot_queue or record.url_queue:
        if budget is not None and len(record.crawled_pages) >= budget:
            return
        page = dequeue2(record, policy, turns)
        record.crawled_pages.append(page)
        if topic and topic.is_hot(web.titles.get(page, ""), web.bodies.get(page, "")):
            record.hot.add(page)
        for u in web.links_of(page):
            record.record_link(page, u)
            if u not in record.found_after:
                hot = topic is not None and belongs_in_hot_queue(record, topic, page, u)
                if turns is not None:
                    turns.found(u)
                record.discover(u, record.hot_queue if hot else record.url_queue)
                record.parent[u] = page
        policy.observe(page)
        yield record, policy


def crawl(web, seeds, ordering, budget=None, topic=None, **options):
    """Return the pages in the order in which the ordering fetches them.

    `options` are the ordering's, including `site_share`. A topic puts a hot queue in front of it.
    """
    order = []
    for record, _ in crawling(web, seeds, ordering, budget, topic, **options):
        order.append(record.crawled_pages[-1])
    return order


def drawn_from_a_list(web, seeds, rng):
    """Return the order of a crawler that draws each next page from a list of waiting pages."""
    known = set(seeds)
    waiting = list(dict.fromkeys(seeds))
    order = []
    while waiting:
        page = waiting.pop(rng.randrange(len(waiting)))
        order.append(page)
        found = [u for u in web.links_of(page) if u not in known]
        waiting += found
        known |= set(found)
    return order
