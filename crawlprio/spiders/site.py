"""The `site` spider: one `LinkPairs` item for each page."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.http import HtmlResponse, Response

from crawlprio.errors import ConfigError, CrawlprioError, StoreError
from crawlprio.graph.compiled import say
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.page_reading import content_type_of, pairs_of, read_page
from crawlprio.live.running import Callbacks, RunningCrawl
from crawlprio.live.spider_arguments import ARGUMENTS, check_same_seeds, record_arguments
from crawlprio.settings_table.config import read_setting
from crawlprio.store.outcomes import ROBOTS
from crawlprio.web.addresses import PrivateAddresses
from crawlprio.web.html import ParsedPage
from crawlprio.web.scope import Scope, Traps, read_seeds, without_session
from crawlprio.web.urls import host_of, normalise_url

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    from crawlprio.live.virtual import VirtualWeb

logger = logging.getLogger("crawlprio")

_HTML = ("text/html", "application/xhtml+xml")
_ARGUMENTS = ("seeds", "url", "follow", "allow", "deny")
_ROBOTS_RULES_WITH_VALUE = (
    "unavailable_after",
    "max-snippet",
    "max-image-preview",
    "max-video-preview",
)


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
        self._yields_requests = False
        self.scope = self._make_scope("site", None)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Create the spider, with the heuristics that the settings enable.

        Without seeds it serves the demo web, and in a replay the recording, and crawls that on
        loopback. Invalid arguments are refused when the crawl starts.
        """
        crawl = RunningCrawl.of(crawler)
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
            recording = read("CRAWLPRIO_REPLAY")
            if spider.needs_demo or recording:
                try:
                    web = crawl.serve(recording)
                except StoreError as error:  # the argument is invalid, not a store of ours
                    raise ConfigError(str(error)) from None
                if recording:
                    _check_recorded(spider.seeds, web)
                spider.use_web(list(spider.seeds or web.seeds), web.hosts)
            else:
                crawl.awaits_seeds = True
                spider._rules["private"] = crawl.addresses
                spider.scope = spider._make_scope("site", None)
            crawl.parts.add(Callbacks(closed=spider._check_fetched))
            check_same_seeds(crawler.settings, None if crawl.web else spider.seeds)
        except CrawlprioError as refusal:
            spider = super().from_crawler(crawler)
            crawl.refuse(refusal)
        return spider

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
        crawl = RunningCrawl.of(self.crawler)
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
        crawl = RunningCrawl.of(self.crawler)
        kind = content_type_of(response)
        page = read_page(crawl, response, kind) if _is_html(response, kind) else ParsedPage()
        pairs = pairs_of(crawl, response, page)
        pairs.source = source
        nofollow = self._obeys_nofollow and (page.nofollow or _says_nofollow(response))
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
        if page.cut:
            self._count_cut(page.cut)
        if page.n_dropped:
            self._refuse("long-url", page.n_dropped)
        urls, anchors = self._urls_of(page), page.anchors
        if nofollow or 0 < self._depth_limit < depth:
            pairs.outside = [
                (url, anchor)
                for url, anchor in zip(urls, anchors, strict=True)
                if url != pairs.source
            ]
            if pairs.outside:
                rule = "nofollow" if nofollow else "depth"
                self._refuse(rule, len(pairs.outside), (url for url, _ in pairs.outside))
            return
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

    def _urls_of(self, page: ParsedPage) -> list[str]:
        """Return the URLs of the links of a page, without session ids."""
        if self._strips_sessions:
            joined = "".join(page.urls)
            if "?" in joined or ";" in joined or "(" in joined:
                return list(map(without_session, page.urls))
        return page.urls

    def _opened(self) -> None:
        self._stats = self.crawler.stats
        crawl = RunningCrawl.of(self.crawler)
        is_replay = read_setting(self.crawler.settings, "CRAWLPRIO_REPLAY") is not None
        if crawl.is_running and crawl.recorder.store is not None and not is_replay:
            seeds = None if crawl.web is not None else self.seeds
            record_arguments(
                crawl.recorder.store,
                {**self.arguments, "seeds": seeds},
                self.crawler.settings,
            )
        if crawl.is_running:
            self._ask_for_contact()
            if crawl.config.keeps_items and type(self) is SiteSpider:
                logger.warning(
                    "CRAWLPRIO_ITEMS is on, but the spider 'site' yields only link pairs, which "
                    "are no items; the store has them as links."
                )

    def _ask_for_contact(self) -> None:
        """Say once that a crawl of the open web names nobody whom its sites could reach."""
        settings = self.crawler.settings
        agent = str(read_setting(settings, "USER_AGENT"))
        crawl = RunningCrawl.of(self.crawler)
        is_local = crawl.web or read_setting(settings, "CRAWLPRIO_LOOPBACK")
        if is_local or crawl.tell_brain or "@" in agent or "://" in agent:
            return
        if any(PrivateAddresses("refuse").allows_host(host_of(seed)) for seed in self.seeds):
            say(
                f"the user agent, {agent}, names nobody whom the owners of a site could reach; "
                "add one with --contact (CRAWLPRIO_CONTACT), or set USER_AGENT."
            )

    def _check_fetched(self, reason: str) -> None:
        """Make the command exit with an error if no page was fetched."""
        figures = RunningCrawl.of(self.crawler).recorder.figures
        causes = dict(figures.failures)
        if figures.n_forbidden:
            causes[ROBOTS] = figures.n_forbidden
        is_used_up = reason == "closespider_pagecount"
        if figures.n_fetched or not (causes or is_used_up):
            return
        counts = ", ".join(f"{cause}: {count:,}" for cause, count in causes.items())
        if causes:
            logger.error("No page could be fetched (%s); check the seeds.", counts)
        else:
            logger.error(
                "No page was fetched: robots.txt files used up CLOSESPIDER_PAGECOUNT; set "
                "CRAWLPRIO_MAX_PAGES (--pages) instead."
            )
        engine.exit_with_error(self.crawler)

    def _refuse(self, rule: str, n_links: int, urls: Iterable[str] = ()) -> None:
        """Count links that a rule refused, once the crawl has started."""
        if self._stats is not None:
            RunningCrawl.of(self.crawler).refuse_links(rule, n_links, urls)

    def _count_cut(self, reason: str) -> None:
        """Count a page that was not read to the end, once the crawl has started."""
        if self._stats is not None:
            self._stats.inc_value(f"crawlprio/cut/{reason}")

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
            tell_brain = RunningCrawl.of(self.crawler).tell_brain
            if tell_brain is not None:
                tell_brain(["scope", arrived])

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


def _check_recorded(seeds: list[str], web: VirtualWeb) -> None:
    """Raise `ConfigError` for a seed that is not in the recording."""
    for seed in seeds:
        if not web.has(seed):
            raise ConfigError(
                f"seed {seed} is not in the {web.name}; give a URL that is, or none to use the "
                "recording's own seeds."
            )


def _is_html(response: Response, content_type: str) -> bool:
    """Return whether a response is HTML, by its content type, or else by Scrapy's guess."""
    if content_type:
        return content_type.partition(";")[0].strip().lower() in _HTML
    return isinstance(response, HtmlResponse)


def _says_nofollow(response: Response) -> bool:
    """Return whether an X-Robots-Tag header tells all robots not to follow links."""
    for header in response.headers.getlist("X-Robots-Tag"):
        is_for_all = True
        for rule in header.decode("latin-1").lower().split(","):
            name, colon, rest = (part.strip() for part in rule.partition(":"))
            if colon and name not in _ROBOTS_RULES_WITH_VALUE:
                is_for_all = name == "*"
                name = rest
            if is_for_all and name in ("nofollow", "none"):
                return True
    return False


def _rules(settings: BaseSettings) -> dict[str, Any]:
    """Return the rules of a scope that the settings define."""
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
