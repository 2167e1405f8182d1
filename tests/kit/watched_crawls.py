"""Crawls of an endless web in this process, with the live view on, and what one can ask of it."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple

from crawls import ADDON, Answer, Site, page, run_spider
from waiting import MAX_SECONDS, until

from crawlprio.plugins.watch import monitor
from crawlprio.spiders.site import SiteSpider

ADDRESS = re.compile(r"live view at http://127\.0\.0\.1:(\d+)/#token=(\S+)")


class Reply(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]


class Endless(Site):
    """A web in which page `n` of a host links to two more, and to one of the next host."""

    def __init__(self, titles=None, seconds=0.01):
        super().__init__({})
        self._titles, self._seconds = titles or {}, seconds

    def answer_to(self, fetch):
        if fetch.path == "/robots.txt":
            return Answer("User-agent: *\nDisallow: /private\n")
        number = int(re.sub(r"\D", "", fetch.path) or 0)
        if number % 5 == 4:
            return Answer("broken", 500)
        links = [f"/{2 * number + 1}", f"/{2 * number + 2}", "/private"]
        links += [
            f"http://b.test/{number}" if fetch.host == "a.test" else f"http://a.test/{number}"
        ]
        found = page(*links, title=self._titles.get(number % 8, f"Page {number}"))
        return found._replace(seconds=self._seconds)


class Client:
    """Asks a live view, as its page does.

    Parameters
    ----------
    port, token
        As the crawl told them.
    """

    def __init__(self, port=0, token=""):
        self.port, self.token = port, token

    def ask(self, method, path, body="", **headers):
        """Send a request; underscores in the names of headers are hyphens."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=MAX_SECONDS)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body or None, sent)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        kind = response.headers.get("Content-Type", "")
        answer = json.loads(text) if "json" in kind else text
        return Reply(response.status, answer, response.headers)

    def post(self, path, **asked):
        """Ask the crawl for something, as the page does."""
        headers = {"X_Crawlprio_Token": self.token, "Content_Type": "application/json"}
        return self.ask("POST", path, json.dumps(asked), **headers)

    def state(self):
        """Return the next document that the crawl sends."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=MAX_SECONDS)
        try:
            connection.request("GET", "/events")
            response = connection.getresponse()
            for line in response:
                if line.startswith(b"data: "):
                    found = json.loads(line.removeprefix(b"data: "))
                    return found
        finally:
            connection.close()
        raise EOFError

    def figure(self, name):
        return dict(self.state()["figures"])[name]


class Watched(Client):
    """A crawl that runs in the background, until it is stopped or `with` ends."""

    def __init__(self, site, spider=SiteSpider, **settings):
        super().__init__()
        self.run = None
        every = {
            **ADDON,
            "CRAWLPRIO_MONITOR": 0,
            "CLOSESPIDER_TIMEOUT": 0,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "ROBOTSTXT_OBEY": True,
            "ORDERING": "opic",
            "CRAWLPRIO_HEURISTICS": False,
            **settings,
        }
        arguments = {"seeds": "http://a.test/", "follow": "web"} if spider is SiteSpider else {}

        def crawl():
            self.run = run_spider(spider, every, site=site, timeout=3600.0, **arguments)

        self._thread = threading.Thread(target=crawl, daemon=True)

    def __enter__(self):
        monitor.SECONDS, monitor.SHARE = 0.2, 0.05
        told = _Told()
        logger = logging.getLogger("crawlprio")
        logger.addHandler(told)
        self._thread.start()
        try:
            until(lambda: told.address is not None)
        finally:
            logger.removeHandler(told)
        assert told.address is not None
        self.port, self.token = int(told.address[0]), told.address[1]
        return self

    def __exit__(self, *_):
        if self._thread.is_alive():
            self.post("/stop")
        self.join()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def join(self):
        """Wait for the end of the crawl, and return its outcome."""
        self._thread.join(MAX_SECONDS)
        assert self.run is not None
        return self.run


class _Told(logging.Handler):
    """Waits for the line that names the live view."""

    address: tuple[str, str] | None = None

    def emit(self, record):
        found = ADDRESS.search(record.getMessage())
        if found:
            self.address = found[1], found[2]
