"""What the live view costs a crawl: without it, with it, and with a page that reads its events.

    python benchmarks/monitor.py [--pages N] [--rounds N]

The crawls have no network, so that a page costs as little as it can, and the share of the live view
is as large as it can be. The page is read by this process, as a browser would. It does not show
what a browser costs the machine. Whole crawls in turn differ by more than the live view costs;
therefore `monitor_cost.py` also times its functions in one watched crawl a round.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import statistics
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from harness import Crawl, options, our_crawl, run, show

from crawlprio.settings import EXTENSIONS

N_SITES = 1_000


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def read_events(port: int, is_over: threading.Event, counts: list[int]) -> None:
    """Read the events of a crawl as soon as it serves them, and count them."""
    while not is_over.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/events")
            for line in connection.getresponse():
                counts[-1] += line.startswith(b"data: ")
        connection.close()
        time.sleep(0.05)


def shares_of(seconds: dict[str, float]) -> dict[str, float]:
    """Return the share of each part, and of all, in what the crawl takes without them."""
    whole = seconds.pop("crawl")
    seconds["all"] = sum(seconds.values())
    return {part: each / (whole - seconds["all"]) for part, each in seconds.items()}


def main() -> None:
    args = options(__doc__, n_pages=20_000, n_rounds=5).parse_args()
    plain = our_crawl(args.pages, N_SITES, "without")
    figures: dict[str, list] = {"without": [], "unwatched": [], "watched": []}
    counts: list[int] = []
    shares: list[dict[str, float]] = []

    def crawl(label: str, n_pages: int, costs: Path | None = None) -> None:
        port, is_over = free_port(), threading.Event()
        settings: dict[str, object] = {} if label == "without" else {"CRAWLPRIO_MONITOR": port}
        if costs is not None:
            extensions = {**EXTENSIONS, "monitor_cost.Costs": -1}
            settings |= {"EXTENSIONS": extensions, "BENCHMARK_COSTS": str(costs)}
        one: Crawl = replace(
            plain, label=label, n_pages=n_pages, settings={**plain.settings, **settings}
        )
        reader = threading.Thread(target=read_events, args=(port, is_over, counts))
        if label == "watched":
            counts.append(0)
            reader.start()
        found = run(one)
        if costs is None:
            figures[label].append(found)
        is_over.set()
        if label == "watched":
            reader.join()

    for label in figures:
        crawl(label, 100)  # not counted
    figures = {label: [] for label in figures}
    counts.clear()
    for _ in range(args.rounds):
        for label in figures:
            crawl(label, args.pages)
        with tempfile.TemporaryDirectory() as folder:
            crawl("watched", args.pages, path := Path(folder, "costs.json"))
            shares.append(shares_of(json.loads(path.read_text())))
    show(figures)
    print(f"documents read by each reader: {', '.join(map(str, counts))}")
    print("share of the crawl's processor time, round by round and in the middle:")
    for part in shares[0]:
        each = [share[part] for share in shares]
        print(f"{part:<12}{' '.join(f'{one:.2%}' for one in each)}  {statistics.median(each):.2%}")


if __name__ == "__main__":
    main()
