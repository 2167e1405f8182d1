"""The encodings of the web (https://encoding.spec.whatwg.org), read and written by Python's codecs.

Where these know other characters than browsers, or end an invalid sequence elsewhere, browsers are
followed. Not covered: 159 rare characters of Big5, and the Roman set of ISO-2022-JP.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from urllib.parse import quote_from_bytes

import webencodings

_CODECS = {
    # Where Python's codec of the same name lacks characters that browsers know.
    **{"big5": "big5hkscs", "euc-kr": "cp949", "shift_jis": "cp932"},
    # No page is in these, whatever it says.
    **{"replacement": None, "x-user-defined": None},
}
MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
"""Byte-order marks."""

_CHARSET = re.compile(
    # As the HTML standard extracts an encoding from the content of a `meta`.
    r"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\"'\t\n\f\r ;][^\t\n\f\r ;]*))",
    re.IGNORECASE,
)
_XML_DECLARATION = re.compile(
    rb"<\?xml[^>]*?encoding[\0-\x20]*=[\0-\x20]*([\"'])([^>]*?)\1[^>]*>"
).match

_PAIRS_FROM = {"gb18030": 0x81, "big5hkscs": 0x81, "cp949": 0x81, "cp932": 0x81, "euc_jp": 0xA1}
"""By codec: the least byte that begins a pair; with the names that decoding errors have."""

_OTHERWISE = {
    "gb18030": str.maketrans(
        "\ue5e5\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796\ue7c7"
        "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
        "\u3000\ufe10\ufe12\ufe11\ufe13\ufe14\ufe15\ufe16\ufe17\ufe18\ufe19\u1e3f"
        "\u9fb4\u9fb5\u9fb6\u9fb7\u9fb8\u9fb9\u9fba\u9fbb",
    ),
    "big5hkscs": str.maketrans(
        "\u2022\uff64\u203e\u223c\u2641\u2609\uff0f\uff3c\xa5\xa2\xa3",
        "\u2027\ufe51\xaf\uff5e\u2295\u2299\u2215\ufe68\uffe5\uffe0\uffe1",
    ),
    "euc_jp": str.maketrans(
        "\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2"
    ),
    "cp932": str.maketrans("\uf8f0\uf8f1\uf8f2\uf8f3", "\ufffd\ufffd\ufffd\ufffd"),
    "koi8-u": str.maketrans("\u255d\u256c", "\u045e\u040e"),
    "iso2022_jp": str.maketrans("\x0e\x0f", "\ufffd\ufffd"),
}
"""By codec: characters that browsers read as others."""


def codec_of(label: str) -> str | None:
    """Return the Python codec for a label, or None if it is none of the Encoding standard."""
    found = webencodings.lookup(label)
    return None if found is None else _CODECS.get(found.name, found.codec_info.name)


def charset_in(content_type: str) -> str:
    """Return the label of an encoding in a Content-Type; empty if there is none."""
    named = _CHARSET.search(content_type)
    return next(filter(None, named.groups()), "") if named else ""


def xml_encoding(body: bytes) -> str | None:
    """Return the codec that an XML declaration at the very start names; None without one."""
    if body.startswith((b"<\0?\0x\0", b"\0<\0?\0x")):
        return "utf-16-le" if body[0] else "utf-16-be"
    found = _XML_DECLARATION(body[:1_024])
    return None if found is None else readable_as_ascii(codec_of(found[2].decode("latin-1")))


def readable_as_ascii(encoding: str | None) -> str | None:
    """Return what a declaration means that is readable as ASCII, so that it cannot be UTF-16."""
    return "utf-8" if encoding and encoding.startswith("utf-16") else encoding


def decode(text: bytes, encoding: str) -> str:
    """Return a text as browsers read it in an encoding, one of `codec_of`; never raises."""
    codec = "gb18030" if encoding == "gbk" else encoding
    decoded = text.decode(codec, "crawlprio.web")
    others = _OTHERWISE.get(codec)
    if others is not None:
        for char, other in others.items():
            decoded = decoded.replace(chr(char), chr(other))
    return decoded


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what browsers read in place of an invalid sequence, and where they read on."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    text, at, codec = error.object, error.start, error.encoding
    byte, following = text[at], text[at + 1 : at + 4]
    if codec == "charmap":
        return (chr(byte) if 0x80 <= byte <= 0x9F else "\ufffd"), at + 1
    if codec not in _PAIRS_FROM:
        return "\ufffd", error.end
    if codec == "gb18030":
        if byte == 0x80:
            return "\u20ac", at + 1
        if byte <= 0xFE and _FOUR_BYTES(following):
            return "\ufffd", at + 1 + len(following)
    elif codec == "big5hkscs":
        if byte == 0xA3 and b"\xc0" <= following[:1] <= b"\xe1":
            return _PICTURES[following[0] - 0xC0], at + 2
    elif codec == "euc_jp":
        goes_on = b"\xa1" <= following[:1] <= b"\xfe"
        if byte == 0x8F and goes_on:
            return "\ufffd", at + 2 + (following[1:2] > b"\x7f")
        if 0xA1 <= byte <= 0xFE and goes_on:
            return _japanese(byte - 0xA1, following[0] - 0xA1), at + 2
    begins = _PAIRS_FROM[codec] <= byte < (0xFD if codec == "cp932" else 0xFF)
    is_single = codec == "cp932" and 0xA0 <= byte <= 0xDF
    takes_two = (begins and not is_single) or (codec == "euc_jp" and byte in (0x8E, 0x8F))
    # A byte of ASCII is never part of an invalid sequence: a `<` begins a tag.
    return "\ufffd", at + 1 + (takes_two and following[:1] > b"\x7f")


codecs.register_error("crawlprio.web", _replaced)

_FOUR_BYTES = re.compile(rb"[0-9](?:[\x81-\xfe][0-9]|[\x81-\xfe]?\Z)").fullmatch

_PICTURES = "".join(map(chr, range(0x2400, 0x2420))) + "\u2421\u20ac"


def _japanese(row: int, cell: int) -> str:
    """Return a character of JIS X 0208 with the vendors' extensions, which only cp932 knows."""
    lead, trail = divmod(94 * row + cell, 188)
    lead, trail = lead + (0x81 if lead < 0x1F else 0xC1), trail + (0x40 if trail < 0x3F else 0x41)
    return bytes((lead, trail)).decode("cp932", "replace")[0]


