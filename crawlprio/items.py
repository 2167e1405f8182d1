"""The item that a spider yields for each page."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import NamedTuple


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


@dataclass(slots=True)
class LinkPairs:
    """A fetched page and all its links: the pairs (source, target), in page order.

    Yield one per page. The scheduler takes the links from it in bulk, and `LinkPairPipeline`
    records it in the crawl store.

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
        Fingerprint of the text, close for near-duplicates; 0 without CRAWLPRIO_NOVELTY.
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
    directives: Directives = NO_DIRECTIVES
    value: float | None = None
    notes: TextNotes | None = None
    fingerprint: int = 0


def content_hash(body: bytes) -> int:
    """Return a 64-bit signed hash of the body of a page."""
    return int.from_bytes(hashlib.blake2b(body, digest_size=8).digest(), "big", signed=True)
