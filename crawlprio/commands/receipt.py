"""The command `crawlprio receipt`: what a crawl got, refused and missed, from its store."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from crawlprio.commands import (
    OneLineCommand,
    Option,
    check_outputs,
    named_outputs,
    only_argument,
    store_of,
    write_text,
)


class Command(OneLineCommand):
    """`crawlprio receipt STORE` makes the receipt of a crawl again, and shows it."""

    takes = "[options] STORE|FOLDER"
    does = "Show what a crawl got, refused and missed"
    about = (
        "Show the receipt of the crawl in STORE, or in the FOLDER of a crawl, and write it to "
        "receipt.json beside the store, as the crawl does when it ends: what was asked and "
        "got, the share of all importance that was fetched, every refusal by rule and setting, "
        "failures by cause, the best pages not fetched, and what more pages would bring. It "
        "depends on the store alone, so it also has the receipt of a crawl that was killed. "
        "crawlprio/measure/schema.json is its JSON Schema."
    )
    examples = (
        "receipt crawl.sqlite",
        "receipt example",
        "receipt example/crawl.sqlite --check",
    )
    title = "Receipt"
    options: ClassVar = {
        "--check": Option(
            None, "write nothing; exit with status 1 unless receipt.json belongs to this store"
        ),
        "--json": Option("FILE", "write the receipt to FILE instead"),
    }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        store = store_of(only_argument("receipt", "STORE or FOLDER", args))
        from crawlprio.measure.receipt_document import (
            NAME,
            check_receipt,
            make_receipt,
            text_of,
            write_receipt,
        )

        beside = store.with_name(NAME)
        if opts.check:
            fault = check_receipt(Path(opts.json) if opts.json else beside, store)
            print(fault or f"{opts.json or beside} is the receipt of the crawl in {store}.")
            self.exitcode = 1 if fault else 0
            return
        check_outputs(named_outputs(opts, "--json"), inputs={"STORE": str(store)})
        receipt = make_receipt(store)
        if opts.json:
            write_text("--json", opts.json, text_of(receipt))
        else:
            write_receipt(receipt, beside)
        _print(receipt)


def _print(receipt: Mapping[str, Any]) -> None:
    """Print a receipt for people."""
    from rich.table import Table
    from rich.text import Text

    from crawlprio.measure.receipt_document import rows, sentences
    from crawlprio.show.tables import PipeSafeConsole

    console = PipeSafeConsole()
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows(receipt):
        table.add_row(name, Text(value))
    console.print(table)
    for sentence in sentences(receipt):
        console.print(sentence, markup=False, highlight=False)
