"""The command `crawlprio texts`: exports the texts in a crawl's store, each page once."""

from __future__ import annotations

from pathlib import Path

from crawlprio.commands import ExportCommand


class Command(ExportCommand):
    """`crawlprio texts export STORE FILE` writes the texts that --keep-text kept."""

    what, says, suffixes = "texts", "the texts of {:,} pages", (".parquet", ".jsonl")
    does = "Export the texts that a crawl kept in its store"
    about = (
        "Write each page whose text is in STORE, as crawlprio crawl --keep-text keeps it, to "
        "a Parquet file or as one JSON object per line: URL, title, text, language, value, the "
        "page that it repeats, licence, and what the page asks of those who use it. The crawl "
        "may be running. However often it was killed, each page is written exactly once."
    )
    examples = (
        "texts export example/crawl.sqlite pages.parquet",
        "texts export example/crawl.sqlite pages.jsonl",
    )

    def write(self, store: Path, path: Path) -> int:
        if path.suffix == ".parquet":
            from crawlprio.measure.arrow_tables import read

            return read(store).texts.write_parquet(path)
        from crawlprio.plugins.value.kept_texts import write_json_lines
        from crawlprio.store import Store

        with Store.open(store, readonly=True) as opened:
            return write_json_lines(opened, path)
