"""What `--help` shows: proper titles, and names that are not broken across lines."""

import argparse
import os
import subprocess
import sys
from itertools import pairwise

import pytest
from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter
from scrapy.settings import Settings

from crawlprio.commands.cli import command_of

TITLES = {
    "simulate": ["Usage", "Options", "Global Options", "Simulation"],
    "score": ["Usage", "Options", "Global Options", "Score"],
    "links": ["Usage", "Options", "Global Options"],
    "replay": ["Usage", "Options", "Replay", "Global Options"],
}


def command(name):
    made = command_of(name)
    assert isinstance(made, ScrapyCommand)
    made.settings = Settings(made.default_settings)
    return made


def help_of(name):
    """Return what `scrapy NAME --help` prints, with the parser built as in Scrapy."""
    made = command(name)
    parser = argparse.ArgumentParser(
        prog="scrapy",
        formatter_class=ScrapyHelpFormatter,
        usage=f"scrapy {name} {made.syntax()}",
        conflict_handler="resolve",
        description=made.long_desc(),
    )
    made.add_options(parser)
    return parser.format_help()


@pytest.mark.parametrize("name", TITLES)
def test_no_line_of_help_becomes_a_title_at_any_width(name, monkeypatch):
    for width in range(60, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = help_of(name).splitlines()
        titles = [above for above, line in pairwise(lines) if _rules(line)]
        assert titles == TITLES[name]


def _rules(line):
    return len(line) > 2 and set(line) in ({"="}, {"-"})


@pytest.mark.parametrize("name", ["simulate", "score"])
def test_hyphenated_names_are_not_broken(name, monkeypatch):
    for width in range(60, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        assert [line for line in help_of(name).splitlines() if line.endswith("-")] == [
            line for line in help_of(name).splitlines() if line and set(line) == {"-"}
        ]


@pytest.mark.parametrize("name", TITLES)
def test_the_list_of_commands_has_one_line_each_in_80_columns(name):
    assert len(f"  {name:<13} {command(name).short_desc()}") <= 80


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads_ends_a_command_without_a_traceback(unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "crawlprio", "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            timeout=60,
        )
    assert (ended.returncode, ended.stderr) == (1, b"")
