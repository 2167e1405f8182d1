"""Reads WARC files with warcio alone, and compares them with the store and the index."""

import io
import json
import re
import sqlite3
from base64 import b32decode
from contextlib import closing
from typing import Any, NamedTuple

from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter


class Record(NamedTuple):
    """A record, and where it is."""

    kind: str
    url: str
    headers: Any
    http: Any
    body: bytes
    file: str
    offset: int
    length: int


def records(folder):
    """Return all records of a folder, file by file; fail unless every byte belongs to one."""
    found = []
    for path in sorted(folder.glob("*.warc.gz")):
        end = 0
        with path.open("rb") as stream:
            reader = ArchiveIterator(stream, check_digests="raise")
            for record in reader:
                body = record.raw_stream.read()
                headers = record.rec_headers
                url = headers.get_header("WARC-Target-URI") or ""
                offset, length = reader.get_record_offset(), reader.get_record_length()
                assert offset == end
                end += length
                found.append(
                    Record(
                        record.rec_type,
                        url,
                        headers,
                        record.http_headers,
                        body,
                        path.name,
                        offset,
                        length,
                    )
                )
        assert end == path.stat().st_size
    return found


def responses(folder):
    return [record for record in records(folder) if record.kind in ("response", "revisit")]


def check_archive(folder, store):
    """Compare files, index and store of a crawl whose requests all had one answer."""
    found = records(folder)
    kinds = [record.kind for record in found if record.kind not in ("warcinfo", "metadata")]
    assert kinds[1::2] == ["request"] * (len(kinds) // 2)
    answers = [record for record in found if record.kind in ("response", "revisit")]
    with closing(sqlite3.connect(store)) as db:
        archived = db.execute(
            "SELECT a.url, a.revisit, f.name, a.offset, a.length, a.digest, a.status "
            "FROM archived a JOIN archive_files f ON f.id = a.file ORDER BY a.id"
        ).fetchall()
        visits = db.execute("SELECT seq FROM visits WHERE status > 0 ORDER BY seq").fetchall()
        of_visits = db.execute(
            "SELECT visit FROM archived WHERE visit IS NOT NULL ORDER BY visit"
        ).fetchall()
        wrong = db.execute(
            "SELECT v.seq FROM visits v JOIN archived a ON a.visit = v.seq "
            "JOIN pages p ON p.id = v.page WHERE p.url <> a.url OR v.status <> a.status"
        ).fetchall()
    assert of_visits == visits
    assert wrong == []
    assert archived == [
        (
            record.url,
            int(record.kind == "revisit"),
            record.file,
            record.offset,
            record.length,
            _digest(record),
            int(record.http.get_statuscode()),
        )
        for record in answers
    ]
    lines = (folder / "index.cdxj").read_text().splitlines()
    assert lines == sorted(lines)
    assert sorted(map(_place_in_index, lines)) == sorted(
        (record.url, _time(record), record.file, record.offset, record.length) for record in answers
    )


def _digest(record):
    """Return the digest that a record tells; reading it has compared it with the body."""
    return b32decode(record.headers.get_header("WARC-Payload-Digest").removeprefix("sha1:"))


def _time(record):
    return re.sub("[^0-9]", "", record.headers.get_header("WARC-Date").partition(".")[0])


def _place_in_index(line):
    _, time, text = line.split(" ", 2)
    fields = json.loads(text)
    return fields["url"], time, fields["filename"], int(fields["offset"]), int(fields["length"])


def write_warc(path, pages, gzipped=True):
    """Write responses: URL, status, headers and body of each; return the offset of each record."""
    offsets = []
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=gzipped)
        writer.write_record(writer.create_warcinfo_record(path.name, {"software": "a test"}))
        for url, status, headers, body in pages:
            offsets.append(file.tell())
            head = StatusAndHeaders(status, list(dict(headers).items()), protocol="HTTP/1.1")
            payload = io.BytesIO(body.encode() if isinstance(body, str) else body)
            writer.write_record(
                writer.create_warc_record(url, "response", payload=payload, http_headers=head)
            )
    return offsets
