"""Scrapy's own test suite: downloads it, runs it with a part of crawlprio enabled, compares.

The suite comes from the source distribution of the installed Scrapy. It is unpacked into the user's
cache, because in this folder Scrapy's commands would find the project's `scrapy.cfg`. Its
additional requirements go into a separate environment, which also sees the packages of the
project's environment. `CRAWLPRIO_UPSTREAM_FOLDER` names another place.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_dir

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(
    os.environ.get("CRAWLPRIO_UPSTREAM_FOLDER") or user_cache_dir("crawlprio-upstream")
).resolve()
INJECT = Path(__file__).parent / "inject"
DOCUMENT = ROOT / "docs" / "compatibility.md"

PARTS = ("addon", "scheduler", "queue", "handler")
"""What is switched on: everything, only the scheduler, one priority queue, the HTTP handler."""

EXTRAS = ("boto3", "Twisted[http2]", "httpx2[http2,socks]", "robotexclusionrulesparser", "uvloop")
"""Optional dependencies of Scrapy whose tests are also run."""

MAX_TEST_SECONDS = 120


class Suite(NamedTuple):
    """An unpacked test suite, and the Python that runs it."""

    source: Path
    python: Path


def suite():
    """Return where the suite of the installed Scrapy is or will be."""
    return Suite(
        FOLDER / f"scrapy-{version('scrapy')}",
        FOLDER / f"venv-{sys.version_info.major}.{sys.version_info.minor}" / "bin" / "python",
    )


def is_ready():
    """Return whether the suite has been downloaded and its requirements installed."""
    return _ready_file().exists()


def _ready_file():
    return FOLDER / f"ready-{version('scrapy')}"


def prepare():
    """Download the suite of the installed Scrapy and install its requirements, if necessary."""
    found = suite()
    if is_ready():
        _name_project(found)
        return found
    FOLDER.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # Only Scrapy comes as source; what is needed to read its metadata may be a wheel.
    subprocess.run(
        [
            *(*pip, "download", f"scrapy=={version('scrapy')}", "--no-deps"),
            *("--no-binary", "scrapy", "--dest", str(FOLDER)),
        ],
        check=True,
    )
    archive = next(FOLDER.glob(f"[sS]crapy-{version('scrapy')}.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(FOLDER, filter="data")
    _make_environment(found)
    _ready_file().touch()
    return found


def _make_environment(found):
    venv.create(found.python.parent.parent, with_pip=True, clear=True, symlinks=True)
    _name_project(found)
    subprocess.run(
        [
            *(found.python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"),
            *(*test_requirements(found.source / "tox.ini"), *EXTRAS),
        ],
        check=True,
    )


def _name_project(found):
    """Name this environment to the suite, unless it names another that still exists."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([found.python, "-c", ask], capture_output=True, text=True, check=True)
    file, project = Path(done.stdout.strip(), "project.pth"), sysconfig.get_path("purelib")
    # As a separate folder of packages, so that what is installed there in place is found.
    named = re.search(r"addsitedir\('(.*)'\)", file.read_text() if file.exists() else "")
    if named is None or not Path(named[1]).is_dir():
        file.write_text(f"import site; site.addsitedir({project!r})\n")


def test_requirements(tox):
    """Return what Scrapy's tests need, with the pytest that its own checks are pinned to.

    A later pytest may warn of what was not deprecated then, and the suite takes warnings as errors.
    """
    config = configparser.ConfigParser(interpolation=None, strict=False)
    config.read(tox)
    lines = config["test-requirements"]["deps"].splitlines()
    needed = [line.partition("#")[0].strip() for line in lines]
    pins = set(re.findall(r"^pytest==\S+", config["testenv:mypy"]["deps"], re.MULTILINE))
    return [*(line for line in needed if line and line != "pytest"), *(pins or {"pytest"})]


def run_tests(found, part, tests, outcomes, *, n_processes):
    """Run tests with a part of crawlprio switched on; return the outcome of each by node id.

    Parameters
    ----------
    part
        one of `PARTS`; empty: Scrapy alone.
    n_processes
        processes that run tests; 0: this one's child alone.
    """
    outcomes.unlink(missing_ok=True)
    created = _created(outcomes)
    created.unlink(missing_ok=True)
    with outcomes.with_suffix(".log").open("w") as log:
        subprocess.run(
            [
                *(found.python, "-m", "pytest", *tests, "-q", "-p", "record_outcomes"),
                *("--outcomes", str(outcomes), "-p", "no:cacheprovider", "--no-cov"),
                *("-m", "not requires_internet", "--timeout", str(MAX_TEST_SECONDS)),
                *(["-n", str(n_processes)] if n_processes else []),
            ],
            cwd=found.source,
            env={**environment(part), "CRAWLPRIO_UPSTREAM_CREATED": str(created)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not outcomes.exists():
        said = outcomes.with_suffix(".log").read_text()[-2000:]
        raise RuntimeError(f"The suite did not run to its end:\n{said}")
    return read_outcomes(outcomes)


def read_outcomes(outcomes):
    """Return the outcome of each test of an earlier run."""
    return dict(json.loads(line) for line in outcomes.read_text().splitlines())


def _created(outcomes):
    """Return the file that lists the tests during which a crawler was created."""
    return outcomes.with_suffix(".created")


def with_crawlers(outcomes):
    """Return the tests of a run during which a crawler was created, here or in a subprocess.

    No other test can have a different outcome, because crawlprio is enabled when a crawler is
    created.
    """
    lines = _created(outcomes).read_text().splitlines()
    return {line.rpartition(" (")[0] for line in lines if line}


def environment(part):
    """Return the environment in which every crawler has a part of crawlprio enabled."""
    # The suite comes before this project, which also has a folder `tests`.
    path = [str(INJECT), str(suite().source), str(ROOT)]
    return {**os.environ, "CRAWLPRIO_UPSTREAM": part, "PYTHONPATH": os.pathsep.join(path)}


def differing(plain, ours):
    """Return the outcomes of the tests that differ with crawlprio: without it, with it."""
    return {
        test: (plain.get(test, "absent"), ours.get(test, "absent"))
        for test in sorted(plain.keys() | ours.keys())
        if plain.get(test) != ours.get(test)
    }


class Listed(NamedTuple):
    """A test that `docs/compatibility.md` lists as differing."""

    parts: frozenset[str]
    reason: str


_ROW = re.compile(r"^\| `(?P<test>[^`]+)` \| (?P<parts>[^|]+) \| (?P<reason>[^|]+) \|$")


def listed(document=DOCUMENT):
    """Return the tests that are listed as differing, by node id."""
    if not document.exists():
        return {}
    rows = [_ROW.match(line) for line in document.read_text().splitlines()]
    return {
        row["test"]: Listed(frozenset(re.split(r",\s*", row["parts"].strip())), row["reason"])
        for row in rows
        if row
    }


def as_rows(found, known):
    """Return the rows of the table of differing tests, with the reasons that are known.

    Parameters
    ----------
    found
        the parts with which each test differs.
    """
    rows = []
    for test in sorted(found):
        reason = known[test].reason if test in known else "?"
        parts = ", ".join(part for part in PARTS if part in found[test])
        rows.append(f"| `{test}` | {parts} | {reason} |")
    return rows
