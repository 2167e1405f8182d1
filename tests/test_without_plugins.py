"""A copy of the package without a plugin crawls, resumes and scores, and names what it lacks."""

import os
import shutil
import subprocess
import sys
from functools import partial
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
    "manners": [f"{CRAWL} -s CRAWLPRIO_SIGNING_KEY=key.pem", "manners access.log --agent a"],
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
    "watch": [f"{CRAWL} --monitor", f"{CRAWL} --monitor 0"],
}
"""By plugin, command lines that ask for what it adds."""

MOST = int(os.environ.get("CRAWLPRIO_MISSING_PLUGINS", "1"))
"""How many lines of each are tried."""


@pytest.fixture(scope="module")
def site():
    """A site of 20 pages, each of which links to the next three."""
    pages = {f"/{n}": page(*(f"/{(n + k) % 20}" for k in (1, 2, 3))) for n in range(20)}
    with Site({**pages, "/": page("/1", "/2")}) as served:
        yield served


def run(words, folder, site, package=PACKAGE):
    """Run the program of a copy of the package in a folder."""
    program = (
        f"import crawlprio; assert crawlprio.__path__ == [{str(package)!r}]; "
        "from crawlprio.commands.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *words.format(site=f"http://{site.address}/").split()],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def crawled(site, tmp_path_factory):
    """A folder with a crawl of six pages, by the whole package."""
    folder = tmp_path_factory.mktemp("crawled")
    done = run("crawl {site} --folder job --delay 0 --pages 6", folder, site)
    assert done.returncode == 0, done.stderr
    (folder / "web.graph").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Returns a copy of the package without a plugin, the same one every time."""
    return partial(_copy, tmp_path_factory.mktemp("copies"))


def _copy(folder, plugin):
    package = folder / plugin / "crawlprio"
    if not package.exists():
        shutil.copytree(PACKAGE, package)
        shutil.rmtree(package / "plugins" / plugin)
    return package


def test_each_plugin_is_asked_for():
    assert sorted(LACKING) == PLUGINS


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_rest_crawls_resumes_and_scores_without_a_plugin(plugin, copies, site, tmp_path):
    own = partial(run, folder=tmp_path, site=site, package=copies(plugin))
    n_before = len(site.paths())
    for words in (
        "crawl {site} --folder job --delay 0 --pages 6",
        "resume job --pages 6 --delay 0",
        f"score {FULL}",
    ):
        done = own(words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    fetched = site.paths()[n_before:]
    assert len(fetched) == len(set(fetched)) == 12
    assert own("--help").returncode == 0


@pytest.mark.parametrize(
    ("plugin", "words"),
    [(plugin, words) for plugin, lines in LACKING.items() for words in lines[:MOST]],
)
def test_what_a_plugin_added_is_refused_in_one_sentence(
    plugin, words, copies, crawled, site, tmp_path
):
    folder = tmp_path / "folder"
    shutil.copytree(crawled, folder)
    n_fetches = len(site.fetches)
    done = run(words, folder, site, copies(plugin))
    lacks = f"crawlprio.plugins.{plugin}, which this copy of crawlprio lacks; install it whole."
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert lacks in done.stderr
    assert len(site.fetches) == n_fetches
    assert not any(file.is_file() for file in folder.glob("new/**/*"))
