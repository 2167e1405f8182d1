"""Sitemaps, and what they name, as rows of a crawl store.

The two tables are created when the first sitemap becomes known; `docs/store.md` describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crawlprio.store.files import Connection, store_errors
from crawlprio.store.schema import CURRENT
from crawlprio.store.side_tables import SideRow, SideTable, all_exist
from crawlprio.store.visit_rows import storable
from crawlprio.web.urls import canonical, host_of

if TYPE_CHECKING:
    from crawlprio.web.sitemaps import Named

_SITEMAPS = SideTable(
    "sitemaps",
    """
    id INTEGER PRIMARY KEY, url TEXT NOT NULL, host TEXT NOT NULL, named_by TEXT NOT NULL,
    nesting INTEGER NOT NULL, fetched_at REAL, n_urls INTEGER NOT NULL, remark TEXT NOT NULL,
    UNIQUE(host, url)""",
)
_URLS = SideTable(
    "sitemap_urls",
    """
    id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, key TEXT, host TEXT NOT NULL,
    sitemap INTEGER NOT NULL, lastmod TEXT NOT NULL, priority REAL""",
    (
        "CREATE INDEX sitemap_urls_host ON sitemap_urls(host)",
        "CREATE INDEX sitemap_urls_key ON sitemap_urls(key) WHERE key IS NOT NULL",
    ),
)

PAGES_NAMED = """
    SELECT u.id AS named, p.id AS page FROM pages p CROSS JOIN sitemap_urls u ON u.url = p.url
    UNION SELECT u.id, p.id FROM pages p CROSS JOIN sitemap_urls u ON u.url = p.key
    UNION SELECT u.id, p.id FROM pages p CROSS JOIN sitemap_urls u
        ON u.key = ifnull(p.key, p.url) WHERE u.key IS NOT NULL
