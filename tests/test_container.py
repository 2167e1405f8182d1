"""In a container: neither the package nor the user's home can be written.

Its tests share one container, which has compiled code as far as the package had it, and in which
the rest is compiled once.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import CRAWL
from crawls import Site, page

import crawlprio

WEB = {"/": page("/1", "/2"), "/1": page("/2"), "/2": page("/")}


@dataclass
class Container:
    """A copy of the package that cannot be written, and a home that cannot be either.

    Permissions do not restrict root, unless it drops the capability to bypass them.
    """

    folder: Path
    wrapper: tuple[str, ...] = ()

    def run(self, *words, folder="work", **environment):
        own = {"HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONPATH", "TMPDIR"}
        return subprocess.run(
            [*self.wrapper, sys.executable, *words],
            cwd=self.folder / folder,
            env={
                **{name: value for name, value in os.environ.items() if name not in own},
                "PYTHONPATH": str(self.folder / "site-packages"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": str(self.folder / "home"),
                "TMPDIR": str(self.folder / "tmp"),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )

    def crawlprio(self, *words):
        return self.run("-m", "crawlprio.commands.cli", *words)

    def crawl(self):
        """Crawl `WEB` with the bundled project; return what was written to stderr."""
        with Site(WEB) as site:
            start = f"http://{site.address}/"
            line = ["-s", "DOWNLOAD_DELAY=0", "-s", "ROBOTSTXT_OBEY=False"]
            crawled = self.crawlprio("crawl", start, *line)
        assert crawled.returncode == 0, crawled.stderr
        assert sorted(site.paths()) == ["/", "/1", "/2"]
        return crawled.stderr.splitlines()


@pytest.fixture(scope="module")
def container():
    wrapper = ()
    if os.getuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("permissions do not bind root, and setpriv is not installed")
        wrapper = (setpriv, "--bounding-set=-dac_override")
    folder = Path(tempfile.mkdtemp(prefix="crawlprio-container-"))
    try:
        packages = folder / "site-packages"
        source = Path(crawlprio.__file__).parent
        # What an image was built with; the code of the frontier is left to be compiled.
        shutil.copytree(source, packages / "crawlprio")
        shutil.rmtree(packages / "crawlprio" / "frontier" / "__pycache__", ignore_errors=True)
        for path in (packages, *packages.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        for name in ("work", "tmp", "home", "locked"):
            (folder / name).mkdir()
        for name in ("home", "locked"):
            (folder / name).chmod(0o555)
        yield Container(folder, wrapper)
    finally:
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                path.chmod(path.stat().st_mode | stat.S_IRWXU)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def crawled(container):
    """What the first crawl in the container wrote to stderr."""
    return container.crawl()


@pytest.fixture(scope="module")
def simulated(container, crawled):
    """The first command in the container that compiles."""
    return container.crawlprio("simulate", "crawl.sqlite", "--ordering", "opic")


def test_a_crawl_and_a_simulation_need_only_their_own_folder(container, crawled, simulated):
    for folder in ("__import__('crawlprio').__path__[0]", "__import__('os').environ['HOME']"):
        tried = container.run("-c", f"open({folder} + '/x', 'w')")
        assert "PermissionError" in tried.stderr
    assert not any("Traceback" in line for line in crawled)
    assert simulated.returncode == 0, simulated.stderr
    assert "opic" in simulated.stdout
    said = simulated.stderr.splitlines()
    assert len([line for line in said if "set NUMBA_CACHE_DIR" in line]) == 1


def test_a_crawl_of_a_few_pages_compiles_nothing(crawled):
    assert not [line for line in crawled if "Compiling on" in line or "NUMBA_CACHE_DIR" in line]


def test_compiling_is_announced_in_the_first_command_alone(container, simulated):
    again = container.crawlprio("simulate", "crawl.sqlite", "--ordering", "opic")
    announced = [run.stderr.count("Compiling on") for run in (simulated, again)]
    assert announced == [1, 0]


def test_a_crawl_under_the_add_on_needs_only_a_temporary_folder(container):
    done = container.run(
        *("-c", CRAWL, str(container.folder / "site-packages"), "compiled"),
        folder="locked",
        # Scrapy records there which jobs run, and logs an error if it cannot.
        XDG_STATE_HOME=str(container.folder / "tmp"),
    )
    assert done.stdout.splitlines()[-1:] == ["finished 3"], done.stderr[-3000:]
