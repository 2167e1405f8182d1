"""The experiments that need neither sizes nor bandwidth, on every real web that can be built.

The claims are in `web_claims`; `sources.json` lists the webs and where they come from. A web counts
once, and only if the margin exceeds the spread over its starts and draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

import numpy as np
import web_claims
from cho_small import cut_sites
from cho_webs import THREE, JudgedCrawls, orderings
from measured import DELAY, STRATEGIES, Crawled, Start, curves_panel, mean_curves, polite_network
from najork_crawls import DAYS, margins_by_day, watch_to_the_end
from report import Report
from sources import HISTORIES, STATES, Source, sources
from verdicts import RULE, Case, Margin
from web_measures import Seen, with_sites
from webs import Web, built, cnr, hollins, uci

from crawlprio.orderings import Ordering, make_ordering

STARTS, DRAWS = 5, 2
"""Starts of each kind, and draws of `random` from each."""
BEYOND = ("sibling-sampling", "rankmass", "scout")
"""Orderings that are in tables only; the first is the default."""
PAGES_A_DAY = 50
"""Fewest pages of a day for the claims about days, of which a crawl has 58."""
ALIKE = 0.05
"""Largest distance between distributions that count as almost alike."""
SHOWN = (
    *("cnr-2000", "uci-ics", "hollins", "twisted-lists", "asm-forum", "sports-of-boston"),
    *("luciddb-wiki", "mozilla-reps", "boost"),
)
"""Webs that are drawn: of six kinds the largest, two more universities, and some documentation."""
DRAWN = ("sibling-sampling", "batch-pagerank", "opic", "breadth-first", "random")

CHOICES = (
    "Every experiment of the papers that needs neither page sizes nor bandwidth, on {n} real webs: "
    "{kinds}. `make webs` builds most of them from Debian packages and public git histories; the "
    "last table names each with its source. Documentation, mailing lists and archived sites are "
    "no sample of the Web: most are one site, and few have spam. Some webs share a few pages: "
    "`petsc` one package with `servers`.\n\n"
    "Protocols are those of the papers. *Baeza-Yates et al. and Castillo et al.*: w = "
    f"{DELAY:g} s, one robot, from all home pages (in {STARTS} random orders) where a web has "
    f"several, otherwise from {STARTS} single pages; on a web of one site, w changes nothing but "
    "the clock. Batch and partial PageRank compute PageRank every N / 35 pages, and a batch ends "
    "when all its pages were retrieved. *Cho et al.*: by order alone from "
    f"{STARTS} single pages. Hot pages are the shares that the paper's G made hot (47, 10 and "
    "0.8 % by backlinks, 1 % by PageRank), with ties; 'no ordering' is the diagonal, as in graphs "
    "1 to 3; in P_CS, pages with as many backlinks as the Kth are hot by lot. The small domain is "
    "a web of one site of 550 to 2,200 pages, or such a site of uci-ics, with G = 5. *Najork & "
    f"Wiener*: breadth-first by order alone from {STARTS} single pages, on webs in which a day, a "
    f"58th of the crawl, has {PAGES_A_DAY} pages. Single pages are the (first) home page and "
    "random pages that reach at least half as much; where there are too few, the home page alone "
    "and together with a random page. Each start has its own draw of latencies. `random` is drawn "
    "{draws} times a web. Margins up to 0.001, of Kendall's tau 0.02, decide nothing, whatever the "
    "spread. Claims about larger sites first leave out webs on which it fetches in "
    "the order of breadth-first.\n\n"
)


def run(shared: Path, output: Path, webs: Path) -> None:
    """Write the section."""
    report = Report(output, "every_web", "The papers' claims on every real web")
    found = [crawl_web(source.kind, web) for source, web in _webs(shared, webs)]
    has_sites = (shared / "uci-ics.npz").exists()
    small = [
        Seen(site.name, "", alone=site)
        for site in (cut_sites(uci(shared), STARTS) if has_sites else ())
    ]
    kinds = {kind: sum(s.kind == kind for s in found) for kind in sorted({s.kind for s in found})}
    report.text(
        CHOICES.format(
            n=len(found),
            draws=STARTS * DRAWS,
            kinds=", ".join(f"{n} {k}" for k, n in kinds.items()),
        )
        + RULE
    )
    report.figure(
        "curves",
        [curves_panel(s.name, mean_curves(_draws(s), _telling(s)), s.starts) for s in found],
        "Cumulative PageRank against pages, w = 15 s, on nine of the webs: means over starts, "
        "bands from least to greatest. Beside the default, sibling-sampling, are some of the "
        "papers' orderings; the CSV has all of them, on all webs.",
        title="What an ordering has gathered, on nine real webs",
        columns=3,
        shown=SHOWN,
        lines=DRAWN,
    )
    _averages(report, found)
    for claim in web_claims.CLAIMS:
        cases = [case for s in (*found, *small) if (case := claim.case(s))]
        _finding(report, claim.text, cases, claim.rule, claim.name)
    _distribution(report, found)
    _list_webs(report, found)
    report.write()


def _webs(shared: Path, folder: Path) -> Iterator[tuple[Source, Web]]:
    """Return the webs that are there, and say which are not."""
    given = {"uci-ics": uci, "hollins": hollins, "cnr-2000": cnr}
    for source in sources():
        if source.kind in (STATES, HISTORIES):
            continue
        if problem := source.problem(shared, folder):
            print(f"every_web: {problem}", flush=True)
        if source.path(shared, folder).exists():
            is_given = source.name in given
            yield source, given[source.name](shared) if is_given else built(folder, source.name)


def crawl_web(kind: str, web: Web) -> Seen:
    """Crawl a web under all protocols."""
    pages = web.starts(STARTS)
    rng = np.random.default_rng(2005)
    several = [rng.permutation(web.homes).tolist() for _ in range(STARTS)]
    starts = [Start(web, seeds) for seeds in (several if len(web.homes) > 1 else pages)]
    polite = {
        name: [
            start.crawl(policy, polite_network(web, seed=k))
            for k, start in enumerate(starts)
            for policy in _drawn(name, k)
        ]
        for name in (*STRATEGIES, *BEYOND)
    }
    made = orderings(None, *THREE) | {"opic": lambda: make_ordering("opic")}
    for seed in range(DRAWS):
        made[f"random, draw {seed}"] = lambda seed=seed: make_ordering("random", {"seed": seed})
    alone = JudgedCrawls(web.name, web.graph, pages, made)
    days = []
    if alone.n_reachable >= DAYS * PAGES_A_DAY:
        days = [margins_by_day(web, watch_to_the_end(web, seeds)) for seeds in pages]
    print(f"every_web: {web.name}", flush=True)
    return Seen(web.name, kind, starts, polite, alone, days)


def _drawn(name: str, start: int) -> list[str | Ordering]:
    """Return the ordering, or several draws for this start if it is random."""
    if name != "random":
        return [name]
    return [make_ordering(name, {"seed": start * DRAWS + draw}) for draw in range(DRAWS)]


def _draws(seen: Seen) -> list[dict[str, Crawled]]:
    """Return the crawls by start, with one draw of random."""
    step = {name: len(crawls) // len(seen.starts) for name, crawls in seen.polite.items()}
    return [
        {name: crawls[k * step[name]] for name, crawls in seen.polite.items()}
        for k in range(len(seen.starts))
    ]


def _telling(seen: Seen) -> list[str]:
    """Return the default and the strategies, without larger sites first if it is breadth-first."""
    has_sites = with_sites(seen)
    papers = [name for name in STRATEGIES if has_sites or name != "larger-sites-first"]
    return [BEYOND[0], *papers]


def _finding(report: Report, text: str, cases: Sequence[Case], rule: str, name: str) -> None:
    """Write a claim with the median margin and spread of the webs."""
    margins, spreads = [c.margin for c in cases], [c.error for c in cases]
    measured = (
        f"margin {median(margins):+.3f} ({min(margins):+.3f} to {max(margins):+.3f}), "
        f"spread {median(spreads):.3f}"
        if cases
        else "no web can decide it"
    )
    report.finding(text, measured, cases, rule, name=name)


def _averages(report: Report, found: Sequence[Seen]) -> None:
    """Write the average cumulative PageRank of each strategy on each web."""
    names = ("omniscient", *BEYOND, *(n for n in STRATEGIES if n != "omniscient"))
    report.table(
        "averages",
        ("web", "kind", "start", *names),
        [
            (s.name, s.kind, "home pages" if len(s.starts[0].seeds) > 1 else "one page",
             *(f"{fmean(s.averages(n)):.3f} ± {np.std(s.averages(n), ddof=1):.3f}" for n in names))
            for s in found
        ],
        f"Average cumulative PageRank, w = 15 s: mean ± sample standard deviation over {STARTS} "
        f"starts, for random {STARTS * DRAWS} draws. sibling-sampling is this project's own "
        "ordering; its options were chosen on most of these webs, so these figures flatter it. "
        "A random crawl is the diagonal in Baeza-Yates et al. (section 5.2), which is 0.5 here, "
        "and in the claims `random`, which draws from the pages that wait and gathers more. Below "
        "the diagonal are "
        + " and ".join(
            f"{name} on {sum(fmean(s.averages(name)) < 0.5 for s in found)} of {len(found)} webs"
            for name in ("backlink-count", "partial-pagerank")
        )
        + ".",
    )  # fmt: skip
    report.table(
        "at-20",
        ("web", *names),
        [(s.name, *(f"{fmean(s.at(n, 0.2)):.4f}" for n in names)) for s in found],
        "Share of the PageRank at 20 % of the pages.",
    )


def _distribution(report: Report, found: Sequence[Seen]) -> None:
    """Judge how alike the distributions of PageRank are: each web against all others."""
    cases = []
    for one in found:
        apart = [
            float(np.abs(one.distribution - other.distribution).max())
            for other in found
            if other is not one
        ]
        cases.append(Margin(len(apart) * [ALIKE], apart).case(one.name))
    text = "PageRank is distributed almost alike in different webs (Baeza-Yates et al., figure 3)"
    rule = f"its curve is on average less than {ALIKE} from those of the other webs"
    _finding(report, text, cases, rule, "pagerank-alike")


def _list_webs(report: Report, found: Sequence[Seen]) -> None:
    """Write where the webs come from."""
    known = {source.name: source for source in sources()}
    report.table(
        "webs",
        ("web", "kind", "pages", "links", "sites", "source", "SHA-256"),
        [
            (s.name, s.kind, s.starts[0].web.graph.n_pages, s.starts[0].web.graph.n_links,
             s.starts[0].web.graph.n_sites, known[s.name].short_origin, known[s.name].sha256[:12])
            for s in found
        ],
        "The webs.",
    )  # fmt: skip
