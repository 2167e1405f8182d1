"""What a page or a style sheet needs to look like itself: images, styles, scripts, icons, fonts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawlprio.web.encodings import declared_encoding, decoded
from crawlprio.web.hrefs import Resolver, rebase
from crawlprio.web.pieces import SMALL, pieces
from crawlprio.web.urls import parse_url

MAX_STYLE = 1_000_000
"""Maximum number of characters read of a style sheet, or of all styles inside a page; reading them
takes some 1 s."""

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
_CANDIDATE = re.compile(r"[\s,]*+(\S+)").match
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?)*+,?").match


def requisites_of_page(body: bytes, url: str, content_type: str = "") -> list[str]:
    """Return the URLs of what an HTML page shows or runs, styles and scripts first; never raises.

    These are the images of `img`, `picture` and SVG (each candidate of a `srcset`), of `poster` and
    `background`; style sheets, icons and preloads; scripts; and what the styles inside the page
    import and name. Frames, sound and video are left out. URLs are resolved as in browsers; only
    http and https are kept.

    Parameters
    ----------
    body, url, content_type
        as for `crawlprio.web.html.parse_page`.

    Notes
    -----
    Cost: about that of `parse_page`.
    """
    html, encoding = decoded(body, content_type)
    parts: Sequence[bytes | str] = (html,) if len(html) <= SMALL else pieces(html)[0]
    base, has_base = parse_url(url), False
    sheets: list[str] = []
    shown: list[str] = []
    room = MAX_STYLE
    for part in parts:
        tree = LexborHTMLParser(part)
        for node in [] if has_base else tree.css("base[href]")[:1]:
            has_base = True
            base = rebase(base, node.attributes.get("href") or "")
        for node in tree.css(_NAMING):
            attributes = node.attributes
            (sheets if node.tag in ("link", "script") else shown).extend(_named_by(node))
            style = node.text() if node.tag == "style" else attributes.get("style") or ""
            if style and _USES_URL(style):
                sheets += _named_in_style(style[:room])
                room -= min(len(style), room)
    resolver = Resolver(base, encoding, partial(declared_encoding, body, content_type))
    return _resolved(resolver, [*sheets, *shown])


def requisites_of_style(body: bytes, url: str, content_type: str = "") -> list[str]:
    """Return the URLs that a style sheet imports or names, resolved against its own; never raises.

    The package tinycss2 must be installed.
    """
    from tinycss2.bytes import decode_stylesheet_bytes

    declared = declared_encoding(b"", content_type)
    text, _ = decode_stylesheet_bytes(body, declared)
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
    """Yield what `@import`, `url()` and `image-set()` name, but no name space."""
    from tinycss2 import parse_component_value_list

    todo: list[Any] = parse_component_value_list(style, skip_comments=True)[::-1]
    rule = ""
    while todo:
        token = todo.pop()
        kind = token.type
        if kind == "at-keyword":
            rule = token.lower_value
        elif kind == "{} block" or (kind == "literal" and token.value == ";"):
            rule = ""
        elif kind == "url" or (kind == "string" and rule == "import"):
            if rule != "namespace":
                yield token.value
            rule = "" if rule == "import" else rule
        elif kind == "function" and rule != "namespace":
            strings = [inner.value for inner in token.arguments if inner.type == "string"]
            if token.lower_name in ("url", "src"):
                yield from strings[:1]
                rule = "" if rule == "import" else rule
            elif token.lower_name.endswith("image-set"):
                yield from strings
            todo += token.arguments[::-1]
        if kind.endswith(" block"):
            todo += token.content[::-1]


def _resolved(resolver: Resolver, named: Iterable[str]) -> list[str]:
    """Return distinct URLs, in order, without fragments."""
    values = (value.strip().partition("#")[0] for value in named)
    urls = (resolver.resolve(value) for value in dict.fromkeys(values) if value)
    return list(dict.fromkeys(filter(None, urls)))
