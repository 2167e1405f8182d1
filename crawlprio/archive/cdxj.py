"""The CDXJ index of an archive: one line for each response, sorted by SURT and time.

The lines are those of pywb's cdx-indexer: <https://pywb.readthedocs.io/en/latest/manual/indexing.html>.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from crawlprio.archive.files import file_error, series_of
from crawlprio.archive.records import digest_text
from crawlprio.store.archive_rows import ArchivedRow, archive_files, archived


def write_index(db: sqlite3.Connection, path: Path) -> None:
    """Write the index of what a store has archived; an earlier index stays whole until then.

    Lines of an earlier index stay if they are of other crawls in the same folder.

    Parameters
    ----------
    db
        the store.
    path
        the index.

    Raises
    ------
    StoreError
        The index cannot be written.

    Notes
    -----
    O(n log n), on disk; about 50 s for a million responses.
    """
    names = {file.number: file.name for file in archive_files(db)}
    if not names:
        return
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # SQLite sorts by bytes, as the format asks, and more lines than there is memory for.
        with closing(sqlite3.connect("")) as sorter, part.open("w", encoding="utf-8") as out:
            sorter.execute("CREATE TABLE lines(line TEXT)")
            mine = {series_of(name) for name in names.values()}
            for lines in (_lines(db, names), _foreign_lines(path, mine)):
                sorter.executemany("INSERT INTO lines VALUES(?)", ((line,) for line in lines))
            for (line,) in sorter.execute("SELECT line FROM lines ORDER BY line"):
                out.write(line)
        part.replace(path)
    except OSError as error:
        raise file_error(path, error) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _lines(db: sqlite3.Connection, names: dict[int, str]) -> Iterator[str]:
    from surt import surt

    for row in archived(db):
        yield f"{surt(row.url)} {_line(row, names[row.file])}\n"


def _line(row: ArchivedRow, name: str) -> str:
    date = datetime.fromtimestamp(row.fetched_at, UTC)
    fields = {"url": row.url}
    if row.revisit:
        fields["mime"] = "warc/revisit"
    else:
        fields |= {"mime": row.mime or "unk", "status": str(row.status)}
    fields |= {
        "digest": digest_text(row.digest).partition(":")[2],
        "length": str(row.length),
        "offset": str(row.offset),
        "filename": name,
    }
    return f"{date:%Y%m%d%H%M%S} {json.dumps(fields)}"


def _foreign_lines(path: Path, mine: set[str]) -> Iterator[str]:
    """Yield the lines of an earlier index that are of other crawls."""
    with suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            with suppress(ValueError, KeyError, IndexError, TypeError):
                name = json.loads(line.split(" ", 2)[2])["filename"]
                if series_of(name) not in mine:
                    yield f"{line.rstrip()}\n"
