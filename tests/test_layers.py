"""The layers of the package hold: imports go one way, modules are short, the root is small."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "crawlprio"
MODULES = {
    ".".join(("crawlprio", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
CORE = (
    *("compiled", "ranking", "orderings", "frontier", "web", "graph", "linkgraph", "importance"),
    *("simulator", "evaluation", "store", "pages", "items", "topic", "errors", "extras", "arrays"),
    *("manners", "archive", "receipt", "explain", "audit", "report", "tables", "testing", "value"),
    *("texts", "novelty"),
)
MEMBERS_BY_NAME = "crawlprio.orderings.combined"
"""An ordering made of orderings: on a call it asks the registry of the package it is in."""

MAY_SERVE_DEMO = ("crawlprio.commands", "crawlprio.spiders", "crawlprio.live.virtual")


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Return the modules that a module imports, when it is loaded or in a function."""
    for node in _running(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in MODULES else node.module


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Return all statements but those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _running(node)


@cache
def graph() -> dict[str, set[str]]:
    """Return what each module imports from the package, when it is loaded or in a function."""
    return {
        name: {
            found
            for found in imports_of(ast.parse(file.read_text()))
            if found in MODULES and found != name
        }
        for name, file in MODULES.items()
    }


def packages() -> dict[str, set[str]]:
    """Return the packages and root modules that each of them imports."""
    imported: dict[str, set[str]] = {}
    for name, found in graph().items():
        rooms = {".".join(other.split(".")[:2]) for other in (name, *found)}
        own = ".".join(name.split(".")[:2])
        imported.setdefault(own, set()).update(rooms - {own})
    return imported


def cycle(imported: Mapping[str, set[str]]) -> str:
    """Return a cycle of imports as `a -> b -> a`, or an empty string."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> str:
        if name in path:
            return " -> ".join((*path[path.index(name) :], name))
        if name in done:
            return ""
        found = (visit(other, (*path, name)) for other in sorted(imported[name]))
        circle = next(filter(None, found), "")
        done.add(name)
        return circle

    return next(filter(None, (visit(name, ()) for name in imported)), "")


def test_a_cycle_is_found_in_whatever_order_it_is_looked_for() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == "b -> c -> b"
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == ""


def test_no_modules_import_each_other_not_even_in_functions() -> None:
    assert (
        cycle({**graph(), MEMBERS_BY_NAME: graph()[MEMBERS_BY_NAME] - {"crawlprio.orderings"}})
        == ""
    )


def test_no_packages_import_each_other_not_even_in_functions() -> None:
    assert cycle(packages()) == ""


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[1:2]])
def test_the_core_imports_neither_scrapy_nor_higher_layers(name: str) -> None:
    if name.split(".")[1] not in CORE:
        return
    for found in imports_of(ast.parse(MODULES[name].read_text())):
        assert found.split(".")[0] not in ("scrapy", "twisted", "redis")
        if found.startswith("crawlprio.") and found in MODULES:
            assert found.split(".")[1] in CORE


def test_only_what_starts_the_demo_imports_it() -> None:
    users = {
        name
        for name, file in MODULES.items()
        if not name.startswith("crawlprio.demo")
        for found in imports_of(ast.parse(file.read_text()))
        if found.startswith("crawlprio.demo")
    }
    assert {name for name in users if not name.startswith(MAY_SERVE_DEMO)} == set()


def test_the_root_holds_only_what_a_user_names() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 12


@pytest.mark.parametrize("file", MODULES.values(), ids=MODULES)
def test_no_module_is_longer_than_450_lines(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 450
