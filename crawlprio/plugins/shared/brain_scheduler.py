"""The scheduler of the brain: it lets hands fetch, and looks after them."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier.protocol import Handout, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.counts import cause_of
from crawlprio.live.dispatch import AtOnce, Packing, site_of
from crawlprio.live.engine import sleep
from crawlprio.live.local_frontier import HostClock, LocalFrontier
from crawlprio.live.page_reading import USAGES
from crawlprio.live.workers import WorkersDied
from crawlprio.middlewares.permission import RobotsMiddleware
from crawlprio.plugins.shared.brain import Brain, Hand
from crawlprio.plugins.shared.messages import Statement
from crawlprio.plugins.shared.wires import NearHand, beat
from crawlprio.schedulers import Scheduler
from crawlprio.settings_table.config import CrawlConfig, read_setting, writes_feeds
from crawlprio.spiders.site import SiteSpider

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger("crawlprio")

LOOK_SECONDS = 0.05
"""Seconds between two looks at whether a site may be fetched from."""

MOST_FUTILE = 8
"""Workers that may die, one after the other, without having finished a page."""

END_SECONDS = 10.0
"""Seconds that hands get to end, and Redis to take what is left."""


def check_limits(config: CrawlConfig, because: str) -> None:
    """Refuse what several hands cannot do, `because` there are several."""
    model = config.value_model
    if model is not None and model.learns:
        raise ConfigError(
            f"{because}, and the value model {model.name} learns from each page, which several "
            "workers cannot; leave out one of them."
        )


class BrainScheduler(Scheduler):
    """The scheduler of the process that has the frontier: it fetches no page, but lets hands.

    It keeps robots.txt and delays: a page goes to a hand when it may be fetched at that moment.
    Sitemaps and page requisites are fetched here, as in a crawl with one process.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._hands: dict[Any, None] = {}
        self._n_preparing = self._n_futile = 0
        self._is_ending = False
        self._is_only_counted: bool | None = None
        self._looked_at = monotonic()
        self._seeds_arrived: list[str] = []

    def open(self, spider: Spider) -> None:
        crawl = self._crawl
        try:
            self._check_supported(crawl.config, spider)
        except CrawlprioError as error:
            crawl.refuse(error)
        super().open(spider)
        if crawl.failure is not None or self.dispatcher is None:
            return
        frontier = crawl.frontier
        assert isinstance(frontier, LocalFrontier)
        self._frontier = frontier
        self._brain = Brain(frontier)
        crawl.workers = self._brain
        self._brain.hands = self._hands
        self._clock = frontier.clock = SharedClock(frontier.clock, self._brain)
        self._packing = Packing(self._crawler, frontier, crawl.config.kept_headers)
        self._at_once = AtOnce(crawl.config.concurrency, crawl.config.max_concurrent_requests)
        self._alarm = engine.Alarm(self._progressed)
        self._term = float(self._read("CRAWLPRIO_LEASE_SECONDS"))
        store = crawl.recorder.store
        if store is not None and crawl.recorder.resumes:
            self._seeds_arrived += store.redirected_seeds()
        self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)

    def _check_supported(self, config: CrawlConfig, spider: Spider) -> None:
        """Refuse what several workers cannot do together."""
        if not isinstance(spider, SiteSpider):
            raise ConfigError(
                f"CRAWLPRIO_WORKERS is set, but the spider is {spider.name!r}; only the spider "
                "'site' can have workers: leave it out, or set CRAWLPRIO_FRONTIER = 'redis'."
            )
        if self._read("CRAWLPRIO_FRONTIER") == "redis":
            raise ConfigError(
                "CRAWLPRIO_WORKERS is about processes of one machine, but CRAWLPRIO_FRONTIER is "
                "'redis', where each worker is started by itself; leave out one of them."
            )
        if writes_feeds(self._crawler.settings):
            raise ConfigError(
                "CRAWLPRIO_WORKERS is set, and items go to a file (FEEDS, -o), which each worker "
                "would write; leave out one of them: the store has all pages and links."
            )
        check_limits(config, "CRAWLPRIO_WORKERS is set")

    def _read(self, name: str) -> Any:
        return read_setting(self._crawler.settings, name)

    def _spider_opened(self) -> None:
        if self._crawl.failure is not None:
            return
        found = self._crawler.get_downloader_middleware(RobotsMiddleware)
        self._robots = found if isinstance(found, RobotsMiddleware) else None
        self._open_hands()
        self._beat = beat(self._look_after_hands, self._term)
        engine.before_closing(self._crawler, self._drain)

    def _open_hands(self) -> None:
        for _ in range(self._read("CRAWLPRIO_WORKERS")):
            self._start_hand()

    def close(self, reason: str) -> None:
        self._is_ending = True
        hands, self._hands = self._hands, {}
        for hand in hands:
            hand.kill()
        if hasattr(self, "_alarm"):
            self._alarm.cancel()
        if hasattr(self, "_beat"):
            self._beat.stop()
        super().close(reason)

    def has_pending_requests(self) -> bool:
        return super().has_pending_requests() or self._n_out > 0

    @property
    def _n_out(self) -> int:
        """Pages that hands have, or are about to get."""
        return self._n_preparing + (self._brain.n_leased if hasattr(self, "_brain") else 0)

    # Pages to hands

    def next_request(self) -> Request | None:
        """Hand out what may be fetched; return None, as nothing is fetched here."""
        if self._crawl.awaits_seeds or self._crawl.failure is not None or self._is_ending:
            return None
        try:
            while self._has_room():
                handout = self._frontier.next_page(monotonic())
                if handout is None:
                    break
                self._n_preparing += 1
                deferred_from_coro(self._prepare(handout)).addErrback(self._failed)
            else:
                return None
            self._alarm.set(self._frontier.ready_at())
        except CrawlprioError as error:
            self._crawl.fail(error)
        return None

    def _has_room(self) -> bool:
        """Return whether some hand could take another page."""
        return bool(self._hands) and self._n_out < self._at_once.now

    def _choose(self) -> Hand | None:
        """Return the hand that gets the next page; None if none can take it."""
        return min(self._hands, key=lambda each: len(each.leases), default=None)

    async def _prepare(self, handout: Handout) -> None:
        """Give a page to a hand once robots.txt and the delay of its site allow it."""
        try:
            clock, request = self._clock, None
            if handout.request is not None or self._robots is not None:
                request = self._packing.unpack(handout)
            site = site_of(request) if request else self._frontier.site_of(handout.lease)
            self._at_once.fetch_from(site)
            cause = await self._cause_against(request) if request else ""
            if cause:
                clock.not_fetched(site)
                refused = PageVisit(LinkPairs(handout.url, [], status=0), error=cause)
                self._frontier.observe(handout.lease, refused)
                return
            hand = self._choose()
            while hand is None or not clock.may_start(site) or self._crawler.engine.paused:
                if self._is_ending:
                    break
                await sleep(LOOK_SECONDS)
                hand = self._choose()
            if self._is_ending or hand is None:
                clock.not_fetched(site)
                self._frontier.put_back(handout.lease)
                return
            self._brain.lease(hand, handout, USAGES.get(request, "") if request else "")
        finally:
            self._n_preparing -= 1
            self._progressed()

    async def _cause_against(self, request: Request) -> str:
        """Return why a request must not be fetched (robots.txt, say); empty if it may."""
        try:
            if self._robots is not None:
                await self._robots.process_request(request)
        except IgnoreRequest as error:
            return cause_of(error, request)
        return ""

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, CrawlprioError):
            self._crawl.fail(error)
        else:
            logger.error("A page could not be handed out: %s", failure.getTraceback())
            self._crawl.fail(WorkersDied(f"A page could not be handed out: {error}."))

    def _progressed(self) -> None:
        """Wake the engine, which asks for more or finds that nothing is left."""
        engine.wake(self._crawler)

    async def _drain(self, reason: str) -> None:
        """Wait until hands have finished what they have, and have ended."""
        self._is_ending = True
        while self._n_out and self._hands and self._crawl.failure is None:
            await sleep(LOOK_SECONDS)
        for hand in self._hands:
            hand.send([["end", "finished"]])
        until = monotonic() + END_SECONDS
        while self._hands and monotonic() < until:
            await sleep(LOOK_SECONDS)

    # Hands

    def _start_hand(self) -> None:
        config = self._crawl.config
        facts = {
            "archives": config.warc_folder is not None,
            "at_once": self._at_once.most,
            "seeds": self._seeds_arrived,
            "term": self._term,
        }
        self._hands[NearHand(facts, self._heard, self._lost)] = None

    def _heard(self, hand: Hand, statements: list[Statement]) -> None:
        if hand not in self._hands:
            return
        hand.heard_at = monotonic()
        try:
            for statement in statements:
                self._receive(hand, statement)
        except CrawlprioError as error:
            self._crawl.fail(error)
        self._progressed()

    def _receive(self, hand: Hand, statement: Statement) -> None:
        """Carry out what a hand says, of the frontier or besides."""
        kind, *said = statement
        own = getattr(self, f"_{kind}_said", None)
        if own is not None:
            own(hand, *said)
            return
        n_before = self._brain.n_leased
        self._brain.received(hand, [statement])
        if kind == "observe":
            self._count_response(said[1])
        if self._brain.n_leased < n_before:
            self._n_futile = 0

    def _count_response(self, visit: Statement) -> None:
        """Report the responses of hands to Scrapy's extensions that count them."""
        source, status = visit[0][0], visit[0][4]
        if self._is_only_counted is None:
            of_responses = signals.response_received
            self._is_only_counted = engine.is_only_counted(self._crawler, of_responses)
        if status and self._is_only_counted:  # with no response to make, in a fifth of the time
            self._crawler.stats.inc_value("response_received_count")
        elif status:
            self._crawler.signals.send_catch_log(
                signals.response_received,
                response=Response(source, status=status),
                request=Request(source),
                spider=self._crawler.spider,
            )

    def _lost(self, hand: NearHand) -> None:
        """Start another hand in place of one that has ended, and let its pages wait again."""
        if hand not in self._hands:
            return
        del self._hands[hand]
        hand.kill()
        if self._is_ending and self._crawl.failure is not None:
            return
        try:
            self._brain.died(hand)
        except CrawlprioError as error:
            self._crawl.fail(error)
            return
        self._n_futile += 1
        if self._n_futile > MOST_FUTILE:
            self._crawl.fail(
                WorkersDied(
                    f"{MOST_FUTILE} workers in a row died before they had fetched a page; what "
                    "they said is above. Crawl without --workers to see more."
                )
            )
        elif not self._is_ending:
            logger.warning("A worker (%s) died; another takes its place.", hand.name)
            self._crawler.stats.inc_value("crawlprio/workers_died")
            self._start_hand()
        self._progressed()

    def _look_after_hands(self) -> None:
        """Give up hands that are silent for too long."""
        now = monotonic()
        was_deaf = now - self._looked_at > self._term / 2 or self._was_down()
        self._looked_at = now
        for hand in [*self._hands]:
            if was_deaf:  # what they said meanwhile is not read yet
                hand.heard_at = max(now, hand.heard_at)
            elif now - hand.heard_at > self._term:
                self._give_up(hand)

    def _was_down(self) -> bool:
        """Return whether hands could not be heard since the last call, though this process ran."""
        return False

    def _give_up(self, hand: Any) -> None:
        hand.kill()  # its end is then noticed like any other

    # What hands say besides

    def _refused_said(self, hand: Hand, rule: str, n_links: int, urls: list[str]) -> None:
        store = self._crawl.recorder.store
        if store is not None:
            store.refuse(rule, n_links, urls)

    def _stats_said(self, hand: Hand, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            self._crawler.stats.inc_value(name, count)

    def _scope_said(self, hand: Hand, url: str) -> None:
        self._seeds_arrived.append(url)
        scope = getattr(self._crawler.spider, "scope", None)
        if scope is not None:
            scope.add_seed(url)
        for each in self._hands:
            each.send([["scope", url]])


class SharedClock(HostClock):
    """The clock of a brain: its own fetches wait for those of hands, and the other way round."""

    def __init__(self, clock: HostClock, brain: Brain) -> None:
        self.__dict__.update(vars(clock))
        self._brain = brain

    def has_room(self, site: str) -> bool:
        return super().has_room(site) and not self._brain.holds(site)

    def is_idle(self, site: str) -> bool:
        """Return whether a hand may fetch what is no page from a site now."""
        is_idle = self.sites.is_idle(self._site(site), monotonic())
        return is_idle and not self._brain.outside[site]

    def may_start(self, site: str) -> bool:
        """Return whether a hand may be given a page of a site now.

        Where a site may have several fetches at once, its delay runs from the start of the last
        one, which a hand has to tell first.
        """
        number = self._site(site)
        if self._brain.starting[site] and self.sites.delay(number) > 0:
            return False
        return self.sites.may_start(number, monotonic())
