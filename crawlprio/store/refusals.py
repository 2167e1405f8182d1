"""Links that a crawl refused, counted by rule with a few examples, as rows of a crawl store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from crawlprio.store.visit_rows import storable

N_EXAMPLES = 3
"""Examples kept for each rule: the first ones."""

WRITTEN_EVERY = 50
"""Transactions with visits until changed counts are written: a kill loses those of fewer."""

CREATE = (
    "CREATE TABLE refusals(rule TEXT PRIMARY KEY, links INTEGER NOT NULL, examples TEXT NOT NULL)"
)


class Refusal(NamedTuple):
    """How many links a rule refused, over all runs, and the URLs of the first ones."""

    links: int
    examples: list[str]


class Refusals:
    """The refusals of a crawl. What has changed is written with a transaction soon after."""

    def __init__(self) -> None:
        self._counts: dict[str, Refusal] = {}
        self._changed: set[str] = set()
        self._n_waited = 0
        self._is_created = self._is_written = False

    def restore(self, db: sqlite3.Connection) -> None:
        """Go on from the counts on disk."""
        self._counts = read_refusals(db)
        self._is_created = bool(self._counts)

    def add(self, rule: str, n_links: int, urls: Iterable[str]) -> None:
        """Count links that a rule refused; `urls` are theirs, and are read only if needed."""
        links, examples = self._counts.get(rule, Refusal(0, []))
        if len(examples) < N_EXAMPLES:
            new = (url for url in dict.fromkeys(map(storable, urls)) if url not in examples)
            examples = [*examples, *islice(new, N_EXAMPLES - len(examples))]
        self._counts[rule] = Refusal(links + n_links, examples)
        self._changed.add(rule)

    def write(self, cursor: sqlite3.Cursor, *, waits: bool = False) -> None:
        """Write the changes, inside a transaction; `waits`: unless they may wait for a later one.

        Counts change with almost every visit, and writing them costs as much as a third of it.
        """
        self._is_written = False
        if not self._changed:
            return
        self._n_waited += 1
        if waits and self._n_waited < WRITTEN_EVERY:
            return
        if not self._is_created:
            cursor.execute(CREATE.replace("TABLE", "TABLE IF NOT EXISTS"))
        cursor.executemany(
            "INSERT OR REPLACE INTO refusals VALUES(?, ?, ?)",
            [
                (rule, self._counts[rule].links, json.dumps(self._counts[rule].examples))
                for rule in sorted(self._changed)
            ],
        )
        self._is_written = True

    def committed(self) -> None:
        """Forget the changes if they are on disk now."""
        if self._is_written:
            self._is_created = True
            self._is_written = False
            self._n_waited = 0
            self._changed.clear()


def read_refusals(db: sqlite3.Connection) -> dict[str, Refusal]:
    """Return the refusals on disk, by rule; raise TypeError for a damaged table."""
    found = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'refusals'").fetchall()
    if not found:
        return {}
    if found != [(CREATE,)]:
        raise TypeError("refusals that crawlprio did not create")
    refusals = {}
    for rule, links, examples in db.execute("SELECT * FROM refusals ORDER BY rule"):
        urls = json.loads(examples)
        is_list = isinstance(urls, list) and all(isinstance(url, str) for url in urls)
        if not (isinstance(rule, str) and isinstance(links, int) and is_list):
            raise TypeError(f"the refusals of {rule!r} are not a count and examples")
        refusals[rule] = Refusal(links, urls)
    return refusals
