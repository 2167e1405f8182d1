"""A server on loopback that sends any bytes at any pace, for crawls of hostile sites."""

import socket
import threading

from crawls import PROJECT, Answer, run_spider, times_out

from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

BUNDLED = {
    **PROJECT,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "ORDERING": "breadth-first",
    "ROBOTSTXT_OBEY": False,
    "CLOSESPIDER_PAGECOUNT": 2_000,
    "CLOSESPIDER_TIMEOUT": 500,
}
"""The settings of the bundled project, without delays."""


def crawl(site, settings=None, *, silent=(), **arguments):
    """Crawl a hostile web with the `site` spider, by default from http://a.test/.

    Fetches of URLs with an end in `silent`, which may never be answered, time out soon.
    """
    if "seeds" not in arguments:
        arguments["seeds"] = "http://a.test/"
    stock = BUNDLED["DOWNLOADER_MIDDLEWARES"]
    middlewares = {"DOWNLOADER_MIDDLEWARES": {**stock, times_out(*silent): 50}}
    return run_spider(
        SiteSpider, {**BUNDLED, **middlewares, **(settings or {})}, site=site, **arguments
    )


def refused(run):
    """Return what a crawl refused or did not read, and how often."""
    return {
        name.partition("/")[2]: count
        for name, count in sorted(run.stats.items())
        if name.startswith(("crawlprio/refused/", "crawlprio/cut/"))
    }


def html(body, **headers):
    """Return a page with this body."""
    return Answer(body, headers={"Content-Type": "text/html", **headers})


def raw(body, *headers, status="200 OK"):
    """Return a complete response as bytes; it is HTML unless the headers say otherwise."""
    lines = [f"HTTP/1.1 {status}", "Connection: close", *headers]
    if not any(line.lower().startswith("content-type:") for line in lines):
        lines.append("Content-Type: text/html")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def urls_in(store):
    """Return the URLs of all pages in a store, and of all links that were not followed."""
    with Store.open(store, readonly=True) as opened:
        pages = opened.load_pages()
        outside = [url for visit in opened.visits() for url, _ in visit.outside]
        return [*pages.urls(range(len(pages))), *outside]


class RawSite:
    """An HTTP server whose responses need not be HTTP, with a thread per connection.

    Parameters
    ----------
    answer
        Returns what to send before the connection is closed, given host and path: bytes, or
        pieces of them; None means no response.
    """

    def __init__(self, answer):
        self._answer = answer
        self._closed = threading.Event()
        self.requests = []

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._closed.set()
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            try:
                request = b""
                while b"\r\n\r\n" not in request:
                    received = connection.recv(65536)
                    if not received:
                        return
                    request += received
                url = request.split(b" ", 2)[1].decode("latin-1")
                host, _, path = url.partition("://")[2].partition("/")
                self.requests.append((host, f"/{path}"))
                answer = self._answer(host, f"/{path}")
                if answer is None:
                    self._closed.wait(30)
                    return
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    if self._closed.is_set():
                        return
                    connection.sendall(piece)
            except OSError:
                return


TITLES = {
    1: "<script>window.hacked = 1</script>",
    2: "\"'><img src=x onerror='window.hacked = 2'>",
    3: "\u202egnp.exe \u2067\u200f",
    4: "</script><script>window.hacked = 4</script>",
    5: "M" * 1_000_000,
    6: "{{ 7 * 7 }} {% raw %} &lt;b&gt;",
    7: "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
}
"""Titles of pages that try to break out of a page which shows them, by page."""
