"""The command `crawlprio items`: exports the items in a crawl's store, each exactly once."""

from __future__ import annotations

import json
from pathlib import Path

from crawlprio.commands import ExportCommand
from crawlprio.errors import ConfigError


class Command(ExportCommand):
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
