"""The whole link graph of a served web, by which a crawl of it can be judged."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import zipfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urljoin

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from crawlprio.demo import recordings
from crawlprio.demo.recordings import StoreWeb, WarcWeb
from crawlprio.demo.web import DemoWeb
from crawlprio.outside.opening import replacing
from crawlprio.web import html as extraction
from crawlprio.web.html import parse_page
from crawlprio.web.urls import host_of, normalise_url

logger = logging.getLogger(__name__)

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
    parsed at about 7,000 per second, and the result is cached in the user's cache folder
    (`crawlprio` in `$XDG_CACHE_HOME`, or else in `~/.cache`) until the file changes. A terminal
    shows a progress bar.
    """
    if isinstance(web, DemoWeb):
        return web.indptr, web.indices, web.site, web.urls()
    if isinstance(web, StoreWeb):
        indptr, indices = _assemble(_store_rows(web), len(web))
    else:
        kept = _cache_file(web.path)
        links = _read_cache(kept, len(web))
        if links is None:
            links = _assemble(_warc_rows(web), len(web))
            _write_cache(kept, *links)
        indptr, indices = links
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


def _cache_file(path: Path) -> Path:
    """Return the path of a file's cached graph; the name depends on the file and on this code."""
    status = path.stat()
    mark = hashlib.sha256()
    for part in (path.resolve(), status.st_size, status.st_mtime_ns, version("selectolax")):
        mark.update(f"{part}\n".encode())
    for module in (extraction, recordings, sys.modules[__name__]):
        mark.update(Path(str(module.__file__)).read_bytes())
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "crawlprio" / f"graph-{mark.hexdigest()[:24]}.npz"


def _read_cache(file: Path, n_pages: int) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
    """Return the links in a cache file, or None if it is missing or damaged."""
    try:
        with np.load(file) as kept:
            indptr, indices = kept["indptr"], kept["indices"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return (indptr, indices) if len(indptr) == n_pages + 1 else None


def _write_cache(file: Path, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> None:
    """Cache the links atomically; if the folder is not writable, only time is lost."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, "wb", private=True) as unfinished:
            np.savez(unfinished, indptr=indptr, indices=indices)
    except OSError as error:
        logger.info("The link graph cannot be cached, so the next run reads it again: %s", error)
