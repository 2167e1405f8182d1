"""The whole link graph of a served web, by which a crawl of it can be judged."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias
from urllib.parse import urljoin

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from crawlprio.demo.recordings import StoreWeb, WarcWeb
from crawlprio.demo.web import DemoWeb
from crawlprio.web.html import parse_page
from crawlprio.web.urls import host_of, normalise_url

_HTML = ("text/html", "application/xhtml+xml")

_SCHEME_ALONE = re.compile(rb"(?i)https?:(?![/\\]{2})")
"""Matches links such as `http:page`, which are relative on http pages but name a host on https."""

WholeGraph: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], list[str]]
"""`indptr`, `indices`, `site`, `urls`: the links as rows, and the site and URL of each page."""


def whole_graph(web: DemoWeb | WarcWeb | StoreWeb) -> WholeGraph:
    """Return the links between all pages of a web, as recorded by a crawl that fetches them all.

    Links are distinct, in page order, without self-links; nofollow links, and links to pages that
    the web does not have, are left out. A redirect has one link, its target. Pages of a recording
    are the same over http and https. Sites are numbered in order of their first page.

    Cost: nothing for a demo web, one pass over the visits for a store. The pages of a WARC file are
    parsed at about 7,000 per second. A terminal shows a progress bar.
    """
    if isinstance(web, DemoWeb):
        return web.indptr, web.indices, web.site, web.urls()
    if isinstance(web, StoreWeb):
        indptr, indices = _assemble(_store_rows(web), len(web))
    else:
        indptr, indices = _assemble(_warc_rows(web), len(web))
    return indptr, indices, _sites(web.urls()), web.urls()


def _warc_rows(web: WarcWeb) -> Iterator[list[int]]:
    """Yield the links of each page by parsing it."""
    for page in range(len(web)):
        answer = web.response(page)
        url = web.url(page)
        headers = {name.lower(): text for name, text in answer.headers.items()}
        if 300 <= answer.status < 400:
            yield _known(web, page, [normalise_url(urljoin(url, headers.get("location", "")))])
            continue
        content_type = headers.get("content-type", "text/html")
        is_html = content_type.partition(";")[0].strip().lower() in _HTML
        rules = headers.get("x-robots-tag", "").lower().replace(" ", "").split(",")
        if not (is_html and 200 <= answer.status < 300) or "nofollow" in rules or "none" in rules:
            yield []
            continue
        addresses = [url]
        if _SCHEME_ALONE.search(answer.body):
            addresses = [f"{scheme}://{url.partition('://')[2]}" for scheme in ("http", "https")]
        links = []
        for address in addresses:
            parsed = parse_page(answer.body, address, content_type=content_type)
            links += [] if parsed.nofollow else parsed.links
        yield _known(web, page, [link.url for link in links if not link.nofollow])


def _store_rows(web: StoreWeb) -> Iterator[list[int]]:
    """Yield the links of each page as recorded by its last visit."""
    for page in range(len(web)):
        visit = web.visit(page)
        good = visit.status == 200 or 300 <= visit.status < 400
        yield _known(web, page, web.links(visit) if good else ())


def _known(web: WarcWeb | StoreWeb, page: int, urls: Iterable[str | None]) -> list[int]:
    """Return the distinct known pages among URLs, in order, without `page`."""
    found = dict.fromkeys(web.page(url) for url in urls if url is not None)
    found.pop(page, None)
    return [target for target in found if target is not None]


def _assemble(
    rows: Iterable[Sequence[int]], n_pages: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Concatenate rows, with a progress bar on a terminal."""
    if sys.stderr.isatty():
        rows = track(
            rows,
            "reading the whole graph",
            total=n_pages,
            console=Console(stderr=True),
            transient=True,
        )
    indptr = np.zeros(n_pages + 1, dtype=np.int64)
    flat = array("i")
    for page, row in enumerate(rows):
        flat.extend(row)
        indptr[page + 1] = len(flat)
    return indptr, np.array(flat, dtype=np.int32)


def _sites(urls: Sequence[str]) -> NDArray[np.int32]:
    """Return the site of each page, with sites numbered in order of appearance."""
    numbers: dict[str, int] = {}
    sites = [numbers.setdefault(host_of(url), len(numbers)) for url in urls]
    return np.array(sites, dtype=np.int32)
