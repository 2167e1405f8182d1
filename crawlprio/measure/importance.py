"""Importance metrics I(P), by name, and what they are computed from: a graph, or a crawl store."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from crawlprio.errors import ConfigError, CrawlprioError, GraphError
from crawlprio.extras import load_named
from crawlprio.graph.arrays import Flags, Floats, checked_number
from crawlprio.graph.linkgraph import LinkGraph, kept_rows
from crawlprio.graph.pages import NO_PAGE, PageIds
from crawlprio.graph.topic import Topic
from crawlprio.measure.crawl_models import BacklinksSeen, Estimate, PageRankSeen
from crawlprio.plugins import ByName
from crawlprio.ranking.pagerank import pagerank as rank_pages
from crawlprio.store import Store
from crawlprio.store.graph_files import is_store, read_graph


class PageText(NamedTuple):
    """The title and visible text of a fetched page, either of which may be empty."""

    page: int
    title: str
    text: str


@dataclass(frozen=True, eq=False)
class Repository:
    """The data on a set of pages from which their importance is computed.

    `graph`: the links, with URLs if a metric by location is wanted. `name`: its name in messages.
    `order`: the distinct pages that were fetched, in the order of their first fetch; None: the
    order is unknown, and the content of every page is known. `texts`: title and text of each page
    that has any; can be iterated any number of times. `counted`: the pages that count; None: all.
    """

    graph: LinkGraph
    name: str = "the graph"
    order: PageIds | None = None
    texts: Iterable[PageText] | None = None
    counted: Flags | None = None

    def without_rarely_linked(self, least: int, order: Sequence[int] | None = None) -> Self:
        """Leave out pages that were not fetched and to which fewer than `least` pages link.

        So does the Connectivity Server (Najork & Wiener, Breadth-first search crawling yields
        high-quality pages, WWW10, 2001, section 3). Such pages keep their ids but lose their links.
        The PageRank of the others is what it would be without them, up to a common factor.

        `order`: pages that were fetched, if not those of the repository.
        """
        graph = self.graph
        counted = np.bincount(graph.indices, minlength=graph.n_pages) >= least
        fetched = self.order if order is None else np.asarray(order, dtype=np.int64)
        counted[slice(None) if fetched is None else fetched[fetched < graph.n_pages]] = True
        indptr, indices = kept_rows(graph.indptr, graph.indices, counted[graph.indices])
        few = replace(graph, indptr=indptr, indices=indices)
        return replace(self, graph=few, counted=counted)

    def fetched(self) -> Flags:
        """Return the pages whose content is known: bool, shape (n_pages,)."""
        if self.order is None:
            return np.ones(self.graph.n_pages, dtype=np.bool_)
        fetched = np.zeros(self.graph.n_pages, dtype=np.bool_)
        fetched[self.order] = True
        return fetched


class Importance(ABC):
    """A metric by which a crawl is judged; its options are the arguments of its `__init__`.

    A subclass of a user's own, which overrides `of`, is named by its import path.

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
    """The repository of a crawl store; `order` has the pages that were answered at least once.

    `n_failed`: those of them whose last fetch got no response, or one with a status other than 2xx
    or 3xx. `n_unanswered`: pages that were tried but never got a response: forbidden by robots.txt,
    refused, unreachable. `n_index_files`: pages of `order` with the body of another, of whose
    folder they are the index file by name: `/` and `/index.html`. `orderings`: `(fetches before it,
    name)` of each ordering that ruled the crawl, in turn. `seeds`: pages that it started from.
    """

    n_failed: int = 0
    n_unanswered: int = 0
    n_index_files: int = 0
    orderings: tuple[tuple[int, str], ...] = ()
    topic: str = ""
    seeds: tuple[int, ...] = ()

    @property
    def n_fetched(self) -> int:
        """Successfully fetched pages: those of `order` without the failed ones."""
        assert self.order is not None
        return len(self.order) - self.n_failed

    @property
    def ordering(self) -> str:
        """The ordering of the crawl: `opic`, or `opic, then breadth-first` if it changed."""
        return ", then ".join(name for _, name in self.orderings)


