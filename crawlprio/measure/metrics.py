"""The registry of importance metrics, and weighted sums of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.topic import Topic
from crawlprio.measure.importance import Floats, Importance, Repository
from crawlprio.measure.link_counts import (
    Backlinks,
    ChoPageRank,
    ForwardLinks,
    LocationMetric,
    PageRankImportance,
    RemotePageRank,
)
from crawlprio.plugins import ByName

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

_PART = re.compile(r"(?:(?P<weight>\d+(?:\.\d*)?|\.\d+)\s*\*\s*)?(?P<name>[a-z-]+)")


class WeightedSum(Importance):
    """A weighted sum of importances, each divided by its mean: IC(P) = k1 I1(P) + k2 I2(P) + ...

    When each part has mean 1, the share of the combination that a crawl has gathered is the
    weighted average of the shares of its parts. No part counts for more because its numbers are
    larger, or for less because one page has a huge value, as it would if parts were scaled by their
    maximum. The mean is over the pages for which all parts are known. A part that is 0 for all
    pages stays 0.

    Source: Cho, Garcia-Molina & Page, extended version, section 2, which leaves the scale open.

    `parts`: weight, above 0, and importance of each part.
    """

    def __init__(self, parts: Sequence[tuple[float, Importance]]) -> None:
        self._parts = list(parts)
        self.of_content = any(part.of_content for _, part in self._parts)

    def of(self, repository: Repository) -> Floats:
        total = np.zeros(repository.graph.n_pages)
        known = repository.fetched() if self.of_content else slice(None)
        for weight, part in self._parts:
            values = part.of(repository)
            mean = values[known].mean() if len(values[known]) else 0.0
            if mean > 0.0:
                total += values * (weight / mean)
        return total

    def remarks(self, repository: Repository) -> list[str]:
        return [remark for _, part in self._parts for remark in part.remarks(repository)]


def make_importance(
    name: str, options: Mapping[str, Mapping[str, Any]] | None = None, topic: Topic | None = None
) -> Importance:
    """Return the importance with this name, or a weighted sum such as `0.5*pagerank+2*backlinks`.

    `name`: a name in `IMPORTANCES`, or several joined by "+", each optionally preceded by a weight
    above 0 and "*"; the default weight is 1. A single name is not scaled; `WeightedSum` describes
    how the parts of a sum are. `options`: options by name of an importance; those of other
    importances are ignored. `topic`: the topic, for importances that need one. Raises `ConfigError`
    if there is no such importance, an option is unknown or invalid, or a topic is missing.
    """
    parts = parts_of(name)
    made = [(weight, _make(part, (options or {}).get(part, {}), topic)) for weight, part in parts]
    return made[0][1] if parts == [(1.0, name.strip())] else WeightedSum(made)


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
        A link graph, or a repository with texts, as `repositories.open_repository` returns.
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
    by_name = {name: options or {}} if name in IMPORTANCES else options
    asked = Topic(topic) if isinstance(topic, str) else topic
    return make_importance(name, by_name, asked).of(repository)


def pagerank(graph: LinkGraph, damping: float = 0.85) -> Floats:
    """Return the PageRank of each page: float64, shape (n_pages,), sum 1.

    `crawlprio.ranking.pagerank.pagerank` takes arrays instead of a graph; `importance_of` computes
    the other measures, by name.
    """
    return importance_of(graph, "pagerank", options={"damping": damping})


def parts_of(name: str) -> list[tuple[float, str]]:
    """Return weight and name of each part of an importance, as `make_importance` reads it."""
    parts = []
    for text in name.split("+"):
        found = _PART.fullmatch(text.strip())
        if found is None:
            raise ConfigError(
                f"Importance {name!r} cannot be parsed at {text.strip()!r}; give a name, or names "
                "with weights, as in 0.5*pagerank+2*backlinks."
            )
        part = found["name"]
        if part not in IMPORTANCES:
            raise ConfigError(
                f"Importance {part!r} is unknown; known importances: "
                f"{', '.join(sorted(IMPORTANCES))}; or a sum of them, as in "
                "0.5*pagerank+2*backlinks."
            )
        weight = 1.0 if found["weight"] is None else float(found["weight"])
        if weight == 0.0:
            raise ConfigError(f"Importance {name!r} gives {part} the weight 0; leave it out.")
        parts.append((weight, part))
    return parts


def option_names(name: str) -> list[str]:
    """Return the names of the options of an importance, except the topic."""
    return [
        option for option in inspect.signature(IMPORTANCES[name]).parameters if option != "topic"
    ]


def _make(name: str, options: Mapping[str, Any], topic: Topic | None) -> Importance:
    """Construct one importance with its options."""
    cls = IMPORTANCES[name]
    known = option_names(name)
    for option in options:
        if option not in known:
            allowed = f"known options: {', '.join(known)}" if known else "it has no options"
            raise ConfigError(f"Importance {name} has no option {option!r}; {allowed}.")
    if not cls.needs_topic:
        return cls(**options)
    if topic is None:
        raise ConfigError(
            f"Importance {name} needs a topic; give comma-separated terms, as in "
            '--topic "machine learning, statistics".'
        )
    return cls(**{"topic": topic, **options})
