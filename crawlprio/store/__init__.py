"""The crawl store: pages, visits and links in one SQLite file, each visit written atomically."""

from crawlprio.store.crawl_state import SiteState
from crawlprio.store.files import (
    NameTaken,
    StoreInUse,
    discard,
    discard_unfinished,
    earlier_stores,
    keep_existing,
    make_private_folder,
)
from crawlprio.store.schema import SCHEMA_VERSION
from crawlprio.store.store import Store
from crawlprio.store.stored_pages import StoredPages
from crawlprio.store.transactions import TransactionParticipant
from crawlprio.store.visit_rows import MAX_TEXT

__all__ = [
    "MAX_TEXT",
    "SCHEMA_VERSION",
    "NameTaken",
    "SiteState",
    "Store",
    "StoreInUse",
    "StoredPages",
    "TransactionParticipant",
    "discard",
    "discard_unfinished",
    "earlier_stores",
    "keep_existing",
    "make_private_folder",
]
