"""Copying the store of a crawl of many workers to one file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from redis.exceptions import RedisError

from crawlprio.errors import StoreError
from crawlprio.plugins.shared.connection import checked_client, failure
from crawlprio.plugins.shared.mailbox import Mailbox
from crawlprio.store import Store
from crawlprio.store.files import store_errors

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


class Collected(NamedTuple):
    """The number of visits and pages of a store."""

    n_visits: int
    n_pages: int


def collect(settings: BaseSettings, crawl: str, path: Path, own: Path) -> Collected:
    """Copy the store of a crawl, which may be running, to a new file; return what it has.

    `settings` name the server. `own`: the store that the crawl has here by these settings, if the
    server has forgotten it. Raises `StoreError` if the file exists, or the store is not on this
    machine.
    """
    try:
        folder = Mailbox(checked_client(settings), crawl).facts().get("folder")
    except RedisError as error:
        raise failure(error) from None
    found = own if folder is None else Path(folder) / own.name
    if not found.is_file():
        where = f"it is in {folder} on another machine" if folder else f"{own} is missing"
        raise StoreError(
            f"The store of the crawl {crawl!r} is not here: {where}; copy it from where the brain "
            "of the crawl runs."
        )
    if path.exists():
        raise StoreError(f"{path}: the file exists; name a new one.")
    with (
        store_errors(path),
        closing(sqlite3.connect(f"{found.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(path)) as copy,
    ):
        source.backup(copy)
    with Store.open(path, readonly=True) as store:
        return Collected(store.n_visits, store.n_pages)
