"""Signals are obeyed while code is compiled, in whatever process, and leave nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from crawls import ROOT, Site, page
from forked import running
from shared_crawls import is_alive
from waiting import until

from crawlprio.live import compiling
from crawlprio.orderings import make_ordering
from crawlprio.simulator.timed import crawl_order
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph
from crawlprio.web.html_splitter import _is_plainly_harmless

CRAWL = ("crawl", "--demo", "--folder", "job")
CRAWLS = {"one process": CRAWL, "workers": (*CRAWL, "--workers", "2")}
COMPILES = "compile_asked"
"""In the command line of the process that compiles for a crawl."""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package without compiled code beside it."""
    folder = tmp_path_factory.mktemp("package")
    kept = shutil.ignore_patterns("*.nbi", "*.nbc")
    shutil.copytree(Path(ROOT, "crawlprio"), folder / "crawlprio", ignore=kept)
    return folder


@pytest.fixture
def bare(package, tmp_path):
    """An environment in which no code is compiled yet."""
    return {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}


def python(folder, *line, **how):
    """Run Python, whose output can be read together, until it is killed at the end of the block."""
    files = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return running([sys.executable, *line], folder, **files | how)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_that_compiles(bare, tmp_path, sent):
    with python(tmp_path, "-m", "crawlprio", "compile", env=bare) as process:
        for line in process.stdout:
            if "Compiling on first use" in line:
                break
        process.send_signal(sent)
        said = process.communicate(timeout=120)[0]
    assert process.returncode in (128 + sent, -sent)
    assert said == ("" if process.returncode < 0 else "Interrupted.\n")
    assert not list(Path(bare["NUMBA_CACHE_DIR"]).rglob("*.tmp*"))


def is_caught(process: subprocess.Popen, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)
    return bool(caught >> (number - 1) & 1)


