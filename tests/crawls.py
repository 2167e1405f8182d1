"""Runs real crawls of the demo web in a child process, and reads what the server and the store say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

ONE_AT_A_TIME: dict[str, object] = {
    "CONCURRENT_REQUESTS": 1,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "RETRY_ENABLED": False,
}


@dataclass
class Crawl:
    """How a crawl ended, and what the server saw of it."""

    folder: Path
    exit_status: int
    stdout: str
    stderr: str

    @property
    def store(self) -> Path:
        return self.folder / "crawl.sqlite"

    def requests(self) -> list[dict[str, Any]]:
        """What the server was asked, in the order in which the requests arrived."""
        lines = (self.folder / "server.jsonl").read_text().splitlines()
        return sorted((json.loads(line) for line in lines), key=lambda fetch: fetch["start"])

    def urls(self) -> list[str]:
        return [fetch["url"] for fetch in self.requests()]


def scrapy(
    arguments: Sequence[str], folder: Path, *, timeout: float = 120.0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the scrapy command in `folder`, which knows the bundled project."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = crawlprio.settings\n")
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def options(settings: Mapping[str, object]) -> list[str]:
    """The command line of some settings."""
    line = []
    for name, value in settings.items():
        text = json.dumps(value) if isinstance(value, dict) else str(value)
        line += ["-s", f"{name}={text}"]
    return line


def crawl_demo_web(
    folder: Path,
    settings: Mapping[str, object],
    *,
    pages: int = 300,
    sites: int = 8,
    seed: int = 1,
    arguments: Sequence[str] = (),
    timeout: float = 120.0,
) -> Crawl:
    """Crawl a demo web with the bundled project; the store and the server's log are in `folder`."""
    done = scrapy(
        [
            "crawl",
            "site",
            *arguments,
            *options(
                {
                    "CRAWLPRIO_DEMO_PAGES": pages,
                    "CRAWLPRIO_DEMO_SITES": sites,
                    "CRAWLPRIO_DEMO_SEED": seed,
                    "CRAWLPRIO_SERVER_LOG": folder / "server.jsonl",
                    **settings,
                }
            ),
        ],
        folder,
        timeout=timeout,
    )
    return Crawl(folder, done.returncode, done.stdout, done.stderr)
