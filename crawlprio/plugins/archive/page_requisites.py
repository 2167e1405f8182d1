"""What a page or a style sheet needs to look like itself: images, styles, scripts, icons, fonts."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawlprio.web.anchors import Resolver, rebase
from crawlprio.web.html import declared_encoding, decoded
from crawlprio.web.pieces import pieces
from crawlprio.web.urls import parse_url

MAX_STYLE = 1_000_000
"""Maximum number of characters read of a style sheet, or of all styles inside a page."""

MAX_TOKENS = 200_000
"""Maximum number of strings, functions, rules and the like that are read of one style."""

MAX_NAMES = 5_000
"""Maximum number of URLs, distinct as they are written, taken from a page or style sheet."""

_MAX_DEPTH = 64
_NAMING = (
    "img,source[srcset],input[src],link[href],script[src],style,[style],video[poster],image,use,"
    "[background]"
)
_LINKS = frozenset(
    ("stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon")
)
_PRELOADS = frozenset(("preload", "modulepreload"))
_PRELOADED = frozenset((None, "", "style", "script", "font", "image"))
_USES_URL = re.compile(r"url\(|@import|image-set\(", re.IGNORECASE).search
_CHARSET = re.compile(rb'@charset "([^"]{1,40})";').match
_TOKENS = re.compile(
    # The tokens of CSS Syntax that matter here. Each alternative that begins to match either
    # matches or ends where the next may begin, so the time is linear in the length.
    r"/\*.*?(?:\*/|\Z)"
    r"|\"(?P<double>(?:\\.|[^\\\n\"])*+)(?:[\"\n\\]|\Z)"
    r"|'(?P<single>(?:\\.|[^\\\n'])*+)(?:['\n\\]|\Z)"
    r"|(?<![\w-])url\(\s*+(?P<url>(?:\\(?:[0-9a-f]{1,6}\s?|.)|[^\\\"'()\s])++)\s*+\)"
    r"|@(?P<rule>[\w-]++)"
    r"|(?<![\w-])(?P<function>[\w-]*+)\("
    r"|(?P<end>[){};])",
    re.DOTALL | re.IGNORECASE,
).finditer
_ESCAPES = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|\n|(.))", re.DOTALL)
_CANDIDATE = re.compile(r"[\s,]*+(\S+)").match
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?)*+,?").match


def requisites_of_page(body: bytes, url: str, content_type: str = "") -> list[str]:
    """Return the URLs of what an HTML page shows or runs, styles and scripts first; never raises.

    These are the images of `img`, `picture` and SVG (each candidate of a `srcset`), of `poster` and
    `background`; style sheets, icons and preloads; scripts; and what the styles inside the page
    import and name. Frames, sound and video are left out. URLs are resolved as in browsers; only
    http and https are kept. Arguments and cost are about those of `parse_page`.
    """
    html, encoding = decoded(body, content_type)
    base, has_base = parse_url(url), False
    sheets: list[str] = []
    shown: list[str] = []
    room = MAX_STYLE
    for part in pieces(html)[0]:
        tree = LexborHTMLParser(part)
        for node in [] if has_base else tree.css("base[href]")[:1]:
            has_base = True
            base = rebase(base, node.attributes.get("href") or "")
        for node in tree.css(_NAMING):
            if len(sheets) + len(shown) > 2 * MAX_NAMES:
                break
            attributes = node.attributes
            (sheets if node.tag in ("link", "script") else shown).extend(
                filter(None, _named_by(node))
            )
            style = node.text() if node.tag == "style" else attributes.get("style") or ""
            if style and _USES_URL(style):
                sheets += islice(_named_in_style(style[:room]), MAX_NAMES)
                room -= min(len(style), room)
    resolver = Resolver(base, encoding, partial(declared_encoding, body, content_type))
    return _resolved(resolver, [*sheets, *shown])


def requisites_of_style(body: bytes, url: str, content_type: str = "") -> list[str]:
    """Return the URLs that a style sheet imports or names, resolved against its own; never raises.

    Its encoding is that of its byte-order mark, its header or its `@charset`; otherwise UTF-8.
    """
    own = _CHARSET(body)
    label = f"charset={own[1].decode('latin-1')}" if own else ""
    encoding = declared_encoding(body[:4], content_type) or declared_encoding(b"", label)
    text = body[: 4 * MAX_STYLE].decode(encoding or "utf-8", "replace")
    return _resolved(_resolver(url), _named_in_style(text[:MAX_STYLE]))


def target_of_redirect(location: str, url: str) -> list[str]:
    """Return the URL that a Location header leads to from a URL; nothing if it is not http(s)."""
    return _resolved(_resolver(url), [location])


def _resolver(url: str) -> Resolver:
    return Resolver(parse_url(url), "utf-8", lambda: None)


def _named_by(node: LexborNode) -> Iterator[str]:
    """Yield the values of an element's attributes that are URLs of requisites."""
    tag, attributes = node.tag, node.attributes
    if tag == "link":
        rels = set((attributes.get("rel") or "").lower().split())
        is_loaded = rels & _PRELOADS and attributes.get("as") in _PRELOADED
        if rels & _LINKS or is_loaded:
            yield attributes.get("href") or ""
            yield from _candidates(attributes.get("imagesrcset") or "")
        return
    if tag in ("img", "input", "script"):
        yield attributes.get("src") or ""
    if tag in ("img", "source"):
        yield from _candidates(attributes.get("srcset") or "")
    if tag in ("image", "use"):
        yield attributes.get("href") or attributes.get("xlink:href") or ""
    if tag == "video":
        yield attributes.get("poster") or ""
    yield attributes.get("background") or ""


def _candidates(srcset: str) -> Iterator[str]:
    """Yield the URLs of a `srcset`, split as the HTML standard does."""
    at = 0
    while found := _CANDIDATE(srcset, at):
        url, at = found[1], found.end()
        if not url.endswith(","):
            descriptors = _DESCRIPTORS(srcset, at)
            at = at if descriptors is None else descriptors.end()
        yield url.rstrip(",")


def _named_in_style(style: str) -> Iterator[str]:
    """Yield what `@import`, `url()` and `image-set()` name, but no name space.

    A list of tokens would take 258 MB for a million characters; this keeps no more than the
    innermost open functions.
    """
    rule, functions = "", deque[str](maxlen=_MAX_DEPTH)
    for token in islice(_TOKENS(style), MAX_TOKENS):
        kind, text = token.lastgroup, token[token.lastgroup or 0]
        if kind == "rule":
            rule = text.lower()
            functions.clear()
        elif kind == "function":
            functions.append(text.lower())
        elif text == ")":
            if functions:
                functions.pop()
        elif kind == "end":
            rule = ""
            functions.clear()
        elif kind is not None and rule != "namespace":
            inside = functions[-1] if functions else rule
            if kind == "url" or inside in ("url", "src", "import") or inside.endswith("image-set"):
                yield _ESCAPES.sub(_unescaped, text)
                rule = "" if rule == "import" else rule


def _unescaped(found: re.Match[str]) -> str:
    """Return the character of an escape of CSS; nothing for one that joins two lines."""
    if not found[1]:
        return found[2] or ""
    code = int(found[1], 16)
    is_valid = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_valid else "\ufffd"


def _resolved(resolver: Resolver, named: Iterable[str]) -> list[str]:
    """Return distinct URLs, in order, without fragments."""
    values: dict[str, None] = {}
    for value in named:
        values[value.strip().partition("#")[0]] = None
        if len(values) >= MAX_NAMES:
            break
    urls = (resolver.resolve(value) for value in values if value)
    return list(dict.fromkeys(filter(None, urls)))
