"""The page table of a crawl with a store, and its rows: a hash of each identity is in memory."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.pages import MAX_DEPTH, NO_PAGE, NewPages, PageTable
from crawlprio.store.hashtable import HashTable
from crawlprio.store.saved_state import SavedState
from crawlprio.store.visit_rows import storable, storable_all
from crawlprio.web.urls import KeyedHash

REMEMBERED = 20_000
"""Number of pages whose identities are kept in memory once they are found or added."""

READ_AHEAD = 256
"""Number of pages read at once while pages are asked for in order."""

UrlRow = tuple[str, str | None]
"""URL and identity of a page; the identity is None if it equals the URL."""


class StoredPages(PageTable):
    """A page table whose URLs are in the crawl store: some 38 bytes of memory per page.

    A page is found by a 128-bit keyed hash of its identity, without reading the store: two
    identities of one hash would have to be found by chance among 2**64 pages. Half of the hash is
    looked up, the other half compared. Pages that are not recorded yet are in memory. The hash is
    of what the store can hold of an identity, which may lack some characters.

    Memory: 24 to 40 bytes per page for hashes, 6 for site and depth, and the URLs of the 20,000 to
    40,000 pages found last (some 10 MB).

    `read` returns the stored rows of pages.
    """

    def __init__(self, read: Callable[[Iterable[int]], list[UrlRow]]) -> None:
        super().__init__()
        self._read = read
        self._hash_of = KeyedHash()
        # Pages by the first half of their hashes; the other halves by page.
        self._table = HashTable()
        self._halves = np.empty(1024, dtype=np.int64)
        # Aliases, and identities the first half of whose hash belongs to another page.
        self._exact: dict[str, int] = {}
        self._n_aliases = 0
        # Pages found or added lately by identity, all those not in the hash table among them.
        self._young: dict[str, int] = {}
        # URLs of the pages added lately in two generations, in order from the first.
        self._new_urls: list[str] = []
        self._old_new_urls: list[str] = []
        self._first_new = 0
        self._first_old = 0
        # Identities of new pages that differ from their URLs: of stored pages, and of the others.
        self._new_keys: dict[int, str] = {}
        self._unstored_keys: dict[int, str] = {}
        self._n_stored = 0
        self._new_aliases: list[tuple[str, int]] = []
        # What `find` did not find last: a scheduler asks before it adds a page, and so does adding.
        self._missed: str | None = None
        # Hashes of identities looked up lately: most of those not found are added next.
        self._hashed: dict[str, bytes] = {}
        self._ahead: list[str] = []
        self._first_ahead = 0

    @property
    def n_identities(self) -> int:
        return self._n_pages + self._n_aliases

    def find(self, identity: str) -> int:
        """Return the page with this identity, or `NO_PAGE`."""
        if identity is self._missed:
            return NO_PAGE
        page = self._young.get(identity, NO_PAGE)
        if page == NO_PAGE:
            page = self._find_all([identity])[0]
            self._missed = identity if page == NO_PAGE else None
        return page

    def find_all(self, identities: Iterable[str]) -> list[int]:
        """Return the page with each identity, or `NO_PAGE`; faster than `find` for each."""
        identities = list(identities)
        found = list(map(self._young.get, identities, repeat(NO_PAGE)))
        if NO_PAGE in found:
            pairs = zip(identities, found, strict=True)
            met = self._find_all([identity for identity, page in pairs if page == NO_PAGE])
            if max(met) != NO_PAGE:
                pages = iter(met)
                found = [next(pages) if page == NO_PAGE else page for page in found]
        return found

    def add(self, identity: str, url: str, site: int, depth: int = 0) -> int:
        """Add a page under the next id; the identity must be new."""
        page = self._place(site, depth)
        self._missed = None
        self._young[identity] = page
        self._new_urls.append(url)
        if identity is not url and identity != url:
            self._unstored_keys[page] = identity
        return page

    def alias(self, identity: str, page: int) -> None:
        """Give `page` a second identity. Aliases stay in memory."""
        self._missed = None
        self._n_aliases += identity not in self._exact
        self._exact[identity] = page
        self._young[identity] = page
        self._new_aliases.append((identity, page))

    def url(self, page: int) -> str:
        """Return the URL of a page: from the store, unless it was added lately.

        Pages asked for in order of discovery are read in batches.
        """
        url = self._remembered(page)
        if url is None:
            at = page - self._first_ahead
            if not 0 <= at < len(self._ahead):
                n_ahead = READ_AHEAD if at == len(self._ahead) else 1
                last = max(min(page + n_ahead, self._n_stored), page + 1)
                self._ahead = [url for url, _ in self._read(range(page, last))]
                self._first_ahead, at = page, 0
            url = self._ahead[at]
        return url

    def urls(self, pages: Iterable[int]) -> list[str]:
        """Return the URLs of pages: from the store, unless they were added lately."""
        pages = list(pages)
        found = list(map(self._remembered, pages))
        if None in found:
            unmet = [page for page, url in zip(pages, found, strict=True) if url is None]
            rows = iter(self._read(unmet))
            return [next(rows)[0] if url is None else url for url in found]
        return [url for url in found if url is not None]

    def new_since(self, n_pages: int, n_identities: int) -> NewPages:
        """Return what is not stored yet; only the table's own store may ask."""
        first, last, keys = self._n_stored, self._n_pages, self._unstored_keys
        if n_pages != first:
            raise ValueError(f"The table's own store has {first} pages; {n_pages} were given.")
        return NewPages(
            self._new_urls[first - self._first_new :],
            self._sites[first:last].tolist(),
            self._depths[first:last].tolist(),
            {page - first: key for page, key in keys.items()} if keys else keys,
            self._new_aliases,
        )

    def forget_stored(self) -> None:
        """Called once the store has everything in the table: drop it from memory."""
        self._n_stored = self._n_pages
        if self._new_aliases:
            self._new_aliases = []
        if self._unstored_keys:
            self._new_keys |= self._unstored_keys
            self._unstored_keys = {}
        if len(self._young) > REMEMBERED:
            self._grow_old()

    def _grow_old(self) -> None:
        """Add the younger generation, all stored, to the hash table, and begin another."""
        identities = self._new_urls.copy()
        for page, key in self._new_keys.items():
            identities[page - self._first_new] = key
        self._enter(identities, self._first_new)
        self._new_keys, self._young, self._hashed = {}, {}, {}
        self._old_new_urls, self._new_urls = self._new_urls, []
        self._first_old, self._first_new = self._first_new, self._n_pages

    def save(self, state: SavedState) -> None:
        """Put what is needed to find all pages, which the store must have, into a saved state."""
        assert self._n_stored == self._n_pages, "pages are not recorded"
        self._grow_old()
        n_pages = self._n_pages
        hashes, values = self._table.entries()
        state.put(
            {
                "pages.sites": self.sites,
                "pages.depths": self.depths,
                "pages.halves": self._halves[:n_pages],
                "pages.hashes": hashes,
                "pages.values": values,
            }
        )
        state.facts["pages"] = [
            self._hash_of.key.hex(),
            self._n_aliases,
            [list(pair) for pair in self._exact.items()],
        ]

    def restore(self, state: SavedState) -> None:
        """Load a saved state into an empty table; `load` then adds sites and newer pages."""
        key, self._n_aliases, exact = state.facts["pages"]
        self._hash_of = KeyedHash(bytes.fromhex(key))
        self._exact = dict(exact)
        self._sites = state.take("pages.sites", np.int32)
        self._depths = state.take("pages.depths", np.int16)
        self._halves = state.take("pages.halves", np.int64)
        self._table.load(state.take("pages.hashes", np.int64), state.take("pages.values", np.int32))
        self._n_pages = len(self._sites)

    def load(self, chunks: Iterable[tuple[list[str], Sequence[int], Sequence[int]]]) -> None:
        """Load what a store holds, from the first page that the table lacks; it has all sites.

        `chunks` are identities, sites and depths of pages, in order.
        """
        for identities, sites, depths in chunks:
            first, last = self._n_pages, self._n_pages + len(sites)
            if last > len(self._sites):
                self._reserve(max(last, 2 * len(self._sites)))
            self._sites[first:last] = sites
            self._depths[first:last] = np.minimum(np.array(depths, dtype=np.int64), MAX_DEPTH)
            self._n_pages = last
            self._enter(identities, first)
        self._n_stored = self._first_new = self._first_old = self._n_pages
        counts = np.bincount(self.sites, minlength=self.n_sites)
        self._site_sizes = array("i", counts.tolist())

    def load_alias(self, identity: str, page: int) -> None:
        self.alias(identity, page)
        self._new_aliases.clear()

    def _enter(self, identities: list[str], first: int) -> None:
        """Add the identities of the pages first, first + 1, ... to the hash table."""
        if not identities:
            return
        hashes, last = self._hashes(identities), first + len(identities)
        if last > len(self._halves):
            halves = np.empty(max(last, 2 * len(self._halves)), dtype=np.int64)
            halves[:first] = self._halves[:first]
            self._halves = halves
        self._halves[first:last] = hashes[:, 1]
        for at in self._table.add_run(hashes[:, 0], first):
            self._exact[identities[at]] = first + at

    def _hashes(self, identities: list[str]) -> NDArray[np.int64]:
        """Return both halves of the hash of each identity."""
        hashed = self._hashed
        if len(hashed) > 2 * REMEMBERED:
            hashed.clear()
        new = [identity for identity in identities if identity not in hashed]
        hashed.update(zip(new, map(self._hash_of, map(str.encode, storable_all(new))), strict=True))
        whole = b"".join(map(hashed.__getitem__, identities))
        return np.frombuffer(whole, np.int64).reshape(-1, 2)

    def _remembered(self, page: int) -> str | None:
        """Return the URL of a page that was added lately; None for any other."""
        if page >= self._first_new:
            return self._new_urls[page - self._first_new]
        if page >= self._first_old:
            return self._old_new_urls[page - self._first_old]
        return None

    def _find_all(self, identities: list[str]) -> list[int]:
        """Find pages that are not in the younger generation, and remember those found."""
        if not (self._exact or len(self._table)):
            return [NO_PAGE] * len(identities)
        hashes = self._hashes(identities)
        found = self._table.find_all(hashes[:, 0].tolist())
        if not self._exact and max(found) == NO_PAGE:
            return found
        for at, page in enumerate(found):
            if page != NO_PAGE and self._halves[page] != hashes[at, 1]:
                page = NO_PAGE
            if self._exact:
                page = self._exact.get(identities[at], page)
            if page != NO_PAGE:
                self._young[identities[at]] = page
            found[at] = page
        return found


