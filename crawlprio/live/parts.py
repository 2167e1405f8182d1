"""Parts of a crawl, which take part in its life without being named by it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.http import Response
from scrapy.utils.serialize import ScrapyJSONEncoder

from crawlprio.errors import CrawlprioError
from crawlprio.items import LinkPairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crawlprio.graph.pages import Visit
    from crawlprio.live.running import RunningCrawl

logger = logging.getLogger("crawlprio")


class CrawlPart:
    """What a crawl does beyond fetching pages in order, such as keeping items; does nothing itself.

    The table `PARTS` of `crawlprio.live.running` names each part by the setting that turns it on. A
    part that writes to the crawl store attaches a `crawlprio.store.Companion` to it.

    Parameters
    ----------
    crawl
        The crawl, which has settings and nothing else yet.

    Raises
    ------
    ConfigError
        What the part needs is missing: the crawl is refused before anything is created.
    """

    keeps = False
    """Whether it only keeps what was crawled: a person who inspects a page has no use for it."""

    def __init__(self, crawl: RunningCrawl) -> None:
        self.crawl = crawl

    def opened(self) -> None:
        """Begin, now that store, frontier and spider are open; an error refuses the crawl."""

    def read(self, pairs: LinkPairs) -> None:
        """Add to what was read of a page, which has its text if the crawl wants texts."""

    async def judge(self, pairs: LinkPairs) -> None:
        """Judge a page; its visit waits until this returns."""

    def visited(self, visit: Visit) -> None:
        """Take note of a visit, just recorded or of an earlier run, in their order."""

    def closed(self, reason: str) -> None:
        """End, for Scrapy's reason, while store and frontier are still open."""

    def ended(self) -> None:
        """Write what can be written only after the store was closed."""


class Callbacks(CrawlPart):
    """Calls functions: `visited` with each visit, or `closed` when a crawl closes."""

    def __init__(self, **hooks: Callable[..., object]) -> None:
        vars(self).update(hooks)


class Parts:
    """All parts of a crawl, as one."""

    def __init__(self) -> None:
        self._all: list[CrawlPart] = []
        self._methods: dict[str, list[Callable[..., Any]]] = {}

    def add(self, *parts: CrawlPart) -> None:
        """Add parts behind the others, which they follow in everything."""
        self._all += parts
        self._methods.clear()

    def add_first(self, *parts: CrawlPart) -> None:
        """Add parts before all others."""
        self._all[:0] = parts
        self._methods.clear()

    def __iter__(self) -> Iterator[CrawlPart]:
        return iter(self._all)

    @property
    def sees_visits(self) -> bool:
        """Whether any part takes note of visits, and so of those that a resume replays."""
        return bool(self._defined("visited"))

    @property
    def judges(self) -> bool:
        """Whether any part judges pages."""
        return bool(self._defined("judge"))

    def read(self, pairs: LinkPairs) -> None:
        for read in self._defined("read"):
            read(pairs)

    async def judge(self, pairs: LinkPairs) -> None:
        for judge in self._defined("judge"):
            await judge(pairs)

    def visited(self, visit: Visit) -> None:
        for visited in self._defined("visited"):
            visited(visit)

    def _defined(self, name: str) -> list[Callable[..., Any]]:
        """Return the methods of this name of all parts that define it: few, and called often."""
        if name not in self._methods:
            self._methods[name] = [
                getattr(part, name)
                for part in self._all
                if name in vars(part) or getattr(type(part), name) is not getattr(CrawlPart, name)
            ]
        return self._methods[name]


class ItemKeeper(CrawlPart):
    """Takes each item as it leaves the pipelines, and keeps it until its page is recorded.

    Items are stored as the JSON that Scrapy's feeds write. `LinkPairs` are skipped: the store has
    them as visits. An item that belongs to no page, as `start` yields it, is stored at once.
    """

    keeps = True

    def opened(self) -> None:
        self._crawler = self.crawl.crawler
        self._encode = ScrapyJSONEncoder(ensure_ascii=False).encode
        self._has_logged = False
        self._crawler.signals.connect(self._keep, signal=signals.item_scraped)

    def _keep(self, item: Any, response: Response | None) -> None:
        if isinstance(item, LinkPairs):
            return
        try:
            text = self._encode(ItemAdapter(item).asdict())
        except (TypeError, ValueError, RecursionError) as error:
            self._refuse(item, error)
            return
        assert self.crawl.dispatcher is not None
        request = None if response is None else response.request
        lease = None if request is None else self.crawl.dispatcher.lease_of(request)
        self._crawler.stats.inc_value("crawlprio/items_kept")
        if lease is not None and not lease.is_observed:
            lease.items.append(text)
            return
        try:
            self.crawl.recorder.keep_item(text)
        except CrawlprioError as error:
            self.crawl.fail(error)

    def _refuse(self, item: Any, error: Exception) -> None:
        self._crawler.stats.inc_value("crawlprio/items_not_kept")
        if not self._has_logged:
            self._has_logged = True
            logger.error(
                "An item of type %s cannot be stored as JSON (%s); others like it are counted in "
                "the stats.",
                type(item).__name__,
                error,
            )
