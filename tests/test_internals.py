"""Scrapy's and Twisted's private names are used only in `crawlprio/live/engine.py`."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "crawlprio"
SCRAPY_LAYER = sorted(
    file
    for folder in ("live", "monitor", "schedulers", "middlewares", "spiders", "commands", "demo")
    for file in (PACKAGE / folder).rglob("*.py")
) + sorted(PACKAGE.glob("*.py"))


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
    "_ArgumentGroup": "a type of argparse, which has no public name for it",
}


@pytest.mark.parametrize("file", SCRAPY_LAYER, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_private_names_are_used_in_one_module(file):
    found = private_names(file) - set(NOT_OF_SCRAPY)
    if file == PACKAGE / "live" / "engine.py":
        assert {"_slot", "_delay"} <= found, "this test would not see them elsewhere"
    else:
        assert found == set()
