"""A crawl store as Arrow tables, for pandas, Polars, DuckDB and whatever else reads Arrow."""

from crawlprio.tables.arrow import Table
from crawlprio.tables.crawl import Crawl, read

__all__ = ["Crawl", "Table", "read"]
