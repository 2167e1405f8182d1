"""Link graphs as tables with one line per link: comma-separated values and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from crawlprio.errors import GraphError
from crawlprio.graph import LinkGraph
from crawlprio.linkgraph.naming import LinkList

if TYPE_CHECKING:
    from crawlprio.linkgraph.export import Links

LINK = ("source", "target", "anchor")
"""Names of the columns of an exported table."""

COLUMNS = (("source_url", "target_url"), ("source", "target"))
"""Names of the two columns to read; the first pair that is present is used."""


def as_text(cell: str) -> str:
    """Return a cell that spreadsheets treat as text, with an apostrophe before a formula.

    Pages choose their anchor texts and, in part, their URLs, so either may be a formula such as
    `=HYPERLINK(...)`.
    """
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else cell


def read_csv(path: Path, most_bytes: int | None = None) -> LinkGraph:
    """Read the links in a table of comma-separated values (RFC 4180, UTF-8) with a header.

    Reads the columns `source_url` and `target_url`, or else `source` and `target`; others are
    ignored. If the first record has two numbers, all records hold page ids. Otherwise they hold
    names, usually URLs; pages are numbered in the order of their first occurrence, and the site of
    a page is its host.

    Raises
    ------
    GraphError
        If the file is invalid; the message has the line number.

    Notes
    -----
    About 500,000 links per second. Memory: 8 bytes per link, and the names as Python strings.
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
                f"{path}:{records.line_num}: not valid CSV (RFC 4180): {error}; write it again."
            ) from None
    return links.graph()


def write_csv(links: Links, path: Path) -> None:
    """Write a header and one record per link, as in RFC 4180."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(LINK)
        if links.for_spreadsheets:
            writer.writerows(map(as_text, link) for link in links.named())
        else:
            writer.writerows(links.named())


def read_jsonl(path: Path, most_bytes: int | None = None) -> LinkGraph:
    """Read the links in a file with one JSON object per line; empty lines are skipped.

    Reads the members `source_url` and `target_url`, or else `source` and `target`: two numbers,
    which are page ids, or two strings, which are names as in `read_csv`; the same in all lines.

    Raises
    ------
    GraphError
        If the file is invalid; the message has the line number.

    Notes
    -----
    About 300,000 links per second. Memory: as `read_csv`.
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
                    f"{path}:{number}: expected source and target, two strings or whole numbers."
                )
    return links.graph()


def write_jsonl(links: Links, path: Path) -> None:
    """Write one object per link, one per line."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for link in links.named():
            file.write(encode(dict(zip(LINK, link, strict=True))) + "\n")


def _add_names(links: LinkList, path: Path, line: int, source: str, target: str) -> None:
    """Add a link between names; raise GraphError if one is empty."""
    if not source or not target:
        raise GraphError(f"{path}:{line}: expected source and target; found an empty one.")
    links.add_names(line, (source,), (target,))


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
    """Whether a field may be a page id."""
    return len(text) < 20 and text.isascii() and text.isdigit()
