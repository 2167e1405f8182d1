"""From URLs to page ids: new pages get the next ids, as far as the budgets have room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from time import time

import numpy as np

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.identity import Identities
from crawlprio.pages import NO_PAGE, NO_PAGES, PageTable, Visit
from crawlprio.web.budgets import NO_SITE, Budgets
from crawlprio.web.urls import host_if_any, host_of

REFUSED_TEXT = 4_096
"""Characters that the links refused by a budget take in the record of one page; the rest of them
are counted, not recorded."""


class Discovery:
    """Finds the pages of links in the page table, and adds those that are new.

    Parameters
    ----------
    pages
        the page table.
    identities
        decides when two URLs are the same page.
    budgets
        what a site, a domain, a pattern and the crawl may have.
    refused
        called with the reason and the URL when a budget has no room for a page.
    """

    def __init__(
        self,
        pages: PageTable,
        identities: Identities,
        budgets: Budgets,
        refused: Callable[[str, str], object],
    ) -> None:
        self._pages = pages
        self._identities = identities
        self._budgets = budgets
        self._refused = refused

    def add_page(self, identity: str, url: str, site: int, depth: int) -> int:
        """Add a new page under the next id, whether or not the budgets have room for it."""
        self._budgets.add(site, self._pages.host(site), url)
        return self._pages.add(identity, url, site, depth)

    def page_of(self, identity: str, url: str, host: str, depth: int) -> int:
        """Return the page with an identity, added if it is new, with or without room for it."""
        page = self._pages.find(identity)
        if page == NO_PAGE:
            page = self.add_page(identity, url, self._pages.site(host), depth)
        return page

    def domain_of(self, site: int) -> int:
        """Return a number of 32 bits for the registered domain of a site, not 0."""
        return self._budgets.domain(site, self._pages.host(site))

    def has_room(self, site: int, url: str) -> bool:
        """Return whether the budgets of a site, its domain and its pattern have room for a page."""
        refusal = self._budgets.refuses(site, self._pages.host(site), url)
        if refusal:
            self._refused(refusal, url)
        return not refusal

    def find_or_add(self, urls: Iterable[str], depth: int, source: int = NO_PAGE) -> list[int]:
        """Return the pages that plain links of a page lead to, adding new ones with the next ids.

        A link that a budget has no room for is `NO_PAGE`.
        """
        urls = list(urls)
        pages = self._pages
        found = pages.find_all(urls)
        if NO_PAGE not in found:
            return found
        identity_of, site_of = self._identities.of_url, pages.site
        take, add = self._budgets.take, pages.add
        source_site = NO_SITE if source == NO_PAGE else int(pages.sites[source])
        added: dict[str, int] = {}
        bounds_sites = source_site != NO_SITE and self._budgets.limits_sites
        n_new_sites = 0
        for at, url in enumerate(urls):
            if found[at] != NO_PAGE:
                continue
            identity = identity_of(url)
            page = added.get(identity, NO_PAGE)
            if page == NO_PAGE and identity != url:
                page = pages.find(identity)
            if page == NO_PAGE:
                host = host_of(url)
                if bounds_sites and not pages.knows_host(host):
                    n_new_sites += 1
                    if not self._budgets.take_site(
                        n_new_sites, pages.n_sites, source_site, pages.host(source_site)
                    ):
                        self._refused("sites", url)
                        continue
                site = site_of(host)
                refusal = take(site, host, url, len(pages), source_site)
                if refusal:
                    self._refused(refusal, url)
                else:
                    page = added[identity] = add(identity, url, site, depth)
            found[at] = page
        return found

    def _find_known(self, urls: list[str]) -> list[int]:
        """Return the pages that links lead to, `NO_PAGE` for those that are unknown."""
        pages, identity_of = self._pages, self._identities.of_url
        found = pages.find_all(urls)
        for at, url in enumerate(urls):
            if found[at] == NO_PAGE and pages.knows_host(host_if_any(url)):
                identity = identity_of(url)
                if identity != url:
                    found[at] = pages.find(identity)
        return found

    def visit_of(self, page: int, reported: PageVisit) -> Visit:
        """Return a visit with page ids for its links: distinct targets, without the page itself.

        The links that are followed come first, in page order, then other links to known pages.
        """
        pairs = reported.pairs
        anchors, outside = pairs.anchors, pairs.outside
        if reported.links_are_entries:
            found = self._pages.find_all(pairs.targets)
        else:
            depth = 0 if page == NO_PAGE else int(self._pages.depths[page]) + 1
            found = self.find_or_add(pairs.targets, depth, page)
        targets = found
        if len(set(found)) != len(found) or page in found or NO_PAGE in found:
            first_at: dict[int, int] = {}
            for at, target in enumerate(found):
                first_at.setdefault(target, at)
            first_at.pop(page, None)
            was_refused = first_at.pop(NO_PAGE, None) is not None
            targets = list(first_at)
            anchors = [pairs.anchors[at] for at in first_at.values()] if pairs.anchors else []
            if was_refused and not reported.links_are_entries:
                outside = [*outside, *_recorded_of_refused(pairs, found)]
        known = self._find_known([url for url, _ in outside]) if outside else ()
        if known and max(known) != NO_PAGE:
            # Scope decides which links are followed, not which are edges of the graph.
            places = dict.fromkeys(targets)
            places[page] = None
            anchors = list(anchors or [""] * len(targets))
            targets = list(targets)
            rest = []
            for link, target in zip(outside, known, strict=True):
                if target == NO_PAGE:
                    rest.append(link)
                elif target not in places:
                    places[target] = None
                    targets.append(target)
                    anchors.append(link[1])
            outside = rest
        return Visit(
            page=page,
            targets=np.array(targets, dtype=np.int32) if targets else NO_PAGES,
            anchors=anchors,
            outside=outside,
            status=pairs.status,
            title=pairs.title,
            text=pairs.text,
            content_hash=pairs.content_hash,
            n_bytes=pairs.n_bytes,
            fetched_at=reported.fetched_at or time(),
            elapsed=reported.elapsed,
            error=reported.error,
            directives=pairs.directives,
            value=pairs.value,
            fingerprint=pairs.fingerprint,
            body=reported.body,
            notes=pairs.notes,
        )


def _recorded_of_refused(pairs: LinkPairs, found: list[int]) -> Iterator[tuple[str, str]]:
    """Yield URL and anchor of the first links that no budget had room for, up to `REFUSED_TEXT`."""
    room = REFUSED_TEXT
    for url, anchor, page in zip(pairs.targets, pairs.anchors or repeat(""), found, strict=False):
        if page == NO_PAGE:
            room -= len(url) + len(anchor)
            if room < 0:
                return
            yield url, anchor
