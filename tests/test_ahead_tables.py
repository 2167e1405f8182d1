"""The tables of docs/orderings/sibling-sampling.md say what was recorded."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/orderings/sibling-sampling.md"
COLUMNS = ("sibling-sampling", "breadth-first", "random")
AT = {"10 %": 3, "20 %": 4}


def kind_of(row):
    kinds = {"wiki": "wikis", "forum": "forums", "documentation": "documentation"}
    kind = row["kind"].removesuffix("s")
    if kind == "mailing list":
        return "mailing lists"
    if kind == "generated":
        return "generated, of 400 to 2,500 sites"
    return kinds.get(kind, "organisations, a museum, a magazine")


def recorded():
    rows = json.loads(PAGE.with_suffix(".json").read_text())
    return [row for row in rows if not row["attack"] and row["in_flight"] == 1]


def test_the_page_gives_the_recorded_shares_by_kind_of_web():
    """Each web counts once, with all of its starts."""
    starts = {}
    for row in recorded():
        starts.setdefault((kind_of(row), row["web"], row["ordering"]), []).append(row["gathered"])
    webs = {key: [fmean(at) for at in zip(*rows, strict=True)] for key, rows in starts.items()}
    n_webs = Counter(kind for kind, _, ordering in webs if ordering == "random")
    table = re.findall(r"^\| ([\w ,]+) \((\d+)\) ((?:\| \d+ % ){6})\|$", PAGE.read_text(), re.M)
    assert {kind: int(n) for kind, n, _ in table} == n_webs
    for kind, _, cells in table:
        expected = [
            fmean(rows[at] for key, rows in webs.items() if key[::2] == (kind, ordering))
            for at in AT.values()
            for ordering in COLUMNS
        ]
        found = [int(cell) / 100 for cell in re.findall(r"\d+", cells)]
        assert found == pytest.approx(expected, abs=0.005001), kind


def test_the_page_has_the_tables_that_the_benchmark_prints():
    command = [sys.executable, ROOT / "benchmarks/ahead.py", "--tables", PAGE.with_suffix(".json")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    _, _, shown = printed.partition("second set, 1 in flight\n")
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    assert [row for row in rows if row not in PAGE.read_text()] == []
