"""The live view of a crawl: what it shows, and what a person may ask of the crawl in it."""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from time import monotonic, thread_time
from typing import Any

import numpy as np
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.asyncio import CallLaterResult, call_later, run_in_thread
from twisted.internet.error import CannotListenError

from crawlprio.errors import ConfigError, CrawlprioError, printable
from crawlprio.frontier.protocol import Frontier
from crawlprio.frontier.struct_layouts import LEASED, UNKNOWN, WAITING
from crawlprio.graph.compiled import notice
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext, CrawlPart, policy_of
from crawlprio.live.crawl_counters import time_left
from crawlprio.live.dispatch import site_of
from crawlprio.live.downloader import FetchObserver, observe_fetches
from crawlprio.live.leases import Lease, LeaseState
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.measure.explanations import explain_url
from crawlprio.measure.receipt_document import duration, sentences
from crawlprio.middlewares import RobotsMiddleware
from crawlprio.plugins.watch.monitor_server import Action, FewConnections, QuietSite, View
from crawlprio.ranking.pagerank import with_room
from crawlprio.settings_table.config import read_setting
from crawlprio.show.explanation_text import lines_of_url, reasons
from crawlprio.show.report_parts import MAX_TEXT, MAX_URL, page
from crawlprio.store.outcomes import ROBOTS
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.scope import Scope
from crawlprio.web.urls import normalise_url

MAX_SITES = 10_000
"""Sites that are noted: those fetched from last."""

_WEIGHT = 0.2
"""Weight of a fetch in the averages of its site; of those before it, a fifth less each."""

_BATCH = 256
"""Visits that are taken in at once."""

_HARMLESS = frozenset((404, 410))
"""Error statuses that say something of a page, and nothing of its site."""


@dataclass(slots=True)
class SiteTally:
    """The last fetches on a site, averaged with more weight on later ones."""

    n_fetches: int = 0
    seconds: float = 0.0
    failing: float = 0.0
    status: int = 0

    def add(self, seconds: float, status: int) -> None:
        """Add a fetch; `status` 0 if no response came."""
        has_failed = not status or (status >= 400 and status not in _HARMLESS)
        weight = max(_WEIGHT, 1 / (self.n_fetches + 1))
        self.n_fetches += 1
        self.seconds += weight * (seconds - self.seconds)
        self.failing += weight * (has_failed - self.failing)
        self.status = status


class SiteTallies(FetchObserver):
    """Tallies every fetch by its site, robots.txt included. Some 2 microseconds a fetch."""

    def __init__(self) -> None:
        self.tallies: OrderedDict[str, SiteTally] = OrderedDict()
        self._begun: dict[Request, float] = {}
        self._statuses: dict[Request, int] = {}

    def fetch_started(self, request: Request) -> None:
        self._begun[request] = monotonic()

    def fetch_answered(self, request: Request, response: Response) -> None:
        self._statuses[request] = response.status

    def fetch_ended(self, request: Request) -> None:
        begun, status = self._begun.pop(request, None), self._statuses.pop(request, 0)
        if begun is not None:
            self.count(site_of(request), monotonic() - begun, status)

    def count(self, site: str, seconds: float, status: int) -> None:
        """Tally a fetch that has ended; `status` 0 if no response came."""
        tally = self.tallies.pop(site, None) or SiteTally()
        tally.add(seconds, status)
        self.tallies[site] = tally
        if len(self.tallies) > MAX_SITES:
            self.tallies.popitem(last=False)


