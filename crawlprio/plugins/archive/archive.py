"""The archive of one crawl: its WARC files, its CDXJ index, and where each record is.

Records are those of WARC 1.1 (ISO 28500:2017), each compressed by itself. The lines are those of
pywb's cdx-indexer: <https://pywb.readthedocs.io/en/latest/manual/indexing.html>.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sqlite3
import zlib
from base64 import b32encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha1
from io import BytesIO, FileIO
from pathlib import Path
from socket import inet_aton, inet_ntoa
from time import time
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from warcio.recordbuilder import RecordBuilder
from warcio.statusandheaders import StatusAndHeaders, StatusAndHeadersParser
from warcio.warcwriter import WARCWriter

from crawlprio.errors import StoreError
from crawlprio.frontier.protocol import HttpRecord
from crawlprio.safe_files import open_file, replacing
from crawlprio.store.files import store_errors
from crawlprio.store.side_tables import ARCHIVE_FILES, ARCHIVED, all_exist

_LEVEL = 6
_PROFILE = RecordBuilder.REVISIT_PROFILE_1_1
_new_id = StatusAndHeadersParser.make_warc_id
_ID = re.compile(rb"^WARC-Record-ID: (\S+)", re.MULTILINE).search


@dataclass(frozen=True)
class Fetched:
    """A fetch that was answered.

    `url` is without fragment and credentials, `fetched_at` the Unix time of the answer. `request`,
    `head` (start line and headers) and `body` are as they were sent. `mime` is the media type
    without parameters, `address` the IP address of the server; both are empty if unknown. `cut` is
    why the body is not whole, as `WARC-Truncated` names it; empty if it is.
    """

    url: str
    fetched_at: float
    request: bytes
    head: bytes
    body: bytes
    status: int
    mime: str = ""
    address: str = ""
    cut: str = ""

    @cached_property
    def digest(self) -> bytes:
        """SHA-1 of the body."""
        return sha1(self.body, usedforsecurity=False).digest()


def packed(fetched: Fetched, original: ArchivedRow | None = None) -> HttpRecord:
    """Return the records of a fetch; with an `original` of the same body, without the body."""
    own = {"WARC-Payload-Digest": digest_text(fetched.digest), "WARC-Record-ID": _new_id()}
    if fetched.address:
        own["WARC-IP-Address"] = fetched.address
    block = fetched.head + fetched.body
    kind = "response"
    if original is not None:
        kind, block = "revisit", fetched.head
        own["WARC-Profile"] = _PROFILE
        own["WARC-Refers-To-Target-URI"] = original.url
        own["WARC-Refers-To-Date"] = warc_date(original.fetched_at)
    if fetched.cut:
        own["WARC-Truncated"] = fetched.cut
    url, at = fetched.url, fetched.fetched_at
    response = _record(kind, url, at, block, own)
    about = {"WARC-Concurrent-To": own["WARC-Record-ID"]}
    request = _record("request", url, at, fetched.request, about)
    index = fetched.status, fetched.mime, fetched.digest, original is not None
    return HttpRecord(url, at, *index, response, request)


def conversion(exchange: HttpRecord) -> bytes:
    """Return a record, for `filed`, of what a browser made of an archived page."""
    found = _ID(exchange.response)
    about = {"WARC-Refers-To": "" if found is None else found[1].decode()}
    return _record("conversion", exchange.url, exchange.fetched_at, exchange.document, about)


def _record(kind: str, url: str, seconds: float, block: bytes, own: Mapping[str, str]) -> bytes:
    """Return one record, for `filed`; the block is written byte for byte."""
    # warcio's writer parses a block and writes it again; only this keeps its bytes, and a third of
    # the time.
    fields = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": warc_date(seconds),
        "WARC-Record-ID": _new_id(),
        **own,
        "Content-Type": RecordBuilder.WARC_RECORDS.get(kind, "text/html; charset=utf-8"),
        "WARC-Block-Digest": digest_text(sha1(block, usedforsecurity=False).digest()),
        "Content-Length": str(len(block)),
    }
    head = StatusAndHeaders(
        "",
        [(name, value) for name, value in fields.items() if value],
        protocol=RecordBuilder.WARC_1_1,
    )
    return b"%s%s\r\n\r\n" % (head.to_bytes(encoding="utf-8"), block)


def filed(record: bytes, info: str) -> bytes:
    """Return a record as a gzip member of the file that the `warcinfo` record `info` opens."""
    version, _, rest = record.partition(b"\r\n")
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    head = b"%s\r\nWARC-Warcinfo-ID: %s\r\n" % (version, info.encode())
    return packer.compress(head) + packer.compress(rest) + packer.flush()


def warc_date(seconds: float) -> str:
    """Return a Unix time as WARC 1.1 writes it, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def digest_text(digest: bytes) -> str:
    """Return a SHA-1 as WARC and CDXJ files name it."""
    return f"sha1:{b32encode(digest).decode()}"


