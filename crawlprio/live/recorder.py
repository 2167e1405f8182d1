"""The recorder: where a crawl is kept, its page table, discovery, and the record of its visits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import repeat
from pathlib import Path
from time import time

import numpy as np

from crawlprio.errors import ConfigError, StoreError
from crawlprio.frontier import PageQueue
from crawlprio.frontier.protocol import HttpRecord, PageVisit
from crawlprio.frontier.saved_queue import arrays_of, can_be_saved
from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageTable, Visit
from crawlprio.items import LinkPairs
from crawlprio.live.crawl_counters import CrawlCounters, Goal
from crawlprio.live.requests import Identities
from crawlprio.live.roles import FACTS
from crawlprio.live.state_keeper import StateKeeper, n_known
from crawlprio.measure.stored_crawl import ENDED_KEY, recorded_object
from crawlprio.safe_files import is_missing
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store import (
    NameTaken,
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
from crawlprio.store.saved_state import SavedState
from crawlprio.store.side_tables import EVIDENCE, TABLES, SideTable
from crawlprio.store.stored_pages import UrlRow
from crawlprio.store.visit_rows import storable
from crawlprio.web.budgets import NO_SITE, REFUSED_TEXT, Budgets
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of, is_of_page


class Discovery:
    """Finds the pages of links in the page table, and adds those that are new.

    When one of the `budgets` has no room for a page, `refused` is called with the reason and the
    URL.
    """

    def __init__(
        self,
        config: CrawlConfig,
        pages: PageTable,
        identities: Identities,
        refused: Callable[[str, str], object],
    ) -> None:
        self._pages = pages
        self._identities = identities
        self.identity_of = identities.of_url
        self._refused = refused
        self.budgets = Budgets(
            lambda site: registered_domain(pages.host(site)),
            pages.site_size,
            per_site=config.max_pages_per_site,
            per_domain=config.max_pages_per_domain,
            per_pattern=config.max_pages_per_pattern,
            max_sites=config.max_sites,
        )

    def add_page(self, identity: str, url: str, site: int, depth: int) -> int:
        """Add a new page under the next id, whether or not the budgets have room for it."""
        self.budgets.add(site, url)
        return self._pages.add(identity, url, site, depth)

    def page_of(self, identity: str, url: str, host: str, depth: int) -> int:
        """Return the page with an identity, added if it is new, with or without room for it."""
        page = self._pages.find(identity)
        if page == NO_PAGE:
            page = self.add_page(identity, url, self._pages.site(host), depth)
        return page

    def has_room(self, site: int, url: str) -> bool:
        """Return whether the budgets of a site, its domain and its pattern have room for a page."""
        refusal = self.budgets.refuses(site, url)
        if refusal:
            self._refused(refusal, url)
        return not refusal

    def find_or_add(self, urls: Iterable[str], depth: int, source: int = NO_PAGE) -> list[int]:
        """Return the pages that plain links of a page lead to, adding new ones with the next ids.

        A link that a budget has no room for, or that leads to no page, is `NO_PAGE`.
        """
        urls = list(urls)
        pages = self._pages
        found = pages.find_all(urls)
        if NO_PAGE not in found:
            return found
        identity_of, site_of = self._identities.of_url, pages.site
        are_plain = self._identities.are_own(urls)
        take, add = self.budgets.take, pages.add
        source_site = NO_SITE if source == NO_PAGE else int(pages.sites[source])
        bounds_sites = source_site != NO_SITE and self.budgets.limits_sites
        n_new_sites, added = 0, dict[str, int]()
        for at, url in enumerate(urls):
            if found[at] != NO_PAGE or not (are_plain or is_of_page(url)):
                continue
            identity = url if are_plain else identity_of(url)
            page = added.get(identity, NO_PAGE)
            if page == NO_PAGE and identity != url:
                page = pages.find(identity)
            if page == NO_PAGE:
                host = host_of(url)
                if bounds_sites and not pages.knows_host(host):
                    n_new_sites += 1
                    if not self.budgets.take_site(n_new_sites, pages.n_sites, source_site):
                        self._refused("sites", url)
                        continue
                site = site_of(host)
                refusal = take(site, url, len(pages), source_site)
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
            if found[at] == NO_PAGE and is_of_page(url) and pages.knows_host(host_of(url)):
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
            extras=dict(pairs.extras),
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
    recorded, or a frontier elsewhere records the crawl. The crawl `resumes` one
    that the store already held, from a saved `state` unless all visits are replayed; `states` saves
    the next one, unless a resume has to see every visit again. `previous_end` is the Unix time at
    which the previous run ended cleanly; None if there was none, or it was killed. `remark` is one
    sentence on the store for the user (an existing file was renamed, say), or empty. `discovery`
    finds the pages of links, within `budgets`, and `goal` knows when the run has enough.

    `refused` and `enough` are called with a reason: when a budget has no room for a page, and its
    URL; and after each visit once the run has enough. `on_visit` are called with each visit, those
    of a resumed crawl included, and `on_record` and `on_flush` as parts are by `keep_record` and
    `flushed`.

    Once a write `has_failed`, nothing more may be written: a resume would queue a page in another
    place if the visit that discovered it were missing.
    """

    def __init__(
        self,
        config: CrawlConfig,
        identities: Identities,
        *,
        refused: Callable[[str, str], object] = lambda reason, url: None,
        enough: Callable[[str], object] = lambda reason: None,
        on_visit: Sequence[Callable[[Visit], object]] = (),
        on_record: Sequence[Callable[[HttpRecord, int | None], object]] = (),
        on_flush: Sequence[Callable[[bool], object]] = (),
        tables: Mapping[str, SideTable] = TABLES,
    ) -> None:
        self._config = config
        self._on_visit, self._on_record, self._on_flush = on_visit, on_record, on_flush
        self._tables = tables
        own = [table for name, table in tables.items() if name not in TABLES]
        self.read_back = (*EVIDENCE, *own) if on_visit else EVIDENCE
        """The side tables whose rows a resume reads with the visits."""
        self.remark = ""
        self._path = config.store_path
        self.saves_requests = self._path is not None and config.resumes
        """Whether waiting requests are saved for a later run."""
        self.store = None
        if self._path is not None and self.saves_requests:
            self.store = _store_to_resume(self._path, tables)
        self.resumes = self.store is not None and self.store.n_pages > 0
        self.previous_end = None if self.store is None else self.store.ended_at
        stop_at, model = config.stop_at_coverage, config.value_model
        is_certain = stop_at is not None and stop_at.is_certain
        sees_all = on_visit or is_certain or (model is not None and model.learns)
        self.states: StateKeeper | None = None
        self.state: SavedState | None = None
        if self.saves_requests and not sees_all:
            self.states = StateKeeper(config)
            if self.store is not None and self.resumes:
                self.state = self.states.read(self.store)
        self.pages = self._page_table()
        self.figures = CrawlCounters(self.pages)
        self.goal = Goal(config, self.figures, enough)
        self.seeds: dict[int, None] = {}
        if self.store is not None:
            self.seeds = dict.fromkeys(self.store.seeds())
        self.goal.add_seeds(list(self.seeds))
        self.discovery = Discovery(config, self.pages, identities, refused)
        self.budgets = self.discovery.budgets
        self._items_before: Counter[str] = Counter()
        if self.state is not None:
            self.budgets.restore(self.state.take, *n_known(self.state)[1:])
            self.figures.restore(self.state)
        self._writing = _Writing()

    def open(self, order: str = "") -> None:
        """Open a new store unless one is resumed; call it once nothing else can be refused.

        `order` is what ordered the visits, unless it is the ordering of the settings.
        """
        if self.store is None and self._path is not None:
            if self.saves_requests:
                make_private_folder(self._path.parent)
                self.store = Store.create(self._path)
            else:
                self.store, self.remark = _new_store(self._path, self._config.keep_stores)
            self.store.declare(self._tables)
        stop_at = self._config.stop_at_coverage
        if self.store is None and stop_at is not None and not stop_at.is_certain:
            raise ConfigError(
                f"CRAWLPRIO_STOP_AT_COVERAGE is {stop_at.written!r}, an estimate "
                "from the crawl store, and this process keeps none; give a number instead."
            )
        if self.store is not None:
            if self.store.is_archived and not self._on_record:
                raise StoreError(
                    f"{self.store.path}: this crawl is archived, and this run would leave a gap; "
                    "name the folder again (--warc FOLDER)."
                )
            if self._config.max_store_bytes is not None:
                self.store.limit_size(self._config.max_store_bytes)
            topic = self._config.topic
            self.store.add_ordering(order or self._config.ordering_name)
            self.store.set_meta("topic", "" if topic is None else ",".join(topic.terms))
            model = self._config.value_model
            if model is not None:
                self.store.set_meta("value_model", model.name)

    def close(self) -> None:
        """Flush what was added after the last visit, and close the store."""
        store = self.store
        with ExitStack() as last:
            if store is not None:
                last.enter_context(store)
            last.callback(lambda: [flushed(self.has_failed) for flushed in self._on_flush])
            if store is not None and not self.has_failed:
                with self._writing:
                    self.flush()
                    store.end_run(time(), self.pages)

    def record(
        self,
        visit: Visit,
        ended: int | None = None,
        *,
        items: Sequence[str] = (),
        exchange: HttpRecord | None = None,
    ) -> None:
        """Record a visit, on disk with the next `commit`.

        It completes the saved request of the number `ended`. `items` are JSON. `exchange` has the
        records of its fetch, which are kept with the visit or not at all.
        """
        if exchange is not None:
            self.keep_record(exchange, None if self.store is None else self.store.next_seq)
        if self.store is not None:
            self.store.record(visit, self.pages, ended=ended, items=items, commits=False)
        page = visit.page
        if page != NO_PAGE and 200 <= visit.status < 300:
            self.budgets.fetched(page, int(self.pages.sites[page]))
        self._count(visit)
        self.goal.check()

    def record_check(self, page: int, ended: int | None, exchange: HttpRecord | None) -> None:
        """Record that a page was fetched again and is as it was: no visit, but a fetch.

        It is on disk with the next `commit`, as are the records of the fetch.
        """
        if exchange is not None:
            self.keep_record(exchange)
        if self.store is not None:
            if ended is not None:
                self.store.pending.end_request(ended, page)
            self.store.pending.leased.set(page, False)
            self.store.record_pages(self.pages, commits=False)
        self.goal.count_check()

    def _count(self, visit: Visit) -> None:
        self.figures.count(visit)
        for note in self._on_visit:
            note(visit)
        self.goal.observe(visit)

    def keep_record(self, record: HttpRecord, visit: int | None = None) -> None:
        """Have parts keep a fetch with the next transaction; `visit` is None if it is no visit."""
        with self._writing:
            for keep in self._on_record:
                keep(record, visit)

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
        self.goal.add_seeds(new)
        if self.store is not None:
            self.store.record_pages(self.pages, new, commits=False)
        return new

    def commit(self) -> None:
        """Commit all recorded visits; raises StoreError if that fails."""
        if self.store is not None and self.store.pending.pages is not None:
            with self._writing:
                self.store.commit()

    def flush(self) -> None:
        """Flush all pages, requests and marks that were not recorded with a visit."""
        if self.store is not None:
            with self._writing:
                self.store.record_pages(self.pages)

    def finish(self, reason: str) -> None:
        """Flush, and record why the run ends; do nothing after a failure to write."""
        if self.store is not None and not self.has_failed:
            self.flush()
            self.store.set_meta(ENDED_KEY, reason)

    @property
    def has_failed(self) -> bool:
        """Whether a write has failed."""
        return self._writing.has_failed

    def keep_robots(self, site: str, rules: str) -> None:
        """Record what the robots.txt of a site, by host and port, tells this crawl's robot."""
        if self.store is not None:
            self.store.pending.keep_robots(site, rules)

    def save_site(self, state: SiteState) -> None:
        """Record the state of a site, whose pause begins now."""
        if self.saves_requests and self.store is not None:
            self.store.keep_site_state(state._replace(paused_until=time() + state.pause))

    def replay(self, visit: Visit, first_new: int) -> None:
        """Replay a visit of the resumed crawl; pages from `first_new` on are new in it."""
        if visit.page == NO_PAGE:
            return
        sites = self.pages.sites
        source = int(sites[visit.page])
        new = visit.targets[visit.targets >= first_new]
        if len(new):
            self.budgets.replay(source, zip(new.tolist(), sites[new].tolist(), strict=True))
        if 200 <= visit.status < 300:
            self.budgets.replay_fetched(visit.page, source)
        self._count(visit)

    def end_replay(self, asked_for: Iterable[int]) -> None:
        """End the replay of the resumed crawl, in which the project's requests wait for some pages.

        These do not count as claims.
        """
        assert self.store is not None
        self.figures.n_before = self.figures.n_fetched
        for page in asked_for:
            self.budgets.replay_asked_for(page)
        first = 0 if self.state is None else n_known(self.state)[1]
        sites = self.pages.sites[first:].tolist()
        self.budgets.add_all(zip(sites, self.store.page_urls(first), strict=True))

    def save_state(
        self, queue: PageQueue, refused: dict[int, str], *, is_last: bool = False
    ) -> None:
        """Save the state after all visits so far, if one can be saved and is due, or `is_last`.

        `refused` has the pages that a resume asks for again, with the causes. The arrays are copied
        first, and written in a thread; the last state is on disk when this returns.
        """
        store, states = self.store, self.states
        if store is None or states is None:
            return
        if is_last:
            states.wait()
        elif states.is_writing or not states.is_due(store):
            return
        if self.has_failed or not can_be_saved(queue):
            return
        self.flush()
        if store.last_seq:
            assert isinstance(self.pages, StoredPages)
            state = states.begun(store, len(self.pages), self.pages.n_sites)
            self.pages.save(state)
            state.put(self.budgets.arrays())
            self.figures.save(state, refused.values())
            state.put(arrays_of(queue, list(refused)))
            states.write(state, store)
            if is_last:
                states.wait()

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


