"""Extraction of the links, title and text of an HTML page, for any bytes.

Its encoding is found as browsers find it: by what the page declares, never by statistics.
"""

from __future__ import annotations

import codecs
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, islice
from typing import NamedTuple

import webencodings
from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, LexborNode

from crawlprio.web.anchors import MAX_ANCHOR_LENGTH, Resolver, printable, rebase, squeeze
from crawlprio.web.pieces import SMALL, pieces
from crawlprio.web.urls import (
    MAX_LINK_CHARACTERS,
    MAX_LINKS,
    MAX_URL_LENGTH,
    normalise_url,
    parse_url,
)

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


MAX_ANCHOR_CHARACTERS = 500_000
"""Maximum total length of a page's anchor texts in characters; further texts are left empty."""

_MAX_ANCHOR_NODES = 200
_MAX_ROBOTS = 20
_MAX_LICENCES = 5
_MAX_LANGUAGE = 35
_FEW_LINKS = 64
_FEW_BYTES = 12_288

_WITHOUT_EVENTS = 1
_IMG = LexborHTMLParser("<img>").tags("img")[0].tag_id

_Attributes = dict[str, str | None]
_Anchor = tuple[str, LexborNode, _Attributes]

_INVISIBLE = ["script", "style", "noscript", "template"]
_LANDMARKS = ["nav", "header", "footer", "aside"]
_ROLES = ",".join(
    f'[role="{role}"]'
    for role in ("navigation", "banner", "contentinfo", "search", "complementary")
)
_INLINE = frozenset(
    LexborHTMLParser(f"<{tag}>").tags(tag)[0].tag_id
    for tag in (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em"),
        *("font", "i", "ins", "kbd", "mark", "nobr", "q", "s", "samp", "small", "span", "strike"),
        *("strong", "sub", "sup", "tt", "u", "var", "wbr"),
    )
)

_SEPARATORS = re.compile(r"[\s,]+")


class Link(NamedTuple):
    """A link of a page: normalised absolute URL, anchor text, rel=nofollow.

    `nofollow` is true if every link of the page to this URL has the token `nofollow` in `rel`;
    `ugc` and `sponsored` alone do not count.
    """

    url: str
    anchor: str
    nofollow: bool


@dataclass(slots=True)
class ParsedPage:
    """The links, title, text and robots directives of an HTML page.

    The URLs of the links are distinct, in page order, without the page itself; anchor texts and
    rel=nofollow (as in `Link`) are parallel to them. The title is that of the first `title`,
    normalised and truncated at `MAX_ANCHOR_LENGTH`. `nofollow` and `noindex` say whether a `meta
    name=robots` has that word, or `none`, and `robots` has what each says, word for word. Text,
    `language` (the `lang` of `html`) and `licences` (the URLs of links with `rel=license`) are
    empty unless requested. `n_dropped` counts the distinct `href` values whose URL exceeds
    `MAX_URL_LENGTH`. `cut` says why part of the page was not read: `attributes` or `tags` (see
    `crawlprio.web.pieces`), or `links` beyond `MAX_LINKS` or `MAX_LINK_CHARACTERS`.
    """

    urls: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    nofollows: list[bool] = field(default_factory=list)
    title: str = ""
    text: str = ""
    nofollow: bool = False
    noindex: bool = False
    robots: list[str] = field(default_factory=list)
    language: str = ""
    licences: list[str] = field(default_factory=list)
    n_dropped: int = 0
    cut: str = ""

    @property
    def links(self) -> list[Link]:
        """The links as a new list, in page order. Cost: 0.2 µs per link."""
        return list(map(Link, self.urls, self.anchors, self.nofollows))


class _Selector(threading.local):
    """One CSS selector engine per thread; a new one for each search would cost 50 % more."""

    def __init__(self) -> None:
        self.find: Callable[[str, LexborNode], list[LexborNode]]
        self.find = LexborCSSSelector().find  # type: ignore[no-untyped-call]


_SELECTOR = _Selector()


