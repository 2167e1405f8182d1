"""Copying the store of a crawl of many workers, or those of its shards, to one file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from heapq import merge as merge_sorted
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import numpy as np
from redis.exceptions import RedisError

from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.measure.stored_crawl import ENDED_KEY, SETTINGS_KEY
from crawlprio.plugins.shared.connection import checked_client, failure
from crawlprio.plugins.shared.mailbox import Mailbox
from crawlprio.plugins.shared.shards import FACTS, shards_from
from crawlprio.settings_table.config import read_setting
from crawlprio.store import Store
from crawlprio.store.files import store_errors
from crawlprio.store.outcomes import FOREIGN
from crawlprio.store.schema import OWN_FACTS

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


_BATCH = 500
"""Visits in one transaction."""


def collect(settings: BaseSettings, crawl: str, path: Path, own: Path) -> tuple[int, int]:
    """Copy the store of a crawl, which may be running, to a new file.

    Return its numbers of visits and pages. The stores of several shards become one. `settings` name
    the server. `own`: the store that the crawl has here by these settings, if the server has
    forgotten it. Raises `StoreError` if the file exists, or a store is not on this machine.
    """
    client = checked_client(settings)
    try:
        n = int(Mailbox(client, crawl).facts().get("shards", 0))
        n = n or read_setting(settings, "CRAWLPRIO_REDIS_SHARDS")
        folders = [Mailbox(client, crawl, shard).facts().get("folder") for shard in range(n)]
    except RedisError as error:
        raise failure(error) from None
    found = []
    for shard, folder in enumerate(folders):
        here = own if n == 1 else own.parent / str(shard) / own.name
        found.append(here if folder is None else Path(folder) / own.name)
        if not found[-1].is_file():
            where = f"it is in {folder} on another machine" if folder else f"{here} is missing"
            raise StoreError(
                f"The store of the crawl {crawl!r} is not here: {where}; copy it from where the "
                "brain of the crawl runs."
            )
    if path.exists():
        raise StoreError(f"{path}: the file exists; name a new one.")
    if n == 1:
        _copy(found[0], path)
    else:
        merge(found, path)
    with Store.open(path, readonly=True) as store:
        return store.n_visits, store.n_pages


def _copy(found: Path, path: Path) -> None:
    with (
        store_errors(path),
        closing(sqlite3.connect(f"{found.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(path)) as copy,
    ):
        source.backup(copy)


def merge(paths: Sequence[Path], path: Path) -> None:
    """Merge the stores of all shards of a crawl, in the order of their numbers, into a new one.

    It is the store of one crawl: each visit once, in the order in which fetches ended, with its
    links to all shards. Pages are numbered as these visits discover them. Sitemaps, archives and
    waiting requests stay in the stores of the shards. O(pages) memory, 250 bytes each.
    """
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(each, readonly=True)) for each in paths]
        for each in stores:
            opened.enter_context(each.snapshot())
        store = opened.enter_context(Store.create(path))
        _Merge(stores, store).run()


class _Merge:
    """Merges stores, one of each shard, into an empty one."""

    def __init__(self, stores: Sequence[Store], store: Store) -> None:
        self._stores, self._store = stores, store
        self._pages = store.stored_pages()
        self._tables = [each.load_pages() for each in stores]
        self._keys = [table.new_since(0, 0).keys for table in self._tables]
        self._ids = [dict[int, int]() for _ in stores]
        facts = json.loads(stores[0].get_meta(FACTS) or "{}").get("shards", {})
        self._shards = shards_from(facts)
        if len(self._shards) != len(stores):
            raise StoreError(f"{stores[0].path}: this is no store of one of {len(stores)} shards.")

    def run(self) -> None:
        store, pages, stores = self._store, self._pages, self._stores
        seeds = [
            self._page(shard, page)
            for shard, each in enumerate(stores)
            for page in each.seeds()
            if self._is_own(shard, page)
        ]
        store.record_pages(pages, seeds)
        seqs = [dict[int, int]() for _ in stores]
        visits = (self._visits(shard) for shard in range(len(stores)))
        for at, (_, shard, seq, visit) in enumerate(merge_sorted(*visits), 1):
            seqs[shard][seq] = store.record(self._visit(shard, visit), pages, commits=False)
            if at % _BATCH == 0:
                store.commit()
        for shard, table in enumerate(self._tables):
            for page in range(len(table)):
                if self._is_own(shard, page):
                    self._page(shard, page)
        store.record_pages(pages)
        for shard, each in enumerate(stores):
            ids = self._ids[shard]
            store.copy_beside_visits(each, seqs[shard], ids)
            store.keep_items([(ids.get(page, NO_PAGE), item) for page, item in each.kept_items()])
            for state in each.site_states():
                store.keep_site_state(state)
            for rule, refusal in each.refusals().items():
                store.refuse(rule, refusal.links, refusal.examples)
        self._copy_facts()
        store.end_run(stores[0].ended_at or time(), pages)

    def _copy_facts(self) -> None:
        """Copy the facts of the crawl; each shard had a part of the pages that it may get."""
        first, left_out = self._stores[0], (*OWN_FACTS, FACTS, "state_mark")
        for name, fact in first.facts("").items():
            if name not in left_out:
                self._store.set_meta(name, fact)
        limits = [json.loads(each.get_meta(SETTINGS_KEY) or "{}") for each in self._stores]
        parts = [each["CRAWLPRIO_MAX_PAGES"] for each in limits if each]
        if len(parts) == len(limits) and all(parts):
            limits[0]["CRAWLPRIO_MAX_PAGES"] = sum(parts)
        self._store.set_meta(SETTINGS_KEY, json.dumps(limits[0]))
        ends = {each.get_meta(ENDED_KEY) for each in self._stores}
        self._store.set_meta(
            ENDED_KEY, next((end for end in ends if end != "finished"), "finished")
        )

    def _is_own(self, shard: int, page: int) -> bool:
        table = self._tables[shard]
        return self._shards.of(table.host(int(table.sites[page]))) == shard

    def _page(self, shard: int, page: int) -> int:
        """Return the new id of a page; `NO_PAGE` if the shard of its site does not know it."""
        known = self._ids[shard].get(page)
        if known is not None:
            return known
        table = self._tables[shard]
        url, host = table.url(page), table.host(int(table.sites[page]))
        identity = self._keys[shard].get(page, url)
        home = self._shards.of(host)
        if home == shard:
            site, depth = self._pages.site(host), int(table.depths[page])
            new = self._pages.add(identity, url, site, depth)
        else:
            own = self._tables[home].find(identity)
            new = NO_PAGE if own == NO_PAGE else self._page(home, own)
        if new != NO_PAGE:
            self._ids[shard][page] = new
        return new

    def _visits(self, shard: int) -> Iterator[tuple[float, int, int, Visit]]:
        """Yield the visits of a shard: time, shard, number, visit."""
        for seq, visit in enumerate(self._stores[shard].visits(), 1):
            if visit.error != FOREIGN and visit.page != NO_PAGE:
                yield visit.fetched_at, shard, seq, visit

    def _visit(self, shard: int, visit: Visit) -> Visit:
        """Return a visit with new ids; links that another shard refused are outside."""
        page = self._page(shard, visit.page)
        places = [self._page(shard, target) for target in visit.targets.tolist()]
        table, anchors = self._tables[shard], list(visit.anchors)
        kept = [at for at, target in enumerate(places) if target != NO_PAGE]
        outside = [
            (table.url(int(visit.targets[at])), anchors[at] if anchors else "")
            for at, target in enumerate(places)
            if target == NO_PAGE
        ]
        return visit._replace(
            page=page,
            targets=np.array([places[at] for at in kept], dtype=np.int32),
            anchors=[anchors[at] for at in kept] if anchors else [],
            outside=[*visit.outside, *outside],
        )
