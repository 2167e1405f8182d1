"""A dry run: what a crawl would do, from robots.txt files, sitemaps and home pages alone.

It is a crawl with the same settings, middlewares and delays, whose spider follows no link.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import BaseSettings

from crawlprio.frontier.protocol import FetchClock
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.items import LinkPairs
from crawlprio.live.clock import HostClock
from crawlprio.live.crawl_context import CrawlContext, without_parts_elsewhere
from crawlprio.measure.receipt_document import duration, seconds_needed
from crawlprio.measure.stored_crawl import SCRAPY_LIMITS, FetchRate
from crawlprio.middlewares import RobotsMiddleware
from crawlprio.settings_table.config import read_setting
from crawlprio.spiders.site import SiteSpider, SpiderNotes
from crawlprio.store.outcomes import ROBOTS, failure_of
from crawlprio.web.urls import host_of

SECONDS = 300
"""Seconds after which the dry run ends, and tells what it has."""

N_JUDGED = 2_000
"""URLs of a site that scope and robots.txt are asked about; the rest counts by their share."""

_LIMITS = (
    *("CRAWLPRIO_MAX_PAGES", *SCRAPY_LIMITS[:2], "CRAWLPRIO_MAX_PAGES_PER_SITE"),
    *("CRAWLPRIO_MAX_PAGES_PER_DOMAIN", "CRAWLPRIO_MAX_PAGES_PER_PATTERN", "DEPTH_LIMIT"),
)


def planning_settings(settings: BaseSettings, folder: str) -> dict[str, Any]:
    """Return the settings that differ from the crawl's; the dry run's store goes to `folder`."""
    sources = read_setting(settings, "CRAWLPRIO_SITEMAPS") or ()
    if read_setting(settings, "ROBOTSTXT_OBEY"):
        sources = dict.fromkeys(("robots", *sources))
    return {
        **without_parts_elsewhere(settings, "is_in_dry_runs"),
        **dict.fromkeys(("CRAWLPRIO_PLOT", "JOBDIR", "CRAWLPRIO_MAX_PAGES")),
        **dict.fromkeys(("CRAWLPRIO_PRINT", "CRAWLPRIO_PROGRESS"), False),
        **dict.fromkeys(SCRAPY_LIMITS, 0),
        "SCHEDULER": "crawlprio.schedulers.Scheduler",  # of one process
        "CRAWLPRIO_STORE": f"{folder}/plan.sqlite",
        "CRAWLPRIO_SITEMAPS": ",".join(sources) or None,
        "CRAWLPRIO_SITEMAP_PAGES": "record",
        "CLOSESPIDER_TIMEOUT": SECONDS,
        "ORDERING": "breadth-first",
        "ORDERING_OPTIONS": {},
    }


class PlanSpider(SiteSpider):
    """Fetches the home pages of the seeds' sites, and follows no link.

    `given`: the seeds of the crawl. `found`: the document of the dry run, without what depends on
    limits, once the spider is closed.
    """

    given: Sequence[str] = ()
    found: dict[str, Any]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.found = {"seeds": [], "sites": []}
        spider.given = list(spider.seeds)
        spider.seeds = list(dict.fromkeys(map(_home, spider.seeds)))
        spider._visits = {}
        spider._n_links = {}
        return spider

    def part_of(self, crawl: CrawlContext) -> SpiderNotes:
        return SpiderNotes(crawl, self)

    _visits: dict[str, list[Visit]]
    _n_links: dict[str, int]

    def parse(self, response: Response, **_: Any) -> Iterator[LinkPairs | Request]:
        """Count the links of a home page, and follow none."""
        for pairs in super().parse(response):
            if isinstance(pairs, LinkPairs):
                self._n_links[host_of(response.url)] = len(set(pairs.targets))
                yield LinkPairs(pairs.source, [], status=pairs.status, n_bytes=pairs.n_bytes)

    def note_visit(self, visit: Visit) -> None:
        """Note a visit of a home page."""
        if visit.page != NO_PAGE:
            pages = CrawlContext.of(self.crawler).recorder.pages
            host = pages.host(int(pages.sites[visit.page]))
            self._visits.setdefault(host, []).append(visit)

    def note_end(self, reason: str) -> None:
        """Note what was found, before the store is closed."""
        crawl = CrawlContext.of(self.crawler)
        robots = self.crawler.get_downloader_middleware(RobotsMiddleware)
        judge = robots.judged if isinstance(robots, RobotsMiddleware) else lambda url: ""
        named: dict[str, int] = {}
        store = crawl.recorder.store
        if store is not None:
            named = {each.host: each.n_named for each in store.sitemaps().counts()}
        clock = crawl.clock
        self.found = {
            "ended": reason,
            "seeds": [{"url": url, "refused": judge(url) or None} for url in self.given],
            "sites": [
                self._site(host, named.get(host, 0), judge, clock)
                for host in dict.fromkeys([*map(host_of, self.seeds), *self._visits, *named])
            ],
        }

    def _site(
        self, host: str, n_named: int, judge: Callable[[str], str], clock: FetchClock
    ) -> dict[str, Any]:
        crawl = CrawlContext.of(self.crawler)
        visits = self._visits.get(host, [])
        delays = clock if isinstance(clock, HostClock) else None
        urls: list[str] = []
        if n_named and crawl.recorder.store is not None:
            stored = crawl.recorder.store.sitemaps().urls_of(host, 0, N_JUDGED)
            urls = [url for _, url in stored]
        refusals = [
            rule or judge(url)
            for url, rule in zip(urls, self.scope.refuse_all(urls, 1), strict=True)
        ]
        share = refusals.count("") / len(urls) if urls else 0.0
        return {
            "host": host,
            "home": (failure_of(visits[-1]) or f"HTTP {visits[-1].status}") if visits else None,
            "links": self._n_links.get(host),
            "seconds": round(sum(visit.elapsed for visit in visits) / max(len(visits), 1), 3),
            "crawl_delay": None if delays is None else delays.learned(host).crawl_delay,
            "delay": 0.0 if delays is None else delays.delay(host),
            "in_sitemaps": n_named,
            "pages": round(n_named * share) if n_named else None,
            "refused": dict(Counter(filter(None, refusals)).most_common()),
        }


def plan_of(found: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a crawl would do, from what was found and the settings that limit it."""
    sites = [site for site in found["sites"] if site["pages"] or site["links"]]
    most = limits["CRAWLPRIO_MAX_PAGES_PER_SITE"] or math.inf
    known = [max(site["pages"] or 0, 1 + (site["links"] or 0)) for site in sites]
    sizes = [int(min(size, most)) for size in known]
    most_pages = limits["CRAWLPRIO_MAX_PAGES"] or math.inf
    n_pages = int(min(sum(sizes), most_pages, limits.get("CLOSESPIDER_PAGECOUNT", math.inf)))
    counts = _spread(sizes, n_pages)
    paces = {at: FetchRate(1, site["seconds"]) for at, site in enumerate(sites)}
    hosts = [site["host"] for site in sites]
    numbers = np.repeat(np.arange(len(sites), dtype=np.int32), counts)
    delays = {site["host"]: site["delay"] for site in sites}
    seconds = seconds_needed(paces, hosts, numbers, limits, delays)
    return {
        **found,
        "pages": n_pages,
        "pages_known": sum(known),
        "size_is_known": bool(sites) and all(site["pages"] for site in sites),
        "seconds": round(seconds),
        "limits": {name: limits.get(name) for name in _LIMITS if limits.get(name) is not None},
        "ends": _ends(sum(sizes), known, most, limits, seconds),
    }


