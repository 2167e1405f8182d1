"""The layers of the package hold: imports go one way, modules are short, the root is small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
    *("compiled", "ranking", "orderings", "frontier", "web", "linkgraph", "importance"),
    *("simulator", "evaluation", "store", "pages", "items", "topic", "errors"),
)
MAY_SERVE_DEMO = ("crawlprio.commands", "crawlprio.spiders", "crawlprio.live.virtual")


def imports_of(tree: ast.AST, *, lazy: bool) -> Iterator[str]:
    """Return the modules that a module imports when it is loaded, or with `lazy` at any time."""
    if lazy:
        nodes: Iterator[ast.AST] = ast.walk(tree)
    else:
        nodes = _at_load(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in MODULES else node.module


def _at_load(tree: ast.AST) -> Iterator[ast.AST]:
    """Return the statements that run on loading a module: not those in functions or for types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_load(node)


@cache
def graph() -> dict[str, set[str]]:
    """Return what each module imports from the package when it is loaded."""
    return {
        name: {
            found
            for found in imports_of(ast.parse(file.read_text()), lazy=False)
            if found in MODULES and found != name
        }
        for name, file in MODULES.items()
    }


def test_there_is_no_import_cycle() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for found in sorted(graph()[name]):
                visit(found, (*path, name))
            done.add(name)

    for name in MODULES:
        visit(name, ())


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[1:2]])
def test_the_core_imports_neither_scrapy_nor_higher_layers(name: str) -> None:
    if name.split(".")[1] not in CORE:
        return
    for found in imports_of(ast.parse(MODULES[name].read_text()), lazy=True):
        assert found.split(".")[0] not in ("scrapy", "twisted", "redis")
        if found.startswith("crawlprio.") and found in MODULES:
            assert found.split(".")[1] in CORE


def test_only_what_starts_the_demo_imports_it() -> None:
    users = {
        name
        for name, file in MODULES.items()
        if not name.startswith("crawlprio.demo")
        for found in imports_of(ast.parse(file.read_text()), lazy=True)
        if found.startswith("crawlprio.demo")
    }
    assert {name for name in users if not name.startswith(MAY_SERVE_DEMO)} == set()


def test_the_root_holds_only_what_a_user_names() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 12


@pytest.mark.parametrize("file", MODULES.values(), ids=MODULES)
def test_no_module_is_longer_than_450_lines(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 450
