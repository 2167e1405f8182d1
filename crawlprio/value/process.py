"""A value model in a process of its own, for one that computes long in Python."""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from crawlprio.value.base import Page, ScoredModel, ValueModelError
from crawlprio.value.own import load_own


class ProcessModel:
    """Runs a user's model in another process, which is started with the first page.

    Parameters
    ----------
    model
        The model in this process; only its attributes are read.
    path, argument
        Import path of its class, and what its `__init__` takes.
    """

    runs_in = "thread"

    def __init__(self, model: Any, path: str, argument: str | None) -> None:
        self.batch = getattr(model, "batch", 32)
        self.timeout = getattr(model, "timeout", 60.0)
        self.needs_language = getattr(model, "needs_language", False)
        self._made_of = path, argument
        self._pipe: Connection | None = None

    def score_pages(self, pages: list[Page]) -> list[Any]:
        """Return what the model answers; raise ValueModelError if it raises or its process dies."""
        if self._pipe is None:
            # A forked process would have the event loop and the sockets of the crawl.
            context = get_context("spawn")
            self._pipe, there = context.Pipe()
            context.Process(target=_serve, args=(there, *self._made_of), daemon=True).start()
            there.close()
        try:
            self._pipe.send([tuple(page) for page in pages])
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise RuntimeError("its process ended") from error
        if isinstance(answer, str):
            raise ValueModelError(answer)
        return list(answer)

    def score_page(self, page: Page) -> float:
        return float(self.score_pages([page])[0])


def _serve(pipe: Connection, path: str, argument: str | None) -> None:
    """Answer batches of pages with their values, or with the error as a text."""
    model = ScoredModel(path, load_own(path, argument))
    while True:
        try:
            pages = [Page(*fields) for fields in pipe.recv()]
        except EOFError:
            return
        try:
            pipe.send(model.score_all(pages))
        except ValueModelError as error:
            pipe.send(str(error))
