"""The pages of a crawl with their texts, each once, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from crawlprio.pages import NO_PAGE
from crawlprio.store import Store
from crawlprio.texts.duplicates import first_pages


class KeptText(NamedTuple):
    """A page with its text; None where nothing is known.

    Attributes
    ----------
    language, declared_language, licence
        As in `crawlprio.items.TextNotes`.
    value
        From 0 to 1, by the crawl's value model.
    near_duplicate_of
        The URL of the first page whose text is the same or nearly; None for that one itself.
    x_robots_tag, meta_robots, content_usage, robots_usage
        As in `crawlprio.items.Directives`.
    fetched_at
        Microseconds since 1970, UTC.
    """

    url: str
    title: str
    text: str
    language: str | None
    declared_language: str | None
    value: float | None
    near_duplicate_of: str | None
    licence: str | None
    x_robots_tag: str | None
    meta_robots: str | None
    content_usage: str | None
    robots_usage: str | None
    fetched_at: int


def kept_texts(store: Store) -> Iterator[KeptText]:
    """Yield each page whose text is in a store, by its last visit, in the order of these visits.

    It is one snapshot, even beside a running crawl. Memory holds one text and some 80 bytes a page.

    Raises
    ------
    StoreError
        The store is damaged.
    ConfigError
        The package that finds near-duplicates is missing.
    """
    with store.snapshot():
        firsts = first_pages(store.text_bytes()).tolist()
        for row, first in zip(store.texts(), firsts, strict=True):
            notes, asked = row.notes, row.directives
            yield KeptText(
                row.url,
                row.title,
                row.text,
                notes.language or None,
                notes.declared_language or None,
                row.value,
                None if first == NO_PAGE else store.read_urls([first])[0][0],
                notes.licence or None,
                asked.x_robots_tag or None,
                asked.meta_robots or None,
                asked.content_usage or None,
                asked.robots_usage or None,
                round(row.fetched_at * 1e6),
            )


def write_json_lines(store: Store, path: Path) -> int:
    """Write each page as one line of JSON; return how many there are."""
    n_pages = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for kept in kept_texts(store):
            at = datetime.fromtimestamp(kept.fetched_at / 1e6, UTC)
            row = kept._asdict() | {"fetched_at": at.isoformat(timespec="milliseconds")}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            n_pages += 1
    return n_pages
