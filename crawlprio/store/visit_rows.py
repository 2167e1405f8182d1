"""A visit as a row of SQLite values, and a row as a visit.

It must not know files, transactions or page tables.
"""

from __future__ import annotations

import json
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

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def visit_row(visit: Visit) -> tuple[Any, ...]:
    """The values of `VISIT_COLUMNS`."""
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
    """The visit of a row of `VISIT_COLUMNS`; ValueError or TypeError if it makes no sense."""
    page, status, fetched_at, elapsed, n_bytes, content_hash = row[:6]
    targets, anchors, outside, title, text, error = row[6:]
    if not (isinstance(page, int) and NO_PAGE <= page < n_pages):
        raise ValueError(f"a visit of page {page}, of {n_pages} pages")
    if not (isinstance(status, int) and isinstance(content_hash, int)):
        raise TypeError(f"status {status!r} or content hash {content_hash!r} of page {page}")
    return Visit(
        page,
        np.array(target_list(targets, n_pages), dtype=np.int32),
        anchors=() if anchors is None else json.loads(anchors),
        status=status,
        title=title,
        text="" if text is None else zlib.decompress(text).decode(),
        outside=() if outside is None else [(url, anchor) for url, anchor in json.loads(outside)],
        fetched_at=fetched_at,
        elapsed=elapsed,
        n_bytes=n_bytes,
        content_hash=content_hash,
        error=error,
    )


def target_list(text: str, n_pages: int) -> list[int]:
    """The page ids of a `targets` value; one that is no page would lead compiled code astray."""
    targets: list[int] = json.loads(text)
    if targets and not (min(targets) >= 0 and max(targets) < n_pages):
        raise ValueError(
            f"a link from page {min(targets)} or to {max(targets)}, of {n_pages} pages"
        )
    return targets


def storable(text: str) -> str:
    """The text, with U+FFFD for NUL and lone surrogates: SQLite's text is UTF-8 that NUL ends."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _UNSTORABLE.sub("\ufffd", text)
    return text.replace("\0", "\ufffd")


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
