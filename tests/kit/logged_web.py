"""A small web on loopback addresses, whose server knows nothing of crawlers and notes each request.

Page n is on site n modulo the number of sites. The pages form a tree with further links, so that
each is reached from page 0. Each site forbids one page, which others link to. `others` are further
files, the same on each site: their types and contents by path. `redirects` has targets by URL.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from typing import Any, NamedTuple

FORBIDDEN = "/private/secret"


class Seen(NamedTuple):
    """A request: its site and path, and the times at which it came and was answered."""

    site: str
    path: str
    came: float
    answered: float


class LoggedWeb:
    """The web; its pages are served inside `with`."""

    def __init__(self, n_pages: int, n_sites: int, *, latency: float = 0.01) -> None:
        self.n_pages, self.n_sites, self.latency = n_pages, n_sites, latency
        self.seen: list[Seen] = []
        self.others: dict[str, tuple[str, bytes]] = {}
        self.redirects: dict[str, str] = {}
        self.robots, self.robots_status = b"User-agent: *\nDisallow: /private/\n", 200
        self._servers: list[ThreadingHTTPServer] = []
        self.port = 0

    def __enter__(self) -> LoggedWeb:
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                came = monotonic()
                site = str(self.connection.getsockname()[0])
                status, kind, body = web.answer(site, self.path)
                sleep(web.latency)
                answered = monotonic()
                web.seen.append(Seen(site, self.path, came, answered))
                target = web.redirects.get(f"http://{site}:{web.port}{self.path}")
                self.send_response(302 if target else status)
                if target:
                    self.send_header("Location", target)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Say nothing of clients that were killed."""

        for number in range(self.n_sites):
            server = Server((self.host(number), self.port), Handler)
            self.port = server.server_address[1]
            self._servers.append(server)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def host(self, number: int) -> str:
        return f"127.0.77.{number + 1}"

    def url(self, page: int) -> str:
        return f"http://{self.host(page % self.n_sites)}:{self.port}{self.path(page)}"

    def path(self, page: int) -> str:
        return f"/page-{page}"

    def links(self, page: int) -> list[str]:
        rng = random.Random(page)
        near = [2 * page + 1, 2 * page + 2, (page + self.n_sites) % self.n_pages]
        found = dict.fromkeys([*near, *(rng.randrange(self.n_pages) for _ in range(3))])
        urls = [self.url(each) for each in found if each < self.n_pages and each != page]
        if page < self.n_sites:
            urls.append(f"http://{self.host(page)}:{self.port}{FORBIDDEN}")
        return urls

    def pairs(self) -> set[tuple[str, str]]:
        return {(self.url(page), to) for page in range(self.n_pages) for to in self.links(page)}

    def answer(self, site: str, path: str) -> tuple[int, str, bytes]:
        if path == "/robots.txt":
            return self.robots_status, "text/plain", self.robots
        if path in self.others:
            kind, body = self.others[path]
            return 200, kind, body
        page = int(path.rpartition("-")[2]) if path.startswith("/page-") else -1
        if not (0 <= page < self.n_pages and site == self.host(page % self.n_sites)):
            return 404, "text/html", b"no such page"
        links = "".join(f'<a href="{url}">to</a>' for url in self.links(page))
        html = f"<html><title>Page {page}</title><body>words of page {page} {links}</body></html>"
        return 200, "text/html", html.encode()

    def urls(self) -> list[str]:
        """Return the URLs that were requested, in order, robots.txt left out."""
        seen = sorted(self.seen, key=lambda each: each.came)
        urls = [f"http://{each.site}:{self.port}{each.path}" for each in seen]
        return [url for url in urls if not url.endswith("/robots.txt")]

    def fetches(self) -> Counter[str]:
        """Return how often each page was requested, by URL, robots.txt left out."""
        return Counter(self.urls())

    def starts(self) -> list[float]:
        """Return the seconds between two requests that followed each other on a site."""
        return self._gaps(lambda before: before.came)

    def rests(self) -> list[float]:
        """Return the seconds from each answer to the next request on its site."""
        return self._gaps(lambda before: before.answered)

    def page_rests(self) -> list[float]:
        """Return the seconds from each answer to the next page on its site, robots.txt left out."""
        pages = [each for each in self.seen if each.path != "/robots.txt"]
        return self._gaps(lambda before: before.answered, pages)

    def _gaps(self, since: Any, chosen: list[Seen] | None = None) -> list[float]:
        of_site: defaultdict[str, list[Seen]] = defaultdict(list)
        for each in sorted(chosen or self.seen, key=lambda seen: seen.came):
            of_site[each.site].append(each)
        return [
            after.came - since(before)
            for seen in of_site.values()
            for before, after in itertools.pairwise(seen)
        ]
