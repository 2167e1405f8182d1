"""The page table of a crawl and the recording of its visits, under any scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from time import time

import numpy as np

from crawlprio.config import CrawlConfig
from crawlprio.errors import StoreError
from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.figures import Figures
from crawlprio.live.identity import Identities
from crawlprio.live.job_store import existing_store, new_store
from crawlprio.live.requests import SavedRequest
from crawlprio.pages import NO_PAGE, NO_PAGES, PageTable, Visit
from crawlprio.ranking.coverage import Coverage
from crawlprio.store import SiteState, StoredPages
from crawlprio.store.stored_pages import UrlRow
from crawlprio.web.budgets import NO_SITE, Budgets
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_if_any, host_of

REFUSED_TEXT = 4_096
"""Characters that the links refused by a budget take in the record of one page; the rest of them
are counted, not recorded."""


class Recorder:
    """Assigns page ids, within the budgets, and records visits in the crawl store.

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
        called with the reason when a budget has no room for a page.
    covered
        called after each visit once CRAWLPRIO_STOP_AT_COVERAGE is reached.

    Attributes
    ----------
    pages
        the page table.
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
    previous_end
        Unix time at which the previous run ended cleanly; None if there was none, or it was killed.
    """

    def __init__(
        self,
        config: CrawlConfig,
        identities: Identities,
        *,
        bounds_patterns: bool = True,
        refused: Callable[[str], object] = lambda reason: None,
        covered: Callable[[], object] = lambda: None,
    ) -> None:
        self._config = config
        self._identities = identities
        self._refused = refused
        self._covered = covered
        self.store = existing_store(config)
        self.resumes = self.store is not None and self.store.n_pages > 0
        self.previous_end = None if self.store is None else self.store.ended_at
        self.pages = self._page_table()
        self.figures = Figures(self.pages)
        self.coverage = None if config.stop_at_coverage is None else Coverage()
        self.seeds: dict[int, None] = {}
        self._budgets = Budgets(
            registered_domain,
            self.pages.site_size,
            per_site=config.max_pages_per_site,
            per_domain=config.max_pages_per_domain,
            per_pattern=config.max_pages_per_pattern if bounds_patterns else None,
            max_sites=config.max_sites,
        )
        self._unsaved: dict[int, SavedRequest] = {}
        self._failed = False
        self.remark = ""
        self._next_request = 1 + (0 if self.store is None else self.store.last_request)

    def open(self) -> None:
        """Open a new store unless one is resumed; call it once nothing else can be refused."""
        if self.store is None:
            self.store, self.remark = new_store(self._config)
        if self.store is not None:
            if self._config.max_store_bytes is not None:
                self.store.limit_size(self._config.max_store_bytes)
            topic = self._config.topic
            self.store.note_ordering(self._config.ordering_name)
            self.store.set_meta("topic", "" if topic is None else ",".join(topic.terms))

    def close(self) -> None:
        """Flush what was added after the last visit, and close the store."""
        if self.store is None:
            return
        with self.store:
            if self._failed:
                return
            self.flush()
            self.store.note_end(time(), self.pages)

    @property
    def saves_requests(self) -> bool:
        """Whether waiting requests are saved for a later run."""
        return self._config.store_path is not None and self._config.resumes

    # Pages

    def add_page(self, identity: str, url: str, site: int, depth: int) -> int:
        """Add a new page under the next id, whether or not the budgets have room for it."""
        self._budgets.add(site, self.pages.host(site), url)
        return self.pages.add(identity, url, site, depth)

    def has_room(self, site: int, url: str) -> bool:
        """Return whether the budgets of a site, its domain and its pattern have room for a page."""
        refusal = self._budgets.refuses(site, self.pages.host(site), url)
        if refusal:
            self._refused(refusal)
        return not refusal

    def find_or_add(self, urls: Iterable[str], depth: int, source: int = NO_PAGE) -> list[int]:
        """Return the pages that plain links of a page lead to, adding new ones with the next ids.

        A link that a budget has no room for is `NO_PAGE`.
        """
        urls = list(urls)
        pages = self.pages
        found = pages.find_all(urls)
        if NO_PAGE not in found:
            return found
        identity_of, site_of = self._identities.of_url, pages.site
        take, add = self._budgets.take, pages.add
        source_site = NO_SITE if source == NO_PAGE else int(pages.sites[source])
        added: dict[str, int] = {}
        bounds_sites = source_site != NO_SITE and self._config.max_sites is not None
        n_new_sites = 0
        for at, url in enumerate(urls):
            if found[at] != NO_PAGE:
                continue
            identity = identity_of(url)
            page = added.get(identity, NO_PAGE)
            if page == NO_PAGE and identity != url:
                page = pages.find(identity)
            if page == NO_PAGE:
                host = host_of(url)
                if bounds_sites and not pages.knows_host(host):
                    n_new_sites += 1
                    if not self._budgets.take_site(
                        n_new_sites, pages.n_sites, source_site, pages.host(source_site)
                    ):
                        self._refused("sites")
                        continue
                site = site_of(host)
                refusal = take(site, host, url, len(pages), source_site)
                if refusal:
                    self._refused(refusal)
                else:
                    page = added[identity] = add(identity, url, site, depth)
            found[at] = page
        return found

    def _find_known(self, urls: list[str]) -> list[int]:
        """Return the pages that links lead to, `NO_PAGE` for those that are unknown."""
        pages, identity_of = self.pages, self._identities.of_url
        found = pages.find_all(urls)
        for at, url in enumerate(urls):
            if found[at] == NO_PAGE and pages.knows_host(host_if_any(url)):
                identity = identity_of(url)
                if identity != url:
                    found[at] = pages.find(identity)
        return found

    # Visits

    def visit_of(self, page: int, reported: PageVisit) -> Visit:
        """Return a visit with page ids for its links: distinct targets, without the page itself.

        The links that are followed come first, in page order, then other links to known pages.
        """
        pairs = reported.pairs
        anchors, outside = pairs.anchors, pairs.outside
        if reported.links_are_entries:
            found = self.pages.find_all(pairs.targets)
        else:
            depth = 0 if page == NO_PAGE else int(self.pages.depths[page]) + 1
            found = self.find_or_add(pairs.targets, depth, page)
        targets = found
        if len(set(found)) != len(found) or page in found or NO_PAGE in found:
            first_at: dict[int, int] = {}
            for at, target in enumerate(found):
                first_at.setdefault(target, at)
            first_at.pop(page, None)
            was_refused = first_at.pop(NO_PAGE, None) is not None
            targets = list(first_at)
            anchors = [pairs.anchors[at] for at in first_at.values()] if pairs.anchors else []
            if was_refused and not reported.links_are_entries:
                outside = [*outside, *_recorded_of_refused(pairs, found)]
        known = self._find_known([url for url, _ in outside]) if outside else ()
        if known and max(known) != NO_PAGE:
            # Scope decides which links are followed, not which are edges of the graph.
            places = dict.fromkeys(targets)
            places[page] = None
            anchors = list(anchors or [""] * len(targets))
            targets = list(targets)
            rest = []
            for link, target in zip(outside, known, strict=True):
                if target == NO_PAGE:
                    rest.append(link)
                elif target not in places:
                    places[target] = None
                    targets.append(target)
                    anchors.append(link[1])
            outside = rest
        return Visit(
            page=page,
            targets=np.array(targets, dtype=np.int32) if targets else NO_PAGES,
            anchors=anchors,
            outside=outside,
            status=pairs.status,
            title=pairs.title,
            text=pairs.text,
            content_hash=pairs.content_hash,
            n_bytes=pairs.n_bytes,
            fetched_at=reported.fetched_at or time(),
            elapsed=reported.elapsed,
            error=reported.error,
        )

    def record(
        self,
        visit: Visit,
        ended: int | None = None,
        *,
        items: Sequence[str] = (),
        commits: bool = True,
    ) -> None:
        """Record a visit; `commits=False` leaves it in memory until `commit`.

        Parameters
        ----------
        ended
            number of the saved request that the visit completes.
        items
            the items scraped from the page, each as JSON.
        """
        if self.store is not None:
            requests = self._take_unsaved()
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
        """Whether the share of all importance fetched has reached CRAWLPRIO_STOP_AT_COVERAGE."""
        share = self._config.stop_at_coverage
        return share is not None and self.coverage is not None and self.coverage.bound >= share

    def _count(self, visit: Visit) -> None:
        self.figures.count(visit)
        if self.coverage is not None:
            self.coverage.observe(visit.page, visit.targets)

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
            self.store.record_pages(self.pages, new, self._take_unsaved())
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
            self.store.record_pages(self.pages, requests=self._take_unsaved())

    # Waiting requests

    def save_request(self, page: int, request: bytes, number: int | None = None) -> int:
        """Queue a request to be recorded with the next visit, and return its number.

        The next visit is the one whose callback yields the request.

        Parameters
        ----------
        number
            of the saved request that it replaces.
        """
        if number is None:
            number = self._next_request
            self._next_request += 1
        self._unsaved[number] = SavedRequest(number, page, request)
        return number

    def is_unsaved(self, number: int) -> bool:
        """Return whether a request is still to be recorded."""
        return number in self._unsaved

    def saved_of(self, page: int) -> list[SavedRequest]:
        """Return the requests saved for a page, oldest first."""
        assert self.store is not None
        # Before the commit, requests recorded with a visit are not on disk yet, and the request
        # that the visit ended still is.
        self.commit()
        rows = [SavedRequest(*row) for row in self.store.requests_of(page)]
        return rows + [saved for saved in self._unsaved.values() if saved.page == page]

    def saved(self, number: int) -> bytes:
        """Return a saved request by its number."""
        assert self.store is not None
        self.commit()
        unsaved = self._unsaved.get(number)
        return self.store.request(number) if unsaved is None else unsaved.request

    def _take_unsaved(self) -> list[SavedRequest]:
        if not self._unsaved:
            return []
        unsaved, self._unsaved = self._unsaved, {}
        return list(unsaved.values())

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
        if self._config.store_path is None:
            return PageTable()
        return StoredPages(self._stored_urls) if self.store is None else self.store.stored_pages()

    def _stored_urls(self, pages: Iterable[int]) -> list[UrlRow]:
        """Return URLs and identities of pages of a crawl that began with an empty store."""
        assert self.store is not None
        return self.store.read_urls(pages)


def _recorded_of_refused(pairs: LinkPairs, found: list[int]) -> Iterator[tuple[str, str]]:
    """Yield URL and anchor of the first links that no budget had room for, up to `REFUSED_TEXT`."""
    room = REFUSED_TEXT
    for url, anchor, page in zip(pairs.targets, pairs.anchors or repeat(""), found, strict=False):
        if page == NO_PAGE:
            room -= len(url) + len(anchor)
            if room < 0:
                return
            yield url, anchor
