"""What the live view may ask of a crawl: to pause, resume or stop, or to fetch a page first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.utils.asyncio import run_in_thread

from crawlprio.errors import CrawlprioError
from crawlprio.explain.document import explain_url
from crawlprio.explain.lines import lines_of_url
from crawlprio.frontier.records import LEASED, UNKNOWN, WAITING
from crawlprio.live import engine
from crawlprio.live.crawl import Crawl
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.policy import policy_of
from crawlprio.report.parts import MAX_URL, text
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.scope import Scope
from crawlprio.web.urls import normalise_url

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlprio.monitor.shared import SharedCrawl

FIRST = 1_000_000
"""The request priority of pages that are to be fetched first."""

STOPPED = "stopped_in_live_view"
"""The reason of a crawl that was stopped here."""


class Asked:
    """Does what a person asks of a crawl.

    Parameters
    ----------
    shared
        The crawl in Redis, whose state holds for all workers; None: the crawl is in this process.
    """

    def __init__(self, crawler: Crawler, shared: SharedCrawl | None) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._shared = shared
        self._is_explaining = False
        self.actions = {
            "/pause": self.pause,
            "/resume": self.resume,
            "/stop": self.stop,
            "/first": self.fetch_first,
            "/explain": self.explain,
        }

    async def pause(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Start no fetch; those in flight end."""
        if self._shared is not None:
            await self._shared.set_state("paused")
        else:
            self._crawler.engine.pause()
        return {"said": "Paused: fetches in flight end, and no other starts."}

    async def resume(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Fetch again."""
        if self._shared is not None:
            await self._shared.set_state("running")
        else:
            self._crawler.engine.unpause()
            engine.wake(self._crawler)
        return {"said": "Resumed."}

    async def stop(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """End the crawl once the fetches in flight have ended."""
        if self._shared is not None:
            await self._shared.set_state("ending")
        else:
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
