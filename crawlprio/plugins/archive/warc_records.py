"""WARC 1.1 records of one fetch, each to be compressed by itself (ISO 28500:2017)."""

from __future__ import annotations

import zlib
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha1
from io import BytesIO
from typing import NamedTuple

from warcio.recordbuilder import RecordBuilder
from warcio.statusandheaders import StatusAndHeaders, StatusAndHeadersParser
from warcio.warcwriter import WARCWriter

from crawlprio.frontier.protocol import Exchange

_LEVEL = 6
_PROFILE = RecordBuilder.REVISIT_PROFILE_1_1
_new_id = StatusAndHeadersParser.make_warc_id


@dataclass(frozen=True, slots=True)
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

    @property
    def digest(self) -> bytes:
        """SHA-1 of the body."""
        return sha1(self.body, usedforsecurity=False).digest()


class Original(NamedTuple):
    """An archived response, which others of the same body refer to."""

    url: str
    fetched_at: float


def packed(fetched: Fetched, digest: bytes, original: Original | None) -> Exchange:
    """Return the records of a fetch; with an `original` of the same body, without the body."""
    date = warc_date(fetched.fetched_at)
    number = _new_id()
    own = {"WARC-Payload-Digest": digest_text(digest)}
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
    response = _record(kind, fetched.url, date, number, block, own)
    request = _record(
        "request",
        fetched.url,
        date,
        _new_id(),
        fetched.request,
        {"WARC-Concurrent-To": number},
    )
    return Exchange(
        url=fetched.url,
        fetched_at=fetched.fetched_at,
        status=fetched.status,
        mime=fetched.mime,
        digest=digest,
        is_revisit=original is not None,
        response=response,
        request=request,
    )


class Opening(NamedTuple):
    """The record that opens a file, compressed, and its id."""

    number: str
    record: bytes


def warcinfo(name: str, fields: Mapping[str, str]) -> Opening:
    """Return the record that opens a file: which program wrote it, how and for what."""
    out = BytesIO()
    writer = WARCWriter(out, gzip=True, warc_version=RecordBuilder.WARC_1_1)
    record = writer.create_warcinfo_record(name, dict(fields))
    writer.write_record(record)
    return Opening(record.rec_headers.get_header("WARC-Record-ID"), out.getvalue())


def metadata(fields: Mapping[str, str], seconds: float, about: str) -> bytes:
    """Return a record, for `filed`, on what the `warcinfo` record `about` describes."""
    block = "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode()
    return _record("metadata", "", warc_date(seconds), _new_id(), block, {"WARC-Refers-To": about})


def _record(
    kind: str, url: str, date: str, number: str, block: bytes, own: Mapping[str, str]
) -> bytes:
    """Return one record, for `filed`; the block is written byte for byte."""
    # warcio's writer parses a block and writes it again; only this keeps its bytes, and a third of
    # the time.
    fields = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": date,
        "WARC-Record-ID": number,
        **own,
        "Content-Type": RecordBuilder.WARC_RECORDS[kind],
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
