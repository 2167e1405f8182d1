"""The page table of a crawl and the recording of its visits, under any scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import time
from typing import TYPE_CHECKING

from crawlprio.config import CrawlConfig
from crawlprio.errors import ConfigError, StoreError
from crawlprio.live.discovery import Discovery
from crawlprio.live.figures import Figures
from crawlprio.live.identity import Identities
from crawlprio.live.job_store import StorePlace
from crawlprio.live.receipts import certain_share, likely_share
from crawlprio.live.requests import SavedRequests
from crawlprio.pages import NO_PAGE, PageTable, Visit
from crawlprio.ranking.coverage import Coverage
from crawlprio.receipt.rules import ENDED_KEY
from crawlprio.store import SiteState, StoredPages
from crawlprio.store.stored_pages import UrlRow
from crawlprio.web.budgets import Budgets
from crawlprio.web.scope import registered_domain

if TYPE_CHECKING:
    from crawlprio.archive import Archive, Exchange


class Recorder:
    """Owns the page table of a crawl and records its visits in the crawl store.

    A resumed store is open from the start, a new one from `open` on.

    Parameters
    ----------
    config
        names the store and sets the budgets.
    identities
        decides when two URLs are the same page.
    bounds_patterns
        whether the budget per URL pattern applies; False in a web that is known completely.
    refused
        called with the reason and the URL when a budget has no room for a page.
    covered
        called after each visit once CRAWLPRIO_STOP_AT_COVERAGE is reached.
    on_visit
        called with each visit, those of a resumed crawl included; None: nothing is.

    Attributes
    ----------
    pages
        the page table.
    discovery
        adds pages to it, within the budgets.
    is_elsewhere
        whether a frontier elsewhere records the crawl, so that there is no store here.
    requests
        the waiting requests of a job.
    store
        the crawl store; None if nothing is recorded.
    resumes
        whether this crawl resumes one that the store already held.
    figures
        counts of what was fetched so far.
    coverage
        a lower bound of the share of all importance that is fetched; None if it is not asked for.
    seeds
        the pages that the crawl started from, in order.
    remark
        one sentence on the store for the user (an existing file was renamed, say), or empty.
    archive
        the archive of the crawl; None if it has none.
    previous_end
        Unix time at which the previous run ended cleanly; None if there was none, or it was killed.
    """

    def __init__(
        self,
        config: CrawlConfig,
        identities: Identities,
        *,
        is_elsewhere: bool = False,
        bounds_patterns: bool = True,
        refused: Callable[[str, str], object] = lambda reason, url: None,
        covered: Callable[[], object] = lambda: None,
        on_visit: Callable[[Visit], object] | None = None,
    ) -> None:
        self._config = config
        self._on_visit = on_visit
        self.is_elsewhere = is_elsewhere
        self._covered = covered
        path = None if is_elsewhere else config.store_path
        self._place = StorePlace(path, config.resumes, config.keep_stores)
        self.store = self._place.existing()
        self.resumes = self.store is not None and self.store.n_pages > 0
        self.previous_end = None if self.store is None else self.store.ended_at
        self.pages = self._page_table()
        self.figures = Figures(self.pages)
        self.coverage = Coverage() if certain_share(config.stop_at_coverage) else None
        self.seeds: dict[int, None] = {}
        self._budgets = Budgets(
            registered_domain,
            self.pages.site_size,
            per_site=config.max_pages_per_site,
            per_domain=config.max_pages_per_domain,
            per_pattern=config.max_pages_per_pattern if bounds_patterns else None,
            max_sites=config.max_sites,
        )
        self.discovery = Discovery(self.pages, identities, self._budgets, refused)
        self.requests = SavedRequests(self.commit, self.store)
        self._failed = False
        self.remark = ""
        self.archive: Archive | None = None

    def open(self) -> None:
        """Open a new store unless one is resumed; call it once nothing else can be refused."""
        if self.store is None:
            self.store, self.remark = self._place.create()
            self.requests.store = self.store
        if self.store is None and likely_share(self._config.stop_at_coverage):
            raise ConfigError(
                f"CRAWLPRIO_STOP_AT_COVERAGE is {self._config.stop_at_coverage!r}, an estimate "
                "from the crawl store, and this process keeps none; give a number instead."
            )
        if self.store is not None:
            if self._config.max_store_bytes is not None:
                self.store.limit_size(self._config.max_store_bytes)
            topic = self._config.topic
            self.store.add_ordering(self._config.ordering_name)
            self.store.set_meta("topic", "" if topic is None else ",".join(topic.terms))
            model = self._config.value_model
            if model is not None:
                self.store.set_meta("value_model", model.name)

    def check_no_archive(self) -> None:
        """Raise StoreError if the crawl has been archived so far: no run may leave a gap."""
        if self.store is not None and self.store.is_archived:
            raise StoreError(
                f"{self.store.path}: this crawl is archived, and CRAWLPRIO_WARC is not set; name "
                "the folder again (--warc FOLDER)."
            )

    def open_archive(self, archive: Archive) -> None:
        """Archive visits from now on, in the transactions of the store if there is one."""
        if self.store is None:
            archive.open_alone()
        else:
            self.store.attach(archive)
        self.archive = archive

    def close(self) -> None:
        """Flush what was added after the last visit, and close the archive and the store."""
        if self.store is None:
            if self.archive is not None:
                self.archive.close(has_failed=self._failed)
            return
        with self.store:
            try:
                if not self._failed:
                    self.flush()
                    self.store.end_run(time(), self.pages)
            except StoreError:
                self._failed = True
                raise
            finally:
                if self.archive is not None:
                    self.archive.close(has_failed=self._failed)

    @property
    def saves_requests(self) -> bool:
        """Whether waiting requests are saved for a later run."""
        return self._place.saves_requests

    # Visits

    def record(
        self,
        visit: Visit,
        ended: int | None = None,
        *,
        items: Sequence[str] = (),
        exchange: Exchange | None = None,
        commits: bool = True,
    ) -> None:
        """Record a visit; `commits=False` leaves it in memory until `commit`.

        Parameters
        ----------
        ended
            number of the saved request that the visit completes.
        items
            the items scraped from the page, each as JSON.
        exchange
            the records of its fetch, which are archived with the visit or not at all.
        """
        if exchange is not None:
            self.archive_fetch(exchange, None if self.store is None else self.store.next_seq)
        if self.store is not None:
            requests = self.requests.take_unsaved()
            self.store.record(visit, self.pages, requests, ended=ended, items=items, commits=False)
            if commits:
                self.commit()
        page = visit.page
        if page != NO_PAGE and 200 <= visit.status < 300:
            self._budgets.fetched(page, int(self.pages.sites[page]))
        self._count(visit)
        if self.is_covered:
            self._covered()

    @property
    def is_covered(self) -> bool:
        """Whether a share that is certain has reached CRAWLPRIO_STOP_AT_COVERAGE."""
        share = certain_share(self._config.stop_at_coverage)
        return share is not None and self.coverage is not None and self.coverage.bound >= share

    def _count(self, visit: Visit) -> None:
        self.figures.count(visit)
        if self._on_visit is not None:
            self._on_visit(visit)
        if self.coverage is not None:
            self.coverage.observe(visit.page, visit.targets)

    def archive_fetch(self, exchange: Exchange, visit: int | None = None) -> None:
        """Archive a fetch with the next transaction; `visit` is None if it is no visit."""
        assert self.archive is not None, "the crawl has no archive"
        try:
            self.archive.add(exchange, visit)
        except StoreError:
            self._failed = True
            raise

    def keep_item(self, item: str) -> None:
        """Record an item that belongs to no page, immediately."""
        if self.store is not None:
            self.store.keep_items([(NO_PAGE, item)])

    def add_seeds(self, pages: Sequence[int]) -> list[int]:
        """Record pages as seeds; return the new ones, in order."""
        new = [page for page in dict.fromkeys(pages) if page not in self.seeds]
        self.seeds |= dict.fromkeys(new)
        if self.coverage is not None:
            self.coverage.add_seeds(new)
        if self.store is not None:
            self.store.record_pages(self.pages, new, self.requests.take_unsaved())
        return new

    def commit(self) -> None:
        """Commit all recorded visits; raises StoreError if that fails."""
        if self.store is None:
            return
        try:
            self.store.commit()
        except StoreError:
            self._failed = True
            raise

    def flush(self) -> None:
        """Flush all pages, requests and marks that were not recorded with a visit."""
        if self.store is not None:
            self.store.record_pages(self.pages, requests=self.requests.take_unsaved())

    def finish(self, reason: str) -> None:
        """Flush, and record why the run ends; do nothing after a failure to write."""
        if self.store is not None and not self._failed:
            self.flush()
            self.store.set_meta(ENDED_KEY, reason)

    # Other state that survives a restart

    def save_site(self, site: int, state: tuple[float | None, int, float]) -> None:
        """Record the state of a site: Crawl-delay, refusals, and seconds of the pause starting."""
        if self.saves_requests and self.store is not None:
            crawl_delay, n_refusals, pause = state
            self.store.keep_site_state(
                SiteState(self.pages.host(site), crawl_delay, n_refusals, pause, time() + pause)
            )

    def restore_seeds(self) -> None:
        """Restore the seeds of the resumed crawl."""
        assert self.store is not None
        self.seeds = dict.fromkeys(self.store.seeds())
        if self.coverage is not None:
            self.coverage.add_seeds(list(self.seeds))

    def replay(self, visit: Visit, first_new: int) -> None:
        """Replay a visit of the resumed crawl; pages from `first_new` on are new in it."""
        if visit.page == NO_PAGE:
            return
        pages = self.pages
        sites, host, source = pages.sites, pages.host, int(pages.sites[visit.page])
        new = visit.targets[visit.targets >= first_new].tolist()
        if new:
            rows = ((page, int(sites[page]), host(int(sites[page]))) for page in new)
            self._budgets.replay(source, host(source), rows)
        if 200 <= visit.status < 300:
            self._budgets.replay_fetched(visit.page, source)
        self._count(visit)

    def restore_counts(self, asked_for: Iterable[int]) -> None:
        """Count the pages of the resumed crawl in the budgets, once all its visits are replayed.

        `asked_for` are pages that the project's own requests wait for; they do not count as claims.
        """
        for page in asked_for:
            self._budgets.replay_asked_for(page)
        assert self.store is not None
        sites, host = self.pages.sites.tolist(), self.pages.host
        self._budgets.add_all(
            (site, host(site), url) for site, url in zip(sites, self.store.page_urls(), strict=True)
        )

    def _page_table(self) -> PageTable:
        """Return the pages known so far, with URLs in memory only if no store will hold them."""
        if self._place.path is None:
            return PageTable()
        return StoredPages(self._stored_urls) if self.store is None else self.store.stored_pages()

    def _stored_urls(self, pages: Iterable[int]) -> list[UrlRow]:
        """Return URLs and identities of pages of a crawl that began with an empty store."""
        assert self.store is not None
        return self.store.read_urls(pages)
