"""Standing in a folder of somebody else runs no code from it and writes to no file outside it."""

import ast
import os
import pickle
import shutil
import sys
from pathlib import Path

import numba
import pytest
from crawls import Site, page
from forked import run_forked, run_to_end

import crawlprio

pytestmark = pytest.mark.slow

PACKAGE = Path(crawlprio.__file__).parent

OPTIONAL = (
    *("bcrypt", "bottleneck", "brotlicffi", "chardet", "cloudpickle", "colorama", "coverage"),
    *("cython", "h2", "msvcrt", "numexpr", "org", "pydantic", "pytz", "rnc2rng", "scikits"),
    *("simplejson", "sksparse", "socks", "uarray", "win32api", "winreg", "_winapi", "nt"),
)
"""Modules that packages import if they are there; most installations have none of them."""

WALK = "certify job --walks 5 --delay 0"

COMMANDS = (
    "receipt job",
    "score job/crawl.sqlite",
    "explain job",
    "audit job/crawl.sqlite",
    "simulate job/crawl.sqlite --ordering breadth-first",
    "links export job/crawl.sqlite links.csv",
    WALK,
    "resume job --pages 2 --delay 0",
)


def run(words, folder, **environment):
    """Run the program as its users do, in a new process."""
    return run_to_end(
        [Path(sys.executable).with_name("crawlprio"), *words.split()],
        folder,
        env={**os.environ, "NO_COLOR": "1", **environment},
    )


def fork(words, folder):
    """Run the program where its imports are not judged."""
    return run_forked("crawlprio", words.split(), folder)


@pytest.fixture(scope="module")
def site():
    """A site of 40 pages, each of which links to the next three."""
    pages = {f"/{n}": page(*(f"/{(n + k) % 40}" for k in (1, 2, 3))) for n in range(40)}
    with Site({**pages, "/": page("/1", "/2")}) as served:
        yield served


