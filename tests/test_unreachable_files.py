"""Files and folders that may not be entered: one sentence, exit 2, nothing written."""

import os
import shutil
import subprocess
import sys

import pytest
from crawls import Site, page
from forked import run_forked, run_to_end

import crawlprio as library
from crawlprio.errors import CrawlprioError, GraphError, StoreError
from crawlprio.store.graph_files import read_graph

READERS = {
    "receipt": ("receipt", "@"),
    "receipt --check": ("receipt", "@", "--check"),
    "certify": ("certify", "@"),
    "explain": ("explain", "@"),
    "score": ("score", "@"),
    "audit": ("audit", "@"),
    "simulate": ("simulate", "@"),
    "links": ("links", "export", "@", "links.csv"),
    "items": ("items", "export", "@", "items.jsonl"),
    "texts": ("texts", "export", "@", "texts.jsonl"),
    "replay": ("replay", "@"),
    "resume": ("resume", "@"),
}
"""Each command that reads a store, which `@` stands for."""


def crawlprio(*words, folder):
    return run_forked("crawlprio", words, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked")
    with Site({"/": page("/1"), "/1": page()}) as site:
        line = ("crawl", f"http://{site.address}/", "--delay", "0", "--folder", "job")
        assert crawlprio(*line, folder=folder).returncode == 0
    (folder / "loop").symlink_to("loop")
    (folder / "file").write_text("in the way")
    (folder / "job").chmod(0)
    yield folder
    (folder / "job").chmod(0o700)


def run(folder, words, path):
    """Run a command as somebody who has the rights of files only, as root has not."""
    line = [sys.executable, "-m", "crawlprio", *(path if word == "@" else word for word in words)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root enters every folder, and there is no setpriv")
        line = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *line]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)


PATHS = {
    "a folder that may not be entered": ("job/crawl.sqlite", "Permission denied"),
    "links in a circle": ("loop/crawl.sqlite", "Too many levels of symbolic links"),
    "a name that is too long": ("n" * 300, "File name too long"),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", PATHS)
def test_a_command_says_in_one_sentence_why_its_store_cannot_be_reached(folder, command, kind):
    path, reason = PATHS[kind]
    if command == "resume" and kind.startswith("a folder"):
        path = "job"
    before = sorted(os.listdir(folder))
    done = run(folder, READERS[command], path)
    assert (done.returncode, done.stdout) == (2, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith((path, f"{folder}/{path}"))
    assert said.endswith(f": {reason}; check the file and its folder.")
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("command", ["receipt", "score", "simulate", "texts"])
def test_a_file_in_the_place_of_a_folder_has_no_store(folder, command):
    done = run(folder, READERS[command], "file/crawl.sqlite")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["--json", "--csv", "--plot"])
@pytest.mark.parametrize("path", ["job/out", "loop/out", "n" * 300])
def test_an_output_that_cannot_be_reached_is_named_with_its_option(folder, tmp_path, option, path):
    (tmp_path / "links.csv").write_text("source,target\nhttp://a/,http://b/\n")
    suffix = {"--json": ".json", "--csv": ".csv", "--plot": ".png"}[option]
    done = run(folder, ("score", str(tmp_path / "links.csv"), option, "@"), path + suffix)
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"{option} {path}{suffix} cannot be written")


def test_the_library_raises_its_own_errors_for_names_that_no_file_can_have(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name in ("a\0b", str(tmp_path / "loop"), "n" * 300):
        with pytest.raises(StoreError):
            library.read(name).pages.arrow()
        with pytest.raises(GraphError):
            read_graph(name)
        with pytest.raises(CrawlprioError):
            library.read(name)


@pytest.mark.parametrize("command", ["texts", "items"])
def test_an_export_of_a_store_without_any_writes_nothing(tmp_path, command):
    with Site({"/": page("/1"), "/1": page()}) as site:
        line = ("crawl", f"http://{site.address}/", "--delay", "0", "--folder", "job")
        assert crawlprio(*line, folder=tmp_path).returncode == 0
    done = crawlprio(command, "export", "job/crawl.sqlite", "out.jsonl", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"job/crawl.sqlite has no {command}; a crawl keeps them with ")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_simulation_of_a_missing_graph_compiles_nothing(tmp_path):
    code = (
        "import sys\nfrom crawlprio.commands.cli import main\n"
        "try:\n    main(['simulate', 'nofile.npz'])\n"
        "except SystemExit as end:\n    print(end.code, 'numba' in sys.modules)\n"
    )
    done = run_to_end([sys.executable, "-c", code], tmp_path)
    assert done.stdout == "2 False\n"
