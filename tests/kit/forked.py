"""Runs commands as forks of one process that has imported what all of them import.

Imports take most of the time of a short crawl: 0.3 instead of 1.3 seconds of processor time for one
that refuses its settings.
"""

import json
import os
import select
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

PROGRAMS = {
    "scrapy": ("scrapy", "scrapy.cmdline.execute"),
    "crawlprio": ("crawlprio.commands.cli", "crawlprio.commands.cli.main"),
}
"""Programs by name: the module to run as one, and the function to call."""

# Neither numba nor the reactor: whether a command loads these is its own business.
_SCRIPT = """
import faulthandler, json, os, sys
import crawlprio.middlewares, crawlprio.schedulers, crawlprio.spiders.site, crawlprio.commands.cli
import scrapy.commands.crawl, scrapy.core.downloader.handlers.http11
from scrapy.settings import default_settings
from scrapy.utils.misc import load_object

for kind in ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS"):
    for component in getattr(default_settings, f"{kind}_BASE"):
        load_object(component)
unwanted = {"numba", "twisted.internet.reactor"} & set(sys.modules)
assert not unwanted, unwanted
sys.path.insert(0, "")
for line in sys.stdin:
    program, words, folder, environment, *files = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, file in enumerate((os.devnull, *files)):
            os.dup2(os.open(file, os.O_RDWR), number)
        faulthandler.enable()  # a crash leaves a traceback on stderr, which would be empty
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [program, *words]
        sys.exit(load_object(program)())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
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


def run_forked(program, words, folder, *, timeout=300.0, environment=None):
    """Run a command of one of `PROGRAMS` in a folder, as a process of its own, to its end.

    A new Python runs it if it is given another PYTHONPATH.
    """
    module, function = PROGRAMS[program]
    every = {**os.environ, "NO_COLOR": "1", **(environment or {})}
    if "PYTHONPATH" in (environment or {}):
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=folder,
            env=every,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    with TemporaryDirectory() as temporary, _lock:
        files = [Path(temporary, name) for name in ("stdout", "stderr")]
        for file in files:
            file.touch()
        asked = (function, list(map(str, words)), str(folder), every, *map(str, files))
        parent = _parent()
        assert parent.poll() is None, "the process to fork has ended"
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps(asked) + "\n")
        if not select.select([parent.stdout], [], [], timeout)[0]:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.wait()
            _parent.cache_clear()
            raise subprocess.TimeoutExpired([program, *words], timeout)
        status = int(parent.stdout.readline())
        return subprocess.CompletedProcess(words, status, *(file.read_text() for file in files))
