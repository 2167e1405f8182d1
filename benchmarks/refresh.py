"""Which policy keeps a copy of a website fresh: the ordering `gain` beside those of the literature.

    python benchmarks/refresh.py FOLDER [--web NAME]... [--budgets .01 .05 .2]
        [--policies gain importance ...] [--lastmod honest|build] [--start .3] [--spread]

Replays the histories that `histories.py` wrote to FOLDER. Each day, a policy may fetch a share of
the pages that can be reached from the home pages, of those that it knows. It starts with a copy of
all of them, at `--start` of the history, 30 % in. A page has changed if its core has.

Freshness is the share of importance (PageRank of the true graph) whose copy is current, as a mean
over all days but those on which no page can be reached; `closed` is the share of the distance from
`uniform` to `clairvoyant`, which knows when each page will change.

`gain` is computed by `crawlprio.plugins.update.gain` itself. The baselines: `uniform` the longest
unchecked first; `importance` times age; `change` the largest z; `greedy` importance times the
chance that it has changed; `nutch` and `storm` the interval rules of Nutch's AdaptiveFetchSchedule
and StormCrawler's AdaptiveScheduler, most overdue first; `lambda` LambdaCrawl's rates (Kolobov et
al. 2019), solved every 30 days. All but these fetch a page that they have no copy of first: `gain`,
and `told`, the same with the mean rates of the pages from then on told to it, which shows what its
estimates cost.

With `--lastmod`, a sitemap is read each day: `honest`, with the day on which the bytes of a page
last changed, or `build`, with that day on all pages.

With `--spread`, no policy is replayed: how the changes from the start on spread over days and pages
is printed.

What it does not show: fetches that fail, pages that change more than once a day, JavaScript.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from histories import GONE, HISTORIES, History, ranks_of
from numpy.typing import NDArray

from crawlprio.plugins.update import gain

Floats = NDArray[np.float64]
Pages = NDArray[np.int64]

RANK_DAYS = 60
"""Days between two computations of the importance that a policy goes by."""

NEVER = 1e6
"""Days since the last check of a page without a copy."""


class Site:
    """The true site by day: versions, what can be reached, importance, and the next change."""

    def __init__(self, history: History, start: float) -> None:
        self.history = history
        first, last = history.days[0], history.days[-1]
        self.begin, self.end = int(first + start * (last - first)), last
        self.sites = np.zeros(len(history.paths), np.int32)
        self.next_change = self._next_changes()

    def state(self, day: int) -> int:
        """Return the place of the state that the site is in."""
        return int(np.searchsorted(self.history.days, day, side="right")) - 1

    def _changes(self) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Yield each state from the beginning on, and which pages have changed since the last."""
        history = self.history
        for at in range(self.state(self.begin) + 1, len(history.days)):
            new, old = history.states[at], history.states[at - 1]
            there = (new != GONE) & (old != GONE)
            yield at, there & (history.cores[new] != history.cores[old])

    @cached_property
    def rates(self) -> Floats:
        """The changes a day of each page from the beginning on."""
        history = self.history
        counts, days = np.zeros((2, len(history.paths)))
        for at, changed in self._changes():
            counts += changed
            days += (history.states[at - 1] != GONE) * (history.days[at] - history.days[at - 1])
        return (counts + 0.1) / (days + 30)

    def spread(self) -> dict[str, Any]:
        """Return how changes spread over days, and how important the pages are that change.

        An importance of 1 is that of a page on average.
        """
        history, counts, weights = self.history, [], []
        for at, changed in self._changes():
            reached, ranks = history.reached[at], history.weights[at]
            counts.append(int((changed & reached).sum()))
            weights += (ranks[changed & reached] * reached.sum() / ranks[reached].sum()).tolist()
        by_day = np.sort(counts)[::-1]
        return {
            "changes": len(weights), "days": int(np.count_nonzero(counts)),
            "days_of_half": int(np.searchsorted(np.cumsum(by_day), len(weights) / 2)) + 1,
            "importance": float(np.mean(weights)),
        }  # fmt: skip

    def _next_changes(self) -> list[Floats]:
        """Return for each state the day on which each page will next say something else."""
        history = self.history
        upcoming = np.full(len(history.paths), np.inf)
        found = [upcoming]
        for at in range(len(history.days) - 1, 0, -1):
            new, old = history.states[at], history.states[at - 1]
            differs = (new != old) & (history.cores[new] != history.cores[old])
            upcoming = np.where(differs, history.days[at], upcoming)
            found.append(upcoming)
        return found[::-1]


