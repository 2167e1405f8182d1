"""Runs the papers' experiments on recorded webs and a made-up country, and writes the report.

    python experiments/reproduce.py [--shared ../shared/data] [--output docs/reproduction]
                                    [--only SECTION]... [--country-pages 3500000] [--jobs 2]

Each section runs in a process of its own. It must not know what a section measures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from time import monotonic

SECTIONS = ("cho", "najork", "castillo", "baeza_yates", "choices", "generator")
"""Modules of this folder; each has `run(shared: Path, output: Path, country_pages: int)`."""


def main() -> int:
    arguments = _arguments()
    shared, output = Path(arguments.shared), Path(arguments.output)
    if not (shared / "uci-ics.npz").exists():
        print(f"{shared} has no uci-ics.npz; give the folder of the graphs with --shared.")
        return 2
    if arguments.section:
        start = monotonic()
        import_module(arguments.section).run(shared, output, arguments.country_pages)
        print(f"{arguments.section}: {monotonic() - start:.0f} s", flush=True)
        return 0
    sections = arguments.only or SECTIONS
    with ThreadPoolExecutor(arguments.jobs) as pool:
        codes = list(pool.map(lambda section: _run(section, arguments), sections))
    _write_summary(output)
    return max(codes)


def _write_summary(output: Path) -> None:
    """Write how many findings of each section came out how, into `README.md`."""
    verdicts = ("reproduced", "partly reproduced", "not reproduced", "not tested")
    lines = ["# The papers' experiments", "", f"| section | {' | '.join(verdicts)} |"]
    lines.append("|" + "---|" * (len(verdicts) + 1))
    for section in SECTIONS:
        path = output / f"{section}.json"
        if path.exists():
            found = Counter(
                finding["verdict"] for finding in json.loads(path.read_text())["findings"]
            )
            counts = " | ".join(str(found[verdict] or "-") for verdict in verdicts)
            title = (output / f"{section}.md").read_text().partition("\n")[0].lstrip("# ")
            lines.append(f"| [{title}]({section}.md) | {counts} |")
    (output / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _run(section: str, arguments: argparse.Namespace) -> int:
    """Run one section in a process of its own."""
    command = [sys.executable, __file__, "--section", section, "--shared", arguments.shared]
    command += ["--output", arguments.output, "--country-pages", str(arguments.country_pages)]
    return subprocess.run(command, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shared", default="../shared/data", help="folder of the link graphs")
    parser.add_argument("--output", default="docs/reproduction", help="folder of the report")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="sections to run")
    parser.add_argument("--country-pages", type=int, default=3_500_000)
    parser.add_argument("--jobs", type=int, default=2, help="sections at a time")
    parser.add_argument("--section", choices=SECTIONS, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
