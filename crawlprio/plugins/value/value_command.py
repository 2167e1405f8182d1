"""The command `crawlprio value`: trains a value model from examples, and scores pages with one."""

from __future__ import annotations

import argparse
from pathlib import Path

from crawlprio.commands import OneLineCommand, program
from crawlprio.commands.arguments import check_outputs
from crawlprio.errors import ConfigError

SYNTAX = "train POSITIVES NEGATIVES -o MODEL.json [--store STORE]"


class Command(OneLineCommand):
    """`crawlprio value train POSITIVES NEGATIVES -o MODEL.json` trains a classifier of pages."""

    examples = (
        "value train good/ other/ -o model.json",
        "value train good.txt other.txt --store crawl.sqlite -o model.json",
    )

    def syntax(self) -> str:
        return SYNTAX

    def short_desc(self) -> str:
        return "Train a model that says what pages are worth"

    def long_desc(self) -> str:
        return (
            "Train a linear classifier from example pages that are worth fetching (POSITIVES) and "
            "others (NEGATIVES), for crawlprio crawl --value MODEL.json. Each is a folder of .html "
            "and .txt files, a .csv file with a column text (and title, url), a crawl store with "
            "texts, or, with --store, a file of URLs whose texts the store has."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        group = parser.add_argument_group(title="Value")
        group.add_argument("-o", "--output", metavar="FILE", help="write the model here, as JSON")
        group.add_argument(
            "--store", metavar="STORE", help="crawl store with the texts of the URLs in the files"
        )

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Train and write the model, or raise `CrawlprioError`."""
        if len(args) != 3 or args[0] != "train" or not opts.output:
            given = " ".join(args) or "nothing"
            raise ConfigError(f"value: found {given}; expected: {program()} value {SYNTAX}")
        path = Path(opts.output)
        if path.suffix != ".json":
            raise ConfigError(f"{path}: models are written as JSON; name a .json file.")
        check_outputs([("-o", path)], {"POSITIVES": args[1], "NEGATIVES": args[2]})
        from crawlprio.plugins.value.classifier import cross_validate, train
        from crawlprio.plugins.value.examples import read_examples

        store = None if opts.store is None else Path(opts.store)
        positives, negatives = (read_examples(Path(arg), store) for arg in args[1:])
        area = cross_validate(positives, negatives)
        train(positives, negatives).write(path)
        judged = "too few examples to say how good it is (five of each)"
        if area == area:
            judged = f"area under the ROC curve on held-out fifths of them: {area:.3f}"
        print(f"{path}: {len(positives):,} positives, {len(negatives):,} negatives; {judged}.")
