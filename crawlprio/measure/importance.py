"""What an importance metric I(P) is, and what it is computed from: a graph, or a crawl store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph.arrays import checked_number
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds
from crawlprio.measure.crawl_models import Estimate, PageRankSeen
from crawlprio.store.graph_files import is_store, read_graph

Floats = NDArray[np.float64]
PageMask = NDArray[np.bool_]


class PageText(NamedTuple):
    """The title and visible text of a fetched page, either of which may be empty."""

    page: int
    title: str
    text: str


@dataclass(frozen=True, eq=False)
class Repository:
    """The data on a set of pages from which their importance is computed.

    `graph`: the links, with URLs if a metric by location is wanted. `name`: its name in messages.
    `order`: int32, shape (n_fetched,): the distinct pages that were fetched, in the order of their
    first fetch. None: the order is unknown, and the content of every page is known. `texts`: title
    and text of pages, each page at most once; can be iterated any number of times. None: there are
    no texts. `counted`: bool, shape (n_pages,): the pages that count; None: all.
    """

    graph: LinkGraph
    name: str = "the graph"
    order: PageIds | None = None
    texts: Iterable[PageText] | None = None
    counted: PageMask | None = None

    def without_rarely_linked(self, least: int, order: Sequence[int] | None = None) -> Self:
        """Leave out pages that were not fetched and to which fewer than `least` pages link.

        So does the Connectivity Server (Najork & Wiener, Breadth-first search crawling yields
        high-quality pages, WWW10, 2001, section 2). Such pages keep their ids but lose their links.
        The PageRank of the others is what it would be without them, up to a common factor.

        `order`: pages that were fetched, if not those of the repository.
        """
        graph = self.graph
        counted = np.bincount(graph.indices, minlength=graph.n_pages) >= least
        fetched = self.order if order is None else np.asarray(order, dtype=np.int64)
        counted[slice(None) if fetched is None else fetched[fetched < graph.n_pages]] = True
        kept = counted[graph.indices]
        indptr = np.concatenate(([0], np.cumsum(kept)))[graph.indptr]
        few = replace(graph, indptr=indptr, indices=graph.indices[kept])
        return replace(self, graph=few, counted=counted)

    def fetched(self) -> PageMask:
        """Return the pages whose content is known: bool, shape (n_pages,)."""
        if self.order is None:
            return np.ones(self.graph.n_pages, dtype=np.bool_)
        fetched = np.zeros(self.graph.n_pages, dtype=np.bool_)
        fetched[self.order] = True
        return fetched


class Importance(ABC):
    """A metric by which a crawl is judged; its options are the arguments of its `__init__`.

    `of_content`: whether it is computed from the content of the page itself, and so is unknown, and
    0, for pages not fetched. `needs_topic`: whether `__init__` takes a `topic`.
    """

    of_content: bool = False
    needs_topic: ClassVar[bool] = False

    @abstractmethod
    def of(self, repository: Repository) -> Floats:
        """Return the importance of each page: float64, shape (n_pages,), finite, 0 or more.

        Raises `GraphError` if the repository lacks the data that the metric needs.
        """

    def estimate(self, repository: Repository, n_fetched: int) -> Estimate:
        """Return I'(P), by which a crawl of so many pages guesses it from what it has seen.

        Unless a metric says otherwise, the guess is the PageRank of the links seen.
        """
        return PageRankSeen(repository.graph)

    def remarks(self, repository: Repository) -> list[str]:
        """Return notes that a reader of the figures needs, one sentence each."""
        return []


def checked_option(importance: str, option: str, value: object, **bounds: Any) -> float:
    """Return an option of an importance as a number; raise ConfigError if it is invalid."""
    return checked_number(f"Options of importance {importance}", option, value, **bounds)


@dataclass(frozen=True, eq=False)
class RecordedCrawl(Repository):
    """The repository of a crawl store.

    `n_failed`: pages of `order` whose last fetch got no response, or one with a status other than
    2xx or 3xx. `order` holds the pages that got a response at least once. `n_unanswered`: pages
    that were tried but never got a response: forbidden by robots.txt, refused, unreachable.
    `n_index_files`: pages of `order` with the body of another, of whose folder they are the index
    file by name: `/` and `/index.html`. `orderings`: `(fetches before it, name)` of each ordering
    that ruled the crawl, in turn; empty if the store does not say. `topic`: that of the crawl;
    empty if there was none. `seeds`: pages that it started from.
    """

    n_failed: int = 0
    n_unanswered: int = 0
    n_index_files: int = 0
    orderings: tuple[tuple[int, str], ...] = ()
    topic: str = ""
    seeds: tuple[int, ...] = ()

    @property
    def n_fetched(self) -> int:
        """Pages that were got: those of `order` without the failed ones."""
        assert self.order is not None
        return len(self.order) - self.n_failed

    @property
    def ordering(self) -> str:
        """The ordering of the crawl: `opic`, or `opic, then breadth-first` if it changed."""
        return ", then ".join(name for _, name in self.orderings)


@dataclass(frozen=True)
class StoreTexts:
    """Title and text of each page of a crawl store at its last visit, read again on each iteration.

    `last`: int64, shape (n_pages,): number of the last visit of each page, counted from 0 as in
    `Store.visits`; -1 for none. Later visits are ignored.
    """

    path: Path
    last: NDArray[np.int64]

    def __iter__(self) -> Iterator[PageText]:
        from crawlprio.store import Store

        with Store.open(self.path, readonly=True) as store:
            for number, visit in enumerate(store.visits()):
                page = visit.page
                if 0 <= page < len(self.last) and self.last[page] == number:
                    yield PageText(page, visit.title, visit.text)


def open_repository(path: str | Path, most_bytes: int | None = None) -> Repository:
    """Read a link graph, or a snapshot of a crawl store, even while its crawl is running.

    `path` and `most_bytes`: as for `read_graph`. Returns a `RecordedCrawl` for a crawl store; its
    pages are all that the crawl fetched or saw a link to. Raises `GraphError` or `StoreError` if it
    cannot be read, or has no pages.

    O(pages + links), and for a crawl store one pass over its visits; texts are read lazily.
    """
    path = Path(path)
    with suppress(OSError):  # which `read_graph` reports
        if is_store(path):
            return _read_crawl(path)
    repository = Repository(read_graph(path, most_bytes), str(path))
    if repository.graph.n_pages == 0:
        raise GraphError(f"{path} has no pages; there is nothing to score.")
    return repository


def _read_crawl(path: Path) -> RecordedCrawl:
    """Read the links and the order of fetches from one snapshot of a crawl store."""
    from crawlprio.store import Store

    with Store.open(path, readonly=True) as store, store.snapshot():
        graph = store.link_graph()
        last = np.full(graph.n_pages, -1, dtype=np.int64)
        failed = np.zeros(graph.n_pages, dtype=np.bool_)
        order: dict[int, None] = {}
        tried: set[int] = set()
        ruled = store.orderings()
        changes: list[tuple[int, str]] = []
        for number, (page, status) in enumerate(store.statuses()):
            while ruled and number + 1 >= ruled[0][0]:
                changes.append((len(order), ruled.pop(0)[1]))
            if page >= 0:
                if status:
                    order[page] = None
                else:
                    tried.add(page)
                last[page] = number
                failed[page] = not 200 <= status < 400
        if ruled and not changes:
            changes.append((0, ruled[-1][1]))
        return RecordedCrawl(
            graph,
            str(path),
            np.fromiter(order, dtype=np.int32, count=len(order)),
            StoreTexts(path, last),
            n_failed=sum(bool(failed[page]) for page in order),
            n_unanswered=len(tried - order.keys()),
            n_index_files=store.n_index_files(),
            orderings=tuple(changes),
            topic=store.get_meta("topic"),
            seeds=tuple(seed for seed in store.seeds() if seed < graph.n_pages),
        )
