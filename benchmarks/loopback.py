"""Pages per second over HTTP on loopback: Scrapy as it comes, and crawlprio, in turn.

    python benchmarks/loopback.py [--pages 2500] [--rounds 3]

The demo web (20,000 pages, 200 sites, redirects, errors and slow pages included) is served by one
process of its own. Both contenders fetch through the same download handler, which sends requests
for all hosts to it; 16 in flight, no delay, robots.txt not asked for.

What it does not show: TLS, DNS, connections to many hosts, bandwidth. The server shares the
machine's cores with the crawl.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from harness import Crawl, common_settings, options, run_in_turn, show
from madeup_web import Clock

from crawlprio.demo.handler import LoopbackHandler
from crawlprio.demo.process import LoopbackServer

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response


class TimedHandler(LoopbackHandler):
    """The handler of virtual crawls, with a clock that counts its answers."""

    async def download_request(self, request: Request) -> Response:
        response = await super().download_request(request)
        Clock.tick()
        return response


def serving_rate(server: LoopbackServer, n_pages: int = 500) -> float:
    """Return the pages per second that the server alone gives one plain client."""
    import http.client

    client = http.client.HTTPConnection("127.0.0.1", server.port)
    started = time.perf_counter()
    for _ in range(n_pages):
        client.request("GET", server.seeds[0])
        client.getresponse().read()
    client.close()
    return n_pages / (time.perf_counter() - started)


def main() -> None:
    given = options(__doc__, n_pages=2500).parse_args()
    with LoopbackServer() as server:
        print(
            f"{given.pages:,} of {server.n_pages:,} pages on {len(server.hosts)} sites, in turn, "
            f"{given.rounds} rounds; one plain client fetches the largest page "
            f"{serving_rate(server):,.0f} times a second"
        )
        settings: dict[str, Any] = {
            **common_settings(0),
            "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), "loopback.TimedHandler"),
            "CRAWLPRIO_LOOPBACK": server.address,
        }
        seeds = {"seeds": ",".join(server.seeds)}
        stock = Crawl("stock", "madeup_web.FollowSpider", given.pages, settings, seeds)
        ours = Crawl(
            "crawlprio", "site", given.pages, settings, {**seeds, "follow": "web"}, is_bundled=True
        )
        show(run_in_turn([stock, ours], given.rounds))


if __name__ == "__main__":
    main()
