"""What a fetch is worth in an update: one key for pages known and new, computed once per pass.

A page that changes at rate lambda (a day) and was last checked `age` days ago is stale at a cost
that grows as w * ln(1 + z), with z = lambda * age and w its importance: the harmonic penalty of
Kolobov, Peres, Lu & Horvitz, Staying up to date with online content changes using reinforcement
learning for scheduling, NeurIPS 2019. Fetching it again gains what has built up beyond the cost
that it has had on average so far::

    age * cost(age) - integral of cost = w / lambda * (z - ln(1 + z))

For small z this is the order of Azar, Horvitz, Lubetzky, Peres & Shahaf, Tractable near-optimal
policies for crawling, PNAS 2018; it never saturates, so no page is put off for ever. If every page
is fetched when its gain reaches a common bound, no other intervals cost less. Departures: the rate
is estimated, from that of pages of like importance at first, instead of being known; a page never
fetched, which is stale for certain, has what the gain tends to with lambda, w * age, for a year;
and a page that links to new ones gains w_new * nu * age^2 / 2 more, for the nu new links a day that
it is expected to have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from crawlprio.orderings.base import ALL_PAGES, Changed, CompiledOrdering, Keys
from crawlprio.orderings.baseline import keep_zero

Floats = NDArray[np.float64]

DAY = 86_400.0

PRIOR_DAYS = 60.0
"""A site of which nothing is known is taken to have seen one change in so many days of one page."""

UNFETCHED_DAYS = 365.0
"""The age of a page never fetched."""

NEW_SHARE = 0.5
"""Importance of a page that is still unknown, as a share of that of a fetched page on average."""

MOST_POWERS = 8
"""Powers of two above and below the mean importance that are told apart."""


class History(NamedTuple):
    """What is known of each page, in arrays of the shape (n_pages,).

    `ages`: days since the last check; NaN for a page never fetched. `n_signals`: 1 if a sitemap has
    called it changed since, else 0. `n_checks`, `exposure`: checks, and the days for which they
    observed it. `n_changes` and `n_new_links`: changes seen in them, and pages that it led to.
    `n_told` and `n_true`: checks after such a signal, and those of them that found a change.
    """

    ages: Floats
    n_signals: Floats
    n_checks: Floats
    exposure: Floats
    n_changes: Floats
    n_new_links: Floats
    n_told: Floats
    n_true: Floats


def peers_of(weights: Floats, sites: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return a number for the pages of one site whose importance has the same power of two.

    What a page is linked for is kept up: on the histories tried, importance says more about the
    rate of a page of which nothing is known yet than its folder does. O(pages).
    """
    powers = np.clip(np.round(np.log2(weights / weights.mean())), -MOST_POWERS, MOST_POWERS)
    peers: NDArray[np.int64] = (2 * MOST_POWERS + 1) * sites + (powers + MOST_POWERS).astype(int)
    return peers


def rates(history: History, peers: NDArray[np.int64]) -> Floats:
    """Return the estimated changes a day of each page.

    The mean of a Gamma distribution whose prior is the rate of the page's peers, one change
    strong; theirs likewise comes from all pages, half a change strong. O(pages).
    """
    changes, exposure = history.n_changes, history.exposure
    everywhere = (changes.sum() + 1) / (exposure.sum() + PRIOR_DAYS)
    seen, days = (np.bincount(peers, each) for each in (changes, exposure))
    priors: Floats = ((seen + 0.5) / (days + 0.5 / everywhere))[peers]
    lambdas: Floats = (changes + 1) / (exposure + 1 / priors)
    return lambdas


def gains(
    history: History, weights: Floats, sites: NDArray[np.int32]
) -> tuple[Floats, float, float]:
    """Return the key of each page, that of a page that is found from now on, and the freshness.

    A signal adds to z as far as it is to be trusted. The freshness is the share of all importance
    whose copy has probably not changed since its check. O(pages), .2 s for a million.
    """
    lambdas = rates(history, peers_of(weights, sites))
    is_new = np.isnan(history.ages)
    ages = np.where(is_new, 0.0, history.ages)
    z = lambdas * ages
    is_current = np.where(is_new, 0.0, np.exp(-z))
    z -= history.n_signals * np.log1p(-trust(history, sites))
    w_new = NEW_SHARE * float(weights[~is_new].mean()) if not is_new.all() else 1.0
    known = weights / lambdas * (z - np.log1p(z)) + w_new * hub_gains(history, ages)
    first = np.maximum(weights, w_new) * UNFETCHED_DAYS
    fresh = float(weights @ is_current / weights.sum())
    return np.where(is_new, first, known), w_new * UNFETCHED_DAYS, fresh


def trust(history: History, sites: NDArray[np.int32]) -> Floats:
    """Return how far a signal of each page is to be trusted: 0 not at all, 1 wholly.

    It is the share of signals that a change had preceded, times the share of unchanged pages that
    had no signal: 0 where all pages are called changed all the time. Its site counts for a page as
    two checks more, and all pages for a site. O(pages).
    """
    unchanged = history.n_checks - history.n_changes
    trusts = np.ones(len(sites))
    for parts, wholes in (
        (history.n_true, history.n_told),
        (unchanged - (history.n_told - history.n_true), unchanged),
    ):
        usual = (parts.sum() + 1) / (wholes.sum() + 2)
        of_sites = (np.bincount(sites, parts) + 2 * usual) / (np.bincount(sites, wholes) + 2)
        trusts *= (parts + 2 * of_sites[sites]) / (wholes + 2)
    return trusts


def hub_gains(history: History, ages: Floats) -> Floats:
    """Return the new pages that each page is expected to have led to, times the days they wait."""
    nu = (history.n_new_links + 0.02) / (history.exposure + PRIOR_DAYS)
    found: Floats = nu * ages**2 / 2
    return found


class Gain(CompiledOrdering):
    """Pages whose fetch gains most first: the ordering of an update, whose part sets the keys.

    They are relative to the gain of a page found from now on, and stay as they are while a pass
    lasts, so its order follows from the store and the time at which it began. Without an update,
    pages leave in order of discovery. O(1) per visit.
    """

    rule = keep_zero
    learns = False

    def restore_learned(self, take: Callable[[str, DTypeLike], NDArray[Any]]) -> None:
        """Take over the pages of any ordering, without its keys."""
        self.n_pages = len(take("keys", np.float64))
        self.keys = np.zeros(self.n_pages)

    def accept(self, result: Keys) -> Changed:
        """Take the keys of the pages that were known when a pass began."""
        self.keys[: len(result)] = result
        self.keys[len(result) : self.n_pages] = 0.0
        return ALL_PAGES
