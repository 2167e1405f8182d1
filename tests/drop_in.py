"""Crawls the same spider with Scrapy alone and with the add-on, and compares what both bring."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from crawls import ADDON, Answer, Fetch, Run, Site, run_spider
from scrapy import Spider

HTML = {"Content-Type": "text/html; charset=utf-8"}

STATS_THAT_VARY = re.compile(
    r"crawlprio/|elapsed_time_seconds|finish_time|start_time|memusage/|log_count/(DEBUG|INFO)"
    r"|responses_per_minute|items_per_minute|scheduler/(en|de)queued/(memory|disk)"
)
"""Stats that differ between any two crawls, or that are crawlprio's own."""

Asked = tuple[str, str, str, str]


class Brought(NamedTuple):
    """What a crawl brought."""

    items: Counter[str]
    fetches: Counter[Asked]
    """Method, host, path and body of what the server was asked for."""
    stats: dict[str, Any]
    warnings: Counter[str]
    reason: str
    notes: list[Any]
    """What the spider wrote into its attribute `notes`, sorted."""


class Both(NamedTuple):
    """A spider's crawl with Scrapy alone, and with the add-on."""

    plain: Brought
    ours: Brought


def brought(run: Run, site: Site) -> Brought:
    """Return what a crawl brought, without what differs between any two crawls."""
    notes = getattr(run.spider, "notes", [])
    return Brought(
        items=Counter(repr(item) for item in run.items),
        fetches=Counter(
            (fetch.method, fetch.host, fetch.path, fetch.body.decode("latin-1"))
            for fetch in site.fetches
        ),
        stats={name: value for name, value in run.stats.items() if not STATS_THAT_VARY.match(name)},
        warnings=Counter(_without_addresses(message) for message in run.messages()),
        reason=run.reason,
        notes=sorted(notes, key=repr),
    )


def crawl_both(
    spider: type[Spider] | Callable[[Site], type[Spider]],
    pages: Mapping[str, Answer] | Callable[[], Site],
    settings: Mapping[str, object] | None = None,
    **arguments: Any,
) -> Both:
    """Crawl with Scrapy alone, then with the add-on, each from a server of its own.

    Parameters
    ----------
    spider
        a class, or what makes one for the server at hand.
    pages
        what is answered, or what makes a server.
    settings
        of both crawls.
    """
    both = []
    for addon in ({}, ADDON):
        with Site(pages) if isinstance(pages, Mapping) else pages() as site:
            made = spider if isinstance(spider, type) else spider(site)
            run = run_spider(made, {**(settings or {}), **addon}, site=site, **arguments)
            both.append(brought(run, site))
    return Both(*both)


def html(body: str = "", *links: str, **headers: str) -> Answer:
    """Return a page with some text and links."""
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return Answer(f"<html><body>{body}{anchors}</body></html>", headers={**HTML, **headers})


class CountingSite(Site):
    """A site whose answer depends on how often a path was asked for before: `answers[path][n]`.

    The last of a path's answers holds for all further requests.
    """

    def __init__(self, answers: Mapping[str, list[Answer]]) -> None:
        super().__init__({})
        self._answers = answers
        self._n_asked: Counter[str] = Counter()

    def answer_to(self, fetch: Fetch) -> Answer:
        answers = self._answers.get(fetch.path)
        if answers is None:
            return super().answer_to(fetch)
        n_asked = self._n_asked[fetch.path]
        self._n_asked[fetch.path] += 1
        return answers[min(n_asked, len(answers) - 1)]


def _without_addresses(message: str) -> str:
    """A message without the first line's end and what differs from run to run."""
    first = message.splitlines()[0] if message else ""
    return re.sub(r"0x[0-9a-f]+|127\.0\.0\.1:\d+", "…", first)
