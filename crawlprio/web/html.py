"""Extraction of the links, title and text of an HTML page, for any bytes.

Its encoding is found as browsers find it: by what the page declares, never by statistics.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, islice

from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, LexborNode

from crawlprio.web.anchors import (
    MAX_ANCHOR_LENGTH,
    ParsedPage,
    Resolver,
    is_remote,
    printable,
    rebase,
    squeeze,
)
from crawlprio.web.encodings import (
    MARKS,
    charset_in,
    codec_of,
    decode,
    readable_as_ascii,
    xml_encoding,
)
from crawlprio.web.html_splitter import SMALL, pieces
from crawlprio.web.robots_txt import forbids
from crawlprio.web.urls import (
    MAX_LINK_CHARACTERS,
    MAX_LINKS,
    MAX_URL_LENGTH,
    normalise_url,
    parse_url,
)

_IS_XHTML = re.compile(r"\s*application/xhtml\+xml\s*(?:;|\Z)", re.IGNORECASE).match
_NEAR = 1_024
_RAW = re.compile(
    rb"<(?=(script|style|title|textarea|noscript|noframes|noembed|iframe|xmp|plaintext)\b)",
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
            return decode(body, "cp1252"), "cp1252"
        return body, "utf-8"
    mark = next((mark for mark, _ in MARKS if body.startswith(mark)), b"")
    return decode(body[len(mark) :], encoding).encode("utf-8", "replace"), encoding


def declared_encoding(body: bytes, content_type: str = "") -> str | None:
    """Return the encoding of the byte-order mark, the header, or else of the page itself.

    A page in HTML has that of the first `meta` that names one, else of an XML declaration. A page
    in XHTML has that of its XML declaration, else UTF-8; if it is not valid UTF-8, it is read as
    HTML. Names are those of the Encoding standard; others are ignored. Returns the name of a Python
    codec, or None.
    """
    for mark, encoding in MARKS:
        if body.startswith(mark):
            return encoding
    if found := codec_of(charset_in(content_type)):
        return found
    of_xml = xml_encoding(body)
    if _IS_XHTML(content_type):
        if of_xml is None:
            with suppress(UnicodeDecodeError):
                body.decode()
                return "utf-8"
        else:
            return of_xml
    return _meta_encoding(body) or of_xml


def _meta_encoding(body: bytes) -> str | None:
    """Return the encoding that a `meta` element declares.

    Browsers first look for one in the first 1,024 bytes, inside scripts too, and change their mind
    at one that the parser meets later. Here it is looked for in the first `SMALL` bytes.
    """
    start = body[:SMALL]
    if b"charset" not in start.lower():
        return None
    found = _first_named(_RAW.sub(b"<x-", start[:_NEAR])) or _first_named(start)
    return readable_as_ascii(found)


def _first_named(start: bytes) -> str | None:
    """Return the encoding that the first `meta` with one names."""
    for meta in LexborHTMLParser(start).tags("meta"):
        attributes = meta.attributes
        label = attributes.get("charset")
        if label is None and (attributes.get("http-equiv") or "").lower() == "content-type":
            label = charset_in(attributes.get("content") or "")
        if found := codec_of(label or ""):
            return found
    return None


MAX_ANCHOR_CHARACTERS = 500_000
"""Maximum total length of a page's anchor texts in characters; further texts are left empty."""

_MAX_ANCHOR_NODES = 200
_MAX_ROBOTS = 20
_MAX_LICENCES = 5
_MAX_LANGUAGE = 35
_FEW_LINKS = 64
_FEW_BYTES = 12_288

_WITHOUT_EVENTS = 1
_Attributes = dict[str, str | None]
_Anchor = tuple[str, LexborNode, _Attributes]


def _id_of(tag: str) -> int:
    """Return the number that lexbor gives the elements of a tag."""
    return LexborHTMLParser(f"<{tag}>").tags(tag)[0].tag_id


_INVISIBLE = ["script", "style", "noscript", "template"]
_LANDMARKS = ["nav", "header", "footer", "aside"]
_ROLES = ",".join(
    f'[role="{role}"]'
    for role in ("navigation", "banner", "contentinfo", "search", "complementary")
)
_WITHIN_TEXT = frozenset(
    node.tag_id
    for node in LexborHTMLParser("<p><!----><?x?>").tags("p")[0].traverse()
    if not node.is_element_node
) | frozenset(
    map(
        _id_of,
        (
            *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em"),
            *("font", "i", "ins", "kbd", "mark", "nobr", "q", "s", "samp", "small", "span"),
            *("strike", "strong", "sub", "sup", "tt", "u", "var", "wbr"),
        ),
    )
)
SHADOW_ROOTS = ",".join(f'template[shadowrootmode="{mode}" i]' for mode in ("open", "closed"))
"""Selects declarative shadow roots."""