_CHUNK = 10_000
"""Number of rows read at a time."""


def read_pages(db: sqlite3.Connection) -> PageTable:
    """Return the table stored on disk; raise ValueError or TypeError if rows are invalid."""
    pages = PageTable()
    _add_sites(db, pages)
    for identities, urls, sites, depths in _page_columns(db, 0, pages.n_sites):
        for row in zip(identities, urls, sites, depths, strict=True):
            pages.add(*row)
    for key, page in _aliases(db, len(pages)):
        pages.alias(key, page)
    return pages


def load_stored_pages(db: sqlite3.Connection, pages: StoredPages) -> None:
    """Load the hashes of what a table lacks of what is on disk; raise ValueError if invalid."""
    n_aliases = pages.n_identities - len(pages)
    _add_sites(db, pages)
    chunks = _page_columns(db, len(pages), pages.n_sites)
    pages.load((identities, sites, depths) for identities, _, sites, depths in chunks)
    for key, page in islice(_aliases(db, len(pages)), n_aliases, None):
        pages.load_alias(key, page)


def _add_sites(db: sqlite3.Connection, pages: PageTable) -> None:
    """Add all sites to a table; raise ValueError or TypeError if one is invalid."""
    for site, host in _sites(db):
        if pages.site(host) != site:
            raise ValueError(f"site {site} has the host of another, {host!r}")