class LinkNotes:
    """The page that first linked to each page, its number of in-links, and the last visits.

    Visits are taken in by batches, some 3 microseconds each. Memory: 8 bytes a page. `latest` has
    the last visits, latest first.
    """

    def __init__(self, most: int) -> None:
        self.latest: deque[Visit] = deque(maxlen=most)
        self._sources: list[int] = []
        self._targets: list[PageIds] = []
        self._found_by = np.full(1024, NO_PAGE, dtype=np.int32)
        self._n_linking = np.zeros(1024, dtype=np.int32)

    def note(self, visit: Visit) -> None:
        self.latest.appendleft(visit)
        self._sources.append(visit.page)
        self._targets.append(visit.targets)
        if len(self._sources) >= _BATCH:
            self._take_in()

    def finders(self, pages: Sequence[int]) -> list[tuple[int, int]]:
        """Return, per page, the page that first linked to it, and its number of in-links.

        The first is `NO_PAGE` if none did.
        """
        self._take_in()
        self._grow(max(pages, default=0) + 1)
        return list(
            zip(self._found_by[pages].tolist(), self._n_linking[pages].tolist(), strict=True)
        )

    def _take_in(self) -> None:
        """Count the links of the visits since the last call."""
        if not self._sources:
            return
        targets = np.concatenate(self._targets)
        sources = np.repeat(self._sources, [len(each) for each in self._targets])
        self._sources, self._targets = [], []
        if len(targets):
            self._grow(int(targets.max()) + 1)
            np.add.at(self._n_linking, targets, np.int32(1))  # 1 takes forty times as long
            is_new = self._found_by[targets] == NO_PAGE
            # Of several sources of a page, the last one assigned stays: the first visit.
            self._found_by[targets[is_new][::-1]] = sources[is_new][::-1]

    def _grow(self, n_pages: int) -> None:
        self._found_by = with_room(self._found_by, n_pages, NO_PAGE)
        self._n_linking = with_room(self._n_linking, n_pages)


N_NEXT = 20
"""Next pages shown."""

N_ROWS = 10
"""Rows of the other tables."""

_N_JUDGED = 100
"""Pages of which those are shown that no robots.txt read so far forbids."""

_RATE_SECONDS = 10.0
_SLOW_SECONDS = 1.0
_FAILING = 0.1

Cell = str | list[str]
Rows = list[list[Cell]]


