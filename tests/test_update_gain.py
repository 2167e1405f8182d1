"""The key of updates against solvers that know nothing of it: SciPy's minimizer and quadrature."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize

from crawlprio.plugins.update.gain import History, gains, rates, trust

WEBS = {
    "equal pages": ([1.0, 1.0, 1.0], [0.1, 0.1, 0.1]),
    "importance differs": ([8.0, 3.0, 1.0, 0.2], [0.05, 0.05, 0.05, 0.05]),
    "rates differ": ([1.0, 1.0, 1.0, 1.0], [3.0, 0.3, 0.02, 0.001]),
    "both differ": ([0.1, 5.0, 1.0, 2.0, 0.01], [2.0, 0.01, 0.3, 0.7, 5.0]),
}
"""Importance and changes a day of the pages of small webs."""

BUDGETS = (0.05, 0.6, 3.0)
"""Fetches a day for each page."""


def known(ages, lambdas):
    """Return a history so long that its rates are the given ones to 1e-9."""
    exposure = np.full(len(ages), 1e10)
    none = np.zeros(len(ages))
    return History(np.asarray(ages), none, none, exposure, lambdas * exposure, none, none, none)


def keys(weights, lambdas, ages):
    """Return the gain of each page, without what new pages it may lead to."""
    history = known(ages, lambdas)
    np.testing.assert_allclose(rates(history, np.zeros(len(ages), np.int32)), lambdas, rtol=1e-6)
    return gains(history, weights, np.zeros(len(ages), np.int32))[0]


def cost(weights, lambdas, fetches):
    """Return the cost of a day, and a bound on its error, if pages are fetched at fixed intervals.

    LambdaCrawl's harmonic penalty grows as w ln(1 + lambda * age); its mean over an interval is
    integrated numerically.
    """
    total = error = 0.0
    for weight, rate, per_day in zip(weights, lambdas, fetches, strict=True):
        found = quad(lambda age, rate=rate: math.log1p(rate * age), 0, 1 / per_day, epsabs=1e-13)
        total += weight * per_day * found[0]
        error += weight * per_day * found[1]
    return total, error


def solved(weights, lambdas, budget):
    """Return the fetches a day of each page that cost least, by SciPy's minimizer."""
    n = len(weights)
    start = np.full(n, math.log(budget))
    found = minimize(
        lambda logs: cost(weights, lambdas, np.exp(logs))[0],
        start,
        method="SLSQP",
        constraints={"type": "eq", "fun": lambda logs: np.exp(logs).sum() / (n * budget) - 1},
        options={"ftol": 1e-14, "maxiter": 1_000},
    )
    fetches = np.exp(found.x)
    return fetches * (n * budget / fetches.sum())


def by_key(weights, lambdas, budget):
    """Return the fetches a day if each page is fetched when its gain reaches a common bound."""
    n = len(weights)

    def interval(page, bound):
        def beyond(log_age):
            ages = np.zeros(n)
            ages[page] = math.exp(log_age)
            return keys(weights, lambdas, ages)[page] - bound

        return math.exp(brentq(beyond, -30.0, 30.0, xtol=1e-13))

    def too_many(log_bound):
        intervals = [interval(page, math.exp(log_bound)) for page in range(n)]
        return sum(1 / each for each in intervals) - n * budget

    bound = math.exp(brentq(too_many, -25.0, 25.0, xtol=1e-12))
    return np.array([1 / interval(page, bound) for page in range(n)])


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("web", WEBS)
def test_no_rates_that_a_solver_finds_cost_less_than_those_of_the_key(web, budget):
    """The tolerance is what quadrature says of its own error, for both."""
    weights, lambdas = map(np.array, WEBS[web])
    ours = by_key(weights, lambdas, budget)
    theirs = solved(weights, lambdas, budget)
    assert ours.sum() == pytest.approx(len(weights) * budget)
    (our_cost, our_error), (their_cost, their_error) = (
        cost(weights, lambdas, each) for each in (ours, theirs)
    )
    print(web, budget, ours, theirs, our_cost - their_cost)
    assert our_cost <= their_cost + our_error + their_error


@pytest.mark.parametrize(
    ("told_when_changed", "told_when_not", "least", "most"),
    [(1.0, 0.0, 0.98, 1.0), (1.0, 1.0, 0.0, 0.002), (0.5, 0.0, 0.9, 1.0), (0.0, 0.0, 0.0, 0.55)],
    ids=["true", "on all pages", "half of the changes", "none"],
)
def test_a_signal_is_trusted_as_far_as_it_tells_changed_pages_from_others(
    told_when_changed, told_when_not, least, most
):
    """A thousand pages are checked each day for 60 days; a fiftieth of them changes."""
    random = np.random.default_rng(5)
    n_pages, n_days = 1_000, 60
    columns = {name: np.zeros(n_pages) for name in ("n_changes", "n_told", "n_true")}
    for _ in range(n_days):
        changed = random.random(n_pages) < 0.02
        told = random.random(n_pages) < np.where(changed, told_when_changed, told_when_not)
        columns["n_changes"] += changed
        columns["n_told"] += told
        columns["n_true"] += told & changed
    some = np.ones(n_pages)
    days = n_days * some
    history = History(
        ages=some, n_signals=some, n_checks=days, exposure=days, n_new_links=0 * some, **columns
    )
    assert least <= trust(history, np.zeros(n_pages, np.int32)).mean() <= most


def test_a_date_on_all_pages_leaves_the_order_as_it_is():
    """Half of the pages change each day, the others never; each check came after a signal."""
    n_pages = 200
    changes, days = np.where(np.arange(n_pages) < 100, 300.0, 0.0), np.full(n_pages, 600.0)
    weights, ages = np.linspace(1, 2, n_pages), np.full(n_pages, 2.0)
    none, sites = np.zeros(n_pages), np.zeros(n_pages, np.int32)
    quiet = History(ages, none, days, days, changes, none, none, none)
    told = quiet._replace(n_signals=none + 1, n_told=days, n_true=changes)
    without, with_signal = (np.argsort(gains(each, weights, sites)[0]) for each in (quiet, told))
    assert without.tolist() == with_signal.tolist()


def test_a_site_whose_dates_lie_costs_the_others_no_trust():
    n_pages, n_days = 100, 50
    sites = np.arange(n_pages, dtype=np.int32) % 2
    lies = sites == 1
    days, changes = np.full(n_pages, float(n_days)), np.full(n_pages, 5.0)
    told = np.where(lies, days, changes)
    none = np.zeros(n_pages)
    history = History(none, none + 1, days, days, changes, none, told, changes)
    trusts = trust(history, sites)
    assert trusts[~lies].min() > 0.95
    assert trusts[lies].max() < 0.002