@pytest.fixture(scope="module")
def crawled(site, tmp_path_factory):
    """A folder with a crawl that has an archive."""
    folder = tmp_path_factory.mktemp("crawled")
    given = "--folder job --warc job/warc --delay 0 --pages 10"
    done = fork(f"crawl http://{site.address}/ {given}", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(crawled, tmp_path):
    """The same, in a folder of its own below another."""
    shutil.copytree(crawled, tmp_path / "shared" / "mine")
    return tmp_path / "shared" / "mine"


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_modules_of_the_working_folder_or_of_one_above_it(folder, command):
    for place in (folder, folder.parent):
        (place / "scrapy.cfg").write_text("[settings]\ndefault = planted_settings\n")
        for name in (*OPTIONAL, "planted_settings"):
            (place / f"{name}.py").write_text(
                f"open({str(folder / 'ran')!r}, 'a').write({name!r})\n"
            )
    done = run(command, folder)
    assert (done.returncode, (folder / "ran").exists()) == (0, False), done.stderr


def test_a_server_of_its_own_runs_no_modules_of_the_working_folder(folder):
    """Python puts the working folder first where it is told to run a module."""
    for name in ("numpy", "crawlprio", "argparse"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write({name!r})\n")
    done = run("crawl --demo --pages 5 --delay 0", folder)
    assert (done.returncode, (folder / "ran").exists()) == (0, False), done.stderr


ORDERING = """
import helper
from crawlprio import Ordering

class Mine(Ordering):
    def observe(self, visit):
        return visit.targets
"""


def test_a_class_that_the_user_names_is_found_in_the_working_folder_and_no_other(folder):
    (folder.parent / "scrapy.cfg").write_text("[settings]\ndefault = s\n")
    (folder.parent / "above.py").write_text(ORDERING)
    (folder / "own.py").write_text(ORDERING)
    (folder / "helper.py").touch()
    (folder / "coverage.py").write_text("raise SystemExit('ran')\n")
    command = "simulate job/crawl.sqlite --ordering"
    assert run(f"{command} own.Mine", folder).returncode == 0
    refused = run(f"{command} above.Mine", folder)
    assert (refused.returncode, refused.stderr) == (
        2,
        "ORDERING is 'above.Mine', which cannot be imported (No module named 'above'); check the "
        "import path.\n",
    )


def test_a_pipeline_that_the_command_line_names_is_found_in_the_working_folder(folder, site):
    (folder / "own.py").write_text(
        "class Count:\n    def process_item(self, item):\n"
        "        open('counted', 'a').write('.')\n        return item\n"
    )
    setting = 'ITEM_PIPELINES={"own.Count":9}'
    done = run(
        f"crawl http://{site.address}/ --folder two --delay 0 --pages 3 -s {setting}", folder
    )
    assert (done.returncode, (folder / "counted").exists()) == (0, True), done.stderr
    done = run(f"crawl http://{site.address}/ --folder 3 -s {setting.replace('own', 'no')}", folder)
    assert (done.returncode, done.stderr) == (
        2,
        "ITEM_PIPELINES is 'no.Count', which cannot be imported (No module named 'no'); check the "
        "import path.\n",
    )


def test_scrapy_in_a_project_of_the_user_finds_its_modules(site, tmp_path):
    """What Scrapy itself promises stays as it is."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = mine.settings\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "settings.py").write_text(
        "ADDONS = {'crawlprio.Addon': 500}\nSPIDER_MODULES = ['mine.spiders']\n"
        "ORDERING = 'mine.orderings.Mine'\nITEM_PIPELINES = {'mine.pipes.Pipe': 9}\n"
    )
    (tmp_path / "mine" / "orderings.py").write_text(ORDERING.replace("import helper\n", ""))
    (tmp_path / "mine" / "pipes.py").write_text(
        "class Pipe:\n    def process_item(self, item):\n        return item\n"
    )
    (tmp_path / "mine" / "spiders.py").write_text(
        f"import scrapy\nclass S(scrapy.Spider):\n    name = 's'\n"
        f"    start_urls = ['http://{site.address}/']\n"
        "    def parse(self, response):\n        yield {'url': response.url}\n"
    )
    (tmp_path / "mine" / "deep").mkdir()
    done = run_to_end(
        [Path(sys.executable).with_name("scrapy"), "crawl", "s", "-o", "-:jsonl", "-L", "ERROR"],
        tmp_path / "mine" / "deep",
    )
    assert done.returncode == 0, done.stderr
    assert f'{{"url": "http://{site.address}/"}}' in done.stdout


class _Planted:
    def __init__(self, file):
        self._file = file

    def __reduce__(self):
        return os.mkdir, (str(self._file),)


def test_numba_reads_no_settings_from_the_working_folder(folder, tmp_path):
    """A file there could name the folder from which compiled code is unpickled."""
    pytest.importorskip("yaml")
    own, ran = tmp_path / "cache", folder / "ran"
    environment = {"NUMBA_CACHE_DIR": str(own)}
    command = "score job/crawl.sqlite"
    assert run(command, folder, **environment).returncode == 0
    planted = folder / "planted"
    shutil.copytree(own, planted)
    indices = list(planted.rglob("*.nbi"))
    assert indices
    for index in indices:
        payload = pickle.dumps(_Planted(ran))
        index.write_bytes(pickle.dumps(numba.__version__) + payload)
    (folder / ".numba_config.yaml").write_text(f"cache_dir: {planted}\n")
    done = run(command, folder, **environment)
    assert (done.returncode, done.stderr, ran.exists()) == (0, "", False)
    del environment["NUMBA_CACHE_DIR"]
    done = run(command, folder)
    assert (done.returncode, done.stderr, ran.exists()) == (0, "", False)


def test_no_file_outside_a_folder_is_written_through_a_link(folder, tmp_path):
    """The names that commands write, of which some were known before, as links to one file."""
    victim = tmp_path / "victim"
    victim.write_text("precious\n" * 100_000)
    before = victim.read_bytes()
    archive = next((folder / "job" / "warc").glob("*.warc.gz"))
    archive.unlink()
    taken = [archive, folder / "job" / "warc" / "index.cdxj", folder / "job" / "receipt.json"]
    taken += [folder / "job" / "crawl.walks.jsonl", folder / "named.json", folder / "named.csv"]
    for pid in range(os.getpid(), os.getpid() + 200):
        taken += [
            folder / "job" / f".{name}.{pid}" for name in ("receipt.json", "crawl.walks.jsonl")
        ]
    for name in taken:
        name.unlink(missing_ok=True)
        name.symlink_to(victim)
    for command in (
        *COMMANDS,
        "score job/crawl.sqlite --json named.json",
        "score job/crawl.sqlite --csv named.csv",
        "links export job/crawl.sqlite named.csv",
        "links export job/crawl.sqlite links.csv --json named.json",
    ):
        done = fork(command, folder)
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
        assert victim.read_bytes() == before, command
    assert not archive.exists() or archive.is_symlink()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal", "-lock"])
def test_sqlite_writes_through_no_link(folder, tmp_path, suffix):
    victim, linked = tmp_path / "victim", folder / "job" / f"crawl.sqlite{suffix}"
    victim.write_bytes(linked.read_bytes() if not suffix else b"precious\n" * 1000)
    before = victim.read_bytes()
    linked.unlink(missing_ok=True)
    linked.symlink_to(victim)
    done = fork("resume job --delay 0 --pages 2", folder)
    assert victim.read_bytes() == before
    assert done.returncode in (1, 2)
    assert "a symbolic link" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "name",
    ["crawl.sqlite", "crawl.sqlite-wal", "crawl.sqlite-lock", "crawl.walks.jsonl", "receipt.json"],
)
def test_a_pipe_in_the_place_of_a_file_keeps_no_command_waiting(folder, name):
    pipe = folder / "job" / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    for command in ("receipt job --check", "receipt job", "resume job --pages 2 --delay 0", WALK):
        done = fork(command, folder)
        assert "Traceback" not in done.stderr, done.stderr
        assert len([line for line in done.stderr.splitlines() if "pipe" in line]) <= 1


MAY_OPEN = {
    "safe_files/__init__.py": "it is the one place",
    "__main__.py": "the null device",
    "show/tables.py": "the null device",
    "live/compiling.py": "a temporary folder of its own",
    "graph/compiled.py": "the folder of the compiler",
    "store/files.py": "an empty file, exclusively; a lock, for reading only",
}


def test_files_are_written_in_one_place():
    writing = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            modes = [
                str(each.value)
                for each in (*node.args, *(of.value for of in node.keywords if of.arg == "mode"))
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
            opens = called == "open" or (called.endswith(".open") and called != "os.open")
            writes = opens and any(
                set(mode) <= set("rwxab+t") and set(mode) & set("wxa+") for mode in modes
            )
            other = (".write_text", ".write_bytes", ".touch")
            exact = ("os.open", "os.truncate", "FileIO", "tempfile.mkstemp", "shutil.copyfile")
            if writes or called.endswith(other) or called in exact:
                writing.append(name)
    assert sorted(set(writing)) == sorted(MAY_OPEN)
