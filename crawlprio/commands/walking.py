"""The crawl that proves what another one has: it fetches the pages that random walks come to.

It has the settings, middlewares and delays of the crawl that it judges; its spider follows no link
but those of the walks. Each page that it got is kept in a file beside the store, so that a run that
is killed, or one with more walks, fetches no page twice.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import Response

from crawlprio.commands.planning import planning_settings
from crawlprio.config import read_setting, scrapys_own
from crawlprio.errors import StoreError
from crawlprio.items import LinkPairs
from crawlprio.live.crawl import Crawl
from crawlprio.pages import NO_PAGE, Visit
from crawlprio.ranking.walks import CONFIDENCE, Walks
from crawlprio.receipt.reading import StoredCrawl
from crawlprio.receipt.rules import CERTIFICATE_KEY
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.outcomes import REFUSED, ROBOTS
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.urls import host_of

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


def walking_settings(settings: BaseSettings, folder: str) -> dict[str, Any]:
    """Return what the walks have otherwise than the crawl; their store goes to `folder`."""
    return {
        **planning_settings(settings, folder),
        **scrapys_own(settings, ["CLOSESPIDER_PAGECOUNT"]),
        "CLOSESPIDER_TIMEOUT": 0,
        "CRAWLPRIO_PROGRESS": read_setting(settings, "CRAWLPRIO_PROGRESS"),
        "CRAWLPRIO_SITEMAPS": None,
        "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None,
    }


class Evidence:
    """The links of the pages that walks came to, in a file of JSON lines, one for each page.

    The first line names the store. What a crash cut short is left out.

    Raises
    ------
    StoreError
        If the file cannot be read or written.
    """

    def __init__(self, path: Path, created: str) -> None:
        kept = _lines_of(path)
        self.found: dict[str, list[str]] = {}
        if kept[:1] == [{"store": created}]:
            self.found = {line["url"]: line["links"] for line in kept[1:]}
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self._file = unfinished.open("w", encoding="utf-8")
            self._write({"store": created})
            for url, links in self.found.items():
                self._write({"url": url, "links": links})
            self._file.flush()
            os.replace(unfinished, path)
        except OSError as error:
            raise StoreError(f"{path} cannot be written ({error.strerror}).") from None

    def add(self, url: str, links: list[str]) -> None:
        """Keep the links of a page."""
        self.found[url] = links
        self._write({"url": url, "links": links})
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")


def _lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file up to the first that is damaged; none if there is no file."""
    lines: list[dict[str, Any]] = []
    try:
        for line in path.read_text("utf-8", errors="replace").splitlines():
            found = json.loads(line)
            if lines and not {"url", "links"} <= found.keys():
                break
            lines.append(found)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, AttributeError):
        pass
    return lines


