"""Orderings that fix a page's key at its discovery; none reads links seen later."""

import math
from urllib.parse import urlsplit

from .base import Fixed, splitmix
from .rank import true_pagerank
from .text import words as words_of


class BreadthFirst(Fixed, name="breadth-first"):
    """Order of discovery: Cho et al. 1998, Fig. 2 (1), "do nothing"."""

    def score(self, page):
        return 0.0


class Gain(Fixed, name="gain"):
    """Order of discovery, while no update has set keys."""

    def score(self, page):
        return 0.0


class DepthFirst(Fixed, name="depth-first"):
    """Pages found last come first; those of one page in page order."""

    def score(self, page):
        return float(self.record.found_after[page])


class Random(Fixed, name="random"):
    """Exponential clocks from SplitMix64 by order of discovery: exactly the keys of `random`.

    `drawn_from_a_list`, which has no clocks, checks that they make a random crawler.
    """

    def __init__(self, record, seed=0):
        super().__init__(record)
        self.seed = seed

    def score(self, page):
        u = splitmix(self.record.discovered.index(page), self.seed)
        started = self.settled[self.record.parent[page]] if page in self.record.parent else 0.0
        return started + math.log(1.0 - u)


class Omniscient(Fixed, name="omniscient"):
    """True PageRank: Castillo et al. 2004, section V, *Optimal*; Baeza-Yates et al., 4.3."""

    def __init__(self, record):
        super().__init__(record)
        self.truth = true_pagerank(record.web)

    def score(self, page):
        return self.truth[page]


class HistoricalPageRank(Fixed, name="historical-pagerank"):
    """PageRank of an earlier crawl: Baeza-Yates et al. 2005, section 4.2, with its four rules."""

    def __init__(self, record, scores, new="zero", seed=0):
        super().__init__(record)
        self.scores = dict(scores)
        self.seed = seed
        self.new = new
        self.truth = true_pagerank(record.web) if new == "omniscient" else {}

    def score(self, page):
        if page in self.scores:
            return self.scores[page]
        match self.new:
            case "zero":
                return 0.0
            case "random":
                return self.drawn(page)
            case "parent":
                return self.from_parent(page)
            case "omniscient":
                return self.truth[page]
        raise ValueError(self.new)

    def drawn(self, page):
        """Draw one of the earlier scores."""
        earlier = list(self.scores.values())
        u = splitmix(self.record.discovered.index(page), self.seed)
        return earlier[int(u * len(earlier))]

    def from_parent(self, page):
        """Return the share that the parent, where the link was first found, gives each link."""
        if page not in self.record.parent:
            return 0.0
        parent = self.record.parent[page]
        return self.settled[parent] / self.record.web.out_degree(parent)


class Location(Fixed, name="location"):
    """A function of the URL alone: Cho et al. 1998, section 2, item 6, IL(P)."""

    def __init__(self, record, slashes=1.0, tlds=None, words=None, whole_words=True):
        super().__init__(record)
        self.slashes = slashes
        self.tlds = {"com": 1.0} if tlds is None else dict(tlds)
        self.words = {"home": 1.0} if words is None else dict(words)
        self.whole_words = whole_words

    def score(self, page):
        url = self.record.web.urls.get(page, "")
        parts = urlsplit(url)
        tld = (parts.hostname or "").split(".")[-1]
        found = words_of(url) if self.whole_words else url.casefold()
        bonus = sum(weight for word, weight in self.words.items() if word.casefold() in found)
        n_slashes = max(parts.path.count("/") - 1, 0)
        return -self.slashes * n_slashes + self.tlds.get(tld, 0.0) + bonus
