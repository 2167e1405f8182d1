"""pywb, in an environment of its own: it needs a version of redis-py that ours excludes."""

import fcntl
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

import pytest
from forked import run_to_end, running
from waiting import listens, until

HOME = Path(sys.prefix) / "pywb"


def programs():
    """Return the folder of pywb's programs; skip the test where they cannot be installed."""
    problem = _install()
    if problem:
        pytest.skip(problem)
    return HOME / "bin"


@cache
def _install():
    """Install pywb, once for all processes; return why it cannot be installed, if it cannot."""
    with HOME.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (HOME / "bin" / "done").exists():
            return ""
        for line in (
            [sys.executable, "-m", "venv", "--clear", str(HOME)],
            [str(HOME / "bin" / "pip"), "install", "--quiet", "pywb>=2.10,<2.11"],
        ):
            done = subprocess.run(line, capture_output=True, text=True, timeout=900, check=False)
            if done.returncode:
                return f"pywb cannot be installed: {done.stderr.strip()[-300:]}"
        (HOME / "bin" / "done").touch()
        return ""


def index_of(folder):
    """Return pywb's CDXJ index of the WARC files in a folder; None if pywb cannot be installed."""
    if _install():
        return None
    return run("cdx-indexer", "-j", "-s", *sorted(folder.glob("*.warc.gz")), folder=folder)


def run(name, *words, folder):
    """Run one of pywb's programs; return what it prints."""
    line = [programs() / name, *words]
    done = run_to_end(line, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Wayback:
    """A running pywb; collections are named by the folder of their files."""

    def __init__(self, port):
        self.port = port

    def url(self, collection, url, modifier="mp_"):
        return f"http://127.0.0.1:{self.port}/{collection}/{modifier}/{url}"

    def get(self, collection, url):
        """Return status and body as archived, without following redirects."""
        opener = build_opener(ProxyHandler({}), _Stay)
        try:
            with opener.open(self.url(collection, url, "id_"), timeout=60) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


@contextmanager
def wayback(folder, collections):
    """Serve archives by name, each from the WARC files of a folder."""
    for name, files in collections.items():
        run("wb-manager", "init", name, folder=folder)
        run("wb-manager", "add", name, *sorted(files.glob("*.warc.gz")), folder=folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [programs() / "wayback", "-b", "127.0.0.1", "-p", str(port)]
    file = folder / "wayback.log"
    with (
        file.open("wb") as log,
        running(line, folder, ends_by=signal.SIGTERM, stdout=log, stderr=log) as process,
    ):
        until(lambda: listens("127.0.0.1", port), process=process, said=file.read_text)
        yield Wayback(port)
