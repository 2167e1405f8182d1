"""A crawl store as Arrow tables: its pages, links, visits, items and importance, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from crawlprio.errors import StoreError
from crawlprio.extras import imported
from crawlprio.graph.topic import Topic
from crawlprio.measure.importance import importance_of, open_repository, parts_of
from crawlprio.plugins import load
from crawlprio.safe_files import open_file
from crawlprio.store import Store

UTC = "microseconds since 1970, UTC"
"""The type of a column of times, which pyarrow has no alias for."""


class Table:
    """Rows of a crawl store, which every call reads again, a batch at a time.

    It has the Arrow C stream interface, by which DuckDB, Polars and others read it as it is.

    Parameters
    ----------
    name
        Its name in messages.
    columns
        Name of each column, and of its Arrow type, as in `pyarrow.type_for_alias`, or `UTC`.
    rows
        Starts a new pass over the rows, a value of each column in each.
    batch_rows
        Rows per batch.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[tuple[str, str]],
        rows: Callable[[], Iterable[Sequence[Any]]],
        batch_rows: int = 65_536,
    ) -> None:
        pyarrow = imported("pyarrow", "crawlprio.read", "crawlprio[parquet]")
        self.name = name
        utc = pyarrow.timestamp("us", "UTC")
        self.schema = pyarrow.schema(
            [(of, utc if kind == UTC else pyarrow.type_for_alias(kind)) for of, kind in columns]
        )
        self._rows = rows
        self._batch_rows = batch_rows

    def batches(self) -> Iterator[Any]:
        """Yield the rows as `pyarrow.RecordBatch`es; memory holds one of them.

        Raises
        ------
        StoreError
            If the store is damaged.
        """
        pyarrow = imported("pyarrow", self.name)
        rows = iter(self._rows())
        while chunk := list(islice(rows, self._batch_rows)):
            columns = zip(*chunk, strict=True)
            try:
                arrays = [
                    pyarrow.array(values, type=field.type)
                    for values, field in zip(columns, self.schema, strict=True)
                ]
            except (ValueError, TypeError, OverflowError) as error:
                raise StoreError(
                    f"the table {self.name} of the store is damaged ({error}); restore a backup."
                ) from None
            yield pyarrow.record_batch(arrays, schema=self.schema)

    def reader(self) -> Any:
        """Return a `pyarrow.RecordBatchReader` of the rows."""
        return imported("pyarrow", self.name).RecordBatchReader.from_batches(
            self.schema, self.batches()
        )

    def arrow(self) -> Any:
        """Return all rows as a `pyarrow.Table`."""
        return self.reader().read_all()

    def pandas(self) -> Any:
        """Return all rows as a `pandas.DataFrame`; ConfigError if pandas is not installed."""
        imported("pandas", f"{self.name}.pandas()")
        return self.arrow().to_pandas()

    def polars(self) -> Any:
        """Return all rows as a `polars.DataFrame`; ConfigError if Polars is not installed."""
        return imported("polars", f"{self.name}.polars()").from_arrow(self.arrow())

    def write_parquet(self, path: Path) -> int:
        """Write all rows to a Parquet file, a row group per batch; return how many there are."""
        n_rows = 0
        open_writer = imported("pyarrow.parquet", self.name).ParquetWriter
        with open_file(path, "wb") as file, open_writer(file, self.schema) as writer:
            for batch in self.batches():
                writer.write_batch(batch)
                n_rows += batch.num_rows
        return n_rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<crawlprio.Table {self.name}({columns})>"


BIG_ROWS = 500
"""Rows per batch of tables whose rows may have a hundred kilobytes."""

MOST_BODIES = 50
"""Rows per batch of bodies, which may have megabytes."""

TEXT_COLUMNS = (
    *("url", "title", "text", "language", "declared_language", "value", "near_duplicate_of"),
    *("licence", "x_robots_tag", "meta_robots", "content_usage", "robots_usage", "fetched_at"),
)


