"""Pages per second over HTTP on loopback: stock Scrapy and crawlprio, in turn.

    python benchmarks/loopback.py [--web synthetic|demo] [--pages 2500] [--rounds 3]

`synthetic`, the default, is the web of `engine.py` on 100 sites: only the network is different.
`demo` is the demo web (20,000 pages, 200 sites). It has redirects, errors and slow pages, and fewer
links per page, so Scrapy has less to do. A separate process serves the web. Both contenders fetch
through the same download handler, which sends the requests for all hosts to that process, with 16
in flight, no delay and no robots.txt.

What it does not show: TLS, DNS, connections to many hosts, bandwidth. The server shares the
machine's cores with the crawl.
"""

from __future__ import annotations

import http.client
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness import Crawl, common_settings, options, run_in_turn, show
from synthetic_server import serving
from synthetic_web import SEED_PAGE, Clock, page_url

from crawlprio.demo.handler import LoopbackHandler
from crawlprio.demo.server import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.http import Response


N_SITES = 100


class TimedHandler(LoopbackHandler):
    """The handler of virtual crawls, with a clock that counts its responses."""

    async def download_request(self, request: Request) -> Response:
        response = await super().download_request(request)
        Clock.tick()
        return response


def serving_rate(address: str, url: str, n_pages: int = 500) -> float:
    """Return the pages per second that the server alone delivers to one plain client."""
    client = http.client.HTTPConnection(address)
    started = time.perf_counter()
    for _ in range(n_pages):
        client.request("GET", url)
        client.getresponse().read()
    client.close()
    return n_pages / (time.perf_counter() - started)


@contextmanager
def served(web: str) -> Iterator[tuple[str, list[str]]]:
    """Serve a web; yield the server's address and the seeds."""
    if web == "demo":
        with LoopbackServer() as server:
            yield server.address, server.seeds
    else:
        with serving(N_SITES) as address:
            yield address, [page_url(SEED_PAGE, N_SITES)]


def main() -> None:
    parser = options(__doc__, n_pages=2500)
    parser.add_argument("--web", choices=["synthetic", "demo"], default="synthetic")
    given = parser.parse_args()
    with served(given.web) as (address, seeds):
        print(
            f"{given.pages:,} pages of the {given.web} web, in turn, {given.rounds} rounds; one "
            f"plain client fetches a page {serving_rate(address, seeds[0]):,.0f} times a second"
        )
        settings: dict[str, Any] = {
            **common_settings(0),
            "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), "loopback.TimedHandler"),
            "CRAWLPRIO_LOOPBACK": address,
        }
        arguments = {"seeds": ",".join(seeds)}
        stock = Crawl("stock", "synthetic_web.FollowSpider", given.pages, settings, arguments)
        ours = Crawl(
            "crawlprio",
            "site",
            given.pages,
            settings,
            {**arguments, "follow": "web"},
            is_bundled=True,
        )
        show(run_in_turn([stock, ours], given.rounds))


if __name__ == "__main__":
    main()
