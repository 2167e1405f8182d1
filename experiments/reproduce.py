"""Runs the papers' experiments on recorded webs and a synthetic country, and writes the report.

    python experiments/reproduce.py [--shared ../shared/data] [--output docs/reproduction]
                                    [--only SECTION]... [--country-pages 3500000] [--jobs 2]
                                    [--summary docs/reproduction.md] [--webs FOLDER]

Each section runs in its own process. The generator section comes first, because others use its
errors. At the end, the summary is written from the results of all sections.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Event
from time import monotonic

import summary
from manifest import write_manifest

ON_WEBS = ("every_web", "baeza_history", "cho_topics")
SECTIONS = (*("generator", *ON_WEBS, "cho", "castillo", "najork", "baeza_yates", "choices"),)
"""Modules of this folder; each has `run(shared: Path, output: Path, country_pages: int)`.

Those `ON_WEBS` take the folder of the webs instead of the number of pages.
"""

WITHOUT_ERRORS = ("generator", *ON_WEBS, "cho")
"""Sections that do not need the generator's errors, because they use recorded webs only."""


def main() -> int:
    arguments = _arguments()
    shared, output = Path(arguments.shared), Path(arguments.output)
    if arguments.only_summary:
        summary.write(output, Path(arguments.summary))
        return 0
    if arguments.section:
        on_webs = arguments.section in ON_WEBS
        size = Path(arguments.webs) if on_webs else arguments.country_pages
        import_module(arguments.section).run(shared, output, size)
        return 0
    sections = [name for name in SECTIONS if name in (arguments.only or SECTIONS)]
    if not (shared / "uci-ics.npz").exists() and set(sections) - set(ON_WEBS):
        only = [section for section in sections if section in ON_WEBS]
        print(f"{shared} has no uci-ics.npz; left out: {', '.join(set(sections) - set(only))}.")
        sections = only
    errors_known = Event()
    runs: dict[str, list[float]] = {}
    if "generator" not in sections:
        errors_known.set()

    def run(section: str) -> int:
        if section not in WITHOUT_ERRORS:
            errors_known.wait()
        code, *runs[section] = _run(section, arguments)
        wall, used = runs[section]
        print(f"{section}: {wall:.0f} s, {used:.0f} s of processor", flush=True)
        if section == "generator":
            errors_known.set()
        return code

    with ThreadPoolExecutor(arguments.jobs) as pool:
        codes = list(pool.map(run, sections))
    webs = Path(arguments.webs) if set(runs) & set(ON_WEBS) else None
    write_manifest(output / "manifest.json", shared, webs, runs)
    summary.write(output, Path(arguments.summary))
    return max(codes, default=2)


def _run(section: str, arguments: argparse.Namespace) -> tuple[int, float, float]:
    """Run one section in its own process; return its code, and wall and processor seconds."""
    command = [sys.executable, __file__, "--section", section, "--shared", arguments.shared]
    command += ["--output", arguments.output, "--country-pages", str(arguments.country_pages)]
    command += ["--webs", arguments.webs]
    start = monotonic()
    _, status, used = os.wait4(subprocess.Popen(command).pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code, monotonic() - start, used.ru_utime + used.ru_stime


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shared", default="../shared/data", help="folder of the link graphs")
    parser.add_argument("--webs", default="../webs", help="folder of the webs of sources.py")
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