class ArchivedRow(NamedTuple):
    """Where the response of a fetch is archived: a file by its number, and a place in it.

    `visit` is the `seq` of its visit, None for robots.txt files and other fetches that are no
    visit. `digest` is the SHA-1 of the body, and `revisit` 1 if that is in an earlier record.
    """

    visit: int | None
    url: str
    fetched_at: float
    status: int
    mime: str
    digest: bytes
    revisit: int
    file: int
    offset: int
    length: int


class FileRow(NamedTuple):
    """A file of the archive; what is behind `n_bytes` belongs to visits that were not recorded."""

    number: int
    name: str
    n_bytes: int


def open_archive(cursor: sqlite3.Cursor) -> None:
    """Create the tables, inside a transaction, or raise TypeError if their rows are damaged."""
    if not all_exist(cursor.connection, ARCHIVE_FILES, ARCHIVED):
        for table in (ARCHIVE_FILES, ARCHIVED):
            table.create(cursor)
    ARCHIVED.check(cursor.connection)


def put_archived(
    cursor: sqlite3.Cursor, rows: Sequence[ArchivedRow], files: Sequence[FileRow]
) -> None:
    """Insert records, and replace the sizes of files, inside a transaction."""
    ARCHIVED.put(cursor, [(None, *row) for row in rows])
    ARCHIVE_FILES.put(cursor, files)


_COLUMNS = ", ".join(ArchivedRow._fields)


def archive_files(db: sqlite3.Connection) -> list[FileRow]:
    """Return all files, in the order written; raise TypeError for a damaged row."""
    return [FileRow(*row) for row in ARCHIVE_FILES.rows(db, "*", "id")]


def first_of(cursor: sqlite3.Cursor, which: str, value: object) -> ArchivedRow | None:
    """Return the first record that a condition and an order in SQL choose; None without one."""
    query = f"SELECT {_COLUMNS} FROM archived WHERE {which} LIMIT 1"
    found = cursor.execute(query, (value,)).fetchone()
    return found and ArchivedRow(*found)


_WITH_BODY = "digest = ? AND revisit = 0 ORDER BY id"
_LAST_OF_FILE = "file = ? ORDER BY id DESC"


def drop_last(cursor: sqlite3.Cursor, file: FileRow, last: ArchivedRow) -> FileRow:
    """Forget the last record of a file, inside a transaction; return the file without it."""
    cursor.execute("DELETE FROM archived WHERE file = ? AND offset = ?", (file.number, last.offset))
    shorter = file._replace(n_bytes=last.offset)
    ARCHIVE_FILES.put(cursor, [shorter])
    return shorter


