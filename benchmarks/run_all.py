"""Runs all benchmarks with modest sizes, in 12 to 35 minutes, and writes their output to a file.

    python benchmarks/run_all.py [--output benchmarks/results.txt] [--shared ../shared/data]
                                 [--only NAME]...

Nothing else should run on the machine at the same time; the load average at the start is recorded.
Benchmarks on real pages are skipped if their files are missing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import TextIO

FOLDER = Path(__file__).resolve().parent
PACKAGES = (
    *("crawlprio", "Scrapy", "Twisted", "uvloop", "numpy", "numba"),
    *("selectolax", "can_ada", "lxml"),
)
GRAPH, SEED, WARC, LARGE = (
    "uci-ics.npz",
    "http://www.ics.uci.edu/",
    "uci-ics.warc.gz",
    "cnr-2000.npz",
)

COMMANDS = (
    "engine.py --sites 100",
    "engine.py --sites 50000 --pages 6000 --rounds 2",
    "loopback.py --rounds 2",
    "loopback.py --rounds 2 --web demo",
    "real_pages.py --pages 1000 --rounds 3",
    "sites.py --seconds 5",
    "clock.py --sites 10 --sites 1000 --in-flight 16 --in-flight 0 --seconds 10",
    "memory.py",
    f"extraction.py {WARC} --pages 1500 --examples 0",
    "orderings.py --pages 3000 --rounds 2",
    "spiders.py --pages 1500 --rounds 2",
    "journal.py --pages 4000 --rounds 3",
    f"frontier.py {GRAPH} --seed {SEED}",
    "store.py --visits 10000",
    f"simulate.py {LARGE} --seeds 217849",
    f"pagerank.py {LARGE}",
    "event_loop.py",
    "profiled.py",
    "profiled.py --crawl follow+addon --pages 1500",
)


def processor() -> str:
    """Return the name of the processor, if the system reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def fingerprint() -> str:
    """Return a hash that identifies the state of crawlprio's sources."""
    digest = hashlib.sha256()
    for path in sorted((FOLDER.parent / "crawlprio").rglob("*.py")):
        digest.update(path.relative_to(FOLDER.parent).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def write_heading(output: TextIO) -> None:
    """Write date, machine and versions."""
    load = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    output.write(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {os.cpu_count()} cores, {processor()}; "
        f"{platform.system()} {platform.machine()}; load average {load} at the start\n"
        f"Python {platform.python_version()}; "
        f"{', '.join(f'{name} {version(name)}' for name in PACKAGES)}\n"
        f"crawlprio's sources: {fingerprint()}\n"
    )


def run(command: str, shared: Path, output: TextIO) -> bool:
    """Run one benchmark; write its command, output and duration; return whether it succeeded."""
    script, *arguments = command.split()
    files = {name: shared / name for name in arguments if name in (GRAPH, WARC, LARGE)}
    output.write(f"\n$ python benchmarks/{command}\n")
    if missing := [name for name, path in files.items() if not path.exists()]:
        output.write(f"left out: {missing[0]} is missing\n")
        return True
    output.flush()
    started = monotonic()
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *(str(files.get(word, word)) for word in arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    text = done.stdout.replace(f"{shared}{os.sep}", "")
    output.write(f"{text.rstrip()}\n({monotonic() - started:.0f} s)\n")
    output.flush()
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=FOLDER / "results.txt")
    parser.add_argument("--shared", type=Path, default=FOLDER.parent.parent / "shared" / "data")
    parser.add_argument("--only", action="append", help="a script's name, such as engine")
    given = parser.parse_args()
    chosen = [
        command for command in COMMANDS if not given.only or command.partition(".")[0] in given.only
    ]
    failed = []
    before = fingerprint()
    with given.output.open("w", encoding="utf-8") as output:
        write_heading(output)
        for command in chosen:
            print(command, flush=True)
            if not run(command, given.shared, output):
                failed.append(command)
        if fingerprint() != before:
            output.write(f"\ncrawlprio's sources changed meanwhile, to {fingerprint()}\n")
    if failed:
        sys.exit(f"failed: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
