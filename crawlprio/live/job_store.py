"""The place of a crawl's store, and opening it: the store of a resumed job, or a new one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from crawlprio.errors import StoreError
from crawlprio.store import (
    Store,
    StoreInUse,
    discard,
    discard_unfinished,
    earlier_stores,
    keep_existing,
    make_private_folder,
)


class StorePlace(NamedTuple):
    """Where a crawl is recorded.

    Parameters
    ----------
    path
        path of the store; None: nothing is recorded in this process.
    is_job
        whether the store is in a job directory, and a crawl that it holds is resumed.
    n_kept
        number of stores of earlier crawls to keep beside a new one; None: all.
    """

    path: Path | None
    is_job: bool
    n_kept: int | None = None

    @property
    def saves_requests(self) -> bool:
        """Whether waiting requests are saved for a later run."""
        return self.path is not None and self.is_job

    def existing(self) -> Store | None:
        """Open the store of the crawl to resume; None if the job directory has none."""
        path = self.path
        if path is None or not self.is_job or not path.exists():
            return None
        return None if discard_unfinished(path) else Store.open(path)

    def create(self) -> tuple[Store | None, str]:
        """Create a store, and rename an existing one; None if nothing is recorded.

        The second value is a one-sentence remark for the user, or empty.
        """
        path = self.path
        if path is None:
            return None, ""
        if self.is_job:
            make_private_folder(path.parent)
            return Store.create(path), ""
        try:
            kept = keep_existing(path)
        except StoreInUse:
            store = Store.create_numbered(path)
            return store, f"{path} is in use; this crawl is recorded in {store.path}."
        store = Store.create(path)
        surplus = [] if self.n_kept is None else earlier_stores(path)[self.n_kept :]
        for earlier in surplus:
            with suppress(StoreError):
                discard(earlier)
        if kept is None or not kept.exists():
            return store, ""
        return store, f"{path} already existed; it was renamed to {kept}."
