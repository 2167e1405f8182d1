"""Virtual crawls: the real engine on the demo web or a recording, served on loopback.

A virtual web starts the server, points Scrapy's download handlers at it, and knows the whole link
graph, so that a crawl of it can be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from crawlprio.demo.recordings import StoreWeb, WarcWeb, open_web, page_key
from crawlprio.demo.server import LoopbackServer
from crawlprio.demo.web import DemoWeb
from crawlprio.errors import ConfigError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.ranking.pagerank import pagerank, round_significant
from crawlprio.safe_files import is_missing
from crawlprio.settings_table.config import read_setting
from crawlprio.settings_table.setting_types import can_write

_Web = DemoWeb | WarcWeb | StoreWeb

_HANDLER = "crawlprio.demo.handler.LoopbackHandler"


class ReplayServer:
    """A web served on loopback in place of the real one, and known completely.

    It has a `name` in reports, default `seeds`, and the `hosts` that exist; `server` is the process
    that serves it.
    """

    def __init__(
        self, name: str, web: Callable[[], _Web], server: LoopbackServer, close: Callable[[], None]
    ) -> None:
        self.name = name
        self.seeds: Sequence[str] = list(server.seeds)
        self.hosts: Sequence[str] = list(server.hosts)
        self.server = server
        self._make_web = web
        self._close = close

    @classmethod
    def start(cls, crawler: Crawler, recording: Path | None) -> ReplayServer:
        """Serve a recording, or the demo web, and send all requests of a crawler there.

        Call it while the crawler's settings can still be changed. A recording that cannot be read,
        or a port in use, raises CrawlprioError.
        """
        settings = crawler.settings
        port = read_setting(settings, "CRAWLPRIO_DEMO_PORT")
        log = read_setting(settings, "CRAWLPRIO_SERVER_LOG")
        plot_path(settings)
        if recording is None:
            pages = read_setting(settings, "CRAWLPRIO_DEMO_PAGES")
            sites = read_setting(settings, "CRAWLPRIO_DEMO_SITES") or min(200, pages // 10)
            seed = read_setting(settings, "CRAWLPRIO_DEMO_SEED")
            if sites > pages:
                raise ConfigError(
                    f"CRAWLPRIO_DEMO_SITES is {sites}; give a whole number no larger than "
                    f"CRAWLPRIO_DEMO_PAGES, which is {pages}."
                )
            server = LoopbackServer(pages=pages, sites=sites, seed=seed, port=port, log=log)
            name = "demo web"
        else:
            opened = open_web(recording)
            server = LoopbackServer(recording=recording, port=port, log=log)
            name = f"recording {recording.name}"
        server.start()
        others = read_setting(settings, "DOWNLOAD_HANDLERS")
        handlers = {**others, "http": _HANDLER, "https": _HANDLER}
        above_given = SETTINGS_PRIORITIES["cmdline"] + 1  # so that a resume does not miss them
        settings.set("DOWNLOAD_HANDLERS", handlers, above_given)
        settings.set("CRAWLPRIO_LOOPBACK", server.address, above_given)
        settings.set("DOWNLOAD_DELAY", 0.02, "spider")
        # Answers come at once, so more fetches in flight would gain little and cost order.
        settings.set("CRAWLPRIO_MAX_CONCURRENT_REQUESTS", None, "spider")
        # Only a crawl that is evaluated generates the demo web here too.
        if recording is None:
            return cls(name, lambda: DemoWeb(pages, sites, seed), server, lambda: None)
        return cls(name, lambda: opened, server, opened.close)

    @cached_property
    def _web(self) -> _Web:
        return self._make_web()

    @cached_property
    def graph(self) -> LinkGraph:
        """All pages and links of the web, with URLs."""
        return self._web.graph()

    @cached_property
    def ranks(self) -> NDArray[np.float64]:
        """PageRank of each page of the graph, to 8 significant digits so that equal ranks tie."""
        return round_significant(pagerank(self.graph.indptr, self.graph.indices, tolerance=1e-13))

    @cached_property
    def _pages(self) -> dict[str, int]:
        urls = self.graph.urls or ()
        return {page_key(url) or url: page for page, url in enumerate(urls)}

    def has(self, url: str) -> bool:
        """Return whether a URL is a page of the recording, over http or https."""
        assert not isinstance(self._web, DemoWeb)
        return self._web.page(url) is not None

    def page(self, url: str) -> int:
        """Return the page of the graph at a URL, over http or https; -1 if there is none."""
        return self._pages.get(page_key(url) or url, -1)

    def rank(self, url: str) -> float:
        """Return the PageRank of the page at a URL; 0 if the graph does not have it."""
        page = self.page(url)
        return float(self.ranks[page]) if page >= 0 else 0.0

    def stop(self) -> None:
        """Stop the server, and close the recording."""
        self.server.stop()
        self._close()


def plot_path(settings: BaseSettings) -> Path | None:
    """Return CRAWLPRIO_PLOT, inside JOBDIR if set; raise ConfigError if it is not writable."""
    path: Path | None = read_setting(settings, "CRAWLPRIO_PLOT")
    folder = read_setting(settings, "JOBDIR")
    if path is not None and folder:  # which is created later, or refused
        return Path(folder, path)
    if path is not None and not can_write(path.parent if is_missing(path) else path):
        raise ConfigError(
            f"CRAWLPRIO_PLOT is {str(path)!r}, which is not writable; name a file in a writable "
            "folder, or None for no plot."
        )
    return path
