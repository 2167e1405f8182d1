"""Resolution of `href` values, anchor texts and titles, from a page that lxml has parsed.

For a page of 35 kB this takes 0.2 ms; parsing it again with `crawlprio.web.html` would take 1.5 ms
and need compiled code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import can_ada

from crawlprio.web.encodings import percent_encode
from crawlprio.web.urls import MAX_URL_LENGTH, is_origin, normal_form, parse_url

MAX_ANCHOR_LENGTH = 500
"""Length in characters to which anchor texts and titles are truncated."""

_ASCII = bytes(range(128))
_SPACED = bytes(at if at > 127 or chr(at).isalnum() else 32 for at in range(256))
"""Bytes of UTF-8 with a space for all of ASCII that is neither letter nor digit."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]+")


def squeeze(text: str) -> str:
    """Normalise white space and truncate."""
    return " ".join(text.split())[:MAX_ANCHOR_LENGTH].rstrip()


def printable(text: str) -> str:
    """Remove control characters and bidirectional formatting characters."""
    return text if text.isprintable() else " ".join(_CONTROLS.sub(" ", text).split())


def words_of(text: str) -> list[str]:
    """Return the words of a text, case-folded: its longest runs of letters and digits.

    As the regular expression `[^\\W_]+` finds them, in half of the time.
    """
    encoded = text.casefold().encode("utf-8", "replace")
    for char in set(encoded.translate(None, _ASCII).decode()):
        if not char.isalnum():
            encoded = encoded.replace(char.encode(), b" ")
    return encoded.translate(_SPACED).decode().split()


_SCHEME = re.compile(r"[\x00-\x20]*([a-z][a-z0-9+.\-]*):", re.IGNORECASE)
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_PLAIN = re.compile(
    # Values that the URL parser leaves unchanged, except for the host: no dot precedes a slash, a
    # dot or the end of the path, so that no segment is "." or "..", and no query is empty.
    r"(?:(https?://[a-z0-9.-]++(?::[0-9]++)?)(?=/)|(?!//))(?=[^?])"
    r"[A-Za-z0-9/_~-]*+(?:\.[A-Za-z0-9_~-][A-Za-z0-9/_~-]*+)*+"
    r"(?:\?[A-Za-z0-9/._~=&+%:;,-]++)?"
).fullmatch


