"""What a person sees of a running crawl: the progress line, the end table and the plot."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from scrapy import signals
from scrapy.utils.asyncio import create_looping_call

from crawlprio.errors import CrawlprioError
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.live.crawl_counters import CoverageSoFar, CrawlCounters, time_left
from crawlprio.measure.receipt_document import FROM_SEEDS, OF_ALL, OF_RULES, sentences
from crawlprio.measure.stored_crawl import BUDGETS, ENDS, HASH_ROUTE, SETTING_OF, UNRENDERED
from crawlprio.orderings import BASELINES, make_ordering
from crawlprio.settings_table.config import read_setting, writes_items_to_stdout
from crawlprio.store import earlier_stores

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import AsyncioLoopingCall
    from twisted.internet.task import LoopingCall

    from crawlprio.live.replay_server import ReplayServer

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, and characters that change the text direction."""

_LIBRARIES = frozenset({"crawlprio", "protego", "scrapy", "twisted"})


def plain(text: str) -> str:
    """Return a text with its control characters escaped as in Python."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


class PlainLog(logging.Filter):
    """Escapes control characters in log records before a handler formats them; drops no record.

    Scrapy leaves the host of a URL as the page wrote it if IDNA cannot encode it. So `ESC c`, which
    resets a terminal, would reach each line that names the request, its Referer or its failure.
    Whole messages are escaped for crawlprio, Scrapy, Twisted and Protego. For other loggers only
    arguments and the texts of exceptions are, so that the colours of a project's own messages stay.

    Cost: each message is formatted once more, 1 µs.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the control characters of a record; return True."""
        try:
            message = record.getMessage()
        except Exception:  # the handler reports it
            return True
        if _CONTROLS.search(message):
            if record.name.partition(".")[0] in _LIBRARIES:
                record.msg, record.args = plain(message), ()
            elif isinstance(record.args, Mapping):
                record.args = {name: _rewritten(value) for name, value in record.args.items()}
            elif record.args:
                record.args = tuple(map(_rewritten, record.args))
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            text = "".join(traceback.format_exception(*record.exc_info))
            if _CONTROLS.search(text):
                record.exc_text = plain(text).rstrip("\n")
        return True


def _rewritten(value: object) -> object:
    """Return an argument of a message, or its escaped text if it has control characters."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    return plain(text) if _CONTROLS.search(text) else value


def keep_log_plain() -> None:
    """Add a `PlainLog` to each handler of the root logger that has none."""
    for handler in logging.root.handlers:
        if not any(isinstance(known, PlainLog) for known in handler.filters):
            handler.addFilter(PlainLog())


logger = logging.getLogger("crawlprio")

_CHOSEN = frozenset({"out-of-scope", "nofollow", "extension", HASH_ROUTE, UNRENDERED})
"""Reasons of the crawl's scope, which the table does not list; the receipt names the last two."""

BESIDE = len("-  0:00:00")
"""Columns of a terminal that the spinner and the time take beside a line of progress."""

_NAMES = {"coverage at least": f"importance {FROM_SEEDS}, at least"}
"""Rows of the table that have another name than their figure in the stats."""


_FEW = 20_000
"""Pages of a crawl that is simulated in Python, which takes seconds, as compiling does."""


