"""Crawls of real pages behind nginx by one process, and by one with N workers, in turn.

    python benchmarks/workers.py FOLDER... [--pages 1500] [--workers 0 1 2] [--rounds 2]

Each FOLDER of HTML is a site on its own loopback address. Printed are pages per second, the
processor time of a page in all processes, and that in the process with the frontier: what remains
for it bounds how many workers it can feed. What it does not show: slow servers, and delays, where
workers gain nothing. nginx takes a share of the machine.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "kit"))

from nginx_sites import NGINX, Server, serve

TICKS = os.sysconf("SC_CLK_TCK")


def spent(process: int) -> float:
    """Return the processor time of a process so far, without its children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def crawl(server: Server, folder: Path, n_workers: int, n_pages: int) -> tuple[float, float, float]:
    """Crawl; return pages per second, and ms of the processor per page: of all, of the first."""
    command = [
        *(sys.executable, "-m", "crawlprio", "crawl", *server.seeds),
        *("--folder", str(folder), "--follow", "site", "--delay", "0", "--pages", str(n_pages)),
        *("-s", "ROBOTSTXT_OBEY=False", "-s", "CRAWLPRIO_PRIVATE_NETWORKS=127.0.0.0/8"),
        *("-s", "CRAWLPRIO_PRINT=False"),
        *(("--workers", str(n_workers)) if n_workers else ()),
    ]
    process = subprocess.Popen(command)
    first = 0.0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        first = max(first, spent(process.pid))
        sleep(0.05)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    with closing(sqlite3.connect(folder / "crawl.sqlite")) as db:
        query = "SELECT count(*), max(fetched_at) - min(fetched_at) FROM visits WHERE page >= 0"
        n_fetched, seconds = db.execute(query).fetchone()
    in_all = usage.ru_utime + usage.ru_stime
    return n_fetched / seconds, 1000 * in_all / n_fetched, 1000 * first / n_fetched


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folders", nargs="+", type=Path)
    arguments.add_argument("--pages", type=int, default=1500)
    arguments.add_argument("--workers", nargs="+", type=int, default=[0, 1, 2])
    arguments.add_argument("--rounds", type=int, default=2)
    options = arguments.parse_args()
    if NGINX is None:
        print("nginx is not installed.")
        return
    with tempfile.TemporaryDirectory() as name:
        roots = dict(enumerate(options.folders))
        sites = {f"127.0.88.{number + 1}": (root, ()) for number, root in roots.items()}
        with serve(Path(name, "nginx"), sites) as server:
            for turn in range(options.rounds):
                for n_workers in options.workers:
                    folder = Path(name, f"{turn}-{n_workers}")
                    began = monotonic()
                    rate, in_all, first = crawl(server, folder, n_workers, options.pages)
                    print(
                        f"workers {n_workers}: {rate:6.1f} pages/s, {in_all:5.2f} ms a page in "
                        f"all, {first:5.2f} in the first process; {monotonic() - began:.1f} s "
                        "with the start",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
