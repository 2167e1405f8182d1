"""The recorder: where a crawl is kept, its page table, discovery, and the record of its visits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import repeat
from time import time
from typing import TYPE_CHECKING

import numpy as np

from crawlprio.errors import ConfigError, StoreError
from crawlprio.frontier import PageQueue
from crawlprio.frontier.protocol import Exchange, PageVisit
from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageTable, Visit
from crawlprio.items import LinkPairs
from crawlprio.live.counts import Figures
from crawlprio.live.requests import Identities, SavedRequests
from crawlprio.live.state_keeper import StateKeeper, n_known
from crawlprio.live.workers import Shard
from crawlprio.measure.stored_crawl import COVERED, ENDED_KEY, ENOUGH_PAGES
from crawlprio.ranking.coverage import Coverage
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store import (
    SiteState,
    Store,
    StoredPages,
    StoreInUse,
    discard,
    discard_unfinished,
    earlier_stores,
    keep_existing,
    make_private_folder,
)
from crawlprio.store.outcomes import FOREIGN, failure_of, has_links
from crawlprio.store.saved_state import SavedState
from crawlprio.store.stored_pages import UrlRow
from crawlprio.store.visit_rows import storable
from crawlprio.web.budgets import NO_SITE, REFUSED_TEXT, Budgets
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_if_any, host_of

if TYPE_CHECKING:
    from crawlprio.plugins.archive.archive import Archive


class Discovery:
    """Finds the pages of links in the page table, and adds those that are new.

    When a budget has no room for a page, `refused` is called with the reason and the URL.
    """

    def __init__(
        self,
        pages: PageTable,
        identities: Identities,
        budgets: Budgets,
        refused: Callable[[str, str], object],
    ) -> None:
        self._pages = pages
        self._identities = identities
        self.identity_of = identities.of_url
        self._budgets = budgets
        self._refused = refused

    def add_page(self, identity: str, url: str, site: int, depth: int) -> int:
        """Add a new page under the next id, whether or not the budgets have room for it."""
        self._budgets.add(site, self._pages.host(site), url)
        return self._pages.add(identity, url, site, depth)

    def page_of(self, identity: str, url: str, host: str, depth: int) -> int:
        """Return the page with an identity, added if it is new, with or without room for it."""
        page = self._pages.find(identity)
        if page == NO_PAGE:
            page = self.add_page(identity, url, self._pages.site(host), depth)
        return page

    def domain_of(self, site: int) -> int:
        """Return a 32-bit number, never 0, for the registered domain of a site."""
        return self._budgets.domain(site, self._pages.host(site))

    def has_room(self, site: int, url: str) -> bool:
        """Return whether the budgets of a site, its domain and its pattern have room for a page."""
        refusal = self._budgets.refuses(site, self._pages.host(site), url)
        if refusal:
            self._refused(refusal, url)
        return not refusal

    def find_or_add(self, urls: Iterable[str], depth: int, source: int = NO_PAGE) -> list[int]:
        """Return the pages that plain links of a page lead to, adding new ones with the next ids.

        A link that a budget has no room for is `NO_PAGE`.
        """
        urls = list(urls)
        pages = self._pages
        found = pages.find_all(urls)
        if NO_PAGE not in found:
            return found
        identity_of, site_of = self._identities.of_url, pages.site
        take, add = self._budgets.take, pages.add
        source_site = NO_SITE if source == NO_PAGE else int(pages.sites[source])
        added: dict[str, int] = {}
        bounds_sites = source_site != NO_SITE and self._budgets.limits_sites
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
                if bounds_sites and not (pages.knows_host(host) or self._budgets.is_foreign(host)):
                    n_new_sites += 1
                    if not self._budgets.take_site(
                        n_new_sites, pages.n_sites, source_site, pages.host(source_site)
                    ):
                        self._refused("sites", url)
                        continue
                site = site_of(host)
                refusal = take(site, host, url, len(pages), source_site)
                if refusal:
                    self._refused(refusal, url)
                else:
                    page = added[identity] = add(identity, url, site, depth)
            found[at] = page
        return found

    def _find_known(self, urls: list[str]) -> list[int]:
        """Return the pages that links lead to, `NO_PAGE` for those that are unknown."""
        pages, identity_of = self._pages, self._identities.of_url
        found = pages.find_all(urls)
        for at, url in enumerate(urls):
            if found[at] == NO_PAGE and pages.knows_host(host_if_any(url)):
                identity = identity_of(url)
                if identity != url:
                    found[at] = pages.find(identity)
        return found

    def visit_of(self, page: int, reported: PageVisit) -> Visit:
        """Return a visit with page ids for its links: distinct targets, without the page itself.

        The links that are followed come first, in page order, then other links to known pages.
        """
        pairs = reported.pairs
        anchors, outside = pairs.anchors, pairs.outside
        depth = 0 if page == NO_PAGE else int(self._pages.depths[page]) + 1
        if reported.links_are_entries:
            found = self._pages.find_all(pairs.targets)
            for at, identity in enumerate(pairs.targets):
                host = host_if_any(identity) if found[at] == NO_PAGE else ""
                if host and self._budgets.is_foreign(host):  # queued there
                    found[at] = self.page_of(identity, identity, host, depth)
        else:
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
            directives=pairs.directives,
            value=pairs.value,
            fingerprint=pairs.fingerprint,
            body=reported.body,
            notes=pairs.notes,
        )


def _recorded_of_refused(pairs: LinkPairs, found: list[int]) -> Iterator[tuple[str, str]]:
    """Yield URL and anchor of the first links that no budget had room for, up to `REFUSED_TEXT`."""
    room = REFUSED_TEXT
    for url, anchor, page in zip(pairs.targets, pairs.anchors or repeat(""), found, strict=False):
        if page == NO_PAGE:
            room -= len(url) + len(anchor)
            if room < 0:
                return
            yield url, anchor


class _Writing(AbstractContextManager[None]):
    """Takes note of a failure to write; one object for all writes, as there are three a page."""

    has_failed = False

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.has_failed = self.has_failed or (kind is not None and issubclass(kind, StoreError))


class Recorder:
    """Owns the page table of a crawl and records its visits in the crawl store.

    A resumed store is open from the start, a new one from `open` on. `store` is None if nothing is
    recorded, or a frontier elsewhere records the crawl (`is_elsewhere`). The crawl `resumes` one
    that the store already held, from a saved `state` unless all visits are replayed; `states` saves
    the next one, unless a resume has to see every visit again. `previous_end` is the Unix time at
    which the previous run ended cleanly; None if there was none, or it was killed. `remark` is one
    sentence on the store for the user (an existing file was renamed, say), or empty. `coverage` is
    a lower bound of the share of all importance that is fetched, if it is asked for.

    `refused` and `enough` are called with a reason: when a budget has no room for a page, and its
    URL; and after each visit once the run has enough. `on_visit` are called with each visit, those
    of a resumed crawl included. `shard` is that of this process, if the crawl has several.

    Once a write `has_failed`, nothing more may be written: a resume would queue a page in another
    place if the visit that discovered it were missing.
    """

    def __init__(
        self,
        config: CrawlConfig,
        identities: Identities,
        *,
        is_elsewhere: bool = False,
        bounds_patterns: bool = True,
        refused: Callable[[str, str], object] = lambda reason, url: None,
        enough: Callable[[str], object] = lambda reason: None,
        on_visit: Sequence[Callable[[Visit], object]] = (),
        shard: Shard | None = None,
    ) -> None:
        self.shard = shard
        self._config = config
        self._on_visit = on_visit
        self.is_elsewhere = is_elsewhere
        self.remark = ""
        self._on_enough = enough
        self._path = None if is_elsewhere else config.store_path
        self.saves_requests = self._path is not None and config.resumes
        """Whether waiting requests are saved for a later run."""
        self.store = self._existing_store()
        self.resumes = self.store is not None and self.store.n_pages > 0
        self.previous_end = None if self.store is None else self.store.ended_at
        stop_at = config.stop_at_coverage
        self.coverage = None if stop_at is None or not stop_at.is_certain else Coverage()
        model = config.value_model
        sees_all = on_visit or self.coverage or (model is not None and model.learns)
        self.states: StateKeeper | None = None
        self.state: SavedState | None = None
        if self.saves_requests and not sees_all:
            self.states = StateKeeper(config, bounds_patterns=bounds_patterns)
            if self.store is not None and self.resumes:
                self.state = self.states.read(self.store)
        self.pages = self._page_table()
        self.figures = Figures(self.pages)
        self._has_links = False
        self.seeds: dict[int, None] = {}
        self._budgets = Budgets(
            registered_domain,
            self.pages.site_size,
            per_site=config.max_pages_per_site,
            per_domain=config.max_pages_per_domain,
            per_pattern=config.max_pages_per_pattern if bounds_patterns else None,
            max_sites=config.max_sites,
            is_foreign=None if shard is None else shard.is_foreign,
        )
        self.discovery = Discovery(self.pages, identities, self._budgets, refused)
        self.requests = SavedRequests(self.commit, self.store)
        self._items_before: Counter[str] = Counter()
        if self.state is not None:
            take, (_, n_pages, n_sites) = self.state.take, n_known(self.state)
            self._budgets.restore(lambda *of: take(f"budgets.{of[0]}", of[1]), n_pages, n_sites)
            self.figures.restore(self.state)
        self._writing = _Writing()
        self.archive: Archive | None = None

    def open(self) -> None:
        """Open a new store unless one is resumed; call it once nothing else can be refused."""
        if self.store is None:
            self.store = self.requests.store = self._new_store()
        stop_at = self._config.stop_at_coverage
        if self.store is None and stop_at is not None and not stop_at.is_certain:
            raise ConfigError(
                f"CRAWLPRIO_STOP_AT_COVERAGE is {stop_at.written!r}, an estimate "
                "from the crawl store, and this process keeps none; give a number instead."
            )
        if self.store is not None:
            if self.store.is_archived and self._config.warc_folder is None:  # it would leave a gap
                raise StoreError(
                    f"{self.store.path}: this crawl is archived, and CRAWLPRIO_WARC is not set; "
                    "name the folder again (--warc FOLDER)."
                )
            if self._config.max_store_bytes is not None:
                self.store.limit_size(self._config.max_store_bytes)
            topic = self._config.topic
            self.store.add_ordering(self._config.ordering_name)
            self.store.set_meta("topic", "" if topic is None else ",".join(topic.terms))
            model = self._config.value_model
            if model is not None:
                self.store.set_meta("value_model", model.name)

    def open_archive(self, archive: Archive) -> None:
        """Archive visits from now on, in the transactions of the store if there is one."""
        if self.store is None:
            archive.open_alone()
        else:
            self.store.attach(archive)
        self.archive = archive

    def close(self) -> None:
        """Flush what was added after the last visit, and close the archive and the store."""
        store, archive = self.store, self.archive
        with ExitStack() as last:
            if store is not None:
                last.enter_context(store)
            if archive is not None:
                last.callback(lambda: archive.close(has_failed=self.has_failed))
            if store is not None and not self.has_failed:
                with self._writing:
                    self.flush()
                    store.end_run(time(), self.pages)

    def _existing_store(self) -> Store | None:
        """Open the store of the crawl to resume; None if the job directory has none."""
        path = self._path
        if path is None or not self.saves_requests or not path.exists():
            return None
        return None if discard_unfinished(path) else Store.open(path)

    def _new_store(self) -> Store | None:
        """Create the store; without JOBDIR, an existing one is renamed, and surplus ones go."""
        path, n_kept = self._path, self._config.keep_stores
        if path is None:
            return None
        if self.saves_requests:
            make_private_folder(path.parent)
            return Store.create(path)
        try:
            kept = keep_existing(path)
        except StoreInUse:
            store = Store.create_numbered(path)
            self.remark = f"{path} is in use; this crawl is recorded in {store.path}."
            return store
        store = Store.create(path)
        for earlier in [] if n_kept is None else earlier_stores(path)[n_kept:]:
            with suppress(StoreError):
                discard(earlier)
        if kept is not None and kept.exists():
            self.remark = f"{path} already existed; it was renamed to {kept}."
        return store

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

        It completes the saved request of the number `ended`. `items` are JSON. `exchange` has the
        records of its fetch, which are archived with the visit or not at all.
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
        if self.enough:
            self._on_enough(self.enough)

    @property
    def enough(self) -> str:
        """The reason to stop: CRAWLPRIO_STOP_AT_COVERAGE or CRAWLPRIO_MAX_PAGES, or empty."""
        stop_at, certain = self._config.stop_at_coverage, self.certain_share
        if stop_at is not None and certain is not None and certain >= stop_at.share:
            return COVERED
        return ENOUGH_PAGES if self.n_left <= 0 else ""

    @property
    def n_left(self) -> float:
        """Pages that this run may still get; infinite if no limit is kept here."""
        most = self._config.max_pages
        if most is None or self.is_elsewhere:
            return math.inf
        return most - (self.figures.n_fetched - self.figures.n_before)

    @property
    def certain_share(self) -> float | None:
        """The certain share of all importance; None if not asked for, or no page has a link."""
        if self.coverage is None or not self._has_links:
            return None
        return self.coverage.bound

    def _count(self, visit: Visit) -> None:
        if visit.error == FOREIGN:
            return
        self.figures.count(visit)
        for note in self._on_visit:
            note(visit)
        if self.coverage is not None:
            self._has_links = self._has_links or has_links(visit)
            self.coverage.observe(visit.page, visit.targets, is_got=not failure_of(visit))

    def archive_fetch(self, exchange: Exchange, visit: int | None = None) -> None:
        """Archive a fetch with the next transaction; `visit` is None if it is no visit."""
        assert self.archive is not None, "the crawl has no archive"
        with self._writing:
            self.archive.add(exchange, visit)

    def keep_item(self, item: str) -> None:
        """Record an item that belongs to no page, immediately, unless an earlier run did."""
        item = storable(item)
        if self._items_before[item]:
            self._items_before[item] -= 1
        elif self.store is not None:
            self.store.keep_items([(NO_PAGE, item)])

    def restore_items(self) -> Iterator[int]:
        """Yield the pages with items, if items are kept; take note of those that belong to none."""
        if not self._config.keeps_items or self.store is None:
            return
        for page, item in self.store.kept_items():
            if page == NO_PAGE:
                self._items_before[item] += 1
            else:
                yield page

    def add_seeds(self, pages: Sequence[int]) -> list[int]:
        """Record pages as seeds, on disk with the next `commit`; return the new ones, in order."""
        new = [page for page in dict.fromkeys(pages) if page not in self.seeds]
        self.seeds |= dict.fromkeys(new)
        if self.coverage is not None:
            self.coverage.add_seeds(new)
        if self.store is not None:
            requests = self.requests.take_unsaved()
            self.store.record_pages(self.pages, new, requests, commits=False)
        return new

    def commit(self) -> None:
        """Commit all recorded visits; raises StoreError if that fails."""
        if self.store is not None and self.store.is_behind:
            with self._writing:
                self.store.commit()

    def flush(self) -> None:
        """Flush all pages, requests and marks that were not recorded with a visit."""
        if self.store is not None:
            with self._writing:
                self.store.record_pages(self.pages, requests=self.requests.take_unsaved())

    def finish(self, reason: str) -> None:
        """Flush, and record why the run ends; do nothing after a failure to write."""
        if self.store is not None and not self.has_failed:
            self.flush()
            self.store.set_meta(ENDED_KEY, reason)

    @property
    def has_failed(self) -> bool:
        """Whether a write has failed."""
        return self._writing.has_failed

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
        first = 0 if self.state is None else n_known(self.state)[1]
        urls = self.store.page_urls(first)
        self._budgets.add_all(
            (site, host(site), url) for site, url in zip(sites[first:], urls, strict=True)
        )

    def save_state(self, queue: PageQueue, refused: dict[int, str]) -> None:
        """Save the state after all visits so far, if one can be saved and none is being written.

        `refused` has the pages that a resume asks for again, with the causes. The arrays are copied
        first, and written in a thread.
        """
        store, states = self.store, self.states
        if store is None or states is None or states.is_writing:
            return
        if self.has_failed or not queue.can_be_saved:
            return
        self.flush()
        if store.last_seq:
            assert isinstance(self.pages, StoredPages)
            state = states.begun(store, len(self.pages), self.pages.n_sites)
            self.pages.save(state)
            state.put({f"budgets.{name}": each for name, each in self._budgets.arrays().items()})
            self.figures.save(state, refused.values())
            state.put(queue.arrays(list(refused)))
            states.write(state, store)

    def _page_table(self) -> PageTable:
        """Return the pages known so far, with URLs in memory only if no store will hold them."""
        if self._path is None:
            return PageTable()
        if self.store is None:
            return StoredPages(self._stored_urls)
        return self.store.stored_pages(self.state)

    def _stored_urls(self, pages: Iterable[int]) -> list[UrlRow]:
        """Return URLs and identities of pages of a crawl that began with an empty store."""
        assert self.store is not None
        return self.store.read_urls(pages)
