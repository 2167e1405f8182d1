"""The command `crawlprio texts`: exports the texts in a crawl's store, each page once."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from crawlprio.commands import OneLineCommand, program
from crawlprio.commands.arguments import check_writable
from crawlprio.errors import ConfigError

SYNTAX = "export STORE FILE.parquet|FILE.jsonl"


class Command(OneLineCommand):
    """`crawlprio texts export STORE FILE` writes the texts that --keep-text kept."""

    examples = (
        "texts export example/crawl.sqlite pages.parquet",
        "texts export example/crawl.sqlite pages.jsonl",
    )

    def syntax(self) -> str:
        return SYNTAX

    def short_desc(self) -> str:
        return "Export the texts that a crawl kept in its store"

    def long_desc(self) -> str:
        return (
            "Write each page whose text is in STORE, as crawlprio crawl --keep-text keeps it, to "
            "a Parquet file or as one JSON object per line: URL, title, text, language, value, the "
            "page that it repeats, licence, and what the page asks of those who use it. The crawl "
            "may be running. However often it was killed, each page is written exactly once."
        )

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Write the file, or raise `CrawlprioError`."""
        if len(args) != 3 or args[0] != "export":
            given = " ".join(args) or "nothing"
            raise ConfigError(f"texts: found {given}; expected: {program()} texts {SYNTAX}")
        path = Path(args[2])
        if path.suffix not in (".parquet", ".jsonl"):
            raise ConfigError(f"{path}: texts are written as .parquet or .jsonl; name such a file.")
        check_writable("texts export", path)
        try:
            with tempfile.TemporaryDirectory(prefix=".texts-", dir=path.parent) as folder:
                unfinished = Path(folder, path.name)
                n_pages = _write(Path(args[1]), unfinished)
                os.replace(unfinished, path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written ({error.strerror or error}).") from None
        print(f"{path}: the texts of {n_pages:,} pages")


def _write(store: Path, path: Path) -> int:
    """Write the texts of a store to a new file; return how many there are."""
    if path.suffix == ".parquet":
        from crawlprio.tables.crawl import read

        return read(store).texts.write_parquet(path)
    from crawlprio.store import Store
    from crawlprio.texts.kept import write_json_lines

    with Store.open(store, readonly=True) as opened:
        return write_json_lines(opened, path)
