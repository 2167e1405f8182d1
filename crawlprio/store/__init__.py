"""The crawl store: pages, visits and links in one SQLite file, one transaction per visit.

It must not know Scrapy, nor what an ordering makes of a visit.
"""

from crawlprio.store.files import StoreInUse, keep_existing
from crawlprio.store.rows import MAX_TEXT
from crawlprio.store.schema import SCHEMA_VERSION
from crawlprio.store.store import Store

__all__ = ["MAX_TEXT", "SCHEMA_VERSION", "Store", "StoreInUse", "keep_existing"]
