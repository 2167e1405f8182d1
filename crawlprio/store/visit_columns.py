"""Recorded visits as columns, some at a time: what a replay by a compiled rule needs of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageIds, Visit
from crawlprio.store.outcomes import is_refusal
from crawlprio.store.visit_rows import target_list

MOST_VISITS, MOST_CHARACTERS = 2_000, 400_000
"""Bounds on the visits, and on the characters of the links of all but the last, read together."""

_BLANKS = str.maketrans("[],", "   ")


class VisitColumns(NamedTuple):
    """Visits in the order recorded, with their links as rows of one array.

    `pages`: int32: the page of each visit. `begins`: int64: where the links of each begin, and the
    end of the last. `targets`: int32: all links. `statuses`: HTTP status of each; 0 if there was no
    response. `fetched_at` and `elapsed`: float64: Unix time of the end of each fetch, and its
    seconds. `errors`: short cause of each that got no page; empty for the others. `is_refused`:
    whether each is a refusal, and so not evidence. `visits`: the visits themselves, with their
    texts, if they were not read as columns.
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
        is_refused[at] = is_refusal(0, errors[at])
    return VisitColumns(
        np.array(pages, dtype=np.int32),
        np.concatenate([[0], np.cumsum(n_targets)]).astype(np.int64),
        links,
        statuses,
        times[0],
        times[1],
        errors,
        is_refused,
    )


def target_arrays(texts: Sequence[str], n_pages: int) -> tuple[NDArray[np.int64], PageIds]:
    """Return the number of page ids in each of some `targets` values, and all ids in turn.

    Some 70 ns an id. Values that are not written as this crawlprio writes them are left to
    `target_list`, which takes five times as long.

    Raises `ValueError`, `TypeError` or `RecursionError` if a value is invalid, as
    `target_list` does.
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
