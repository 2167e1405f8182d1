"""The command `crawlprio audit`: faults of the crawled sites that a store knows of."""

from __future__ import annotations

import argparse
import json

from crawlprio.commands import OneLineCommand
from crawlprio.commands.arguments import (
    SPREADSHEET,
    check_outputs,
    checked_option,
    named_outputs,
    only_argument,
    store_of,
    write_text,
)
from crawlprio.setting_table.kinds import Number


class Command(OneLineCommand):
    """`crawlprio audit STORE` lists broken links, duplicates and other faults of sites."""

    examples = (
        "audit crawl.sqlite",
        "audit example --csv audit.csv --spreadsheet",
        "audit crawl.sqlite --slow 0.5 --json audit.json",
    )

    def syntax(self) -> str:
        return "[options] STORE|FOLDER"

    def short_desc(self) -> str:
        return "List broken links, duplicates and other faults of the crawled sites"

    def long_desc(self) -> str:
        return (
            "List what the crawl in STORE, or in the FOLDER of a crawl, found wrong with the sites "
            "themselves: broken links with the pages that link to them, chains and loops of "
            "redirects, pages with the same body, missing and repeated titles, pages that only a "
            "sitemap names or that none names, and slow pages. Nothing is fetched. A page counts "
            "as it was when last visited."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        group = parser.add_argument_group(title="Audit")
        group.add_argument(
            "--slow",
            metavar="SECONDS",
            default="2",
            help="list the pages that took longer; default: 2",
        )
        group.add_argument("--csv", metavar="FILE", help="write all findings, one page a line")
        group.add_argument("--spreadsheet", action="store_true", help=SPREADSHEET)
        group.add_argument(
            "--json", metavar="FILE", help="write the numbers, and the first 1,000 of each kind"
        )

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        path = store_of(only_argument("audit", "STORE or FOLDER", args))
        slow = checked_option("--slow", Number(), opts.slow)
        check_outputs(named_outputs(opts, "--csv", "--json"), inputs={"STORE": str(path)})
        from crawlprio.audit import Audit
        from crawlprio.audit.output import as_json, print_audit, write_csv
        from crawlprio.linkgraph.tables import as_text
        from crawlprio.store import Store

        with Store.open(path, readonly=True) as store:
            audit = Audit.of(store, slow_seconds=slow)
        if opts.csv:
            write_csv(opts.csv, audit, as_text if opts.spreadsheet else str)
        if opts.json:
            write_text("--json", opts.json, json.dumps(as_json(audit)) + "\n")
        print_audit(audit)
