"""Conversion between visits and rows of SQLite values."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

import numpy as np

from crawlprio.pages import NO_PAGE, Visit

MAX_TEXT = 100_000
"""Maximum number of characters stored of a page's text; the rest is cut off."""

VISIT_COLUMNS = (
    "page, status, fetched_at, elapsed, n_bytes, content_hash, targets, anchors, outside, title, "
    "text, error"
)

_MAX_ENCODED = 4 * MAX_TEXT
"""Maximum number of bytes of that text in UTF-8."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_decode = json.JSONDecoder().raw_decode  # json.loads takes half as long again
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def visit_row(visit: Visit) -> tuple[Any, ...]:
    """Return the values of `VISIT_COLUMNS` for a visit."""
    text = storable(visit.text[:MAX_TEXT]).encode() if visit.text else b""
    return (
        int(visit.page),
        int(visit.status),
        float(visit.fetched_at),
        float(visit.elapsed),
        int(visit.n_bytes),
        int(visit.content_hash),
        str(visit.targets.tolist()).replace(" ", ""),
        _json_texts(visit.anchors) if any(visit.anchors) else None,
        _json_pairs(visit.outside) if visit.outside else None,
        storable(visit.title) if visit.title else "",
        zlib.compress(text, 1) if text else None,
        storable(visit.error) if visit.error else "",
    )


def row_visit(row: tuple[Any, ...], n_pages: int) -> Visit:
    """Return the visit of a row that begins with `VISIT_COLUMNS`.

    Raises
    ------
    ValueError, TypeError, RecursionError, zlib.error
        The row is invalid: an unknown page, say, or a value of the wrong type.
    """
    page, status, fetched_at, elapsed, n_bytes, content_hash = row[:6]
    targets, anchors, outside, title, text, error = row[6:12]
    if not (type(page) is int and NO_PAGE <= page < n_pages):
        raise ValueError(f"a visit of page {page!r}, of {n_pages} pages")
    if not (type(status) is type(n_bytes) is type(content_hash) is int):
        raise TypeError(f"a status, size or hash of a visit of page {page} is not a number")
    if not (type(fetched_at) is type(elapsed) is float and math.isfinite(fetched_at + elapsed)):
        raise TypeError(f"the times of a visit of page {page} are not seconds")
    if not (type(title) is type(error) is str):
        raise TypeError(f"the title or error of a visit of page {page} is not text")
    pages = target_list(targets, n_pages)
    return Visit(
        page,
        np.array(pages, dtype=np.int32),
        anchors=anchor_list(anchors, len(pages)),
        status=status,
        title=title,
        text="" if text is None else inflated(text).decode(),
        outside=[] if outside is None else pair_list(outside),
        fetched_at=fetched_at,
        elapsed=elapsed,
        n_bytes=n_bytes,
        content_hash=content_hash,
        error=error,
    )


def target_list(text: str, n_pages: int) -> list[int]:
    """Return the page ids of a `targets` value; raise ValueError or TypeError if one is invalid.

    The check matters because compiled code uses them as indices without checking bounds.
    """
    targets: list[int]
    targets, end = _decode(text) if text[:1] == "[" else ([], -1)
    if end != len(text):  # white space around it, say
        targets = json.loads(text)
    if type(targets) is not list or (targets and set(map(type, targets)) != {int}):
        raise TypeError("targets that are not an array of page ids")
    if targets and not (min(targets) >= 0 and max(targets) < n_pages):
        raise ValueError(
            f"a link from page {min(targets)} or to {max(targets)}, of {n_pages} pages"
        )
    return targets


def anchor_list(text: str | None, n_targets: int) -> list[str]:
    """Return the anchor texts of an `anchors` value, as many as targets, or none.

    Raise ValueError or TypeError if it holds anything else, including lone surrogates.
    """
    if text is None:
        return []
    anchors: list[str] = json.loads(text)
    if type(anchors) is not list or len(anchors) != n_targets:
        raise ValueError(f"anchors that are not an array of {n_targets} texts")
    "".join(anchors).encode()
    return anchors


def pair_list(text: str) -> list[tuple[str, str]]:
    """Return the links of an `outside` value; raise ValueError or TypeError if it is invalid."""
    pairs = [(url, anchor) for url, anchor in json.loads(text)]
    "".join([part for pair in pairs for part in pair]).encode()
    return pairs


def storable(text: str) -> str:
    """Return a text with U+FFFD for NUL and lone surrogates, which SQLite cannot store as text."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _UNSTORABLE.sub("\ufffd", text)
    return text.replace("\0", "\ufffd")


def storable_all(texts: list[str]) -> list[str]:
    """Return `storable` of each text."""
    joined = "".join(texts)
    if joined.isascii() and "\0" not in joined:
        return texts
    return list(map(storable, texts))


def inflated(deflated: bytes) -> bytes:
    """Return the text in a zlib stream; raise ValueError if it exceeds the maximum stored."""
    stream = zlib.decompressobj()
    text = stream.decompress(deflated, _MAX_ENCODED + 1)
    if len(text) > _MAX_ENCODED or not stream.eof:
        raise ValueError(f"a text of more than {MAX_TEXT} characters, or cut off")
    return text


def _json_texts(texts: Sequence[str]) -> str:
    """Return a JSON array of texts that SQLite can store and parse."""
    joined = "".join(texts)
    # NUL, other control characters and surrogates are not printable.
    if joined.isprintable() and '"' not in joined and "\\" not in joined:
        return '["' + '","'.join(texts) + '"]'
    # Four times as fast as a general encoder, which would check the type of each text.
    encoded = "[" + ",".join(map(encode_basestring, texts)) + "]"
    if "\\u0000" in encoded:
        encoded = _encode([storable(text) for text in texts])
    return storable(encoded)


def _json_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    """Return a JSON array of [URL, anchor text]."""
    encoded = _encode(list(pairs))
    if "\\u0000" in encoded:
        encoded = _encode([[storable(url), storable(anchor)] for url, anchor in pairs])
    return storable(encoded)
