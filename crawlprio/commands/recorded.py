"""The commands that read the store of a crawl: `receipt`, `explain`, `audit`, `links`, `items`."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from crawlprio.commands import (
    SPREADSHEET,
    ExportCommand,
    OneLineCommand,
    Option,
    check_outputs,
    named_outputs,
    only_argument,
    refuse_unknown_options,
    store_of,
    write_json,
    write_text,
)
from crawlprio.errors import ConfigError, StoreError, printable
from crawlprio.plugins import load
from crawlprio.safe_files import open_file
from crawlprio.settings_table.setting_types import Float, Folder
from crawlprio.web.urls import normalise_url

if TYPE_CHECKING:
    from crawlprio.measure.explanations import Policy
    from crawlprio.measure.link_audit import Audit, Faults, Findings
    from crawlprio.store import Store


class ReceiptCommand(OneLineCommand):
    """`crawlprio receipt STORE` makes the receipt of a crawl again, and shows it."""

    takes = "[options] STORE|FOLDER"
    does = "Show what a crawl fetched, refused and missed"
    about = (
        "Show the receipt of the crawl in STORE, or in the FOLDER of a crawl, and write it to "
        "receipt.json beside the store, as the crawl does when it ends: what was asked and "
        "fetched, the share of the importance, counted from the seeds, that was fetched, every "
        "refusal by rule and setting, failures by cause, the best pages not fetched, and what "
        "more pages would bring. It depends on the store alone, so it also has the receipt of a "
        "crawl that was killed. "
        "crawlprio/measure/schema.json is its JSON Schema."
    )
    examples = ("receipt crawl.sqlite", "receipt example", "receipt example/crawl.sqlite --check")
    title = "Receipt"
    options: ClassVar = {
        "--check": Option(
            None, "write nothing; exit with status 1 unless receipt.json belongs to this store"
        ),
        "--json": Option("FILE", "write the receipt to FILE instead"),
    }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        from crawlprio.measure import receipt_document
        from crawlprio.show.tables import PipeSafeConsole

        store = store_of(only_argument("receipt", "STORE or FOLDER", args))
        if opts.check:
            path = Path(opts.json) if opts.json else store.with_name(receipt_document.NAME)
            fault = receipt_document.check_receipt(path, store)
            print(fault or f"{opts.json or path} is the receipt of the crawl in {store}.")
            self.exitcode = 1 if fault else 0
            return
        check_outputs(named_outputs(opts, "--json"), inputs={"STORE": str(store)})
        receipt = receipt_document.make_receipt(store)
        PipeSafeConsole().print_pairs(receipt_document.rows(receipt))
        if opts.json:
            write_text("--json", opts.json, receipt_document.text_of(receipt))
        else:
            receipt_document.write_receipt(receipt, store)


class ExplainCommand(OneLineCommand):
    """`crawlprio explain STORE|FOLDER [URL]` says what comes next, or what became of a URL."""

    takes = "[options] STORE|FOLDER [URL]"
    does = "Say why a page is next, was fetched, or was refused"
    about = (
        "Without URL, show the pages that the crawl in STORE, or in the FOLDER of a crawl, "
        "fetches next. With URL, say what became of that page: for one that waits its key and "
        "how that came about, its place and when it could be fetched; for one that was fetched "
        "when, why then, and what it brought; for one that was refused or is not known the "
        "rule and its setting, and the pages that link to it. The crawl may be running. Its "
        "visits are replayed under its ordering; name a class of your own, and the options of "
        "the ordering unless the command line of the crawl gave them, with -s."
    )
    examples = (
        "explain example",
        "explain example https://example.org/about",
        "explain crawl.sqlite https://example.org/about --json",
    )
    title = "Explain"
    options: ClassVar = {"--json": Option(None, "print the same as JSON")}

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        refuse_unknown_options("explain", args)
        if not 1 <= len(args) <= 2:
            given = f"{len(args)} arguments" if args else "none"
            raise ConfigError(
                f"crawlprio explain takes a STORE or FOLDER, and perhaps a URL; found {given}."
            )
        path = store_of(args[0])
        from crawlprio.measure.explanations import explain_head, explain_url
        from crawlprio.show.explanation_text import lines_of_head, lines_of_url
        from crawlprio.show.tables import PipeSafeConsole
        from crawlprio.store import Store

        if len(args) == 2 and normalise_url(args[1]) is None:
            raise ConfigError(
                f"{args[1]!r} is not a URL; write it in full, as in 'https://example.org/'."
            )
        with Store.open(path, readonly=True) as store:
            policy = self._policy(store)
        if len(args) == 2:
            found = explain_url(path, policy, args[1])
            lines = lines_of_url(found)
        else:
            found = explain_head(path, policy)
            lines = lines_of_head(found)
        text = json.dumps(found, indent=1) if opts.json else "\n".join(map(printable, lines))
        PipeSafeConsole().out(text, highlight=False)

    def _policy(self, store: Store) -> Policy:
        """Return the rules of a crawl, as it recorded them and the command line changes them."""
        from crawlprio.live.crawl_context import policy_of
        from crawlprio.live.spider_arguments import RecordedArguments, read_arguments
        from crawlprio.measure.stored_crawl import SCRAPYS_ORDER
        from crawlprio.orderings import NAMED
        from crawlprio.settings_table.config import CrawlConfig, from_command_line, read_setting
        from crawlprio.settings_table.table import SETTINGS
        from crawlprio.spiders.site import recorded_scope

        settings = self.settings
        assert settings is not None
        named = read_setting(settings, "ORDERING")
        is_given = from_command_line(settings, "ORDERING")
        kept = RecordedArguments({}, {}, [])
        with contextlib.suppress(StoreError):  # of the crawl of another spider than `site`
            kept = read_arguments(store)
        for name, value in kept.values.items():
            # Reading a folder's setting creates it, or refuses one that is read-only.
            is_folder = name in SETTINGS and isinstance(SETTINGS[name].kind, Folder)
            if not is_folder and not from_command_line(settings, name):
                settings.set(name, value, "cmdline")
        ruled = [name for _, name in store.orderings()]
        if ruled and not is_given:
            if ruled[-1] not in (named, *NAMED):
                lack = "and a store must not choose code to run; give the ordering again"
                if ruled[-1] == SCRAPYS_ORDER:
                    lack = "which has no keys to explain; give an ordering to explain it by"
                raise ConfigError(
                    f"the crawl in {store.path} used {ruled[-1]}, {lack}, with -s ORDERING=PATH."
                )
            settings.set("ORDERING", ruled[-1], "cmdline")
        config = CrawlConfig.from_settings(settings, records=False)
        refuses = None
        if kept.arguments.get("seeds"):
            scope = recorded_scope(kept.arguments, settings, store.redirected_seeds())
            refuses = scope.refuses
        return policy_of(settings, config, refuses)


AUDIT_COLUMNS = ("finding", "url", "detail", "related")

N_SHOWN, N_RELATED = 5, 3
"""Findings of each kind that are printed, and related pages of each."""

N_LISTED, N_RELATED_LISTED = 1_000, 100
"""The same in JSON."""

MAX_TEXT = 300
"""Length to which URLs and titles are cut when they are printed."""


class AuditCommand(OneLineCommand):
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
        "--slow": Option("SECONDS", "list the pages that took longer; default: 2", Float(), 2.0),
        "--csv": Option("FILE", "write all findings, one page a line"),
        "--spreadsheet": Option(None, SPREADSHEET),
        "--json": Option("FILE", "write the numbers, and the first 1,000 of each kind"),
    }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        path = store_of(only_argument("audit", "STORE or FOLDER", args))
        check_outputs(named_outputs(opts, "--csv", "--json"), inputs={"STORE": str(path)})
        from crawlprio.graph.link_tables import as_text
        from crawlprio.measure.link_audit import Audit
        from crawlprio.show.tables import write_csv
        from crawlprio.store import Store

        with Store.open(path, readonly=True) as store:
            audit = Audit.of(store, slow_seconds=opts.slow)
        if opts.csv:
            rows = _audit_rows(audit, as_text if opts.spreadsheet else str)
            write_csv(opts.csv, AUDIT_COLUMNS, rows)
        write_json(opts, lambda: _audit_as_json(audit))
        _print_audit(audit)


def _print_audit(audit: Audit) -> None:
    """Print how many faults of each kind there are, and the worst of them."""
    from rich import box
    from rich.table import Table

    from crawlprio.show.tables import wide_console

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
            for finding in islice(findings, N_SHOWN):
                for line in _lines_of_fault(audit, findings, finding):
                    console.print(f"  {printable(line[:MAX_TEXT])}", soft_wrap=True)


def _audit_as_json(audit: Audit) -> dict[str, Any]:
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
                        "related": [*audit.urls(finding.related[:N_RELATED_LISTED])],
                        "n_related": len(finding.related),
                    }
                    for finding in islice(findings, N_LISTED)
                ],
            }
            for findings in audit.findings
        },
    }


def _audit_rows(audit: Audit, written: Callable[[str], str] = str) -> Iterator[tuple[str, ...]]:
    """Yield all findings, a row for each related page; one for a finding without.

    `written` makes a cell of a text from a page.
    """
    for findings in audit.findings:
        for finding in findings:
            cells = findings.kind, written(finding.url), written(finding.detail)
            for url in audit.urls(finding.related) if len(finding.related) else ("",):
                yield *cells, written(url)


def _lines_of_fault(audit: Audit, findings: Findings, finding: Faults) -> Iterator[str]:
    yield f"{finding.url} {finding.detail}"
    for url in audit.urls(finding.related[:N_RELATED]):
        yield f"  {findings.related_are} {url}"
    if len(finding.related) > N_RELATED:
        yield f"  {findings.related_are} {len(finding.related) - N_RELATED:,} more"


class LinksCommand(ExportCommand):
    """`crawlprio links` writes the links of a store to a file, or collects stores in one."""

    what = "links"
    takes = "export [options] STORE FILE | collect CRAWL|STORE... NEW"
    does = "Export the links of a store; copy or join the stores of crawls"
    examples = (
        "links export crawl.sqlite links.csv",
        "links export example/crawl.sqlite graph.npz",
        "links collect site crawl.sqlite -s REDIS_URL=redis://localhost/0",
        "links collect a/crawl.sqlite b/crawl.sqlite both.sqlite",
    )
    options: ClassVar = {
        "--json": Option("FILE", "write the counts to FILE as JSON"),
        "--spreadsheet": Option(None, SPREADSHEET),
    }

    def long_desc(self) -> str:
        from crawlprio.store.graph_files import WRITTEN

        formats = "; ".join(f"{suffix} ({holds})" for suffix, holds in WRITTEN.items())
        return (
            "Write the links that a crawl recorded in STORE to FILE. The extension of FILE "
            f"determines the format: {formats}. "
            "A page visited more than once has the links of its last visit. Commands "
            "that take a GRAPH read each of these formats. "
            "collect copies the store of CRAWL, which many workers fetch, to the new file NEW, on "
            "the machine that has it; CRAWL is CRAWLPRIO_REDIS_CRAWL, or the name of the spider. "
            "Given several stores, of crawls with different seeds, it joins them in NEW: of a page "
            "that several of them visited, NEW has the visits of the first. Sitemaps, archives and "
            "waiting requests stay in the stores."
        )

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Write the file; raise `CrawlprioError` if the links cannot be written."""
        if len(args) >= 3 and args[0] == "collect":
            print(load("functions", "collect")(self.settings, args[1:-1], Path(args[-1])))
            return
        path, file = self.named(args)
        from crawlprio.show.tables import tracked
        from crawlprio.store import Store
        from crawlprio.store.graph_files import export_links

        with Store.open(path, readonly=True) as store:
            written = export_links(
                store,
                file,
                lambda rows: tracked(rows, "links", store.n_visits),
                for_spreadsheets=bool(opts.spreadsheet),
            )
        *others, last = map(str, written.files)
        names = f"{', '.join(others)} and {last}" if others else last
        print(
            f"{names}: {written.n_links:,} links of {written.n_visited:,} visited pages, "
            f"{written.n_pages:,} pages in all"
        )
        write_json(
            opts,
            lambda: {
                "files": [str(file) for file in written.files],
                "pages": written.n_pages,
                "visited": written.n_visited,
                "links": written.n_links,
            },
        )


