"""What the live view costs a crawl: without it, with it, and with a page that reads its events.

    python benchmarks/monitor.py [--pages N] [--rounds N]

The crawls have no network, so that a page costs as little as it can, and the share of the live view
is as large as it can be. The page is read by this process, as a browser would. It does not show
what a browser costs the machine.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from dataclasses import replace

from harness import Crawl, options, our_crawl, run, show

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


def main() -> None:
    args = options(__doc__, n_pages=20_000, n_rounds=5).parse_args()
    plain = our_crawl(args.pages, N_SITES, "without")
    figures: dict[str, list] = {"without": [], "unwatched": [], "watched": []}
    counts: list[int] = []

    def crawl(label: str, n_pages: int) -> None:
        port, is_over = free_port(), threading.Event()
        settings = {} if label == "without" else {"CRAWLPRIO_MONITOR": port}
        one: Crawl = replace(
            plain, label=label, n_pages=n_pages, settings={**plain.settings, **settings}
        )
        reader = threading.Thread(target=read_events, args=(port, is_over, counts))
        if label == "watched":
            counts.append(0)
            reader.start()
        figures[label].append(run(one))
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
    show(figures)
    print(f"documents read in each round: {', '.join(map(str, counts))}")


if __name__ == "__main__":
    main()
