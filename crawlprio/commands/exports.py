"""The commands that export what a crawl store holds: `crawlprio links` and `crawlprio items`.

`crawlprio.store.graph_files` writes the formats of links.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import ClassVar

from crawlprio.commands import SPREADSHEET, ExportCommand, Option, write_json
from crawlprio.errors import ConfigError


class LinksCommand(ExportCommand):
    """`crawlprio links` writes the links of a store to a file, or copies the store of a crawl."""

    what = "links"
    takes = "export [options] STORE FILE | collect CRAWL STORE"
    does = "Export the links of a crawl store; copy that of a crawl in Redis"
    examples = (
        "links export crawl.sqlite links.csv",
        "links export example/crawl.sqlite graph.npz",
        "links collect site crawl.sqlite -s REDIS_URL=redis://localhost/0",
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
            "collect copies the store of CRAWL, which many workers fetch, to the new file STORE, "
            "on the machine that has it, and makes one of those of its shards; CRAWL is "
            "CRAWLPRIO_REDIS_CRAWL, or the name of the spider."
        )

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Write the file; raise `CrawlprioError` if the links cannot be written."""
        if len(args) == 3 and args[0] == "collect":
            self._collect(args[1], Path(args[2]))
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

    def _collect(self, crawl: str, store: Path) -> None:
        """Copy the store of a crawl that many workers fetch, and write the copy's receipt."""
        from crawlprio.extras import require
        from crawlprio.live.hand_settings import brain_folder
        from crawlprio.plugins import load
        from crawlprio.settings_table.config import read_setting

        require("redis", "redis", "links collect")
        folder = Path(read_setting(self.settings, "JOBDIR") or brain_folder(crawl))
        own = folder / (read_setting(self.settings, "CRAWLPRIO_STORE") or "crawl.sqlite")
        collected = load("exports", "collect")(self.settings, crawl, store, own)
        if read_setting(self.settings, "CRAWLPRIO_RECEIPT"):
            from crawlprio.measure.receipt_document import NAME, make_receipt, write_receipt

            write_receipt(make_receipt(store), store.with_name(NAME))
        print(
            f"{store}: {collected.n_visits:,} visits and {collected.n_pages:,} pages of crawl "
            f"{crawl}"
        )


class ItemsCommand(ExportCommand):
    """`crawlprio items export STORE FILE.jsonl` writes the items that CRAWLPRIO_ITEMS kept."""

    what, says, suffixes = "items", "{:,} items", (".jsonl",)
    does = "Export the items that a crawl kept in its store"
    about = (
        "Write the items that a crawl with -s CRAWLPRIO_ITEMS=True kept in STORE to "
        "FILE.jsonl: one JSON object per line, in the order in which pages were fetched. "
        "However often the crawl was killed, each item is written exactly once, which feeds "
        "(-o) cannot guarantee."
    )
    examples = ("items export example/crawl.sqlite items.jsonl",)

    def write(self, store: Path, path: Path) -> int:
        from crawlprio.outside import open_file
        from crawlprio.store import Store

        n_items = 0
        with (
            Store.open(store, readonly=True) as opened,
            open_file(path, "w", encoding="utf-8", newline="\n") as file,
        ):
            for _, item in opened.kept_items():
                file.write(_line(item, store))
                n_items += 1
        return n_items


def _line(item: str, store: Path) -> str:
    """Return an item as one line of JSON."""
    try:
        text = json.dumps(json.loads(item), ensure_ascii=False) + "\n"
        return text.encode("utf-8", "backslashreplace").decode()  # half a character, escaped
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{store}: the file is damaged (an item that is not JSON); restore a backup."
        ) from None
