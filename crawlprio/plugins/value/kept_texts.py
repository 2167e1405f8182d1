"""The texts that a crawl kept, each once, with those that repeat others."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crawlprio.extras import require
from crawlprio.graph.pages import NO_PAGE, PageIds
from crawlprio.items import content_hash
from crawlprio.plugins.value.fingerprints import NEAR, Seen, fingerprints
from crawlprio.safe_files import open_file
from crawlprio.store import Store
from crawlprio.store.files import store_errors
from crawlprio.store.side_tables import DIRECTIVES, NOTES, VALUES

_BESIDE = VALUES, NOTES, DIRECTIVES


def first_pages(texts: Iterable[tuple[int, bytes]]) -> PageIds:
    """Return, for each text in UTF-8, the page whose text it repeats; `NO_PAGE` for a first one.

    A text repeats another if the fingerprints of their runs of four words differ in at most three
    of 64 bits (`plugins.value.fingerprints`). Texts of fewer than 20 words must be equal but for
    case. 0.2 ms per 430 words; some 80 bytes of memory per text.
    """
    require("rensa", "texts", "The search for near-duplicates")
    fingerprint, seen = fingerprints(NEAR), Seen(NEAR)
    found = array("i")
    for page, text in texts:
        folded = text.decode().casefold()
        first = seen.add(fingerprint(folded, content_hash(folded.encode())), page)
        found.append(NO_PAGE if first == page else first)
    return np.array(found, dtype=np.int32)


class KeptText(NamedTuple):
    """A page with its text, its `TextNotes` and `Directives`; None where nothing is known.

    `value` is from 0 to 1, by the crawl's value model. `near_duplicate_of` is the URL of the first
    page whose text is the same or nearly, None for that one itself. `fetched_at` counts
    microseconds since 1970, UTC.
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
    """
    with store_errors(store.path), store.snapshot():
        firsts = first_pages(store.text_bytes()).tolist()
        for row, first in zip(store.texts(_BESIDE), firsts, strict=True):
            (value,), notes, asked = (
                row.extras.get(table.name, (None,) * len(table.types)) for table in _BESIDE
            )
            language, declared, licence = (note or None for note in notes)
            (url, _), *repeated = store.read_urls([row.page, first][: 1 + (first != NO_PAGE)])
            repeats = repeated[0][0] if repeated else None
            about = (url, row.title, row.text, language, declared, value, repeats, licence)
            asks = (word or None for word in asked)
            yield KeptText._make((*about, *asks, round(row.fetched_at * 1e6)))


def write_json_lines(store: Store, path: Path) -> int:
    """Write each page as one line of JSON; return how many there are."""
    n_pages = 0
    with store_errors(store.path), open_file(path, "w", encoding="utf-8", newline="\n") as file:
        for kept in kept_texts(store):
            at = datetime.fromtimestamp(kept.fetched_at / 1e6, UTC)
            row = kept._asdict() | {"fetched_at": at.isoformat(timespec="milliseconds")}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            n_pages += 1
    return n_pages
