"""What decides comparisons besides the orderings themselves: cadence, politeness, ties, seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle
from pathlib import Path
from statistics import fmean

import numpy as np
from measured import (
    DELAY,
    Crawled,
    Start,
    curves_panel,
    mean_curves,
    polite_network,
    small_country,
)
from numpy.typing import NDArray
from report import Report
from verdicts import RULE, GeneratorErrors, Margin
from webs import STARTS, Web, cnr, hollins, uci

from crawlprio.frontier import Politeness
from crawlprio.graph.pages import PageIds, Visit
from crawlprio.orderings import ALL_PAGES, Changed, Ordering, make_ordering
from crawlprio.orderings.base import Keys, Pages
from crawlprio.orderings.baseline import BacklinkCount
from crawlprio.orderings.opic import Opic
from crawlprio.show.figures import Panel
from crawlprio.simulator.network import Network

COUNTRIES, COUNTRY_SHARE = STARTS, 70
PARTS = (2000, 350, 35)
"""How many times per crawl keys are updated."""

TIES = 2
"""Draws of random ties from each start."""

ROBOTS = 64
YARDSTICKS = ("breadth-first", "larger-sites-first", "backlink-count")


Drawn = Callable[[Web, int], Network]
"""The network of a web with a seed for what is drawn."""


class RenewedEvery(Ordering):
    """An ordering whose keys are updated only after a number of visits.

    A page enters the queue with the key that it has when it is found.
    """

    def __init__(self, ordering: Ordering, visits: int) -> None:
        self._ordering, self._visits = ordering, visits

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._ordering.open(pages, truth)
        self._n_visits = 0
        self._stale: list[PageIds] = []

    def learn(self, visit: Visit, n_pages: int, *, again: bool = False) -> Changed:
        first = self.n_pages
        changed = self._ordering.learn(visit, n_pages, again=again)
        fresh = self._ordering.keys
        if len(self.keys) != len(fresh):
            room = np.zeros(len(fresh))
            room[:first] = self.keys[:first]
            self.keys = room
        self.keys[first:n_pages] = fresh[first:n_pages]
        self.n_pages = n_pages
        assert changed is not ALL_PAGES
        self._stale.append(changed)
        self._n_visits += visit.page >= 0
        if visit.page < 0 or self._n_visits % self._visits:
            return visit.targets[:0]
        renewed = np.unique(np.concatenate(self._stale))
        self._stale.clear()
        self.keys[renewed] = fresh[renewed]
        return renewed


class OpicRandomTies(Opic):
    """OPIC with random numbers below 1e-9 in the cash of new pages, so that ties are random."""

    rule = Opic.rule

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def first_scores(
        self, n_pages: int, urls: Sequence[str] | None, truth: Keys | None = None
    ) -> Keys:
        return 1.0 + 1e-9 * _lots(self._seed, n_pages)


class BacklinkCountRandomTies(BacklinkCount):
    """Backlink count with random numbers below 1 in the keys, so that ties are random."""

    rule = BacklinkCount.rule

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def first_scores(
        self, n_pages: int, urls: Sequence[str] | None, truth: Keys | None = None
    ) -> Keys:
        return _lots(self._seed, n_pages)


def _lots(seed: int, n: int) -> NDArray[np.float64]:
    """Return numbers in [0, 1) as a function of the seed."""
    return np.random.default_rng(seed).random(n)


@dataclass(frozen=True, eq=False)
class Kind:
    """Crawls of one kind of web, over which changes are averaged."""

    name: str
    webs: list[Web]
    starts: list[Start]
    has_sites: bool = True

    def crawl(
        self, make: Callable[[Start], Ordering], network: Drawn | None = None
    ) -> list[Crawled]:
        """Crawl from each start under an ordering, and in a network, of its own."""
        return [
            start.crawl(make(start), network(start.web, seed) if network else None)
            for seed, start in enumerate(self.starts)
        ]


@dataclass(frozen=True)
class Change:
    """How a choice changes the average of an ordering: by kind of web, from each start."""

    choice: str
    ordering: str
    words: str
    by_kind: Mapping[str, Sequence[float]]


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    report = Report(output, "choices", "What matters besides the ordering")
    ics, college, italian = uci(shared), hollins(shared), cnr(shared)
    n_pages = country_pages // COUNTRY_SHARE
    countries = [small_country(shared, n_pages, seed) for seed in range(COUNTRIES)]
    kinds = [
        Kind("uci-ics", [ics], [Start(ics, [seed]) for seed in ics.single_seeds]),
        Kind("hollins", [college], [Start(college, [seed]) for seed in college.single_seeds]),
        Kind("cnr-2000", [italian], [Start(italian, [s]) for s in italian.single_seeds], False),
        Kind("countries", countries, [Start(web, [web.start]) for web in countries]),
    ]
    report.text(
        "The papers leave some choices open. Where their pseudo-code decides (ties: a stable "
        "sort of a queue to which new pages are appended), we follow it by default. This section "
        "makes each choice in every way the papers allow, with everything else equal. It "
        "compares the change in average cumulative PageRank with the differences between "
        "orderings. Unless stated otherwise, crawls start from one page and run by order alone, "
        "keys are updated after every page, and ties go by order of discovery. They start from "
        f"{STARTS} pages of each recorded web, one at a time, and from the home page of the "
        f"largest site of {COUNTRIES} synthetic countries of {n_pages:,} pages. Crawls from all "
        f"home pages take these in {STARTS} random orders, each start has its own draw of "
        f"latencies, and random ties are drawn {TIES} times from each. Changes are means over "
        f"the crawls. {RULE} A case is one kind of web."
    )
    plain = {
        kind.name: {
            name: kind.crawl(lambda _, n=name: make_ordering(n)) for name in (*YARDSTICKS, "opic")
        }
        for kind in kinds
    }
    panels: dict[str, Panel] = {}
    changes = [
        *_cadence(kinds, plain, panels),
        *_politeness(kinds, plain, panels),
        *_ties(kinds, plain, panels),
        *_seeds(kinds, plain, panels),
    ]
    report.figure(
        "curves",
        list(panels.values()),
        "The effect of choices on one ordering: how often OPIC's keys are updated; r robots and "
        "w under larger sites first; ties in backlink count by order of discovery or at random; "
        "the seeds of OPIC and their cash. Curves are means over crawls; bands show the range "
        "from least to greatest.",
        title="The same ordering under different choices",
        own_legends=True,
    )
    _table(report, kinds, plain, changes)
    _findings(report, kinds, plain, changes, GeneratorErrors.read(output))
    report.write()


Plain = Mapping[str, Mapping[str, list[Crawled]]]


def _mean(crawls: Sequence[Crawled]) -> float:
    """Return the average cumulative PageRank, as a mean over crawls."""
    return float(np.mean([crawl.average for crawl in crawls]))


def _changes(
    choice: str,
    ordering: str,
    words: str,
    before: Mapping[str, Sequence[Crawled]],
    after: Mapping[str, Sequence[Crawled]],
) -> Change:
    """Return the changes for each kind of web that has both."""
    return Change(
        choice, ordering, words, {name: _by_start(before[name], after[name]) for name in after}
    )


def _by_start(before: Sequence[Crawled], after: Sequence[Crawled]) -> list[float]:
    """Return the change of each crawl after; several draws of all starts follow each other."""
    starts = cycle(before)
    return [crawl.average - next(starts).average for crawl in after]


def _outwards(values: Sequence[float]) -> list[float]:
    """Return the values with the sign at which their mean is positive."""
    return (np.sign(fmean(values)) * np.asarray(values)).tolist()


def _panel(title: str, kind: Kind, crawls: Mapping[str, Sequence[Crawled]]) -> Panel:
    """Return a panel of mean curves, one for each option."""
    n = max(map(len, crawls.values()))
    curves = [{name: each[k % len(each)] for name, each in crawls.items()} for k in range(n)]
    return curves_panel(f"{title}: {kind.name}", mean_curves(curves), kind.starts)


def _cadence(kinds: list[Kind], plain: Plain, panels: dict[str, Panel]) -> list[Change]:
    """Measure how often keys are updated."""
    changes = []
    for ordering in ("opic", "backlink-count"):
        before = {kind.name: plain[kind.name][ordering] for kind in kinds}
        shown = {"keys renewed every page": before["uci-ics"]}
        for parts in PARTS:
            after = {
                kind.name: kind.crawl(
                    lambda start, p=parts, n=ordering: RenewedEvery(
                        make_ordering(n), max(start.n_pages // p, 1)
                    )
                )
                for kind in kinds
                if kind.has_sites or ordering == "opic"
            }
            shown[f"keys renewed every N/{parts:,}"] = after["uci-ics"]
            words = f"keys renewed every N/{parts:,} pages, not every page"
            changes.append(_changes("cadence", ordering, words, before, after))
        if ordering == "opic":
            panels["cadence"] = _panel("Cadence, OPIC", kinds[0], shown)
    return changes


def _one_robot(web: Web, seed: int) -> Network:
    """Return a network with w = 15 s and drawn fetch times."""
    return polite_network(web, seed=seed)


def _rounds(web: Web, seed: int) -> Network:
    """Return a network with w = 15 s and fetches that take no time: every site once per round."""
    return Network(politeness=Politeness(DELAY))


def _many_robots(web: Web, seed: int) -> Network:
    """Return the same with 64 robots."""
    return polite_network(web, robots=ROBOTS, seed=seed)


def _rounds_of_robots(web: Web, seed: int) -> Network:
    """Return a network of at most 64 pages per round, one per site, all equally long."""
    return Network(robots=ROBOTS, latency=1.0)


NETWORKS: dict[str, Drawn] = {
    "r = 1, w = 15 s, fetches take time": _one_robot,
    "r = 1, w = 15 s, fetches take none": _rounds,
    f"r = {ROBOTS}, w = 15 s, fetches take time": _many_robots,
    f"r = {ROBOTS}, rounds of a page a robot and site": _rounds_of_robots,
}


def _politeness(kinds: list[Kind], plain: Plain, panels: dict[str, Panel]) -> list[Change]:
    """Measure delays, and robots that may not share a site."""
    changes = []
    kinds = [kind for kind in kinds if kind.has_sites]
    for ordering in ("opic", "larger-sites-first", "breadth-first"):
        before = {kind.name: plain[kind.name][ordering] for kind in kinds}
        shown = {"order alone": before["countries"]}
        for words, network in NETWORKS.items():
            after = {
                kind.name: kind.crawl(lambda _, n=ordering: make_ordering(n), network)
                for kind in kinds
            }
            shown[words] = after["countries"]
            changes.append(
                _changes("politeness", ordering, f"{words}, not order alone", before, after)
            )
        if ordering == "larger-sites-first":
            panels["politeness"] = _panel("Politeness, larger sites first", kinds[-1], shown)
    return changes


def _ties(kinds: list[Kind], plain: Plain, panels: dict[str, Panel]) -> list[Change]:
    """Measure which of several pages with equal keys comes first."""
    changes = []
    for ordering, at_random in (
        ("opic", OpicRandomTies),
        ("backlink-count", BacklinkCountRandomTies),
    ):
        before = {kind.name: plain[kind.name][ordering] for kind in kinds}
        after: dict[str, list[Crawled]] = {kind.name: [] for kind in kinds}
        for kind in kinds:
            lots = count()
            for _ in range(TIES):
                after[kind.name] += kind.crawl(lambda _, s=lots, make=at_random: make(next(s)))
        changes.append(
            _changes("ties", ordering, "at random, not order of discovery", before, after)
        )
        if ordering == "backlink-count":
            shown = {
                "ties by discovery": before["uci-ics"],
                "ties at random": after["uci-ics"],
            }
            panels["ties"] = _panel("Ties, backlink count", kinds[0], shown)
    return changes


def _seeds(kinds: list[Kind], plain: Plain, panels: dict[str, Panel]) -> list[Change]:
    """Measure one page or all home pages as seeds, and the cash of seeds."""
    changes = []
    with_sites = [kind for kind in kinds if kind.has_sites]
    homes = [replace(kind, starts=_from_homes(kind.webs)) for kind in with_sites]
    by_homes = {
        ordering: {kind.name: kind.crawl(lambda _, n=ordering: make_ordering(n)) for kind in homes}
        for ordering in (*YARDSTICKS, "opic")
    }
    for ordering, after in by_homes.items():
        before = {kind.name: plain[kind.name][ordering] for kind in with_sites}
        changes.append(_changes("seeds", ordering, "all home pages, not one page", before, after))
    rich = {kind.name: kind.crawl(lambda _: Opic(seed_cash=100)) for kind in kinds}
    rich_homes = {kind.name: kind.crawl(lambda _: Opic(seed_cash=100)) for kind in homes}
    before = {kind.name: plain[kind.name]["opic"] for kind in kinds}
    words = "cash 100 of the seed, not 1"
    changes.append(_changes("seed cash", "opic", f"{words}; one page", before, rich))
    changes.append(
        _changes("seed cash", "opic", f"{words}; home pages", by_homes["opic"], rich_homes)
    )
    shown = {
        "one page": plain["uci-ics"]["opic"],
        "one page, cash 100": rich["uci-ics"],
        "home pages": by_homes["opic"]["uci-ics"],
        "home pages, cash 100": rich_homes["uci-ics"],
    }
    panels["seeds"] = _panel("Seeds, OPIC", kinds[0], shown)
    return changes


def _from_homes(webs: Sequence[Web]) -> list[Start]:
    """Return crawls from all home pages: of one web in several random orders."""
    rng, drawn = np.random.default_rng(2005), webs if len(webs) > 1 else [*webs] * STARTS
    return [Start(web, rng.permutation(web.homes).tolist()) for web in drawn]


def _table(report: Report, kinds: list[Kind], plain: Plain, changes: Sequence[Change]) -> None:
    """Write all changes, and differences between orderings for comparison."""
    names = [kind.name for kind in kinds]
    report.table(
        "changes",
        ["choice", "ordering", "change", *names],
        [
            *(
                ["ordering", "opic", f"not {other}",
                 *(f"{_mean(plain[n]['opic']) - _mean(plain[n][other]):+.4f}" for n in names)]
                for other in YARDSTICKS
            ),
            *(
                [change.choice, change.ordering, change.words,
                 *(f"{fmean(change.by_kind[n]):+.4f}" if n in change.by_kind else None
                   for n in names)]
                for change in changes
            ),
        ],
        "Change in average cumulative PageRank with another ordering (first rows) and with other "
        "choices. Crawls from home pages reach pages that crawls from one page do not, so their "
        "totals differ; all other totals are equal.",
    )  # fmt: skip


def _findings(
    report: Report,
    kinds: list[Kind],
    plain: Plain,
    changes: Sequence[Change],
    errors: GeneratorErrors,
) -> None:
    """Judge whether each choice outweighs the difference between OPIC and breadth-first."""
    between = {
        kind.name: _by_start(plain[kind.name]["breadth-first"], plain[kind.name]["opic"])
        for kind in kinds
    }
    error = {kind.name: errors.of("lead", is_synthetic=kind.webs[0].is_synthetic) for kind in kinds}
    for choice in dict.fromkeys(change.choice for change in changes):
        chosen = [change.by_kind for change in changes if change.choice == choice]
        largest = {
            name: max(
                (_outwards(by_kind[name]) for by_kind in chosen if name in by_kind), key=fmean
            )
            for name in between
            if any(name in by_kind for by_kind in chosen)
        }
        report.finding(
            f"(not in the papers) The choice of {choice} matters more than the choice of ordering",
            "largest change of an average, and difference between OPIC and breadth-first: "
            + ", ".join(
                f"{fmean(most):.3f}, {abs(fmean(between[n])):.3f} ({n})"
                for n, most in largest.items()
            ),
            [
                Margin(most, _outwards(between[n])).case(n, least=error[n])
                for n, most in largest.items()
            ],
            "the change exceeds the difference",
            picture="curves",
            name=f"choice-{choice.replace(' ', '-')}",
        )
    frozen = next(c for c in changes if c.ordering == "opic" and f"N/{PARTS[-1]} " in c.words)
    report.finding(
        "(not in the papers) OPIC is better when its keys are frozen for N/35 pages",
        "change of its average: "
        + ", ".join(f"{fmean(change):+.4f} ({name})" for name, change in frozen.by_kind.items()),
        [
            Margin(change, [0.0]).case(name, least=error[name])
            for name, change in frozen.by_kind.items()
        ],
        "a higher average",
        picture="curves",
        name="frozen-keys",
    )
