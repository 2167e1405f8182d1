"""What the headers of an HTTP response say of its body: its codings, which are undone, its type."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import brotli  # type: ignore[import-untyped]

NOT_DECODED = "not decoded"
"""The fault of a body that is not in the coding that its Content-Encoding names."""

CUT = "cut short"
"""The fault of a body that ends before its coding does."""

TOO_LARGE = "too large"
"""The fault of a body that grows beyond a limit."""

MAX_CODINGS = 5
"""Maximum number of codings of one body, as in curl; one with more counts as not decoded."""

MAX_STREAMS = 1_000
"""Maximum number of gzip members, or zstd frames, in a body; one with more is not decoded."""

_GZIP = b"\x1f\x8b\x08"
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]").search
_HEAD = 1_445
_PIECE = 1_024


class Decoded(NamedTuple):
    """A body without its codings, and the names of those that are unknown.

    If there is a `fault`, it is what was decoded before, or empty.
    """

    body: bytes
    unknown: list[bytes]
    fault: str = ""


def decoded(body: bytes, content_encodings: Iterable[bytes], max_size: int = 0) -> Decoded:
    """Undo the codings that the Content-Encoding lines of a response name, the last one first.

    Unknown names are skipped, as most servers that send one (`utf-8`, `none`) have coded nothing.
    An empty body is empty in any coding. No coding may make more than `max_size` bytes of it; 0: no
    limit. As in browsers, the checksums of gzip and zlib are not checked, and what comes behind the
    end of a coding is ignored.
    """
    names = [name.strip().lower() for line in content_encodings for name in line.split(b",")]
    known = [name for name in names if name in _CODINGS]
    unknown = [name for name in names if name not in _CODINGS and name not in (b"", b"identity")]
    if body and len(known) > MAX_CODINGS:
        return Decoded(b"", unknown, NOT_DECODED)
    most, fault = max_size or sys.maxsize - 1, ""
    for name in reversed(known if body else []):
        try:
            body, is_end = _CODINGS[name](body, most)
        except (zlib.error, ValueError):
            return Decoded(b"", unknown, NOT_DECODED)
        if len(body) > most:
            return Decoded(b"", unknown, TOO_LARGE)
        fault = fault if is_end else CUT
    return Decoded(body, unknown, fault)


# Each of these undoes a coding up to at least one byte more than a limit, and says whether it came
# to the end. What is not in the coding raises an error of the library, or ValueError.


def _ungzip(body: bytes, most: int) -> tuple[bytes, bool]:
    found, at, is_end = bytearray(), 0, False
    if not body.startswith(_GZIP):
        if _GZIP.startswith(body):
            return b"", False
        raise ValueError
    for _ in range(MAX_STREAMS):
        start = _end_of_gzip_header(body, at)
        part, at, is_end = _undone(zlib.decompressobj(-15), body, start, most - len(found))
        found += part
        at += 8  # the checksum and the size
        if not is_end or len(found) > most or not body.startswith(_GZIP, at):
            return bytes(found), is_end
    raise ValueError


def _end_of_gzip_header(body: bytes, at: int) -> int:
    """Return where the header of a gzip member ends that begins at `at`: RFC 1952, section 2.3."""
    flags, end = body[at + 3 : at + 4], at + 10
    if flags and flags[0] & 4:
        end += 2 + int.from_bytes(body[end : end + 2], "little")
    for flag in (8, 16):
        if flags and flags[0] & flag:
            end = body.find(0, end) + 1 or len(body)
    return end + 2 if flags and flags[0] & 2 else end


def _undeflate(body: bytes, most: int) -> tuple[bytes, bool]:
    """Undo deflate in a zlib stream, or without one, as some servers send it."""
    # The two bytes of a zlib header, or the first of them.
    if body[0] & 0x8F == 8 and (len(body) == 1 or int.from_bytes(body[:2], "big") % 31 == 0):
        with suppress(zlib.error, ValueError):
            return _inflated(body, 2, most)
    return _inflated(body, 0, most)


def _inflated(body: bytes, at: int, most: int) -> tuple[bytes, bool]:
    found, end, is_end = _undone(zlib.decompressobj(-15), body, at, most)
    # One body in 200 that nobody has compressed begins with what happens to be deflate.
    is_short = is_end and 2 * end < len(body) - 4
    if is_short and body[end : end + 4] != zlib.adler32(found).to_bytes(4, "big"):
        raise ValueError
    return found, is_end


def _unzstd(body: bytes, most: int) -> tuple[bytes, bool]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd  # which takes 20 ms
    found, at = bytearray(), 0
    for _ in range(MAX_STREAMS):
        try:
            part, at, is_end = _undone(zstd.ZstdDecompressor(), body, at, most - len(found))
        except zstd.ZstdError as error:
            raise ValueError from error
        found += part
        if not is_end or len(found) > most or not _ZSTD(body, at):
            return bytes(found), is_end
    raise ValueError


_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18").match


def _undone(undoing: Any, body: bytes, at: int, most: int) -> tuple[bytes, int, bool]:
    """Undo a stream that begins at `at`; return where it ends, too, and whether it does.

    The pieces grow, as the libraries copy what follows the end: else many streams would take
    quadratic time.
    """
    found, size = bytearray(), _PIECE
    while at < len(body) and not undoing.eof and len(found) <= most:
        found += undoing.decompress(body[at : at + size], most + 1 - len(found))
        at, size = min(at + size, len(body)), 2 * size
    return bytes(found), at - len(undoing.unused_data), undoing.eof


def _unbrotli(body: bytes, most: int) -> tuple[bytes, bool]:
    found, at, is_end = _fed(body, len(body), 1, most)
    if at < len(body) and len(found) <= most:
        # The library fails where more follows than the stream has: find where that is.
        _, at, _ = _fed(body, 0, _PIECE, most)
        found, at, is_end = _fed(body, at, 1, most)
        if not is_end and len(found) <= most:
            raise ValueError
    return found, is_end


def _fed(body: bytes, first: int, step: int, most: int) -> tuple[bytes, int, bool]:
    """Undo brotli until it fails: of the `first` bytes, and then of each `step`.

    Return how many bytes were taken, too, and whether its end was among them.
    """
    undoing, found = brotli.Decompressor(), bytearray()
    at, end, is_end = 0, first, False
    with suppress(brotli.error):
        while at < len(body) and len(found) <= most and not is_end:
            found += undoing.process(body[at:end], output_buffer_limit=most + 1 - len(found))
            is_end = undoing.is_finished()
            at, end = end, end + step
    return bytes(found), at, is_end


_CODINGS: dict[bytes, Callable[[bytes, int], tuple[bytes, bool]]] = {
    b"gzip": _ungzip,
    b"x-gzip": _ungzip,
    b"deflate": _undeflate,
    b"br": _unbrotli,
    b"zstd": _unzstd,
}


class MediaType(NamedTuple):
    """The type of a body, as `text/html`, and the value of its header, which may name a charset.

    Both are empty without a type.
    """

    essence: str
    header: str = ""

    @property
    def is_html(self) -> bool:
        """Whether a browser shows it as HTML or XHTML."""
        return self.essence in ("text/html", "application/xhtml+xml")


_TOKEN = r"[\w!#$%&'*+.^`|~-]+"
_VALUES = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*+"?)++', re.DOTALL).findall
_TYPE = re.compile(rf"[\t\n\r ]*({_TOKEN}/{_TOKEN})[\t\n\r ]*(?:;|\Z)", re.ASCII).match
_UNKNOWN = ("", "unknown/unknown", "application/unknown")
_OF_OLD_APACHES = {
    b"text/plain",
    *(b"text/plain; charset=" + charset for charset in (b"ISO-8859-1", b"iso-8859-1", b"UTF-8")),
}
_HTML = re.compile(
    rb"[\t\n\f\r ]*<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body"
    rb"|br|p|!--)[ >]",
    re.IGNORECASE,
).match
_XML = re.compile(rb"[\t\n\f\r ]*<\?xml").match
_MARKS = (b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf")


@lru_cache(maxsize=256)
def supplied_type(content_types: tuple[bytes, ...]) -> MediaType:
    """Return the type that the Content-Type lines of a response name: the last valid one in them.

    Fetch standard, "extract a MIME type"; `*/*` is none.
    """
    essence = header = ""
    for value in _VALUES(b", ".join(content_types).decode("latin-1")):
        found = _TYPE(value)
        name = found[1].lower() if found else "*/*"
        if name != "*/*":
            if name != essence or "charset" in value.lower():
                header = value.strip()
            essence = name
    return MediaType(essence, header)


def computed_type(
    content_types: Iterable[bytes], options: Iterable[bytes], body: bytes
) -> MediaType:
    """Return the type of a response, from its body where the headers name none.

    As the MIME Sniffing standard computes it (section 7), but what is binary is
    `application/octet-stream`, be it an image, a font or an archive. The headers are Content-Type
    and X-Content-Type-Options.
    """
    lines = tuple(content_types)
    supplied = supplied_type(lines)
    is_unknown = supplied.essence in _UNKNOWN
    may_sniff = b",".join(options).partition(b",")[0].strip().lower() != b"nosniff"
    if not is_unknown and not (may_sniff and lines[-1] in _OF_OLD_APACHES):
        return supplied
    if is_unknown and may_sniff and (_HTML(body) or _XML(body)):
        return MediaType("text/html" if _HTML(body) else "text/xml")
    if body.startswith(_MARKS) or not is_binary(body):
        return MediaType("text/plain") if is_unknown else supplied
    return MediaType("application/octet-stream")


def is_binary(body: bytes) -> bool:
    """Return whether the first 1,445 bytes of a body are binary, by the rule of browsers."""
    return _BINARY(body, 0, _HEAD) is not None


def is_unreadable(body: bytes, content_types: Iterable[bytes]) -> bool:
    """Return whether the body of a coding that nobody knows cannot be read as it is.

    It is binary, and its type does not say so.
    """
    essence = supplied_type(tuple(content_types)).essence
    is_text = essence in _UNKNOWN or essence.startswith("text/") or essence.endswith(_TEXTS)
    return is_text and is_binary(body) and not body.startswith(_MARKS[:2])


_TEXTS = ("xml", "json", "javascript")