class Judged:
    """A crawl that walks are to judge: what it fetched, by page, and the ids of other pages.

    Parameters
    ----------
    path
        Its store, which is read once.

    Attributes
    ----------
    created, n_visits
        Which store it is, and how many visits it held.
    redirected
        URLs to which its seeds redirected.
    crawl
        The crawl by page.

    Raises
    ------
    StoreError
        If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        with Store.open(path, readonly=True) as store, store.snapshot():
            self.created, self.n_visits = store.get_meta("created"), store.n_visits
            self.redirected = store.redirected_seeds()
            self._pages = store.load_pages()
            self.crawl = StoredCrawl.read(store)
        self._others: dict[str, int] = {}
        self._urls: list[str] = []
        self._depths: list[int] = []

    def walks(self, n_walks: int) -> Walks:
        """Return the walks, which are the same for the same store and number of walks."""
        return Walks(self.crawl.fetches, self.crawl.is_got, n_walks, seed=self.created)

    def knows(self, identity: str) -> bool:
        """Return whether the crawl knew a page."""
        return self._pages.find(identity) != NO_PAGE

    def page(self, identity: str, url: str, depth: int = 1) -> int:
        """Return the id of a page: that of the crawl, or for another page, one from its size.

        `depth` is that of a page that neither the crawl nor a walk has met before.
        """
        page = self._pages.find(identity)
        if page != NO_PAGE:
            return page
        if identity not in self._others:
            self._others[identity] = len(self._pages) + len(self._others)
            self._urls.append(url)
            self._depths.append(depth)
        return self._others[identity]

    def url(self, page: int) -> str:
        """Return the URL of a page."""
        n = len(self._pages)
        return self._pages.url(page) if page < n else self._urls[page - n]

    def depth(self, page: int) -> int:
        """Return how many links a page was from a seed when it was first met."""
        n = len(self._pages)
        return int(self._pages.depths[page]) if page < n else self._depths[page - n]


class WalkSpider(SiteSpider):
    """Fetches the pages that walks ask for.

    Attributes
    ----------
    judged, walks, evidence
        The crawl to judge, the walks, and where their pages are kept.
    """

    judged: Judged
    walks: Walks
    evidence: Evidence

    @classmethod
    def from_crawler(
        cls,
        crawler: Crawler,
        *args: Any,
        judged: Judged,
        walks: Walks,
        evidence: Evidence,
        **kwargs: Any,
    ) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.judged, spider.walks, spider.evidence = judged, walks, evidence
        spider._found = {}
        crawl = Crawl.of(crawler)
        crawl.on_visit = spider._visited
        crawl.on_close(lambda reason: spider.evidence.close())
        return spider

    _found: dict[int, list[str]]

    async def start(self) -> AsyncIterator[Any]:
        """Request the first pages of the walks."""
        crawl = Crawl.of(self.crawler)
        for url in self.judged.redirected:
            self.scope.add_seed(url)
        for url, links in self.evidence.found.items():
            self._answer(self._page(url), links)
        try:
            await crawl.admit_seeds(map(host_of, self.seeds))
        finally:
            crawl.awaits_seeds = False
        for page in self.walks.wanted:
            yield self._request(page)

    def parse(self, response: Response, **_: Any) -> Iterator[LinkPairs | Request]:
        """Note the links of a page, and let the crawl follow none."""
        for pairs in super().parse(response):
            if isinstance(pairs, LinkPairs):
                of_url = Crawl.of(self.crawler).identities.of_url
                outside = [url for url, _ in pairs.outside if self.judged.knows(of_url(url))]
                self._found[self._page(pairs.source)] = [*pairs.targets, *outside]
                yield LinkPairs(pairs.source, [], status=pairs.status, n_bytes=pairs.n_bytes)

    def _check_fetched(self, reason: str) -> None:
        """Take the walks for done even if they got no page."""

    def _visited(self, visit: Visit) -> None:
        """Tell the walks what a page links to, and request the pages that they come to next.

        A page that failed for a cause that may pass leaves its walks open. They would go on from a
        seed, as from a page without links, and an outage would prove that all was fetched.
        """
        is_refused = visit.status == 0 and visit.error.startswith((ROBOTS, REFUSED))
        may_pass = visit.status in (0, 429) or visit.status >= 500
        if visit.page == NO_PAGE or (may_pass and not is_refused):
            return
        pages = Crawl.of(self.crawler).recorder.pages
        url = pages.url(visit.page)
        page = self._page(url)
        links = self._found.pop(page, None)
        if links is None:
            links = pages.urls(visit.targets.tolist())
        self.evidence.add(url, links)
        for wanted in self._answer(page, links):
            self.crawler.engine.crawl(self._request(wanted))

    def _answer(self, page: int, links: list[str]) -> list[int]:
        depth = self.judged.depth(page) + 1
        ids = dict.fromkeys(self._page(url, depth) for url in links)
        ids.pop(page, None)
        return self.walks.answer(page, list(ids))

    def _page(self, url: str, depth: int = 1) -> int:
        return self.judged.page(Crawl.of(self.crawler).identities.of_url(url), url, depth)

    def _request(self, page: int) -> Request:
        meta = {
            "depth": max(self.judged.depth(page), 1),
            ALLOW_PRIVATE: Crawl.of(self.crawler).addresses.is_open,
        }
        return Request(self.judged.url(page), meta=meta)


def certificate_of(spider: WalkSpider) -> dict[str, Any]:
    """Return what the walks prove, as a part of the receipt."""
    found, judged = spider.walks.certificate(), spider.judged
    return {
        "confidence": CONFIDENCE,
        "at_least": math.floor(found.at_least * 1e4) / 1e4,
        "at_most": min(math.ceil(found.at_most * 1e4) / 1e4, 1.0),
        "likely": round(found.likely, 4),
        "walks": found.n_walks,
        "ended_at_pages_got": found.n_back,
        "unfinished": found.n_open,
        "pages_fetched": len(spider.evidence.found),
        "visits": judged.n_visits,
    }


def keep_certificate(path: Path, certificate: dict[str, Any] | None) -> None:
    """Record a certificate in the store that it is about; None: check that this could be done.

    Raises
    ------
    StoreError
        If the store cannot be written: its crawl runs, say.
    """
    with Store.open(path) as store:
        if certificate is not None:
            store.set_meta(CERTIFICATE_KEY, json.dumps(certificate))
        if store.ended_at is not None:  # or else the crawl would seem to have been killed
            store.end_run(store.ended_at)
