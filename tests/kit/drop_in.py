"""Crawls the same spider with Scrapy alone and with the add-on, and compares the results."""

import logging
import re
from collections import Counter
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from crawls import ADDON, Answer, Site, run_spider
from scrapy import Spider

ROOT = "http://shop.test"
HTML = {"Content-Type": "text/html; charset=utf-8"}

STATS_THAT_VARY = re.compile(
    r"crawlprio/|elapsed_time_seconds|finish_time|start_time|memusage/|log_count/(DEBUG|INFO)"
    r"|responses_per_minute|items_per_minute|scheduler/(en|de)queued/(memory|disk)"
)
"""Stats that differ between any two crawls, or that only crawlprio has."""

COUNTED_AGAIN = ("downloader/request_", "scheduler/enqueued", "scheduler/dequeued")
"""Stats that count a request twice if the add-on puts it back into the queue."""

FIRST_LINK = {
    "downloader/request_bytes": "the Referer says who linked to a page first",
    "request_depth_max": "a page is as deep as who linked to it first",
}
"""What a crawl does not do in the same way twice, for `SpiderCase.unlike`."""

Asked = tuple[str, str, str, str]
"""Method, host, path and body of a request that a server received."""


class Brought(NamedTuple):
    """The results of a crawl."""

    items: Counter[str]
    asked_for: Counter[Asked]
    stats: dict[str, Any]
    log: Counter[str]
    """Warnings and errors, and the messages that `SpiderCase.logged` matches."""
    notes: list[Any]
    """What the spider wrote to its attribute `notes`, sorted."""


class SpiderCase:
    """A kind of spider, to be mixed into one; each subclass with `pages` is a test case.

    Attributes
    ----------
    pages
        what the server answers to a path: one answer, or those to the first, second, ... request.
    options
        the project's settings.
    notes
        what the spider has to say besides its items.
    logged
        pattern of log messages below WARNING that are compared too.
    unlike
        stats that may differ, each with the reason.
    """

    pages = {}
    options = {}
    logged = ""
    unlike = {}
    notes: list[Any]

    def __init_subclass__(cls):
        super().__init_subclass__()
        cls.name = cls.__name__

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.notes = []

    @classmethod
    def settings(cls, folder):
        """Return the settings for a crawl whose files go into its own folder."""
        return cls.options

    @classmethod
    def crawl(cls, folder, settings):
        """Crawl a fresh server; a crawl with more than one run overrides this."""
        with CountingSite(cls.pages) as site:
            return cls.brought(cls.run(folder, settings, site), site)

    @classmethod
    def run(cls, folder, settings, site):
        assert issubclass(cls, Spider)
        folder.mkdir(exist_ok=True)
        every = {**cls.settings(folder), **settings}
        with _debugging("scrapy" if cls.logged else ""):
            return run_spider(cls, every, site=site)

    @classmethod
    def brought(cls, run, site):
        """Return the results of a crawl, without what differs between any two crawls."""
        return Brought(
            items=Counter(repr(item) for item in run.items),
            asked_for=Counter(
                (fetch.method, fetch.host, fetch.path, fetch.body.decode("latin-1"))
                for fetch in site.fetches
            ),
            stats={
                name: value
                for name, value in run.stats.items()
                if not STATS_THAT_VARY.match(name) and name not in cls.unlike
            }
            | (
                {"given back": run.stats["crawlprio/given_back"]}
                if "crawlprio/given_back" in run.stats
                else {}
            ),
            log=Counter(
                _first_line(record.getMessage())
                for record in run.log
                if record.levelno >= logging.WARNING
                or (cls.logged and re.search(cls.logged, record.getMessage()))
            ),
            notes=sorted(getattr(run.spider, "notes", []), key=repr),
        )


def html(body="", *links, **headers):
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return Answer(f"<html><body>{body}{anchors}</body></html>", headers={**HTML, **headers})


WEB = {f"/{n}": html(f"page {n}", f"/{n + 1}", f"/{n + 2}", "/0") for n in range(10)}


class Web(SpiderCase, Spider):
    """Follows all links of a small web."""

    start_urls = (f"{ROOT}/0",)
    unlike = FIRST_LINK

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")


def kinds(variables):
    """Return the kinds of spider among the variables of a module."""
    return [
        pytest.param(kind, id=name)
        for name, kind in variables.items()
        if isinstance(kind, type) and issubclass(kind, SpiderCase) and kind.pages
    ]


def assert_alike(kind, folder):
    """Check that a spider has the same results with the add-on as with Scrapy alone."""
    plain = kind.crawl(folder / "plain", {})
    ours = kind.crawl(folder / "ours", ADDON)
    if ours.stats.pop("given back", 0):
        # A page whose site turns out to be busy passes the scheduler and middlewares once more.
        for name in [*plain.stats, *ours.stats]:
            if name.startswith(COUNTED_AGAIN):
                plain.stats.pop(name, None)
                ours.stats.pop(name, None)
    assert plain.asked_for or plain.items or plain.notes, "the case does nothing"
    found = differences(plain, ours)
    assert not found, "Scrapy alone -> with the add-on:\n" + "\n".join(found)


def differences(plain, ours):
    """Return what a crawl has more or less often than another, one line each."""
    found = []
    for name in ("items", "asked_for", "log"):
        first, second = getattr(plain, name), getattr(ours, name)
        found += [
            f"{name}: {first[thing]} -> {second[thing]} times {thing}"
            for thing in first | second
            if first[thing] != second[thing]
        ]
    found += [
        f"stats: {name}: {plain.stats.get(name)} -> {ours.stats.get(name)}"
        for name in sorted(plain.stats | ours.stats)
        if plain.stats.get(name) != ours.stats.get(name)
    ]
    if plain.notes != ours.notes:
        found.append(f"notes: {plain.notes} -> {ours.notes}")
    return found


@contextmanager
def _debugging(name):
    """Make a logger propagate everything."""
    logger = logging.getLogger(name)
    level = logger.level
    if name:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)


class CountingSite(Site):
    """A site whose response can depend on how often a path was requested before.

    The last of a path's responses serves all further requests.
    """

    def __init__(self, answers):
        super().__init__({})
        self._answers = answers
        self._n_asked = Counter()

    def answer_to(self, fetch):
        answer = self._answer_to(fetch)
        # Twisted itself repeats a request that is cut off on a reused connection.
        return answer._replace(headers={"Connection": "close", **answer.headers})

    def _answer_to(self, fetch):
        answers = self._answers.get(f"{fetch.host}{fetch.path}") or self._answers.get(fetch.path)
        if answers is None:
            return super().answer_to(fetch)
        if isinstance(answers, Answer):
            return answers
        n_asked = self._n_asked[fetch.path]
        self._n_asked[fetch.path] += 1
        return answers[min(n_asked, len(answers) - 1)]


def _first_line(message):
    """Return the first line of a message, without what differs from run to run.

    The referer of a page is whoever linked to it first, which several fetches in flight decide.
    """
    first = message.partition("\n")[0]
    return re.sub(r" \(referer: [^)]*\)|0x[0-9a-f]+|127\.0\.0\.1:\d+|/tmp/\S+", "…", first)