@dataclass(frozen=True)
class StoreTexts:
    """Title and text of each page of a crawl store as it is now, read again on each iteration.

    Visits after the number `last` are ignored: `last_seq` of the store.
    """

    path: Path
    last: int

    def __iter__(self) -> Iterator[PageText]:
        with Store.open(self.path, readonly=True) as store:
            for visit in store.visits(until=self.last):
                if visit.page != NO_PAGE:
                    yield PageText(visit.page, visit.title, visit.text)


def open_repository(path: str | Path, most_bytes: int | None = None) -> Repository:
    """Read a link graph, or a snapshot of a crawl store, even while its crawl is running.

    The pages of a crawl store are all that the crawl fetched or saw a link to. GraphError or
    StoreError if it cannot be read, or has no pages. O(pages + links), and for a crawl store one
    pass over its visits; texts are read lazily.
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

    with Store.open(path, readonly=True) as store, store.snapshot():
        graph = store.link_graph()
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
                failed[page] = not 200 <= status < 400
        if ruled and not changes:
            changes.append((0, ruled[-1][1]))
        return RecordedCrawl(
            graph,
            str(path),
            np.fromiter(order, dtype=np.int32, count=len(order)),
            StoreTexts(path, store.last_seq),
            n_failed=sum(bool(failed[page]) for page in order),
            n_unanswered=len(tried - order.keys()),
            n_index_files=store.n_index_files(),
            orderings=tuple(changes),
            topic=store.get_meta("topic"),
            seeds=tuple(seed for seed in store.seeds() if seed < graph.n_pages),
        )


class Backlinks(Importance):
    """The number of pages that link to the page, IB(P).

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, section
    2. Several links from the same page count once, and self-links do not count, as in the ordering
    `backlink-count`. O(links).
    """

    def of(self, repository: Repository) -> Floats:
        graph = repository.graph
        return np.bincount(graph.indices, minlength=graph.n_pages).astype(np.float64)

    def estimate(self, repository: Repository, n_fetched: int) -> Estimate:
        return BacklinksSeen(repository.graph)


class ForwardLinks(Importance):
    """The number of pages that the page links to, IF(P).

    Source: Cho, Garcia-Molina & Page, extended version, section 2: it identifies directory pages.
    O(pages).
    """

    of_content = True

    def of(self, repository: Repository) -> Floats:
        return np.diff(repository.graph.indptr).astype(np.float64)

    def estimate(self, repository: Repository, n_fetched: int) -> Estimate:
        return self.of(repository)


class PageRankImportance(Importance):
    """PageRank with sum 1, the default metric by which crawls are judged.

    Teleport is uniform, and pages without links, including those not fetched, spread their rank
    over all pages. Source: Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005,
    section 3.1. Cost and accuracy: `crawlprio.ranking.pagerank`.

    `damping`: probability of following a link, 0 <= damping < 1; default 0.85.
    """

    name = "pagerank"

    def __init__(self, damping: float = 0.85) -> None:
        self._damping = checked_option(self.name, "damping", damping, least=0, below=1)

    def of(self, repository: Repository) -> Floats:
        graph = repository.graph
        return rank_pages(graph.indptr, graph.indices, damping=self._damping)

    def estimate(self, repository: Repository, n_fetched: int) -> Estimate:
        return PageRankSeen(repository.graph, damping=self._damping)


class ChoPageRank(PageRankImportance):
    """PageRank with sum n and damping 0.9, IR(P) = (1 - d) + d (IR(T1)/c1 + ... + IR(Tn)/cn).

    A page without backlinks has 1 - d plus its share of the rank that dangling pages spread over
    all pages. Source: Cho, Garcia-Molina & Page 1998, section 2. Their text calls d the probability
    of a jump; in their equation it is the probability of following a link.

    `damping`: d, 0 <= damping < 1; default 0.9.
    """

    name = "cho-pagerank"

    def __init__(self, damping: float = 0.9) -> None:
        super().__init__(damping)

    def of(self, repository: Repository) -> Floats:
        return super().of(repository) * repository.graph.n_pages


class RemotePageRank(PageRankImportance):
    """PageRank over links between sites only, with sum n.

    A link to a page of the same site is a self-endorsement. Source: Najork & Wiener, Breadth-first
    search crawling yields high-quality pages, WWW10, 2001, section 4. Pages without links to other
    sites count as dangling; most pages share the minimum value.

    `damping`: as for `PageRankImportance`.
    """

    name = "remote-pagerank"

    def of(self, repository: Repository) -> Floats:
        graph = repository.graph.between_sites()
        if not graph.n_links:
            raise GraphError(
                f"{repository.name} has no links between sites, which remote-pagerank needs; "
                "choose another importance."
            )
        ranks = rank_pages(graph.indptr, graph.indices, damping=self._damping)
        return ranks * graph.n_pages


class LocationMetric(Importance):
    """Importance by URL alone, IL(P): the key of the ordering `location` minus the smallest key.

    Keys may be negative, but an importance must not be. Subtracting the smallest key gives the
    least important page 0 and keeps differences and order. Source and options: `Location` in
    `crawlprio.orderings.location`.

    `slashes`, `tlds`, `words`, `whole_words`: as for the ordering.
    """

    def __init__(
        self,
        slashes: float = 1.0,
        tlds: Mapping[str, float] | None = None,
        words: Mapping[str, float] | None = None,
        whole_words: bool = True,
    ) -> None:
        # Imported here because only this metric needs the orderings.
        from crawlprio.orderings.location import Location

        given: dict[str, Any] = {"slashes": slashes, "tlds": tlds, "words": words}
        given["whole_words"] = whole_words
        try:
            self._rules = Location(**{name: x for name, x in given.items() if x is not None})
        except ConfigError as error:
            bad = str(error).removeprefix("ORDERING_OPTIONS of location: ")
            raise ConfigError(f"Options of importance location: {bad}") from None

    def of(self, repository: Repository) -> Floats:
        urls = repository.graph.urls
        if urls is None:
            raise GraphError(
                f"{repository.name} has no URLs, which the importance location needs; give a "
                "crawl store or a graph with URLs."
            )
        keys = np.fromiter(map(self._rules.score, urls), dtype=np.float64, count=len(urls))
        return keys - keys.min() if len(keys) else keys

    def estimate(self, repository: Repository, n_fetched: int) -> Estimate:
        return self.of(repository)


IMPORTANCES: ByName[type[Importance]] = ByName(
    {
        "pagerank": PageRankImportance,
        "cho-pagerank": ChoPageRank,
        "remote-pagerank": RemotePageRank,
        "backlinks": Backlinks,
        "forward-links": ForwardLinks,
        "location": LocationMetric,
    },
    "importances",
)

_NUMBER = r"\d+(?:\.\d*)?|\.\d+"
_NAME = r"(?P<name>[a-z-]+|[^\W\d]\w*(?:\.[^\W\d]\w*)+)"
_PART = re.compile(rf"(?:(?P<number>{_NUMBER})\s*\*\s*)?{_NAME}")
_CONDITION = re.compile(rf"{_NAME}\s*>=\s*(?P<number>{_NUMBER})")

SCALED = "scaled:"
"""How the name of a weighted sum begins if each importance in it is divided by its mean."""

_FORMS = (
    "give a name, an import path, a sum with weights, as in 0.5*pagerank+2*backlinks, or "
    "conditions, as in 'term-count>=10&backlinks>=5'"
)


class _OfParts(Importance):
    """An importance made of others, each with a number."""

    def __init__(self, parts: Sequence[tuple[float, Importance]]) -> None:
        self._parts = list(parts)
        self.of_content = any(part.of_content for _, part in self._parts)

    def remarks(self, repository: Repository) -> list[str]:
        return [remark for _, part in self._parts for remark in part.remarks(repository)]


class WeightedSum(_OfParts):
    """A weighted sum of importances: IC(P) = k1 I1(P) + k2 I2(P) + ...

    Source: Cho, Garcia-Molina & Page, extended version, section 2. As there, and as in the ordering
    `combined`, the numbers are summed as they are, so the weights must account for their scales.

    With `scaled`, which is not in the paper, each part is first divided by its mean over the pages
    for which all parts are known; one that is 0 for all pages stays 0. The share of such a sum that
    a crawl has gathered is the weighted average of the shares of its parts.

    `parts`: weight, above 0, and importance of each part.
    """

    def __init__(self, parts: Sequence[tuple[float, Importance]], *, scaled: bool = False) -> None:
        super().__init__(parts)
        self._scaled = scaled

    def of(self, repository: Repository) -> Floats:
        total = np.zeros(repository.graph.n_pages)
        counted = repository.fetched() if self.of_content else repository.counted
        known = slice(None) if counted is None else counted
        for weight, part in self._parts:
            values = part.of(repository)
            if self._scaled:
                mean = values[known].mean() if len(values[known]) else 0.0
                weight = weight / mean if mean > 0.0 else 0.0
            total += values * weight
        return total


class Conditions(_OfParts):
    """1 for a page at which each of some importances has at least a certain value, else 0.

    Source: Cho, Garcia-Molina & Page, WWW7, 1998, section 7: there, a page is hot if it is on the
    topic and has five or more backlinks. `parts`: least value and importance of each condition.
    """

    def of(self, repository: Repository) -> Floats:
        are_met = [part.of(repository) >= least for least, part in self._parts]
        return np.asarray(np.all(are_met, axis=0), dtype=np.float64)


class _Guarded(Importance):
    """An importance of a user's own: a bug in it becomes a one-sentence error."""

    def __init__(self, path: str, inner: Importance) -> None:
        self._path, self._inner = path, inner
        self.of_content = inner.of_content

    def of(self, repository: Repository) -> Floats:
        n = repository.graph.n_pages
        with _named_errors(f"Importance {self._path}: of"):
            values: Floats = np.asarray(self._inner.of(repository), dtype=np.float64)
        if values.shape != (n,) or not (np.isfinite(values) & (values >= 0.0)).all():
            raise GraphError(
                f"Importance {self._path}: of must return a finite number of 0 or more for each of "
                f"{n:,} pages, and does not; fix it."
            )
        return values

    def estimate(self, repository: Repository, n_fetched: int) -> Estimate:
        with _named_errors(f"Importance {self._path}: estimate"):
            return self._inner.estimate(repository, n_fetched)

    def remarks(self, repository: Repository) -> list[str]:
        with _named_errors(f"Importance {self._path}: remarks"):
            return [str(remark) for remark in self._inner.remarks(repository)]


