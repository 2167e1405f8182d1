"""Link graphs with one line per link: edge lists, comma-separated values, JSON lines and Parquet.

An edge list has two page ids per line and `#` comments (the format of SNAP data sets).

Parquet needs pyarrow, an optional dependency.
"""

from __future__ import annotations

import csv
import gzip
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.extras import imported
from crawlprio.graph.compiled import njit
from crawlprio.graph.linkgraph import (
    MAX_PAGES,
    LinkGraph,
    Urls,
    first_seen,
    gathered_rows,
    sites_of,
)
from crawlprio.graph.npz import BROKEN_GZIP, unpack_gzip
from crawlprio.graph.pages import NO_PAGES, PageIds
from crawlprio.safe_files import open_file

if TYPE_CHECKING:
    from crawlprio.store.graph_files import Links

SPARSEST = 1000
FREE_IDS = 10_000_000
"""A file whose largest id exceeds `FREE_IDS` + `SPARSEST` times its links is rejected as broken."""

TAB, NEWLINE, RETURN, SPACE, HASH, ZERO, NINE = (ord(c) for c in "\t\n\r #09")


def read_edge_list(path: Path, most: int | None = None) -> LinkGraph:
    """Read a text file with one link `source target` per line, gzipped if its name ends in `.gz`.

    Fields are separated by blanks; empty lines and everything after `#` are skipped. Pages are 0 to
    the largest id, so an id that no line mentions is a page without links. Links in a row are in
    file order. GraphError, with the line number, if a line is not two ids; and if the file is
    truncated, or `graph_of_ids` refuses it.

    About 200 MB per second, in one compiled pass. Memory: the text plus 8 bytes per link.
    """
    try:
        is_packed = path.name.lower().endswith(".gz")
        text = unpack_gzip(path, most) if is_packed else path.read_bytes()
    except BROKEN_GZIP as error:
        raise GraphError(f"{path} cannot be read ({error}); fetch or write it again.") from error
    characters = np.frombuffer(text, dtype=np.uint8)
    sources, targets, bad_line = _parse(characters)
    if bad_line >= 0:
        number = text.count(b"\n", 0, bad_line) + 1
        line = text[bad_line : bad_line + 80].split(b"\n")[0].decode("utf-8", "replace").strip()
        raise GraphError(
            f"{path}:{number}: expected two page ids from 0 to {MAX_PAGES - 1}; found {line!r}."
        )
    return graph_of_ids(path, sources, targets)


