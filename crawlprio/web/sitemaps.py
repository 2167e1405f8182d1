"""Sitemaps, feeds and lists of URLs as streams of bytes, read within the bounds of their standard.

XML (https://www.sitemaps.org/protocol.html, and RSS and Atom, which it allows) goes through lxml's
parser, which tells events and builds no tree. It reads no external entity, nothing from the network
and no DTD. An `&` that begins no reference of XML's own is text: sites write URLs without `&amp;`.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import can_ada
from lxml import etree

from crawlprio.web.anchors import rebase
from crawlprio.web.encodings import MARKS, codec_of, xml_encoding
from crawlprio.web.urls import MAX_URL_LENGTH, normalise_url, parse_url

MAX_URLS = 50_000
"""Maximum number of entries in a sitemap or index, valid or not: the standard's for URLs."""

MAX_BYTES = 52_428_800
"""Maximum size of a sitemap once decompressed: the standard's 50 MB."""

MAX_TAGS = 1_500_000
"""Maximum number of elements read of a sitemap, 30 for each URL."""

MAX_SILENT_BYTES = 1_048_576
"""Maximum number of bytes without an element or text: of one tag, one comment, or declarations."""

PIECE = 65_536
"""Bytes that are read at once, some 5 ms of work."""

NOT_A_SITEMAP = "it is neither a sitemap nor a feed nor a list of URLs"
TOO_LARGE = "it is read up to 50 MB, as the standard allows"
TOO_MANY = "it is read up to 50,000 URLs, as the standard allows"
TOO_MANY_TAGS = "it is read up to 1,500,000 elements"
TOO_LONG_TAG = "it has a tag, a comment or declarations of more than 1 MB, and is read up to there"
BROKEN_XML = "its XML is broken, and it is read as far as it can be"
BROKEN_GZIP = "its gzip is damaged, and it is read up to there"

_MAX_DATE = 40
_RAW_AND = re.compile(
    # What a CDATA section holds is text already.
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|(&)(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);)"
    rb"|(<)(?![A-Za-z_:/!?\x80-\xff]|\Z)",
    re.DOTALL,
)
_GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_MAX_DECLARATION = 1_024
_FATAL = 3
_DATE = re.compile(r"[\w:+., -]+", re.ASCII).fullmatch

_ENTRIES = {
    "urlset": ("urlset", "url"),
    "sitemapindex": ("sitemapindex", "sitemap"),
    "rss": ("rss", "channel", "item"),
    "RDF": ("RDF", "item"),
    "feed": ("feed", "entry"),
}
"""By the name of the root: the path to the elements that name a URL."""

_FIELDS = {
    "loc": "url",
    "link": "url",
    "lastmod": "lastmod",
    "pubDate": "lastmod",
    "date": "lastmod",
    "updated": "lastmod",
    "priority": "priority",
}
"""What the children of such an element say."""


class Named(NamedTuple):
    """A normalised URL that a sitemap names.

    `lastmod` is its date as the sitemap writes it, empty if that is no date; `priority` is from 0
    to 1.
    """

    url: str
    lastmod: str = ""
    priority: float | None = None


