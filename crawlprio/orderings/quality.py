"""Orderings by the values of linking pages: the published baselines for the ordering `value`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crawlprio.orderings.base import Changed, Ordering, Pages
from crawlprio.pages import Visit


class BestFirst(Ordering):
    """Pages that the most valuable page links to first.

    Source: best-first search of focused crawlers (Menczer, Pant & Srinivasan, Topical web crawlers,
    ACM TOIT 4(4), 2004, section 3), with the value of a page in place of its cosine with a query.
    A redirect passes nothing on. Needs a value model (CRAWLPRIO_VALUE). O(links).
    """

    needs_values = True

    def observe(self, visit: Visit) -> Changed:
        if visit.page >= 0 and not 300 <= visit.status < 400:
            targets = visit.targets
            self.keys[targets] = np.maximum(self.keys[targets], visit.value or 0.0)
        return visit.targets


class ParentQuality(Ordering):
    """Pages whose linking pages are worth most on average first.

    Source: Pezzuti, MacAvaney & Tonellotto, Neural prioritisation for web crawling, ICTIR 2025,
    whose priority of a page comes from the quality of the pages that link to it. The mean over
    those fetched so far is our reading. A redirect counts as no page. Needs a value model
    (CRAWLPRIO_VALUE). O(links); 16 bytes per page besides the key.
    """

    needs_values = True

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._links = np.zeros((1024, 2))

    def observe(self, visit: Visit) -> Changed:
        if self.n_pages > len(self._links):
            more = max(self.n_pages, 2 * len(self._links)) - len(self._links)
            self._links = np.pad(self._links, ((0, more), (0, 0)))
        targets = visit.targets
        if visit.page >= 0 and not 300 <= visit.status < 400:
            self._links[targets] += (1.0, visit.value or 0.0)
            n_links, values = self._links[targets].T
            self.keys[targets] = values / n_links
        return targets