def parse_page(
    body: bytes,
    url: str,
    *,
    content_type: str = "",
    want_text: bool = False,
    without_navigation: bool = False,
) -> ParsedPage:
    """Parse an HTML page and return its links, for arbitrary bytes; never raises.

    Links are the `href` of `a` and `area`, resolved as in browsers: against the first `base`, with
    the query percent-encoded in the encoding of the page and the path in UTF-8. Only http and https
    are kept. If several links lead to the same URL, the first non-empty anchor text counts. An
    anchor text is the text inside the link, or else the `alt` of the first image in it that has
    one, or else its own `alt` or `title`.

    `body` is the page after content decoding. Its encoding is that of a byte-order mark, else of
    the `charset` in the Content-Type header, else of the first `meta` that names one, else UTF-8 if
    the body is valid UTF-8, else windows-1252. Encodings that the web does not use are ignored.
    `want_text` fills `text` with all text except scripts, styles, `noscript` and templates, and
    `without_navigation` leaves out what the page marks as not its content: `nav`, `header`,
    `footer` and `aside`, and elements with the role of one.

    Cost: 55 µs for a page of 4 kB with 9 links, 35 of them in the parser; 60 µs more for the text.
    Linear in the number of links, because on pages with more than 64 links only the first 200 nodes
    inside a link are read. Pages on which the parser would need quadratic time or memory are parsed
    in pieces (`crawlprio.web.pieces`).
    """
    page = ParsedPage()
    html, encoding = decoded(body, content_type)
    parts, page.cut = pieces(html)
    base = parse_url(url)
    has_base = False
    links: _Links | None = None
    texts: list[str] = []
    for part in parts:
        tree = LexborHTMLParser(part, options=_WITHOUT_EVENTS)
        root = tree.root
        if root is None:
            continue
        for node in tree.tags("title"):
            page.title = page.title or printable(squeeze(node.text_lexbor()))
        for node in tree.tags("meta"):
            _read_robots(node.attributes, page)
        if not has_base and tree.tags("base"):
            for node in _SELECTOR.find("base[href]", root)[:1]:
                has_base = True
                base = rebase(base, node.attributes.get("href") or "")
        n_anchors, anchors = _anchors(tree, root, len(part) <= _FEW_BYTES)
        if n_anchors:
            if links is None:
                declared = partial(declared_encoding, body, content_type)
                links = _Links(Resolver(base, encoding, declared), normalise_url(url))
            if not links.add(n_anchors, anchors):
                page.cut = "links"
        if want_text:
            page.language = page.language or _language(root)
            source = (part.encode("utf-8", "replace") if isinstance(part, str) else part).lower()
            if b"license" in source:
                resolver = Resolver(base, encoding, lambda: encoding)
                page.licences = page.licences or _licences(root, resolver)
            del anchors
            texts.append(_visible_text(tree, source, without_navigation))
    if links is not None:
        links.fill_in(page)
    if want_text:
        page.text = " ".join(filter(None, texts))
    return page


class _Links:
    """The links of a page so far; each `href` is resolved once and each URL kept once."""

    __slots__ = (*("_nofollows", "_position_of_url", "_positions", "_resolver", "_texts", "_urls"),)

    def __init__(self, resolver: Resolver, page_url: str | None) -> None:
        self._resolver = resolver
        self._positions: dict[str, int] = {}
        self._position_of_url: dict[str, int] = {} if page_url is None else {page_url: -1}
        self._urls: list[str] = []
        self._texts: list[str] = []
        self._nofollows: list[bool] = []

    def add(self, n_anchors: int, anchors: Iterable[_Anchor]) -> bool:
        """Add the links of these elements; return whether there was room for all."""
        positions, position_of_url = self._positions, self._position_of_url
        urls, texts, nofollows = self._urls, self._texts, self._nofollows
        resolve = self._resolver.resolve
        may_nest = n_anchors > _FEW_LINKS
        for href, node, attributes in anchors:
            position = positions.get(href)
            if position is None:
                url = resolve(href)
                if url is None:
                    position = -1
                else:
                    position = position_of_url.setdefault(url, len(urls))
                    if position == len(urls):
                        if position == MAX_LINKS:
                            return False
                        urls.append(url)
                        texts.append("")
                        nofollows.append(True)
                positions[href] = position
            if position < 0:
                continue
            if not texts[position]:
                text = _text_near(node) if may_nest else node.text_lexbor()
                if len(text) > MAX_ANCHOR_LENGTH:
                    text = squeeze(text)
                if not text or text.isspace():
                    text = _text_instead(node, attributes)
                texts[position] = text
            if nofollows[position]:
                rel = attributes.get("rel")
                nofollows[position] = rel is not None and "nofollow" in rel.lower().split()
        return True

    def fill_in(self, page: ParsedPage) -> None:
        """Set the links of a page."""
        urls, texts = self._urls, self._texts
        n_kept = len(urls)
        if n_kept > MAX_LINK_CHARACTERS // MAX_URL_LENGTH:
            # A long base turns 26 kB of short links into 20 MB of URLs.
            n_kept = bisect_right(list(accumulate(map(len, urls))), MAX_LINK_CHARACTERS)
            if n_kept < len(urls):
                page.cut = "links"
        if n_kept > MAX_ANCHOR_CHARACTERS // MAX_ANCHOR_LENGTH:
            n_told = bisect_right(list(accumulate(map(len, texts))), MAX_ANCHOR_CHARACTERS)
            texts[n_told:] = [""] * (len(texts) - n_told)
        page.urls = urls[:n_kept]
        page.anchors = _tidy_all(texts[:n_kept])
        page.nofollows = self._nofollows[:n_kept]
        page.n_dropped = self._resolver.n_dropped


