"""Resolution of `href` values to URLs, as in browsers."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from urllib.parse import quote_from_bytes

import can_ada

from crawlprio.web.urls import MAX_URL_LENGTH, is_origin, normal_form

_SCHEME = re.compile(r"[\x00-\x20]*([a-z][a-z0-9+.\-]*):", re.IGNORECASE)
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_PLAIN = re.compile(
    # Values that the URL parser leaves unchanged, except for the host: no dot precedes a slash, a
    # dot or the end of the path, so that no segment is "." or "..", and no query is empty.
    r"(?:(https?://[a-z0-9.-]++(?::[0-9]++)?)(?=/)|(?!//))(?=[^?])"
    r"[A-Za-z0-9/_~-]*+(?:\.[A-Za-z0-9_~-][A-Za-z0-9/_~-]*+)*+"
    r"(?:\?[A-Za-z0-9/._~=&+%:;,-]++)?"
).fullmatch
_SAFE_AFTER_ENCODING = "!$%&()*+,/:;=?@[\\]^`{|}~"


def _write_reference(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace characters that an encoding lacks by percent-encoded character references."""
    assert isinstance(error, UnicodeEncodeError)
    unwritable = error.object[error.start : error.end]
    if error.encoding == "charmap" and "\x80" <= min(unwritable) <= max(unwritable) <= "\x9f":
        return unwritable.encode("latin-1"), error.end
    return "".join(f"%26%23{ord(char)}%3B" for char in unwritable), error.end


codecs.register_error("crawlprio.reference", _write_reference)


class Resolver:
    """Resolves the `href` values of one page.

    Parameters
    ----------
    base
        URL against which relative links are resolved; None if there is none.
    encoding
        Encoding of the page, in which queries are percent-encoded; empty: call `find_encoding` when
        a query needs it.
    find_encoding
        Returns the encoding that the page declares, or None.

    Attributes
    ----------
    n_dropped
        Number of values so far whose URL exceeds `MAX_URL_LENGTH`.
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
        encoding = "utf-8" if self._encoding.startswith("utf-") else self._encoding
        return path + mark + _NON_ASCII.sub(lambda run: _percent_encode(run[0], encoding), query)


def _percent_encode(text: str, encoding: str) -> str:
    """Percent-encode non-ASCII text in an encoding, as the URL standard does in a query."""
    return quote_from_bytes(text.encode(encoding, "crawlprio.reference"), safe=_SAFE_AFTER_ENCODING)


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