class ItemsCommand(ExportCommand):
    """`crawlprio items export STORE FILE.jsonl` writes the items that CRAWLPRIO_ITEMS kept."""

    what, says, suffixes = "items", "{:,} items", (".jsonl",)
    kept_by = "-s CRAWLPRIO_ITEMS=True"
    does = "Export the items that a crawl kept in its store"
    about = (
        "Write the items that a crawl with -s CRAWLPRIO_ITEMS=True kept in STORE to "
        "FILE.jsonl: one JSON object per line, in the order in which pages were fetched. "
        "However often the crawl was killed, each item is written exactly once, which feeds "
        "(-o) cannot guarantee."
    )
    examples = ("items export example/crawl.sqlite items.jsonl",)

    def write(self, store: Store, path: Path) -> int:
        n_items = 0
        with open_file(path, "w", encoding="utf-8", newline="\n") as file:
            for _, item in store.kept_items():
                file.write(_item_line(item, store.path))
                n_items += 1
        return n_items


def _item_line(item: str, store: Path) -> str:
    try:
        text = json.dumps(json.loads(item), ensure_ascii=False) + "\n"
        return text.encode("utf-8", "backslashreplace").decode()  # half a character, escaped
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{store}: the file is damaged (an item that is not JSON); restore a backup."
        ) from None
