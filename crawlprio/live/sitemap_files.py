"""The sitemaps of the crawled sites, and the pages that they name."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from time import time
from typing import Any

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.httpobj import urlparse_cached

from crawlprio.graph.pages import NO_PAGE
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.downloader import SIDE_FETCH
from crawlprio.live.engine import sleep
from crawlprio.live.response_parser import type_of
from crawlprio.live.side_fetches import SideFetches
from crawlprio.settings_table.config import read_setting
from crawlprio.settings_table.setting_types import ROBOTS
from crawlprio.store.side_tables import SideRow
from crawlprio.store.sitemap_rows import StoredSitemaps
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.encodings import charset_in
from crawlprio.web.scope import Scope
from crawlprio.web.sitemaps import MAX_BYTES, Named, SitemapReader
from crawlprio.web.urls import host_of, normalise_url, parse_url

DEPTH = 1
"""The depth of a page that a sitemap names: as if the home page linked to it."""

_ROWS = 200
_ROWS_AT_ONCE = 1_000


class SitemapPages:
    """Reads pages named by sitemaps from the store: a few per host in turn, in sitemap order.

    Nothing about them is in the frontier before that. The frontier and the ordering know exactly
    what they would know without sitemaps, so linked pages leave in the same order. What was handed
    out is not recorded: a page that the crawl knows is not taken again, in this run or a later one.
    Cost: some 10 µs per page named, once per run. Memory: 100 bytes per host.
    """

    def __init__(self, crawl: CrawlContext, stored: StoredSitemaps) -> None:
        self._crawl = crawl
        self._stored = stored
        self._last = dict.fromkeys(stored.hosts(), 0)
        self._turns = deque(self._last)

    def __bool__(self) -> bool:
        """Whether pages may be left to take."""
        return bool(self._turns)

    def add_host(self, host: str) -> None:
        """Note that more pages of a host were named."""
        self._last.setdefault(host, 0)
        if host not in self._turns:
            self._turns.append(host)

    def take(self, n_pages: int, per_host: int) -> list[str]:
        """Return the next pages that the crawl does not know; it looks at some 1,000 at most."""
        taken: list[str] = []
        n_rows = 0
        for _ in range(len(self._turns)):
            room = min(per_host, n_pages - len(taken))
            if room <= 0 or n_rows >= _ROWS_AT_ONCE:
                break
            host = self._turns.popleft()
            rows = self._stored.urls_of(host, self._last[host], _ROWS)
            n_rows += len(rows) + 1
            is_new = self._unknown([url for _, url in rows])
            new = [row for row, new in zip(rows, is_new, strict=True) if new][:room]
            taken += [url for _, url in new]
            has_enough = len(new) == room
            if rows:
                self._last[host], _ = new[-1] if has_enough else rows[-1]
            if has_enough or len(rows) == _ROWS:
                self._turns.append(host)
        return taken

    def _unknown(self, urls: list[str]) -> list[bool]:
        """Return which pages the crawl does not know, and would follow a link to."""
        pages, identity_of = self._crawl.recorder.pages, self._crawl.identities.of_url
        refusals = self.refusals(urls)
        found = pages.find_all([identity_of(url) for url in urls])
        return [
            page == NO_PAGE and not refusal for page, refusal in zip(found, refusals, strict=True)
        ]

    def refusals(self, urls: Sequence[str]) -> list[str]:
        """Return why the spider follows no link to pages, empty strings if it does."""
        scope = getattr(self._crawl.crawler.spider, "scope", None)
        return scope.refuse_all(urls, DEPTH) if isinstance(scope, Scope) else [""] * len(urls)


logger = logging.getLogger("crawlprio")

AT_ONCE = 2
"""Sitemaps that are read at once."""

MAX_FILES = 1_000
"""Maximum number of sitemaps read for one site."""

MAX_NESTING = 2
"""Maximum number of indexes in a chain; the standard allows one."""

LAST = -1_000
"""Priority of requests for pages that only a sitemap knows: behind all linked ones."""

_OWN = "CRAWLPRIO_SITEMAPS"


class Sitemaps(SideFetches):
    """Reads the sitemaps of the sites that are crawled, and hands their pages to the crawl.

    A sitemap may name pages of the site whose robots.txt names it, or, given in a setting, of its
    own; and an index, sitemaps on its own host or on that site. What it names is on disk before it
    counts as read, so a crawl that was killed reads it again, and records nothing twice.
    """

    asks = f"{_OWN} asks for sitemaps"

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl, per_lane=AT_ONCE, at_once=AT_ONCE)
        self._crawler = crawl.crawler
        settings = crawl.crawler.settings
        sources: tuple[str, ...] = read_setting(settings, _OWN)
        urls = (normalise_url(source) for source in sources if source != ROBOTS)
        self._given = list(filter(None, urls))
        self._reads_robots = ROBOTS in sources
        self._use = read_setting(settings, "CRAWLPRIO_SITEMAP_PAGES")
        self._max_urls = read_setting(settings, "CRAWLPRIO_MAX_SITEMAP_URLS")
        self._said: set[tuple[str, str]] = set()

    def lacks(self, settings: BaseSettings) -> str:
        problem = super().lacks(settings)
        sources = read_setting(settings, _OWN)
        if not problem and ROBOTS in sources and not read_setting(settings, "ROBOTSTXT_OBEY"):
            return "ROBOTSTXT_OBEY is off, so no robots.txt is read; turn it on, or give URLs"
        return problem

    def opened(self) -> None:
        super().opened()
        store = self.crawl.recorder.store
        assert store is not None
        connect = self._crawler.signals.connect
        connect(self._robots_parsed, signal=signals.robots_parsed)
        connect(self._crawl_is_out_of_pages, signal=signals.scheduler_empty)
        connect(self._spider_idle, signal=signals.spider_idle)
        self._stored = store.sitemaps()
        self._pages = SitemapPages(self.crawl, self._stored)
        if self.crawl.config.fetches_again:
            self._stored.wait_again()
        self.queue(self._stored.waiting())
        for url in self._given:
            self._add([url], _bare(host_of(url)), _OWN, 0)

    def _robots_parsed(self, robotparser: Any, request: Request) -> None:
        """Note the sitemaps that the robots.txt of a site names, if a page of it is fetched."""
        if not self._reads_robots or SIDE_FETCH in request.meta:
            return
        scheme, site, *_ = urlparse_cached(request)
        file, site = parse_url(f"{scheme}://{site}/robots.txt"), f"http://{site}/"
        scope = getattr(self._crawler.spider, "scope", None)
        if isinstance(scope, Scope) and scope.refuses_site(site):
            return
        named = getattr(getattr(robotparser, "rp", None), "sitemaps", ())
        urls = filter(None, (normalise_url(written, file) for written in named))
        self._add(urls, _bare(host_of(site)), ROBOTS, 0)

    def _add(self, urls: Iterable[str], host: str, named_by: str, nesting: int) -> str:
        """Queue sitemaps to be read; return a remark if there are too many."""
        urls = list(dict.fromkeys(urls))
        if not urls:
            return ""
        with self.crawl.failing():
            room = max(MAX_FILES - self._stored.n_sitemaps(host), 0)
            self.queue(self._stored.add(urls[:room], host, named_by, nesting))
            if len(urls) > room:
                return f"of one site, {MAX_FILES:,} sitemaps are read"
        return ""

    def request(self, row: SideRow) -> Request:
        request = self.fetcher.request(row.url, download_maxsize=MAX_BYTES)
        if not row.nesting and row.url in self._given:
            del request.meta[ALLOW_PRIVATE]  # a user may name any address
        return request

    async def fetched(self, row: SideRow, response: Response) -> None:
        """Record what a sitemap names."""
        status = response.status
        if 200 <= status < 300:
            n_urls, remark = await self._record(row, response)
            if self.crawl.is_running:
                self._end(row, time(), n_urls, remark)
        else:
            is_lasting = 400 <= status < 500 and status != 429
            remark = f"it could not be fetched (status {status})"
            self._end(row, time() if is_lasting else None, 0, remark)

    def failed(self, row: SideRow, cause: str) -> None:
        self._end(row, None, 0, f"it could not be fetched ({cause})")

    def _end(self, row: SideRow, fetched_at: float | None, n_urls: int, remark: str) -> None:
        self._stored.end(row.number, fetched_at, n_urls, remark)
        self._count("failed" if n_urls == 0 and remark else "read", 1)
        if remark:
            self._say(row, remark)

    async def _record(self, row: SideRow, response: Response) -> tuple[int, str]:
        """Record what a sitemap names, piece by piece; return how much that is, and remarks."""
        reader = SitemapReader(response.url, charset_in(type_of(response).header))
        room = self._max_urls - self._stored.n_urls(row.owner)
        n_named = n_foreign = 0
        remarks: dict[str, None] = {}
        for named in reader.read(response.body):
            homes = [row.owner, _bare(host_of(row.url))] if reader.is_index else [row.owner]
            own = [each for each in named if _bare(host_of(each.url)) in homes]
            n_foreign += len(named) - len(own)
            if named and reader.is_index:
                remark = f"it is an index below {MAX_NESTING} others, whose sitemaps are left out"
                if row.nesting < MAX_NESTING:
                    urls = (each.url for each in own)
                    remark = self._add(urls, row.owner, row.url, row.nesting + 1)
                remarks[remark] = None
            elif named:
                if len(own) > room:
                    own = own[: max(room, 0)]
                    bound = f"CRAWLPRIO_MAX_SITEMAP_URLS ({self._max_urls:,}) is reached"
                    remarks[bound] = None
                self._record_pages(row, own)
                room -= len(own)
            n_named += len(own)
            await sleep(0)
            if not self.crawl.is_running:
                return 0, ""
        remarks[reader.remark] = None
        if reader.n_invalid:
            remarks[f"entries without an http(s) URL are left out ({reader.n_invalid:,})"] = None
        if n_foreign:
            self._count("foreign", n_foreign)
            remarks[f"URLs of other sites are left out ({n_foreign:,})"] = None
        return n_named, "; ".join(filter(None, remarks))

    def _record_pages(self, row: SideRow, own: list[Named]) -> None:
        urls = [each.url for each in own]
        self._stored.add_urls(row.number, own)
        self._count("urls", len(urls))
        for host in dict.fromkeys(map(host_of, urls)):
            self._pages.add_host(host)
        if self._use == "seeds":
            self._add_seeds(urls)

    def _add_seeds(self, urls: list[str]) -> None:
        """Queue pages as seeds, as far as the spider would follow links to them."""
        refusals = self._pages.refusals(urls)
        seeds = [url for url, refusal in zip(urls, refusals, strict=True) if not refusal]
        if self.crawl.frontier is not None:
            self.crawl.add_seeds(seeds)
            engine.wake(self._crawler)
            return
        for url in seeds:
            self._crawler.engine.crawl(self._request(url, 0, 0))

    def _crawl_is_out_of_pages(self) -> None:
        """Hand over pages that sitemaps name if no other page waits."""
        crawl = self.crawl
        if not self._pages or self._use != "last" or not crawl.is_running or crawl.awaits_seeds:
            return
        room = crawl.config.concurrency or 16
        if crawl.dispatcher is not None:
            room = 0 if len(crawl.dispatcher.frontier) else room - len(crawl.dispatcher)
        if room <= 0:
            return
        with crawl.failing():
            for url in self._pages.take(room, crawl.config.limit):
                self._crawler.engine.crawl(self._request(url, DEPTH, LAST))

    def _request(self, url: str, depth: int, priority: int) -> Request:
        meta = {"depth": depth, ALLOW_PRIVATE: self.crawl.addresses.is_open}
        return Request(url, priority=priority, meta=meta)

    def _spider_idle(self) -> None:
        """Keep the spider open while sitemaps name pages to fetch."""
        if not self.crawl.is_running or self._use != "last" or not self._pages:
            return
        if self.crawl.dispatcher is None:
            self._crawl_is_out_of_pages()
        if not self.is_busy:
            engine.wake(self._crawler)
        raise DontCloseSpider

    def _say(self, sitemap: SideRow, remark: str) -> None:
        """Log what is wrong with a sitemap: the first time for each site and reason."""
        reason = sitemap.owner, "".join(char for char in remark if not char.isdigit())
        if reason not in self._said:
            self._said.add(reason)
            logger.warning("Sitemap %s: %s.", sitemap.url, remark)

    def _count(self, name: str, count: int) -> None:
        self._crawler.stats.inc_value(f"crawlprio/sitemaps/{name}", count)


def _bare(host: str) -> str:
    """Return a host without a leading `www.`, as the spider `site` tells sites apart."""
    return host.removeprefix("www.")