def _page_columns(
    db: sqlite3.Connection, first: int, n_sites: int
) -> Iterator[tuple[list[str], Sequence[str], Sequence[int], Sequence[int]]]:
    """Yield identities, URLs, sites and depths of the pages from the first on, some at a time.

    Raise ValueError or TypeError if ids are not dense, a site is unknown, or a URL is not text.
    """
    query = "SELECT id, url, key, site, depth FROM pages WHERE id >= ? ORDER BY id"
    cursor = db.execute(query, (first or -(2**63),))  # an id below 0 is damage, and is noticed
    while rows := cursor.fetchmany(_CHUNK):
        ids, urls, keys, sites, depths = zip(*rows, strict=True)
        if ids[0] != first or ids[-1] != first + len(ids) - 1:
            raise ValueError(f"a page is missing between page {first} and page {ids[-1]}")
        are_whole = set(map(type, sites)) == set(map(type, depths)) == {int}
        if not (are_whole and 0 <= min(sites) <= max(sites) < n_sites):
            raise ValueError(f"a page from {first} on is on none of {n_sites} sites")
        if set(map(type, urls)) != {str} or not set(map(type, keys)) <= {str, type(None)}:
            raise TypeError(f"a URL or a key of a page from {first} on is not text")
        identities = [url if key is None else key for url, key in zip(urls, keys, strict=True)]
        yield identities, urls, sites, depths
        first += len(ids)


