"""Counting the visits that this worker made."""

from __future__ import annotations

import numpy as np

from crawlprio.frontier.protocol import PageVisit
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.live.counts import Figures
from crawlprio.web.urls import host_if_any


class OwnVisits:
    """Counts visits in `figures`, with page ids of its own."""

    def __init__(self, pages: PageTable | None, figures: Figures | None) -> None:
        self._pages = PageTable() if pages is None else pages
        self._figures = Figures(self._pages) if figures is None else figures

    def count(self, url: str, visit: PageVisit) -> None:
        """Count a visit."""
        pages, pairs = self._pages, visit.pairs
        page = pages.find(url)
        if page == NO_PAGE:
            page = pages.add(url, url, pages.site(host_if_any(url)))
        self._figures.count(
            Visit(
                page,
                np.zeros(len(pairs.targets), dtype=np.int32),
                status=pairs.status,
                content_hash=pairs.content_hash,
                error=visit.error,
            )
        )
