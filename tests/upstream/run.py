"""Runs Scrapy's own tests with crawlprio switched on, and compares with Scrapy alone.

`python tests/upstream/run.py` takes about half an hour on two cores. It runs the whole suite with
Scrapy alone, then, with each part of crawlprio, the tests that create a crawler. Tests with a
different outcome are run again one at a time, so that a busy machine does not count. The exit
status is 1 if `docs/compatibility.md` lists other tests than these.

`--prepare` only downloads the suite. `--update` writes the rows of the document, with `?` where a
reason is missing. `--reuse` takes the last run's outcomes with Scrapy alone, which do not depend on
crawlprio. `--part` and `--skip` leave out parts of crawlprio and tests, which are then not compared
with the document either: `--skip "tests/test_command*"` saves three quarters of the time.
"""

import argparse
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parent))

from suite import (
    DOCUMENT,
    FOLDER,
    PARTS,
    as_rows,
    differing,
    environment,
    listed,
    prepare,
    read_outcomes,
    run_tests,
    with_crawlers,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prepare", action="store_true", help="only fetch the suite")
    parser.add_argument("--update", action="store_true", help="write the rows of the document")
    parser.add_argument("--reuse", action="store_true", help="run Scrapy alone only once")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all parts")
    parser.add_argument(
        "--skip", metavar="PATTERN", action="append", default=[], help="tests that are not run"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    arguments = parser.parse_args()
    found = prepare()
    if arguments.prepare:
        return 0
    compile_all(found)
    differs = {}
    parts = arguments.part or PARTS
    if arguments.reuse and outcomes_file("").exists():
        plain = read_outcomes(outcomes_file(""))
    else:
        plain = timed(found, "", ["tests"], arguments.processes)
    chosen = sorted(without(with_crawlers(outcomes_file("")) & plain.keys(), arguments.skip))
    selection = FOLDER / "selection.txt"
    selection.write_text("".join(f"{test}\n" for test in chosen))
    print(f"{len(chosen):,} of {len(plain):,} tests make a crawler", flush=True)
    for part in parts:
        outcomes = timed(found, part, [f"@{selection}"], arguments.processes)
        for test in settled(found, part, plain, outcomes, chosen):
            differs.setdefault(test, set()).add(part)
    known = listed()
    compared = {test: known[test] for test in without(known, arguments.skip)}
    # Tests that were not run are assumed to differ as listed.
    listed_so = {
        test: set(entry.parts) - (set(parts) if test in compared else set())
        for test, entry in known.items()
    }
    found_or_listed = {
        test: differs.get(test, set()) | listed_so.get(test, set())
        for test in {*differs, *listed_so}
    }
    rows = as_rows({test: each for test, each in found_or_listed.items() if each}, known)
    if arguments.update:
        update(rows)
    print("\n".join(rows))
    return judge(differs, {test: entry.parts & set(parts) for test, entry in compared.items()})


def without(tests, patterns):
    """Return the tests whose node ids match none of the patterns."""
    return [test for test in tests if not any(fnmatchcase(test, each) for each in patterns)]


def compile_all(found):
    """Compile what a crawl runs, so that no test waits for that."""
    script = "from crawlprio.live.compiling import compile_all; compile_all()"
    subprocess.run([found.python, "-c", script], env=environment(""), check=True)


def timed(found, part, tests, n_processes):
    """Run tests and print how long they took."""
    start = monotonic()
    outcomes = run_tests(found, part, tests, outcomes_file(part), n_processes=n_processes)
    counts = {kind: list(outcomes.values()).count(kind) for kind in ("passed", "skipped", "failed")}
    shown = ", ".join(f"{n:,} {kind}" for kind, n in counts.items())
    print(f"{part or 'Scrapy alone'}: {shown} in {monotonic() - start:.0f} s", flush=True)
    return outcomes


def outcomes_file(part):
    """Return where the outcomes of a run go."""
    return FOLDER / f"outcomes-{part or 'plain'}.jsonl"


def settled(found, part, plain, ours, chosen):
    """Return the tests with a different outcome under a part of crawlprio, also when run alone."""
    suspects = list(differing({test: plain[test] for test in chosen}, ours))
    if not suspects:
        return []
    selection = FOLDER / "suspects.txt"
    selection.write_text("".join(f"{test}\n" for test in suspects))
    again = [
        run_tests(
            found, name, [f"@{selection}"], FOLDER / f"again-{name or 'plain'}.jsonl", n_processes=0
        )
        for name in ("", part)
    ]
    # A test that fails with Scrapy alone this time, and passes with the part, does not differ.
    return [test for test in differing(*again) if again[1].get(test) != plain[test]]


def update(rows):
    """Replace the rows of the table in the document."""
    lines = DOCUMENT.read_text().splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("| --- |"))
    end = head + 1
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    DOCUMENT.write_text("\n".join([*lines[: head + 1], *rows, *lines[end:]]) + "\n")


def judge(differs, known):
    """Print what the document does not list, and what it lists although it does not differ."""
    unlisted = [
        f"{test} with {part}"
        for test, parts in sorted(differs.items())
        for part in sorted(parts - known.get(test, set()))
    ]
    alike = [
        f"{test} with {part}"
        for test, parts in sorted(known.items())
        for part in sorted(parts - differs.get(test, set()))
    ]
    for title, tests in (("Not listed", unlisted), ("Listed, but does not differ", alike)):
        if tests:
            print(f"\n{title} in {DOCUMENT.name}:", *tests, sep="\n  ")
    return 1 if unlisted or alike else 0


if __name__ == "__main__":
    sys.exit(main())
