"""The manifest of a reproduction, `manifest.json`: what ran, on which data, with which versions."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sources import BUILDERS, LIST, hash_of, sources

PACKAGES = ("crawlprio", "numpy", "scipy", "numba", "matplotlib", "pillow")
HOSTS, HOSTS_ORIGIN = "uk1996-hosts", "hosts of the .uk web of 1996, UK Web Archive, CC0"
"""What synthetic webs are generated from."""
SEEDS = {
    "random pages of starts": 1998,
    "orders of home pages": 2005,
    "random": "0 to 9",
    "networks": "0 to 4",
    "countries": "0 to 3",
}


def write_manifest(
    path: Path, shared: Path, webs: Path | None, runs: Mapping[str, Sequence[float]]
) -> None:
    """Write the manifest; sections that did not run, and webs that were not used, keep theirs.

    `webs`: folder of the webs of `sources.py`, if a section used them. `runs`: wall and processor
    seconds of each section that ran.
    """
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    sections = known.get("sections", {}) | {
        name: {"commit": commit(), "wall seconds": round(wall), "processor seconds": round(used)}
        for name, (wall, used) in runs.items()
    }
    text: dict[str, Any] = {
        "sections": dict(sorted(sections.items())),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}",
        "seeds": SEEDS,
        "data": known.get("data", {}) | _data(shared, webs),
    }
    path.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


def commit() -> str:
    """Return the commit that is checked out, `+` if its code was changed, or 'unknown'."""
    here = ["git", "-C", str(LIST.parent)]
    found = subprocess.run([*here, "rev-parse", "HEAD"], capture_output=True, text=True)
    if found.returncode:
        return "unknown"
    code = ("--", LIST.parent, BUILDERS, LIST.parents[1] / "crawlprio")
    status = [*here, "status", "--porcelain", *code]
    changed = subprocess.run(status, capture_output=True, text=True)
    return found.stdout.strip() + ("+" if changed.stdout else "")


def _data(shared: Path, webs: Path | None) -> dict[str, dict[str, str]]:
    """Return origin and hash of everything that is there."""
    paths = {
        source: source.path(shared, webs or shared)
        for source in sources()
        if webs or not source.builder
    }
    found = {
        source.name: {"origin": source.origin, "sha256": hash_of(path)}
        for source, path in paths.items()
        if path.exists()
    }
    hosts = shared / f"{HOSTS}.npz"
    if hosts.exists():
        found[HOSTS] = {"origin": HOSTS_ORIGIN, "sha256": hash_of(hosts)}
    return found
