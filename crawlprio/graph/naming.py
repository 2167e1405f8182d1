"""Numbering of pages that are given by name: names to page ids, URLs to sites."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph.linkgraph import MAX_PAGES, LinkGraph
from crawlprio.graph.pages import PageIds
from crawlprio.graph.url_table import Urls

NUMBERED = re.compile("n?[0-9]+")
"""Node names without meaning: numbers, and numbers after an n."""

Sites = NDArray[np.int32]


def first_seen() -> defaultdict[Any, int]:
    """Return a dictionary that maps each new key to the next number, from 0."""
    numbers: defaultdict[Any, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


def sites_of(urls: Iterable[str]) -> tuple[Sites | None, list[str] | None]:
    """Return the site of each page and the host of each site, or (None, None) without any host.

    Sites are numbered in the order of their first page; URLs without a host share a site.
    """
    origins: dict[str, int] = {}
    hosts = first_seen()
    site = array("i")
    for url in urls:
        origin = "/".join(url.split("/", 3)[:3])
        known = origins.get(origin)
        if known is None:
            known = origins[origin] = hosts[_host(origin)]
        site.append(known)
    if not any(hosts):
        return None, None
    return np.array(site, dtype=np.int32), list(hosts)


def _host(origin: str) -> str:
    """Return the host name of an origin (scheme and authority), or an empty string."""
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def named_graph(
    subject: str,
    indptr: NDArray[np.int64],
    indices: PageIds,
    names: Sequence[Any],
    urls: Sequence[Any],
    sites: Sequence[Any],
) -> LinkGraph:
    """Return the graph of nodes that have attributes; raise GraphError for one of the wrong type.

    `names` are used as URLs if nodes have none, unless all names are numbers. `urls` and `sites`
    hold a value of each node, or None; either all nodes have one or none. Sites are site ids, or
    strings, which are host names; without sites, the hosts of the URLs are used.
    """
    given = _all_or_none(subject, "url", names, urls)
    if given is None and any(not _is_number(name) for name in names):
        given = [str(name) for name in names]
    for page, url in enumerate(given or ()):
        if not isinstance(url, str):
            raise GraphError(
                f"{subject}: node {names[page]!r} has the url {url!r}; it must be a string."
            )
    site: NDArray[Any] | None = None
    hosts: list[str] | None = None
    given_sites = _all_or_none(subject, "site", names, sites)
    if given_sites is None:
        site, hosts = sites_of(given or ())
    elif all(isinstance(value, str) for value in given_sites):
        number = first_seen()
        site = np.array([number[value] for value in given_sites], dtype=np.int32)
        hosts = list(number)
    else:
        site = _site_ids(subject, names, given_sites)
    try:
        return LinkGraph.cleaned(
            indptr,
            indices,
            site=site,
            urls=None if given is None else Urls(given),
            hosts=hosts,
            in_place=True,
        )
    except GraphError as error:
        raise GraphError(f"{subject}: {error}") from None


def _is_number(name: object) -> bool:
    """Whether the name of a node is just a number."""
    if isinstance(name, str):
        return NUMBERED.fullmatch(name) is not None
    return isinstance(name, int | np.integer)


def _all_or_none(
    subject: str, attribute: str, names: Sequence[Any], values: Sequence[Any]
) -> Sequence[Any] | None:
    """Return the values, or None if no node has one."""
    lacking = [page for page, value in enumerate(values) if value is None]
    if len(lacking) == len(values):
        return None
    if lacking:
        raise GraphError(
            f"{subject}: node {names[lacking[0]]!r} has no {attribute} but others have one; "
            "set it on all nodes or on none."
        )
    return values


def _site_ids(subject: str, names: Sequence[Any], sites: Sequence[Any]) -> NDArray[np.int64]:
    """Return site ids as an array; floats with whole values are accepted."""
    ids = np.zeros(len(sites), dtype=np.int64)
    for page, value in enumerate(sites):
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if not is_number or not 0 <= value < MAX_PAGES or int(value) != value:
            raise GraphError(
                f"{subject}: node {names[page]!r} has the site {value!r}; sites must be host "
                f"names, or whole numbers from 0 to {MAX_PAGES - 1}."
            )
        ids[page] = int(value)
    return ids
