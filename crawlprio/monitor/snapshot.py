"""What the live view shows of the crawl in this process, as JSON."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from crawlprio.config import scrapys_own
from crawlprio.explain.lines import reasons
from crawlprio.frontier.protocol import Frontier
from crawlprio.live import engine
from crawlprio.live.crawl import Crawl
from crawlprio.live.leases import Lease, State
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.receipts import time_left
from crawlprio.middlewares import RobotsMiddleware
from crawlprio.monitor.watch import LinkNotes, SiteTallies, SiteTally
from crawlprio.pages import NO_PAGE
from crawlprio.receipt.sentences import duration
from crawlprio.report.parts import page, text

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

N_NEXT = 20
"""Next pages shown."""

N_ROWS = 10
"""Rows of the other tables."""

_RATE_SECONDS = 10.0
_SLOW_SECONDS = 1.0
_FAILING = 0.1

Cell = str | list[str]
Rows = list[list[Cell]]


class Snapshots:
    """Makes the documents of the live view, each in time O(waiting pages + sites).

    A text is a cell of a table; of a pair, the second is where it leads. All are cut and printable.

    Parameters
    ----------
    tallies, notes
        What was noted of the crawl.
    """

    def __init__(self, crawler: Crawler, tallies: SiteTallies, notes: LinkNotes) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._tallies = tallies.tallies
        self._notes = notes
        self._began_at = monotonic()
        self._n_before = self._crawl.recorder.figures.n_fetched
        self._last_rate = 0.0
        self._samples: deque[tuple[float, int]] = deque([(self._began_at, self._n_before)])

    def make(self) -> dict[str, Any]:
        """Return the state of the crawl, its figures, and the tables by name."""
        frontier = self._crawl.frontier
        tables = {
            "flight": self._flight(),
            "failing": self._sites(_failing(self._tallies.items())),
            "slow": self._sites(_slow(self._tallies.items())),
            "latest": list(self._latest()),
            "causes": self._causes(),
        }
        waits = list(self._waits())
        if isinstance(frontier, LocalFrontier):
            tables["next"] = self._next(frontier)
            waits = [*_sites_waiting(frontier), *waits]
            tables["resting"] = _resting(frontier, self._crawl.recorder.pages.host)
        return {
            "state": self.state,
            "ordering": text(self._crawl.config.ordering_name).text,
            "rate": self._rate(),
            "figures": self._figures(frontier),
            "waits": waits,
            "tables": tables,
        }

    @property
    def state(self) -> str:
        """Whether the crawl is running, paused or ending."""
        if engine.is_closing(self._crawler):
            return "ending"
        return "paused" if self._crawler.engine.paused else "running"

    def _figures(self, frontier: Frontier | None) -> list[list[str]]:
        """Return the name and the value of each figure."""
        crawl, stats = self._crawl, self._crawler.stats
        assert stats is not None
        counts, pages = crawl.recorder.figures, crawl.recorder.pages
        n_fetched, seconds, rate = counts.n_fetched, monotonic() - self._began_at, self._last_rate
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
        so_far = crawl.coverage_so_far
        interval = None if so_far is None else so_far.interval(n_fetched)
        if interval is not None:
            found["Importance, likely"] = f"{interval[0]:.0%} to {interval[1]:.0%}"
        if crawl.recorder.coverage is not None:
            found["Importance, at least"] = f"{crawl.recorder.coverage.bound:.0%}"
        limit = scrapys_own(self._crawler.settings, ["CLOSESPIDER_PAGECOUNT"])
        n_responses = int(stats.get_value("response_received_count", 0))
        left = time_left(n_responses, limit.get("CLOSESPIDER_PAGECOUNT", 0.0), rate)
        if left:
            found["To the page limit"] = left.removesuffix(" left")
        return [[name, shown] for name, shown in found.items()]

    def _rate(self) -> float:
        """Return the pages per second in the last seconds."""
        now, n_fetched = monotonic(), self._crawl.recorder.figures.n_fetched
        samples = self._samples
        samples.append((now, n_fetched))
        while len(samples) > 2 and samples[1][0] <= now - _RATE_SECONDS:
            samples.popleft()
        at, n_then = samples[0]
        self._last_rate = (n_fetched - n_then) / max(now - at, 1e-9)
        return self._last_rate

    def _next(self, frontier: LocalFrontier) -> Rows:
        queue, recorder = frontier.queue, self._crawl.recorder
        found, known = queue.upcoming(N_NEXT), queue.page_records
        linked = dict(zip(found, self._notes.finders(found), strict=True))
        named = sorted({*found, *(finder for finder, _ in linked.values())} - {NO_PAGE})
        urls = dict(zip(named, recorder.pages.urls(named), strict=True))
        rows: Rows = []
        for each, (finder, n_linking) in linked.items():
            priority, hot = divmod(queue.usual_tier(each), 2)
            why = {
                "in_flight": False,
                "priority": priority,
                "hot": hot,
                "put_off": queue.is_put_off(each),
                "refused": None,
                "linked_by": n_linking,
                "found_by": None if each in recorder.seeds else urls.get(finder),
            }
            rows.append([_page(urls[each]), f"{known['key'][each]:.6g}", text(reasons(why)).text])
        return rows

    def _flight(self) -> Rows:
        """Return the requests that are handed out, oldest first."""
        dispatcher = self._crawl.dispatcher
        if dispatcher is None:
            active = list(self._crawler.engine.downloader.active)[:N_ROWS]
            return [[_page(request.url), "", ""] for request in active]
        now = monotonic()
        leases = sorted(dispatcher.leases, key=lambda lease: lease.started_at or now)
        return [
            [
                _page(lease.request.url),
                _doing(lease),
                "" if lease.started_at is None else f"{now - lease.started_at:.1f} s",
            ]
            for lease in leases[:N_ROWS]
        ]

    def _sites(self, found: Iterable[tuple[str, SiteTally]]) -> Rows:
        return [
            [
                text(host).text,
                f"{tally.failing:.0%}",
                f"{tally.seconds:.2f} s",
                f"{tally.status}" if tally.status else "no response",
                f"{tally.n_fetches:,}",
            ]
            for host, tally in found
        ]

    def _latest(self) -> Iterator[list[Cell]]:
        """Yield the last visits."""
        visits = [visit for visit in self._notes.latest if visit.page != NO_PAGE]
        urls = self._crawl.recorder.pages.urls([visit.page for visit in visits])
        for visit, url in zip(visits, urls, strict=True):
            title, got = text(visit.title).text, text(visit.got).text
            yield [_page(url), title, got, f"{visit.elapsed:.2f} s"]

    def _causes(self) -> Rows:
        failures = self._crawl.recorder.figures.failures
        return [[text(cause).text, f"{n:,}"] for cause, n in failures.most_common(N_ROWS)]

    def _waits(self) -> Iterator[str]:
        """Yield what waits for a robots.txt or after a failed fetch, in sentences."""
        robots = self._crawler.get_downloader_middleware(RobotsMiddleware)
        reading = robots.waiting() if isinstance(robots, RobotsMiddleware) else {}
        if reading:
            hosts = ", ".join(sorted(reading)[:3]) + (", ..." if len(reading) > 3 else "")
            yield text(f"Pages that wait for a robots.txt: {sum(reading.values())} ({hosts}).").text
        stats, dispatcher = self._crawler.stats, self._crawl.dispatcher
        assert stats is not None
        n_retries = int(stats.get_value("retry/count", 0))
        if n_retries:
            again = [] if dispatcher is None else list(dispatcher.retried.values())
            for_one = f", {again[-1]} among them" if again else ""
            given_up = int(stats.get_value("retry/max_reached", 0))
            yield text(
                f"Pages that wait again after a failed fetch: {len(again):,}{for_one}. Retries so "
                f"far: {n_retries:,}, given up: {given_up:,}."
            ).text


def _page(url: str) -> list[str]:
    cell = page(url)
    return [cell.text, cell.url]


def _doing(lease: Lease) -> str:
    """Return what a lease waits for."""
    tries = lease.request.meta.get("retry_times", 0)
    again = f", try {tries + 1}" if isinstance(tries, int) and tries else ""
    if lease.state is State.FETCHING:
        return f"being fetched{again}"
    if lease.state is State.ANSWERED:
        return "in its callback"
    return f"waits for robots.txt or a middleware{again}"


def _failing(sites: Iterable[tuple[str, SiteTally]]) -> list[tuple[str, SiteTally]]:
    """Return the sites that fail most."""
    found = [each for each in sites if each[1].failing >= _FAILING]
    return sorted(found, key=lambda each: -each[1].failing)[:N_ROWS]


def _slow(sites: Iterable[tuple[str, SiteTally]]) -> list[tuple[str, SiteTally]]:
    """Return the slowest sites."""
    found = [each for each in sites if each[1].seconds >= _SLOW_SECONDS]
    return sorted(found, key=lambda each: -each[1].seconds)[:N_ROWS]


def _sites_waiting(frontier: LocalFrontier) -> Iterator[str]:
    """Yield for what the sites with waiting pages wait."""
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


def _resting(frontier: LocalFrontier, host: Callable[[int], str]) -> Rows:
    """Return the sites that rest longest, and why."""
    sites, clock, now = frontier.queue.site_records, frontier.clock.sites, monotonic()
    resting = np.flatnonzero((sites["n_waiting"] > 0) & (sites["ready_at"] > now))
    if len(resting) > N_ROWS:
        longest = np.argpartition(-sites["ready_at"][resting], N_ROWS)[:N_ROWS]
        resting = resting[longest]
    rows: Rows = []
    for site in resting[np.argsort(-sites["ready_at"][resting], kind="stable")].tolist():
        learned, delay = clock.learned(site), clock.delay(site)
        why = f"delay of {delay:g} s"
        if learned.n_refusals:
            why = f"asked for a pause (429 or 503), {learned.n_refusals:,} times in a row"
        elif learned.crawl_delay and learned.crawl_delay >= delay:
            why = f"Crawl-delay of {learned.crawl_delay:g} s in its robots.txt"
        rows.append(
            [
                text(host(site)).text,
                f"{sites['n_waiting'][site]:,}",
                duration(sites["ready_at"][site] - now),
                why,
            ]
        )
    return rows
