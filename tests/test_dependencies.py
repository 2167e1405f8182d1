"""The version ranges and the licences of the dependencies."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires

import pytest
from crawls import ROOT
from packaging.requirements import Requirement

import crawlprio

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = [
    name
    for extra, names in PROJECT["optional-dependencies"].items()
    if extra != "dev"
    for name in names
]


@pytest.mark.parametrize("dependency", [*PROJECT["dependencies"], *EXTRAS])
def test_every_dependency_has_a_lower_and_an_upper_bound(dependency):
    bounds = dependency.partition(";")[0]
    assert bounds.count(">=") == 1
    assert bounds.count("<") == 1


def test_protego_handles_asterisks_in_linear_time():
    """Older versions are slow on rules with many asterisks."""
    (protego,) = (name for name in PROJECT["dependencies"] if name.startswith("protego"))
    least = protego.partition(">=")[2].partition(",")[0]
    assert tuple(map(int, least.split("."))) >= (0, 7)


def test_the_version_is_the_same_wherever_it_is_written():
    assert f"version: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert PROJECT["version"] == crawlprio.__version__


COPYLEFT = re.compile(r"\b(A?GPL|GNU (Affero )?General Public)", re.IGNORECASE)
PERMISSIVE = re.compile(
    r"\b(BSD|0BSD|MIT|Apache|MPL|Mozilla|ISC|PSF|PSFL|Python Software Foundation|ZPL|Zlib|CC0)\b"
)


def licences(package):
    """Return what a package says of its licence, without the text of it."""
    facts = metadata(package)
    said = [facts.get("License-Expression"), (facts.get("License") or "").partition("\n")[0]]
    said += [each for each in facts.get_all("Classifier") or () if each.startswith("License ::")]
    return [each for each in said if each]


def needed(dependencies):
    """Return the names of all packages that these need, installed ones in turn."""
    found, left = {}, [Requirement(each) for each in dependencies]
    while left:
        each = left.pop()
        extras = {"", *each.extras}
        is_meant = each.marker is None or any(each.marker.evaluate({"extra": e}) for e in extras)
        if not is_meant or extras <= found.get(each.name, set()):
            continue
        try:
            inner = requires(each.name) or ()
        except PackageNotFoundError:
            continue
        found[each.name] = found.get(each.name, set()) | extras
        for below in map(Requirement, inner):
            if below.marker is None or any(below.marker.evaluate({"extra": e}) for e in extras):
                below.marker = None
                left.append(below)
    return sorted(found)


AT_RUN_TIME = needed(
    [
        *PROJECT["dependencies"],
        *(
            name
            for extra, names in PROJECT["optional-dependencies"].items()
            if extra not in ("dev", "docs")
            for name in names
        ),
    ]
)


@pytest.mark.parametrize("package", AT_RUN_TIME)
def test_no_package_that_a_crawl_may_load_is_under_the_gpl(package):
    said = licences(package)
    assert not any(map(COPYLEFT.search, said)), said
    assert any(map(PERMISSIVE.search, said)), said


def test_the_packages_that_these_need_are_looked_at_too():
    assert {"scrapy", "Twisted".lower(), "lxml", "tornado", "certifi"} <= set(
        map(str.lower, AT_RUN_TIME)
    )


@pytest.mark.parametrize(
    "said",
    ["AGPL-3.0-only", "GPLv3", "License :: OSI Approved :: GNU Affero General Public License v3"],
)
def test_a_copyleft_licence_is_known_as_one(said):
    assert COPYLEFT.search(said)
    assert not COPYLEFT.search("LGPL-2.1; GNU Lesser General Public License")
