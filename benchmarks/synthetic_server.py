"""Serves the synthetic web on loopback, like the demo web, until standard input ends.

    python benchmarks/synthetic_server.py [--sites 100]

`loopback.py` starts it.
"""

from __future__ import annotations

import argparse
import os
import re
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from sys import executable
from typing import TYPE_CHECKING

from synthetic_web import SEED_PAGE, page_body, page_url

from crawlprio.demo import Answer, server, text_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = re.compile(r"http://site[0-9]+\.example/pages/([0-9]+)\.html")


class SyntheticWeb:
    """The synthetic web on a number of sites; pages are generated on request."""

    def __init__(self, n_sites: int) -> None:
        self._n_sites = n_sites
        self.seeds = [page_url(SEED_PAGE, n_sites)]
        self.hosts = [f"site{site}.example" for site in range(n_sites)]

    def __len__(self) -> int:
        """Pages that are kept: none."""
        return 0

    def answer(self, url: str) -> Answer:
        found = _PAGE.fullmatch(url)
        if found is None:
            return text_answer(404, "No such page.\n")
        headers = {"Content-Type": "text/html; charset=utf-8"}
        return Answer(200, headers, page_body(int(found[1]), self._n_sites))


@contextmanager
def serving(n_sites: int) -> Iterator[str]:
    """Serve from a child process; yield its address, `127.0.0.1:PORT`."""
    line = [executable, str(Path(__file__).resolve()), "--sites", str(n_sites)]
    with Popen(line, stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=100)
    port = server.listen(SyntheticWeb(parser.parse_args().sites), 0)
    address = f"127.0.0.1:{port}"
    server.serve(address, os.getppid())


if __name__ == "__main__":
    main()
