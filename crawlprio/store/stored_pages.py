"""The page table of a crawl with a store: URLs on disk, a hash of each identity in memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from crawlprio.pages import MAX_DEPTH, NO_PAGE, NewPages, PageTable
from crawlprio.store.hashtable import HashTable
from crawlprio.store.visit_rows import storable

REMEMBERED = 20_000
"""Number of recently used pages whose URLs are kept in memory, and half the maximum number."""

READ_AHEAD = 256
"""Number of pages read at once while pages are asked for in order."""

UrlRow = tuple[str, str | None]
"""URL and identity of a page; the identity is None if it equals the URL."""


class StoredPages(PageTable):
    """A page table whose URLs are in the crawl store: some 26 bytes of memory per page.

    A page is found by a 64-bit hash of its identity: Python's own string hash, keyed at random in
    each process. A match is compared with the identity in the store, by one indexed query unless
    the page was used recently, so two identities with one hash are always two pages. Pages that are
    not recorded yet are in memory. Where the store replaces characters that SQLite cannot hold, the
    stored identity counts.

    Memory: 16 to 32 bytes per page in the hash table, 6 for site and depth, and the URLs of 20,000
    to 40,000 recently used pages (some 10 MB).

    Parameters
    ----------
    read
        returns the stored `(URL, identity)` of pages; the identity is None if it equals the URL.
    hash_of
        returns the 64-bit hash of an identity.
    """

    def __init__(
        self,
        read: Callable[[Iterable[int]], list[UrlRow]],
        hash_of: Callable[[str], int] = hash,
    ) -> None:
        super().__init__()
        self._read = read
        self._hash_of = hash_of
        self._table = HashTable()
        # Aliases, and identities whose hash belongs to another page.
        self._exact: dict[str, int] = {}
        self._n_aliases = 0
        # Recently used pages, in two generations, each with pages by identity, the URLs of pages
        # that were new then, in order from the first, and the URLs of the others. Pages that are
        # not recorded, or not in the hash table, are in the younger generation.
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._new_urls: list[str] = []
        self._old_new_urls: list[str] = []
        self._first_new = 0
        self._first_old = 0
        self._met_urls: dict[int, str] = {}
        self._old_met_urls: dict[int, str] = {}
        # Identities of new pages that differ from their URLs: of stored pages, and of the others.
        self._new_keys: dict[int, str] = {}
        self._unstored_keys: dict[int, str] = {}
        self._n_stored = 0
        self._new_aliases: list[tuple[str, int]] = []
        self._ahead: list[str] = []
        self._first_ahead = 0

    @property
    def n_identities(self) -> int:
        return self._n_pages + self._n_aliases

    def find(self, identity: str) -> int:
        """Return the page with this identity, or `NO_PAGE`."""
        page = self._young.get(identity, NO_PAGE)
        return self._find_all([identity])[0] if page == NO_PAGE else page

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
        self._young[identity] = page
        self._new_urls.append(url)
        if identity is not url and identity != url:
            self._unstored_keys[page] = identity
        return page

    def alias(self, identity: str, page: int) -> None:
        """Give `page` a second identity. Aliases stay in memory."""
        self._n_aliases += identity not in self._exact
        self._exact[identity] = page
        self._young[identity] = page
        self._new_aliases.append((identity, page))

    def url(self, page: int) -> str:
        """Return the URL of a page: from the store, unless it was used recently.

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
        """Return the URLs of pages: from the store, unless they were used recently."""
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
        """Make the younger generation, all stored, the older one; add it to the hash table."""
        identities = self._new_urls.copy()
        for page, key in self._new_keys.items():
            identities[page - self._first_new] = key
        self._enter(identities, self._first_new)
        self._new_keys = {}
        self._old, self._young = self._young, {}
        self._old_met_urls, self._met_urls = self._met_urls, {}
        self._old_new_urls, self._new_urls = self._new_urls, []
        self._first_old, self._first_new = self._first_new, self._n_pages

    def load(
        self,
        hosts: Sequence[str],
        chunks: Iterable[Sequence[Sequence[Any]]],
    ) -> None:
        """Load what a store holds into an empty table.

        Parameters
        ----------
        hosts
            host names of the sites, in order.
        chunks
            columns of rows of pages, in order: ids, URLs, identities or None, sites, depths.

        Raises
        ------
        ValueError, TypeError
            if ids are not dense, a site is unknown, or a URL is not text.
        """
        for site, host in enumerate(hosts):
            if self.site(host) != site:
                raise ValueError(f"site {site} has the host of another, {host}")
        for ids, urls, keys, sites, depths in chunks:
            first = self._n_pages
            last = first + len(ids)
            if ids[0] != first or ids[-1] != last - 1:
                raise ValueError(f"a page is missing between page {first} and page {ids[-1]}")
            of_site = np.array(sites, dtype=np.int64)
            if of_site.min() < 0 or of_site.max() >= len(hosts):
                raise ValueError(f"a page from {first} on is on none of {len(hosts)} sites")
            if last > len(self._sites):
                self._reserve(max(last, 2 * len(self._sites)))
            self._sites[first:last] = of_site
            self._depths[first:last] = np.minimum(np.array(depths, dtype=np.int64), MAX_DEPTH)
            self._n_pages = last
            if set(map(type, urls)) != {str} or not set(map(type, keys)) <= {str, type(None)}:
                raise TypeError(f"a URL or a key of a page from {first} on is not text")
            identities = [url if key is None else key for url, key in zip(urls, keys, strict=True)]
            self._enter(identities, first)
        self._n_stored = self._first_new = self._first_old = self._n_pages
        counts = np.bincount(self.sites, minlength=len(hosts))
        self._site_sizes = array("i", counts.tolist())

    def load_alias(self, identity: str, page: int) -> None:
        """Load an alias from the store."""
        self.alias(identity, page)
        self._new_aliases.clear()

    def _enter(self, identities: list[str], first: int) -> None:
        """Add the identities of the pages first, first + 1, ... to the hash table."""
        for at in self._table.add_run(list(map(self._hash_of, identities)), first):
            self._exact[identities[at]] = first + at

    def _remembered(self, page: int) -> str | None:
        """Return the URL of a page that was used recently; None for any other."""
        if page >= self._first_new:
            return self._new_urls[page - self._first_new]
        if page >= self._first_old:
            return self._old_new_urls[page - self._first_old]
        url = self._met_urls.get(page)
        return self._old_met_urls.get(page) if url is None else url

    def _find_all(self, identities: list[str]) -> list[int]:
        """Find pages that are not in the younger generation, and add them to it."""
        found = self._table.find_all(map(self._hash_of, identities))
        if not self._exact and max(found) == NO_PAGE:
            return found
        for at, hashed_as in enumerate(found):
            # Of what the older generation or the exact table has, only aliases have no hash.
            if hashed_as == NO_PAGE and not self._exact:
                continue
            identity = identities[at]
            page = self._old.get(identity, NO_PAGE)
            if page == NO_PAGE:
                page = self._exact.get(identity, NO_PAGE)
            if page != NO_PAGE:
                url = self._remembered(page)
            elif hashed_as != NO_PAGE:
                ((url, key),) = self._read((hashed_as,))
                if (url if key is None else key) in (identity, storable(identity)):
                    page = hashed_as
            found[at] = page
            if page != NO_PAGE:
                self._young[identity] = page
                if url is not None and page < self._first_new:
                    self._met_urls[page] = url
        return found
