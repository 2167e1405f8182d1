"""Runs real crawls: of the demo web in a child process, of small servers in this one."""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import math
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, NamedTuple

from forked import Forked, run_forked, run_to_end
from scrapy import signals
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.downloadermiddlewares import cookies
from scrapy.settings import Settings
from scrapy.utils.reactor import install_reactor
from tldextract import TLDExtract
from twisted.internet.defer import Deferred
from twisted.web import http
from waiting import until

from crawlprio.commands.crawl import bundled_settings

# Otherwise the first crawl of a process looks for the public suffix list in the network, and warns.
cookies._split_domain = TLDExtract(suffix_list_urls=(), include_psl_private_domains=True)

ROOT = Path(__file__).parents[2]

ONE_AT_A_TIME = {
    "CONCURRENT_REQUESTS": 1,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "RETRY_ENABLED": False,
}


@dataclass
class Crawl:
    """The outcome of a crawl, and what the server saw of it."""

    folder: Path
    exit_status: int
    stdout: str
    stderr: str

    @property
    def store(self):
        return self.folder / "crawl.sqlite"

    def requests(self):
        """The requests that the server got, in order of arrival."""
        return server_log(self.folder / "server.jsonl")

    def urls(self):
        return fetched_urls(self.folder / "server.jsonl")


def server_log(file):
    """Return the requests in a log of the loopback server, in order of arrival."""
    lines = file.read_text().splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda fetch: fetch["start"])


def fetched_urls(file):
    """Return the URLs in a log of the loopback server, in order of arrival."""
    return [fetch["url"] for fetch in server_log(file)]


