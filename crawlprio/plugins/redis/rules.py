"""How each ordering is computed: by two rules in the scripts, or by an elected worker."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from crawlprio.errors import ConfigError
from crawlprio.orderings.base import CompiledOrdering, Ordering
from crawlprio.orderings.baseline import (
    BacklinkCount,
    BreadthFirst,
    DepthFirst,
    LargerSitesFirst,
    Random,
)
from crawlprio.orderings.location import Location
from crawlprio.orderings.opic import Opic
from crawlprio.orderings.rankmass import RankMass
from crawlprio.orderings.topical import AnchorSimilarity
from crawlprio.plugins.papers.fica import Fica

CONSTANT, RANDOM, STEP, DISTANCE, GIVEN, AGE = 0, 1, 2, 3, 4, 5
"""Rules for the first key of a page; `learning.lua` describes them."""

NOTHING, COUNT_BACKLINKS, SPREAD, RAISE, PASS, SHORTEN = 0, 1, 2, 3, 4, 5
"""Rules for the effect of a visit on the keys of its targets."""


def _no_value(url: str, anchor: str) -> float:
    return 0.0


class Rules(NamedTuple):
    """An ordering in terms of the scripts.

    Parameters
    ----------
    first_rule, evidence_rule
        Rules for the first key of a page and for the effect of links; listed in `learning.lua`.
    initial_key, new_key, seed_key
        The key of a page before a visit shows it, when one does, and of a seed.
    random_seed, factor, link
        Parameters of individual rules.
    by_waiting_pages
        Whether sites rank by their number of waiting pages.
    is_elected
        Whether an elected worker computes the keys (`crawlprio.plugins.redis.elected`). A page has
        `new_key` until that worker has read the visit that discovered it.
    link_value
        The value of a link, computed from its URL and anchor text, for the rules that use one.
    """

    first_rule: int = CONSTANT
    evidence_rule: int = NOTHING
    initial_key: float = 0.0
    new_key: float = 0.0
    seed_key: float = 0.0
    random_seed: float = 0.0
    factor: float = 0.0
    link: float = 0.0
    by_waiting_pages: bool = False
    is_elected: bool = False
    link_value: Callable[[str, str], float] = _no_value


def rules_of(ordering: Ordering, name: str, *, has_topic: bool = False, n_shards: int = 1) -> Rules:
    """Return the rules of an ordering; those of an elected worker if the scripts have none for it.

    The scripts' rules are written by hand for each built-in class, so subclasses have none. A topic
    always takes an elected worker, because the hot queue depends on all links and texts.

    Raises
    ------
    ConfigError
        If the ordering overrides `site_key`, sets `site_share`, holds pages back, or takes an
        elected worker with several shards.
    """
    if ordering.site_share:
        raise ConfigError(
            f"ORDERING_OPTIONS of {name}: site_share is {ordering.site_share}, which a frontier "
            "in Redis does not support; leave it out."
        )
    if ordering.held_below > -math.inf:
        raise ConfigError(
            f"ORDERING is {name!r}, which holds pages back until its batch is fetched; a frontier "
            'in Redis does not support that: set ORDERING_OPTIONS = {"fill": True}.'
        )
    by_waiting_pages = isinstance(ordering, CompiledOrdering) and ordering.by_waiting_pages
    if not by_waiting_pages and type(ordering).site_key is not Ordering.site_key:
        raise ConfigError(
            f"ORDERING is {name!r}, whose class overrides site_key, which a frontier in Redis "
            "does not support; remove the method, or set CRAWLPRIO_FRONTIER = 'local'."
        )
    make = _RULES.get(type(ordering))
    has_rules = make is not None and (not isinstance(ordering, Opic) or ordering.runs_compiled)
    if make is None or not has_rules or has_topic:
        if n_shards > 1:
            raise ConfigError(
                f"ORDERING is {name!r}{' with a TOPIC' if has_topic else ''}, whose keys an "
                "elected worker computes from the stream of a single shard, but "
                f"CRAWLPRIO_REDIS_SHARDS is {n_shards}; use 1 shard, or an ordering that the "
                "scripts compute."
            )
        key = float(ordering.initial_key)
        return Rules(
            initial_key=key,
            new_key=key,
            seed_key=key,
            by_waiting_pages=by_waiting_pages,
            is_elected=True,
        )
    rules = make(ordering)
    if n_shards > 1 and type(ordering) is BreadthFirst:
        # Page numbers do not compare across shards, so order by time of discovery.
        return rules._replace(first_rule=AGE)
    return rules


def _location(ordering: Any) -> Rules:
    return Rules(GIVEN, link_value=lambda url, anchor: float(ordering.score(url)))


def _anchor_similarity(ordering: Any) -> Rules:
    count = ordering.topic.count
    return Rules(evidence_rule=RAISE, link_value=lambda url, anchor: float(count(anchor)))


def _random(ordering: Any) -> Rules:
    seed, _ = ordering.first_numbers()
    return Rules(RANDOM, initial_key=ordering.initial_key, random_seed=seed)


def _opic(ordering: Any) -> Rules:
    (seed_cash,) = ordering.first_numbers()
    return Rules(evidence_rule=SPREAD, initial_key=1.0, new_key=1.0, seed_key=seed_cash)


def _rankmass(ordering: Any) -> Rules:
    (damping,) = ordering.first_numbers()
    return Rules(evidence_rule=PASS, seed_key=1.0, factor=damping)


def _fica(ordering: Any) -> Rules:
    discount, link = ordering.first_numbers()
    return Rules(DISTANCE, SHORTEN, factor=discount, link=link)


_RULES: dict[type[Ordering], Callable[[Any], Rules]] = {
    Random: _random,
    BreadthFirst: lambda ordering: Rules(),
    DepthFirst: lambda ordering: Rules(STEP),
    BacklinkCount: lambda ordering: Rules(evidence_rule=COUNT_BACKLINKS),
    Opic: _opic,
    LargerSitesFirst: lambda ordering: Rules(by_waiting_pages=True),
    Location: _location,
    AnchorSimilarity: _anchor_similarity,
    RankMass: _rankmass,
    Fica: _fica,
}
