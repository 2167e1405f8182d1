"""The command `crawlprio links`: exports the links of a crawl store for other programs.

`crawlprio.store.graph_files` writes the formats.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from crawlprio.commands import Option
from crawlprio.commands.arguments import SPREADSHEET, ExportCommand, write_json

if TYPE_CHECKING:
    pass


class Command(ExportCommand):
    """`crawlprio links` writes the links of a store to a file, or collects them from Redis."""

    what = "links"
    takes = "export [options] STORE FILE | collect CRAWL STORE"
    does = "Export the links of a crawl store; collect those in Redis"
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
            "collect moves what the workers of CRAWL have recorded in Redis (REDIS_URL) into "
            "STORE, which is created, or extended if it holds what was collected before; CRAWL is "
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
        """Move the visits of a crawl from Redis into a store, and write its receipt."""
        from crawlprio.extras import require
        from crawlprio.plugins import require_plugin
        from crawlprio.settings_table.config import read_setting

        require_plugin("redis", "links collect")
        require("redis", "redis", "links collect")
        from crawlprio.plugins.redis.collect import collect
        from crawlprio.plugins.redis.connection import check_server, connect
        from crawlprio.plugins.redis.shards import prefix_of

        url = read_setting(self.settings, "REDIS_URL")
        client = connect(url, read_setting(self.settings, "REDIS_PARAMS"))
        check_server(client, url)
        collected = collect(client, prefix_of(crawl), store)
        if read_setting(self.settings, "CRAWLPRIO_RECEIPT"):
            from crawlprio.measure.receipt_document import NAME, make_receipt, write_receipt

            write_receipt(make_receipt(store), store.with_name(NAME))
        print(
            f"{store}: {collected.n_visits:,} more visits, {collected.n_pages:,} more pages of "
            f"crawl {crawl}"
        )