_SAFE_AFTER_ENCODING = "!$%&()*+,/:;=?@[\\]^`{|}~"


def percent_encode(text: str, encoding: str) -> str:
    """Percent-encode non-ASCII text in an encoding, as the URL standard does in a query."""
    if encoding.startswith("utf-"):
        return quote_from_bytes(text.encode("utf-8", "replace"))
    written = _written(encoding)
    has_all = encoding == "gb18030"
    # In ISO-2022-JP, what follows in the same set needs no further escape sequence.
    return "".join(
        written.get(char)
        or (quote_from_bytes(char.encode(encoding, "replace")) if has_all else _reference(char))
        for char in text
    ).replace("%1B(B%1B$B", "")


def _reference(char: str) -> str:
    return f"%26%23{ord(char)}%3B"


@lru_cache(maxsize=64)
def _written(encoding: str) -> dict[str, str]:
    """Return how a query has each character that an encoding can write. Cost: 20 ms at most."""
    codec = codecs.lookup("euc_jp" if encoding == "iso2022_jp" else encoding).name
    written: dict[str, bytes] = {}
    singles = [bytes((byte,)) for byte in range(0x81 if codec == "gb18030" else 0x80, 0x100)]
    least = _PAIRS_FROM.get("gb18030" if codec == "gbk" else codec)
    if least is not None:
        # What browsers read, but do not write: extensions of Big5, and doubles in Shift JIS.
        least = 0xA1 if codec == "big5hkscs" else least
        leads = [lead for lead in range(least, 0xFF) if codec != "cp932" or lead not in _DOUBLES]
        pairs = [bytes((lead, trail)) for lead in leads for trail in range(0x40, 0xFF)]
        if codec == "euc_jp":
            pairs += [bytes((0x8E, trail)) for trail in range(0xA1, 0xE0)]
        singles += pairs
    for sequence in singles:
        char = decode(sequence, codec)
        if len(char) == 1 and char != "\ufffd":
            if char in "\u2550\u255e\u2561\u256a\u5341\u5345" and codec == "big5hkscs":
                written[char] = sequence
            written.setdefault(char, sequence)
    if codec in ("euc_jp", "cp932"):
        written |= {"\u2212": written["\uff0d"], "\xa5": b"\\", "\u203e": b"~"}
    if encoding == "iso2022_jp":
        written = {
            char: b"\x1b$B" + bytes(byte & 0x7F for byte in pair) + b"\x1b(B"
            for char, pair in written.items()
            if pair[0] >= 0xA1
        }
    return {char: quote_from_bytes(each, _SAFE_AFTER_ENCODING) for char, each in written.items()}


_DOUBLES = range(0xED, 0xFA)
