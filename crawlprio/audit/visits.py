"""What the last visit of each page of a crawl got, as arrays by page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.pages import NO_PAGE
from crawlprio.store.outcomes import failure_of, is_refusal
from crawlprio.store.reader import StoreReader


@dataclass(frozen=True, eq=False)
class LastVisits:
    """The outcome of the last visit of each page. Arrays have the shape (n_pages,).

    Parameters
    ----------
    status
        int32; 0 if the page was never visited, or got no response.
    hop
        int32: the page that a redirect leads to; `NO_PAGE` for other pages.
    elapsed
        float64: seconds of the fetch.
    n_bytes, body
        int64: length and hash of the body; the hash is 0 if it was not computed.
    title
        int32: place in `titles`; 0, whose title is empty, where there is none.
    failed
        The cause by page, for pages that were not got.
    refused
        Pages that the crawl would not request, which says nothing of the site.
    """

    status: NDArray[np.int32]
    hop: NDArray[np.int32]
    elapsed: NDArray[np.float64]
    n_bytes: NDArray[np.int64]
    body: NDArray[np.int64]
    title: NDArray[np.int32]
    titles: list[str]
    failed: dict[int, str]
    refused: set[int]

    @classmethod
    def read(cls, store: StoreReader, n_pages: int) -> LastVisits:
        """Read the visits of pages below `n_pages`. O(visits), 5 s for a million."""
        last = cls(
            np.zeros(n_pages, np.int32),
            np.full(n_pages, NO_PAGE, np.int32),
            np.zeros(n_pages, np.float64),
            np.zeros(n_pages, np.int64),
            np.zeros(n_pages, np.int64),
            np.zeros(n_pages, np.int32),
            [""],
            {},
            set(),
        )
        places = {"": 0}
        for visit in store.outcomes():
            page = visit.page
            if not 0 <= page < n_pages:
                continue
            last.status[page] = min(max(visit.status, 0), 999)
            last.hop[page] = visit.targets[0] if len(visit.targets) else NO_PAGE
            last.elapsed[page] = visit.elapsed
            last.n_bytes[page] = visit.n_bytes
            last.body[page] = visit.content_hash
            last.title[page] = places.setdefault(visit.title, len(places))
            last.failed.pop(page, None)
            last.refused.discard(page)
            if cause := failure_of(visit):
                last.failed[page] = cause
                if is_refusal(visit.status, visit.error):
                    last.refused.add(page)
        last.titles[:] = places
        return last

    @property
    def is_got(self) -> NDArray[np.bool_]:
        """Whether a page was got with a body: status 2xx."""
        got: NDArray[np.bool_] = self.status // 100 == 2
        got[list(self.failed)] = False
        return got
