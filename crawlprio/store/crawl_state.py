"""What a crawl resumes from, apart from its pages and visits, as rows of its store.

Waiting requests, the politeness state of sites, pages that are handed out or still new to requests
without `dont_filter`, what running callbacks have yielded with it, and the links that were refused.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from crawlprio.items import content_hash
from crawlprio.store.files import increasing
from crawlprio.store.side_tables import SideTable
from crawlprio.store.visit_rows import storable


class RequestRow(NamedTuple):
    """A waiting request: its number, its page, and its JSON in UTF-8."""

    number: int
    page: int
    request: bytes


def put_requests(cursor: sqlite3.Cursor, requests: Sequence[RequestRow]) -> None:
    """Insert or replace requests, inside a transaction."""
    cursor.executemany(
        "INSERT OR REPLACE INTO requests(id, page, request) VALUES(?, ?, ?)",
        [(number, page, request.decode()) for number, page, request in requests],
    )


def read_requests(
    db: sqlite3.Connection, n_pages: int, column: str = "", value: int = 0
) -> Iterator[RequestRow]:
    """Yield all requests, or those with a value in a column, by number.

    Raise ValueError or TypeError for a damaged one.
    """
    where, values = (f"WHERE {column} = ?", (value,)) if column else ("", ())
    before = 0
    for number, page, request in db.execute(
        f"SELECT id, page, request FROM requests {where} ORDER BY id", values
    ):
        before = increasing(number, before)
        if not (isinstance(page, int) and 0 <= page < n_pages):
            raise ValueError(f"a request of page {page!r}, of {n_pages} pages")
        if not isinstance(request, str):
            raise TypeError(f"the request of page {page} is not text")
        yield RequestRow(number, page, request.encode())


class SiteState(NamedTuple):
    """What a crawl knows about a site and keeps across a restart.

    The site is named by its host, because its id may not be stored yet. `crawl_delay` is in
    seconds, None if its robots.txt asks for none. `refusals` counts consecutive responses that
    asked for fewer fetches (429, 503); `pause` is the length in seconds of the pause that the last
    of them started, and `paused_until` its end as a Unix time.
    """

    host: str
    crawl_delay: float | None = None
    refusals: int = 0
    pause: float = 0.0
    paused_until: float = 0.0


def put_site_state(cursor: sqlite3.Cursor, state: SiteState) -> None:
    """Insert or replace the state of one site."""
    cursor.execute("INSERT OR REPLACE INTO site_states VALUES(?, ?, ?, ?, ?)", state)


N_EXAMPLES = 3
"""Examples kept for each rule: the first ones."""

WRITTEN_EVERY = 50
"""Transactions with visits until changed counts are written: a kill loses those of fewer."""

_REFUSALS = SideTable(
    "refusals", "rule TEXT PRIMARY KEY, links INTEGER NOT NULL, examples TEXT NOT NULL"
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
        self._is_written = False

    def restore(self, db: sqlite3.Connection) -> None:
        """Load the counts on disk."""
        self._counts = read_refusals(db)

    def add(self, rule: str, n_links: int, urls: Iterable[str]) -> None:
        """Count links refused by a rule; `urls` is read only while the rule lacks examples."""
        links, examples = self._counts.get(rule, Refusal(0, []))
        if len(examples) < N_EXAMPLES:
            new = (url for url in dict.fromkeys(map(storable, urls)) if url not in examples)
            examples = [*examples, *islice(new, N_EXAMPLES - len(examples))]
        self._counts[rule] = Refusal(links + n_links, examples)
        self._changed.add(rule)

    def write(self, cursor: sqlite3.Cursor, *, can_wait: bool = False) -> None:
        """Write the changes, inside a transaction, or, if they can wait, with a later one.

        Counts change with almost every visit, and writing them costs as much as a third of it.
        """
        self._is_written = False
        if not self._changed:
            return
        self._n_waited += 1
        if can_wait and self._n_waited < WRITTEN_EVERY:
            return
        changed = [(rule, *self._counts[rule]) for rule in sorted(self._changed)]
        _REFUSALS.put(cursor, [(rule, n, json.dumps(urls)) for rule, n, urls in changed])
        self._is_written = True

    def committed(self) -> None:
        """Forget the changes if they are on disk now."""
        if self._is_written:
            self._is_written = False
            self._n_waited = 0
            self._changed.clear()


def read_refusals(db: sqlite3.Connection) -> dict[str, Refusal]:
    """Return the refusals on disk, by rule; raise TypeError for a damaged table."""
    refusals = {}
    for rule, links, examples in _REFUSALS.rows(db, "*", "rule"):
        urls = json.loads(examples)
        is_list = isinstance(urls, list) and all(isinstance(url, str) for url in urls)
        if not (isinstance(rule, str) and isinstance(links, int) and is_list):
            raise TypeError(f"the refusals of {rule!r} are not a count and examples")
        refusals[rule] = Refusal(links, urls)
    return refusals


Source = tuple[int, int]
"""A page whose callback runs, and the number of its saved request; 0: it is a plain link."""

_YIELDED = SideTable(
    "yielded", "source INTEGER NOT NULL, source_request INTEGER NOT NULL, hash INTEGER NOT NULL"
)
ROBOTS = SideTable("robots", "site TEXT PRIMARY KEY, rules TEXT NOT NULL")
MAX_RULES = 32_768
"""Characters of rules that are kept of a site: a host can invent subdomains, each with many."""


class Marks:
    """Pages handed out, pages still new to requests without `dont_filter`, what running callbacks
    have yielded with it, rules of robots.txt, and refused links.

    Only what has changed since the last commit is written, and counts not with each one.
    """

    def __init__(self) -> None:
        self._leased: set[int] = set()
        self._leased_on_disk: set[int] = set()
        self._unfiltered: dict[int, bool] = {}
        self._yielded: dict[Source, list[int]] = {}
        self._before: dict[Source, Counter[int]] = {}
        self._ended: set[Source] = set()
        self._on_disk: set[Source] = set()
        self._robots: dict[str, str | None] = {}
        self.refusals = Refusals()

    def keep_robots(self, site: str, rules: str) -> None:
        """Keep what the robots.txt of a site, by host and port, tells this crawl's robot.

        Nothing is kept of a site whose rules are longer than `MAX_RULES`: a part would mislead.
        """
        self._robots[site] = storable(rules) if len(rules) <= MAX_RULES else None

    def restore_leased(self, pages: Iterable[int]) -> None:
        """Load the marks of pages handed out, which are on disk."""
        self._leased_on_disk.update(pages)
        self._leased.update(pages)

    def lease(self, page: int) -> None:
        """Mark a page as handed out."""
        self._leased.add(page)

    def end_lease(self, page: int) -> None:
        """Mark a page as not handed out."""
        self._leased.discard(page)

    def set_unfiltered(self, page: int, unfiltered: bool) -> None:
        """Mark a page as new to requests without `dont_filter`, or not."""
        self._unfiltered[page] = unfiltered

    def restore(self, db: sqlite3.Connection) -> None:
        """Load the counts, and what running callbacks had yielded, from a store."""
        self.refusals.restore(db)
        for page, number, hashed in _YIELDED.rows(db, "*", "rowid"):
            if not type(page) is type(number) is type(hashed) is int:
                raise TypeError("a yielded request that is not numbers")
            self._before.setdefault((page, number), Counter())[hashed] += 1
        self._on_disk.update(self._before)

    def add_yielded(self, source: Source, request: bytes) -> None:
        """Remember a request that is saved before the callback that yielded it has ended."""
        self._yielded.setdefault(source, []).append(content_hash(request))

    def was_yielded(self, source: Source, request: bytes) -> bool:
        """Return whether a callback yielded a request before a kill, once for each time."""
        left = self._before.get(source)
        if not left:
            return False
        left[content_hash(request)] -= 1
        return left[content_hash(request)] >= 0

    def end_source(self, source: Source) -> None:
        """Forget the requests of a callback whose visit was just recorded."""
        self._before.pop(source, None)
        self._yielded.pop(source, None)
        if source in self._on_disk:
            self._ended.add(source)

    def write(self, cursor: sqlite3.Cursor, *, counts_can_wait: bool) -> None:
        """Write the changes, inside a transaction; counts with a later one if they can wait."""
        if self._leased != self._leased_on_disk:
            ended = [(page,) for page in self._leased_on_disk - self._leased]
            begun = [(page,) for page in self._leased - self._leased_on_disk]
            cursor.executemany("DELETE FROM leased WHERE page = ?", ended)
            cursor.executemany("INSERT OR IGNORE INTO leased VALUES(?)", begun)
        for page, unfiltered in self._unfiltered.items():
            if unfiltered:
                cursor.execute("INSERT OR IGNORE INTO unfiltered VALUES(?)", (page,))
            else:
                cursor.execute("DELETE FROM unfiltered WHERE page = ?", (page,))
        if self._ended:
            ends = "DELETE FROM yielded WHERE source = ? AND source_request = ?"
            cursor.executemany(ends, self._ended)
        hashes = self._yielded.items()
        _YIELDED.put(cursor, [(*source, hashed) for source, found in hashes for hashed in found])
        ROBOTS.put(cursor, [item for item in self._robots.items() if item[1] is not None])
        too_long = [(site,) for site, rules in self._robots.items() if rules is None]
        if too_long and ROBOTS.exists(cursor):
            cursor.executemany("DELETE FROM robots WHERE site = ?", too_long)
        self.refusals.write(cursor, can_wait=counts_can_wait)

    def committed(self) -> None:
        """Forget the changes, which are on disk now."""
        self._leased_on_disk = self._leased.copy()
        self._unfiltered.clear()
        self._on_disk.update(self._yielded)
        self._on_disk -= self._ended
        self._yielded.clear()
        self._ended.clear()
        self._robots.clear()
        self.refusals.committed()
