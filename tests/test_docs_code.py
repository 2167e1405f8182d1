"""The code of README and docs: every block runs, or is listed here with the reason."""

import argparse
import ast
import json
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from crawls import ROOT
from doc_blocks import blocks_of, commands_of, documents, write_store
from forked import run_forked
from scrapy.settings import Settings

from crawlprio import Runs, read_graph
from crawlprio.commands.cli import COMMANDS, command_of, main
from crawlprio.graph.npz import write_npz

NOT_RUN = {
    "CONTRIBUTING.md": "sets up a clone",
    "docs/index.md": "tables of contents",
    "docs/plugins.md": "a distribution; tests/test_installed_plugins.py installs and uses it",
    "docs/security.md": "parts of a spider; tests/test_private_addresses.py has whole ones",
}
"""Pages with blocks that are not run, and why."""

PAGES = [
    name
    for name in (str(page.relative_to(ROOT)) for page in sorted(documents()))
    if name not in NOT_RUN and blocks_of(ROOT / name, name)
]

ONLY_PARSED = {
    "crawl": "needs a network",
    "resume": "resumes what `crawl` began",
    "update": "needs a network",
    "certify": "needs a network",
    "replay": "needs a recording",
    "frontier": "needs a Redis server",
    "value": "needs examples to train with",
}
"""Commands of `crawlprio` whose options are checked, and which then do not run, and why."""

OTHER_PROGRAMS = {
    ".": "activates an environment",
    "python3": "makes an environment",
    ".venv/bin/pip": "installs",
    "make": "sets up a clone; `make demo` and `make test` have tests of their own",
    "pip": "installs; tests/test_bare_venv.py does it",
    "sqlite3": "may not be installed",
    "openssl": "makes a key; tests/test_signing.py has one",
    "python": "needs that key",
    "scrapy": "needs a network",
    ".venv/bin/scrapy": "needs a network",
}
"""Programs that are not run, and why."""

SMALL_WEB = ("-s", "CRAWLPRIO_DEMO_PAGES=1000", "-s", "CRAWLPRIO_DEMO_SITES=20")
"""Instead of the 20,000 pages of the demo web, which take seconds to make."""

NOT_CODE = {
    "At least 71% of the importance of": "what a crawl prints",
    "At least 42% of the importance of": "what a crawl prints",
    "At least 100% of the importance of": "what a crawl prints",
    "At least 79% and at most 86%": "what certify prints",
    "-- where the response of each page is": "needs an archive; tests/test_archive.py has one",
    "SELECT url, value FROM page_values": "needs values",
    "Seeds that may be fetched:": "what a plan prints",
    "repeats fetched ": "what a crawl prints",
    "http://a.test/b1 was fetched.": "what explain prints",
    "30 4 * * * ": "a line of a crontab",
}
"""Blocks that are not run, by how they begin, and why."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with what the pages take for granted."""
    write_store(tmp_path / "crawl.sqlite", keeps_text=True)
    write_npz(read_graph(tmp_path / "crawl.sqlite"), tmp_path / "graph.npz")
    for crawl in ("example", "monday", "friday", "a", "b"):
        (tmp_path / crawl).mkdir()
        shutil.copy(tmp_path / "crawl.sqlite", tmp_path / crawl)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(name, folder):
    names = {"__name__": "__main__"}
    n_run = 0
    for block in blocks_of(ROOT / name, name):
        print(f"{block.page}:{block.line}")
        n_run += _ran(block, names)
    assert n_run > 0


def _ran(block, names):
    """Run a block; return False if it holds no code."""
    if block.text.startswith(tuple(NOT_CODE)):
        return False
    if block.language == "python":
        code = "\n" * (block.line - 1) + block.text
        exec(compile(code, block.page, "exec"), names)
    elif block.language == "sql":
        with closing(sqlite3.connect("crawl.sqlite")) as db:
            assert db.execute(block.text).fetchall()
    elif block.language == "json":
        json.loads(block.text)
    else:
        assert block.language in ("", "sh"), f"{block.page}:{block.line}: {block.language}"
        for command in commands_of(block.text):
            _run_command(command)
    return True


def _run_command(line):
    program, *words = shlex.split(line)
    if program != "crawlprio":
        assert program in OTHER_PROGRAMS, f"{line}: run {program}, or say why not"
        return
    if "--demo" in words:
        done = run_forked("crawlprio", [*words, *SMALL_WEB], Path.cwd())
        assert (done.returncode, done.stderr) == (0, ""), line
        return
    if words[0] in ONLY_PARSED or "--value" in words:  # a model needs a store with texts
        _parse(line, words)
        return
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0, line


def _parse(line, words):
    """Check that a command exists and has the options of a line."""
    name, *words = words
    assert name in COMMANDS
    command = command_of(name)
    command.settings = Settings(command.default_settings)
    parser = argparse.ArgumentParser(conflict_handler="resolve", exit_on_error=False)
    command.add_options(parser)
    _, rest = parser.parse_known_args(words)
    assert [word for word in rest if word.startswith("-")] == [], line


def test_the_cells_of_the_notebook_run_and_show_tables_and_plots(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")  # a notebook's kernel need not have crawlprio on it
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text("utf-8"))
    names = {"__name__": "__main__"}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            *statements, last = ast.parse("".join(cell["source"])).body
            assert isinstance(last, ast.Expr)
            exec(compile(ast.Module(statements, []), cell["id"], "exec"), names)
            shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), names))
    runs = [value for value in shown if isinstance(value, Runs)]
    assert [run.ordering for run in runs[-1]] == ["NewestFirst", "opic", "random"]
    assert all("image/svg" in each._repr_html_() for each in runs)
    tables = [value for value in shown if hasattr(value, "columns")]
    assert [len(table) for table in tables] == [5, 5]


@pytest.mark.parametrize("line", ["crawlprio crawl URL --no-such-option", "wget URL"])
def test_a_command_that_does_not_exist_is_noticed(line):
    with pytest.raises(AssertionError):
        _run_command(line)
