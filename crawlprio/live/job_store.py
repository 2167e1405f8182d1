"""Opens the store that a crawl records in: the store of a resumed job, or a new one."""

from __future__ import annotations

from crawlprio.config import CrawlConfig
from crawlprio.store import (
    Store,
    StoreInUse,
    discard_unfinished,
    keep_existing,
    make_private_folder,
)


def existing_store(config: CrawlConfig) -> Store | None:
    """Open the store of the crawl to resume; None if the job directory has none."""
    path = config.store_path
    if path is None or not config.resumes or not path.exists():
        return None
    return None if discard_unfinished(path) else Store.open(path)


def new_store(config: CrawlConfig) -> tuple[Store | None, str]:
    """Create a store, and rename an existing one; None if nothing is recorded.

    The second value is a one-sentence remark for the user, or empty.
    """
    path = config.store_path
    if path is None:
        return None, ""
    if config.resumes:
        make_private_folder(path.parent)
        return Store.create(path), ""
    try:
        kept = keep_existing(path)
    except StoreInUse:
        store = Store.create_numbered(path)
        return store, f"{path} is in use; this crawl is recorded in {store.path}."
    remark = "" if kept is None else f"{path} already existed; it was renamed to {kept}."
    return Store.create(path), remark
