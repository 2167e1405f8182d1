"""The rooms of the package hold: each imports only rooms above it, and no name stands for two."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from crawlprio.plugins import load_all

PACKAGE = Path(__file__).parent.parent / "crawlprio"
MODULES = {
    ".".join(("crawlprio", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
ROOMS = (
    *("errors", "safe_files", "items", "plugins", "extras", "graph", "ranking", "web", "store"),
    *("orderings", "frontier", "testing", "measure", "simulator", "show", "settings_table"),
    *("demo", "live", "spiders", "schedulers", "pipelines", "middlewares", "addon", "settings"),
    "commands",
)
"""The rooms from the ground up; a room imports only those before it. `plugins` is its table alone;
each plugin is a room of its own, above all others."""

WITHOUT_SCRAPY = ROOMS[: ROOMS.index("settings_table")]
"""The rooms that know no Scrapy, Twisted or Redis."""

KNOWS_SCRAPY = {
    *("plugins.watch", "plugins.shared", "plugins.value.valuing"),
    *("plugins.archive.archiver", "plugins.archive.requisite_fetches", "plugins.render.rendering"),
    *("plugins.update.conditional", "plugins.update.updating"),
}
"""The plugins, and modules of others, that know it: those with parts of a crawl."""

BOTH_WAYS = {"crawlprio.plugins.papers.rare_orderings"}
"""An ordering made of orderings: on a call it asks the registry of the package it is in."""

MOST_MODULES, MOST_LINES = 213, 57_822

NAMES_PLUGIN_SETTINGS = {
    "commands/crawl.py": {"CRAWLPRIO_VALUE"},  # --topic scores pages
    "commands/recorded.py": {"CRAWLPRIO_REDIS_CRAWL", "REDIS_URL"},  # help of links collect
    "measure/stored_crawl.py": {"CRAWLPRIO_RENDER"},  # the setting behind a rule of the receipt
}
"""The files outside plugins that still name settings of plugins, and which."""

_METHODS = ast.FunctionDef, ast.AsyncFunctionDef
TWICE_BY_CONVENTION = {"__init__", "__main__", "base", "schema"}


def imports_of(nodes):
    """Return the modules that nodes of a module import, when it is loaded or in a function."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in MODULES else node.module


def _running(tree):
    """Return all statements but those for type checkers alone."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        left += ast.iter_child_nodes(node)


@cache
def trees():
    """Return the syntax tree of each module."""
    return {name: ast.parse(file.read_text()) for name, file in MODULES.items()}


@cache
def graph(nodes_of=_running):
    """Return what each module imports, of the package or not, when loaded or in a function."""
    return {
        name: {found for found in imports_of(nodes_of(tree)) if found != name}
        for name, tree in trees().items()
    }


def room_of(module):
    """Return the room of a module: a folder or file of the package, or a plugin."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2] if parts[0] == "plugins" else parts[:1])


def cycle(imported):
    """Return a cycle of imports as `a -> b -> a`, or an empty string."""
    done = set()

    def visit(name, path):
        if name in path:
            return " -> ".join((*path[path.index(name) :], name))
        if name in done:
            return ""
        found = (visit(other, (*path, name)) for other in sorted(imported.get(name, ())))
        circle = next(filter(None, found), "")
        done.add(name)
        return circle

    return next(filter(None, (visit(name, ()) for name in imported)), "")


def repeated(names):
    """Return the names that occur more than once."""
    return {name for name, count in Counter(names).items() if count > 1}


def test_a_cycle_is_found_in_whatever_order_it_is_looked_for():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == "b -> c -> b"
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == ""


def test_no_modules_import_each_other_not_even_in_functions_or_for_types():
    imported = {
        name: found & set(MODULES) - ({"crawlprio.orderings"} if name in BOTH_WAYS else set())
        for name, found in graph(ast.walk).items()
        if name != "crawlprio"  # which hands names on, imported when they are used
    }
    assert cycle(imported) == ""


@pytest.mark.parametrize("name", [name for name in MODULES if "." in name])
def test_a_room_imports_only_rooms_above_it(name):
    room = room_of(name)
    if room == "__main__":
        return
    others = {room_of(found) for found in graph()[name] if found in MODULES and "." in found}
    above = ROOMS if room.startswith("plugins.") else ROOMS[: ROOMS.index(room)]
    assert others - {room} <= set(above)


@pytest.mark.parametrize("name", [name for name in MODULES if "." in name])
def test_what_decides_on_the_order_knows_no_scrapy(name):
    room = room_of(name)
    is_known = {room, name.removeprefix("crawlprio.")} & KNOWS_SCRAPY
    plugin = room.startswith("plugins.") and not is_known
    if room not in WITHOUT_SCRAPY and not (plugin and not name.endswith("_command")):
        return
    for found in graph()[name]:
        assert found.split(".")[0] not in ("scrapy", "twisted", "redis")


def test_settings_of_plugins_are_named_outside_them_only_where_it_is_known():
    names = {setting.name for section in load_all("sections") for setting in section.settings}
    found = {}
    for name, file in MODULES.items():
        if not name.startswith("crawlprio.plugins"):
            named = names.intersection(re.findall(r"\w+", file.read_text()))
            found |= {file.relative_to(PACKAGE).as_posix(): named} if named else {}
    assert found == NAMES_PLUGIN_SETTINGS


def test_no_file_name_stands_for_two_modules():
    assert repeated(file.stem for file in MODULES.values()) <= TWICE_BY_CONVENTION


def test_no_class_name_stands_for_two_classes():
    classes = (
        node.name
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name != "Command"
    )
    assert repeated(classes) == set()


def test_the_package_stays_within_its_figures():
    sources = [
        file
        for suffix in ("py", "lua", "js", "css", "html", "jinja")
        for file in PACKAGE.rglob(f"*.{suffix}")
    ]
    assert len(MODULES) <= MOST_MODULES
    assert sum(len(file.read_text().splitlines()) for file in sources) <= MOST_LINES


def test_no_class_grows_beyond_what_a_reader_can_hold():
    found = {}
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(part, _METHODS) for part in node.body)
                found[node.name] = node.end_lineno - node.lineno + 1, methods
    assert [each for each in found.items() if each[1][0] > 300 or each[1][1] > 25] == []


def test_the_root_holds_only_what_a_user_names():
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def of_scrapy():
    """Return the modules that import Scrapy or Twisted, if only in a function or for types."""
    return [
        name
        for name, found in graph(ast.walk).items()
        if {each.split(".")[0] for each in found} & {"scrapy", "twisted"}
    ]


def private_names(tree):
    """Return the private attributes that a module uses but does not define."""
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


def test_private_names_of_scrapy_are_used_in_one_module():
    found = {name: private_names(trees()[name]) - set(NOT_OF_SCRAPY) for name in of_scrapy()}
    elsewhere = {name for name, names in found.items() if names} - {"crawlprio.live.engine"}
    assert {"_slot", "_delay"} <= found["crawlprio.live.engine"], "not seen elsewhere either"
    assert elsewhere == set()


def test_the_modules_that_know_scrapy_are_found_wherever_they_are():
    rooms = {name.split(".")[1] for name in of_scrapy()}
    assert rooms >= {"addon", "live", "middlewares", "plugins", "schedulers", "spiders"}
