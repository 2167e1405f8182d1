"""Parsing entries of the visit stream, which `learning.lua` and `wire.record` write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.items import NO_DIRECTIVES, Directives, TextNotes


class StreamedVisit(NamedTuple):
    """A visit, or the discovery of seeds, and the items of the page."""

    visit: Visit
    items: list[str]


def add_pages(entry: Mapping[str, str], pages: PageTable) -> None:
    """Add an entry's new pages to a page table that has all earlier ones."""
    if "f" not in entry:
        return
    identities = dict(json.loads(entry["k"]))
    assert int(entry["f"]) == len(pages), "pages come in their order"
    depth = int(float(entry["d"]))
    sites = json.loads(entry["s"])
    for at, (url, host) in enumerate(zip(json.loads(entry["u"]), sites, strict=True)):
        pages.add(identities.get(at, url), url, pages.site(host), depth)


def read_visit(entry: Mapping[str, str]) -> StreamedVisit | None:
    """Return the visit or seeds of an entry; None if it only adds pages."""
    if "p" not in entry:
        if "e" not in entry:
            return None
        seeds = np.array(json.loads(entry["e"]), dtype=np.int32)
        return StreamedVisit(Visit(NO_PAGE, seeds), [])
    found = [int(target) for target in json.loads(entry["t"])]
    return visit_of(
        int(entry["p"]), found, json.loads(entry["v"]), json.loads(entry.get("o", "[]"))
    )


def visit_of(
    page: int, found: list[int], stored: list[Any], refused: list[tuple[int, str]]
) -> StreamedVisit:
    """Return a visit from the parts of a stream entry.

    Parameters
    ----------
    page, found
        The page, and the target of each link: first the followed links, then the others.
    stored
        The list that `wire.record` wrote.
    refused
        Position and URL of each link that a budget refused.
    """
    status, title, n_bytes, content_hash, fetched_at, elapsed, error = stored[:7]
    anchors, outside, text, items = stored[7:11]
    is_asked = len(stored) > 12 and any(stored[12])
    directives = Directives(*stored[12]) if is_asked else NO_DIRECTIVES
    n_followed = len(found) - len(outside)
    texts = (anchors or [""] * n_followed) + [anchor for _, anchor in outside]
    first_at: dict[int, int] = {}
    for at, target in enumerate(found):
        if target not in (NO_PAGE, page):
            first_at.setdefault(target, at)
    rest = [
        (url, anchor)
        for (url, anchor), target in zip(outside, found[n_followed:], strict=True)
        if target == NO_PAGE
    ]
    rest += [(url, texts[at]) for at, url in refused]
    has_anchors = bool(anchors) or any(at >= n_followed for at in first_at.values())
    visit = Visit(
        page=page,
        targets=np.array(list(first_at), dtype=np.int32),
        anchors=[texts[at] for at in first_at.values()] if has_anchors else [],
        status=status,
        title=title,
        text=text,
        outside=rest,
        fetched_at=fetched_at,
        elapsed=elapsed,
        n_bytes=n_bytes,
        content_hash=int(content_hash),
        error=error,
        directives=directives,
        value=stored[13] if len(stored) > 13 else None,
        notes=TextNotes(*stored[14]) if len(stored) > 14 else None,
    )
    return StreamedVisit(visit, items)
