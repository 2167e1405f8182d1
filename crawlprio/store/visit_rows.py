"""Visits as rows of a crawl store, one by one or as columns, and the side tables of visits.

A link that was outside when its page was visited stays in `outside`, because it was not evidence at
that time. If its target became known later, reading the graph of a crawl finds that by URL. For SQL
queries, the table `late_links` lists these links; it is filled when a run ends cleanly. Crawlprio
does not read that table, which anyone may have written.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageIds, PageTable, Visit
from crawlprio.store.outcomes import waits_again
from crawlprio.store.schema import CURRENT
from crawlprio.store.side_tables import SideTable
from crawlprio.web.urls import canonical, host_if_any

MAX_TEXT = 100_000
"""Maximum number of characters stored of a page's text; the rest is cut off."""

VISIT_COLUMNS = (
    "page, status, fetched_at, elapsed, n_bytes, content_hash, targets, anchors, outside, title, "
    "text, error"
)

_MAX_ENCODED = 4 * MAX_TEXT
"""Maximum number of bytes of that text in UTF-8."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_decode = json.JSONDecoder().raw_decode  # json.loads takes half as long again
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def visit_row(visit: Visit) -> tuple[Any, ...]:
    """Return the values of `VISIT_COLUMNS` for a visit."""
    text = storable(visit.text[:MAX_TEXT]).encode() if visit.text else b""
    return (
        int(visit.page),
        int(visit.status),
        float(visit.fetched_at),
        float(visit.elapsed),
        int(visit.n_bytes),
        int(visit.content_hash),
        str(visit.targets.tolist()).replace(" ", ""),
        _json_texts(visit.anchors) if any(visit.anchors) else None,
        _json_pairs(visit.outside) if visit.outside else None,
        storable(visit.title) if visit.title else "",
        zlib.compress(text, 1) if text else None,
        storable(visit.error) if visit.error else "",
    )


def row_visit(row: tuple[Any, ...], n_pages: int) -> Visit:
    """Return the visit of a row that begins with `VISIT_COLUMNS`.

    An invalid row, with an unknown page, say, or a value of the wrong type, raises ValueError,
    TypeError, RecursionError or zlib.error.
    """
    page, status, fetched_at, elapsed, n_bytes, content_hash = row[:6]
    targets, anchors, outside, title, text, error = row[6:12]
    if not (type(page) is int and NO_PAGE <= page < n_pages):
        raise ValueError(f"a visit of page {page!r}, of {n_pages} pages")
    if not (type(status) is type(n_bytes) is type(content_hash) is int):
        raise TypeError(f"a status, size or hash of a visit of page {page} is not a number")
    if not (type(fetched_at) is type(elapsed) is float and math.isfinite(fetched_at + elapsed)):
        raise TypeError(f"the times of a visit of page {page} are not seconds")
    if not (type(title) is type(error) is str):
        raise TypeError(f"the title or error of a visit of page {page} is not text")
    pages = target_list(targets, n_pages)
    return Visit(
        page,
        np.array(pages, dtype=np.int32),
        anchors=anchor_list(anchors, len(pages)),
        status=status,
        title=title,
        text="" if text is None else inflated(text).decode(),
        outside=[] if outside is None else pair_list(outside),
        fetched_at=fetched_at,
        elapsed=elapsed,
        n_bytes=n_bytes,
        content_hash=content_hash,
        error=error,
    )


def target_list(text: str, n_pages: int) -> list[int]:
    """Return the page ids of a `targets` value; raise ValueError or TypeError if one is invalid.

    The check matters because compiled code uses them as indices without checking bounds.
    """
    targets: list[int]
    targets, end = _decode(text) if text[:1] == "[" else ([], -1)
    if end != len(text):  # white space around it, say
        targets = json.loads(text)
    if type(targets) is not list or (targets and set(map(type, targets)) != {int}):
        raise TypeError("targets that are not an array of page ids")
    if targets and not (min(targets) >= 0 and max(targets) < n_pages):
        raise ValueError(
            f"a link from page {min(targets)} or to {max(targets)}, of {n_pages} pages"
        )
    return targets


def anchor_list(text: str | None, n_targets: int) -> list[str]:
    """Return the anchor texts of an `anchors` value, as many as targets, or none.

    Raise ValueError or TypeError if it holds anything else, including lone surrogates.
    """
    if text is None:
        return []
    anchors: list[str] = json.loads(text)
    if type(anchors) is not list or len(anchors) != n_targets:
        raise ValueError(f"anchors that are not an array of {n_targets} texts")
    "".join(anchors).encode()
    return anchors


def pair_list(text: str) -> list[tuple[str, str]]:
    """Return the links of an `outside` value; raise ValueError or TypeError if it is invalid."""
    pairs = [(url, anchor) for url, anchor in json.loads(text)]
    "".join([part for pair in pairs for part in pair]).encode()
    return pairs


def storable(text: str) -> str:
    """Return a text with U+FFFD for NUL and lone surrogates, which SQLite cannot store as text."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _UNSTORABLE.sub("\ufffd", text)
    return text.replace("\0", "\ufffd")