class SitemapReader:
    """Reads one sitemap from its bytes, compressed with gzip or not.

    Its encoding is that of a byte-order mark, else `charset` (of its header), else of its XML
    declaration, else UTF-8. URLs in XML may be relative to `xml:base`, or else to the sitemap's own
    `url`. `is_index` says whether what it names
    are sitemaps, `remark` why it was not read, or not to its end, and `n_invalid` counts entries
    without a valid http(s) URL. Memory: a piece, what the decompressor and the parser keep of it,
    and one entry. Cost: 3 µs per element, so at most 5 s for a sitemap within the bounds, in
    pieces.
    """

    def __init__(self, url: str = "", charset: str = "") -> None:
        self.remark = ""
        self._charset = codec_of(charset)
        self._decoder: codecs.IncrementalDecoder | None = None
        self.n_invalid = 0
        self._base = parse_url(url)
        self._parser: _Xml | _Lines | None = None
        self._unpacker: Any = None
        self._head = b""
        self._n_bytes = self._n_named = 0

    @property
    def is_index(self) -> bool:
        return self._parser is not None and self._parser.root == "sitemapindex"

    def read(self, body: bytes) -> Iterator[list[Named]]:
        """Yield what each piece of a whole sitemap names; the caller may pause in between."""
        if body.startswith(_GZIP):
            self._unpacker = zlib.decompressobj(31)
        for at in range(0, len(body), PIECE):
            for piece in self._unpacked(body[at : at + PIECE]):
                yield self._parsed(piece)
                if self.remark:
                    return
        if self._unpacker is not None and not self._unpacker.eof:
            self.remark = BROKEN_GZIP
        yield self._parsed(b"", is_last=True)
        if not self.remark and not self._is_known:
            self.remark = NOT_A_SITEMAP

    @property
    def _is_known(self) -> bool:
        if isinstance(self._parser, _Xml):
            return self._parser.root in _ENTRIES
        return self._n_named > 0

    def _unpacked(self, piece: bytes) -> Iterator[bytes]:
        """Yield a piece, decompressed if need be, in pieces of at most `PIECE` bytes."""
        if self._unpacker is None:
            yield piece
            return
        while piece and not self.remark:
            try:
                yield self._unpacker.decompress(piece, PIECE)
            except zlib.error:
                self.remark = BROKEN_GZIP
                return
            piece = self._unpacker.unconsumed_tail
            rest = self._unpacker.unused_data
            if self._unpacker.eof and rest.startswith(_GZIP[:1]):
                self._unpacker, piece = zlib.decompressobj(31), rest

    def _parsed(self, piece: bytes, *, is_last: bool = False) -> list[Named]:
        """Return what one piece names, and set `remark` if it is the last to read."""
        self._n_bytes += len(piece)
        if self._n_bytes > MAX_BYTES:
            self.remark = self.remark or TOO_LARGE
            return []
        if self._parser is None:
            piece = self._choose_parser(piece, is_last)
        elif self._decoder is not None:
            piece = self._decoder.decode(piece, is_last).encode("utf-8", "replace")
        if self._parser is None:
            return []
        self._parser.feed(piece, is_last=is_last)
        entries, self._parser.entries = self._parser.entries, []
        named = self._taken(entries)
        self.remark = self.remark or self._parser.remark
        return named

    def _choose_parser(self, piece: bytes, is_last: bool) -> bytes:
        """Choose the parser by the first byte that is not a space; return what it has to read."""
        self._head += piece
        start = self._head.lstrip()
        is_whole = not start.startswith(b"<?") or b">" in start or len(start) >= _MAX_DECLARATION
        if (len(start) < 6 or not is_whole) and not is_last:
            self._head = start
            return b""
        mark, encoding = next((mark for mark in MARKS if start.startswith(mark[0])), (b"", ""))
        encoding = encoding or self._charset or xml_encoding(start) or "utf-8"
        start = start[len(mark) :]
        if encoding != "utf-8":
            codec = "gb18030" if encoding == "gbk" else encoding
            self._decoder = codecs.getincrementaldecoder(codec)("crawlprio.web")
            start = self._decoder.decode(start, is_last).encode("utf-8", "replace")
        start = start.lstrip()
        self._parser = _Xml(self._base) if start.startswith(b"<") else _Lines()
        self._head = b""
        return start

    def _taken(self, entries: list[dict[str, str]]) -> list[Named]:
        """Return the valid ones of some entries, within the number that the standard allows."""
        named = []
        for entry in entries:
            if self._n_named + self.n_invalid >= MAX_URLS:
                self.remark = TOO_MANY
                break
            written = entry.get("url", "").strip()
            # Any text is a list of relative URLs, so those in lists are absolute.
            base = parse_url(entry["base"]) if "base" in entry else None
            url = normalise_url(written, base) if written else None
            if url is None:
                self.n_invalid += 1
                continue
            self._n_named += 1
            named.append(Named(url, _date(entry.get("lastmod", "")), _priority(entry)))
        return named


class _Lines:
    """A list of URLs, one a line."""

    root = remark = ""

    def __init__(self) -> None:
        self.entries: list[dict[str, str]] = []
        self._rest = b""

    def feed(self, piece: bytes, *, is_last: bool) -> None:
        text = self._rest + piece + (b"\n" if is_last else b"")
        *lines, rest = text.replace(b"\r", b"\n").split(b"\n")
        # A line this long is no URL; what follows in it is not kept.
        self._rest = rest if len(rest) <= 4 * MAX_URL_LENGTH else b"?"
        for line in filter(None, map(bytes.strip, lines)):
            self.entries.append({"url": line.removeprefix(_BOM).decode("utf-8", "replace").strip()})


class _Enough(Exception):
    """Nothing more of a sitemap is read."""


