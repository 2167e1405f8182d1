"""Link graphs as Parquet tables, by pyarrow, an optional dependency."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crawlprio.errors import GraphError
from crawlprio.graph import MAX_PAGES, LinkGraph
from crawlprio.linkgraph.edgelist import graph_of_ids
from crawlprio.linkgraph.naming import LinkList
from crawlprio.linkgraph.tables import COLUMNS, LINK
from crawlprio.pages import PageIds

if TYPE_CHECKING:
    from crawlprio.linkgraph.export import Links

_BATCH = 65_536


def read_parquet(path: Path, most_bytes: int | None = None) -> LinkGraph:
    """Read the links in a table with the columns `source` and `target`, whole numbers or strings.

    The columns `source_url` and `target_url` take precedence; others are ignored. Whole numbers are
    page ids; strings are names as in `read_csv`, usually URLs.

    Raises
    ------
    GraphError
        If the table is invalid, with the row, from 1, if known, or pyarrow is not installed.

    Notes
    -----
    With ids, about 40 million links per second and 16 bytes per link; with names, about 1.5 million
    links per second, and names are held as Python strings.
    """
    pyarrow, parquet = _imported(path, "give the links as .csv")
    try:
        with parquet.ParquetFile(path) as file:
            columns = _columns(path, pyarrow, file.schema_arrow)
            batches = file.iter_batches(_BATCH, columns=list(columns))
            if pyarrow.types.is_integer(file.schema_arrow.field(columns[0]).type):
                return _graph_of_ids(path, batches, columns)
            return _graph_of_names(path, batches, columns)
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise GraphError(f"{path} cannot be read as Parquet ({reason}); write it again.") from None


def write_parquet(links: Links, path: Path) -> None:
    """Write three columns of strings, `source`, `target` and `anchor`, in row groups."""
    pyarrow, parquet = _imported(path, "choose .csv")
    schema = pyarrow.schema([(name, pyarrow.string()) for name in LINK])
    with parquet.ParquetWriter(path, schema) as writer:
        rows = links.named()
        while batch := list(islice(rows, _BATCH)):
            columns = [list(column) for column in zip(*batch, strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))


def _imported(path: Path, otherwise: str) -> tuple[Any, Any]:
    """Return pyarrow and its module for Parquet; raise GraphError if it is not installed."""
    try:
        # Imported by name, so that type checkers do not need pyarrow.
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise GraphError(
            f"{path}: .parquet needs pyarrow, which is not installed; "
            f"run `pip install pyarrow`, or {otherwise}."
        ) from None


def _columns(path: Path, pyarrow: Any, schema: Any) -> tuple[str, str]:
    """Return the names of the two columns, which must have the same kind of type."""
    pair = next((p for p in COLUMNS if p[0] in schema.names and p[1] in schema.names), None)
    if pair is None:
        raise GraphError(
            f"{path} has the columns {', '.join(schema.names)[:80] or 'none'}; it must have source "
            "and target, or source_url and target_url."
        )
    kinds = []
    for name in pair:
        column = schema.field(name).type
        held = column.value_type if pyarrow.types.is_dictionary(column) else column
        is_text = pyarrow.types.is_string(held) or pyarrow.types.is_large_string(held)
        if not is_text and not pyarrow.types.is_integer(column):
            raise GraphError(
                f"{path}: {name} holds {column}; it must hold strings or whole numbers."
            )
        kinds.append(is_text)
    if kinds[0] != kinds[1]:
        raise GraphError(
            f"{path}: one of {pair[0]} and {pair[1]} holds strings, the other numbers; "
            "both must hold the same kind."
        )
    return pair


def _graph_of_ids(path: Path, batches: Any, columns: tuple[str, str]) -> LinkGraph:
    """Build the graph from two columns of page ids."""
    ends: tuple[list[PageIds], list[PageIds]] = ([], [])
    first = 1
    for batch in batches:
        for name, chunks in zip(columns, ends, strict=True):
            column = _without_nulls(path, batch, name, first)
            ids = column.to_numpy(zero_copy_only=False)
            outside = np.flatnonzero((ids < 0) | (ids >= MAX_PAGES))
            if len(outside):
                raise GraphError(
                    f"{path}: row {first + int(outside[0])} has the {name} {ids[outside[0]]}; "
                    f"page ids are 0 to {MAX_PAGES - 1}."
                )
            chunks.append(ids.astype(np.int32))
        first += batch.num_rows
    none = [np.empty(0, dtype=np.int32)]
    return graph_of_ids(path, np.concatenate(ends[0] or none), np.concatenate(ends[1] or none))


def _graph_of_names(path: Path, batches: Any, columns: tuple[str, str]) -> LinkGraph:
    """Build the graph from two columns of names."""
    links = LinkList(path)
    first = 1
    for batch in batches:
        ends = []
        for name in columns:
            names = _without_nulls(path, batch, name, first).to_pylist()
            if "" in names:
                row = first + names.index("")
                raise GraphError(f"{path}: row {row} has an empty {name}; it must name a page.")
            ends.append(names)
        links.add_names(first, *ends)
        first += batch.num_rows
    return links.graph()


def _without_nulls(path: Path, batch: Any, name: str, first: int) -> Any:
    """Return a column; raise GraphError with the row of a null."""
    column = batch.column(name)
    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise GraphError(f"{path}: row {row} has no {name}; every link needs both ends.")
    return column