@contextmanager
def _named_errors(subject: str) -> Iterator[None]:
    """Raise what a user's code raises as a `ConfigError` of one sentence."""
    try:
        yield
    except CrawlprioError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{subject} raised {type(error).__name__}: {error}; fix it, or choose another "
            "importance."
        ) from error


def make_importance(
    name: str, options: Mapping[str, Mapping[str, Any]] | None = None, topic: Topic | None = None
) -> Importance:
    """Return the importance with this name or import path, or one made of several.

    `0.5*pagerank+2*backlinks` is a `WeightedSum`, `scaled:0.5*pagerank+2*backlinks` one of parts
    divided by their means, and `term-count>=10&backlinks>=5` are `Conditions`. `options` are by
    name of an importance; those of others are ignored. ConfigError if there is no such importance,
    an option is unknown or invalid, or a topic is missing.
    """
    parts = parts_of(name)
    made = [(number, _make(part, (options or {}).get(part, {}), topic)) for number, part in parts]
    if ">=" in name:
        return Conditions(made)
    if parts == [(1.0, name.strip())]:
        return made[0][1]
    return WeightedSum(made, scaled=name.strip().startswith(SCALED))


def importance_of(
    source: LinkGraph | Repository,
    name: str = "pagerank",
    *,
    options: Mapping[str, Any] | None = None,
    topic: Topic | str | None = None,
) -> Floats:
    """Return the importance of each page by a metric in `IMPORTANCES`, or a sum of metrics.

    Parameters
    ----------
    source
        A link graph, or a repository with texts, as `importance.open_repository` returns.
    name, topic
        As for `make_importance`; a topic may also be given as a string of words.
    options
        Options of the importance; for a sum, options by name.

    Returns
    -------
    float64, shape (n_pages,), 0 or more; larger is better.

    Raises
    ------
    ConfigError
        As `make_importance`.
    GraphError
        If the source lacks the data that the metric needs.
    """
    repository = Repository(source) if isinstance(source, LinkGraph) else source
    is_one = parts_of(name) == [(1.0, name.strip())]
    by_name = {name.strip(): options or {}} if is_one else options
    asked = Topic(topic) if isinstance(topic, str) else topic
    return make_importance(name, by_name, asked).of(repository)