"""
"""A query for the pages that sitemaps name: rows of `sitemap_urls` and of `pages`."""

_COUNT_HOSTS = f"""
SELECT u.host, count(*), count(is_fetched), count(nullif(is_fetched, 0))
FROM sitemap_urls u LEFT JOIN (
    SELECT named, max(page IN (
            SELECT page FROM visits WHERE status BETWEEN 200 AND 399 AND seq IN {CURRENT}))
        AS is_fetched FROM ({PAGES_NAMED}) GROUP BY named
) ON named = u.id
GROUP BY u.host ORDER BY u.host
"""

_NAMED_PAGES = f"""
SELECT u.url, s.url, n.page FROM sitemap_urls u JOIN sitemaps s ON s.id = u.sitemap
LEFT JOIN ({PAGES_NAMED}) n ON n.named = u.id ORDER BY u.id
"""


class HostCount(NamedTuple):
    """Numbers of URLs that the sitemaps of a host name, and of those known and fetched."""

    host: str
    n_named: int
    n_known: int
    n_fetched: int


class StoredSitemaps:
    """The sitemaps of a crawl store. All methods raise `StoreError` for a damaged file.

    `transaction` begins one; it raises `StoreError` where the store is open for reading only.
    """

    def __init__(
        self, path: Path, db: Connection, transaction: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._path = path
        self._db = db
        self._transaction = transaction
        with store_errors(path):
            self._exist = all_exist(db, _SITEMAPS, _URLS)
            _SITEMAPS.check(db)
            _URLS.check(db)

    def add(self, urls: Iterable[str], host: str, named_by: str, nesting: int) -> list[SideRow]:
        """Record sitemaps to be read; return the new ones."""
        new = []
        with self._transaction():
            if not self._exist:
                _SITEMAPS.create(self._db)
                _URLS.create(self._db)
                self._exist = True
            for url in urls:
                added = self._db.execute(
                    "INSERT OR IGNORE INTO sitemaps(url, host, named_by, nesting, n_urls, remark)"
                    " VALUES(?, ?, ?, ?, 0, '')",
                    (url, host, storable(named_by), nesting),
                )
                if added.rowcount > 0:
                    new.append(SideRow(int(added.lastrowid or 0), url, host, nesting))
        return new

    def waiting(self) -> list[SideRow]:
        """Return the sitemaps that were not read yet, in the order in which they became known."""
        query = "SELECT id, url, host, nesting FROM sitemaps WHERE fetched_at IS NULL ORDER BY id"
        return [SideRow(*row) for row in self._read((int, str, str, int), query)]

    def wait_again(self) -> None:
        """Have all sitemaps read again."""
        if self._exist:
            with self._transaction():
                self._db.execute("UPDATE sitemaps SET fetched_at = NULL")

    def n_sitemaps(self, host: str) -> int:
        """Return how many sitemaps of a host are known."""
        query = "SELECT count(*) FROM sitemaps WHERE host = ?"
        return sum(n for (n,) in self._read((int,), query, host))

    def n_urls(self, host: str) -> int:
        """Return how many URLs of a host sitemaps have named."""
        query = "SELECT count(*) FROM sitemap_urls WHERE host = ?"
        return sum(n for (n,) in self._read((int,), query, host))

    def add_urls(self, sitemap: int, urls: Sequence[Named]) -> None:
        """Record what a sitemap names; of a URL that is known already, only its last change."""
        with self._transaction():
            self._db.executemany(
                "INSERT INTO sitemap_urls(sitemap, key, host, url, lastmod, priority)"
                " VALUES(?1, nullif(?2, ?4), ?3, ?4, ?5, ?6)"
                " ON CONFLICT(url) DO UPDATE SET lastmod = excluded.lastmod",
                [(sitemap, canonical(url), host_of(url), url, *rest) for url, *rest in urls],
            )

    def end(self, sitemap: int, fetched_at: float | None, n_urls: int, remark: str) -> None:
        """Record that a sitemap was read, or, if `fetched_at` is None, is to be read again."""
        with self._transaction():
            self._db.execute(
                "UPDATE sitemaps SET fetched_at = ?, n_urls = ?, remark = ? WHERE id = ?",
                (fetched_at, n_urls, storable(remark), sitemap),
            )

    def hosts(self) -> list[str]:
        """Return the hosts of which sitemaps have named pages."""
        query = "SELECT DISTINCT host FROM sitemap_urls ORDER BY host"
        return [host for (host,) in self._read((str,), query)]

    def urls_of(self, host: str, after: int, n_rows: int) -> list[tuple[int, str]]:
        """Return row and URL of the next pages that sitemaps name of a host, after a row."""
        query = "SELECT id, url FROM sitemap_urls WHERE host = ? AND id > ? ORDER BY id LIMIT ?"
        return [(number, url) for number, url in self._read((int, str), query, host, after, n_rows)]

    def counts(self) -> list[HostCount]:
        """Return how many URLs sitemaps name by host, and how many of them are known and fetched.

        A URL is known if it is a page of the crawl, and fetched if a visit got it, or a redirect.
        O(pages + URLs), some 3 s for a million.
        """
        return [HostCount(*row) for row in self._read((str, int, int, int), _COUNT_HOSTS)]

    def named_pages(self) -> Iterator[tuple[str, str, int | None]]:
        """Return what sitemaps name, in order: URL, URL of the sitemap, and the page if known.

        A URL of which the crawl knows several spellings comes once for each. O(pages + URLs).
        """
        return self._read((str, str, _page), _NAMED_PAGES)

    def lastmods(self) -> Iterator[tuple[int, str]]:
        """Yield each known page that sitemaps name with the time of its last change, if told."""
        query = (
            f"SELECT page, lastmod FROM sitemap_urls u JOIN ({PAGES_NAMED}) ON named = u.id"
            " WHERE lastmod <> ''"
        )
        return self._read((int, str), query)

    def _read(
        self, kinds: Sequence[Callable[[Any], Any]], query: str, *values: Any
    ) -> Iterator[Any]:
        """Yield the rows of a query, each value as its kind; none without the tables."""
        if self._exist:
            with store_errors(self._path):
                for row in self._db.execute(query, values):
                    yield tuple(kind(value) for kind, value in zip(kinds, row, strict=True))


def _page(value: Any) -> int | None:
    return None if value is None else int(value)
