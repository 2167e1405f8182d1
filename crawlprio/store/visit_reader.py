"""Reading of the visits of a crawl store, whole or in part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from crawlprio.extras import require
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.store.files import increasing, store_errors
from crawlprio.store.schema import CURRENT
from crawlprio.store.side_tables import BODIES, EVIDENCE, TABLES, SideTable
from crawlprio.store.state_reader import StateReader
from crawlprio.store.visit_rows import (
    CURRENT_TEXTS,
    VISIT_COLUMNS,
    VisitColumns,
    inflated,
    read_visit_columns,
    row_visit,
)

BodyRow = tuple[int, str, int, bytes]
"""Page, URL, status and body."""

MAX_BODY = 1 << 30
"""Most bytes of a body that is read back; a damaged store may claim more."""

_CURRENT_THEN = CURRENT.replace(" GROUP", " AND seq <= ?2 GROUP")
"""The current versions as of a visit, the second parameter of the query."""


class VisitReader(StateReader):
    """The visits of a store, with their side tables."""

    def visits(
        self,
        *,
        texts: bool = True,
        anchors: bool = True,
        titles: bool = False,
        history: bool = False,
        after: int = 0,
        until: int | None = None,
        beside: Iterable[SideTable] = EVIDENCE,
    ) -> Iterator[Visit]:
        """Yield the current version of each page, equal in every field to what was recorded.

        That is its last visit, whatever it got; with `history`, earlier ones too. They come in the
        order recorded, and so do the visits of `NO_PAGE`. Visits recorded meanwhile are left out.

        Without `texts`, title (unless `titles`), text and outside links are left out, which saves
        half of the time; without `anchors`, anchor texts. Anchors that were all empty come back as
        an empty list. Only the visits behind number `after` and up to `until` are known of.
        `beside` are the side tables whose rows the `extras` have; by default what orderings read.
        """
        columns = VISIT_COLUMNS
        if not texts:
            title = "title" if titles else "''"
            columns = columns.replace("outside, title, text", f"NULL, {title}, NULL")
        if not anchors:
            columns = columns.replace("anchors", "NULL")
        which = "1" if history else f"(page < 0 OR seq IN {_CURRENT_THEN})"
        return (visit for _, visit in self._visits(columns, beside, which, after, until))

    def _visits(
        self,
        columns: str,
        tables: Iterable[SideTable],
        which: str,
        after: int = 0,
        until: int | None = None,
    ) -> Iterator[tuple[int, Visit]]:
        """Yield the visits that an SQL condition chooses, behind a number, each with its number."""
        with store_errors(self.path):
            (last,) = self._db.execute("SELECT max(seq) FROM visits").fetchone()
            last = last if until is None else until
            if not self._writes:  # at least the pages that these visits may name
                self._count()
            beside = [table for table in tables if table.exists(self._db)]
            of_tables = "".join(
                f", (SELECT {name} FROM {table.name} WHERE {table.key} = visits.seq)"
                for table in beside
                for name in table.types
            )
            before = after
            for row in self._db.execute(
                f"SELECT {columns}, seq{of_tables} FROM visits"
                f" WHERE {which} AND seq > ?1 AND seq <= ?2 ORDER BY seq",
                (after or -(2**63), last),  # a number below 1 is damage, and is noticed
            ):
                before, end = increasing(row[12], before), 13
                extras = {}
                for table in beside:
                    begin, end = end, end + len(table.types)
                    if row[begin] is not None:
                        extras[table.name] = table.checked(row[begin:end])
                visit = row_visit(row, self.n_pages)
                yield before, visit._replace(extras=extras) if extras else visit

    def visits_of(self, page: int) -> list[tuple[int, Visit]]:
        """Return each visit of a page with its place in the crawl, without texts. O(visits)."""
        columns = VISIT_COLUMNS.replace("anchors, outside, title, text", "NULL, NULL, title, NULL")
        return list(self._visits(columns, (), f"page = {page:d}"))

    def visit_columns(self) -> Iterator[VisitColumns]:
        """Yield the visits in the order recorded, without texts, as columns of some thousand.

        Visits recorded meanwhile are left out. Half of the time of `visits`.
        """
        with store_errors(self.path):
            (last,) = self._db.execute("SELECT ifnull(max(seq), 0) FROM visits").fetchone()
            if not self._writes:  # at least the pages that these visits may name
                self._count()
            yield from read_visit_columns(self._db, last, self.n_pages)

    def statuses(self) -> Iterator[tuple[int, int]]:
        """Yield page and status of each visit, in the order recorded. Some 1 µs each."""
        with store_errors(self.path):
            for page, status in self._db.execute("SELECT page, status FROM visits ORDER BY seq"):
                if not (type(page) is type(status) is int and NO_PAGE <= page < self.n_pages):
                    raise ValueError(f"a visit of page {page!r}, of {self.n_pages} pages")
                yield page, status

    def side_tables(self) -> dict[str, SideTable]:
        """Return the side tables of visits that the store has, by name, whatever they hold."""
        found = dict(TABLES)
        with store_errors(self.path):
            for name, sql in self._db.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"
            ):
                columns = str(sql).removeprefix(f"CREATE TABLE {name}(").removesuffix(")")
                table = SideTable(name, columns)
                if table.types and name.isidentifier():
                    found.setdefault(name, table)
            return {name: table for name, table in found.items() if table.exists(self._db)}

    def bodies(self) -> Iterator[BodyRow]:
        """Yield page, URL, status and body of each visit whose body was kept (CRAWLPRIO_BODIES).

        In the order recorded, decompressed; one body at a time is in memory. Raises ConfigError if
        the package zstandard is missing.
        """
        with store_errors(self.path):
            if not BODIES.exists(self._db):
                return
            require("zstandard", "bodies", "A store with bodies")
            import zstandard

            unpack = zstandard.ZstdDecompressor().decompress
            for page, url, status, packed in self._db.execute(
                "SELECT page, url, status, bodies.body FROM bodies JOIN visits ON seq = visit "
                "JOIN pages ON pages.id = page ORDER BY visit"
            ):
                try:
                    is_bounded = zstandard.frame_content_size(packed) <= MAX_BODY
                    body = unpack(packed) if is_bounded else None
                except (zstandard.ZstdError, TypeError):
                    body = None
                if body is None or type(url) is not str or type(status) is not int:
                    raise TypeError("a body that was not stored by crawlprio")
                yield page, url, status, body

    def texts(self, beside: Iterable[SideTable] = ()) -> Iterator[Visit]:
        """Yield the current version of each page that has a text, without links.

        One text at a time is in memory.
        """
        columns = VISIT_COLUMNS.replace("targets, anchors, outside", "'[]', NULL, NULL")
        return (visit for _, visit in self._visits(columns, beside, CURRENT_TEXTS))

    def text_bytes(self) -> Iterator[tuple[int, bytes]]:
        """Yield each page whose current version has a text, and the text in UTF-8."""
        with store_errors(self.path):
            query = f"SELECT page, text FROM visits WHERE {CURRENT_TEXTS} ORDER BY seq"
            for page, text in self._db.execute(query):
                if type(page) is not int:
                    raise TypeError("a text that has no page")
                yield page, inflated(text)

    def last_fetches(self) -> list[tuple[int, float, float, int]]:
        """Return `(site, fetched_at, elapsed, n_bytes)` of each site's last visit. O(visits)."""
        with store_errors(self.path):
            rows = self._db.execute(
                "SELECT site, fetched_at, elapsed, n_bytes FROM (SELECT site, max(seq) AS last"
                " FROM visits JOIN pages ON pages.id = page GROUP BY site)"
                " CROSS JOIN visits ON seq = last ORDER BY site"
            ).fetchall()
            for site, fetched_at, elapsed, n_bytes in rows:
                if not (type(site) is type(n_bytes) is int and math.isfinite(fetched_at + elapsed)):
                    raise ValueError(f"the last fetch of site {site!r} has no time or no size")
            return rows