def has_answer(plan: Mapping[str, Any]) -> bool:
    return any(str(site["home"]).startswith(("HTTP", ROBOTS)) for site in plan["sites"])


def _spread(sizes: Sequence[int], n_pages: int) -> list[int]:
    """Return how many pages each site gives if they take turns."""
    counts, left = [0] * len(sizes), n_pages
    for n_done, at in enumerate(sorted(range(len(sizes)), key=lambda at: sizes[at])):
        counts[at] = min(sizes[at], left // (len(sizes) - n_done))
        left -= counts[at]
    return counts


def _ends(
    n_pages: int, known: Sequence[int], most: float, limits: Mapping[str, Any], seconds: float
) -> list[str]:
    """Return which limits would end the crawl or cut it short, in words."""
    ends = []
    for name, option in (("CRAWLPRIO_MAX_PAGES", " (--pages)"), ("CLOSESPIDER_PAGECOUNT", "")):
        if n_pages > (limits.get(name) or math.inf):
            ends.append(f"{name}{option} is {limits[name]:,.0f}")
    if seconds > limits.get("CLOSESPIDER_TIMEOUT", math.inf):
        ends.append(f"CLOSESPIDER_TIMEOUT is {duration(limits['CLOSESPIDER_TIMEOUT'])}")
    n_cut = sum(size > most for size in known)
    if n_cut:
        ends.append(f"CRAWLPRIO_MAX_PAGES_PER_SITE is {most:,}, and {n_cut:,} sites have more")
    return ends


def lines_of_plan(plan: Mapping[str, Any]) -> Iterator[str]:
    for seed in plan["seeds"]:
        if seed["refused"]:
            yield f"{seed['url']} would not be fetched: {seed['refused']}."
    n_allowed = sum(not seed["refused"] for seed in plan["seeds"])
    yield f"Seeds that may be fetched: {n_allowed:,} of {len(plan['seeds']):,}."
    for site in plan["sites"]:
        yield from _lines_of_site(site)
    if plan["ended"] == "closespider_timeout":
        yield f"Not all was read: the dry run ended after {SECONDS} s."
    known = "about" if plan["size_is_known"] else "at least"
    took = duration(plan["seconds"])
    to_fetch = f" To fetch {plan['pages']:,} takes {took} or more under the delays."
    yield (
        f"Pages known from sitemaps and home pages: {known} {plan['pages_known']:,}."
        f"{to_fetch if plan['pages'] else ''}"
    )
    if not plan["size_is_known"]:
        yield "Not every site has a sitemap, so there may be many more pages."
    yield from (f"A limit would cut it short: {limit}." for limit in plan["ends"])


def _lines_of_site(site: Mapping[str, Any]) -> Iterator[str]:
    home = site["home"] or "not fetched"
    links = "" if site["links"] is None else f", with links to follow: {site['links']:,}"
    yield f"{site['host']}: home page {home}{links}"
    asked = f" (robots.txt asks for {site['crawl_delay']:g} s)" if site["crawl_delay"] else ""
    yield f"  {site['delay']:g} s between fetches{asked}; the home page took {site['seconds']:g} s"
    if site["in_sitemaps"]:
        yield (
            f"  in sitemaps: {site['in_sitemaps']:,} URLs, of which about {site['pages']:,} may "
            "be fetched"
        )
        yield from (
            f"    {rule}: {n:,} of the first {N_JUDGED:,}" for rule, n in site["refused"].items()
        )


def _home(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"