def read_hosts(db: sqlite3.Connection) -> list[str]:
    """Return the hosts of all sites, in order; raise ValueError or TypeError if one is invalid."""
    return [host for _, host in _sites(db)]


def read_urls(db: sqlite3.Connection, pages: Iterable[int]) -> list[UrlRow]:
    """Return the URL and the key of each page; raise ValueError or TypeError if one is invalid."""
    if isinstance(pages, range) and len(pages) > 1:
        rows = db.execute(
            "SELECT url, key FROM pages WHERE id BETWEEN ? AND ? ORDER BY id", (pages[0], pages[-1])
        ).fetchall()
        if len(rows) != len(pages):
            raise ValueError(f"{len(pages) - len(rows)} pages are missing from page {pages[0]} on")
    else:
        rows = []
        execute = db.cursor().execute
        for page in pages:
            row = execute("SELECT url, key FROM pages WHERE id = ?", (page,)).fetchone()
            if row is None:
                raise ValueError(f"page {page} is missing")
            rows.append(row)
    for url, key in rows:
        if not (type(url) is str and (key is None or type(key) is str)):
            raise TypeError("a URL or a key of a page is not text")
    return rows


def _sites(db: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """Yield the sites, in order; raise ValueError or TypeError if one is missing or invalid."""
    for number, (site, host) in enumerate(db.execute("SELECT id, host FROM sites ORDER BY id")):
        if site != number:
            raise ValueError(f"a site is missing before site {site}")
        if type(host) is not str:
            raise TypeError(f"the host of site {site} is not text")
        yield site, host


def _aliases(db: sqlite3.Connection, n_pages: int) -> Iterator[tuple[str, int]]:
    """Yield further identities of pages; raise ValueError or TypeError for an invalid one."""
    for key, page in db.execute("SELECT key, page FROM aliases ORDER BY id"):
        if not (type(page) is int and 0 <= page < n_pages):
            raise ValueError(f"an alias of page {page!r}, of {n_pages}")
        if type(key) is not str:
            raise TypeError(f"an alias of page {page} is not text")
        yield key, page


def insert_sites(cursor: sqlite3.Cursor, pages: PageTable, n_sites: int) -> None:
    """Insert the sites beyond the first `n_sites`."""
    rows = [(site, storable(pages.host(site))) for site in range(n_sites, pages.n_sites)]
    cursor.executemany("INSERT INTO sites VALUES(?, ?)", rows)


def insert_pages(cursor: sqlite3.Cursor, new: NewPages, first: int) -> None:
    """Insert new pages, with ids from `first` on, and aliases. O(new pages and aliases)."""
    urls, keys = storable_all(new.urls), new.keys
    cursor.executemany(
        "INSERT INTO pages(id, url, site, depth) VALUES(?, ?, ?, ?)",
        zip(range(first, first + len(new.urls)), urls, new.sites, new.depths, strict=True),
    )
    if keys:
        cursor.executemany(
            "UPDATE pages SET key = ? WHERE id = ?",
            [(storable(key), first + at) for at, key in keys.items()],
        )
    if new.aliases:
        cursor.executemany(
            "INSERT INTO aliases(key, page) VALUES(?, ?)",
            [(storable(key), page) for key, page in new.aliases],
        )