def scrapy(arguments, folder, *, timeout=300.0, wrapper=None, **environment):
    """Run a scrapy command in `folder`, with the bundled project."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = crawlprio.settings\n")
    if wrapper is None:
        return run_forked("scrapy", arguments, folder, timeout=timeout, environment=environment)
    return run_to_end(
        wrapper([sys.executable, "-m", "scrapy", *arguments]),
        folder,
        env={**os.environ, "NO_COLOR": "1", **environment},
    )


def options(settings):
    """Return the command line options for some settings."""
    line = []
    for name, value in settings.items():
        text = json.dumps(value) if isinstance(value, dict) else str(value)
        line += ["-s", f"{name}={text}"]
    return line


def crawl_demo_web(folder, settings, *, pages=300, sites=8, seed=1, arguments=(), timeout=300.0):
    """Crawl a demo web with the bundled project; store and server log go to `folder`."""
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


class Answer(NamedTuple):
    """The response of a `Site` to one request."""

    body: str = ""
    status: int = 200
    """0 closes the connection without an answer."""
    headers: Mapping[str, str] = {}
    seconds: float = 0.0
    """How long the response takes; infinity means that it never comes."""
    after: Deferred[None] | None = None
    """What the response waits for instead."""


class Fetch(NamedTuple):
    """One request that a `Site` received; times are from `time.monotonic`."""

    host: str
    path: str
    start: float
    end: float
    method: str
    body: bytes
    connection: int
    headers: Mapping[str, str] = {}
    """Headers, by lower-case name."""


def page(*links, title=""):
    """Return an HTML page with these links, in order; the anchor text of each is its URL."""
    anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links)
    return Answer(f"<title>{title}</title>{anchors}", headers={"Content-Type": "text/html"})


class Site:
    """An HTTP server on loopback: any host name through `LoopbackHandler`, or 127.0.0.1 itself.

    It runs in the thread of the crawls, so that an answer counts as ended before the client has it.

    Parameters
    ----------
    pages
        What is answered to a path, to `host/path` or to a request that a function is called for;
        404 to all else.
    """

    def __init__(self, pages, answer=lambda host, path: None):
        self.fetches = []
        self.n_connections = 0
        self._pages = pages
        self._answer = answer

    def __enter__(self):
        def listen():
            reactor = _reactor()
            return reactor.listenTCP(0, _SiteFactory(self), backlog=500, interface="127.0.0.1")

        self._port = _in_loop(_called(listen), 60.0)
        self.address = f"127.0.0.1:{self._port.getHost().port}"
        return self

    def __exit__(self, *_):
        _in_loop(_called(lambda: self._port.stopListening()), 60.0)

    def answer(self, host, path):
        found = self._answer(host, path)
        if found is None:
            found = self._pages.get(f"{host}{path}") or self._pages.get(path)
        return found or Answer("nothing here", 404)

    def answer_to(self, fetch):
        """Answer a request by more than its host and path; its `end` is not known yet."""
        return self.answer(fetch.host, fetch.path)

    def paths(self, *, robots=False):
        """The requested paths, in order of arrival, without robots.txt unless asked for."""
        return [
            fetch.path
            for fetch in sorted(self.fetches, key=lambda fetch: fetch.start)
            if robots or fetch.path != "/robots.txt"
        ]


class Together:
    """Holds the answers of a `Site` until so many requests are in flight, and a moment longer.

    So the most that are in flight at once does not depend on how fast a machine is: fewer would
    wait for `MAX_WAIT`, and more would come in the moment.
    """

    MAX_WAIT, MOMENT = 60.0, 0.2

    def __init__(self, n_together):
        self.most = self._n_now = 0
        self._n_together = n_together
        self._is_open = False
        self._held = []

    def hold(self, answer):
        """Return an answer that is held. It is called as each request comes."""
        self._n_now += 1
        self.most = max(self.most, self._n_now)
        if self._n_now >= self._n_together:
            _reactor().callLater(self.MOMENT, self._open)
        held = Deferred()
        held.addCallback(self._ended)
        if self._is_open:
            _reactor().callLater(self.MOMENT, held.callback, None)
        else:
            if not self._held:
                _reactor().callLater(self.MAX_WAIT, self._open)
            self._held.append(held)
        return answer._replace(after=held)

    def _ended(self, _):
        self._n_now -= 1

    def _open(self):
        self._is_open = True
        held, self._held = self._held, []
        for each in held:
            each.callback(None)


class _SiteRequest(http.Request):
    site: Site
    connection: int

    def process(self):
        start = monotonic()
        request = self
        host = (request.getRequestHostname() or b"").decode()
        uri = request.uri.decode()
        path = "/" + uri.split("/", 3)[3] if "://" in uri.partition("?")[0] else uri
        headers = {
            name.decode().lower(): values[0].decode("latin-1")
            for name, values in request.requestHeaders.getAllRawHeaders()
        }
        method, body = request.method.decode(), request.content.read()
        fetch = Fetch(host, path, start, start, method, body, self.connection, headers)
        answer = self.site.answer_to(fetch)

        def reply():
            if answer.status == 0:
                self.site.fetches.append(fetch._replace(end=monotonic()))
                request.channel.transport.abortConnection()
                return
            request.setResponseCode(answer.status)
            for name, value in answer.headers.items():
                request.setHeader(name, value)
            content = answer.body.encode()
            request.setHeader("Content-Length", str(len(content)))
            request.write(content)
            request.finish()
            self.site.fetches.append(fetch._replace(end=monotonic()))

        if answer.after is not None:
            answer.after.addCallback(lambda _: reply())
        elif answer.seconds == math.inf:
            self.site.fetches.append(fetch._replace(end=math.inf))
        else:
            _reactor().callLater(answer.seconds, reply)


class _SiteFactory(http.HTTPFactory):
    def __init__(self, site):
        super().__init__()
        self.timeOut = None
        self.site = site

    def log(self, request):
        pass

    def buildProtocol(self, addr):  # noqa: N802
        channel = super().buildProtocol(addr)
        self.site.n_connections += 1
        connection = self.site.n_connections

        def make_request(*args, **kwargs):
            request = _SiteRequest(*args, **kwargs)
            request.site = self.site
            request.connection = connection
            return request

        channel.requestFactory = make_request
        return channel


@dataclass
class Run:
    """The outcome of a crawl in this process."""

    spider: Any
    crawler: Crawler
    items: list[Any]
    log: list[logging.LogRecord]
    site: Any

    @property
    def stats(self):
        return dict(self.crawler.stats.get_stats())

    @property
    def reason(self):
        return str(self.stats["finish_reason"])

    def messages(self, level=logging.WARNING):
        """Return what was logged at this level or above."""
        return [record.getMessage() for record in self.log if record.levelno >= level]


ADDON = {"ADDONS": {"crawlprio.Addon": 500}}
"""Return the settings that every project needs."""
BREADTH_FIRST = {**ADDON, "CONCURRENT_REQUESTS": 1, "ORDERING": "breadth-first"}


def job_in(folder):
    """Return the settings of a crawl that can be resumed, whose files are all in a folder."""
    return {"JOBDIR": str(folder), "CRAWLPRIO_STORE": "crawl.sqlite"}


_PLAIN = {
    "TELNETCONSOLE_ENABLED": False,
    "CRAWLPRIO_STORE": None,
    "CRAWLPRIO_PRINT": False,
    "RETRY_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "CLOSESPIDER_TIMEOUT": 240,
}
PROJECT = {**bundled_settings(), **_PLAIN, "CRAWLPRIO_PLOT": None}
"""The settings of the bundled project, without its delay, its store and what it shows."""

loopback_handler = "crawlprio.demo.handler.LoopbackHandler"
"""What fetches from a `site`."""


def run_spider(
    spider,
    settings=ADDON,
    *,
    site=None,
    priority="project",
    timeout=270.0,
    keeps_items=True,
    **arguments,
):
    """Crawl in this process, with Scrapy's defaults except for `_PLAIN` and the given settings.

    If there is a `site`, every request goes to it; pages, or pages and a function in a tuple, are
    served for this crawl alone. Scrapy runs in its own thread, with one reactor for all tests of
    the process. Without `keeps_items`, nothing listens to the spider's items.
    """
    if isinstance(site, (dict, tuple)):
        with Site(*site) if isinstance(site, tuple) else Site(site) as served:
            how = {"priority": priority, "timeout": timeout, "keeps_items": keeps_items}
            return run_spider(spider, settings, site=served, **how, **arguments)
    # All crawls of the process share its reactor, whose event loop exists already.
    every = {**_PLAIN, **settings, "ASYNCIO_EVENT_LOOP": None}
    if site is not None:
        every["DOWNLOAD_HANDLERS"] = dict.fromkeys(("http", "https"), loopback_handler)
        every["CRAWLPRIO_LOOPBACK"] = site.address
    _reactor()
    runner = AsyncCrawlerRunner(Settings(every, priority))
    crawler = runner.create_crawler(spider)
    items = []
    spiders = []

    def keep_item(item):
        items.append(item)

    def keep_spider(spider):
        spiders.append(spider)

    # The dispatcher holds receivers weakly: these live until the crawl is over.
    crawler.signals.connect(keep_spider, signal=signals.spider_opened)
    if keeps_items:
        crawler.signals.connect(keep_item, signal=signals.item_scraped)
    records = _Records()
    root = logging.getLogger()
    level = root.level
    root.addHandler(records)
    root.setLevel(logging.INFO)

    async def crawl():
        await runner.crawl(crawler, **arguments)

    try:
        _in_loop(crawl(), timeout)
    finally:
        root.removeHandler(records)
        root.setLevel(level)
    return Run(spiders[0] if spiders else None, crawler, items, records.records, site)


def times_out(*ends):
    """Return a downloader middleware that gives up fetches of URLs with these ends after 2 s.

    That leaves a busy machine time to send the request. All others may take as long as they need.
    """

    class TimesOut:
        def process_request(self, request):
            if request.url.endswith(ends):
                request.meta["download_timeout"] = 2

    return TimesOut


class _Records(logging.Handler):
    def __init__(self):
        super().__init__(logging.DEBUG)
        self.records = []

    def emit(self, record):
        self.records.append(record)


async def _called(function):
    """Call a function in the event loop."""
    return function()


def _in_loop(coroutine, timeout):
    """Run a coroutine in the reactor's thread."""
    loop = _reactor()._asyncioEventloop
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout)


