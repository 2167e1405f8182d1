"""The version ranges of the dependencies."""

import tomllib

import pytest
from crawls import ROOT

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
