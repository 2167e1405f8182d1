"""The registry of orderings, and the factory that makes one from a name or import path."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.extras import load_named
from crawlprio.orderings.base import (
    ALL_PAGES,
    Changed,
    CompiledOrdering,
    KeyHistory,
    Ordering,
    Part,
    checked_number,
    made_of,
)
from crawlprio.orderings.baseline import (
    BacklinkCount,
    BreadthFirst,
    DepthFirst,
    LargerSitesFirst,
    Random,
)
from crawlprio.orderings.by_pagerank import BatchPageRank, PageRank, PartialPageRank
from crawlprio.orderings.historical import HistoricalPageRank, Omniscient
from crawlprio.orderings.location import AnchorSimilarity, Location
from crawlprio.orderings.opic import Opic
from crawlprio.orderings.rankmass import RankMass
from crawlprio.orderings.scout import Scout
from crawlprio.orderings.siblings import SiblingSampling
from crawlprio.plugins import ByName

__all__ = [
    "ALL_PAGES",
    "BY_VALUE",
    "COMPARED",
    "NAMED",
    "ORDERINGS",
    "Changed",
    "CompiledOrdering",
    "KeyHistory",
    "Ordering",
    "Part",
    "made_of",
    "make_ordering",
    "option_names",
]

ORDERINGS: ByName[type[Ordering]] = ByName(
    {
        "random": Random,
        "breadth-first": BreadthFirst,
        "depth-first": DepthFirst,
        "backlink-count": BacklinkCount,
        "opic": Opic,
        "larger-sites-first": LargerSitesFirst,
        "location": Location,
        "omniscient": Omniscient,
        "historical-pagerank": HistoricalPageRank,
        "pagerank": PageRank,
        "partial-pagerank": PartialPageRank,
        "batch-pagerank": BatchPageRank,
        "anchor-similarity": AnchorSimilarity,
        "rankmass": RankMass,
        "scout": Scout,
        "sibling-sampling": SiblingSampling,
    },
    "orderings",
)

BY_VALUE: ByName[type[Ordering]] = ByName({}, "orderings by value")
"""The orderings that rank by the values of pages, and so need a value model."""

NAMED: ByName[type[Ordering]] = ByName(ORDERINGS.own, "orderings", "orderings by value")
"""All orderings by name."""

COMPARED = (
    "omniscient",
    "sibling-sampling",
    "opic",
    "backlink-count",
    "larger-sites-first",
    "breadth-first",
    "random",
)
"""The orderings to simulate if none is named: ours, the papers' cheap ones, the best, the worst."""

BASELINES = ("breadth-first", "random")
"""The orderings whose simulated crawls a crawl is compared with."""

SITE_SHARE = "site_share"
"""The option that every ordering has: pages per site in each round over the waiting sites."""


def make_ordering(name: str | type[Ordering], options: Mapping[str, Any] | None = None) -> Ordering:
    """Return the ordering with this name or import path, constructed with its options.

    Raises
    ------
    ConfigError
        If there is no such ordering, the path cannot be imported or is not an `Ordering`, or an
        option is unknown or out of bounds. The message says what is allowed.
    """
    cls = find_ordering(name)
    known = option_names(cls)
    options = options or {}
    if not isinstance(options, Mapping):
        raise ConfigError(
            f"ORDERING_OPTIONS is {options!r}; give a dict of option names and values, such as "
            '{"seed": 1}.'
        )
    for option in options:
        if option not in known:
            raise ConfigError(
                f"ORDERING_OPTIONS has {option!r}, which {name} does not take; known options: "
                f"{', '.join(known)}."
            )
    own = dict(options)
    share = own.pop(SITE_SHARE, None)
    if share is not None:
        share = int(checked_number(str(name), SITE_SHARE, share, least=1, whole=True))
    try:
        ordering = cls(**own)
    except CrawlprioError:
        raise
    except Exception as error:
        raise ConfigError(
            f"Ordering {name} cannot be created: it raised {type(error).__name__}: {error}; fix "
            "it, or choose another ORDERING."
        ) from error
    ordering.site_share = share or cls.site_share
    return ordering


def option_names(name: str | type[Ordering]) -> list[str]:
    """Return the names of the options that the ordering with this name or import path takes.

    Raises `ConfigError` if there is none, as `make_ordering` does.
    """
    own = [
        parameter.name
        for parameter in inspect.signature(find_ordering(name)).parameters.values()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return [*own, SITE_SHARE]


def find_ordering(name: str | type[Ordering]) -> type[Ordering]:
    """Return the class with this name or import path; raise `ConfigError` if there is none."""
    if isinstance(name, type) and issubclass(name, Ordering):
        return name
    if isinstance(name, str) and name in NAMED:
        return NAMED[name]
    if not isinstance(name, str):
        raise ConfigError(f"ORDERING is {name!r}; give the name of an ordering, or an import path.")
    if "." not in name:
        raise ConfigError(
            f"ORDERING is {name!r}; known orderings: {', '.join(sorted(NAMED))}; or give an "
            "import path."
        )
    found = load_named("ORDERING", name)
    if not (isinstance(found, type) and issubclass(found, Ordering)):
        raise ConfigError(
            f"ORDERING is {name!r}, which is not a subclass of crawlprio.Ordering; make it one."
        )
    return found
