"""The command `crawlprio audit`: faults of the crawled sites that a store knows of."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from rich import box
from rich.table import Table

from crawlprio.commands import (
    SPREADSHEET,
    OneLineCommand,
    Option,
    check_outputs,
    named_outputs,
    only_argument,
    store_of,
    write_json,
)
from crawlprio.errors import printable
from crawlprio.measure.link_audit import Audit, Faults, Findings
from crawlprio.settings_table.kinds import Number
from crawlprio.show.tables import wide_console, write_csv

COLUMNS = ("finding", "url", "detail", "related")

N_SHOWN, N_RELATED = 5, 3
"""Findings of each kind that are printed, and related pages of each."""

N_LISTED, N_RELATED_LISTED = 1_000, 100
"""The same in JSON."""

MAX_TEXT = 300
"""Length to which URLs and titles are cut when they are printed."""


def print_audit(audit: Audit) -> None:
    """Print how many faults of each kind there are, and the worst of them."""
    console = wide_console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Finding", no_wrap=True)
    table.add_column("Found", justify="right", no_wrap=True)
    table.add_column("What it is")
    for findings in audit.findings:
        table.add_row(findings.kind, f"{len(findings):,}", findings.says)
    console.print(table)
    for remark in audit.remarks:
        console.print(remark)
    for findings in audit.findings:
        if len(findings):
            console.print(f"\n{findings.kind} ({len(findings):,})")
            for finding in findings.first(N_SHOWN):
                for line in _lines(audit, findings, finding):
                    console.print(f"  {printable(line[:MAX_TEXT])}", soft_wrap=True)


def as_json(audit: Audit) -> dict[str, Any]:
    """Return the number of faults of each kind, and the worst `N_LISTED`."""
    return {
        "pages": audit.graph.n_pages,
        "got": int(audit.visits.is_got.sum()),
        "remarks": audit.remarks,
        "findings": {
            findings.kind: {
                "count": len(findings),
                "says": findings.says,
                "listed": [
                    {
                        "url": finding.url,
                        "detail": finding.detail,
                        "related": audit.urls(finding.related[:N_RELATED_LISTED]),
                        "n_related": len(finding.related),
                    }
                    for finding in findings.first(N_LISTED)
                ],
            }
            for findings in audit.findings
        },
    }


def csv_rows(audit: Audit, written: Callable[[str], str] = str) -> Iterator[tuple[str, ...]]:
    """Yield all findings, a row for each related page; one for a finding without.

    `written` makes a cell of a text from a page.
    """
    for findings in audit.findings:
        for finding in findings:
            cells = findings.kind, written(finding.url), written(finding.detail)
            for url in audit.each_url(finding.related) if len(finding.related) else ("",):
                yield *cells, written(url)


def _lines(audit: Audit, findings: Findings, finding: Faults) -> Iterator[str]:
    """Yield the lines that show a finding."""
    yield f"{finding.url} {finding.detail}"
    for url in audit.urls(finding.related[:N_RELATED]):
        yield f"  {findings.related_are} {url}"
    if len(finding.related) > N_RELATED:
        yield f"  {findings.related_are} {len(finding.related) - N_RELATED:,} more"


class Command(OneLineCommand):
    """`crawlprio audit STORE` lists broken links, duplicates and other faults of sites."""

    takes = "[options] STORE|FOLDER"
    does = "List broken links, duplicates and other faults of the crawled sites"
    about = (
        "List what the crawl in STORE, or in the FOLDER of a crawl, found wrong with the sites "
        "themselves: broken links with the pages that link to them, chains and loops of "
        "redirects, pages with the same body, missing and repeated titles, pages that only a "
        "sitemap names or that none names, and slow pages. Nothing is fetched. A page counts "
        "as it was when last visited."
    )
    examples = (
        "audit crawl.sqlite",
        "audit example --csv audit.csv --spreadsheet",
        "audit crawl.sqlite --slow 0.5 --json audit.json",
    )
    title = "Audit"
    options: ClassVar = {
        "--slow": Option("SECONDS", "list the pages that took longer; default: 2", Number(), 2.0),
        "--csv": Option("FILE", "write all findings, one page a line"),
        "--spreadsheet": Option(None, SPREADSHEET),
        "--json": Option("FILE", "write the numbers, and the first 1,000 of each kind"),
    }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        path = store_of(only_argument("audit", "STORE or FOLDER", args))
        check_outputs(named_outputs(opts, "--csv", "--json"), inputs={"STORE": str(path)})
        from crawlprio.graph.link_tables import as_text
        from crawlprio.measure.link_audit import Audit
        from crawlprio.store import Store

        with Store.open(path, readonly=True) as store:
            audit = Audit.of(store, slow_seconds=opts.slow)
        if opts.csv:
            rows = csv_rows(audit, as_text if opts.spreadsheet else str)
            write_csv(opts.csv, COLUMNS, rows)
        write_json(opts, lambda: as_json(audit))
        print_audit(audit)
