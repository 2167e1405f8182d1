"""Link graphs as tables with a line for each link: comma-separated values, JSON lines.

Nothing here knows Parquet, nor who wrote the table.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from crawlprio.errors import GraphError
from crawlprio.linkgraph.graph import LinkGraph
from crawlprio.linkgraph.naming import LinkList

COLUMNS = (("source_url", "target_url"), ("source", "target"))
"""Names of the two columns that are read, the first pair that is there."""


def as_text(cell: str) -> str:
    """Return a cell that a spreadsheet takes for text: with an apostrophe where it would compute.

    A page chooses its anchor texts and, in part, its URL; `=HYPERLINK(...)` is both.
    """
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else cell


def read_csv(path: Path) -> LinkGraph:
    """Read the links of a table of comma-separated values (RFC 4180, UTF-8) with a header.

    Columns `source` and `target`, or `source_url` and `target_url`; others are passed over. If the
    first record has two numbers, all are page ids. Else they are names, as a rule URLs; pages are
    numbered in the order in which they are first named, and the site of each is its host.

    Raises
    ------
    GraphError
        With the line number.

    Notes
    -----
    Some 500,000 links a second. Holds 8 bytes a link and the names as Python strings.
    """
    links = LinkList(path)
    with path.open("rb") as file:
        records = csv.reader(_lines(path, file), strict=True)
        try:
            header = next(records, [])
            source, target = _columns(path, [name.strip().lower() for name in header])
            are_ids = None
            for record in records:
                if not record:
                    continue
                if len(record) != len(header):
                    raise GraphError(
                        f"{path}:{records.line_num}: expected {len(header)} fields, as in the "
                        f"header; found {len(record)}."
                    )
                ends = record[source], record[target]
                if are_ids is None:
                    are_ids = all(map(_is_id, ends))
                if not are_ids:
                    _add_names(links, path, records.line_num, *ends)
                elif all(map(_is_id, ends)):
                    links.add_ids(records.line_num, int(ends[0]), int(ends[1]))
                else:
                    raise GraphError(
                        f"{path}:{records.line_num}: expected two page ids, as in the first "
                        f"record; found {ends[0][:80]!r} and {ends[1][:80]!r}."
                    )
        except csv.Error as error:
            raise GraphError(
                f"{path}:{records.line_num}: not valid CSV by RFC 4180 ({error}); write it again."
            ) from None
    return links.graph()


def read_jsonl(path: Path) -> LinkGraph:
    """Read the links of a file with a JSON object in each line; empty lines are passed over.

    Members `source` and `target`, or `source_url` and `target_url`: two numbers, which are page
    ids, or two texts, which are names as in `read_csv`; in all lines the same.

    Raises
    ------
    GraphError
        With the line number.

    Notes
    -----
    Some 300,000 links a second. Holds what `read_csv` holds.
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
            if type(source) is int and type(target) is int:
                links.add_ids(number, source, target)
            elif isinstance(source, str) and isinstance(target, str):
                _add_names(links, path, number, source, target)
            else:
                raise GraphError(
                    f"{path}:{number}: expected source and target, two texts or two whole numbers."
                )
    return links.graph()


def _add_names(links: LinkList, path: Path, line: int, source: str, target: str) -> None:
    """Add a link between names, which are not empty."""
    if not source or not target:
        raise GraphError(f"{path}:{line}: expected source and target; found an empty one.")
    links.add_names(line, (source,), (target,))


def _lines(path: Path, file: Iterable[bytes]) -> Iterator[str]:
    """Decode each line by itself, so that the one that cannot be is known."""
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise GraphError(f"{path}:{number}: not valid UTF-8; save it as UTF-8.") from None


def _columns(path: Path, header: list[str]) -> tuple[int, int]:
    """Return the places of source and target."""
    for source, target in COLUMNS:
        if source in header and target in header:
            return header.index(source), header.index(target)
    listed = ", ".join(header)[:80] or "nothing"
    raise GraphError(
        f"{path}:1: expected a header with source and target, or source_url and target_url; "
        f"found {listed}."
    )


def _is_id(text: str) -> bool:
    """Tell whether a field may be a page id."""
    return len(text) < 20 and text.isascii() and text.isdigit()