def storable_all(texts: list[str]) -> list[str]:
    joined = "".join(texts)
    if joined.isascii() and "\0" not in joined:
        return texts
    return list(map(storable, texts))


def inflated(deflated: bytes) -> bytes:
    """Return the text in a zlib stream; raise ValueError if it exceeds the maximum stored."""
    stream = zlib.decompressobj()
    text = stream.decompress(deflated, _MAX_ENCODED + 1)
    if len(text) > _MAX_ENCODED or not stream.eof:
        raise ValueError(f"a text of more than {MAX_TEXT} characters, or cut off")
    return text


def _json_texts(texts: Sequence[str]) -> str:
    """Return a JSON array of texts that SQLite can store and parse."""
    joined = "".join(texts)
    # NUL, other control characters and surrogates are not printable.
    if joined.isprintable() and '"' not in joined and "\\" not in joined:
        return '["' + '","'.join(texts) + '"]'
    # Four times as fast as a general encoder, which would check the type of each text.
    encoded = "[" + ",".join(map(encode_basestring, texts)) + "]"
    if "\\u0000" in encoded:
        encoded = _encode([storable(text) for text in texts])
    return storable(encoded)


def _json_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    """Return a JSON array of [URL, anchor text]."""
    encoded = _encode(list(pairs))
    if "\\u0000" in encoded:
        encoded = _encode([[storable(url), storable(anchor)] for url, anchor in pairs])
    return storable(encoded)


def add_late_links(
    pages: PageTable, targets: list[int], anchors: list[str], outside: str | None, source: int
) -> tuple[list[int], list[str]]:
    """Return the targets and anchors of a visit, followed by those of its late links.

    `pages` is the current page table of the crawl, and `outside` the value of the visit. ValueError
    or TypeError if the visit is damaged.
    """
    late = list(_late_links(pages, source, targets, outside)) if outside else []
    if not late:
        return targets, anchors
    anchors = (anchors or [""] * len(targets)) + [anchor for _, anchor in late]
    return targets + [target for target, _ in late], anchors if any(anchors) else []


def _late_links(
    pages: PageTable, source: int, targets: Iterable[int], outside: str
) -> Iterator[tuple[int, str]]:
    """Yield target and anchor text of the outside links whose target is now known."""
    links = pair_list(outside)
    found = pages.find_all([url for url, _ in links])
    taken = {source, *targets}
    for (url, anchor), page in zip(links, found, strict=True):
        if page == NO_PAGE and pages.knows_host(host_if_any(url)):
            identity = canonical(url)
            page = NO_PAGE if identity == url else pages.find(identity)
        if page != NO_PAGE and page not in taken:
            taken.add(page)
            yield page, anchor


