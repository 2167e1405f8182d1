"""The item that a spider yields for each page."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

Extras = dict[str, tuple[Any, ...]]
"""What is known of a fetched page besides the evidence for its order: rows by side table, each
without the number and the page of its visit."""


class Directives(NamedTuple):
    """What a page asks of robots, word for word; several headers or elements are joined by ", ".

    `x_robots_tag` and `content_usage`: the response headers of these names. `meta_robots`: the
    `content` of `meta name=robots`. `robots_usage`: the preferences of the robots.txt that apply to
    the page.
    """

    x_robots_tag: str = ""
    meta_robots: str = ""
    content_usage: str = ""
    robots_usage: str = ""


NO_DIRECTIVES = Directives()


class TextNotes(NamedTuple):
    """What is known of the text of a page, where texts are kept.

    `language`: the detected language, as ISO 639 writes it (`de`); empty: there is too little text.
    `declared_language`: the `lang` of the element `html`, word for word. `licence`: the URLs of the
    links with `rel=license`, joined by a comma and a space.
    """

    language: str = ""
    declared_language: str = ""
    licence: str = ""


class _Extra:
    """An attribute of `LinkPairs` that is a row of its `extras`; without a row it is `absent`."""

    def __init__(self, table: str, absent: object, make: Callable[[Any], object]) -> None:
        self._table, self._absent, self._make = table, absent, make

    def __get__(self, pairs: LinkPairs | None, owner: type) -> object:
        row = None if pairs is None else pairs.extras.get(self._table)
        return self._absent if row is None else self._make(row)

    def __set__(self, pairs: LinkPairs, value: object) -> None:
        if value is self._absent and "extras" not in pairs.__dict__:
            return
        if value != self._absent:
            pairs.extras[self._table] = value if isinstance(value, tuple) else (value,)
        else:
            pairs.extras.pop(self._table, None)


_DIRECTIVES: Any = _Extra("directives", NO_DIRECTIVES, Directives._make)
_VALUE: Any = _Extra("page_values", None, itemgetter(0))
_NOTES: Any = _Extra("text_notes", None, TextNotes._make)
_FINGERPRINT: Any = _Extra("fingerprints", 0, itemgetter(0))


@dataclass
class LinkPairs:
    """A fetched page and all its links: the pairs (source, target), in page order.

    Yield one per page. The scheduler takes the links from it in bulk, and `LinkPairPipeline`
    records it in the crawl store.

    Besides its fields it has `extras`: all rows that are stored beside the visit of the page, by
    the side tables that parts of the crawl declare. The last four fields are such rows.

    Parameters
    ----------
    source
        URL of the page that was fetched.
    targets
        URLs of the links that the crawl may follow: distinct, in page order, without `source`.
    anchors
        Anchor text of each target, as long as `targets`, or empty if not needed.
    outside
        `(url, anchor text)` of the links that the crawl does not follow: out of scope, nofollow or
        too deep. No page is fetched for them; those that lead to known pages are links of the graph
        like `targets`.
    status
        HTTP status of the response.
    title, text
        Title and visible text of the page; `text` is filled only if a topic or a value model
        needs it, or texts are kept.
    content_hash
        `content_hash` of the body; 0 when not computed. Equal hashes mean identical pages.
    n_bytes
        Length of the body in bytes.
    directives
        What the page and its server ask of those who use it.
    value
        What the page is worth by the crawl's value model, from 0 to 1; None if it was not scored.
    notes
        What is known of the text; None unless texts are kept.
    fingerprint
        Fingerprint of the text, close for near-duplicates; 0 unless the crawl puts off repeats.
    """

    source: str
    targets: list[str]
    anchors: list[str] = field(default_factory=list)
    outside: list[tuple[str, str]] = field(default_factory=list)
    status: int = 200
    title: str = ""
    text: str = ""
    content_hash: int = 0
    n_bytes: int = 0
    directives: Directives = _DIRECTIVES
    value: float | None = _VALUE
    notes: TextNotes | None = _NOTES
    fingerprint: int = _FINGERPRINT

    @cached_property
    def extras(self) -> Extras:
        """The rows of the page in side tables."""
        return {}


def content_hash(body: bytes) -> int:
    """Return a 64-bit signed hash of the body of a page."""
    return int.from_bytes(hashlib.blake2b(body, digest_size=8).digest(), "big", signed=True)
