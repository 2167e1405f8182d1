"""The commands `crawlprio value`, which trains a model, and `crawlprio texts`, an export."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from crawlprio.commands import ExportCommand, OneLineCommand, Option, check_outputs, program
from crawlprio.errors import ConfigError

if TYPE_CHECKING:
    from crawlprio.store import Store


class ValueCommand(OneLineCommand):
    """`crawlprio value train POSITIVES NEGATIVES -o MODEL.json` trains a classifier of pages."""

    takes = "train POSITIVES NEGATIVES -o MODEL.json [--store STORE]"
    does = "Train a model that says what pages are worth"
    about = (
        "Train a linear classifier from example pages that are worth fetching (POSITIVES) and "
        "others (NEGATIVES), for crawlprio crawl --value MODEL.json. Each is a folder of .html "
        "and .txt files, a .csv file with a column text (and title, url), a crawl store with "
        "texts, or, with --store, a file of URLs whose texts the store has."
    )
    examples = (
        "value train good/ other/ -o model.json",
        "value train good.txt other.txt --store crawl.sqlite -o model.json",
    )
    title = "Value"
    options: ClassVar = {
        "-o, --output": Option("FILE", "write the model here, as JSON"),
        "--store": Option("STORE", "crawl store with the texts of the URLs in the files"),
    }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Train and write the model, or raise `CrawlprioError`."""
        if len(args) != 3 or args[0] != "train" or not opts.output:
            given = " ".join(args) or "nothing"
            raise ConfigError(f"value: found {given}; expected: {program()} value {self.takes}")
        path = Path(opts.output)
        if path.suffix != ".json":
            raise ConfigError(f"{path}: models are written as JSON; name a .json file.")
        check_outputs([("-o", path)], {"POSITIVES": args[1], "NEGATIVES": args[2]})
        from crawlprio.plugins.value.classifier import cross_validate, read_examples, train

        store = None if opts.store is None else Path(opts.store)
        positives, negatives = (read_examples(Path(arg), store) for arg in args[1:])
        area = cross_validate(positives, negatives)
        train(positives, negatives).write(path)
        judged = "too few examples to say how good it is (five of each)"
        if area == area:
            judged = f"area under the ROC curve on held-out fifths of them: {area:.3f}"
        print(f"{path}: {len(positives):,} positives, {len(negatives):,} negatives; {judged}.")


class TextsCommand(ExportCommand):
    """`crawlprio texts export STORE FILE` writes the texts that --keep-text kept."""

    what, says, suffixes = "texts", "the texts of {:,} pages", (".parquet", ".jsonl")
    kept_by = "--keep-text"
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

    def write(self, store: Store, path: Path) -> int:
        if path.suffix == ".parquet":
            from crawlprio.measure.arrow_tables import read

            return read(store.path).texts.write_parquet(path)
        from crawlprio.plugins.value.kept_texts import write_json_lines

        return write_json_lines(store, path)