def pagerank(graph: LinkGraph, damping: float = 0.85) -> Floats:
    """Return the PageRank of each page: float64, shape (n_pages,), sum 1.

    `crawlprio.ranking.pagerank.pagerank` takes arrays instead of a graph; `importance_of` computes
    the other measures, by name.
    """
    return importance_of(graph, "pagerank", options={"damping": damping})


def parts_of(name: str) -> list[tuple[float, str]]:
    """Return number and name of each part of an importance, as `make_importance` reads it.

    The number is the weight in a sum, or the least value in a condition.
    """
    are_conditions = ">=" in name
    form, sign = (_CONDITION, "&") if are_conditions else (_PART, "+")
    listed = name.strip() if are_conditions else name.strip().removeprefix(SCALED)
    parts = []
    for text in listed.split(sign):
        found = form.fullmatch(text.strip())
        if found is None:
            raise ConfigError(
                f"Importance {name!r} cannot be parsed at {text.strip()!r}; {_FORMS}."
            )
        part = found["name"]
        class_of(part)
        number = float(found["number"] or 1.0)
        if number == 0.0 and not are_conditions:
            raise ConfigError(f"Importance {name!r} gives {part} the weight 0; leave it out.")
        parts.append((number, part))
    return parts


def class_of(name: str) -> type[Importance]:
    """Return the class for the name or import path of one importance."""
    if "." not in name:
        if name in IMPORTANCES:
            return IMPORTANCES[name]
        raise ConfigError(
            f"Importance {name!r} is unknown; known importances: "
            f"{', '.join(sorted(IMPORTANCES))}; {_FORMS}."
        )
    found = load_named("Importance", name)
    if not (isinstance(found, type) and issubclass(found, Importance)):
        raise ConfigError(
            f"Importance is {name!r}, which is not a subclass of crawlprio.Importance; make it one."
        )
    return found


def option_names(name: str) -> list[str]:
    """Return the names of the options of an importance, except the topic."""
    return [option for option in inspect.signature(class_of(name)).parameters if option != "topic"]


def _make(name: str, options: Mapping[str, Any], topic: Topic | None) -> Importance:
    cls = class_of(name)
    known = option_names(name)
    for option in options:
        if option not in known:
            allowed = f"known options: {', '.join(known)}" if known else "it has no options"
            raise ConfigError(f"Importance {name} has no option {option!r}; {allowed}.")
    given = dict(options)
    if cls.needs_topic:
        if topic is None:
            raise ConfigError(
                f"Importance {name} needs a topic; give comma-separated terms, as in "
                '--topic "machine learning, statistics".'
            )
        given = {"topic": topic, **options}
    if name in IMPORTANCES:
        return cls(**given)
    with _named_errors(f"Importance {name} cannot be created: it"):
        return _Guarded(name, cls(**given))
