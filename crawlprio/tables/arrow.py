"""A table that is read in batches, when it is asked for; by pyarrow, an optional dependency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from crawlprio.errors import ConfigError, StoreError

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
        pyarrow = import_module("pyarrow")
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
        return import_module("pyarrow").RecordBatchReader.from_batches(self.schema, self.batches())

    def arrow(self) -> Any:
        """Return all rows as a `pyarrow.Table`."""
        return self.reader().read_all()

    def pandas(self) -> Any:
        """Return all rows as a `pandas.DataFrame`; ConfigError if pandas is not installed."""
        imported("pandas", f"{self.name}.pandas()", "pandas")
        return self.arrow().to_pandas()

    def polars(self) -> Any:
        """Return all rows as a `polars.DataFrame`; ConfigError if Polars is not installed."""
        return imported("polars", f"{self.name}.polars()", "polars").from_arrow(self.arrow())

    def write_parquet(self, path: Path) -> int:
        """Write all rows to a Parquet file, a row group per batch; return how many there are."""
        n_rows = 0
        with import_module("pyarrow.parquet").ParquetWriter(path, self.schema) as file:
            for batch in self.batches():
                file.write_batch(batch)
                n_rows += batch.num_rows
        return n_rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<crawlprio.Table {self.name}({columns})>"


def imported(module: str, what: str, package: str) -> Any:
    """Return an optional module; raise ConfigError if it is not installed."""
    try:
        # Imported by name, so that type checkers do not need it.
        return import_module(module)
    except ImportError:
        raise ConfigError(
            f"{what} needs {module}, which is not installed; run `pip install '{package}'`."
        ) from None
