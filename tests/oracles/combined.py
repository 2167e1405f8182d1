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