class Copy:
    """What a policy holds of a site and has learned, by page."""

    def __init__(self, site: Site, lastmod: str) -> None:
        n = len(site.history.paths)
        self.site, self._lastmod = site, lastmod
        at = site.state(site.begin)
        reached, state = site.history.reached[at], site.history.states[at]
        self.held = np.where(reached, state, GONE)
        self.known, self.dead = reached.copy(), np.zeros(n, np.bool_)
        self.checked = np.where(reached, float(site.begin), np.nan)
        self.exposure, self.n_changes, self.n_new = np.zeros(n), np.zeros(n), np.zeros(n)
        self.n_checks, self.n_told, self.n_true = np.zeros(n), np.zeros(n), np.zeros(n)
        self.interval = np.full(n, 30.0)
        self.rate = np.zeros(n)
        self.raw_at = np.full(n, -np.inf)
        self.ranked = self.solved = -np.inf

    def history(self, now: float) -> gain.History:
        """Return what is known of each page on a day, and rank the pages if it is time to."""
        if now - self.ranked >= RANK_DAYS:
            self.weights = ranks_of(self.site.history.links, self.held)
            self.ranked = now
        signals = np.zeros(len(self.known))
        if self._lastmod:
            signals = (self.raw_at > self.checked).astype(float)
        return gain.History(
            np.maximum(now - self.checked, 0.5), signals, self.n_checks, self.exposure,
            self.n_changes, self.n_new, self.n_told, self.n_true,
        )  # fmt: skip

    def fetch(self, pages: Pages, now: float, state: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Fetch pages, and return of each whether it had changed."""
        cores, links = self.site.history.cores, self.site.history.links
        old, new = self.held[pages], state[pages]
        changed = np.where(old == GONE, new != GONE, (new == GONE) | (cores[old] != cores[new]))
        again = (old != GONE) & (new != GONE)
        seen, news = pages[again], changed[again]
        days = np.maximum(now - self.checked[seen], 0.5)
        self.n_checks[seen] += 1
        self.exposure[seen] += np.where(news, days / 2, days)
        self.n_changes[seen] += news
        if self._lastmod:
            told = self.raw_at[seen] > self.checked[seen]
            self.n_told[seen] += told
            self.n_true[seen] += told & news
        self.checked[pages] = now
        self.held[pages] = new
        self.dead[pages[new == GONE]] = True
        for page, version in zip(pages[old != new].tolist(), new[old != new].tolist(), strict=True):
            if version != GONE:
                found = links[version]
                self.n_new[page] += np.count_nonzero(~self.known[found]) * (page in seen)
                self.known[found] = True
                self.dead[found] = False
        return changed


def keys(policy: str, copy: Copy, now: int, budget: float) -> Floats:
    """Return the key of each page under a policy: larger is sooner."""
    history = copy.history(now)
    weights, sites = copy.weights, copy.site.sites
    if policy == "told":
        days = 1e10
        links = (history.n_new_links + 0.02) / (history.exposure + gain.PRIOR_DAYS) * days
        changes = copy.site.rates * days
        known = {"n_changes": changes, "n_new_links": links}
        history = history._replace(exposure=np.full(len(changes), days), **known)
    if policy in ("gain", "told"):
        return gain.gains(history, weights, sites)[0]
    is_new = np.isnan(history.ages)
    ages = np.where(is_new, NEVER, history.ages)
    if policy == "uniform":
        return ages
    if policy == "importance":
        return np.where(is_new, NEVER, weights * ages)
    if policy in FACTORS:
        return ages / copy.interval
    lambdas = gain.rates(history, gain.peers_of(weights, sites))
    if policy == "change":
        return lambdas * ages
    if policy == "greedy":
        return np.where(is_new, NEVER, weights * -np.expm1(-lambdas * ages))
    if policy == "lambda":
        if now - copy.solved >= 30:
            can = copy.known & ~copy.dead
            copy.rate = lambda_rates(np.where(can, weights, 0), lambdas, budget * can.sum())
            copy.solved = now
        return np.where(is_new, NEVER, copy.rate * ages)
    raise SystemExit(f"{policy!r} is no policy; see --help")


def lambda_rates(weights: Floats, lambdas: Floats, budget: float) -> Floats:
    """Return the rates of LambdaCrawl, which add up to a budget: by bisection."""
    low, high = -30.0, 30.0
    for _ in range(60):
        mid = (low + high) / 2
        root = np.sqrt(lambdas**2 + 4 * weights * lambdas / np.exp(mid))
        rate: Floats = np.where(weights > 0, (root - lambdas) / 2, 0)
        low, high = (mid, high) if rate.sum() > budget else (low, mid)
    return rate


FACTORS = {"nutch": (0.8, 1.4), "storm": (0.5, 1.5)}
"""By what the interval of a page is multiplied if it changed, and if not."""


def simulate(site: Site, policy: str, budget: float, lastmod: str = "") -> dict[str, Any]:
    """Return mean freshness and the share of changes caught under a policy, a day a step."""
    copy, history = Copy(site, lastmod), site.history
    n_changes = n_caught = w_changes = w_caught = 0.0
    total, carry, n_fetches, n_same, n_down = 0.0, 0.0, 0, 0, 0
    before = site.state(site.begin)
    for day in range(site.begin + 1, site.end):
        at = site.state(day)
        state, reached, true = history.states[at], history.reached[at], history.weights[at]
        for each in range(before + 1, at + 1):
            now, old = history.states[each], history.states[each - 1]
            moved = (now != old) & (now != GONE)
            copy.raw_at[moved] = day
            own = moved & (old != GONE) & (history.cores[now] != history.cores[old]) & reached
            n_changes += own.sum()
            w_changes += true[own].sum()
        before = at
        if lastmod == "build":
            copy.raw_at[state != GONE] = day
        if not reached.any():  # a build that failed
            n_down += 1
            continue
        carry += budget * int(reached.sum())
        n, carry = int(carry), carry % 1
        if n:
            can = copy.known & ~copy.dead
            if policy == "clairvoyant":
                until = np.minimum(site.next_change[at] - day, 120.0)
                stale = (copy.held == GONE) | (history.cores[copy.held] != history.cores[state])
                key, can = true * until, reached & stale
            else:
                key = keys(policy, copy, day, budget)
            pages = np.flatnonzero(can)
            pages = pages[np.argsort(-key[pages], kind="stable")[:n]]
            was_held, same = copy.held[pages] != GONE, copy.held[pages] == state[pages]
            changed = copy.fetch(pages, day, state)
            n_fetches, n_same = n_fetches + len(pages), n_same + int(same.sum())
            caught = pages[changed & was_held & reached[pages]]
            n_caught += len(caught)
            w_caught += true[caught].sum()
            if policy in FACTORS:
                factors = np.where(changed, *FACTORS[policy])
                copy.interval[pages] = np.clip(copy.interval[pages] * factors, 1, 365)
        fresh = (copy.held != GONE) & (history.cores[copy.held] == history.cores[state])
        total += true[reached & fresh].sum() / true[reached].sum()
    return {
        "policy": policy, "budget": budget, "lastmod": lastmod,
        "fresh": float(total) / (site.end - site.begin - 1 - n_down),
        "caught": n_caught / max(float(n_changes), 1),
        "weighted": float(w_caught) / max(float(w_changes), 1e-12),
        "not_modified": n_same / max(n_fetches, 1), "fetches": n_fetches,
    }  # fmt: skip


POLICIES = ("uniform", "clairvoyant", "nutch", "storm", "change", "greedy", "importance", "lambda")


def main() -> None:
    cli = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    cli.add_argument("folder", type=Path)
    cli.add_argument("--web", action="append", choices=sorted(HISTORIES))
    cli.add_argument("--budgets", nargs="+", type=float, default=[0.01, 0.05, 0.2])
    cli.add_argument("--policies", nargs="+", default=[*POLICIES, "gain"])
    cli.add_argument("--lastmod", default="", choices=("honest", "build"))
    cli.add_argument("--start", type=float, default=0.3, help="share of the history before it")
    cli.add_argument("--spread", action="store_true")
    args = cli.parse_args()
    for name in args.web or HISTORIES:
        site = Site(History.load(args.folder / f"{name}.npz"), args.start)
        if args.spread:
            print(json.dumps({"web": name, **site.spread()}), flush=True)
            continue
        for budget in args.budgets:
            for policy in args.policies:
                found = simulate(site, policy, budget, args.lastmod)
                print(json.dumps({"web": name, "start": args.start, **found}), flush=True)


if __name__ == "__main__":
    main()
