"""The oracle's ordering that combines other orderings."""

from .base import ORDERINGS, Ordering, batch_of


class Combined(Ordering, name="combined"):
    """A weighted sum of other orderings' keys: Cho et al. 1998, extended version, section 2."""

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

    Castillo et al. 2004, section VII, and Baeza-Yates et al. 2005, section 5.3: with
    `larger-sites-first`, a batch is what that strategy would take. Castillo et al., IV.C: a batch
    must be built from as many sites as possible, here in rounds of `site_share` pages of each site.
    A hot page leaves at once, and takes a place in the batch.
    """

    def __init__(self, record, every=100_000, weights=None, options=None):
        super().__init__(record)
        self.every = every
        self.length = list(weights or ()) == ["larger-sites-first"]
        self.inner = Combined(record, weights or {"opic": 1.0}, options)
        self.n_retrieved = 0
        self.batch = self.best()

    def best(self):
        waiting = self.record.waiting()
        if self.length:
            site = self.record.web.site
            return batch_of(self.record, waiting, self.every, lambda u, left: left[site.get(u, 0)])
        keys = self.inner.keys()
        return batch_of(self.record, waiting, self.every, lambda u, left: keys[u])

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