def children_of(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.sampled(3)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("moment", ["modules are imported", "the demo web is made"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("crawl", CRAWLS)
def test_a_signal_ends_a_crawl_and_its_server_before_the_store_is_begun(
    bare, tmp_path, crawl, sent, moment
):
    servers: list[int] = []
    with python(tmp_path, "-m", "crawlprio", *CRAWLS[crawl], env=bare) as process:
        until(lambda: is_caught(process, signal.SIGTERM))
        if moment == "the demo web is made":
            n_forked = 2 if crawl == "workers" else 0
            until(lambda: len(children_of(process.pid)) > n_forked)
            servers = children_of(process.pid)
        process.send_signal(sent)
        said = process.communicate(timeout=120)[0]
    if said == "Interrupted.\n":
        # For a moment, as the event loop starts, SIGTERM goes to Twisted's own handler.
        assert process.returncode in {128 + sent, 130}
        assert not list(tmp_path.glob("job/*"))
    else:  # on a busy machine, the crawl has begun meanwhile
        assert "interrupted" in said.lower()
        assert "Traceback" not in said
    for server in servers:
        until(lambda server=server: not is_alive(server))


def compiling_for(pid: int) -> list[int]:
    """Return the processes that compile for a crawl."""
    found = []
    for child in children_of(pid):
        with suppress(OSError):  # it has ended
            if COMPILES in Path(f"/proc/{child}/cmdline").read_text():
                found.append(child)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_crawl_is_ended_while_it_compiles_and_takes_the_compiler_with_it(bare, tmp_path, sent):
    """Under pagerank, which compiles from the first page."""
    with Site({"/": page(*(f"/{n}" for n in range(1, 2_000)))}) as site:
        line = ["crawl", f"http://{site.address}/", "--folder", "job", "--ordering", "pagerank"]
        silent = {"env": bare, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with python(tmp_path, "-m", "crawlprio", *line, "--delay", "0.5", **silent) as process:
            until(lambda: compiling_for(process.pid))
            (compiling,) = compiling_for(process.pid)
            until(lambda: "llvmlite" in Path(f"/proc/{compiling}/maps").read_text())
            assert os.getpriority(os.PRIO_PROCESS, compiling) == 19
            process.send_signal(sent)
            process.wait(timeout=120)
    assert process.returncode == (-sent if sent == signal.SIGKILL else 0)
    until(lambda: not is_alive(compiling))


def test_a_crawl_that_goes_on_in_compiled_code_keeps_the_order_of_the_simulator(tmp_path):
    """It is stopped 20 pages after the switch; its store is the web of the simulated crawl."""
    links = {n: (2 * n, 2 * n + 1, n // 3, n * n % 211) for n in range(1, 5_000)}
    web = {f"/{n}": page(*(f"/{m}" for m in to if 0 < m < 5_000)) for n, to in links.items()}
    with Site({"/": page("/1", "/7"), **web}) as site:
        line = ["crawl", f"http://{site.address}/", "--folder", "job", "--ordering", "pagerank"]
        line += ["--delay", "0.2", "-s", "CONCURRENT_REQUESTS=1", "-s", "LOG_LEVEL=DEBUG"]
        with python(tmp_path, "-m", "crawlprio", *line) as process:
            for said in process.stdout:
                assert "goes on in Python" not in said
                if "goes on in compiled code" in said:
                    break
            n_then = len(site.paths())
            until(lambda: len(site.paths()) > n_then + 20)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
    with Store.open(tmp_path / "job" / "crawl.sqlite") as store:
        order = [visit.page for visit in store.visits()]
    graph = read_graph(tmp_path / "job" / "crawl.sqlite")
    expected = crawl_order(graph, [0], make_ordering("pagerank"), budget=len(order))
    assert order == expected.tolist()


def reaches_compiled_code(command: list[str], folder: Path) -> bool:
    """Whether a crawl goes on in compiled code before it ends; it is killed then."""
    with python(folder, *command, "-s", "LOG_LEVEL=DEBUG") as crawl:
        return any("goes on in compiled code" in line for line in crawl.stdout)


@pytest.mark.parametrize("error", [TypeError, OSError, ImportError])
def test_code_without_a_source_file_is_compiled_and_not_marked(monkeypatch, error):
    """As of a notebook."""
    compiled = []

    def fail(_):
        raise error

    monkeypatch.setattr(compiling.inspect, "getfile", fail)
    monkeypatch.setattr(compiling, "_compile", compiled.append)
    monkeypatch.setattr(compiling.compiled, "folder", lambda: compiling._PACKAGE)
    asked = ("opic", {"seed_cash": 7})
    compiling._compile_and_mark(asked)
    assert compiled == [asked]
    assert not compiling._is_cached(asked)


WITHOUT_A_PROCESS = """
from crawlprio.live import compiling
from crawlprio.commands.cli import main
del compiling.subprocess
main()
"""


def test_a_crawl_begins_no_process_where_the_cache_has_its_code(tmp_path, monkeypatch):
    """Under pagerank, which wants compiled code from the first page."""
    asked = ("pagerank", {})
    path, content = compiling._mark(asked)
    path.unlink(missing_ok=True)
    assert not compiling._is_cached(asked)
    script = "from crawlprio.live.compiling import compile_asked; compile_asked(('pagerank', {}))"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        assert process.wait(timeout=240) == 0
    assert path.read_text() == content
    with Site({"/": page(*(f"/{n}" for n in range(1, 2_000)))}) as site:
        line = ["crawl", f"http://{site.address}/", "--folder", "job", "--ordering", "pagerank"]
        assert reaches_compiled_code(["-c", WITHOUT_A_PROCESS, *line], tmp_path)
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert not compiling._is_cached(asked)


def test_a_crawl_of_few_large_pages_does_not_stay_in_python(tmp_path):
    """They have formatting elements that are not closed for certain; 60 of them are 6 MB."""
    heavy = 300 * "<b><i>bold</i></b><p>text " + 100_000 * "x"
    links = page(*(f"/{n}" for n in range(1, 1_000)))
    answer = links._replace(body=f"{links.body}{heavy}")
    assert not _is_plainly_harmless(answer.body.encode())
    with Site({f"/{n}": answer for n in ("", *range(1, 1_000))}) as site:
        line = ["crawl", f"http://{site.address}/", "--folder", "job"]
        command = ["-m", "crawlprio", *line, "--delay", "0.1"]
        assert reaches_compiled_code(command, tmp_path)
        assert len(site.paths()) < 490


@pytest.mark.parametrize("command", ["crawl", "score"])
def test_ctrl_c_while_modules_are_imported_leaves_no_traceback(tmp_path, command):
    slow = tmp_path / "scrapy"
    slow.mkdir()
    (slow / "__init__.py").write_text(
        "import time\nprint('importing', flush=True)\nwhile True:\n    time.sleep(0.01)\n"
    )
    how = {
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))},
        "stdin": subprocess.PIPE,
        "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    with python(tmp_path, "-m", "crawlprio", command, "x.sqlite", **how) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
    assert said == "Interrupted.\n"
