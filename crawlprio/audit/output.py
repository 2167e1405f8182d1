"""An audit as tables for people, and as JSON and CSV for programs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from crawlprio.audit.audit import Audit
from crawlprio.audit.findings import Finding, Findings
from crawlprio.errors import ConfigError, printable
from crawlprio.evaluation.tables import wide_console

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


def write_csv(path: str | Path, audit: Audit, written: Callable[[str], str] = str) -> None:
    """Write all findings: `finding,url,detail,related`, a record for each related page.

    A finding without related pages has one record. `written` makes a cell of a text from a page.

    Raises
    ------
    ConfigError
        If the file cannot be written.
    """
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(COLUMNS)
            for findings in audit.findings:
                for finding in findings:
                    cells = findings.kind, written(finding.url), written(finding.detail)
                    for url in audit.each_url(finding.related) if len(finding.related) else ("",):
                        rows.writerow((*cells, written(url)))
    except OSError as error:
        raise ConfigError(f"--csv {path}: writing it failed ({error.strerror}).") from None


def _lines(audit: Audit, findings: Findings, finding: Finding) -> Iterator[str]:
    """Yield the lines that show a finding."""
    yield f"{finding.url} {finding.detail}"
    for url in audit.urls(finding.related[:N_RELATED]):
        yield f"  {findings.related_are} {url}"
    if len(finding.related) > N_RELATED:
        yield f"  {findings.related_are} {len(finding.related) - N_RELATED:,} more"