def _anchors(
    tree: LexborHTMLParser, root: LexborNode, is_small: bool
) -> tuple[int, Iterable[_Anchor]]:
    """Return the number of link elements, and the elements in page order."""
    if is_small:
        # Only on small pages: all attributes at once may be many copies of a long one.
        nodes = tree.tags("a")
        attributes = [node.attributes for node in nodes]
        hrefs = [its.get("href") or "" for its in attributes]
        if all(hrefs) and not tree.tags("area"):
            if "#" in "".join(hrefs):
                hrefs = [href.partition("#")[0] for href in hrefs]
            return len(nodes), zip(hrefs, nodes, attributes, strict=True)
    nodes = _SELECTOR.find("a[href],area[href]", root)
    return len(nodes), map(_anchor, nodes)


def _anchor(node: LexborNode) -> _Anchor:
    """Return the `href` of a link without fragment, its element and its attributes."""
    attributes = node.attributes
    href = attributes.get("href") or attributes.get("xlink:href") or ""
    return href.partition("#")[0], node, attributes


def _text_instead(node: LexborNode, attributes: _Attributes) -> str:
    """Return the anchor text of a link without text: the `alt` of an image, or an attribute."""
    for inner in islice(node.traverse(), _MAX_ANCHOR_NODES):
        if inner.tag_id == _IMG and (alt := squeeze(inner.attributes.get("alt") or "")):
            return alt
    return squeeze(attributes.get("alt") or attributes.get("title") or "")


def _text_near(node: LexborNode) -> str:
    """Return the text of the first nodes inside a link."""
    child = node.first_child
    if child is None:
        return ""
    text = child.text_content
    if text is not None and child.next is None:
        return text
    inside = islice(node.traverse(include_text=True), _MAX_ANCHOR_NODES)
    return "".join(inner.text_content or "" for inner in inside if inner.is_text_node)


def _tidy_all(texts: list[str]) -> list[str]:
    """Normalise each text and remove unprintable characters; cheap if there is nothing to do."""
    # Printable text has no white space other than spaces.
    joined = f"¦{'¦'.join(texts)}¦"
    if joined.isprintable() and not ("  " in joined or "¦ " in joined or " ¦" in joined):
        return texts
    return [printable(" ".join(text.split())) for text in texts]


def _read_robots(attributes: _Attributes, page: ParsedPage) -> None:
    """Apply a `meta name=robots` to a page."""
    if (attributes.get("name") or "").strip().lower() == "robots":
        content = attributes.get("content") or ""
        if len(page.robots) < _MAX_ROBOTS:
            page.robots.append(content)
        words = _SEPARATORS.split(content.lower())
        page.nofollow |= "nofollow" in words or "none" in words
        page.noindex |= "noindex" in words or "none" in words


def _language(root: LexborNode) -> str:
    """Return the language that the element `html` declares, cut at the longest that there are."""
    attributes = root.attributes
    declared = attributes.get("lang") or attributes.get("xml:lang") or ""
    return printable(declared.strip())[:_MAX_LANGUAGE]


def _licences(root: LexborNode, resolver: Resolver) -> list[str]:
    """Return the distinct URLs of the links with `rel=license`, up to `_MAX_LICENCES`."""
    nodes = _SELECTOR.find('[rel~="license" i][href]', root)[:_MAX_LICENCES]
    hrefs = ((node.attributes.get("href") or "").partition("#")[0] for node in nodes)
    return list(dict.fromkeys(filter(None, map(resolver.resolve, hrefs))))


def _visible_text(tree: LexborHTMLParser, source: bytes, without_navigation: bool) -> str:
    """Return the visible text of the body; destroys the tree.

    `source` is what was parsed, in lower case: a search for elements that are not there takes time.
    """
    body = tree.body
    if body is None:
        return ""
    tags = _INVISIBLE + _LANDMARKS if without_navigation else _INVISIBLE
    body.strip_tags([tag for tag in tags if b"<%b" % tag.encode() in source], recursive=True)
    if without_navigation and b"role" in source:
        for node in _SELECTOR.find(_ROLES, body):
            node.decompose(recursive=True)
    for inline in [node for node in body.traverse() if node.tag_id in _INLINE]:
        inline.unwrap(delete_empty=True)
    body.merge_text_nodes()
    return " ".join(body.text(separator=" ").split())
