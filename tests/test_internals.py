"""Scrapy's and Twisted's private names are used only in `crawlprio/live/engine.py`."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "crawlprio"


def knows_scrapy(file):
    """Return whether a module imports Scrapy or Twisted, if only in a function or for types."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return any(name.partition(".")[0] in ("scrapy", "twisted") for name in names)


SCRAPY_LAYER = [file for file in sorted(PACKAGE.rglob("*.py")) if knows_scrapy(file)]


def private_names(file):
    """Return the private attributes that a module uses but does not define."""
    tree = ast.parse(file.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            own.add(node.attr)
        elif not node.attr.endswith("__"):
            used.add(node.attr)
    return {name for name in used if name not in own}


NOT_OF_SCRAPY = {
    "_replace": "a public method of named tuples",
    "_asdict": "a public method of named tuples",
    "_make": "a public method of named tuples",
    "_fields": "a public attribute of named tuples",
    "_exit": "the end of a process without clean-up, of `os`",
    "_name_": "a documented attribute of enums",
    "_ArgumentGroup": "a type of argparse, which has no public name for it",
}


@pytest.mark.parametrize("file", SCRAPY_LAYER, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_private_names_are_used_in_one_module(file):
    found = private_names(file) - set(NOT_OF_SCRAPY)
    if file == PACKAGE / "live" / "engine.py":
        assert {"_slot", "_delay"} <= found, "this test would not see them elsewhere"
    else:
        assert found == set()


def test_the_modules_that_know_scrapy_are_found_wherever_they_are():
    rooms = {file.relative_to(PACKAGE).parts[0] for file in SCRAPY_LAYER}
    assert rooms >= {"addon.py", "live", "middlewares", "plugins", "schedulers", "spiders"}