def fill_late_links(cursor: sqlite3.Cursor, pages: PageTable) -> None:
    """Write the table `late_links`, inside a transaction, for the pages as stored so far.

    O(outside links), some 1 µs each; one visit at a time is in memory.
    """
    cursor.execute("DELETE FROM late_links")
    visits = cursor.connection.execute(
        f"SELECT page, targets, outside FROM visits WHERE outside IS NOT NULL AND seq IN {CURRENT}"
    )
    cursor.executemany(
        "INSERT OR IGNORE INTO late_links VALUES(?, ?, ?)",
        (
            (page, target, anchor)
            for page, targets, outside in visits
            for target, anchor in _late_links(
                pages, page, target_list(targets, len(pages)), outside
            )
        ),
    )


_INSERT_VISIT = (
    f"INSERT INTO visits({VISIT_COLUMNS}) VALUES({', '.join('?' * len(VISIT_COLUMNS.split(',')))})"
)


def put_visits(
    cursor: sqlite3.Cursor, visits: Sequence[Visit], first_seq: int, tables: Mapping[str, SideTable]
) -> None:
    """Insert visits, in order, and their rows in side tables, inside a transaction."""
    cursor.executemany(_INSERT_VISIT, map(visit_row, visits))
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for seq, visit in enumerate(visits, first_seq):
        for name, row in visit.extras.items():
            texts = [storable(value) if isinstance(value, str) else value for value in row]
            rows.setdefault(name, []).append((seq, visit.page, *texts))
    for name, found in rows.items():
        if tables[name].key != "seq":
            found = [(seq, *texts) for seq, _, *texts in found]
        tables[name].put(cursor, found)


CURRENT_TEXTS = f"text IS NOT NULL AND status BETWEEN 200 AND 299 AND seq IN {CURRENT}"
"""The current versions that are pages with a text."""

MOST_VISITS, MOST_CHARACTERS = 2_000, 400_000
"""Bounds on the visits, and on the characters of the links of all but the last, read together."""

_BLANKS = str.maketrans("[],", "   ")


class VisitColumns(NamedTuple):
    """Visits in the order recorded, with their links as rows of one array.

    `pages`: int32: the page of each visit. `begins`: int64: where the links of each begin, and the
    end of the last. `targets`: int32: all links. `statuses`: HTTP status of each; 0 if there was no
    response. `fetched_at` and `elapsed`: float64: Unix time of the end of each fetch, and its
    seconds. `errors`: short cause of each that got no page; empty for the others. `is_refused`:
    whether the page of each waits again, so that it is no evidence. `visits`: the visits
    themselves, with their texts, if they were not read as columns; else `numbers`: their places in
    the crawl.
    """

    pages: PageIds
    begins: NDArray[np.int64]
    targets: PageIds
    statuses: Sequence[int]
    fetched_at: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    errors: Sequence[str]
    is_refused: NDArray[np.bool_]
    visits: Sequence[Visit] = ()
    numbers: Sequence[int] = ()

    def visit(self, at: int) -> Visit:
        """Return a visit, without its texts, size and hash if it was read as columns."""
        if self.visits:
            return self.visits[at]
        return Visit(
            int(self.pages[at]),
            self.targets[self.begins[at] : self.begins[at + 1]],
            status=self.statuses[at],
            fetched_at=float(self.fetched_at[at]),
            elapsed=float(self.elapsed[at]),
            error=self.errors[at],
        )


def read_visit_columns(db: sqlite3.Connection, last: int, n_pages: int) -> Iterator[VisitColumns]:
    """Yield the visits up to number `last`; raise ValueError or TypeError if one is invalid."""
    rows: list[tuple[Any, ...]] = []
    before = n_characters = 0
    for row in db.execute(
        "SELECT seq, page, status, fetched_at, elapsed, error, targets FROM visits"
        " WHERE seq <= ? ORDER BY seq",
        (last,),
    ):
        rows.append(row)
        n_characters += len(row[-1])
        if len(rows) >= MOST_VISITS or n_characters >= MOST_CHARACTERS:
            yield _columns(rows, before, n_pages)
            before, rows, n_characters = row[0], [], 0
    if rows:
        yield _columns(rows, before, n_pages)