# One search takes a sixth of the parser's time, whatever it is for.
_OF_INTEREST = (
    f"title,meta[name],meta[http-equiv],base[href],iframe,noembed,noframes,{SHADOW_ROOTS}"
)
_FALLBACKS = frozenset(map(_id_of, ("iframe", "noembed", "noframes")))
_IMG, _TITLE, _META, _BASE, _TEMPLATE = map(_id_of, ("img", "title", "meta", "base", "template"))
_SHADOW_HOSTS = frozenset(
    (
        *("article", "aside", "blockquote", "body", "div", "footer", "h1", "h2", "h3", "h4"),
        *("h5", "h6", "header", "main", "nav", "p", "section", "span"),
    )
)
_REFRESH = re.compile(
    # Possessive: the standard's algorithm never goes back.
    r"[\t\n\f\r ]*+(?:[0-9]++|(?=\.))[0-9.]*+(?=[;,\t\n\f\r ])[\t\n\f\r ]*+[;,]?+[\t\n\f\r ]*+"
    r"(?:url[\t\n\f\r ]*+=[\t\n\f\r ]*+)?+(?:\"([^\"]*+)|'([^']*+)|(.++))",
    re.IGNORECASE | re.DOTALL,
).match
_CUSTOM_ELEMENT = re.compile(r"[a-z][^A-Z]*-").match
_MAX_LOOKED_AT = 1_000


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
    robot: Collection[str] = (),
    want_text: bool = False,
    without_navigation: bool = False,
) -> ParsedPage:
    """Parse an HTML page and return its links, for arbitrary bytes; never raises.

    Links are the targets of `meta http-equiv=refresh`, however many seconds it waits, and the
    `href` of `a` and `area`, resolved as in browsers: against the first `base`, with the query
    percent-encoded in the encoding of the page and the path in UTF-8. Only http and https are kept.
    If several links lead to the same URL, the first non-empty anchor text counts. An
    anchor text is the text inside the link, or else the `alt` of the first image in it that has
    one, or else its own `alt` or `title`.

    `body` is the page after content decoding. Its encoding is that of a byte-order mark, else of
    the `charset` in the Content-Type header, else of the first `meta` that names one, else of an
    XML declaration (in XHTML, of that alone), else UTF-8 if the body is valid UTF-8, else
    windows-1252. Encodings that the web does not use are ignored.
    `robot` has the names of the robot that reads, in lower case: a `meta` may address it.
    The content of declarative shadow roots is part of the page, in the place of their templates.
    `want_text` fills `text` with all text except scripts, styles, `noscript`, other templates, and
    what `iframe`, `noembed` and `noframes` show instead, and
    `without_navigation` leaves out what the page marks as not its content: `nav`, `header`,
    `footer` and `aside`, and elements with the role of one.

    Cost: 55 µs for a page of 4 kB with 9 links, 35 of them in the parser; 60 µs more for the text.
    Linear in the number of links, because on pages with more than 64 links only the first 200 nodes
    inside a link are read. Pages on which the parser would need quadratic time or memory are parsed
    in pieces (`crawlprio.web.html_splitter`).
    """
    page = ParsedPage()
    html, encoding = decoded(body, content_type)
    parts, page.cut = pieces(html)
    base = parse_url(url)
    title: str | None = None
    has_base = False
    links: _Links | None = None
    texts: list[str] = []
    for part in parts:
        tree = LexborHTMLParser(part, options=_WITHOUT_EVENTS)
        root = tree.root
        if root is None:
            continue
        head = _SELECTOR.find(_OF_INTEREST, root)
        if title is None and (found := _first_of_html(head, _TITLE)):
            title = printable(squeeze(found.text_lexbor()))
        if not has_base and (found := _first_of_html(head, _BASE)):
            has_base = True
            base = rebase(base, found.attributes.get("href") or "")
        refreshes: list[_Anchor] = []
        for node in head:
            if node.tag_id == _META:
                attributes = node.attributes
                _read_robots(attributes, page, robot)
                if target := _refreshed(attributes):
                    refreshes.append((target, node, {}))
        open_shadow_roots([node for node in head if node.tag_id == _TEMPLATE])
        n_anchors, anchors = _anchors(tree, root, len(part) <= _FEW_BYTES)
        if refreshes:
            n_anchors, anchors = n_anchors + len(refreshes), chain(refreshes, anchors)
        if n_anchors:
            if links is None:
                declared = partial(declared_encoding, body, content_type)
                links = _Links(page, Resolver(base, encoding, declared), normalise_url(url))
            if not links.add(n_anchors, anchors):
                page.cut = "links"
        if want_text:
            page.language = page.language or _language(root)
            source = (part.encode("utf-8", "replace") if isinstance(part, str) else part).lower()
            if b"license" in source:
                resolver = Resolver(base, encoding, lambda: encoding)
                page.licences = page.licences or _licences(root, resolver)
            del anchors
            for node in [node for node in head if node.tag_id in _FALLBACKS]:
                node.decompose()
            texts.append(" ".join(_visible_text(tree, source, without_navigation).split()))
    page.title = title or ""
    if links is not None:
        links.finish()
    if want_text:
        page.text = " ".join(filter(None, texts))
    return page


