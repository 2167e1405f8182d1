"""The base class of importance metrics I(P), and the repository of pages they are computed from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds

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
    no texts.
    """

    graph: LinkGraph
    name: str = "the graph"
    order: PageIds | None = None
    texts: Iterable[PageText] | None = None

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

    def remarks(self, repository: Repository) -> list[str]:
        """Return notes that a reader of the figures needs, one sentence each."""
        return []


def checked_option(
    importance: str,
    option: str,
    value: object,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return an option of an importance as a number; raise ConfigError if it is invalid."""
    bound = "" if least is None else f" of {least:g} or more"
    if above is not None:
        bound = f" above {above:g}"
    if below is not None:
        bound += f", below {below:g}"
    number = float(value) if isinstance(value, int | float) else math.nan
    if (
        isinstance(value, bool)
        or not math.isfinite(number)
        or (least is not None and number < least)
        or (above is not None and number <= above)
        or (below is not None and number >= below)
    ):
        raise ConfigError(
            f"Options of importance {importance}: {option} is {value!r}; give a number{bound}."
        )
    return number
