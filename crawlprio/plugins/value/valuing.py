"""The parts of a crawl that read texts: their value by a model, their language, fingerprints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Thread

from scrapy.http import Response
from scrapy.utils.asyncio import CallLaterResult, call_later, is_asyncio_available
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from crawlprio.errors import CrawlprioError
from crawlprio.items import LinkPairs, TextNotes
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.plugins.value.fingerprints import fingerprints
from crawlprio.plugins.value.model import Page, language_of, page_of
from crawlprio.settings_table.config import is_kept, read_setting
from crawlprio.web.anchors import ParsedPage
from crawlprio.web.robots_txt import joined


class Valuer(CrawlPart):
    """Scores each page before its visit is observed.

    A model that runs `here` scores at once. Any other runs in a thread, one batch at a time: the
    pages that arrive meanwhile are the next batch. The thread is a daemon, so that a model that
    hangs does not keep the process alive. A model that fails or does not answer in time ends the
    crawl, and leaves the pages that wait without a value.
    """

    is_in_workers = reads_text = stores_text = True

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        model = crawl.config.value_model
        assert model is not None
        self._model = model
        self._waiting: list[tuple[Page, Deferred[float | None]]] = []
        self._running: list[tuple[Page, Deferred[float | None]]] = []
        self._alarm: CallLaterResult | None = None
        self._is_closed = False

    def figures(self) -> dict[str, str]:
        counts = self.crawl.recorder.figures
        mean = counts.value / max(counts.n_fetched, 1)
        return {"value found": f"{counts.value:,.1f} in all, {mean:.3f} a page"}

    def closed(self, reason: str = "") -> None:
        """Leave all pages that still wait without a value."""
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        unanswered = [*self._running, *self._waiting]
        self._running, self._waiting = [], []
        for _, answer in unanswered:
            answer.callback(None)

    async def judge(self, pairs: LinkPairs) -> None:
        """Set the value of a fetched page; one without text is worth 0."""
        if self._is_closed or not 200 <= pairs.status < 300:
            return
        language = "" if pairs.notes is None else pairs.notes.language
        page = page_of(pairs.source, pairs.title, pairs.text, language)
        if not (page.text or page.title):
            pairs.value = 0.0
        elif self._model.runs_in == "here":
            try:
                pairs.value = self._model.score(page)
            except CrawlprioError as error:
                self._fail(error)
        else:
            answer: Deferred[float | None] = Deferred()
            self._waiting.append((page, answer))
            self._start()
            pairs.value = await maybe_deferred_to_future(answer)

    def _start(self) -> None:
        """Score the next batch, unless one is being scored."""
        if self._running or not self._waiting:
            return
        n = self._model.batch
        self._running, self._waiting = self._waiting[:n], self._waiting[n:]
        batch = [page for page, _ in self._running]
        self._alarm = call_later(self._model.timeout, self._late, batch)
        call_soon: Callable[..., object]
        if is_asyncio_available():
            call_soon = asyncio.get_running_loop().call_soon_threadsafe
        else:
            from twisted.internet import reactor

            call_soon = reactor.callFromThread
        Thread(target=self._score, args=(batch, call_soon), daemon=True).start()

    def _score(self, batch: list[Page], call_soon: Callable[..., object]) -> None:
        """Score a batch, in the thread."""
        try:
            answer: Sequence[float] | CrawlprioError = self._model.score_all(batch)
        except CrawlprioError as error:
            answer = error
        call_soon(self._done, answer)

    def _done(self, answer: Sequence[float] | CrawlprioError) -> None:
        if self._is_closed:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        if isinstance(answer, CrawlprioError):
            self._fail(answer)
            return
        scored, self._running = self._running, []
        self._start()
        for (_, waiting), value in zip(scored, answer, strict=True):
            waiting.callback(value)

    def _late(self, batch: list[Page]) -> None:
        self._alarm = None
        did = f"has not answered for {self._model.timeout:g} seconds"
        self._fail(self._model.error(did, batch))

    def _fail(self, error: CrawlprioError) -> None:
        self.closed()
        self.crawl.fail(error)


class Languages(CrawlPart):
    """Notes the language and the licence of each page whose text is kept."""

    keeps = is_in_workers = reads_text = stores_text = True

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        is_kept(crawl.crawler.settings, "CRAWLPRIO_KEEP_TEXT", "texts")

    def read(self, pairs: LinkPairs, response: Response, page: ParsedPage) -> None:
        if pairs.text:
            language, licence = language_of(pairs.text), joined(page.licences)
            pairs.notes = TextNotes(language, page.language, licence)


class Fingerprints(CrawlPart):
    """Takes the fingerprint of each page for the crawl's `Novelty`."""

    is_in_workers = reads_text = True

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        self._fingerprint = fingerprints(read_setting(crawl.crawler.settings, "CRAWLPRIO_NOVELTY"))

    def read(self, pairs: LinkPairs, response: Response, page: ParsedPage) -> None:
        pairs.fingerprint = self._fingerprint(pairs.text, pairs.content_hash)
