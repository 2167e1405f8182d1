"""Runs commands and scripts as forks of one process that has imported what all of them import.

Imports take most of the time of a short crawl: 2.3 seconds of processor time, against 0.3.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import monotonic, sleep

PROGRAMS = {
    "scrapy": ("scrapy", "scrapy.cmdline.execute"),
    "crawlprio": ("crawlprio.commands.cli", "crawlprio.commands.cli.main"),
}
"""Programs by name: the module to run as one, and the function to call."""

# Not the reactor: each crawl installs its own.
_SCRIPT = """
import atexit, faulthandler, gc, json, os, runpy, signal, sys, threading
import matplotlib.backends.backend_agg, matplotlib.figure, matplotlib.ticker
import numba, numba.np.arraymath, rich.console, rich.progress, rich.table, scipy.stats, uvloop
import crawlprio.middlewares, crawlprio.schedulers, crawlprio.spiders.site, crawlprio.commands.cli
import scrapy.commands.crawl, scrapy.core.downloader.handlers.http11
from crawlprio.graph import compiled
from crawlprio.live.compiling import compile_crawl
from crawlprio.orderings import COMPARED, ORDERINGS, make_ordering
from crawlprio.show.simulation_results import compile_kernels
from crawlprio.web.scope import registered_domain
from scrapy.settings import default_settings
from scrapy.utils.misc import load_object

for kind in ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS"):
    for component in getattr(default_settings, f"{kind}_BASE"):
        load_object(component)
assert "twisted.internet.reactor" not in sys.modules
compile_crawl(make_ordering("sibling-sampling"))
compile_kernels(ORDERINGS[name] for name in COMPARED)
# A crawl begins in plain Python, and loads numba when it needs it.
compiled._numba = None
for one in gc.get_objects():
    if type(one) is compiled.Compiled and one.is_plain:
        one._dispatcher = None
registered_domain("www.example.com")  # reads the list of public suffixes
gc.freeze()
for line in sys.stdin:
    told = json.loads(line)
    if isinstance(told, int):
        pid, status = os.waitpid(told, os.WNOHANG)
        print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)
        continue
    function, line, folder, environment, *files = told
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    for number, file in enumerate((os.devnull, *files)):
        os.dup2(os.open(file, os.O_RDWR | os.O_APPEND), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable()  # a crash leaves a traceback on stderr, which would be empty
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.orig_argv = [sys.executable, *line]  # with which it starts others like itself
    sys.argv = [line[1].partition(".")[0], *line[2:]] if function else line
    sys.path.insert(0, "" if function else os.path.dirname(line[0]))
    try:
        if function:
            sys.exit(load_object(function)())
        runpy.run_path(line[0], run_name="__main__")
        sys.exit()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        # Taking the interpreter apart would copy all of its memory: up to a second.
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code or 0)
"""

_lock = Lock()


@cache
def _parent():
    """Return the process to fork; it ends with this one, which closes its input."""
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,
    )


def _ask(told):
    """Return the answer of the process to fork."""
    with _lock:
        parent = _parent()
        assert parent.poll() is None, "the process to fork has ended"
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps(told) + "\n")
        return json.loads(parent.stdout.readline())


class Forked:
    """A running command of one of `PROGRAMS`, or a Python script, with what one does to a `Popen`.

    Parameters
    ----------
    stdout, stderr
        Files that its output is appended to.
    """

    def __init__(self, program, words, folder, *, stdout=os.devnull, stderr=None, environment=None):
        for file in (stdout, stderr or stdout):
            Path(file).touch()
        module, function = PROGRAMS.get(str(program), (None, None))
        every = {**os.environ, "NO_COLOR": "1", **(environment or {})}
        line = [*(["-m", module] if module else [str(program)]), *map(str, words)]
        files = (str(Path(stdout).resolve()), str(Path(stderr or stdout).resolve()))
        self.args = line
        self.returncode = None
        self.pid = _ask([function, line, str(Path(folder).resolve()), every, *files])

    def poll(self):
        if self.returncode is None:
            self.returncode = _ask(self.pid)
        return self.returncode

    def wait(self, timeout=600.0):
        end = monotonic() + timeout
        while self.poll() is None:
            if monotonic() > end:
                raise subprocess.TimeoutExpired(self.args, timeout)
            sleep(0.005)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


@contextmanager
def running(line, folder=None, *, ends_by=signal.SIGKILL, **how):
    """Run a program as a process of its own, which a signal ends at last."""
    with subprocess.Popen(line, cwd=folder, text=True, **how) as process:
        try:
            yield process
        finally:
            process.send_signal(ends_by)


def run_to_end(line, folder=None, *, env=None, check=False):
    """Run a program as a process of its own to its end; return its status and what it printed."""
    return subprocess.run(
        line, cwd=folder, env=env, capture_output=True, text=True, timeout=600.0, check=check
    )


def run_forked(program, words, folder, *, timeout=600.0, environment=None, check=False):
    """Run a command of one of `PROGRAMS`, or a Python script, in a folder, to its end.

    A new Python runs a command that is given another PYTHONPATH. With `check`, it must succeed.
    """
    if "PYTHONPATH" in (environment or {}):
        every = {**os.environ, "NO_COLOR": "1", **environment}
        line = [sys.executable, "-m", PROGRAMS[program][0], *words]
        return run_to_end(line, folder, env=every, check=check)
    with TemporaryDirectory() as temporary:
        files = {name: Path(temporary, name) for name in ("stdout", "stderr")}
        running = Forked(program, words, folder, environment=environment, **files)
        try:
            status = running.wait(timeout)
        finally:
            running.kill()
        said = {name: file.read_text() for name, file in files.items()}
        assert not check or status == 0, said["stderr"]
        return subprocess.CompletedProcess(running.args, status, **said)
