"""Runs the papers' experiments on recorded webs and a synthetic country, and writes the report.

    python experiments/reproduce.py [--shared ../shared/data] [--output docs/reproduction]
                                    [--only SECTION]... [--country-pages 3500000] [--jobs 2]
                                    [--summary docs/reproduction.md]

Each section runs in its own process. The generator section comes first, because others use its
errors. At the end, the summary is written from the results of all sections.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Event
from time import monotonic, process_time

import summary

SECTIONS = ("generator", "cho", "cho_topics", "castillo", "najork", "baeza_yates", "choices")
"""Modules of this folder; each has `run(shared: Path, output: Path, country_pages: int)`."""

WITHOUT_ERRORS = ("generator", "cho", "cho_topics")
"""Sections that do not need the generator's errors, because they use recorded webs only."""


def main() -> int:
    arguments = _arguments()
    shared, output = Path(arguments.shared), Path(arguments.output)
    if arguments.only_summary:
        summary.write(output, Path(arguments.summary))
        return 0
    if not (shared / "uci-ics.npz").exists():
        print(f"{shared} has no uci-ics.npz; give the folder of the graphs with --shared.")
        return 2
    if arguments.section:
        start = monotonic()
        import_module(arguments.section).run(shared, output, arguments.country_pages)
        wall, processor = monotonic() - start, process_time()
        print(f"{arguments.section}: {wall:.0f} s, {processor:.0f} s of processor", flush=True)
        return 0
    sections = [name for name in SECTIONS if name in (arguments.only or SECTIONS)]
    errors_known = Event()
    if "generator" not in sections:
        errors_known.set()

    def run(section: str) -> int:
        if section not in WITHOUT_ERRORS:
            errors_known.wait()
        code = _run(section, arguments)
        if section == "generator":
            errors_known.set()
        return code

    with ThreadPoolExecutor(arguments.jobs) as pool:
        codes = list(pool.map(run, sections))
    summary.write(output, Path(arguments.summary))
    return max(codes)


def _run(section: str, arguments: argparse.Namespace) -> int:
    """Run one section in its own process."""
    command = [sys.executable, __file__, "--section", section, "--shared", arguments.shared]
    command += ["--output", arguments.output, "--country-pages", str(arguments.country_pages)]
    return subprocess.run(command, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shared", default="../shared/data", help="folder of the link graphs")
    parser.add_argument("--output", default="docs/reproduction", help="folder of the report")
    parser.add_argument("--summary", default="docs/reproduction.md", help="page of the summary")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="sections to run")
    parser.add_argument("--only-summary", action="store_true", help="write the summary again")
    parser.add_argument("--country-pages", type=int, default=3_500_000)
    parser.add_argument("--jobs", type=int, default=2, help="sections at a time")
    parser.add_argument("--section", choices=SECTIONS, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
