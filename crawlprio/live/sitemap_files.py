"""The sitemaps of the crawled sites, and the pages that they name."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached
from twisted.python.failure import Failure

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.graph.pages import NO_PAGE
from crawlprio.live import engine
from crawlprio.live.counts import cause_of
from crawlprio.live.engine import sleep
from crawlprio.live.parts import CrawlPart
from crawlprio.settings_table.config import is_in_redis, read_setting
from crawlprio.settings_table.kinds import ROBOTS
from crawlprio.store.sitemap_rows import NamedRow, SitemapRow, StoredSitemaps
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.scope import Scope
from crawlprio.web.sitemaps import MAX_BYTES, Named, SitemapReader
from crawlprio.web.urls import host_of, normalise_url, parse_url

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawlprio.live.running import RunningCrawl


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

    def __init__(self, crawl: RunningCrawl, stored: StoredSitemaps) -> None:
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
            if len(taken) >= n_pages or n_rows >= _ROWS_AT_ONCE:
                break
            host = self._turns.popleft()
            room = min(per_host, n_pages - len(taken))
            while room > 0 and n_rows < _ROWS_AT_ONCE:
                rows = self._stored.urls_of(host, self._last[host], _ROWS)
                n_rows += len(rows) + 1
                found = self._unknown([url for _, url in rows])
                for (number, url), is_new in zip(rows, found, strict=True):
                    if room == 0:
                        break
                    self._last[host] = number
                    if is_new:
                        taken.append(url)
                        room -= 1
                if len(rows) < _ROWS and room > 0:
                    break
            else:
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
_SEEDS_SECONDS = 0.1


class Sitemaps(CrawlPart):
    """Reads the sitemaps of the sites that are crawled, and hands their pages to the crawl.

    Fetches obey robots.txt, delays and the guard of private addresses, like any other. A sitemap
    may name pages of the site whose robots.txt names it, or, given in a setting, of its own; and an
    index, sitemaps on its own host or on that site. What it names is on disk before it counts as
    read, so a crawl that was killed reads it again, and records nothing twice.
    """

    def __init__(self, crawl: RunningCrawl) -> None:
        super().__init__(crawl)
        self._crawler = crawl.crawler
        settings = crawl.crawler.settings
        _check(settings)
        sources: tuple[str, ...] = read_setting(settings, _OWN)
        self._given = [source for source in sources if source != ROBOTS]
        self._reads_robots = ROBOTS in sources
        self._use = read_setting(settings, "CRAWLPRIO_SITEMAP_PAGES")
        self._max_urls = read_setting(settings, "CRAWLPRIO_MAX_SITEMAP_URLS")
        self._stored: StoredSitemaps | None = None
        self._pages: SitemapPages | None = None
        self._waiting: deque[SitemapRow] = deque()
        self._n_reading = 0
        self._fetches: set[Request] = set()
        self._said: set[tuple[str, str]] = set()

    # What is to be read

    def opened(self) -> None:
        crawl = self.crawl
        if crawl.recorder.store is None:
            return
        connect = self._crawler.signals.connect
        connect(self._robots_parsed, signal=signals.robots_parsed)
        connect(self._crawl_is_out_of_pages, signal=signals.scheduler_empty)
        connect(self._spider_idle, signal=signals.spider_idle)
        self._stored = crawl.recorder.store.sitemaps()
        self._pages = SitemapPages(crawl, self._stored)
        self._waiting.extend(self._stored.waiting())
        for url in filter(None, map(normalise_url, self._given)):
            self._add([url], _bare(host_of(url)), _OWN, 0)
        self._read_waiting()

    def _robots_parsed(self, robotparser: Any, request: Request) -> None:
        """Note the sitemaps that the robots.txt of a site names."""
        if not self._reads_robots or self._stored is None or request in self._fetches:
            return
        scheme, site, *_ = urlparse_cached(request)
        file, site = parse_url(f"{scheme}://{site}/robots.txt"), f"http://{site}/"
        scope = getattr(self._crawler.spider, "scope", None)
        if isinstance(scope, Scope) and scope.refuses_site(site):
            return
        named = getattr(getattr(robotparser, "rp", None), "sitemaps", ())
        urls = filter(None, (normalise_url(written, file) for written in named))
        self._add(urls, _bare(host_of(site)), ROBOTS, 0)
        self._read_waiting()

    def _add(self, urls: Iterable[str], host: str, named_by: str, nesting: int) -> str:
        """Queue sitemaps to be read; return a remark if there are too many."""
        assert self._stored is not None
        urls = list(dict.fromkeys(urls))
        if not urls:
            return ""
        try:
            room = max(MAX_FILES - self._stored.n_sitemaps(host), 0)
            self._waiting.extend(self._stored.add(urls[:room], host, named_by, nesting))
        except CrawlprioError as error:
            self.crawl.fail(error)
        return f"of one site, {MAX_FILES:,} sitemaps are read" if len(urls) > room else ""

    # Reading

    def _read_waiting(self) -> None:
        while self._n_reading < min(AT_ONCE, len(self._waiting) + self._n_reading):
            self._n_reading += 1
            deferred_from_coro(self._read_all()).addBoth(self._has_read)

    async def _read_all(self) -> None:
        await sleep(0)  # until the middlewares that check each fetch are open
        while self.crawl.is_running and self.crawl.awaits_seeds:
            await sleep(_SEEDS_SECONDS)
        while self._waiting and self.crawl.is_running:
            await self._read(self._waiting.popleft())

    def _has_read(self, result: Failure | None) -> None:
        self._n_reading -= 1
        if isinstance(result, Failure):
            if isinstance(result.value, CrawlprioError):
                self.crawl.fail(result.value)
            elif self.crawl.is_running:
                logger.error("A sitemap could not be read: %s", result.getTraceback())
        if self.crawl.is_running:
            engine.wake(self._crawler)

    async def _read(self, sitemap: SitemapRow) -> None:
        """Read one sitemap, and record what it names."""
        assert self._stored is not None
        fetched_at: float | None = time()
        n_urls, remark = 0, ""
        try:
            response = await self._fetch(sitemap)
        except Exception as error:
            if not self.crawl.is_running:
                return
            cause = cause_of(error, Request(sitemap.url))
            fetched_at, remark = None, f"it could not be fetched ({cause})"
        else:
            if not self.crawl.is_running:
                return
            if 200 <= response.status < 300:
                n_urls, remark = await self._record(sitemap, response.url, response.body)
            else:
                is_lasting = 400 <= response.status < 500 and response.status != 429
                fetched_at = fetched_at if is_lasting else None
                remark = f"it could not be fetched (status {response.status})"
        if self.crawl.is_running:
            self._stored.end(sitemap.number, fetched_at, n_urls, remark)
            self._count("failed" if n_urls == 0 and remark else "read", 1)
            if remark:
                self._say(sitemap, remark)

    async def _fetch(self, sitemap: SitemapRow) -> Response:
        """Fetch a sitemap once its site may be fetched from."""
        # Scrapy follows redirects and retries by itself.
        request = Request(sitemap.url, callback=NO_CALLBACK)
        request.meta.update(download_maxsize=MAX_BYTES, allow_offsite=True)
        if sitemap.nesting or sitemap.url not in map(normalise_url, self._given):
            request.meta[ALLOW_PRIVATE] = self.crawl.addresses.is_open
        clock, host = self.crawl.clock, urlparse_cached(request).hostname or ""
        # Inside the downloader, a fetch that waits would count towards CONCURRENT_REQUESTS.
        clock.hold(host)
        try:
            while self.crawl.is_running and (rest := clock.next_start(host) - monotonic()) > 0:
                await sleep(min(rest, 60.0))
        finally:
            clock.hold(host, -1)
        self._fetches.add(request)
        try:
            return await self._crawler.engine.download_async(request)
        finally:
            self._fetches.discard(request)

    async def _record(self, sitemap: SitemapRow, url: str, body: bytes) -> tuple[int, str]:
        """Record what a sitemap names, piece by piece; return how much that is, and remarks."""
        assert self._stored is not None
        reader = SitemapReader(url)
        counts = {"foreign": 0, "named": 0, "room": self._max_urls}
        counts["room"] -= self._stored.n_urls(sitemap.host)
        remarks: dict[str, None] = {}
        for named in reader.read(body):
            if named and reader.is_index:
                remarks[self._record_sitemaps(sitemap, named, counts)] = None
            elif named:
                remarks[self._record_pages(sitemap, named, counts)] = None
            await sleep(0)
            if not self.crawl.is_running:
                return 0, ""
        remarks[reader.remark] = None
        if reader.n_invalid:
            remarks[f"entries without an http(s) URL are left out ({reader.n_invalid:,})"] = None
        if counts["foreign"]:
            self._count("foreign", counts["foreign"])
            remarks[f"URLs of other sites are left out ({counts['foreign']:,})"] = None
        return counts["named"], "; ".join(filter(None, remarks))

    def _record_sitemaps(
        self, sitemap: SitemapRow, named: list[Named], counts: dict[str, int]
    ) -> str:
        homes = (sitemap.host, _bare(host_of(sitemap.url)))
        own = [each.url for each in named if _bare(host_of(each.url)) in homes]
        counts["foreign"] += len(named) - len(own)
        counts["named"] += len(own)
        if sitemap.nesting >= MAX_NESTING:
            return f"it is an index below {MAX_NESTING} others, whose sitemaps are left out"
        return self._add(own, sitemap.host, sitemap.url, sitemap.nesting + 1)

    def _record_pages(self, sitemap: SitemapRow, named: list[Named], counts: dict[str, int]) -> str:
        assert self._stored is not None
        assert self._pages is not None
        own = [
            NamedRow(each.url, host, each.lastmod, each.priority)
            for each in named
            if _bare(host := host_of(each.url)) == sitemap.host
        ]
        counts["foreign"] += len(named) - len(own)
        is_too_many = len(own) > counts["room"]
        own = own[: max(counts["room"], 0)]
        counts["room"] -= len(own)
        counts["named"] += len(own)
        self._stored.add_urls(sitemap.number, own)
        self._count("urls", len(own))
        for host in dict.fromkeys(row.host for row in own):
            self._pages.add_host(host)
        if self._use == "seeds":
            self._add_seeds([row.url for row in own])
        bound = f"CRAWLPRIO_MAX_SITEMAP_URLS ({self._max_urls:,}) is reached"
        return bound if is_too_many else ""

    # What the crawl gets

    def _add_seeds(self, urls: list[str]) -> None:
        """Queue pages as seeds, as far as the spider would follow links to them."""
        assert self._pages is not None
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
            room = 0 if crawl.dispatcher.n_waiting else room - len(crawl.dispatcher)
        if room <= 0:
            return
        try:
            for url in self._pages.take(room, crawl.config.limit):
                self._crawler.engine.crawl(self._request(url, DEPTH, LAST))
        except CrawlprioError as error:
            crawl.fail(error)

    def _request(self, url: str, depth: int, priority: int) -> Request:
        meta = {"depth": depth, ALLOW_PRIVATE: self.crawl.addresses.is_open}
        return Request(url, priority=priority, meta=meta)

    def _spider_idle(self) -> None:
        """Keep the spider open while sitemaps are read, or name pages to fetch."""
        if not self.crawl.is_running or self._stored is None:
            return
        if self.crawl.dispatcher is None:
            self._crawl_is_out_of_pages()
        if self._n_reading or (self._pages and self._use == "last"):
            if not self._n_reading:
                engine.wake(self._crawler)
            raise DontCloseSpider

    # What is said

    def _say(self, sitemap: SitemapRow, remark: str) -> None:
        """Log what is wrong with a sitemap: the first time for each site and reason."""
        reason = sitemap.host, "".join(char for char in remark if not char.isdigit())
        if reason not in self._said:
            self._said.add(reason)
            logger.warning("Sitemap %s: %s.", sitemap.url, remark)

    def _count(self, name: str, count: int) -> None:
        self._crawler.stats.inc_value(f"crawlprio/sitemaps/{name}", count)


def _check(settings: BaseSettings) -> None:
    """Refuse CRAWLPRIO_SITEMAPS where sitemaps cannot be read or recorded."""
    if read_setting(settings, "CRAWLPRIO_STORE") is None:
        problem = "CRAWLPRIO_STORE is None, so there is nowhere to record them; name a file"
    elif is_in_redis(settings):
        problem = "CRAWLPRIO_FRONTIER is redis, whose workers have no store; crawl without it"
    elif ROBOTS in read_setting(settings, _OWN) and not read_setting(settings, "ROBOTSTXT_OBEY"):
        problem = "ROBOTSTXT_OBEY is off, so no robots.txt is read; turn it on, or give URLs"
    else:
        return
    raise ConfigError(f"CRAWLPRIO_SITEMAPS asks for sitemaps, but {problem}.")


def _bare(host: str) -> str:
    """Return a host without a leading `www.`, as the spider `site` tells sites apart."""
    return host.removeprefix("www.")
