"""The encoding of an HTML page, as browsers find it: by what it declares, never by statistics."""

from __future__ import annotations

import codecs
import re

from selectolax.lexbor import LexborHTMLParser
from w3lib.encoding import http_content_type_encoding, read_bom, resolve_encoding

from crawlprio.web.pieces import SMALL

_WEB_ENCODINGS = frozenset(
    codecs.lookup(name).name
    for name in (
        *("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "cp866", "koi8-r", "koi8-u"),
        *("mac-roman", "mac-cyrillic", "cp874", "gb18030", "big5hkscs", "cp932", "cp949"),
        *("euc_jp", "iso2022_jp"),
        *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *(f"cp125{last}" for last in range(9)),
    )
)

_NEAR = 1_024
_RAW = re.compile(
    rb"<(?=(script|style|title|textarea|noscript|noframes|noembed|iframe|xmp|plaintext)\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[A-Za-z0-9_.:-]+")
_CHARSET = re.compile(
    # As the HTML standard extracts an encoding from the content of a `meta`.
    r"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\"'\t\n\f\r ;][^\t\n\f\r ;]*))",
    re.IGNORECASE,
)


def decoded(body: bytes, content_type: str = "") -> tuple[bytes | str, str]:
    """Return a page as UTF-8 or text, and its encoding, which is empty if it is plain ASCII.

    The encoding is the declared one, else UTF-8 if the body is valid UTF-8, else windows-1252.
    """
    if body.isascii() and b"\x1b" not in body and b"\0" not in body:
        return body, ""
    encoding = declared_encoding(body, content_type)
    if encoding is None:
        try:
            body.decode()
        except UnicodeDecodeError:
            return body.decode("cp1252", "replace"), "cp1252"
        return body, "utf-8"
    _, mark = read_bom(body)
    if mark:
        body = body[len(mark) :]
    text = body.decode(encoding, "replace")
    return text.encode("utf-8", "replace"), encoding


def declared_encoding(body: bytes, content_type: str = "") -> str | None:
    """Return the encoding of the byte-order mark, the header or the first `meta` that names one.

    Encodings that the web does not use are ignored. Returns the name of a Python codec, or None.
    """
    encoding = _on_the_web(read_bom(body)[0]) or _on_the_web(
        http_content_type_encoding(content_type)
    )
    return encoding or _meta_encoding(body)


def _meta_encoding(body: bytes) -> str | None:
    """Return the encoding that a `meta` element declares.

    Browsers first look for one in the first 1,024 bytes, inside scripts too, and change their mind
    at one that the parser meets later. Here it is looked for in the first `SMALL` bytes.
    """
    start = body[:SMALL]
    if b"charset" not in start.lower():
        return None
    found = _first_named(_RAW.sub(b"<x-", start[:_NEAR])) or _first_named(start)
    # A declaration that is readable as ASCII cannot be UTF-16 or UTF-32.
    return "utf-8" if found and found.startswith(("utf-16", "utf-32")) else found


def _first_named(start: bytes) -> str | None:
    """Return the encoding that the first `meta` with one names."""
    metas = LexborHTMLParser(start).tags("meta")
    return next(filter(None, (_named_by(meta.attributes) for meta in metas)), None)


def _named_by(attributes: dict[str, str | None]) -> str | None:
    """Return the encoding that a `meta` with these attributes declares."""
    label = attributes.get("charset")
    if label is None and (attributes.get("http-equiv") or "").lower() == "content-type":
        named = _CHARSET.search(attributes.get("content") or "")
        label = next(filter(None, named.groups()), "") if named else ""
    label = (label or "").strip("\t\n\f\r ")
    return _on_the_web(resolve_encoding(label)) if _LABEL.fullmatch(label) else None


def _on_the_web(encoding: str | None) -> str | None:
    """Return the encoding, with an explicit byte order, if the web uses it, or None."""
    if encoding in ("utf-16", "utf-32"):
        encoding += "-be"
    return encoding if encoding in _WEB_ENCODINGS else None