@dataclass(slots=True)
class ParsedPage:
    """The links, title, text and robots directives of an HTML page.

    The URLs of the links are distinct, normalised, in page order, without the page itself; anchor
    texts and `nofollows` are parallel to them. The latter are true if every link of the page to the
    URL has the token `nofollow` in `rel`; `ugc` and `sponsored` alone do not count. The title is
    the first `title` of HTML, normalised and truncated at `MAX_ANCHOR_LENGTH`. `nofollow` and
    `noindex` say whether a `meta name=robots`, or one with the name of the robot that reads, has
    that word, or `none`, and `robots` has what each `meta name=robots` says, word for word. Text,
    `language` (the `lang` of `html`) and `licences` (the URLs of links with `rel=license`) are
    empty unless requested. `n_dropped` counts the distinct `href` values whose URL exceeds
    `MAX_URL_LENGTH`. `cut` says why part of the page was not read: `attributes` or `tags` (see
    `crawlprio.web.html_splitter`), or `links` beyond `MAX_LINKS` or `MAX_LINK_CHARACTERS`.
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


class Resolver:
    """Resolves the `href` values of one page against `base`, if there is one.

    Queries are percent-encoded in `encoding`; if that is empty, `find_encoding` is asked for the
    encoding that the page declares when a query needs it. `n_dropped` counts the values so far
    whose URL exceeds `MAX_URL_LENGTH`.
    """

    __slots__ = ("_base", "_directory", "_encoding", "_find_encoding", "_origin", "n_dropped")

    def __init__(
        self, base: can_ada.URL | None, encoding: str, find_encoding: Callable[[], str | None]
    ) -> None:
        self._base = base
        self._directory = _directory(base)
        self._origin = self._directory[: self._directory.find("/", 8)]
        self._encoding = encoding
        self._find_encoding = find_encoding
        self.n_dropped = 0

    def resolve(self, href: str) -> str | None:
        """Return the URL of an `href` without fragment, or None."""
        plain = _PLAIN(href)
        if plain is not None:
            origin = plain[1]
            if origin is None:
                url = (self._origin if href[0] == "/" else self._directory) + href
                if self._directory and len(url) <= MAX_URL_LENGTH:
                    return url
            elif len(href) <= MAX_URL_LENGTH and is_origin(origin):
                return href
        return self._parse(href)

    def _parse(self, href: str) -> str | None:
        """Resolve an arbitrary `href`, at three times the cost of the fast path."""
        if len(href) > MAX_URL_LENGTH:
            scheme = _SCHEME.match(href)
            self.n_dropped += scheme is None or scheme[1].lower() in ("http", "https")
            return None
        if not href.isascii():
            href = self._encode_query(href)
        try:
            parsed = can_ada.parse(href) if self._base is None else self._base + href
        except (ValueError, TypeError):
            return None
        url = normal_form(parsed.href)
        if url is not None and len(url) > MAX_URL_LENGTH:
            self.n_dropped += 1
            return None
        return url

    def _encode_query(self, href: str) -> str:
        """Percent-encode the non-ASCII part of a query in the encoding of the page."""
        path, mark, query = href.partition("?")
        if query.isascii():
            return href
        if not self._encoding:
            self._encoding = self._find_encoding() or "utf-8"
        encoding = self._encoding
        return path + mark + _NON_ASCII.sub(lambda run: percent_encode(run[0], encoding), query)


def _directory(base: can_ada.URL | None) -> str:
    """Return the prefix that resolves a plain relative `href`; empty without a base."""
    url = None if base is None else normal_form(base.href.partition("#")[0].partition("?")[0])
    return "" if url is None else url[: url.rindex("/") + 1]


def rebase(base: can_ada.URL | None, href: str) -> can_ada.URL | None:
    """Return the base URL set by a `base` element, or the previous base if it is invalid."""
    try:
        rebased = can_ada.parse(href) if base is None else base + href
    except (ValueError, TypeError):
        return base
    return base if rebased.protocol in ("data:", "javascript:") else rebased


_MAX_TEXTS = 200
_HTML_WITHIN = {
    "svg": frozenset(("foreignobject", "desc", "title")),
    "math": frozenset(("mi", "mo", "mn", "ms", "mtext")),
}
"""By root of another language: elements inside which HTML begins again."""


def is_remote(names_above: Iterable[str]) -> bool:
    """Return whether an element is one of SVG or MathML, by the names around it, nearest first."""
    below: set[str] = set()
    for name in islice(names_above, _MAX_TEXTS):
        if name in _HTML_WITHIN:
            return below.isdisjoint(_HTML_WITHIN[name])
        below.add(name)
    return False


def _html_elements(root: Any, name: str) -> Iterator[Any]:
    """Yield the elements with a name that are not of SVG or MathML, in page order."""
    for element in islice(root.iter(name), _MAX_TEXTS):
        if not is_remote(above.tag for above in element.iterancestors()):
            yield element


def read_title(root: Any) -> str:
    """Return the normalised, truncated text of the first `title`, or an empty string."""
    title = next(_html_elements(root, "title"), None)
    return "" if title is None else printable(squeeze(_text(title)))


def read_robots(root: Any) -> list[str]:
    """Return the content of each `meta name=robots`, word for word."""
    return [
        element.get("content", "")
        for element in islice(root.iter("meta"), _MAX_TEXTS)
        if element.get("name", "").strip().lower() == "robots"
    ]


def read_anchors(root: Any, url: str, encoding: str, wanted: Collection[str]) -> dict[str, str]:
    """Return the anchor texts of a page's links to the wanted URLs, as `parse_page` does.

    If several links lead to the same URL, the first non-empty text counts. An anchor text is the
    text inside the link, or else the `alt` of the first image in it that has one, or else its own
    `alt` or `title`. `root` is the page as an lxml element. The wanted URLs are without fragment,
    as `parse_page` writes them; links to others are ignored.
    """
    base = parse_url(url)
    for element in _html_elements(root, "base"):
        if "href" in element.attrib:
            base = rebase(base, element.get("href"))
            break
    resolve = Resolver(base, encoding, lambda: encoding).resolve
    texts: dict[str, str] = {}
    targets: dict[str, str | None] = {}
    for link in root.iter("a", "area"):
        href = link.get("href")
        if not href:
            continue
        href = href.partition("#")[0]
        if href in targets:
            target = targets[href]
        else:
            target = targets[href] = resolve(href)
        if target is not None and target in wanted and not texts.get(target):
            texts[target] = printable(squeeze(_text(link)) or _text_instead(link))
    return texts


def _text(element: Any) -> str:
    """Return the text inside an element, up to a limit, without comments."""
    if len(element) == 0:
        return element.text or ""
    return "".join(islice(element.itertext(), _MAX_TEXTS))


def _text_instead(link: Any) -> str:
    """Return the anchor text of a link without text: the `alt` of an image, or an attribute."""
    for image in link.iter("img"):
        alt = squeeze(image.get("alt", ""))
        if alt:
            return alt
    return squeeze(link.get("alt") or link.get("title") or "")