class Snapshots:
    """Makes the documents of the live view, each in time O(waiting pages + sites).

    A text is a cell of a table; of a pair, the second is where it leads. `make` cuts all texts, and
    makes them printable.
    """

    def __init__(self, crawler: Crawler, tallies: SiteTallies, notes: LinkNotes) -> None:
        self._crawler = crawler
        self._crawl = CrawlContext.of(crawler)
        self._tallies = tallies.tallies
        self._notes = notes
        self._began_at = monotonic()
        self._n_before = self._crawl.recorder.figures.n_fetched
        self._samples: deque[tuple[float, int]] = deque([(self._began_at, self._n_before)])

    def make(self) -> dict[str, Any]:
        """Return the state of the crawl, its figures, and the tables by name."""
        frontier, pool, rate = self._crawl.local_frontier, self._crawl.worker_pool, self._rate()
        tables: dict[str, Iterable[Sequence[Cell]]] = {
            "flight": self._flight(),
            "failing": self._sites("failing", _FAILING),
            "slow": self._sites("seconds", _SLOW_SECONDS),
            "latest": self._latest(),
            "causes": self._causes(),
        }
        waits = list(self._waits())
        if frontier is not None:
            tables["next"] = self._next(frontier)
            waits = [*_sites_waiting(frontier), *waits]
            tables["resting"] = _resting(frontier, self._crawl.recorder.pages.host)
        if pool is not None:
            tables["workers"] = (
                [worker.name, f"{len(worker.leases):,}", f"{worker.fetching.total():,}"]
                for worker in pool.workers
            )
        return {
            "state": self.state,
            "of": _text(self._of),
            "ordering": _text(self._crawl.config.ordering_name),
            "rate": rate,
            "figures": self._figures(self._crawl.frontier, rate),
            "waits": list(map(_text, waits)),
            "tables": {
                name: [
                    [_text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
                ]
                for name, rows in tables.items()
            },
        }

    @property
    def _of(self) -> str:
        """The site of the crawl, or the first of several; without seeds the name of its spider."""
        pages = self._crawl.recorder.pages
        hosts = dict.fromkeys(
            pages.host(int(pages.sites[page])) for page in self._crawl.recorder.seeds
        )
        first = next(iter(hosts), self._crawler.spider.name if self._crawler.spider else "")
        return first if len(hosts) < 2 else f"{first} and {len(hosts) - 1:,} more"

    @property
    def state(self) -> str:
        """Whether the crawl is running, paused or ending."""
        if engine.is_closing(self._crawler):
            return "ending"
        return "paused" if self._crawler.engine.paused else "running"

    def _figures(self, frontier: Frontier | None, rate: float) -> list[list[str]]:
        crawl = self._crawl
        counts, pages = crawl.recorder.figures, crawl.recorder.pages
        n_fetched, seconds = counts.n_fetched, monotonic() - self._began_at
        found = {
            "Pages per second": f"{rate:,.1f}",
            "Since the start": f"{(n_fetched - self._n_before) / max(seconds, 1e-9):,.1f}",
            "Fetched": f"{n_fetched:,}",
            "Waiting": "-" if frontier is None else f"{len(frontier):,}",
            "Failed": f"{counts.n_failed:,}",
            "Forbidden": f"{counts.n_forbidden:,}",
            "Sites fetched from": f"{counts.n_sites:,}",
            "Pages known": f"{len(pages):,}",
            "Running for": duration(seconds),
        }
        so_far, goal = crawl.coverage_so_far, crawl.recorder.goal
        importance, name = so_far.text(n_fetched) if so_far else "", "Importance from the seeds"
        if importance:
            found[name] = importance.removeprefix("importance from the seeds ")
        if goal.certain_share is not None:
            found[f"{name}, certain"] = f"{int(100 * goal.certain_share)}%"
        left = time_left(goal.n_left, rate)
        if left:
            found["To the page limit"] = left
        return [[name, shown] for name, shown in found.items()]

    def _rate(self) -> float:
        """Return the pages per second in the last seconds."""
        now, n_fetched = monotonic(), self._crawl.recorder.figures.n_fetched
        samples = self._samples
        samples.append((now, n_fetched))
        while len(samples) > 2 and samples[1][0] <= now - _RATE_SECONDS:
            samples.popleft()
        at, n_then = samples[0]
        return (n_fetched - n_then) / max(now - at, 1e-9)

    def _next(self, frontier: LocalFrontier) -> Iterator[list[Cell]]:
        queue, recorder = frontier.queue, self._crawl.recorder
        known = queue.page_records
        robots = self._crawler.get_downloader_middleware(RobotsMiddleware)
        judged = robots.judged if isinstance(robots, RobotsMiddleware) else lambda url: ""
        found = queue.upcoming(_N_JUDGED)
        allowed = zip(found, map(judged, recorder.pages.urls(found)), strict=True)
        found = [each for each, cause in allowed if not cause.startswith(ROBOTS)][:N_NEXT]
        linked = dict(zip(found, self._notes.finders(found), strict=True))
        named = sorted({*found, *(finder for finder, _ in linked.values())} - {NO_PAGE})
        urls = dict(zip(named, recorder.pages.urls(named), strict=True))
        for each, (finder, n_linking) in linked.items():
            priority, hot = queue.request_rank(each)
            why = {
                "in_flight": False,
                "priority": priority,
                "hot": hot,
                "put_off": queue.is_demoted(each),
                "refused": None,
                "linked_by": n_linking,
                "found_by": None if each in recorder.seeds else urls.get(finder),
            }
            yield [_page(urls[each]), f"{known['key'][each]:.6g}", reasons(why)]

    def _flight(self) -> Rows:
        """Return the requests that are handed out, oldest first."""
        dispatcher = self._crawl.dispatcher
        if dispatcher is None:
            active = list(self._crawler.engine.downloader.active)[:N_ROWS]
            return [[_page(request.url), "", ""] for request in active]
        workers, now = self._crawl.worker_pool, monotonic()
        if workers is not None:
            given = islice(workers.flight(), N_ROWS)
            return [[_page(url), "at a worker", f"{seconds:.1f} s"] for url, seconds, _ in given]
        leases = sorted(dispatcher.leases, key=lambda lease: lease.started_at or now)
        return [
            [
                _page(lease.request.url),
                _doing(lease),
                "" if lease.started_at is None else f"{now - lease.started_at:.1f} s",
            ]
            for lease in leases[:N_ROWS]
        ]

    def _sites(self, average: str, least: float) -> Rows:
        """Return the sites with the largest averages of a kind, from a least one on."""
        worst = attrgetter(average)
        found = [each for each in self._tallies.items() if worst(each[1]) >= least]
        found = sorted(found, key=lambda each: -worst(each[1]))[:N_ROWS]
        return [
            [
                host,
                f"{tally.failing:.0%}",
                f"{tally.seconds:.2f} s",
                f"{tally.status}" if tally.status else "no response",
                f"{tally.n_fetches:,}",
            ]
            for host, tally in found
        ]

    def _latest(self) -> Iterator[list[Cell]]:
        visits = [visit for visit in self._notes.latest if visit.page != NO_PAGE]
        urls = self._crawl.recorder.pages.urls([visit.page for visit in visits])
        for visit, url in zip(visits, urls, strict=True):
            got = visit.error or str(visit.status)
            yield [_page(url), visit.title, got, f"{visit.elapsed:.2f} s"]

    def _causes(self) -> Rows:
        failures = self._crawl.recorder.figures.failures
        return [[cause, f"{n:,}"] for cause, n in failures.most_common(N_ROWS)]

    def _waits(self) -> Iterator[str]:
        """Yield what waits for a robots.txt or after a failed fetch, in sentences."""
        robots = self._crawler.get_downloader_middleware(RobotsMiddleware)
        reading = robots.waiting() if isinstance(robots, RobotsMiddleware) else {}
        if reading:
            hosts = ", ".join(sorted(reading)[:3]) + (", ..." if len(reading) > 3 else "")
            yield f"Pages that wait for a robots.txt: {sum(reading.values())} ({hosts})."
        stats, dispatcher = self._crawler.stats, self._crawl.dispatcher
        assert stats is not None
        n_retries = int(stats.get_value("retry/count", 0))
        if n_retries:
            again = [] if dispatcher is None else list(dispatcher.retried.values())
            for_one = f", {again[-1]} among them" if again else ""
            given_up = int(stats.get_value("retry/max_reached", 0))
            yield (
                f"Pages that wait again after a failed fetch: {len(again):,}{for_one}. Retries so "
                f"far: {n_retries:,}, given up: {given_up:,}."
            )


def _text(given: str) -> str:
    return printable(given, MAX_TEXT)


def _page(url: str) -> list[str]:
    cell = page(url)
    return [cell.text, cell.url]


def _doing(lease: Lease) -> str:
    tries = lease.request.meta.get("retry_times", 0)
    again = f", try {tries + 1}" if isinstance(tries, int) and tries else ""
    if lease.state is LeaseState.FETCHING:
        return f"being fetched{again}"
    if lease.state is LeaseState.ANSWERED:
        return "in its callback"
    return f"waits for robots.txt or a middleware{again}"


def _sites_waiting(frontier: LocalFrontier) -> Iterator[str]:
    sites = frontier.queue.site_records
    waits = sites["n_waiting"] > 0
    is_busy = waits & (sites["n_leased"] >= sites["limit"])
    rests = waits & ~is_busy & (sites["ready_at"] > monotonic())
    ready = waits & ~is_busy & ~rests
    for which, doing in (
        (ready, "can be fetched from now"),
        (rests, "rest until their delay is over"),
        (is_busy, "are busy with a fetch"),
    ):
        n_pages = int(sites["n_waiting"][which].sum())
        yield f"Sites that {doing}: {int(which.sum()):,}, with {n_pages:,} waiting pages."


def _resting(frontier: LocalFrontier, host: Callable[[int], str]) -> Iterator[list[str]]:
    """Yield the sites that rest longest, and why."""
    sites, clock, now = frontier.queue.site_records, frontier.clock, monotonic()
    resting = np.flatnonzero((sites["n_waiting"] > 0) & (sites["ready_at"] > now))
    if len(resting) > N_ROWS:
        longest = np.argpartition(-sites["ready_at"][resting], N_ROWS)[:N_ROWS]
        resting = resting[longest]
    for site in resting[np.argsort(-sites["ready_at"][resting], kind="stable")].tolist():
        learned, delay = clock.learned(host(site)), clock.delay(host(site))
        why = f"delay of {delay:g} s"
        if learned.refusals:
            why = f"asked for a pause (429 or 503), {learned.refusals:,} times in a row"
        elif learned.pause:
            why = "asked for a pause (Retry-After)"
        elif learned.crawl_delay and learned.crawl_delay >= delay:
            why = f"Crawl-delay of {learned.crawl_delay:g} s in its robots.txt"
        rests = duration(sites["ready_at"][site] - now)
        yield [host(site), f"{sites['n_waiting'][site]:,}", rests, why]


FIRST = 1_000_000
"""The request priority of pages that are to be fetched first."""

STOPPED = "stopped_in_live_view"
"""The reason of a crawl that was stopped here."""


class Actions:
    """What a person can do to a running crawl, whichever processes fetch for it."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = CrawlContext.of(crawler)
        self._is_explaining = False
        self.by_path = {
            "/pause": self.pause,
            "/resume": self.resume,
            "/stop": self.stop,
            "/first": self.fetch_first,
            "/explain": self.explain,
        }

    @property
    def _refuses(self) -> Callable[[str, int], str] | None:
        scope = getattr(self._crawler.spider, "scope", None)
        return scope.refuses if isinstance(scope, Scope) else None

    async def pause(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Start no fetch; those in flight end."""
        self._crawler.engine.pause()
        return {"said": "Paused: fetches in flight end, and no other starts."}

    async def resume(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Fetch again."""
        self._crawler.engine.unpause()
        engine.wake(self._crawler)
        return {"said": "Resumed."}

    async def stop(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """End the crawl once the fetches in flight have ended."""
        engine.close_spider(self._crawler, STOPPED)
        return {"said": "Stopping: the crawl ends when the fetches in flight have ended."}

    async def fetch_first(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Fetch a page before all others, once its site is ready.

        A page that waits comes to the front. One that is not known is requested, if the spider
        would follow a link to it.
        """
        url, frontier = _url(asked), self._crawl.local_frontier
        if engine.is_closing(self._crawler):
            raise CrawlprioError("The crawl is ending.")
        state = UNKNOWN
        if frontier is not None:
            state = frontier.raise_priority(self._crawl.identities.of_url(url), FIRST)
        if state == UNKNOWN:
            self._request(url)
        elif state != WAITING:
            was = "is being fetched" if state == LEASED else "was fetched or refused already"
            raise CrawlprioError(f"{_text(url)} {was}.")
        engine.wake(self._crawler)
        return {"said": f"{_text(url)} comes first, once its site is ready."}

    def _request(self, url: str) -> None:
        refuses = self._refuses
        if refuses is not None and (refusal := refuses(url, 1)):
            raise CrawlprioError(f"The crawl follows no link to {_text(url)} ({refusal}).")
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
        crawl.recorder.commit()
        crawl.recorder.flush()
        self._is_explaining = True
        try:
            policy = policy_of(self._crawler.settings, crawl.config, self._refuses)
            found = await run_in_thread(explain_url, store.path, policy, url)
        finally:
            self._is_explaining = False
        return {"lines": [_text(line) for line in lines_of_url(found)]}


def _url(asked: Mapping[str, Any]) -> str:
    """Return the URL that is asked about, normalised."""
    given = asked.get("url")
    url = normalise_url(given.strip()) if isinstance(given, str) and len(given) < MAX_URL else None
    if url is None:
        raise CrawlprioError("That is not a URL; write it as in https://example.org/page.")
    return url


logger = logging.getLogger("crawlprio")

SECONDS = 1.0
"""Seconds between two documents, at least."""

SHARE = 0.0025
"""Share of a processor that documents may take: a dear one is followed by a longer rest."""


class Monitor(CrawlPart):
    """Serves the live view on 127.0.0.1, and makes a document a second while a client reads.

    Without a client, it only notes fetches and visits, some 5 microseconds a page.
    """

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        self._port: Any
        self._snapshots: Snapshots
        self._view: View | None = None
        self._timer: CallLaterResult | None = None
        self._has_failed = False
        self._tallies, self._notes = SiteTallies(), LinkNotes(N_ROWS)

    def visited(self, visit: Visit) -> None:
        self._notes.note(visit)

    def opened(self) -> None:
        crawler, token = self.crawl.crawler, secrets.token_urlsafe(24)
        settings = crawler.settings
        if not read_setting(settings, "TWISTED_REACTOR_ENABLED"):
            raise ConfigError(
                "CRAWLPRIO_MONITOR needs a reactor; turn TWISTED_REACTOR_ENABLED on, or leave the "
                "live view out."
            )
        observe_fetches(crawler, self._tallies)
        if self.crawl.worker_pool is not None:
            self.crawl.worker_pool.on_fetch = self._tallies.count
        self._snapshots = Snapshots(crawler, self._tallies, self._notes)
        obeyed = Actions(crawler).by_path
        actions = {path: partial(self._act, act) for path, act in obeyed.items()}
        view = View(token, actions, self._watch)
        self._port = _listen(read_setting(settings, "CRAWLPRIO_MONITOR"), view)
        self._view = view
        notice(f"live view at http://127.0.0.1:{self._port.getHost().port}/#token={token}")

    async def _act(self, act: Action, asked: Mapping[str, Any]) -> Any:
        """Do what is asked for, and send what came of it without delay."""
        try:
            return await act(asked)
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._show()

    def _watch(self) -> None:
        """Begin to send documents, unless the next one is due already."""
        if self._timer is None:
            self._show()

    def _show(self) -> None:
        """Send a document, and the next one later, while anybody reads them."""
        self._timer = None
        if self._view is None or not self._view.is_watched or not self.crawl.is_running:
            return
        begun = thread_time()
        try:
            self._view.send("state", self._snapshots.make())
        except Exception:  # the crawl goes on
            if not self._has_failed:
                self._has_failed = True
                logger.exception("The live view failed.")
        spent = thread_time() - begun
        self._timer = call_later(max(SECONDS, spent / SHARE), self._show)

    def closed(self, reason: str) -> None:
        """Show why the crawl ended, and its receipt."""
        if self._view is None:
            return
        self._view.send("state", {**self._snapshots.make(), "state": "ended"})
        receipt = self.crawl.receipt
        said = [] if receipt is None else list(sentences(receipt))
        self._view.send("ended", {"reason": reason, "said": said})

    def ended(self) -> None:
        """End the events, and listen no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._view is not None:
            self._view.end()
            self._view = None
            self._port.stopListening()


def _listen(port: int, view: View) -> Any:
    from twisted.internet import reactor

    running: Any = reactor
    try:
        return running.listenTCP(port, FewConnections(QuietSite(view)), interface="127.0.0.1")
    except CannotListenError as error:
        raise ConfigError(
            f"CRAWLPRIO_MONITOR is {port}, but nothing can listen there "
            f"({error.socketError.strerror}); name another port, or 0 for any free one."
        ) from None
