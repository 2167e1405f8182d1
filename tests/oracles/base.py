"""The interface of all orderings of the oracle."""

from collections import Counter
from functools import cache

Keys = dict[int, float]
TWO_64 = 2**64

ORDERINGS = {}
"""The orderings of the oracle by name."""


@cache
def splitmix(index, seed=0):
    """Return output number index + 1 of SplitMix64, as a fraction in [0, 1)."""
    x = (seed + (index + 1) * 0x9E3779B97F4A7C15) % TWO_64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % TWO_64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % TWO_64
    x = x ^ (x >> 31)
    return (x >> 11) * 2.0**-53


class Ordering:
    """A policy over a record: `observe` after each visit, `keys` of the waiting pages at any time.

    Larger keys come first. `keys` may include fetched pages. A class is registered in `ORDERINGS`
    under the `name` that its definition gives.
    """

    cases = ({},)
    """Options with which an ordering is compared with its oracle."""

    def __init_subclass__(cls, *, name=""):
        if name:
            ORDERINGS[name] = cls

    def __init__(self, record):
        self.record = record

    def observe(self, page):
        """Record that `page`, whose links are recorded, was fetched."""

    def keys(self):
        raise NotImplementedError

    def may_leave(self, page):
        """Return whether a page of the URL queue may be fetched before the next `observe`."""
        return True

    def reorder(self, queue):
        """Sort a queue, given in order of discovery, stably by key (Cho et al., Fig. 2)."""
        keys = self.keys()
        return sorted(queue, key=lambda u: -keys[u])


class Fixed(Ordering):
    """A policy that fixes a page's key when the page is discovered."""

    def __init__(self, record):
        super().__init__(record)
        self.settled = {}

    def score(self, page):
        raise NotImplementedError

    def keys(self):
        for u in self.record.discovered:
            if u not in self.settled:
                self.settled[u] = self.score(u)
        return self.settled


def batch_of(record, waiting, m, worth):
    """Take m pages one by one, each the first of the largest `worth(page, pages left by site)`.

    With a share, a site that gave so many pages comes after those that gave fewer.
    """
    site = {u: record.web.site.get(u, 0) for u in waiting}
    waiting, given, batch = list(waiting), Counter(), []
    while waiting and len(batch) < m:
        left = Counter(site[u] for u in waiting)
        rounds = {
            u: given[site[u]] // record.site_share if record.site_share else 0 for u in waiting
        }
        page = min(waiting, key=lambda u: (rounds[u], -worth(u, left)))
        waiting.remove(page)
        given[site[page]] += 1
        batch.append(page)
    return batch
