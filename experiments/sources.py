"""The recorded webs of the experiments: where each comes from, how to get it, and its hash.

    python experiments/sources.py WEBS [--shared ../shared/data] [--record]

Builds the webs that are missing from the folder WEBS: from Debian packages with
`benchmarks/webs.py`, and from public git repositories with `benchmarks/archives.py`, or, as they
were on each day, with `benchmarks/histories.py`. Then compares all with the hashes in
`sources.json`, and says why a web is missing or differs. Documentation differs on another release
of Debian. `--record` writes the hashes of what is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import numpy as np

STATES = "states"
"""The kind of webs that are states of one web, for `true_history`."""
HISTORIES = "histories"
"""The kind of webs that have a state for each day, for `benchmarks/refresh.py`."""
TEXTS = "texts"
"""The folder of the webs that are kept with texts, for `topic_webs`."""
UCI = "uci-ics"
TOPICS = {
    UCI: ("computer", "student"),
    "fetchmail-list": ("certificate", "imap", "gmail"),
    "openenergy-forum": ("arduino", "solar"),
    "phila-gov": ("revenue", "school", "water"),
    "ucf-news": ("research", "energy"),
}
"""The topics of each web: the paper's first, and words that 30 pages or more are about.

All were chosen by the number of their hot pages, before any crawl on them.
"""
DEBIAN = "Debian: "
LIST = Path(__file__).with_suffix(".json")
BUILDERS = Path(__file__).parents[1] / "benchmarks"


@dataclass(frozen=True)
class Source:
    """Where a web comes from.

    `name` and `kind`: of the web. `origin`: Debian packages with their versions, a repository with
    its commit, or who published it. `builder`: the script that builds it; empty for a graph that
    nobody may fetch for the user. `sha256`: of its links and sites.
    """

    name: str
    kind: str
    origin: str
    builder: str
    sha256: str

    @property
    def short_origin(self) -> str:
        """The origin; of several packages only how many."""
        packages = self.origin.count(",") + 1
        return f"Debian, {packages} packages" if packages > 1 and self.builder else self.origin

    def path(self, shared: Path, webs: Path) -> Path:
        """Return the file of its graph."""
        return (webs if self.builder else shared) / f"{self.name}.npz"

    def build(self, webs: Path) -> None:
        """Build the web, if it is missing and may be fetched; say why it could not be built."""
        if not self.builder or self.path(webs, webs).exists():
            return
        command = [sys.executable, BUILDERS / self.builder, webs, "--web", self.name]
        print(f"{self.name}, from {self.short_origin}", flush=True)
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            why = [line for line in built.stderr.splitlines() if line.strip()][-1:]
            print(f"  could not be built: {' '.join(why)}", flush=True)

    def problem(self, shared: Path, webs: Path) -> str:
        """Return why the web is not the one that the committed figures are of, or ''."""
        path = self.path(shared, webs)
        if not path.exists():
            remedy = "run make webs" if self.builder else f"get it from {self.origin}"
            return f"{path} is missing and left out; {remedy}."
        if hash_of(path) != self.sha256:
            other = ", ".join(
                sorted(set(versions(webs, self.origin)) - set(_packages(self.origin)))
            )
            why = f"; here it is of {other}" if other else ""
            return f"{path} is not the {self.name} of the committed figures ({self.origin}){why}."
        return ""


def _packages(origin: str) -> list[str]:
    """Return the packages of a web with their versions; none if it has no packages."""
    return origin.removeprefix(DEBIAN).split(", ") if origin.startswith(DEBIAN) else []


def versions(webs: Path, origin: str) -> list[str]:
    """Return the packages of a web with the versions that were unpacked to build it here."""
    found = []
    for package in _packages(origin):
        name = package.partition(" ")[0]
        files = sorted((webs / "debs").glob(f"{name}_*.deb"))  # the first is what webs.py takes
        found += [f"{name} {unquote(files[0].name.split('_')[1])}"] if files else [package]
    return found


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a graph's links and sites, whatever the file's compression."""
    digest = hashlib.sha256()
    with np.load(path) as arrays:
        for name in ("indptr", "indices", "site"):
            if name in arrays:
                digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


@cache
def sources() -> tuple[Source, ...]:
    """Return all webs, in the order of the list."""
    return tuple(Source(**each) for each in json.loads(LIST.read_text(encoding="utf-8")))


def record(found: Iterable[Source], shared: Path, webs: Path) -> None:
    """Write the hashes of the webs that are there, and their packages, into the list."""
    paths = {source: source.path(shared, webs) for source in found}
    known = []
    for source, path in paths.items():
        if path.exists():
            packages = versions(webs, source.origin)
            origin = DEBIAN + ", ".join(packages) if packages else source.origin
            source = replace(source, sha256=hash_of(path), origin=origin)
        known.append(source)
    text = json.dumps([asdict(source) for source in known], indent=1)
    LIST.write_text(f"{text}\n", encoding="utf-8")


def _build_texts(webs: Path) -> None:
    """Build the stores with texts that are missing."""
    for name in TOPICS:
        if name != UCI and not (webs / TEXTS / f"{name}.sqlite").exists():
            print(f"{name}, with texts", flush=True)
            command = [sys.executable, BUILDERS / "text_stores.py", webs, "--web", name]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


def main() -> None:
    """Build what is missing and compare all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("webs", type=Path, help="folder of the webs; they take 10 GB")
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--record", action="store_true", help="write the hashes of what is there")
    given = parser.parse_args()
    for source in sources():
        source.build(given.webs)
    _build_texts(given.webs)
    if given.record:
        return record(sources(), given.shared, given.webs)
    problems = [problem for s in sources() if (problem := s.problem(given.shared, given.webs))]
    print("\n".join(problems) or f"All {len(sources())} webs are those of the committed figures.")


if __name__ == "__main__":
    main()
