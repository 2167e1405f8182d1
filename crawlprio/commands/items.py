"""The command `crawlprio items`: exports the items in a crawl's store, each exactly once."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from crawlprio.commands import OneLineCommand, program
from crawlprio.commands.arguments import check_writable
from crawlprio.errors import ConfigError

SYNTAX = "export STORE FILE.jsonl"


class Command(OneLineCommand):
    """`crawlprio items export STORE FILE.jsonl` writes the items that CRAWLPRIO_ITEMS kept."""

    examples = ("items export example/crawl.sqlite items.jsonl",)

    def syntax(self) -> str:
        return SYNTAX

    def short_desc(self) -> str:
        return "Export the items that a crawl kept in its store"

    def long_desc(self) -> str:
        return (
            "Write the items that a crawl with -s CRAWLPRIO_ITEMS=True kept in STORE to "
            "FILE.jsonl: one JSON object per line, in the order in which pages were fetched. "
            "However often the crawl was killed, each item is written exactly once, which feeds "
            "(-o) cannot guarantee."
        )

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Write the file, or raise `CrawlprioError`."""
        if len(args) != 3 or args[0] != "export":
            given = " ".join(args) or "nothing"
            raise ConfigError(f"items: found {given}; expected: {program()} items {SYNTAX}")
        path = Path(args[2])
        if path.suffix != ".jsonl":
            raise ConfigError(f"{path}: items are written as JSON lines; name a .jsonl file.")
        check_writable("items export", path)
        from crawlprio.store import Store

        n_items = 0
        with (
            Store.open(args[1], readonly=True) as store,
            tempfile.TemporaryDirectory(prefix=".items-", dir=path.parent) as folder,
        ):
            unfinished = Path(folder, path.name)
            with unfinished.open("w", encoding="utf-8", newline="\n") as file:
                for _, item in store.kept_items():
                    file.write(_line(item, Path(args[1])))
                    n_items += 1
            os.replace(unfinished, path)
        print(f"{path}: {n_items:,} items")


def _line(item: str, store: Path) -> str:
    """Return an item as one line of JSON."""
    try:
        return json.dumps(json.loads(item), ensure_ascii=False) + "\n"
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{store}: the file is damaged (an item that is not JSON); restore a backup."
        ) from None
