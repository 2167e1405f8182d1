"""The oracle's ordering that combines other orderings."""

from collections.abc import Mapping
from typing import Any

from .base import ORDERINGS, Keys, Ordering
from .web import Record


class Combined(Ordering, name="combined"):
    """A weighted sum of other orderings' keys: Cho et al. 1998, section 2 (combined metrics)."""

    def __init__(
        self,
        record: Record,
        weights: Mapping[str, float],
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(record)
        of_members = options or {}
        self.members = [
            (weight, ORDERINGS[name](record, **of_members.get(name, {})))
            for name, weight in weights.items()
        ]

    def observe(self, page: int) -> None:
        for _, member in self.members:
            member.observe(page)

    def keys(self) -> Keys:
        total = dict.fromkeys(self.record.waiting(), 0.0)
        for weight, member in self.members:
            keys = member.keys()
            for u in total:
                total[u] += weight * keys[u]
        return total
