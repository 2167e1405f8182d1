"""Orderings whose keys follow the links seen; none knows how pages enter a queue."""

import math
from collections import Counter, deque

from .base import Ordering, batch_of
from .rank import partial_pagerank
from .text import occurrences


class BacklinkCount(Ordering, name="backlink-count"):
    """Number of terms (-, u) in links: Cho et al. 1998, Fig. 2 (2), IB'(P)."""

    def keys(self):
        backlinks = self.record.backlinks
        return {u: float(len(set(backlinks[u]))) for u in self.record.waiting()}


class Opic(Ordering, name="opic"):
    """A fetched page splits its cash among its links: Baeza-Yates et al. 2005, section 4.1."""

    def __init__(self, record, seed_cash=1.0, pass_on=None, pass_on_budget=2000):
        super().__init__(record)
        self.pass_on = pass_on
        self.pass_on_budget = pass_on_budget
        self.cash = dict.fromkeys(record.seeds, seed_cash)
        self.fetched = {}
        self.fifo = deque()

    def spread(self, page):
        """Give all cash of a page to its links, in row order; return the number of links."""
        links = self.fetched[page]
        if links:
            share = self.cash[page] / len(links)
            self.cash[page] = 0.0
            for v in links:
                self.cash[v] += share
                if self.is_rich(v) and v not in self.fifo:
                    self.fifo.append(v)
        return len(links)

    def is_rich(self, page):
        """Return whether a fetched page with links has cash above `pass_on` for each of them."""
        if self.pass_on is None or page not in self.fetched:
            return False
        o = len(self.fetched[page])
        return o > 0 and self.cash[page] > self.pass_on * o

    def observe(self, page):
        self.fetched[page] = self.record.web.links_of(page)
        for v in self.fetched[page]:
            self.cash.setdefault(v, 1.0)
        served = self.spread(page)
        while self.fifo and served <= self.pass_on_budget:
            served += self.spread(self.fifo.popleft())
        self.fifo.clear()

    def keys(self):
        return self.cash


class RankMass(Ordering, name="rankmass"):
    """Mass flows from the seeds alone, damped, and each page passes it on once: Cho & Schonfeld."""

    cases = ({}, {"damping": 0.5}, {"damping": 0.0})

    def __init__(self, record, damping=0.85):
        super().__init__(record)
        self.damping = damping
        self.mass = dict.fromkeys(record.seeds, 1.0)

    def observe(self, page):
        links = self.record.web.links_of(page)
        for v in links:
            self.mass[v] = self.mass.get(v, 0.0) + self.damping * self.mass[page] / len(links)

    def keys(self):
        return {u: self.mass[u] for u in self.record.waiting()}


class Fica(Ordering, name="fica"):
    """Nearest first; a link is as long as the log of its page's out-degree: Zareh Bidoki et al."""

    cases = ({}, {"discount": 0.5}, {"discount": 0.0, "link": 0.1}, {"discount": 0.99, "link": 2.0})

    def __init__(self, record, discount=0.9, link=0.0):
        super().__init__(record)
        self.discount = discount
        self.link = link
        self.distance = dict.fromkeys(record.seeds, 0.0)
        self.fetched = set()

    def observe(self, page):
        self.fetched.add(page)
        links = self.record.web.links_of(page)
        for v in links:
            far = self.discount * self.distance[page] + math.log(len(links)) + self.link
            if v not in self.fetched:
                self.distance[v] = min(far, self.distance.get(v, math.inf))

    def keys(self):
        return {u: -self.distance[u] for u in self.record.waiting()}


class LargerSitesFirst(Ordering, name="larger-sites-first"):
    """Site with the most waiting pages first: Castillo et al. 2004, section V, *Length*."""

    def keys(self):
        return dict.fromkeys(self.record.discovered, 0.0)

    def reorder(self, queue):
        """Sort the queue by size of site, counting both queues, then by discovery.

        The first page is then the first page, in this queue, of the first site. The rest is sorted
        again before it is used.
        """
        site = self.record.web.site
        n_waiting = Counter(site.get(u, 0) for u in self.record.waiting())
        return sorted(queue, key=lambda u: -n_waiting[site.get(u, 0)])


class PartialPageRank(Ordering, name="partial-pagerank"):
    """PageRank every K visits, the parents' shares in between: Castillo et al. 2004, *Partial*."""

    def __init__(self, record, every=100_000, damping=0.85):
        super().__init__(record)
        self.every = every
        self.damping = damping
        self.value = dict.fromkeys(record.seeds, 1.0 / len(record.seeds))
        self.settled = set(record.seeds)

    def observe(self, page):
        if len(self.record.crawled_pages) % self.every == 0:
            self.value = partial_pagerank(self.record, self.damping)
            self.settled = set(self.value)
            return
        links = self.record.web.links_of(page)
        for v in links:
            if v not in self.settled:
                self.value[v] = self.value.get(v, 0.0) + self.value[page] / len(links)

    def keys(self):
        return self.value


class PageRank(PartialPageRank, name="pagerank"):
    """PageRank of everything seen, after each visit: Cho et al. 1998, Fig. 2 (3), IR'(P)."""

    def __init__(self, record, every=1, damping=0.85):
        super().__init__(record, every, damping)


class BatchPageRank(Ordering, name="batch-pagerank"):
    """Castillo et al. 2004, *Batch*: m pages, and once all are retrieved, PageRank and the next m.

    "The crawler takes not a single page but a batch of m pages and once all of those pages are
    retrieved, the general Pagerank algorithm is run on the subset of known web pages. The batch is
    formed with m pages sorted by the Pagerank value at that moment. Initially all pages
    (home-pages) are assumed to have the same Pagerank value."

    "The batch of pages must be carefully built to include pages from as many Web sites as possible"
    (section IV.C): with a `site_share`, it is built in rounds over the sites.

    Not in the paper: a hot page leaves at once, and takes a place in the batch. With `fill`, any
    page may leave, best first, and m pages are a batch, whichever they are.
    """

    def __init__(self, record, every=100_000, damping=0.85, fill=False):
        super().__init__(record)
        self.every = every
        self.damping = damping
        self.fill = fill
        self.n_retrieved = 0
        self.ranks = dict.fromkeys(record.seeds, 0.0)
        self.batch = self.best(record.seeds)

    def best(self, pages):
        """Return the first m of some pages, given in order of discovery, sorted by PageRank."""
        m = len(pages) if self.fill else self.every
        return batch_of(self.record, pages, m, lambda u, left: self.ranks[u])

    def may_leave(self, page):
        return self.fill or page in self.batch

    def observe(self, page):
        self.n_retrieved += 1
        if page in self.batch:
            self.batch.remove(page)
        if not self.batch or self.n_retrieved == self.every:
            self.ranks = partial_pagerank(self.record, self.damping)
            self.batch = self.best(self.record.waiting())
            self.n_retrieved = 0

    def keys(self):
        """Return ranks; after them those left out of the batch, then those found since."""
        return {
            u: self.ranks.get(u, 0.0) - (0.0 if u in self.batch else 1.0)
            for u in self.record.waiting()
        }


class AnchorSimilarity(Ordering, name="anchor-similarity"):
    """Best anchor text among the links seen so far: Cho et al., extended, section 4."""

    def __init__(self, record, words):
        super().__init__(record)
        self.words = tuple(words)

    def keys(self):
        anchors = self.record.web.anchors
        return {
            u: float(
                max(
                    (
                        occurrences(anchors.get((v, u), ""), self.words)
                        for v in self.record.backlinks[u]
                    ),
                    default=0,
                )
            )
            for u in self.record.waiting()
        }
