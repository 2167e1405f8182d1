"""The downloader middleware that holds each page until the robots.txt of its site permits it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import lru_cache
from sys import intern
from time import time

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import ProtegoRobotParser, RobotParser
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.python import to_unicode
from twisted.internet.defer import Deferred

from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.crawl_counters import cause_of
from crawlprio.live.requests import USAGES
from crawlprio.settings_table.config import read_setting
from crawlprio.store.outcomes import ROBOTS, UNREACHABLE
from crawlprio.web import robots_txt
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.content import CUT, NOT_DECODED, is_binary
from crawlprio.web.robots_txt import USAGE_LINE, RobotsFiles, RobotsTxt, UsageRules, can_be_read

logger = logging.getLogger("crawlprio")

MAX_REDIRECTS = 5
"""Maximum number of redirects followed from a robots.txt: RFC 9309, section 2.3.1.2."""

MAX_BYTES_KEPT = 64 * 1024 * 1024
"""Bound on the rules kept for all sites together, in bytes."""

MAX_RULES_PARSED = 50_000
"""Maximum number of rules kept parsed for all sites together, which takes up to 30 MB."""

_REFUSED_TO_PAGES = "refused"


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's robots.txt middleware, which checks every page, at bounded cost.

    In Scrapy, all pages handed out while the file is being fetched wait for one Deferred. It passes
    the rules to the first of them and None to the others, so that with three or more concurrent
    fetches pages go unchecked. Here each page asks again once the file has arrived.

    A file that could not be read, whatever the reason, forbids everything until it can be, unless
    CRAWLPRIO_ROBOTS_UNREACHABLE is `allow`: then everything is allowed, as in Scrapy. Pages that it
    forbids fail after the project's own retries of the file, and are counted as
    `crawlprio/refused/robots-unreachable`.

    A file is fetched once, whichever robots ask. The rules for each are parsed with Protego, as in
    Scrapy, and announced (`robots_parsed`) when it first asks. Each file that has more than the
    limits allow is counted as `crawlprio/cut/robots-rules`.
    A project's own ROBOTSTXT_PARSER gets the whole file, up to half a megabyte.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._forbids = read_setting(crawler.settings, "CRAWLPRIO_ROBOTS_UNREACHABLE") == "forbid"
        parser: object = self._parserimpl
        self._reduces = parser is ProtegoRobotParser
        self._own_agent = to_unicode(self._robotstxt_useragent or self._default_useragent or "*")
        self._crawl = CrawlContext.of(crawler)
        self._files = RobotsFiles(MAX_BYTES_KEPT)
        self._waiting: dict[str, list[Deferred[None]]] = {}
        self._parsed: OrderedDict[str, RobotParser] = OrderedDict()
        self._n_parsed = 0

    def waiting(self) -> dict[str, int]:
        """Return how many pages wait for each robots.txt that is being read, by host and port."""
        return {netloc: 1 + len(others) for netloc, others in self._waiting.items()}

    def judged(self, url: str) -> str:
        """Return why a page may not be fetched, by the files read so far; empty if it may."""
        request = Request(url)
        file, agent = self._files.get(_netloc(request)), self._agent(request)
        if file is None:
            return "its robots.txt was not read"
        if file.cause:
            return f"{UNREACHABLE} ({file.cause})" if self._forbids else ""
        rules = file.rules.get(agent)
        if rules is None:
            rules = robots_txt.rules_for(file.text, agent)[0] if self._reduces else file.text
        robot = agent or self._robotstxt_useragent or self._default_useragent
        return "" if self._parser(rules).allowed(url, robot) else ROBOTS

    def permits(self, request: Request) -> bool:
        """Return whether a file that need not be fetched again permits a request."""
        file, agent = self._files.get(_netloc(request)), self._agent(request)
        rules = None if file is None else file.rules.get(agent)
        if file is None or file.cause or rules is None or not _decides(file, request):
            return False
        self._note_usage(request, rules)
        robot = agent or self._robotstxt_useragent or self._default_useragent
        return self._parser(rules).allowed(request.url, robot)

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """Return the rules for the site of a request once it has them; None allows everything."""
        netloc, agent = _netloc(request), self._agent(request)
        file = self._files.get(netloc)
        while file is None or not _decides(file, request):
            waiting = self._waiting.get(netloc)
            if waiting is None:
                file = await self._read(netloc, agent, request, file)
                break
            own: Deferred[None] = Deferred()
            waiting.append(own)
            await maybe_deferred_to_future(own)
            file = self._files.get(netloc)
        if not file.cause:
            rules = await self._rules(netloc, agent, file, request)
            self._note_usage(request, rules)
            return self._parser(rules)
        if not self._forbids:
            return None
        self._stats.inc_value("crawlprio/refused/robots-unreachable")
        raise RobotsUnreachable(f"{UNREACHABLE} ({file.cause})")

    def _note_usage(self, request: Request, rules: str) -> None:
        """Keep the preferences on the use of a page, for its visit."""
        if self._reduces and USAGE_LINE in rules:
            USAGES[request] = _usage_rules(rules).preferences(request.url)

    def _agent(self, request: Request) -> str:
        """Return the robot whose rules apply to a request, as in Scrapy; empty for all robots."""
        if not self._reduces:
            return ""
        own = self._robotstxt_useragent or request.headers.get(
            "User-Agent", self._default_useragent
        )
        return intern(to_unicode(own or "*"))

    async def _read(
        self, netloc: str, agent: str, request: Request, before: RobotsTxt | None
    ) -> RobotsTxt:
        """Read the robots.txt of a site, for its first page; if that fails, `before` remains."""
        self._waiting[netloc] = []
        try:
            file = await self._fetch(netloc, agent, request)
            if file.cause and before is not None and not before.cause:
                file = before._replace(fetched_at=file.fetched_at, lasts=file.lasts)
            self._files.keep(netloc, file)
        finally:
            for page in self._waiting.pop(netloc):
                page.callback(None)
        return file

    async def _fetch(self, netloc: str, agent: str, request: Request) -> RobotsTxt:
        url = f"{urlparse_cached(request).scheme}://{netloc}/robots.txt"
        robots = Request(
            url,
            priority=self.DOWNLOAD_PRIORITY,
            meta={"dont_obey_robotstxt": True, "redirect_ttl": MAX_REDIRECTS},
            callback=NO_CALLBACK,
        )
        if ALLOW_PRIVATE in request.meta:
            robots.meta[ALLOW_PRIVATE] = request.meta[ALLOW_PRIVATE]
        self._stats.inc_value("robotstxt/request_count")
        try:
            response = await self.crawler.engine.download_async(robots)
            cause, is_refused = f"status {response.status}", False
            if can_be_read(response.status):
                cause = _fault(response)
            if not (cause and self._forbids):
                return await self._answered(response, agent, request)
        except Exception as error:
            is_refused = isinstance(error, IgnoreRequest)
            if is_refused:
                cause = "refused by a middleware" if _is_own(request) else _REFUSED_TO_PAGES
            else:
                cause = cause_of(error, robots)
                self._stats.inc_value(f"robotstxt/exception_count/{type(error)}")
        if not is_refused:
            logger.error(
                "%s could not be read: %s%s.",
                url,
                cause,
                f"; nothing of the site is fetched for {robots_txt.ASK_AGAIN} s"
                if self._forbids
                else "",
            )
        return RobotsTxt(b"", time(), robots_txt.ASK_AGAIN, cause)

    async def _answered(self, response: Response, agent: str, request: Request) -> RobotsTxt:
        """Return the rules that a response holds, and announce them."""
        self._stats.inc_value("robotstxt/response_count")
        self._stats.inc_value(f"robotstxt/response_status_count/{response.status}")
        # The page that comes with an error is no robots.txt, whatever it says.
        is_file = 200 <= response.status < 300
        text = robots_txt.decoded(response.body) if is_file else ""
        await self._announce(text, agent, request, is_cut=len(response.body) > robots_txt.MAX_BYTES)
        cache_control = (response.headers.get("Cache-Control") or b"").decode("latin-1")
        lasts = robots_txt.validity(cache_control)
        return RobotsTxt(robots_txt.pack(text), time(), lasts, agent=agent)

    async def _rules(self, netloc: str, agent: str, file: RobotsTxt, request: Request) -> str:
        """Return the rules of a file for a robot; announce them if it was fetched for another."""
        file = self._files.get(netloc) or file
        rules = file.rules.get(agent)
        if rules is None:
            text = file.text
            rules = robots_txt.rules_for(text, agent)[0] if self._reduces else text
            self._files.keep(netloc, file.with_rules(agent, rules))
            if self._reduces and agent == self._own_agent:
                self._crawl.recorder.keep_robots(netloc, robots_txt.permissions(rules))
            if agent != file.agent:
                await self._announce(text, agent, request)
        return rules

    async def _announce(
        self, text: str, agent: str, request: Request, *, is_cut: bool = False
    ) -> None:
        """Tell the project of the rules for a robot, and count them if the limits drop any."""
        if self._reduces:
            text, drops_rules = robots_txt.rules_for(text, agent)
            if is_cut or drops_rules:
                self._stats.inc_value("crawlprio/cut/robots-rules")
        await self.crawler.signals.send_catch_log_async(
            signals.robots_parsed, robotparser=self._parser(text), request=request
        )

    def _parser(self, rules: str) -> RobotParser:
        """Return the parser of some rules, which all sites with the same rules share."""
        parser = self._parsed.pop(rules, None)
        if parser is None:
            parser = build_from_crawler(self._parserimpl, self.crawler, rules.encode())
            self._n_parsed += _weight(rules)
            while self._parsed and self._n_parsed > MAX_RULES_PARSED:
                self._n_parsed -= _weight(self._parsed.popitem(last=False)[0])
        self._parsed[rules] = parser
        return parser


class RobotsUnreachable(IgnoreRequest):
    """A page is not fetched because the robots.txt of its site could not be read."""


_usage_rules = lru_cache(maxsize=100)(UsageRules)


def _fault(response: Response) -> str:
    """Return why the body of a robots.txt cannot be read, or not to its end."""
    if not 200 <= response.status < 300:
        return ""
    if "Content-Encoding" in response.headers and is_binary(response.body):
        return NOT_DECODED
    return CUT if "dataloss" in response.flags else ""


def _netloc(request: Request) -> str:
    """Return host and port of a request, without the name and password that its URL may have."""
    return urlparse_cached(request).netloc.rpartition("@")[2]


def _is_own(request: Request) -> bool:
    return bool(request.meta.get(ALLOW_PRIVATE, True))


def _decides(file: RobotsTxt, request: Request) -> bool:
    """Return whether a file need not be fetched again for a request.

    What the guard refuses to a page, it does not refuse to the project.
    """
    is_for_pages = file.cause == _REFUSED_TO_PAGES
    return file.is_valid(time()) and not (is_for_pages and _is_own(request))


def _weight(rules: str) -> int:
    """Return how many rules count for a parsed file, whatever it has."""
    return 10 + rules.count("\n")
