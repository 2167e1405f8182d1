"""A visit as a row of SQLite values, and a row as a visit."""

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
"""Characters of a page's text that are stored; the rest is cut off."""

VISIT_COLUMNS = (
    "page, status, fetched_at, elapsed, n_bytes, content_hash, targets, anchors, outside, title, "
    "text, error"
)

_MAX_ENCODED = 4 * MAX_TEXT
"""Bytes of that text in UTF-8, at most."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def visit_row(visit: Visit) -> tuple[Any, ...]:
    """Return the values of `VISIT_COLUMNS`."""
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
        The row makes no visit: a page of none, a number that is text, a text that is none.
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
        text="" if text is None else _inflated(text).decode(),
        outside=[] if outside is None else pair_list(outside),
        fetched_at=fetched_at,
        elapsed=elapsed,
        n_bytes=n_bytes,
        content_hash=content_hash,
        error=error,
    )


def target_list(text: str, n_pages: int) -> list[int]:
    """Return the page ids of a `targets` value; ValueError or TypeError if it has any other.

    Compiled code would follow them anywhere.
    """
    targets: list[int] = json.loads(text)
    if type(targets) is not list or (targets and set(map(type, targets)) != {int}):
        raise TypeError("targets that are not an array of page ids")
    if targets and not (min(targets) >= 0 and max(targets) < n_pages):
        raise ValueError(
            f"a link from page {min(targets)} or to {max(targets)}, of {n_pages} pages"
        )
    return targets


def anchor_list(text: str | None, n_targets: int) -> list[str]:
    """Return the anchor texts of an `anchors` value, as many as targets, or none.

    ValueError or TypeError if it has anything else, lone surrogates among them.
    """
    if text is None:
        return []
    anchors: list[str] = json.loads(text)
    if type(anchors) is not list or len(anchors) != n_targets:
        raise ValueError(f"anchors that are not an array of {n_targets} texts")
    "".join(anchors).encode()
    return anchors


def pair_list(text: str) -> list[tuple[str, str]]:
    """Return the links of an `outside` value; ValueError or TypeError if they are none."""
    pairs = [(url, anchor) for url, anchor in json.loads(text)]
    "".join([part for pair in pairs for part in pair]).encode()
    return pairs


def storable(text: str) -> str:
    """Return the text, with U+FFFD for NUL and lone surrogates: SQLite's is UTF-8 that NUL ends."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _UNSTORABLE.sub("\ufffd", text)
    return text.replace("\0", "\ufffd")


def storable_all(texts: list[str]) -> list[str]:
    """Return texts as `storable` has each."""
    joined = "".join(texts)
    if joined.isascii() and "\0" not in joined:
        return texts
    return list(map(storable, texts))


def _inflated(deflated: bytes) -> bytes:
    """The text in a zlib stream; ValueError if it is longer than any that is stored."""
    stream = zlib.decompressobj()
    text = stream.decompress(deflated, _MAX_ENCODED + 1)
    if len(text) > _MAX_ENCODED or not stream.eof:
        raise ValueError(f"a text of more than {MAX_TEXT} characters, or cut off")
    return text


def _json_texts(texts: Sequence[str]) -> str:
    """A JSON array of texts that SQLite can store and take apart again."""
    joined = "".join(texts)
    # No NUL, no other control character and no surrogate is printable.
    if joined.isprintable() and '"' not in joined and "\\" not in joined:
        return '["' + '","'.join(texts) + '"]'
    # Four times as fast as an encoder that has to find out that these are texts.
    encoded = "[" + ",".join(map(encode_basestring, texts)) + "]"
    if "\\u0000" in encoded:
        encoded = _encode([storable(text) for text in texts])
    return storable(encoded)


def _json_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    """A JSON array of [URL, anchor text]."""
    encoded = _encode(list(pairs))
    if "\\u0000" in encoded:
        encoded = _encode([[storable(url), storable(anchor)] for url, anchor in pairs])
    return storable(encoded)
