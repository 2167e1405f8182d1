"""The `site` spider: one `LinkPairs` item for each page."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import compress
from typing import Any, Protocol, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.python import to_unicode

from crawlprio.errors import ConfigError, CrawlprioError, StoreError
from crawlprio.graph.compiled import notice
from crawlprio.graph.pages import Visit
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.live.response_parser import pairs_of, read_page, type_of
from crawlprio.live.spider_arguments import ARGUMENTS, check_same_seeds, record_arguments
from crawlprio.settings_table.config import read_setting
from crawlprio.store.outcomes import ROBOTS
from crawlprio.web.addresses import PrivateAddresses
from crawlprio.web.anchors import ParsedPage
from crawlprio.web.robots_txt import forbids, products
from crawlprio.web.scope import Scope, Traps, read_seeds, without_noise
from crawlprio.web.urls import host_of, normalise_url

logger = logging.getLogger("crawlprio")

_ARGUMENTS = ("seeds", "url", "follow", "allow", "deny")


class FetchCheck(CrawlPart):
    """Makes the command exit with an error if no page was fetched."""

    def closed(self, reason: str) -> None:
        crawl = self.crawl
        figures = crawl.recorder.figures
        causes = dict(figures.failures)
        if figures.n_forbidden:
            causes[ROBOTS] = figures.n_forbidden
        is_used_up = reason == "closespider_pagecount"
        if figures.n_fetched or not (causes or is_used_up):
            return
        counts = ", ".join(f"{cause}: {count:,}" for cause, count in causes.items())
        if causes:
            crawl.say_error(f"No page could be fetched ({counts}); check the seeds.")
        else:
            crawl.say_error(
                "No page was fetched: robots.txt files used up CLOSESPIDER_PAGECOUNT; set "
                "CRAWLPRIO_MAX_PAGES (--pages) instead."
            )
        engine.exit_with_error(crawl.crawler)


class NotingSpider(Protocol):
    """A spider that goes by what is recorded: each visit, and the end, while the store is open."""

    def note_visit(self, visit: Visit) -> None: ...

    def note_end(self, reason: str) -> None: ...


class SpiderNotes(CrawlPart):
    """Has a spider note what is recorded, in place of `FetchCheck`."""

    def __init__(self, crawl: CrawlContext, spider: NotingSpider) -> None:
        super().__init__(crawl)
        self._spider = spider

    def visited(self, visit: Visit) -> None:
        self._spider.note_visit(visit)

    def closed(self, reason: str) -> None:
        self._spider.note_end(reason)


class SiteSpider(Spider):
    """Crawls sites, domains or the web, and yields one `LinkPairs` for each page.

    Under crawlprio's scheduler, links go to the frontier in bulk. Under any other scheduler, the
    spider also yields a request for each link to follow, and so crawls the same pages.

    `docs/crawl.md` has its arguments; `seeds` may also be a list of URLs, and `url` is an alias.
    Without seeds it `needs_demo`, and `use_web` must be called before `start`. An unknown or
    invalid argument is a ConfigError. Its `scope` says which links are followed. The others are
    `outside`, among them those marked nofollow and those deeper than DEPTH_LIMIT: links of the
    graph like any other if their target is known, and counted under `crawlprio/refused/`. A seed
    that redirects to another site adds that site to the scope.
    """

    name = "site"

    def __init__(
        self,
        seeds: str | list[str] | None = None,
        url: str | None = None,
        follow: str | None = None,
        allow: str | None = None,
        deny: str | None = None,
        **others: Any,
    ) -> None:
        super().__init__()
        if others:
            raise ConfigError(
                f"{next(iter(others))!r} is not an argument of the spider 'site'; "
                f"known arguments: {', '.join(_ARGUMENTS)}."
            )
        if seeds is not None and url is not None:
            raise ConfigError("seeds and url are both given, but mean the same; give one of them.")
        spec = url if seeds is None else seeds
        self.seeds = [] if spec is None else read_seeds(spec)
        self.needs_demo = spec is None
        self._follow = follow
        self._allow = allow
        self._deny = deny
        self._rules: dict[str, Any] = {}
        self._depth_limit = 0
        self._stats: StatsCollector | None = None
        self._strips_sessions = False
        self._obeys_nofollow = True
        self._robot: str | None = None
        self._yields_requests = False
        self.scope = self._make_scope("site", None)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Create the spider, with the heuristics that the settings enable.

        Without seeds it serves the demo web, and in a replay the recording, and crawls that on
        loopback. Invalid arguments are refused when the crawl starts.
        """
        crawl = CrawlContext.of(crawler)
        try:
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider._opened, signal=signals.spider_opened)
            read = partial(read_setting, crawler.settings)
            if read("CONCURRENT_REQUESTS") == 0:
                raise ConfigError(
                    "CONCURRENT_REQUESTS is 0, which means no limit in Scrapy; give the spider "
                    "'site' a whole number of 1 or more."
                )
            spider._rules = _rules(crawler.settings)
            spider._depth_limit = read("DEPTH_LIMIT")
            spider._strips_sessions = read("CRAWLPRIO_HEURISTICS") and read(
                "CRAWLPRIO_STRIP_SESSIONS"
            )
            spider._obeys_nofollow = not read("CRAWLPRIO_FOLLOW_NOFOLLOW")
            spider._robot = read("ROBOTSTXT_USER_AGENT")
            recording = read("CRAWLPRIO_REPLAY")
            if spider.needs_demo or recording:
                try:
                    web = crawl.serve(recording)
                except StoreError as error:  # the argument is invalid, not a store of ours
                    raise ConfigError(str(error)) from None
                missing = [seed for seed in spider.seeds if recording and not web.has(seed)]
                if missing:
                    raise ConfigError(
                        f"seed {missing[0]} is not in the {web.name}; give a URL that is, or none "
                        "to use the recording's own seeds."
                    )
                spider.use_web(list(spider.seeds or web.seeds), web.hosts)
            else:
                crawl.awaits_seeds = True
                spider._rules["private"] = crawl.addresses
                spider.scope = spider._make_scope("site", None)
            crawl.parts.add(spider.part_of(crawl))
            check_same_seeds(crawler.settings, None if crawl.web else spider.seeds)
        except CrawlprioError as refusal:
            spider = super().from_crawler(crawler)
            crawl.refuse(refusal)
        return spider

    def part_of(self, crawl: CrawlContext) -> CrawlPart:
        """Return what takes part in the crawl for this spider."""
        return FetchCheck(crawl)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that define the crawl, by name."""
        given = (self.seeds, self._follow, self._allow, self._deny)
        return dict(zip(ARGUMENTS, given, strict=True))

    def use_web(self, seeds: list[str], hosts: Iterable[str]) -> None:
        """Crawl a web that consists of `hosts`, from these seeds; call it before `start`.

        `follow` then defaults to `web`.
        """
        self.seeds = list(dict.fromkeys(normalise_url(seed) or seed for seed in seeds))
        self.needs_demo = False
        self._strips_sessions = False
        self._rules |= {"private": None, "traps": Traps(None, None, None)}
        self.scope = self._make_scope("web", hosts)

    async def start(self) -> AsyncIterator[Any]:
        """Pass the seeds to the scheduler in one batch, in order."""
        crawl = CrawlContext.of(self.crawler)
        if crawl.is_running and crawl.recorder.store is not None and crawl.recorder.resumes:
            for url in crawl.recorder.store.redirected_seeds():
                self.scope.add_seed(url)
        try:
            await crawl.admit_seeds(map(host_of, self.seeds))
        finally:
            crawl.awaits_seeds = False
        add_seeds = getattr(self.crawler.engine.scheduler, "add_seeds", None)
        if add_seeds is not None:
            add_seeds(self.seeds)
            return
        self._yields_requests = True
        for url in self.seeds:
            yield Request(url)

    def parse(self, response: Response, **_: Any) -> Iterator[LinkPairs | Request]:
        """Yield the links of a page as one item; yield nothing for an error response."""
        if not 200 <= response.status < 300:
            return
        source = self._source(response)
        depth = response.meta.get("depth", 0) if response.request is not None else 0
        if depth == 0:
            self._add_redirected_site(response)
        crawl = CrawlContext.of(self.crawler)
        kind = type_of(response)
        names = self._names(response)
        page = read_page(crawl, response, kind.header, names) if kind.is_html else ParsedPage()
        pairs = pairs_of(crawl, response, page, len(page.urls))
        pairs.source = source
        nofollow = self._obeys_nofollow and (page.nofollow or _says_nofollow(response, names))
        try:
            self._sort_links(page, pairs, depth + 1, nofollow)
        except ConfigError as error:  # `allow` or `deny` takes too long
            crawl.fail(error)
            return
        yield pairs
        if self._yields_requests:
            for url in pairs.targets:
                yield Request(url, meta={"depth": depth + 1})

    def _sort_links(self, page: ParsedPage, pairs: LinkPairs, depth: int, nofollow: bool) -> None:
        """Assign each link of a page to the targets or to `outside`."""
        if page.cut and self._stats is not None:
            self._stats.inc_value(f"crawlprio/cut/{page.cut}")
        if page.n_dropped:
            self._refuse("long-url", page.n_dropped)
        urls, anchors = self._urls_of(page), page.anchors
        if nofollow or 0 < self._depth_limit < depth:
            refusals = ["nofollow" if nofollow else "depth"] * len(urls)
        else:
            refusals = self.scope.refuse_all(urls, depth)
            if self._obeys_nofollow and True in page.nofollows:
                refusals = [
                    "nofollow" if link_nofollow else refusal
                    for link_nofollow, refusal in zip(page.nofollows, refusals, strict=True)
                ]
        if pairs.source in urls:
            others = [url != pairs.source for url in urls]
            urls, anchors, refusals = (
                list(compress(column, others)) for column in (urls, anchors, refusals)
            )
        if not any(refusals):
            pairs.targets, pairs.anchors = urls, anchors
            return
        followed = [not refusal for refusal in refusals]
        pairs.targets = list(compress(urls, followed))
        pairs.anchors = list(compress(anchors, followed))
        pairs.outside = list(compress(zip(urls, anchors, strict=True), refusals))
        for refusal in filter(None, dict.fromkeys(refusals)):
            of_rule = (url for url, rule in zip(urls, refusals, strict=True) if rule == refusal)
            self._refuse(refusal, refusals.count(refusal), of_rule)

    def _names(self, response: Response) -> frozenset[str]:
        """Return the names of the robot that asked for a response, as a robots.txt knows it."""
        agent = self._robot or (response.request and response.request.headers.get("User-Agent"))
        return products(
            to_unicode(agent or read_setting(self.crawler.settings, "USER_AGENT") or "")
        )

    def _urls_of(self, page: ParsedPage) -> list[str]:
        """Return the URLs of the links of a page, without session ids and the like."""
        if self._strips_sessions:
            joined = "".join(page.urls)
            if "?" in joined or ";" in joined or "(" in joined:
                return list(map(without_noise, page.urls))
        return page.urls

    def _opened(self) -> None:
        self._stats = self.crawler.stats
        crawl = CrawlContext.of(self.crawler)
        is_replay = read_setting(self.crawler.settings, "CRAWLPRIO_REPLAY") is not None
        if crawl.is_running and crawl.recorder.store is not None and not is_replay:
            seeds = None if crawl.web is not None else self.seeds
            record_arguments(
                crawl.recorder.store, {**self.arguments, "seeds": seeds}, self.crawler.settings
            )
        if crawl.is_running:
            self._ask_for_contact()
            if crawl.config.keeps_items and type(self) is SiteSpider:
                logger.warning(
                    "CRAWLPRIO_ITEMS is on, but the spider 'site' yields only link pairs, which "
                    "are not items; the store keeps them as links."
                )

    def _ask_for_contact(self) -> None:
        """Say once that a crawl of the open web names nobody whom its sites could reach."""
        settings = self.crawler.settings
        agent = str(read_setting(settings, "USER_AGENT"))
        crawl = CrawlContext.of(self.crawler)
        is_local = crawl.web or read_setting(settings, "CRAWLPRIO_LOOPBACK")
        if is_local or crawl.tell_coordinator or "@" in agent or "://" in agent:
            return
        if any(PrivateAddresses("refuse").allows_host(host_of(seed)) for seed in self.seeds):
            notice(
                f"the user agent, {agent}, names nobody whom the owners of a site could reach; "
                "add one with --contact (CRAWLPRIO_CONTACT), or set USER_AGENT."
            )

    def _refuse(self, rule: str, n_links: int, urls: Iterable[str] = ()) -> None:
        """Count links that a rule refused, once the crawl has started."""
        if self._stats is not None:
            CrawlContext.of(self.crawler).refuse_links(rule, n_links, urls)

    def _source(self, response: Response) -> str:
        """Return the URL under which a page was requested."""
        request = response.request
        is_asked_for = request is not None and "redirect_urls" not in request.meta
        url = request.url if request is not None and is_asked_for else response.url
        return normalise_url(url) or url

    def _add_redirected_site(self, response: Response) -> None:
        """Add to the scope the site that a seed redirects to."""
        request = response.request
        if request is None or self.scope.follow == "web" or "redirect_urls" not in request.meta:
            return
        asked = normalise_url(request.meta["redirect_urls"][0])
        arrived = normalise_url(response.url)
        if asked in self.seeds and arrived is not None and self.scope.add_seed(arrived):
            logger.info("Seed %s redirects to %s; that site is crawled too.", asked, arrived)
            tell_coordinator = CrawlContext.of(self.crawler).tell_coordinator
            if tell_coordinator is not None:
                tell_coordinator(["scope", arrived])

    def _make_scope(self, follow: str, hosts: Iterable[str] | None) -> Scope:
        """Return the scope that arguments and settings define."""
        return Scope(
            self.seeds,
            self._follow or follow,
            allow=self._allow,
            deny=self._deny,
            hosts=hosts,
            **self._rules,
        )


def recorded_scope(
    arguments: Mapping[str, Any], settings: BaseSettings, redirected: Iterable[str]
) -> Scope:
    """Return the scope of a crawl with these arguments and settings, but for private addresses.

    `redirected` are the URLs that its seeds redirected to.
    """
    spider = SiteSpider(**arguments)
    spider._rules = _rules(settings)
    scope = spider._make_scope("site", None)
    for url in redirected:
        scope.add_seed(url)
    return scope


def _says_nofollow(response: Response, names: Collection[str]) -> bool:
    """Return whether X-Robots-Tag headers tell a robot not to follow links."""
    tags = response.headers.getlist("X-Robots-Tag")
    return bool(tags) and forbids("nofollow", (tag.decode("latin-1") for tag in tags), names)


def _rules(settings: BaseSettings) -> dict[str, Any]:
    read = partial(read_setting, settings)
    return {
        "heuristics": read("CRAWLPRIO_HEURISTICS"),
        "traps": Traps(
            max_repeats=read("CRAWLPRIO_MAX_REPEATED_SEGMENTS"),
            max_segments=read("CRAWLPRIO_MAX_PATH_SEGMENTS"),
            max_parameters=read("CRAWLPRIO_MAX_QUERY_PARAMETERS"),
        ),
        "max_static_depth": read("CRAWLPRIO_MAX_STATIC_DEPTH"),
        "max_dynamic_depth": read("CRAWLPRIO_MAX_DYNAMIC_DEPTH"),
        "skip_extensions": read("CRAWLPRIO_SKIP_EXTENSIONS"),
    }