class CrawlReport(CrawlPart):
    """Shows progress on a terminal, and at the end what was fetched and how well it was chosen.

    Where the whole graph is known (demo web, replay), it compares the share of the PageRank that
    was fetched with what breadth-first and random would have reached with as many pages, and plots
    the curves.
    """

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        self._crawler = crawl.crawler
        self._started_at = 0.0
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._coverage: CoverageSoFar | None = None
        self._ticker: AsyncioLoopingCall | LoopingCall | None = None
        self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)
        crawl.parts.add(self)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> CrawlReport:
        # Scrapy has created this crawler's log handlers by now.
        keep_log_plain()
        return cls(CrawlContext.of(crawler))

    def _spider_opened(self) -> None:
        self._started_at = monotonic()
        if not self.crawl.is_running:
            return
        if not (read_setting(self._crawler.settings, "CRAWLPRIO_PROGRESS") and sys.stderr.isatty()):
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        if read_setting(self._crawler.settings, "CRAWLPRIO_RECEIPT"):
            self._coverage = self.crawl.coverage_so_far
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("crawling")
        self._progress.start()
        self._ticker = create_looping_call(self._tick)
        self._ticker.start(0.5)

    def _tick(self) -> None:
        assert self._progress is not None
        assert self._task is not None
        crawl = self.crawl
        figures, n_waiting = crawl.recorder.figures, len(crawl.frontier or ())
        rate = _per_second(figures, monotonic() - self._started_at)
        n_sites = crawl.recorder.pages.n_sites
        n_requisites = self._crawler.stats.get_value("crawlprio/requisites/fetched", 0)
        left = time_left(crawl.recorder.goal.n_left, rate)
        coverage = "" if self._coverage is None else self._coverage.text(figures.n_fetched)
        parts = [
            f"{figures.n_fetched:,} pages",
            f"{rate:.0f}/s",
            coverage.removesuffix(OF_RULES),  # which the receipt says
            f"{left} left" if left else "",
            f"{n_waiting:,} waiting",
            f"{n_sites:,} sites",
            f"{n_requisites:,} requisites" if n_requisites else "",
        ]
        line = in_a_line(filter(None, parts), self._progress.console.width - BESIDE)
        self._progress.update(self._task, description=line)

    def closed(self, reason: str) -> None:
        elapsed = monotonic() - self._started_at
        if self._progress is not None and self._ticker is not None:
            self._ticker.stop()
            self._progress.stop()
        if self.crawl.is_running:
            self._report(elapsed, reason)

    def _report(self, elapsed: float, reason: str) -> None:
        figures = self._figures(elapsed, reason)
        for name, value in figures.items():
            self._crawler.stats.set_value(f"crawlprio/{name.replace(' ', '_')}", value)
        rows = [(_NAMES.get(name, name), _shown(value)) for name, value in figures.items()]
        is_printed = read_setting(self._crawler.settings, "CRAWLPRIO_PRINT")
        if not is_printed:
            lines = "\n".join(f"  {name}: {value}" for name, value in rows)
            logger.info("Crawl report:\n%s", lines)
            draws = read_setting(self._crawler.settings, "CRAWLPRIO_PLOT") is not None
            if self.crawl.web is None or not draws:
                return
        from crawlprio.show.tables import PipeSafeConsole

        console = PipeSafeConsole(
            quiet=not is_printed, stderr=writes_items_to_stdout(self._crawler.settings)
        )
        console.print_pairs(rows)
        if self.crawl.web is not None:
            try:
                self._evaluate(self.crawl.web, console)
            except (CrawlprioError, OSError) as error:
                self.crawl.say_error(f"The crawl cannot be evaluated: {error}")

    def _figures(self, elapsed: float, reason: str) -> dict[str, str | float]:
        """Return the rows of the final table: counts, seconds and pages per second."""
        crawl = self.crawl
        counts, pages, store = crawl.recorder.figures, crawl.recorder.pages, crawl.recorder.store
        figures: dict[str, str | float] = {
            "ordering": crawl.config.ordering_name,
            "ended because": self._why_ended(reason),
            "pages fetched": counts.n_fetched,
            "unique pages": counts.n_unique,
            "failed": counts.n_failed,
            "sites fetched from": counts.n_sites,
            "sites known": pages.n_sites,
            "pages known": len(pages),
            "links": counts.n_links,
            "pages per second": round(_per_second(counts, elapsed), 1),
        }
        if counts.failures:
            figures["failed because"] = counts.causes()
        if counts.n_forbidden:
            figures["forbidden by robots.txt"] = counts.n_forbidden
        goal = crawl.recorder.goal
        if goal.coverage is not None:
            goal.coverage.settle()
            certain = goal.certain_share
            if crawl.receipt is not None:  # the same share, rounded as there
                certain = crawl.receipt["coverage"]["at_least"]
            if certain is not None:
                figures["coverage at least"] = round(certain, 4)
        if crawl.recorder.resumes:
            figures["pages fetched in earlier runs"] = counts.n_before
        if crawl.frontier is not None:
            figures |= crawl.frontier.figures()
        for part in crawl.parts:
            figures |= part.figures()
        gap = self._crawler.stats.get_value("crawlprio/smallest_gap_seconds")
        if gap is not None:
            figures["smallest gap on a site in seconds"] = round(gap, 4)
        refused = self._refused()
        if refused:
            figures["refused"] = refused
        if store is not None:
            crawl.recorder.commit()
            n_index_files = store.n_index_files()
            if n_index_files:
                figures["index files like their folder"] = n_index_files
            figures["recorded in"] = str(store.path)
            n_earlier = 0 if crawl.config.resumes else len(earlier_stores(store.path))
            if n_earlier:
                figures["earlier stores kept"] = f"{n_earlier}; CRAWLPRIO_KEEP_STORES sets how many"
        if crawl.receipt is not None:
            figures["receipt"] = "\n".join(sentences(crawl.receipt))
        return figures

    def _why_ended(self, reason: str) -> str:
        """Return Scrapy's reason, and which settings limited the crawl."""
        cuts = []
        for budget in BUDGETS:
            n_links = self._crawler.stats.get_value(f"crawlprio/refused/{budget}", 0)
            if n_links:
                cuts.append(f"{n_links:,} links refused by {SETTING_OF[budget]}")
        frontier = self.crawl.frontier
        n_dropped = 0 if frontier is None else int(frontier.figures().get("pages dropped", 0))
        if n_dropped:
            cuts.append(f"{n_dropped:,} pages dropped by CRAWLPRIO_MAX_WAITING")
        return "; ".join([ENDS.get(reason, reason), *cuts])

    def _refused(self) -> str:
        """Return the reasons why links were not fetched or pages not read whole, with counts."""
        counts = {
            name.rpartition("/")[2]: int(count)
            for name, count in self._crawler.stats.get_stats().items()
            if name.startswith(("crawlprio/refused/", "crawlprio/cut/"))
        }
        shown = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return ", ".join(f"{reason} {count:,}" for reason, count in shown if reason not in _CHOSEN)

    def _evaluate(self, virtual: ReplayServer, console: Console) -> None:
        """Compare the crawl with other orderings of as many pages, in a table and a plot."""
        from rich.table import Table
        from rich.text import Text

        from crawlprio.live.replay_server import plot_path
        from crawlprio.measure.crawl_order import best_order, cumulative_pagerank, curve, reachable
        from crawlprio.ranking.pagerank import pagerank_from
        from crawlprio.show.figures import plot_cumulative
        from crawlprio.simulator.timed import crawl_order

        graph, ranks, recorder = virtual.graph, virtual.ranks, self.crawl.recorder
        urls_of = recorder.pages.urls
        seeds = [page for page in map(virtual.page, urls_of(recorder.seeds)) if page >= 0]
        if not seeds:
            self.crawl.say_error(
                f"No seed is a page of the {virtual.name}; the crawl cannot be evaluated."
            )
            return
        within = reachable(graph, seeds)
        n_reachable = int(np.count_nonzero(within))
        fetched = dict.fromkeys(map(virtual.page, urls_of(recorder.figures.visited)))
        ours = self.crawl.config.ordering_name
        counted = [page for page in fetched if page >= 0 and within[page]]
        orders = {ours: np.array(counted, dtype=np.int32)}
        budget = len(orders[ours])
        compiles = budget > _FEW
        for name in BASELINES:
            if name != ours:
                ordering = make_ordering(name)
                orders[name] = crawl_order(graph, seeds, ordering, budget=budget, compiled=compiles)
        from_seeds = pagerank_from(seeds, graph.indptr, graph.indices)
        orders["upper-bound"] = best_order(ranks, within)[:budget]
        shares = {name: cumulative_pagerank(order, ranks, within) for name, order in orders.items()}
        held = {name: float(from_seeds[order].sum()) for name, order in orders.items()}
        held["upper-bound"] = float(np.sort(from_seeds)[::-1][:budget].sum())
        console.print(
            f"PageRank held by {budget:,} of {n_reachable:,} pages of the {virtual.name} (the "
            f"receipt's is {FROM_SEEDS}):",
            markup=False,
        )
        table = Table()
        table.add_column("pages chosen by")
        for measure in (OF_ALL, FROM_SEEDS):
            table.add_column(f"PageRank {measure}", justify="right")
        for name, gathered in shares.items():
            of_crawl = " (this crawl)" if name == ours else ""
            figures = (f"{gathered[-1]:.1%}", f"{held[name]:.1%}") if budget else ("-", "-")
            table.add_row(Text(f"{name}{of_crawl}"), *figures)
        console.print(table)
        plot = plot_path(self._crawler.settings)
        if plot is not None:
            plot_cumulative(
                {
                    name
                    if name == "upper-bound"
                    else f"{name} ({'this crawl' if name == ours else 'simulated'})": curve(
                        gathered, n_pages=n_reachable
                    )
                    for name, gathered in shares.items()
                },
                plot,
                title=f"What the first {budget:,} of {n_reachable:,} pages hold ({virtual.name})",
            )
            console.print(f"Plot of the curves: {plot}", markup=False)


def in_a_line(parts: Iterable[str], width: int) -> str:
    """Return the parts, joined by commas, without those that would make the line too wide."""
    line, *rest = parts
    for part in rest:
        if len(line) + 2 + len(part) <= width:
            line = f"{line}, {part}"
    return line


def _per_second(figures: CrawlCounters, elapsed: float) -> float:
    return figures.n_in_run / max(elapsed, 1e-9)


def _shown(value: str | float) -> str:
    """Return a figure formatted for people."""
    return value if isinstance(value, str) else f"{value:,}"
