"""A copy of the package without a plugin crawls, resumes and scores, and names what it lacks."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from crawls import Site, page

import crawlprio

pytestmark = pytest.mark.slow

PACKAGE = Path(crawlprio.__file__).parent
PLUGINS = sorted(file.parent.name for file in PACKAGE.glob("plugins/*/__init__.py"))

CRAWL = "crawl {site} --folder new --delay 0 --pages 3"
FULL = "job/crawl.sqlite"

LACKING = {
    "archive": [f"{CRAWL} --warc new/warc", f"{CRAWL} --warc new/warc --requisites all"],
    "render": [
        f"{CRAWL} --render auto",
        f"{CRAWL} --browser chromium",
        f"{CRAWL} -s CRAWLPRIO_RENDER=always",
    ],
    "signing": [
        f"{CRAWL} -s CRAWLPRIO_SIGNING_KEY=key.pem",
        f"{CRAWL} -s CRAWLPRIO_SIGNATURE_AGENT=https://bot.test",
    ],
    "papers": [
        f"{CRAWL} --ordering fica",
        f"{CRAWL} --ordering combined",
        f"score {FULL} --importance harmonic",
        f"score {FULL} --importance weighted-pagerank",
        f"simulate {FULL} --ordering fica",
        "simulate web.graph --ordering breadth-first",
    ],
    "shared": [
        f"{CRAWL} --workers 2",
        f"{CRAWL} -s CRAWLPRIO_FRONTIER=redis",
        "frontier show site",
        "links collect site collected.sqlite",
    ],
    "value": [
        f"{CRAWL} --ordering value",
        f"{CRAWL} --value words:garden",
        f"{CRAWL} --novelty exact",
        f"{CRAWL} --keep-text",
        f"simulate {FULL} --ordering value-and-importance",
        f"simulate {FULL} --value words:garden",
        f"texts export {FULL} texts.jsonl",
        "value train good other -o model.json",
    ],
    "update": [f"{CRAWL} -s CRAWLPRIO_UPDATE=changed", "update job", "changes job"],
    "watch": [f"{CRAWL} --monitor", f"{CRAWL} --monitor 0"],
}
"""By plugin, command lines that ask for what it adds."""


@pytest.fixture(scope="module")
def site():
    """A site of 20 pages, each of which links to the next three."""
    pages = {f"/{n}": page(*(f"/{(n + k) % 20}" for k in (1, 2, 3))) for n in range(20)}
    with Site({**pages, "/": page("/1", "/2")}) as served:
        yield served


PROGRAM = """
import json, os, sys
import numba, numba.np.arraymath, rich.progress, rich.table, scipy.stats, uvloop
import scrapy.cmdline, scrapy.commands.crawl, scrapy.core.downloader.handlers.http11

numba.njit("int64(int64)")(lambda number: number)  # loads what compiled code needs

def run(words):
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = ["crawlprio", *words.split()]
    sys.exit(main())

for asked in sys.stdin:
    package, folder, lines = json.loads(asked)
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            print("[]", flush=True)
        continue
    os.chdir(folder)
    sys.path.insert(0, os.path.dirname(package))
    import crawlprio
    assert crawlprio.__path__ == [package]
    import crawlprio.commands.score, crawlprio.middlewares, crawlprio.schedulers
    import crawlprio.spiders.site
    from crawlprio.commands.cli import main

    outcomes = [(run(words), open("said").read()) for words in lines]
    os.remove("said")
    print(json.dumps(outcomes), flush=True)
    break
"""
"""Runs lines of a copy of the package as forks: imports take longer than all that they do."""


@pytest.fixture(scope="module")
def program():
    line = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as running:
        yield running
        running.stdin.close()


def lacking(folder, plugin):
    """Return a copy of the package without a plugin."""
    package = folder / "without" / "crawlprio"
    shutil.copytree(PACKAGE, package)
    shutil.rmtree(package / "plugins" / plugin)
    return package


def test_each_plugin_is_asked_for():
    assert sorted(LACKING) == PLUGINS


@pytest.mark.parametrize("plugin", PLUGINS)
def test_without_a_plugin_the_rest_works_and_what_it_added_is_refused_in_one_sentence(
    plugin, program, site, tmp_path
):
    package, folder = lacking(tmp_path, plugin), tmp_path / "folder"
    folder.mkdir()
    (folder / "web.graph").write_bytes(b"")
    n_before = len(site.fetches)
    lines = (
        "crawl {site} --folder job --delay 0 --pages 6",
        "resume job --pages 6 --delay 0",
        f"score {FULL}",
        "--help",
    )
    asked = [line.format(site=f"http://{site.address}/") for line in (*lines, *LACKING[plugin])]
    program.stdin.write(json.dumps([str(package), str(folder), asked]) + "\n")
    program.stdin.flush()
    outcomes = json.loads(program.stdout.readline())
    assert len(outcomes) == len(asked)
    for status, said in outcomes[: len(lines)]:
        assert (status, "Traceback" in said) == (0, False), said
    lacks = f"crawlprio.plugins.{plugin}, which this copy of crawlprio lacks; install it whole."
    for status, said in outcomes[len(lines) :]:
        assert (status, said.count("\n"), lacks in said) == (2, 1, True), said
    fetched = [fetch.path for fetch in site.fetches[n_before:] if fetch.path != "/robots.txt"]
    assert len(fetched) == len(set(fetched)) == 12, "by what it does, and not what it refuses"
    assert not any(file.is_file() for file in folder.glob("new/**/*"))
