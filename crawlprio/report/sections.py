"""The sections of a report on a crawl: receipt, coverage, pages, time, depth, audit, refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from crawlprio.audit import Finding
from crawlprio.evaluation import best_order
from crawlprio.importance.base import Floats
from crawlprio.importance.scores import Score
from crawlprio.receipt.sentences import rows, sentences
from crawlprio.report.charts import bars, lines
from crawlprio.report.crawled import ReportedCrawl
from crawlprio.report.parts import Cell, Chart, Section, Table, cut, number, page, pages, text

MAX_DEPTH = 20
"""Depth from which all pages share a bar."""

N_TIMES = 200
"""Points of the lines over time."""

N_BEST = 25
"""Pages listed as the most important."""

N_RELATED = 5
"""Pages that a finding of the audit shows on request."""

UNITS = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))

RECORDED = (
    "The lines breadth-first and random are simulated crawls of the recorded links, with as many "
    "fetches; what lies behind pages that this crawl did not fetch is unknown to them too. The "
    "best possible order fetches the pages of the greatest importance first, as no crawl could."
)


def receipt(crawl: ReportedCrawl) -> Section:
    """Return what was asked, got, refused and missed."""
    values = [[text(name), _lines(value)] for name, value in rows(crawl.receipt)]
    table = Table("The receipt.", ["", ""], values)
    return Section("receipt", "What the crawl got", sentences(crawl.receipt), (), (table,))


def coverage(crawl: ReportedCrawl) -> Section:
    """Return the importance gathered as pages were fetched, for each importance with an order."""
    charts = [
        lines(
            f"coverage-{k}",
            f"Importance gathered, by {scored.importance}",
            crawl.curves(scored),
            ("share of known pages fetched", "share of their importance"),
            (True, True),
        )
        for k, scored in enumerate(crawl.scores)
        if scored.order is not None
    ]
    return Section("coverage", "Coverage", [RECORDED] if charts else ["Nothing to draw."], charts)


def time(crawl: ReportedCrawl) -> Section:
    """Return the pages got and failed over time."""
    visits = crawl.audit.visits
    failed = np.zeros(crawl.n_pages, dtype=np.bool_)
    failed[list(visits.failed.keys() - visits.refused)] = True
    charts = over_time(
        {"got": visits.fetched_at[crawl.is_got], "failed": visits.fetched_at[failed]}
    )
    return Section(
        "time", "The crawl over time", () if charts else ["Nothing was fetched."], charts
    )


def over_time(times: Mapping[str, Floats], *, together: bool = True) -> list[Chart]:
    """Return the number of fetches by time, a line each, if there are any.

    Parameters
    ----------
    times
        Unix times of fetches.
    together
        Whether all count from the first of all, or each from its own first.
    """
    ended = {name: np.sort(values) for name, values in times.items() if len(values)}
    if not ended:
        return []
    begin = min(values[0] for values in ended.values())
    begins = {name: begin if together else values[0] for name, values in ended.items()}
    span = max(values[-1] - begins[name] for name, values in ended.items())
    size, unit = next((u for u in UNITS if span >= 2 * u[0]), UNITS[-1])
    series = {}
    for name, values in ended.items():
        counts = np.unique(np.linspace(1, len(values), min(len(values), N_TIMES)).astype(np.int64))
        series[name] = np.column_stack([(values[counts - 1] - begins[name]) / size, counts])
    return [lines("over-time", "Pages over time", series, (f"{unit} since the first", "pages"))]


def depth(crawl: ReportedCrawl) -> Section:
    """Return the known pages by the fewest links from a seed."""
    depths = np.minimum(crawl.depths, MAX_DEPTH)
    most = int(depths.max(initial=0)) + 1
    counts = [
        np.bincount(depths[mask & (depths >= 0)], minlength=most)
        for mask in (crawl.is_got, ~crawl.is_got)
    ]
    names = [f"{n} or more" if n == MAX_DEPTH else str(n) for n in range(most)]
    series = {"got": counts[0].tolist(), "not got": counts[1].tolist()}
    chart = bars("depth", "Known pages by depth", names, series, ("links from a seed", "pages"))
    n_beyond = int((depths < 0).sum())
    remark = [f"{n_beyond:,} pages cannot be reached from a seed by recorded links."]
    return Section("depth", "Depth", remark if n_beyond else (), [chart])


def outcomes(crawl: ReportedCrawl) -> Section:
    """Return the statuses of the pages got and the causes of those that were not."""
    visits = crawl.audit.visits
    got = Counter(f"HTTP {status}" for status in visits.status[crawl.is_got].tolist())
    failed = Counter(visits.failed.values())
    counted = [(name, n, "got") for name, n in got.items()]
    counted += [(name, n, "not got") for name, n in failed.items()]
    counted.sort(key=lambda row: (-row[1], row[0]))
    table = cut(
        "Outcomes of the last visit of each page", ["outcome", "pages", ""],
        ([text(name), number(n), text(kind)] for name, n, kind in counted), len(counted),
    )  # fmt: skip
    return Section("outcomes", "Statuses and failures", (), (), (table,))


def refusals(crawl: ReportedCrawl) -> Section:
    """Return every refusal by rule and setting, with examples."""
    refused = crawl.receipt["refused"]
    if not refused:
        return Section("refusals", "Refusals", ["No rule refused a link."])
    values = [
        [text(rule), number(of["links"]), text(of["setting"] or ""),
         pages(of["examples"], of["links"])]
        for rule, of in refused.items()
    ]  # fmt: skip
    table = Table(
        "Links and pages that a rule refused.", ["rule", "refused", "setting", "examples"], values
    )
    return Section("refusals", "Refusals", (), (), (table,))


def audit(crawl: ReportedCrawl) -> Section:
    """Return broken links, redirects, duplicates and the like."""
    tables = []
    for findings in crawl.audit.findings:
        if not len(findings):
            continue
        related = findings.related_are
        rows = (_found(crawl, found, bool(related)) for found in findings)
        headings = ["page", "what", *([related] if related else [])]
        tables.append(cut(findings.says, headings, rows, len(findings)))
    clean = [f.says for f in crawl.audit.findings if not len(f)]
    remarks = list(crawl.audit.remarks)
    if clean:
        remarks.append(f"None found: {'; '.join(clean)}.")
    return Section("audit", "Faults of the sites", remarks, (), tables)


def _found(crawl: ReportedCrawl, found: Finding, has_related: bool) -> list[Cell]:
    """Return the row of a finding."""
    row = [page(found.url), text(found.detail)]
    if has_related:
        shown = crawl.audit.urls(found.related[:N_RELATED])
        row.append(pages(shown, len(found.related)))
    return row


def top(crawl: ReportedCrawl) -> Section:
    """Return the most important pages by each importance, and the best that were not got."""
    tables = [table for scored in crawl.scores for table in _top(crawl, scored)]
    return Section("pages", "Most important pages", (), (), tables)


def _top(crawl: ReportedCrawl, scored: Score) -> Iterator[Table]:
    total = float(scored.values[scored.known].sum())
    if not total > 0.0:
        return
    visits = crawl.audit.visits
    said = {"got": scored.known, "missed": scored.known & ~crawl.is_got}
    for kind, mask in said.items():
        best = best_order(scored.values, mask)[:N_BEST].tolist()
        values = [
            [number(rank), number(float(scored.values[at]) / total, ".3%"), page(crawl.url(at)),
             text(crawl.title(at)) if kind == "got"
             else text(visits.failed.get(at, "not fetched yet"))]
            for rank, at in enumerate(best, 1)
        ]  # fmt: skip
        if kind == "got":
            yield Table(
                f"The most important pages by {scored.importance}.",
                ["rank", "share", "page", "title"],
                values,
            )
        elif values:
            yield Table(
                f"The most important pages that were not got, by {scored.importance}.",
                ["rank", "share", "page", "because"],
                values,
            )


def _lines(value: str) -> Cell:
    """Return a cell of several lines, all but the first shown on request."""
    first, *others = value.split("\n")
    return text(first)._replace(more=[page(line.strip()) for line in others])
