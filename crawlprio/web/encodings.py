"""The encoding of an HTML page, as browsers find it: by what it declares, never by statistics."""

from __future__ import annotations

import codecs
import re

import webencodings
from selectolax.lexbor import LexborHTMLParser

from crawlprio.web.pieces import SMALL

_CODECS = {
    # Where Python's codec of the same name lacks characters that browsers know.
    **{"big5": "big5hkscs", "euc-kr": "cp949", "gbk": "gb18030", "shift_jis": "cp932"},
    # No page is in these, whatever it says.
    **{"replacement": None, "x-user-defined": None},
}
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_NEAR = 1_024
_RAW = re.compile(
    rb"<(?=(script|style|title|textarea|noscript|noframes|noembed|iframe|xmp|plaintext)\b)",
    re.IGNORECASE,
)
_CHARSET = re.compile(
    # As the HTML standard extracts an encoding from the content of a `meta`.
    r"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\"'\t\n\f\r ;][^\t\n\f\r ;]*))",
    re.IGNORECASE,
)


def _keep_controls(error: UnicodeError) -> tuple[str | bytes, int]:
    """Keep bytes 0x80 to 0x9F that a one-byte encoding leaves free, as browsers do; for codecs."""
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        is_free = error.encoding == "charmap" and 0x80 <= byte <= 0x9F
        return chr(byte) if is_free else "\ufffd", error.start + 1 if is_free else error.end
    raise error


codecs.register_error("crawlprio.controls", _keep_controls)


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
            return body.decode("cp1252", "crawlprio.controls"), "cp1252"
        return body, "utf-8"
    mark = next((mark for mark, _ in _MARKS if body.startswith(mark)), b"")
    text = body[len(mark) :].decode(encoding, "crawlprio.controls")
    return text.encode("utf-8", "replace"), encoding


def declared_encoding(body: bytes, content_type: str = "") -> str | None:
    """Return the encoding of the byte-order mark, the header or the first `meta` that names one.

    Names are those of the Encoding standard; others are ignored. Returns the name of a Python
    codec, or None.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return encoding
    return _named(_charset(content_type)) or _meta_encoding(body)


def _meta_encoding(body: bytes) -> str | None:
    """Return the encoding that a `meta` element declares.

    Browsers first look for one in the first 1,024 bytes, inside scripts too, and change their mind
    at one that the parser meets later. Here it is looked for in the first `SMALL` bytes.
    """
    start = body[:SMALL]
    if b"charset" not in start.lower():
        return None
    found = _first_named(_RAW.sub(b"<x-", start[:_NEAR])) or _first_named(start)
    # A declaration that is readable as ASCII cannot be UTF-16.
    return "utf-8" if found and found.startswith("utf-16") else found


def _first_named(start: bytes) -> str | None:
    """Return the encoding that the first `meta` with one names."""
    for meta in LexborHTMLParser(start).tags("meta"):
        attributes = meta.attributes
        label = attributes.get("charset")
        if label is None and (attributes.get("http-equiv") or "").lower() == "content-type":
            label = _charset(attributes.get("content") or "")
        if found := _named(label or ""):
            return found
    return None


def _charset(content_type: str) -> str:
    """Return the label of an encoding in a Content-Type; empty if there is none."""
    named = _CHARSET.search(content_type)
    return next(filter(None, named.groups()), "") if named else ""


def _named(label: str) -> str | None:
    """Return the codec for a label, or None if it is none of the Encoding standard."""
    found = webencodings.lookup(label)
    return None if found is None else _CODECS.get(found.name, found.codec_info.name)
