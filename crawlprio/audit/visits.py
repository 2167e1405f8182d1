"""What the last visit of each page of a crawl got, as arrays by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.pages import NO_PAGE, Visit
from crawlprio.store.outcomes import failure_of, is_refusal


@dataclass(frozen=True, eq=False)
class LastVisits:
    """The outcome of the last visit of each page. Arrays have the shape (n_pages,).

    Parameters
    ----------
    status
        int32; 0 if the page was never visited, or got no response.
    hop
        int32: the page that a redirect leads to; `NO_PAGE` for other pages.
    fetched_at, elapsed
        float64: Unix time of the end of the fetch, 0 if there was none, and its seconds.
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
    fetched_at: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    n_bytes: NDArray[np.int64]
    body: NDArray[np.int64]
    title: NDArray[np.int32]
    titles: list[str]
    failed: dict[int, str]
    refused: set[int]

    @classmethod
    def none(cls, n_pages: int) -> LastVisits:
        """Return the outcomes of a crawl without visits."""
        return cls(
            np.zeros(n_pages, np.int32),
            np.full(n_pages, NO_PAGE, np.int32),
            np.zeros(n_pages, np.float64),
            np.zeros(n_pages, np.float64),
            np.zeros(n_pages, np.int64),
            np.zeros(n_pages, np.int64),
            np.zeros(n_pages, np.int32),
            [""],
            {},
            set(),
        )

    def noting(self, visits: Iterable[Visit]) -> Iterator[Visit]:
        """Yield visits in their order, each once it is noted; other pages are left out of that."""
        places = {title: place for place, title in enumerate(self.titles)}
        for visit in visits:
            if 0 <= visit.page < len(self.status):
                self._note(visit, places)
            yield visit

    def _note(self, visit: Visit, places: dict[str, int]) -> None:
        """Note a visit; `places` has the places of the titles."""
        page = visit.page
        place = places.setdefault(visit.title, len(places))
        if place == len(self.titles):
            self.titles.append(visit.title)
        self.status[page] = min(max(visit.status, 0), 999)
        is_redirect = 300 <= visit.status < 400 and len(visit.targets)
        self.hop[page] = visit.targets[0] if is_redirect else NO_PAGE
        self.fetched_at[page] = visit.fetched_at
        self.elapsed[page] = visit.elapsed
        self.n_bytes[page] = visit.n_bytes
        self.body[page] = visit.content_hash
        self.title[page] = place
        self.failed.pop(page, None)
        self.refused.discard(page)
        if cause := failure_of(visit):
            self.failed[page] = cause
            if is_refusal(visit.status, visit.error):
                self.refused.add(page)

    @property
    def is_got(self) -> NDArray[np.bool_]:
        """Whether a page was got with a body: status 2xx."""
        got: NDArray[np.bool_] = self.status // 100 == 2
        got[list(self.failed)] = False
        return got