@cache
def _reactor():
    """Return the reactor of this process, which runs in its own thread until the process ends."""
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet import reactor

    running = reactor
    thread = threading.Thread(target=running.run, args=(False,), daemon=True)
    thread.start()

    def stop():
        running.callFromThread(running.stop)
        thread.join(5.0)

    atexit.register(stop)
    return running


def n_recorded(store, sql="SELECT count(*) FROM visits"):
    """Return how many visits a store has, or what else is counted; 0 until it exists."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        return int(db.execute(sql).fetchone()[0])
    return 0


def killed_once(program, words, store, n_more, folder=ROOT):
    """Run a command until the store has some more visits, then kill it."""
    target = n_recorded(store) + n_more
    signalled(program, words, folder, signal.SIGKILL, lambda said: n_recorded(store) >= target)


def signalled(program, words, folder, number, is_time):
    """Run a command until it is time to send it a signal; return its status and what it said.

    `is_time` is asked with what it has said so far.
    """
    with TemporaryDirectory() as temporary:
        log = Path(temporary, "log.txt")
        process = Forked(program, words, folder, stdout=log)
        try:
            until(lambda: is_time(log.read_text()), process=process, said=log.read_text)
            process.send_signal(number)
            return process.wait(), log.read_text()
        finally:
            process.kill()
            process.wait()
