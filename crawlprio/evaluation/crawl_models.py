"""The three crawl models of Cho, Garcia-Molina & Page: P_CS, P_ST and P_BC of a crawl's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.arrays import integers, mask, numbers, takes
from crawlprio.errors import ConfigError, GraphError
from crawlprio.evaluation.crawl_order import Floats, Order, PageMask, checked_order
from crawlprio.evaluation.estimates import Estimate
from crawlprio.evaluation.limited_buffer import crawl_into_buffers

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ModelCurve:
    """The performance of a crawl under one model, with an ideal and a random crawl, as shares of 1.

    Parameters
    ----------
    x
        float64, ascending: share of all T pages that is fetched, or that the buffer holds.
    performance, ideal, random
        float64, shape of x: performance of this crawl, of a crawl in order of importance, and the
        expectation for a crawl in random order.
    n_hot
        int64, shape of x: number of hot pages.
    """

    x: Floats
    performance: Floats
    ideal: Floats
    random: Floats
    n_hot: Longs

    def points(self, line: str = "performance", n: int = 501) -> list[tuple[float, float]]:
        """Return `(x, y)` of the named line at up to n evenly spaced points, for a plot."""
        y: Floats = getattr(self, line)
        places = np.unique(np.linspace(0, max(len(y) - 1, 0), n).round().astype(np.int64))
        return [(float(self.x[k]), float(y[k])) for k in places] if len(y) else []


@takes(order=integers, importance=numbers, reachable=mask)
def crawl_and_stop(
    order: Order, importance: Floats, reachable: PageMask | None = None
) -> ModelCurve:
    """Return P_CS for every K: the share of the first K pages fetched that are hot at that point.

    After K fetches the hot pages are those with I(P) >= I(r_K), where r_K has the Kth highest
    importance. Pages that tie with r_K are hot, so there may be more than K. (Cho, Garcia-Molina &
    Page, Efficient crawling through URL ordering, WWW7 1998, section 3.)

    Parameters
    ----------
    order
        Distinct page ids in the order fetched; not all pages need be fetched.
    importance
        float64, shape (n_pages,): I(P), larger is more important; no NaN.
    reachable
        bool, shape (n_pages,): the T pages of this web; all by default.

    Returns
    -------
    ModelCurve
        One element per fetch. The ideal crawl has 1 throughout, the random crawl H/T with H hot
        pages: K/T, as in the paper, if no page ties with r_K, and more otherwise.

    Raises
    ------
    GraphError
        If the order has a page twice or a page that is not reachable, or importance is NaN.

    Notes
    -----
    O(n log n).
    """
    pages, falling = _pages_and_ranking(order, importance, reachable)
    n_fetched, whole = len(pages), max(len(falling), 1)
    # A page is hot from the K at which it is the first among its ties: 1 + pages above it.
    n_above = np.searchsorted(-falling, -importance[pages], side="left")
    counts_from = np.maximum(np.arange(n_fetched), n_above)
    n_found = np.cumsum(np.bincount(counts_from[counts_from < n_fetched], minlength=n_fetched))
    n_hot = np.searchsorted(-falling, -falling[:n_fetched], side="right").astype(np.int64)
    fetches = np.arange(1, n_fetched + 1)
    return ModelCurve(
        fetches / whole,
        n_found / fetches,
        np.ones(n_fetched, dtype=np.float64),
        n_hot / whole,
        n_hot,
    )


@takes(order=integers, importance=numbers, reachable=mask)
def crawl_and_stop_with_threshold(
    order: Order, importance: Floats, threshold: float, reachable: PageMask | None = None
) -> ModelCurve:
    """Return P_ST for every K: the share of the hot pages, I(P) >= G, among the first K fetched.

    Parameters
    ----------
    order, importance, reachable
        As for `crawl_and_stop`. If hotness is binary, such as being on a topic, use importance 1 or
        0 and threshold 1.
    threshold
        G, in the unit of importance; `top_threshold` computes it from a share of hot pages.

    Returns
    -------
    ModelCurve
        One element per fetch. The ideal crawl has min(1, K/H), the random crawl K/T.

    Raises
    ------
    GraphError
        As `crawl_and_stop`, and if no page is hot.
    """
    pages, falling = _pages_and_ranking(order, importance, reachable)
    n_hot = int(np.searchsorted(-falling, -threshold, side="right"))
    if n_hot == 0:
        raise GraphError(f"no page has importance {threshold:g} or more; give a lower threshold.")
    fetches = np.arange(1, len(pages) + 1)
    return ModelCurve(
        fetches / len(falling),
        np.cumsum(importance[pages] >= threshold) / n_hot,
        np.minimum(fetches / n_hot, 1.0),
        fetches / len(falling),
        np.full(len(pages), n_hot, dtype=np.int64),
    )


@takes(order=integers, importance=numbers, reachable=mask)
def limited_buffer(
    order: Order,
    importance: Floats,
    buffers: Sequence[float] | Floats,
    estimate: Estimate,
    *,
    threshold: float | None = None,
    reachable: PageMask | None = None,
) -> ModelCurve:
    """Return P_BC for each buffer size: the share of its B pages that are hot at the end.

    The crawl fetches pages in its order and can keep only B of them. When a page arrives at a full
    buffer, the page with the lowest *estimated* importance is evicted, which may be the new one.
    The paper does not specify the estimate, the tie-break (here: last fetched, first evicted), or
    whether links of evicted pages are forgotten (here: no).

    Parameters
    ----------
    order, importance, reachable
        As for `crawl_and_stop`. In the paper the crawl fetches all T pages.
    buffers
        Sizes B, as shares of the T pages: 0 < share <= 1, rounded to at least one page.
    estimate
        `BacklinksSeen`, `PageRankSeen`, `RenewedEstimate`, or a constant array, such as an
        importance that depends on the page alone.
    threshold
        G: pages with I(P) >= G are hot; by default those with I(P) >= I(r_B), including ties.

    Returns
    -------
    ModelCurve
        One element per size, in the order given; x is B/T. The ideal crawl has min(1, H/B), the
        random crawl H/T.

    Raises
    ------
    ConfigError
        If a size is not a share, or estimates are never renewed.
    GraphError
        As `crawl_and_stop`, and if the estimates are for a different number of pages.

    Notes
    -----
    O(log B) per fetch and buffer; estimates are computed once for all sizes.
    """
    pages, falling = _pages_and_ranking(order, importance, reachable)
    whole = len(falling)
    shares = np.asarray(buffers, dtype=np.float64)
    wrong = shares[~((shares > 0.0) & (shares <= 1.0))]
    if len(wrong):
        raise ConfigError(f"a buffer is {wrong[0]:g} of all pages; give shares above 0, at most 1.")
    sizes = np.clip(np.rint(shares * whole), 1, max(whole, 1)).astype(np.int64)
    kept = crawl_into_buffers(pages, len(importance), sizes.tolist(), estimate)
    bounds = falling[sizes - 1] if threshold is None else np.full(len(sizes), threshold)
    n_hot = np.searchsorted(-falling, -bounds, side="right").astype(np.int64)
    n_hot_kept = [int((importance[held] >= g).sum()) for held, g in zip(kept, bounds, strict=True)]
    return ModelCurve(
        sizes / whole,
        np.array(n_hot_kept, dtype=np.float64) / sizes,
        np.minimum(n_hot / sizes, 1.0),
        n_hot / whole,
        n_hot,
    )


@takes(importance=numbers, reachable=mask)
def top_threshold(importance: Floats, share: float, reachable: PageMask | None = None) -> float:
    """Return the threshold G at which this share of the pages, or more with ties, is hot.

    Parameters
    ----------
    importance, reachable
        As for `crawl_and_stop`.
    share
        0 < share <= 1; rounded to at least one page.
    """
    falling = _ranking(importance, reachable)
    if not 0.0 < share <= 1.0 or len(falling) == 0:
        raise ConfigError(
            f"share is {share:g} of {len(falling)} pages; give a share above 0, at most 1."
        )
    return float(falling[max(round(share * len(falling)), 1) - 1])


def _pages_and_ranking(
    order: Order, importance: Floats, reachable: PageMask | None
) -> tuple[Longs, Floats]:
    """Return the validated order, and the importance of all pages of this web, descending."""
    pages = checked_order(order, importance, reachable)
    return pages, _ranking(importance, reachable)


def _ranking(importance: Floats, reachable: PageMask | None) -> Floats:
    """Return the importance of all pages of this web, descending."""
    if np.isnan(importance).any():
        page = int(np.argmax(np.isnan(importance)))
        raise GraphError(f"the importance of page {page} is NaN; every page needs a number.")
    values = np.asarray(importance if reachable is None else importance[reachable], np.float64)
    return np.sort(values)[::-1]
