"""Copies the store of a crawl of many workers to one file, and joins the stores of crawls."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from heapq import merge as merge_sorted
from pathlib import Path
from time import time
from urllib.parse import quote

import numpy as np
from scrapy.settings import BaseSettings

from crawlprio.errors import StoreError
from crawlprio.extras import require
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.live.roles import FACTS
from crawlprio.measure.receipt_document import make_receipt, write_receipt
from crawlprio.measure.stored_crawl import ENDED_KEY, SETTINGS_KEY, number_of, recorded_object
from crawlprio.safe_files import is_missing, real
from crawlprio.settings_table.config import read_setting
from crawlprio.store import Store, discard
from crawlprio.store.files import store_errors
from crawlprio.store.schema import OWN_FACTS

_BATCH = 500
"""Visits in one transaction."""


def coordinator_folder(crawl: str) -> Path:
    """Return the folder of a crawl in Redis whose JOBDIR is not set."""
    return Path("crawls") / (quote(crawl, safe=" ") or "crawl")


def shared_store(settings: BaseSettings, crawl: str) -> Path:
    """Return the store of a crawl in Redis whose coordinator has these settings."""
    folder = Path(read_setting(settings, "JOBDIR") or coordinator_folder(crawl))
    return folder / (read_setting(settings, "CRAWLPRIO_STORE") or "crawl.sqlite")


def collect(settings: BaseSettings, names: Sequence[str], path: Path) -> str:
    """Copy the store of a crawl of many workers to a new file, or join several, with the receipt.

    Return a sentence on it. Raises `StoreError` if the file exists, or a store cannot be read.
    """
    if len(names) > 1:
        n_visits, n_pages = join([*map(Path, names)], path)
    else:
        require("redis", "redis", "links collect")
        n_visits, n_pages = _copy(settings, names[0], path)
    if read_setting(settings, "CRAWLPRIO_RECEIPT"):
        write_receipt(make_receipt(path), path)
    what = f"{len(names)} stores" if len(names) > 1 else f"crawl {names[0]}"
    return f"{path}: {n_visits:,} visits and {n_pages:,} pages of {what}"


def _copy(settings: BaseSettings, crawl: str, path: Path) -> tuple[int, int]:
    """Copy the store of a crawl, which may be running; return its numbers of visits and pages."""
    from redis.exceptions import RedisError

    from crawlprio.plugins.shared.connection import checked_client, failure
    from crawlprio.plugins.shared.redis_streams import RedisStreams

    client = checked_client(settings)
    try:
        folder = RedisStreams(client, crawl).facts().get("folder")
    except RedisError as error:
        raise failure(error) from None
    found = shared_store(settings, crawl)
    if folder is not None:
        found = Path(folder) / found.name
    if is_missing(found):
        where = f"it is in {folder} on another machine" if folder else f"{found} is missing"
        raise StoreError(
            f"The store of the crawl {crawl!r} is not here: {where}; copy it from where the "
            "coordinator of the crawl runs."
        )
    _check_is_new(path)
    with (
        store_errors(path),
        closing(sqlite3.connect(f"{real(found).as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(path)) as copy,
    ):
        source.backup(copy)
    with Store.open(path, readonly=True) as store:
        return store.n_visits, store.n_pages


def _check_is_new(path: Path) -> None:
    if os.path.lexists(path):
        raise StoreError(f"{path}: the file exists; name a new one.")


def join(paths: Sequence[Path], path: Path) -> tuple[int, int]:
    """Join the stores of crawls with different seeds in a new one; return its visits and pages.

    It is the store of one crawl: visits in the order in which fetches ended, and pages numbered as
    these discover them. A page that several crawls visited has the visits of the first store, as
    have all facts. Sitemaps, archives and waiting requests are not copied. O(pages) memory, 250
    bytes each.
    """
    _check_is_new(path)
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(each, readonly=True)) for each in paths]
        for each in stores:
            opened.enter_context(each.snapshot())
        store = opened.enter_context(Store.create(path))
        try:
            _Joining(stores, store).run()
        except StoreError:
            store.close()
            discard(path)
            raise
        return store.n_visits, store.n_pages


class _Joining:
    """Copies stores into an empty one."""

    def __init__(self, stores: Sequence[Store], store: Store) -> None:
        self._stores, self._store = stores, store
        self._pages = store.stored_pages()
        self._tables = [each.load_pages() for each in stores]
        self._keys = [table.new_since(0, 0).keys for table in self._tables]
        self._ids = [dict[int, int]() for _ in stores]
        self._visited_in: dict[int, int] = {}

    def run(self) -> None:
        store, pages, stores = self._store, self._pages, self._stores
        seeds = [self._page(nth, page) for nth, each in enumerate(stores) for page in each.seeds()]
        store.record_pages(pages, [*dict.fromkeys(seeds)])
        store.declare(
            {name: table for each in stores for name, table in each.side_tables().items()}
        )
        visits = (self._visits(nth) for nth in range(len(stores)))
        for at, (_, nth, _, visit) in enumerate(merge_sorted(*visits), 1):
            page = self._page(nth, visit.page)
            if self._visited_in.setdefault(page, nth) == nth:
                targets = [self._page(nth, target) for target in visit.targets.tolist()]
                copied = visit._replace(page=page, targets=np.array(targets, dtype=np.int32))
                store.record(copied, pages, commits=False)
            if at % _BATCH == 0:
                store.commit()
        for nth, table in enumerate(self._tables):
            for page in range(len(table)):
                self._page(nth, page)
        store.record_pages(pages)
        for nth, each in enumerate(stores):
            ids = self._ids[nth] | {NO_PAGE: NO_PAGE}
            items = ((ids[page], item) for page, item in each.kept_items())
            store.keep_items([row for row in items if self._visited_in.get(row[0], nth) == nth])
            for state in each.site_states():
                store.keep_site_state(state)
            for rule, refusal in each.refusals().items():
                store.pending.refusals.add(rule, refusal.links, refusal.examples)
        self._copy_facts()
        store.end_run(max(each.ended_at or time() for each in stores), pages)

    def _copy_facts(self) -> None:
        """Copy the facts of the first crawl, with the sum of all limits of pages."""
        first, left_out = self._stores[0], (*OWN_FACTS, FACTS, "state_mark")
        for name, fact in first.facts("").items():
            if name not in left_out:
                self._store.set_meta(name, fact)
        limits = [recorded_object(each, SETTINGS_KEY) for each in self._stores]
        parts = [number_of(each, "CRAWLPRIO_MAX_PAGES", 0) for each in limits]
        limits[0]["CRAWLPRIO_MAX_PAGES"] = int(sum(parts)) if all(parts) else None
        self._store.set_meta(SETTINGS_KEY, json.dumps(limits[0]))
        ends = {each.get_meta(ENDED_KEY) for each in self._stores}
        self._store.set_meta(
            ENDED_KEY, next((end for end in ends if end != "finished"), "finished")
        )

    def _page(self, nth: int, page: int) -> int:
        """Return the new id of a page of a store."""
        known = self._ids[nth].get(page)
        if known is None:
            table = self._tables[nth]
            url = table.url(page)
            identity = self._keys[nth].get(page, url)
            known = self._pages.find(identity)
            if known == NO_PAGE:
                site = self._pages.site(table.host(int(table.sites[page])))
                known = self._pages.add(identity, url, site, int(table.depths[page]))
            self._ids[nth][page] = known
        return known

    def _visits(self, nth: int) -> Iterator[tuple[float, int, int, Visit]]:
        """Yield the visits of a store: time, number of the store, number, visit."""
        store = self._stores[nth]
        visits = store.visits(history=True, beside=store.side_tables().values())
        for seq, visit in enumerate(visits, 1):
            if visit.page != NO_PAGE:
                yield visit.fetched_at, nth, seq, visit