_NAME = re.compile(r"(crawlprio-\d{17}-\d{1,10})-(\d{5,10})\.warc\.gz", re.ASCII)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class WarcFiles:
    """Appends records to the current file of a series; what is appended waits until `flush`.

    The names of all files of the crawl begin with `series`; `number` is that of the first file to
    write. A file gets no further record from `max_bytes` on. `opening` returns the record that
    opens a file, by its name.
    """

    def __init__(
        self,
        folder: Path,
        series: str,
        number: int,
        max_bytes: int,
        opening: Callable[[str], bytes],
    ) -> None:
        self._folder = folder
        self._series = series
        self._next = number
        self._max_bytes = max_bytes
        self._opening = opening
        self._file: FileIO | None = None
        self._waiting: list[bytes] = []
        self._failure: StoreError | None = None
        self.current = FileRow(0, "", 0)
        """The current file, with what waits; nameless before the first record."""
        self.changed: dict[int, FileRow] = {}
        """The files to which records were appended, by number, for the next transaction."""

    def append(self, *records: bytes) -> int:
        """Append records next to each other; return the offset of the first in the current file.

        Call `make_room` first.
        """
        file = self.current
        self._waiting += records
        self.current = file._replace(n_bytes=file.n_bytes + sum(map(len, records)))
        self.changed[file.number] = self.current
        return file.n_bytes

    def make_room(self) -> None:
        """Begin a file, unless the current one gets the next records."""
        if self._file is None or self.current.n_bytes >= self._max_bytes:
            self._begin_file()

    def flush(self) -> None:
        """Write to the file what was appended; after a failure, fail again with StoreError."""
        if self._failure is not None:
            raise self._failure
        if self._file is None or not self._waiting:
            return
        rest = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._failure = file_error(self._folder / self.current.name, error)
            raise self._failure from None

    def sync(self) -> None:
        """Wait until the disk has what was flushed; any thread may call it."""
        # A file that is closed meanwhile was synchronised before.
        with suppress(OSError, ValueError):
            if self._file is not None:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush and close the current file, unless writing has failed."""
        if self._failure is None:
            self.flush()
            self.sync()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_file(self) -> None:
        self.close()
        if self._failure is not None:
            raise self._failure
        number, self._next = self._next, self._next + 1
        name = file_name(self._series, number)
        path = self._folder / name
        try:
            self._file = open_file(path, "xb", buffering=0)
        except OSError as error:
            self._failure = file_error(path, error)
            raise self._failure from None
        self._waiting = [self._opening(name)]
        self.current = FileRow(number, name, len(self._waiting[0]))


def file_name(series: str, number: int) -> str:
    return f"{series}-{number:05d}.warc.gz"


def series_of(name: str) -> str:
    """Return the series of a file; empty if it is not the name of one of ours."""
    found = _NAME.fullmatch(name)
    return found[1] if found else ""


def cut(folder: Path, name: str, n_bytes: int) -> None:
    """Cut a file to what was recorded of it, and delete the files of its series after it.

    A file of which nothing was recorded is deleted too. StoreError is raised if the file is
    missing, or cannot be cut.
    """
    path = folder / name
    try:
        if n_bytes == 0:
            path.unlink(missing_ok=True)
        elif path.stat().st_size > n_bytes:
            with open_file(path, "r+b") as file:
                file.truncate(n_bytes)
        mine = _NAME.fullmatch(name)
        assert mine is not None
        for later in folder.glob(f"{mine[1]}-*.warc.gz"):
            other = _NAME.fullmatch(later.name)
            if other is not None and int(other[2]) > int(mine[2]):
                later.unlink()
    except FileNotFoundError:
        raise StoreError(
            f"{path} is missing, the last file of this crawl's archive; name the folder that has "
            "it, or move it back."
        ) from None
    except OSError as error:
        raise file_error(path, error) from None


def file_error(path: Path, error: OSError) -> StoreError:
    """Return the error for a failure to write a file of the archive."""
    if error.errno in _FULL:
        return StoreError(f"{path}: the disk is full; free some space, then resume the crawl.")
    return StoreError(f"{path}: {error.strerror}; check the file and its folder.")


def write_index(db: sqlite3.Connection, path: Path) -> None:
    """Write the index of what a store has archived; an earlier index stays whole until then.

    Lines of an earlier index stay if they are of other crawls in the same folder. An index that
    cannot be written raises StoreError. O(n log n), on disk; about 50 s for a million responses.
    """
    store = Path(db.execute("PRAGMA database_list").fetchone()[2])
    try:
        with store_errors(store):
            names = {file.number: file.name for file in archive_files(db)}
        if not names:
            return
        # SQLite sorts by bytes, as the format asks, and more lines than there is memory for.
        with (
            store_errors(store),
            replacing(path, encoding="utf-8") as out,
            closing(sqlite3.connect("")) as sorter,
        ):
            sorter.execute("CREATE TABLE lines(line TEXT)")
            mine = {series_of(name) for name in names.values()}
            rows = (ArchivedRow(*row) for row in ARCHIVED.rows(db, _COLUMNS, "id"))
            own = (_line(row, names[row.file]) for row in rows)
            for lines in (own, _foreign_lines(path, mine)):
                sorter.executemany("INSERT INTO lines VALUES(?)", ((line,) for line in lines))
            for (line,) in sorter.execute("SELECT line FROM lines ORDER BY line"):
                out.write(line)
    except OSError as error:
        raise file_error(path, error) from None


_USUAL_PORTS = {"http": "80", "https": "443", "ftp": "21"}
_AUTHORITY = re.compile(r"(?:[^/?]*@)?(\[[^]/?]*\]|[^/?:]*):?0*(\d*)(.*)", re.DOTALL)
_ESCAPED = [
    f"%{byte:02x}" if byte <= 0x20 or byte >= 0x7F or byte in b"#%" else chr(byte)
    for byte in range(256)
]
_SESSIONS_IN_PATHS = [
    re.compile(rf"(.*/)\({token}\)/([^?]+\.aspx.*)", re.DOTALL)
    for token in (r"(?:[a-z]\([0-9a-z]{24}\))+", "[0-9a-z]{24}")
]
_SESSIONS_IN_QUERIES = [
    re.compile(f"(.*){session}(?:&(.*))?", re.DOTALL)
    for session in (
        *("jsessionid=[0-9a-z]{32}", "phpsessid=[0-9a-z]{32}", "sid=[0-9a-z]{32}"),
        *("aspsessionid[a-z]{8}=[a-z]{24}", "cfid=[^&]+&cftoken=[^&]+"),
    )
]


def surt(url: str) -> str:
    """Return the key under which web archives look up a URL: its sort-friendly transform.

    The labels of the host are reversed, without `www`; other spellings of a URL have one key, and
    session ids of some frameworks are left out. These rules, good or not, are those of pywb.
    """
    scheme, _, rest = url.partition("://")
    found = _AUTHORITY.fullmatch(rest.partition("#")[0].strip())
    if not rest or found is None:
        return url.lower()
    host, port, rest = found[1].lower(), found[2], found[3]
    path, _, query = map(_escaped_once, rest.partition("?"))
    with suppress(UnicodeError):
        host = host if host.isascii() else host.encode("idna").decode()
    if re.fullmatch(r"[\d.]+", host, re.ASCII):
        with suppress(OSError):
            host = inet_ntoa(inet_aton(host))
    if host.startswith("["):
        host = host.strip("[]")
    else:
        labels = re.sub(r"^www\d*\.", "", host).split(".")
        host = ",".join(filter(None, reversed(labels)))
    if port and port != _USUAL_PORTS.get(scheme.lower()):
        host = f"{host}:{port}"
    segments: list[str] = []
    for segment in path[1:].split("/"):
        if segment == ".." and segments:
            segments.pop()
        elif segment != ".":
            segments.append(segment)
    path = _without(_SESSIONS_IN_PATHS, f"/{'/'.join(filter(None, segments))}")
    query = _without(_SESSIONS_IN_QUERIES, query)
    parameters = sorted(query.split("&"), key=lambda parameter: parameter.split("=", 1))
    return f"{host}){path}{'?' if query else ''}{'&'.join(parameters)}"


def _escaped_once(text: str) -> str:
    """Return a part of a URL in lower case, each byte escaped once if it has to be."""
    raw, before = text.encode("utf-8", "surrogatepass"), b""
    while raw != before:
        raw, before = unquote_to_bytes(raw), raw
    return "".join(map(_ESCAPED.__getitem__, raw)).lower()


def _without(sessions: Sequence[re.Pattern[str]], text: str) -> str:
    """Return a path or a query without session ids."""
    for session in sessions:
        found = session.fullmatch(text)
        text = text if found is None else found[1] + (found[2] or "")
    return text


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
    return f"{surt(row.url)} {date:%Y%m%d%H%M%S} {json.dumps(fields)}\n"


def _foreign_lines(path: Path, mine: set[str]) -> Iterator[str]:
    """Yield the lines of an earlier index that are of other crawls."""
    if not path.exists():
        return
    with open_file(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            with suppress(ValueError, KeyError, IndexError, TypeError):
                name = json.loads(line.split(" ", 2)[2])["filename"]
                if series_of(name) not in mine:
                    yield f"{line.rstrip()}\n"


logger = logging.getLogger("crawlprio")

INDEX = "index.cdxj"
"""Name of the index in the folder of the archive."""


class Archive:
    """Archives fetches, each with its visit or not at all, however the process ends.

    It is a `crawlprio.store.TransactionParticipant`: a transaction of the store first writes the
    records of its visits to the file, and then commits them with the file's size. So the file is
    whole up to that size after a kill, and the next run cuts off the rest. Without a store, each
    record is written as it comes.

    Each run begins a new file, because its settings may differ; a file gets no further record from
    `max_bytes` on. `about` is what the first record of each file says of the program and the crawl.
    """

    def __init__(self, folder: Path, max_bytes: int, about: Mapping[str, str]) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._about = about
        self._cursor: sqlite3.Cursor
        self._files: WarcFiles
        self._rows: list[ArchivedRow] = []
        self._recorded = FileRow(0, "", 0)
        self._new: dict[bytes, ArchivedRow] = {}
        self._info = ""
        self._is_alone = False
        self.needs: Callable[[Sequence[str], str], object] = lambda urls, page: None
        """Called with the requisites of a page that is added, if it has any, and its URL."""

    def open_alone(self) -> None:
        """Open the archive of a crawl without a store, which only knows what this process wrote."""
        self._is_alone = True
        self.open(sqlite3.connect("", isolation_level=None).cursor())

    def open(self, cursor: sqlite3.Cursor) -> None:
        """Resume the archive of a store, or begin one; called inside a transaction.

        StoreError is raised if the last file is missing or cannot be cut, TypeError or ValueError
        if the store is damaged.
        """
        self._cursor, begun, number = cursor, datetime.now(UTC), 0
        milliseconds = f"{begun:%Y%m%d%H%M%S}{begun.microsecond // 1000:03d}"
        series = f"crawlprio-{milliseconds}-{os.getpid()}"
        open_archive(cursor)
        known = archive_files(cursor.connection)
        if not all(series_of(file.name) for file in known):
            raise TypeError("a file of the archive with a name that is not crawlprio's")
        if known:
            last = self._mend(known[-1])
            series, number = series_of(last.name), last.number + (last.n_bytes > 0)
        # Recorded before it exists, so that it is found after a kill before the first transaction.
        self._recorded = FileRow(number, file_name(series, number), 0)
        put_archived(cursor, [], [self._recorded])
        self._files = WarcFiles(self._folder, series, number, self._max_bytes, self._opening)

    def _opening(self, name: str) -> bytes:
        """Return the record that opens a file: which program wrote it, how and for what."""
        out = BytesIO()
        writer = WARCWriter(out, gzip=True, warc_version=RecordBuilder.WARC_1_1)
        record = writer.create_warcinfo_record(name, dict(self._about))
        writer.write_record(record)
        self._info = record.rec_headers.get_header("WARC-Record-ID")
        return out.getvalue()

    def _mend(self, last: FileRow) -> FileRow:
        """Cut the last file of an earlier run to what is recorded and on disk."""
        cut(self._folder, last.name, last.n_bytes)
        n_lost = 0
        while (row := first_of(self._cursor, _LAST_OF_FILE, last.number)) and not self._is_whole(
            last, row
        ):
            last = drop_last(self._cursor, last, row)
            n_lost += 1
        if n_lost:
            cut(self._folder, last.name, last.n_bytes)
            logger.warning(
                "%s: the last %d records are not on disk, as after a power failure; their pages "
                "stay without one.",
                self._folder / last.name,
                n_lost,
            )
        return last

    def _is_whole(self, file: FileRow, last: ArchivedRow) -> bool:
        """Return whether the last record of a file is on disk."""
        path = self._folder / file.name
        try:
            with open_file(path, "rb") as stream:
                stream.seek(last.offset)
                zlib.decompress(stream.read(last.length), zlib.MAX_WBITS | 16)
                return bool(stream.seek(0, 2) >= file.n_bytes)
        except zlib.error:
            return False
        except OSError as error:
            raise file_error(path, error) from None

    def pack(self, fetched: Fetched) -> HttpRecord:
        """Return the records of a fetch; what was archived with the same body is referred to."""
        digest = fetched.digest
        original = self._new.get(digest) or first_of(self._cursor, _WITH_BODY, digest)
        return packed(fetched, original if fetched.body else None)

    def add(self, exchange: HttpRecord, visit: int | None) -> None:
        """Append a fetch; it is on disk with the next transaction of the store.

        `visit` is the `seq` of its visit; None if it is no visit. A full disk raises StoreError.
        """
        self._files.make_room()
        response = filed(exchange.response, self._info)
        offset = self._files.append(response, filed(exchange.request, self._info))
        if exchange.document:
            self._files.append(filed(conversion(exchange), self._info))
        place = self._files.current.number, offset, len(response)
        self._rows.append(ArchivedRow(visit, *exchange[:6], *place))
        if exchange.requisites:
            self.needs(exchange.requisites, exchange.url)
        if not exchange.is_revisit:
            self._new.setdefault(exchange.digest, self._rows[-1])
        if self._is_alone:
            self.write(self._cursor)
            self.committed()

    def add_receipt(self, receipt: str) -> None:
        """Append the receipt of a run, as JSON in one line; on disk with the next transaction."""
        self._files.make_room()
        block, about = f"receipt: {receipt}\r\n".encode(), {"WARC-Refers-To": self._info}
        self._files.append(filed(_record("metadata", "", time(), block, about), self._info))

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Write what was added, first to the file, inside a transaction."""
        if self._files.changed:
            self._files.flush()
            put_archived(cursor, self._rows, list(self._files.changed.values()))

    def committed(self) -> None:
        """Forget what was added, which is recorded now."""
        if self._files.changed:
            *_, self._recorded = self._files.changed.values()
        self._rows.clear()
        self._files.changed.clear()
        self._new.clear()

    def sync(self) -> None:
        """Wait until the disk has what was written; any thread may call it."""
        self._files.sync()

    def close(self, *, has_failed: bool) -> None:
        """Close the files and write the index; after a failure, only cut off what is unrecorded."""
        try:
            self._files.close()
            if not has_failed:
                write_index(self._cursor.connection, self._folder / INDEX)
        finally:
            with suppress(StoreError):
                cut(self._folder, self._recorded.name, self._recorded.n_bytes)