def base_in(root: LexborNode) -> str | None:
    """Return the `href` of the first `base` of HTML that has one; None without one."""
    base = _first_of_html(_SELECTOR.find("base[href]", root), _BASE)
    return None if base is None else base.attributes.get("href") or ""


def _first_of_html(nodes: list[LexborNode], tag_id: int) -> LexborNode | None:
    """Return the first of some elements with a tag that is none of SVG or MathML, or None."""
    found = (node for node in nodes if node.tag_id == tag_id)
    for node in islice(found, _MAX_LOOKED_AT):
        if not is_remote(_names_above(node)):
            return node
    return None


def _names_above(node: LexborNode) -> Iterator[str]:
    """Yield the names of the elements around one, nearest first."""
    above = node.parent
    while above is not None:
        yield (above.tag or "").lower()
        above = above.parent


def open_shadow_roots(templates: list[LexborNode]) -> None:
    """Put what declarative shadow roots hold into the tree, where they stand in their hosts.

    `templates` are those of a tree that `SHADOW_ROOTS` selects. An element has one at most, and
    only some elements can have one; other templates stay closed.
    """
    hosts: set[int] = set()
    waiting = templates[::-1]
    while waiting:
        template = waiting.pop()
        host = template.parent
        name = "" if host is None else host.tag or ""
        content = template.template_fragments()[:1]
        if (
            host is None
            or not content
            or host.mem_id in hosts
            or not (name in _SHADOW_HOSTS or _CUSTOM_ELEMENT(name))
        ):
            continue
        hosts.add(host.mem_id)
        waiting += _SELECTOR.find(SHADOW_ROOTS, content[0])[::-1]
        while (child := content[0].first_child) is not None:
            template.insert_before(child, move=True)
        template.decompose()


class _Links:
    """The links of a page so far; each `href` is resolved once and each URL kept once."""

    __slots__ = ("_page", "_position_of_url", "_positions", "_resolver")

    def __init__(self, page: ParsedPage, resolver: Resolver, page_url: str | None) -> None:
        self._page = page
        self._resolver = resolver
        self._positions: dict[str, int] = {}
        self._position_of_url: dict[str, int] = {} if page_url is None else {page_url: -1}

    def add(self, n_anchors: int, anchors: Iterable[_Anchor]) -> bool:
        """Add the links of these elements; return whether there was room for all."""
        positions, position_of_url = self._positions, self._position_of_url
        urls, texts, nofollows = self._page.urls, self._page.anchors, self._page.nofollows
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

    def finish(self) -> None:
        """Drop links and texts beyond the limits; normalise the texts."""
        page, urls, texts = self._page, self._page.urls, self._page.anchors
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
        page.nofollows = page.nofollows[:n_kept]
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


def _refreshed(attributes: _Attributes) -> str:
    """Return where a `meta http-equiv=refresh` leads, without fragment; empty if nowhere."""
    if (attributes.get("http-equiv") or "").lower() != "refresh":
        return ""
    found = _REFRESH(attributes.get("content") or "")
    return "" if found is None else found[found.lastindex or 0].partition("#")[0]


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


def _read_robots(attributes: _Attributes, page: ParsedPage, robot: Collection[str]) -> None:
    """Apply a `meta` with the name `robots`, or that of the robot that reads, to a page."""
    name = (attributes.get("name") or "").strip().lower()
    if name == "robots" or (name and name in robot):
        content = attributes.get("content") or ""
        if name == "robots" and len(page.robots) < _MAX_ROBOTS:
            page.robots.append(content)
        page.nofollow = page.nofollow or forbids("nofollow", [content], robot)
        page.noindex = page.noindex or forbids("noindex", [content], robot)


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


def text_blocks(body: bytes, content_type: str = "") -> list[str]:
    """Return the visible text of an HTML page in the blocks that its elements make of it.

    That is what stands between two tags that do more than mark words within a text. For arbitrary
    bytes; takes as long as `parse_page` with its text.
    """
    html, _ = decoded(body, content_type)
    texts: list[str] = []
    for part in pieces(html)[0]:
        tree = LexborHTMLParser(part, options=_WITHOUT_EVENTS)
        source = (part.encode("utf-8", "replace") if isinstance(part, str) else part).lower()
        texts += _visible_text(tree, source, False, "\x1f").split("\x1f")
    return [" ".join(words) for words in map(str.split, texts) if words]


def _visible_text(
    tree: LexborHTMLParser, source: bytes, without_navigation: bool, separator: str = " "
) -> str:
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
    for node in [node for node in body.traverse() if node.tag_id in _WITHIN_TEXT]:
        node.unwrap(delete_empty=True)
    body.merge_text_nodes()
    return body.text(separator=separator)
