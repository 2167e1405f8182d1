"""Title and anchor texts of a page that lxml has already parsed for another component.

For a page of 35 kB this takes 0.2 ms; parsing it again with `crawlprio.web.html` would take 1.5 ms
and need compiled code.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Any

from crawlprio.web.hrefs import Resolver, rebase
from crawlprio.web.texts import printable, squeeze
from crawlprio.web.urls import parse_url

_MAX_TEXTS = 200


def read_title(root: Any) -> str:
    """Return the normalised, truncated text of the first `title`, or an empty string."""
    for title in root.iter("title"):
        return printable(squeeze(_text(title)))
    return ""


def read_robots(root: Any) -> list[str]:
    """Return what each `meta name=robots` says, word for word."""
    return [
        element.get("content", "")
        for element in islice(root.iter("meta"), _MAX_TEXTS)
        if element.get("name", "").strip().lower() == "robots"
    ]


def read_anchors(root: Any, url: str, encoding: str, wanted: Collection[str]) -> dict[str, str]:
    """Return the anchor texts of a page's links to the wanted URLs, as `parse_page` does.

    If several links lead to the same URL, the first non-empty text counts. An anchor text is the
    text inside the link, or else the `alt` of the first image in it that has one, or else its own
    `alt` or `title`.

    Parameters
    ----------
    root
        The root of the page, an lxml element.
    url, encoding
        URL and encoding of the page.
    wanted
        URLs without fragment, as written by `parse_page`; links to other URLs are ignored.
    """
    base = parse_url(url)
    for element in root.iter("base"):
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
