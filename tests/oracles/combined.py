"""The oracle's ordering that combines other orderings."""

from .base import ORDERINGS, Ordering


class Combined(Ordering, name="combined"):
    """A weighted sum of other orderings' keys: Cho et al. 1998, section 2 (combined metrics)."""

    def __init__(self, record, weights, options=None):
        super().__init__(record)
        of_members = options or {}
        self.members = [
            (weight, ORDERINGS[name](record, **of_members.get(name, {})))
            for name, weight in weights.items()
        ]

    def observe(self, page):
        for _, member in self.members:
            member.observe(page)

    def keys(self):
        total = dict.fromkeys(self.record.waiting(), 0.0)
        for weight, member in self.members:
            keys = member.keys()
            for u in total:
                total[u] += weight * keys[u]
        return total


class Batched(Ordering, name="batched"):
    """The m best waiting pages by a sum of keys; once all are retrieved, the next m.

    A hot page leaves at once, and takes a place in the batch.
    """

    def __init__(self, record, every=100_000, weights=None, options=None):
        super().__init__(record)
        self.every = every
        self.inner = Combined(record, weights or {"opic": 1.0}, options)
        self.n_retrieved = 0
        self.batch = self.best()

    def best(self):
        keys = self.inner.keys()
        return sorted(self.record.waiting(), key=lambda u: -keys[u])[: self.every]

    def may_leave(self, page):
        return page in self.batch

    def observe(self, page):
        self.inner.observe(page)
        self.n_retrieved += 1
        if page in self.batch:
            self.batch.remove(page)
        if not self.batch or self.n_retrieved == self.every:
            self.batch = self.best()
            self.n_retrieved = 0

    def keys(self):
        places = {u: len(self.batch) - k for k, u in enumerate(self.batch)}
        return {u: float(places.get(u, -1.0)) for u in self.record.waiting()}