class _Xml:
    """A sitemap or feed, which lxml reads as far as it can.

    It is the target of lxml's events, and keeps the fields of the entry that is open and no others.
    """

    def __init__(self, base: can_ada.URL | None) -> None:
        self.root = self.remark = ""
        self._rest = b""
        self._bases = [(0, base)]
        self._entry_tag = ""
        self._entry_depth = 0
        self._n_events = self._n_tags = self._n_silent = self._depth = 0
        self.entries: list[dict[str, str]] = []
        self._path: list[str] = []
        self._entry: dict[str, str] | None = None
        self._at: tuple[str, ...] = ()
        self._field = ""
        self._parser: Any = etree.XMLParser(
            target=self,
            encoding="utf-8",
            recover=True,
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            collect_ids=False,
        )

    def feed(self, piece: bytes, *, is_last: bool) -> None:
        """Parse up to the last tag that is whole, unless what follows is too long for a URL."""
        piece = self._rest + piece
        end = piece.rfind(b">") + 1
        end = end if len(piece) - end < 4 * MAX_URL_LENGTH else len(piece)
        self._rest = piece[end:]
        self._parse(piece[:end])
        if not is_last:
            return
        if b"<" in self._rest:  # else it may be a part of a URL
            self._parse(self._rest)
        with suppress(etree.XMLSyntaxError, ValueError, LookupError, _Enough):
            self._parser.close()
        self._close_entry()
        # The parser leaves out characters that XML has not, and reads on.
        errors = (e for e in self._parser.feed_error_log if e.type_name != "ERR_INVALID_CHAR")
        if self.root in _ENTRIES and any(error.level >= _FATAL for error in errors):
            self.remark = self.remark or BROKEN_XML

    def _parse(self, piece: bytes) -> None:
        n_before = self._n_events
        if not self.remark:
            try:
                self._parser.feed(_RAW_AND.sub(_as_text, piece))
            except (etree.XMLSyntaxError, _Enough):
                pass
            except (ValueError, LookupError):  # an encoding that lxml does not know, say
                self.remark = self.remark or NOT_A_SITEMAP
        self._n_silent = 0 if self._n_events > n_before else self._n_silent + len(piece)
        if self._n_silent > MAX_SILENT_BYTES:
            self.remark = self.remark or TOO_LONG_TAG

    def start(self, tag: str, attributes: Any) -> None:
        self._n_events += 1
        self._n_tags += 1
        if self._n_tags > MAX_TAGS:
            self._stop(TOO_MANY_TAGS)
        self._depth += 1
        self._field = ""
        if (to := attributes.get(_XML_BASE)) and len(to) <= MAX_URL_LENGTH:
            self._bases.append((self._depth, rebase(self._bases[-1][1], to)))
        name = tag.rpartition("}")[2]
        is_within = self._entry is not None and self._depth == self._entry_depth + 1
        if is_within and tag != self._entry_tag:
            self._open_field(name, attributes)
            return
        if tag == self._entry_tag:  # inside another one, if a tag that closes is missing
            self._open_entry()
            return
        if self._depth > 4:
            return
        if self._depth == 1:
            self.root = name[:20]
            self._at = _ENTRIES.get(name, ())
            if not self._at:
                self._stop(NOT_A_SITEMAP)
        del self._path[self._depth - 1 :]
        self._path.append(name)
        if self._depth == len(self._at) and tuple(self._path) == self._at:
            self._entry_tag = tag
            self._open_entry()

    def _open_entry(self) -> None:
        self._close_entry()
        self._entry, self._entry_depth = {}, self._depth

    def _close_entry(self) -> None:
        if self._entry:
            self.entries.append(self._entry)
        self._entry = None

    def data(self, text: str) -> None:
        self._n_events += 1
        if self._field and self._entry is not None:
            so_far = self._entry[self._field]
            if len(so_far) <= 2 * MAX_URL_LENGTH:
                self._entry[self._field] = so_far + text[: 2 * MAX_URL_LENGTH]

    def end(self, tag: str) -> None:
        self._n_events += 1
        self._field = ""
        if self._depth == self._entry_depth:
            self._close_entry()
        if self._bases[-1][0] == self._depth > 0:
            self._bases.pop()
        self._depth -= 1

    def comment(self, text: str) -> None:
        self._n_events += 1

    def pi(self, target: str, text: str | None = None) -> None:
        self._n_events += 1

    def close(self) -> None:
        return None

    def _open_field(self, name: str, attributes: Any) -> None:
        field = _FIELDS.get(name, "")
        if self._entry is None or not field or self._entry.get(field):
            return
        base = self._bases[-1][1]
        if field == "url" and base is not None:
            self._entry["base"] = base.href
        if self.root == "feed" and field == "url":
            if attributes.get("rel", "alternate") == "alternate":
                self._entry["url"] = attributes.get("href", "")
        elif field != "url" or name == ("loc" if self._at[-1] in ("url", "sitemap") else "link"):
            self._field = field
            self._entry[field] = ""

    def _stop(self, remark: str) -> None:
        self.remark = self.remark or remark
        raise _Enough


def _as_text(found: re.Match[bytes]) -> bytes:
    return b"&amp;" if found[1] else b"&lt;" if found[2] else found[0]


def _date(text: str) -> str:
    """Return a date as it is written, or nothing for what cannot be one."""
    text = text.strip()
    return text if len(text) <= _MAX_DATE and _DATE(text) else ""


def _priority(entry: dict[str, str]) -> float | None:
    try:
        priority = float(entry.get("priority", ""))
    except ValueError:
        return None
    return priority if 0 <= priority <= 1 else None
