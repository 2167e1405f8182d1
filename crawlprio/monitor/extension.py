"""The extension that opens the live view when a crawl starts, and closes it when it ends."""

from __future__ import annotations

import logging
import secrets
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.error import CannotListenError
from twisted.python.failure import Failure

from crawlprio.compiled.notices import say
from crawlprio.config import read_setting
from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live.crawl import Crawl
from crawlprio.live.downloader import observe_fetches
from crawlprio.monitor.asked import Asked
from crawlprio.monitor.server import QuietSite, View
from crawlprio.monitor.snapshot import N_ROWS, Snapshots
from crawlprio.monitor.watch import LinkNotes, SiteTallies
from crawlprio.receipt.sentences import sentences

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from crawlprio.monitor.shared import SharedCrawl

logger = logging.getLogger("crawlprio")

SECONDS = 1.0
"""Seconds between two documents, at least."""

SHARE = 0.0025
"""Share of the time of a crawl that documents may take: a dear one is followed by a longer rest."""


class Monitor:
    """Serves the live view on 127.0.0.1, and makes a document a second while a client reads.

    Without a client, it only notes fetches and visits, some 5 microseconds a page.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._port: Any = None
        self._view: View | None = None
        self._snapshots: Snapshots | None = None
        self._shared: SharedCrawl | None = None
        self._timer: CallLaterResult | None = None
        self._has_failed = False
        self._tallies, self._notes = SiteTallies(), LinkNotes(N_ROWS)
        self._crawl.on_visit = self._notes.note
        self._crawl.on_close(self._crawl_ends)
        crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(self._close, signal=signals.spider_closed)
        crawler.signals.connect(self._close, signal=signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Monitor:
        return cls(crawler)

    def _spider_opened(self) -> None:
        if not self._crawl.is_running:
            return
        try:
            self._open()
        except CrawlprioError as error:
            self._crawl.refuse(error)
            raise self._crawl.refusal() from None

    def _open(self) -> None:
        settings, token = self._crawler.settings, secrets.token_urlsafe(24)
        if not read_setting(settings, "TWISTED_REACTOR_ENABLED"):
            raise ConfigError(
                "CRAWLPRIO_MONITOR needs a reactor; turn TWISTED_REACTOR_ENABLED on, or leave the "
                "live view out."
            )
        if read_setting(settings, "CRAWLPRIO_FRONTIER") == "redis":
            from crawlprio.monitor.shared import SharedCrawl

            assert self._crawler.spider is not None
            self._shared = SharedCrawl(settings, self._crawler.spider.name)
        observe_fetches(self._crawler, self._tallies)
        self._snapshots = Snapshots(self._crawler, self._tallies, self._notes)
        asked = Asked(self._crawler, self._shared)
        self._view = View(token, asked.actions, self._watch)
        port = read_setting(settings, "CRAWLPRIO_MONITOR")
        self._port = _listen(port, self._view)
        say(f"live view at http://127.0.0.1:{self._port.getHost().port}/#token={token}")

    def _watch(self) -> None:
        """Begin to send documents, unless the next one is due already."""
        if self._timer is None:
            self._show()

    def _show(self) -> None:
        """Send a document, and the next one later, while anybody reads them."""
        self._timer = None
        if self._view is None or not self._view.is_watched or not self._crawl.is_running:
            return
        begun = monotonic()
        try:
            assert self._snapshots is not None
            document = self._snapshots.make()
            if self._shared is None:
                self._view.send("state", document)
        except Exception:
            self._failed(Failure())
            document = {}
        spent = monotonic() - begun
        if self._shared is not None and document:
            shown = deferred_from_coro(self._show_shared(self._shared, document))
            shown.addErrback(self._failed)
        self._timer = call_later(max(SECONDS, spent / SHARE), self._show)

    async def _show_shared(self, shared: SharedCrawl, document: dict[str, Any]) -> None:
        of_all = await shared.document()
        tables = {**document["tables"], **of_all.pop("tables")}
        waits = [*of_all.pop("waits"), *document["waits"]]
        if self._view is not None:
            self._view.send("state", {**document, **of_all, "tables": tables, "waits": waits})

    def _failed(self, failure: Failure) -> None:
        """Log what went wrong, once: the crawl goes on."""
        if not self._has_failed:
            self._has_failed = True
            logger.error("The live view failed: %s", failure.getTraceback())

    def _crawl_ends(self, reason: str) -> None:
        """Say why the crawl ended, and what the receipt says."""
        if self._view is None:
            return
        if self._snapshots is not None:
            self._view.send("state", {**self._snapshots.make(), "state": "ended"})
        receipt = self._crawl.receipt
        said = [] if receipt is None else list(sentences(receipt))
        self._view.send("ended", {"reason": reason, "said": said})

    def _close(self) -> None:
        """End the events, and listen no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._view is not None:
            self._view.end()
            self._view = None
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if self._port is not None:
            port, self._port = self._port, None
            port.stopListening()


def _listen(port: int, view: View) -> Any:
    """Listen on loopback; return the port."""
    from twisted.internet import reactor

    running: Any = reactor
    try:
        return running.listenTCP(port, QuietSite(view), interface="127.0.0.1")
    except CannotListenError as error:
        raise ConfigError(
            f"CRAWLPRIO_MONITOR is {port}, but nothing can listen there "
            f"({error.socketError.strerror}); name another port, or 0 for any free one."
        ) from None
