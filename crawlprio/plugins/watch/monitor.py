"""The live view of a crawl: opened, paced and obeyed."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.utils.asyncio import call_later, run_in_thread
from twisted.internet.error import CannotListenError
from twisted.python.failure import Failure

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier.records import LEASED, UNKNOWN, WAITING
from crawlprio.graph.compiled import say
from crawlprio.live import engine
from crawlprio.live.downloader import observe_fetches
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.running import CrawlPart, RunningCrawl, policy_of
from crawlprio.measure.explanations import explain_url
from crawlprio.measure.receipt_document import sentences
from crawlprio.plugins.watch.monitor_server import Action, FewConnections, QuietSite, View
from crawlprio.plugins.watch.snapshot import N_ROWS, LinkNotes, SiteTallies, Snapshots
from crawlprio.settings_table.config import read_setting
from crawlprio.show.explained import lines_of_url
from crawlprio.show.report_parts import MAX_URL, text
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.scope import Scope
from crawlprio.web.urls import normalise_url

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from crawlprio.graph.pages import Visit


FIRST = 1_000_000
"""The request priority of pages that are to be fetched first."""

STOPPED = "stopped_in_live_view"
"""The reason of a crawl that was stopped here."""


class Actions:
    """What a person can do to a running crawl, whichever processes fetch for it."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = RunningCrawl.of(crawler)
        self._is_explaining = False
        self.by_path = {
            "/pause": self.pause,
            "/resume": self.resume,
            "/stop": self.stop,
            "/first": self.fetch_first,
            "/explain": self.explain,
        }

    async def pause(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Start no fetch; those in flight end."""
        self._crawler.engine.pause()
        return {"said": "Paused: fetches in flight end, and no other starts."}

    async def resume(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Fetch again."""
        self._crawler.engine.unpause()
        engine.wake(self._crawler)
        return {"said": "Resumed."}

    async def stop(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """End the crawl once the fetches in flight have ended."""
        engine.close_spider(self._crawler, STOPPED)
        return {"said": "Stopping: the crawl ends when the fetches in flight have ended."}

    async def fetch_first(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Fetch a page before all others, once its site is ready.

        A page that waits comes to the front. One that is not known is requested, if the spider
        would follow a link to it.
        """
        url, frontier = _url(asked), self._crawl.frontier
        if engine.is_closing(self._crawler):
            raise CrawlprioError("The crawl is ending.")
        state = UNKNOWN
        if isinstance(frontier, LocalFrontier):
            state = frontier.hurry(self._crawl.identities.of_url(url), FIRST)
        if state == UNKNOWN:
            self._request(url)
        elif state != WAITING:
            was = "is being fetched" if state == LEASED else "was fetched or refused already"
            raise CrawlprioError(f"{text(url).text} {was}.")
        engine.wake(self._crawler)
        return {"said": f"{text(url).text} comes first, once its site is ready."}

    def _request(self, url: str) -> None:
        scope = getattr(self._crawler.spider, "scope", None)
        refusal = scope.refuses(url, 1) if isinstance(scope, Scope) else ""
        if refusal:
            raise CrawlprioError(f"The crawl follows no link to {text(url).text} ({refusal}).")
        meta = {"depth": 1, ALLOW_PRIVATE: self._crawl.addresses.is_open}
        self._crawler.engine.crawl(Request(url, priority=FIRST, meta=meta))

    async def explain(self, asked: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return why a page comes when it does, in lines, as `crawlprio explain` does."""
        url, crawl = _url(asked), self._crawl
        store = crawl.recorder.store
        if store is None:
            raise CrawlprioError("This process keeps no store, from which a page is explained.")
        if self._is_explaining:
            raise CrawlprioError("Another page is being explained; try again.")
        scope = getattr(self._crawler.spider, "scope", None)
        refuses = scope.refuses if isinstance(scope, Scope) else None
        crawl.recorder.commit()
        crawl.recorder.flush()
        self._is_explaining = True
        try:
            policy = policy_of(self._crawler.settings, crawl.config, refuses)
            found = await run_in_thread(explain_url, store.path, policy, url)
        finally:
            self._is_explaining = False
        return {"lines": [text(line).text for line in lines_of_url(found)]}


def _url(asked: Mapping[str, Any]) -> str:
    """Return the URL that is asked about, normalised."""
    given = asked.get("url")
    url = normalise_url(given.strip()) if isinstance(given, str) and len(given) < MAX_URL else None
    if url is None:
        raise CrawlprioError("That is not a URL; write it as in https://example.org/page.")
    return url


logger = logging.getLogger("crawlprio")

SECONDS = 1.0
"""Seconds between two documents, at least."""

SHARE = 0.0025
"""Share of a processor that documents may take: a dear one is followed by a longer rest."""


class Monitor(CrawlPart):
    """Serves the live view on 127.0.0.1, and makes a document a second while a client reads.

    Without a client, it only notes fetches and visits, some 5 microseconds a page.
    """

    def __init__(self, crawl: RunningCrawl) -> None:
        super().__init__(crawl)
        self._port: Any = None
        self._view: View | None = None
        self._snapshots: Snapshots | None = None
        self._timer: CallLaterResult | None = None
        self._has_failed = False
        self._tallies, self._notes = SiteTallies(), LinkNotes(N_ROWS)

    def visited(self, visit: Visit) -> None:
        self._notes.note(visit)

    def opened(self) -> None:
        crawler, token = self.crawl.crawler, secrets.token_urlsafe(24)
        settings = crawler.settings
        if not read_setting(settings, "TWISTED_REACTOR_ENABLED"):
            raise ConfigError(
                "CRAWLPRIO_MONITOR needs a reactor; turn TWISTED_REACTOR_ENABLED on, or leave the "
                "live view out."
            )
        observe_fetches(crawler, self._tallies)
        if self.crawl.workers is not None:
            self.crawl.workers.on_fetch = self._tallies.count
        self._snapshots = Snapshots(crawler, self._tallies, self._notes)
        obeyed = Actions(crawler).by_path
        actions = {path: partial(self._act, act) for path, act in obeyed.items()}
        self._view = View(token, actions, self._watch)
        port = read_setting(settings, "CRAWLPRIO_MONITOR")
        self._port = _listen(port, self._view)
        say(f"live view at http://127.0.0.1:{self._port.getHost().port}/#token={token}")

    async def _act(self, act: Action, asked: Mapping[str, Any]) -> Any:
        """Do what is asked for, and send what came of it without delay."""
        try:
            return await act(asked)
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._show()

    def _watch(self) -> None:
        """Begin to send documents, unless the next one is due already."""
        if self._timer is None:
            self._show()

    def _show(self) -> None:
        """Send a document, and the next one later, while anybody reads them."""
        self._timer = None
        if self._view is None or not self._view.is_watched or not self.crawl.is_running:
            return
        begun = thread_time()
        try:
            assert self._snapshots is not None
            self._view.send("state", self._snapshots.make())
        except Exception:
            self._failed(Failure())
        spent = thread_time() - begun
        self._timer = call_later(max(SECONDS, spent / SHARE), self._show)

    def _failed(self, failure: Failure) -> None:
        """Log what went wrong, once: the crawl goes on."""
        if not self._has_failed:
            self._has_failed = True
            logger.error("The live view failed: %s", failure.getTraceback())

    def closed(self, reason: str) -> None:
        """Say why the crawl ended, and what the receipt says."""
        if self._view is None:
            return
        if self._snapshots is not None:
            self._view.send("state", {**self._snapshots.make(), "state": "ended"})
        receipt = self.crawl.receipt
        said = [] if receipt is None else list(sentences(receipt))
        self._view.send("ended", {"reason": reason, "said": said})

    def ended(self) -> None:
        """End the events, and listen no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._view is not None:
            self._view.end()
            self._view = None
        if self._port is not None:
            port, self._port = self._port, None
            port.stopListening()


def _listen(port: int, view: View) -> Any:
    """Listen on loopback; return the port."""
    from twisted.internet import reactor

    running: Any = reactor
    try:
        return running.listenTCP(port, FewConnections(QuietSite(view)), interface="127.0.0.1")
    except CannotListenError as error:
        raise ConfigError(
            f"CRAWLPRIO_MONITOR is {port}, but nothing can listen there "
            f"({error.socketError.strerror}); name another port, or 0 for any free one."
        ) from None
