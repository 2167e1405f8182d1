"""The part of a crawl that renders pages before the spider reads them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Headers, HtmlResponse, Response
from scrapy.http.request import NO_CALLBACK

from crawlprio.errors import ConfigError
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.live.downloader import SIDE_FETCH
from crawlprio.live.response_parser import type_of
from crawlprio.live.side_fetches import fetch_beside
from crawlprio.measure.receipt_document import rendered_text
from crawlprio.measure.stored_crawl import RENDERED_KEY, rendered_counts
from crawlprio.plugins.render.browser import HeadlessBrowser, PageAnswer, RenderFailed
from crawlprio.plugins.render.wanted import RenderHistory
from crawlprio.settings_table.config import read_setting
from crawlprio.store import TransactionParticipant
from crawlprio.store.side_tables import SideTable
from crawlprio.web.anchors import ParsedPage
from crawlprio.web.html import parse_page
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of

_COUNT = "crawlprio/rendered/"
_MAX_TABS = 4
_BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
_RENDERED = SideTable.of_visits("rendered", "n_requests INTEGER NOT NULL, seconds REAL NOT NULL")


class Renderer(CrawlPart, TransactionParticipant):
    """Renders pages in a browser without network, and keeps what came of it.

    It is the downloader middleware nearest to the spider: all others see pages as they were sent. A
    page that cannot be rendered stays so, and so does one that gained nothing, unless all pages are
    rendered. What was rendered replaces the body of the response, which gets the flag `rendered`.
    Counts are recorded with visits.
    """

    tables = (_RENDERED,)
    is_in_workers = renders = True

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        settings = crawl.crawler.settings
        self._is_for_all = read_setting(settings, "CRAWLPRIO_RENDER") == "always"
        self._is_anywhere = read_setting(settings, "CRAWLPRIO_RENDER_HOSTS") == "all"
        self._history = RenderHistory()
        self._count = crawl.crawler.stats.inc_value
        self._browser = HeadlessBrowser(
            _path_of(read_setting(settings, "CRAWLPRIO_BROWSER")),
            self._fetch,
            str(read_setting(settings, "USER_AGENT")),
            min(os.cpu_count() or 1, _MAX_TABS),
        )
        self._rows: WeakKeyDictionary[Request, tuple[int, float]] = WeakKeyDictionary()
        self._before: Counter[str] = Counter()

    def opened(self) -> None:
        crawler, store = self.crawl.crawler, self.crawl.recorder.store
        engine.add_middleware(crawler, "DOWNLOADER_MIDDLEWARES", Renderer, is_outermost=True)
        crawler.signals.connect(self._browser.close, signal=signals.engine_stopped)
        if store is not None:
            self._before = Counter(rendered_counts(store))
            store.attach(self)

    def write(self, cursor: sqlite3.Cursor) -> None:
        said = json.dumps(self._counts(), sort_keys=True)
        cursor.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (RENDERED_KEY, said))

    def figures(self) -> dict[str, str]:
        return {"rendered": rendered_text(counts)} if (counts := self._counts()) else {}

    def _counts(self) -> Counter[str]:
        stats = self.crawl.crawler.stats.get_stats().items()  # of workers too
        own = {name.removeprefix(_COUNT): n for name, n in stats if name.startswith(_COUNT)}
        return self._before + Counter(own)

    def read(self, pairs: LinkPairs, response: Response, page: ParsedPage) -> None:
        row = None if response.request is None else self._rows.pop(response.request, None)
        if row is not None:
            pairs.extras[_RENDERED.name] = row

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Renderer:
        return next(part for part in CrawlContext.of(crawler).parts if isinstance(part, cls))

    async def process_response(self, request: Request, response: Response) -> Response:
        """Render a fetched page; leave files, failures and side fetches as they are."""
        is_page = request.callback is not NO_CALLBACK and SIDE_FETCH not in request.meta
        is_got = 200 <= response.status < 300 and self.crawl.is_running
        if is_page and is_got and request.method == "GET" and isinstance(response, HtmlResponse):
            return await self._rendered(request, response)
        return response

    async def _rendered(self, request: Request, response: HtmlResponse) -> Response:
        """Return a page as a browser shows it, or as it is."""
        url, body = response.url, response.body
        if not self._is_for_all and not self._history.wants(url, body):
            return response
        try:
            document = PageAnswer(200, _as_text(response.headers), body)
            done = await self._browser.render(url.partition("#")[0], document)
        except ConfigError as error:
            self.crawl.fail(error)
            return response
        except RenderFailed as failure:
            self._count(f"{_COUNT}failed/{failure}")
            self._history.note(url, body, gained=False)
            return response
        html = done.html.encode("utf-8", "replace")
        gained = self._gains(response, html)
        self._history.note(url, body, gained=gained)
        self._count(f"{_COUNT}pages")
        if gained:
            self._count(f"{_COUNT}gained")
        if not (gained or self._is_for_all):
            return response
        self._rows[request] = done.n_requests, round(done.seconds, 3)
        lease = self.crawl.lease_of(request)
        if lease is not None and lease.exchange is not None:
            lease.exchange = lease.exchange._replace(document=html)
        headers = Headers({**response.headers, b"Content-Type": "text/html; charset=utf-8"})
        flags = [*response.flags, "rendered"]
        return response.replace(body=html, encoding="utf-8", headers=headers, flags=flags)

    def _gains(self, response: HtmlResponse, html: bytes) -> bool:
        """Return whether a page has more links or text now."""
        kinds = (response.body, type_of(response).header), (html, "text/html; charset=utf-8")
        plain, shown = (
            parse_page(body, response.url, content_type=kind, want_text=True)
            for body, kind in kinds
        )
        known = set(plain.urls)
        if self.crawl.tell_coordinator is None:
            found = self.crawl.recorder.pages.find_all(shown.urls)
            known |= {url for url, page in zip(shown.urls, found, strict=True) if page >= 0}
        new = set(shown.urls) - known
        return self._history.gains(response.url, new, len(plain.text), len(shown.text))

    async def _fetch(self, url: str, page: str) -> PageAnswer | None:
        """Return the answer to what a page asks for; None if it may not, or there is none."""
        domains = {registered_domain(host_of(each)) for each in (url, page)}
        if url.startswith(("http://", "https://")) and (self._is_anywhere or len(domains) == 1):
            with suppress(Exception):  # refused, or failed, as a page's fetch may
                if (answer := await fetch_beside(self.crawl, url)) is not None:
                    return PageAnswer(answer.status, _as_text(answer.headers), answer.body)
        return None


def _path_of(given: Any) -> str:
    """Return the browser; raise ConfigError if there is none."""
    names = _BROWSERS if given is None else (str(given),)
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        lack = "there is no Chromium or Chrome on PATH, which CRAWLPRIO_RENDER needs"
        if given is not None:
            lack = f"CRAWLPRIO_BROWSER is {str(given)!r}, which cannot be run"
        raise ConfigError(f"{lack}; install chromium, or name another (--browser PATH).")
    return found


def _as_text(headers: Headers) -> dict[str, str]:
    """Return headers by their lower-case names."""
    return {
        name.decode("latin-1").lower(): b", ".join(values).decode("latin-1")
        for name, values in headers.items()
    }