def _store_to_resume(path: Path, tables: Mapping[str, SideTable]) -> Store | None:
    """Open the store of the crawl to resume; None if the job directory has none."""
    if is_missing(path) or discard_unfinished(path):
        return None
    store = Store.open(path)
    store.declare(tables)
    mail = recorded_object(store, FACTS).get("shards")
    if isinstance(mail, dict) and mail.get("shards") != 1:
        store.close()
        raise StoreError(
            f"{path}: this is the store of one of several shards, which crawls do not have any "
            "more; begin a new crawl in another folder. Its pages can still be read."
        )
    return store


def _new_store(path: Path, n_kept: int | None) -> tuple[Store, str]:
    """Create a store; an existing one is renamed, and surplus ones go. Return a remark on that."""
    try:
        kept = keep_existing(path)
        store = Store.create(path)
    except (StoreInUse, NameTaken):  # the latter by a crawl that begins at the same time
        store = Store.create_numbered(path)
        return store, f"{path} is in use; this crawl is recorded in {store.path}."
    for earlier in [] if n_kept is None else earlier_stores(path)[n_kept:]:
        with suppress(StoreError):
            discard(earlier)
    was_renamed = kept is not None and kept.exists()
    return store, f"{path} already existed; it was renamed to {kept}." if was_renamed else ""