def write_edge_list(links: Links, path: Path) -> None:
    """Write two ids a line, gzipped; the same links always give the same bytes."""
    with open_file(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as file:
        n_pages = links.store.n_pages
        file.write(f"# Directed graph: links of a crawl of {n_pages} pages\n".encode())
        file.write(b"# FromNodeId\tToNodeId\n")
        for page, targets, _ in links.rows():
            file.write("".join([f"{page}\t{target}\n" for target in targets]).encode())


def graph_of_ids(path: Path, sources: PageIds, targets: PageIds) -> LinkGraph:
    """Return the graph of links from `sources[k]` to `targets[k]`, rows in that order.

    Raises `GraphError` if the ids are far larger than the number of links, which would fill memory
    with empty pages.
    """
    n_pages = int(max(sources.max(), targets.max())) + 1 if len(sources) else 0
    if n_pages > FREE_IDS + SPARSEST * len(sources):
        raise GraphError(
            f"{path}: the largest page id is {n_pages - 1}, but there are only {len(sources)} "
            "links; number the pages from 0 without large gaps."
        )
    indptr, indices = gathered_rows(sources, targets, n_pages)
    return LinkGraph.cleaned(indptr, indices, in_place=True)


@njit(cache=True, nogil=True)
def _parse(text: NDArray[np.uint8]) -> tuple[PageIds, PageIds, int]:
    """Return (sources, targets, -1), or the offset of the first line that is not two ids."""
    end = len(text)
    n_lines = 1
    for k in range(end):
        n_lines += text[k] == NEWLINE
    sources = np.empty(n_lines, dtype=np.int32)
    targets = np.empty(n_lines, dtype=np.int32)
    n_links = 0
    k = 0
    while k < end:
        line = k
        n_fields = 0
        source = 0
        target = 0
        while k < end and text[k] != NEWLINE:
            c = text[k]
            if c in (SPACE, TAB, RETURN):
                k += 1
            elif c == HASH:
                while k < end and text[k] != NEWLINE:
                    k += 1
            elif ZERO <= c <= NINE and n_fields < 2:
                number: Any = 0
                while k < end and ZERO <= text[k] <= NINE:
                    number = min(10 * number + (text[k] - ZERO), MAX_PAGES)
                    k += 1
                if number == MAX_PAGES:
                    return sources[:0], targets[:0], line
                source, target = target, number
                n_fields += 1
                if k < end and text[k] > SPACE and text[k] != HASH:
                    return sources[:0], targets[:0], line
            else:
                return sources[:0], targets[:0], line
        k += 1
        if n_fields == 1:
            return sources[:0], targets[:0], line
        if n_fields == 2:
            sources[n_links] = source
            targets[n_links] = target
            n_links += 1
    return sources[:n_links].copy(), targets[:n_links].copy(), -1


LINK = ("source", "target", "anchor")
"""Names of the columns of an exported table."""

COLUMNS = (("source_url", "target_url"), ("source", "target"))
"""Names of the two columns to read; the first pair that is present is used."""

_BATCH = 65_536


def as_text(cell: str) -> str:
    """Return a cell that spreadsheets treat as text, with an apostrophe before a formula.

    Pages choose their anchor texts and, in part, their URLs, so either may be a formula such as
    `=HYPERLINK(...)`.
    """
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else cell


class LinkList:
    """The links of a file, collected as it is read, between page ids or names but not both.

    Names get page ids in the order of their first occurrence.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = first_seen()
        self._sources, self._targets = array("i"), array("i")
        self._has_ids = False

    def add(self, line: int, source: object, target: object) -> None:
        """Add a link between two page ids, or two names."""
        if type(source) is type(target) is int:
            if not (0 <= source < MAX_PAGES and 0 <= target < MAX_PAGES):
                raise GraphError(
                    f"{self._path}:{line}: expected two page ids from 0 to {MAX_PAGES - 1}; "
                    f"found {source} and {target}."
                )
            self._check_kind(line, are_ids=True)
            self._sources.append(source)
            self._targets.append(target)
        elif not (isinstance(source, str) and isinstance(target, str)):
            raise GraphError(
                f"{self._path}:{line}: expected source and target, two strings or whole numbers."
            )
        elif not source or not target:
            raise GraphError(
                f"{self._path}:{line}: expected source and target; found an empty one."
            )
        else:
            self.add_names(line, (source,), (target,))

    def add_names(self, line: int, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Add links between named pages, the first of which is on `line`."""
        self._check_kind(line, are_ids=False)
        names = self._names
        ends = [names[end] for pair in zip(sources, targets, strict=True) for end in pair]
        self._sources.extend(ends[::2])
        self._targets.extend(ends[1::2])

    def _check_kind(self, line: int, *, are_ids: bool) -> None:
        """Raise GraphError where lines with ids follow lines with names, or the other way round."""
        if self._names if are_ids else self._has_ids:
            raise GraphError(
                f"{self._path}:{line}: the lines before have page ids and this one has names, or "
                "the other way round; use ids in all lines or names in all."
            )
        self._has_ids = are_ids

    def graph(self) -> LinkGraph:
        """Return the graph of the links; the site of a named page is its host."""
        sources, targets = np.asarray(self._sources), np.asarray(self._targets)
        if self._has_ids:
            return graph_of_ids(self._path, sources, targets)
        urls = Urls(self._names) if self._names else None
        site, hosts = sites_of(self._names)
        rows = gathered_rows(sources, targets, len(self._names))
        return LinkGraph.cleaned(*rows, site=site, urls=urls, hosts=hosts, in_place=True)


def read_csv(path: Path, most_bytes: int | None = None) -> LinkGraph:
    """Read the links in a table of comma-separated values (RFC 4180, UTF-8) with a header.

    Reads the columns `source_url` and `target_url`, or else `source` and `target`. If the first
    record has two numbers, all records hold page ids. Otherwise they hold names, usually URLs;
    pages are numbered in the order of their first occurrence, and the site of a page is its host.
    GraphError, with the line number, if the file is invalid.

    About 500,000 links per second. Memory: 8 bytes per link, and the names as Python strings.
    """
    links = LinkList(path)
    records = csv_records(path)
    _, header = next(records, (1, []))
    source, target = _columns(path, [name.strip().lower() for name in header])
    are_ids = None
    for line, record in records:
        if not record:
            continue
        if len(record) != len(header):
            raise GraphError(
                f"{path}:{line}: expected {len(header)} fields, as in the header; found "
                f"{len(record)}."
            )
        ends = record[source], record[target]
        has_ids = all(map(_is_id, ends))
        are_ids = has_ids if are_ids is None else are_ids
        links.add(line, *(map(int, ends) if are_ids and has_ids else ends))
    return links.graph()


def csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line of each record of a CSV file, and its fields.

    Raises `GraphError`, with the line number, if it is not RFC 4180 in UTF-8.
    """
    try:
        with path.open("rb") as file:
            records = csv.reader(_lines(path, file), strict=True)
            for record in records:
                yield records.line_num, record
    except csv.Error as error:
        raise GraphError(
            f"{path}:{records.line_num}: not valid CSV (RFC 4180): {error}; write it again."
        ) from None
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}.") from None


def write_csv(links: Links, path: Path) -> None:
    """Write a header and one record per link, as in RFC 4180."""
    with open_file(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(LINK)
        if links.for_spreadsheets:
            writer.writerows(map(as_text, link) for link in links.named())
        else:
            writer.writerows(links.named())


def read_jsonl(path: Path, most_bytes: int | None = None) -> LinkGraph:
    """Read the links in a file with one JSON object per line, by ids or names as in `read_csv`.

    Empty lines are skipped. GraphError, with the line number, if the file is invalid. About 300,000
    links per second.
    """
    links = LinkList(path)
    with path.open("rb") as file:
        for number, line in enumerate(_lines(path, file), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise GraphError(
                    f"{path}:{number}: this line is not JSON ({error}); write it again."
                ) from None
            if not isinstance(record, dict):
                raise GraphError(f"{path}:{number}: expected a JSON object with source and target.")
            source, target = next(
                ((record[a], record[b]) for a, b in COLUMNS if a in record and b in record),
                (None, None),
            )
            links.add(number, source, target)
    return links.graph()


def write_jsonl(links: Links, path: Path) -> None:
    """Write one object per link, one per line."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with open_file(path, "w", encoding="utf-8", newline="\n") as file:
        for link in links.named():
            file.write(encode(dict(zip(LINK, link, strict=True))) + "\n")


def _lines(path: Path, file: Iterable[bytes]) -> Iterator[str]:
    """Decode line by line, so that an error can name the line."""
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise GraphError(f"{path}:{number}: not valid UTF-8; save it as UTF-8.") from None


def _columns(path: Path, header: list[str]) -> tuple[int, int]:
    """Return the column indices of source and target."""
    for source, target in COLUMNS:
        if source in header and target in header:
            return header.index(source), header.index(target)
    listed = ", ".join(header)[:80] or "nothing"
    raise GraphError(
        f"{path}:1: expected a header with source and target, or source_url and target_url; "
        f"found {listed}."
    )


def _is_id(text: str) -> bool:
    return len(text) < 20 and text.isascii() and text.isdigit()


def read_parquet(path: Path, most_bytes: int | None = None) -> LinkGraph:
    """Read the links in a table of the columns of `read_csv`, whole numbers or strings.

    GraphError, with the row, from 1, if known, if the table is invalid, or if pyarrow is not
    installed. With ids, about 40 million links per second and 16 bytes per link; with names, about
    1.5 million links per second, and names are held as Python strings.
    """
    pyarrow, parquet = _imported(path)
    links, ids, first = LinkList(path), [(NO_PAGES, NO_PAGES)], 1
    try:
        with parquet.ParquetFile(path) as file:
            columns = _parquet_columns(path, pyarrow, file.schema_arrow)
            are_ids = pyarrow.types.is_integer(file.schema_arrow.field(columns[0]).type)
            for batch in file.iter_batches(_BATCH, columns=list(columns)):
                sources, targets = (_ends(path, batch, name, first, are_ids) for name in columns)
                if are_ids:
                    ids.append((sources, targets))
                else:
                    links.add_names(first, sources, targets)
                first += batch.num_rows
        if are_ids:
            return graph_of_ids(path, *map(np.concatenate, zip(*ids, strict=True)))
        return links.graph()
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise GraphError(f"{path} cannot be read as Parquet ({reason}); write it again.") from None


def write_parquet(links: Links, path: Path) -> None:
    """Write three columns of strings, `source`, `target` and `anchor`, in row groups."""
    pyarrow, parquet = _imported(path)
    schema = pyarrow.schema([(name, pyarrow.string()) for name in LINK])
    with open_file(path, "wb") as file, parquet.ParquetWriter(file, schema) as writer:
        rows = links.named()
        while batch := list(islice(rows, _BATCH)):
            columns = [list(column) for column in zip(*batch, strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))


def _imported(path: Path) -> list[Any]:
    what = f"{path}: .parquet, unlike .csv,"
    modules = ("pyarrow", "pyarrow.parquet")
    return [imported(module, what, "pyarrow", error=GraphError) for module in modules]


def _parquet_columns(path: Path, pyarrow: Any, schema: Any) -> tuple[str, str]:
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


def _ends(path: Path, batch: Any, name: str, first: int, are_ids: bool) -> Any:
    """Return the names or page ids in a column; raise GraphError with the row of an invalid one."""
    column = batch.column(name)
    if column.null_count:
        row = first + column.is_null().index(True).as_py()
        raise GraphError(f"{path}: row {row} has no {name}; every link needs both ends.")
    if not are_ids:
        names: list[str] = column.to_pylist()
        if "" in names:
            row = first + names.index("")
            raise GraphError(f"{path}: row {row} has an empty {name}; it must name a page.")
        return names
    ids = column.to_numpy(zero_copy_only=False)
    outside = np.flatnonzero((ids < 0) | (ids >= MAX_PAGES))
    if len(outside):
        raise GraphError(
            f"{path}: row {first + int(outside[0])} has the {name} {ids[outside[0]]}; page ids "
            f"are 0 to {MAX_PAGES - 1}."
        )
    return ids.astype(np.int32)