def _columns(rows: Sequence[tuple[Any, ...]], before: int, n_pages: int) -> VisitColumns:
    """Return rows of values, after number `before`, as columns."""
    numbers, pages, statuses, fetched_at, elapsed, errors, targets = zip(*rows, strict=True)
    if (np.diff((before, *numbers)) <= 0).any():
        raise ValueError(f"the numbers of visits {numbers[0]} to {numbers[-1]} do not increase")
    if not (_are(pages, int) and NO_PAGE <= min(pages) <= max(pages) < n_pages):
        raise ValueError(f"visits of pages {min(pages)!r} to {max(pages)!r}, of {n_pages}")
    if not (_are(statuses, int) and _are(errors, str)):
        raise TypeError("a status of a visit is not a number, or an error not text")
    times = np.array([fetched_at, elapsed])
    if not (_are(fetched_at, float) and _are(elapsed, float) and np.isfinite(times).all()):
        raise TypeError("the times of a visit are not seconds")
    n_targets, links = target_arrays(targets, n_pages)
    is_refused = np.zeros(len(rows), dtype=np.bool_)
    for at in np.flatnonzero(np.array(statuses) == 0).tolist():
        is_refused[at] = waits_again(0, errors[at])
    return VisitColumns(
        np.array(pages, dtype=np.int32),
        np.concatenate([[0], np.cumsum(n_targets)]).astype(np.int64),
        links,
        statuses,
        times[0],
        times[1],
        errors,
        is_refused,
        numbers=numbers,
    )


def target_arrays(texts: Sequence[str], n_pages: int) -> tuple[NDArray[np.int64], PageIds]:
    """Return the number of page ids in each of some `targets` values, and all ids in turn.

    Some 70 ns an id. Values that are not written as this crawlprio writes them are left to
    `target_list`, which takes five times as long, and raises what an invalid one raises.
    """
    flat = "".join(texts)
    n_ids = _numbers_in(flat, np.array(list(map(len, texts)), dtype=np.int64))
    if n_ids is None:
        lists = [target_list(text, n_pages) for text in texts]
        n_ids = np.array(list(map(len, lists)), dtype=np.int64)
        return n_ids, np.array([page for found in lists for page in found], dtype=np.int32)
    if not n_ids.any():
        return n_ids, NO_PAGES
    ids = np.fromstring(flat.translate(_BLANKS), dtype=np.int64, sep=" ")
    if int(ids.max()) >= n_pages:
        raise ValueError(f"a link to page {ids.max()}, of {n_pages} pages")
    return n_ids, ids.astype(np.int32)


def _numbers_in(flat: str, lengths: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return how many numbers each of some texts of these lengths, joined to `flat`, lists.

    Return None unless each is a JSON array of digits, without white space.
    """
    if not flat.isascii() or int(lengths.min()) < 2:
        return None
    characters = np.frombuffer(flat.encode(), dtype=np.uint8)
    ends = np.cumsum(lengths)
    begins = ends - lengths
    is_digit = characters - ord("0") < 10  # what comes before 0 wraps round
    is_comma = characters == ord(",")
    n_brackets = len(flat) - int(np.count_nonzero(is_digit)) - int(np.count_nonzero(is_comma))
    is_first = is_digit.copy()
    is_first[1:] &= ~is_digit[:-1]
    n_numbers, n_commas = (
        np.add.reduceat(found, begins, dtype=np.int64) for found in (is_first, is_comma)
    )
    starts_with_zero = is_first[:-1] & is_digit[1:] & (characters[:-1] == ord("0"))
    is_plain = (
        n_brackets == 2 * len(lengths)
        and (characters[begins] == ord("[")).all()
        and (characters[ends - 1] == ord("]")).all()
        and (n_commas == np.maximum(n_numbers - 1, 0)).all()
        and not starts_with_zero.any()
    )
    return n_numbers if is_plain else None


def _are(values: Sequence[object], kind: type) -> bool:
    """Return whether all values are of exactly this type."""
    return set(map(type, values)) == {kind}