class Crawl:
    """The tables of a crawl store, each read when it is asked for, even beside a running crawl.

    The rows are checked as they are read, whoever wrote the store. Each pass over a table is one
    snapshot.

    Parameters
    ----------
    path
        The store.

    Attributes
    ----------
    pages
        Every known page: `id`, `url`, `site` (the host), `depth` (links from a seed), `seed`.
    links
        Every link by the last visit of its page: `source`, `target` (ids of pages), `anchor`. As
        many as `crawlprio links export` writes; if some links were not followed, a pass holds the
        page table in memory, about 240 bytes a page.
    visits
        Every fetch in order: `page` (-1: the start), `status`, `fetched_at` (UTC), `elapsed`
        (seconds), `n_bytes`, `content_hash`, `n_links`, `title`, `text` (null if it was not kept),
        `error`.
    items
        What the spider scraped, if it was stored (`CRAWLPRIO_ITEMS`): `page` (-1: none), `item`
        (JSON).
    bodies
        The body of each page, if it was stored (`CRAWLPRIO_BODIES`): `page`, `url`, `status`,
        `body`.
    texts
        Each page whose text is in the store, by its last visit: the columns of `KeptText` in
        `crawlprio.plugins.value.kept_texts`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        pages = [("id", "int32"), ("url", "string"), ("site", "string"), ("depth", "int32")]
        self.pages = Table("pages", [*pages, ("seed", "bool")], self._rows(Store.page_rows))
        links = [("source", "int32"), ("target", "int32"), ("anchor", "string")]
        self.links = Table("links", links, self._rows(_links))
        self.visits = Table(
            "visits",
            [
                *(("page", "int32"), ("status", "int32"), ("fetched_at", UTC)),
                *(("elapsed", "float64"), ("n_bytes", "int64"), ("content_hash", "int64")),
                *(("n_links", "int32"), ("title", "string"), ("text", "string")),
                ("error", "string"),
            ],
            self._rows(_visits),
            BIG_ROWS,
        )
        items = [("page", "int32"), ("item", "string")]
        self.items = Table("items", items, self._rows(Store.kept_items), BIG_ROWS)
        bodies = [("page", "int32"), ("url", "string"), ("status", "int32"), ("body", "binary")]
        self.bodies = Table("bodies", bodies, self._rows(Store.bodies), MOST_BODIES)
        kinds = {"value": "float64", "fetched_at": UTC}
        texts = [(name, kinds.get(name, "string")) for name in TEXT_COLUMNS]
        self.texts = Table("texts", texts, self._rows(_texts), BIG_ROWS)
        with self._open():
            pass

    def scores(self, *importances: str, topic: str | None = None) -> Table:
        """Return the importance of every page, computed when the table is read.

        Columns: `page`, `fetched` (place in the order of first fetches, from 1; null for a page
        that was not fetched), and one for each importance, under its name.

        Parameters
        ----------
        importances
            Names in `crawlprio.IMPORTANCES`, import paths, or sums such as
            `scaled:0.5*pagerank+2*backlinks`; default: `pagerank`.
        topic
            Words, for importances that need a topic.

        Raises
        ------
        ConfigError
            If an importance is unknown.
        """
        names = list(dict.fromkeys(importances)) or ["pagerank"]
        for name in names:
            parts_of(name)

        def rows() -> Iterator[tuple[Any, ...]]:
            repository = open_repository(self.path)
            place = np.zeros(repository.graph.n_pages, dtype=np.int64)
            assert repository.order is not None
            place[repository.order] = np.arange(1, len(repository.order) + 1)
            terms = None if topic is None else Topic(topic)
            columns = [importance_of(repository, name, topic=terms) for name in names]
            fetched = (number or None for number in place.tolist())
            return zip(
                range(len(place)), fetched, *(values.tolist() for values in columns), strict=True
            )

        columns = [("page", "int32"), ("fetched", "int32"), *((name, "float64") for name in names)]
        return Table("scores", columns, rows)

    def __repr__(self) -> str:
        with self._open() as store:
            return (
                f"<crawlprio.Crawl {self.path}: {store.n_pages:,} pages, {store.n_visits:,} "
                "visits; tables pages, links, visits, items, bodies, texts, scores()>"
            )

    def _open(self) -> Store:
        return Store.open(self.path, readonly=True)

    def _rows(self, read: Callable[[Store], Iterable[Any]]) -> Callable[[], Iterator[Any]]:
        """Return what yields the rows that a function reads, from one snapshot."""

        def rows() -> Iterator[Any]:
            with self._open() as store, store.snapshot():
                yield from read(store)

        return rows


def _links(store: Store) -> Iterator[tuple[int, int, str]]:
    for source, targets, anchors in store.link_rows():
        for at, target in enumerate(targets):
            yield source, target, anchors[at] if anchors else ""


def _visits(store: Store) -> Iterator[tuple[Any, ...]]:
    for visit in store.visits(anchors=False, history=True):
        yield (
            visit.page,
            visit.status,
            round(visit.fetched_at * 1e6),
            visit.elapsed,
            visit.n_bytes,
            visit.content_hash,
            len(visit.targets),
            visit.title,
            visit.text or None,
            visit.error,
        )


def _texts(store: Store) -> Iterable[Any]:
    found: Iterable[Any] = load("functions", "texts")(store)
    return found


def read(path: str | Path) -> Crawl:
    """Return the tables of a crawl store.

    Raises
    ------
    StoreError
        If it is not a crawl store, or cannot be read.
    ConfigError
        If pyarrow is not installed (the extra `parquet`).
    """
    return Crawl(path)
