"""In a container: neither the package nor the user's home can be written."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
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

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {"HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONPATH", "TMPDIR"}
        return subprocess.run(
            [*self.wrapper, sys.executable, *words],
            cwd=self.work,
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
            timeout=300,
            check=False,
        )

    def crawlprio(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "crawlprio.commands.cli", *words)


@pytest.fixture
def container() -> Iterator[Container]:
    wrapper: tuple[str, ...] = ()
    if os.getuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("permissions do not bind root, and setpriv is not installed")
        wrapper = (setpriv, "--bounding-set=-dac_override")
    folder = Path(tempfile.mkdtemp(prefix="crawlprio-container-"))
    try:
        packages = folder / "site-packages"
        source = Path(crawlprio.__file__).parent
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, packages / "crawlprio", ignore=without)
        for path in (packages, *packages.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        for name in ("work", "tmp", "home"):
            (folder / name).mkdir()
        (folder / "home").chmod(0o555)
        yield Container(folder, wrapper)
    finally:
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                path.chmod(path.stat().st_mode | stat.S_IRWXU)
        shutil.rmtree(folder)


def test_a_crawl_and_a_simulation_need_only_their_own_folder(container: Container) -> None:
    for folder in ("__import__('crawlprio').__path__[0]", "__import__('os').environ['HOME']"):
        tried = container.run("-c", f"open({folder} + '/x', 'w')")
        assert "PermissionError" in tried.stderr
    with Site(WEB) as site:
        start = f"http://{site.address}/"
        line = ["-s", "DOWNLOAD_DELAY=0", "-s", "ROBOTSTXT_OBEY=False"]
        crawled = container.crawlprio("crawl", start, *line)
    assert crawled.returncode == 0, crawled.stderr
    assert "Traceback" not in crawled.stderr
    assert "set NUMBA_CACHE_DIR" in crawled.stderr
    assert sorted(site.paths()) == ["/", "/1", "/2"]
    simulated = container.crawlprio("simulate", "crawl.sqlite", "--ordering", "opic")
    assert simulated.returncode == 0, simulated.stderr
    assert "Traceback" not in simulated.stderr
    assert "opic" in simulated.stdout
