"""Orderings as the scripts have them: two rules and a few numbers, or an elected worker's keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from crawlprio.errors import ConfigError
from crawlprio.orderings.backlink_count import BacklinkCount
from crawlprio.orderings.base import CompiledOrdering, Ordering
from crawlprio.orderings.baseline import BreadthFirst, DepthFirst, LargerSitesFirst, Random
from crawlprio.orderings.fica import Fica
from crawlprio.orderings.location import Location
from crawlprio.orderings.opic import Opic
from crawlprio.orderings.rankmass import RankMass
from crawlprio.orderings.topical import AnchorSimilarity

CONSTANT, RANDOM, STEP, DISTANCE, GIVEN, AGE = 0, 1, 2, 3, 4, 5
"""Rules for the key of a new page, as `learning.lua` has them."""

NOTHING, COUNT_BACKLINKS, SPREAD, RAISE, PASS, SHORTEN = 0, 1, 2, 3, 4, 5
"""Rules for what links do to the keys of their targets."""


def _no_number(url: str, anchor: str) -> float:
    return 0.0


class Rules(NamedTuple):
    """An ordering as the scripts have it.

    Parameters
    ----------
    first_rule, evidence_rule
        key of a new page, and what a link does to its target's; `learning.lua` lists them.
    initial_key, new_key, seed_key
        key of a page that no visit has shown yet, of one that a visit shows, of a seed.
    random_seed, factor, link
        numbers that single rules ask for.
    by_waiting_pages
        whether sites rank by their number of waiting pages.
    is_elected
        whether an elected worker computes the keys (`crawlprio.redis.elected`). Until it has read
        the visit that shows a page, the page stands by `new_key`.
    number_of
        what a link says by its URL and anchor text alone, where a rule asks for it.
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
    number_of: Callable[[str, str], float] = _no_number


def rules_of(ordering: Ordering, name: str, *, has_topic: bool = False, n_shards: int = 1) -> Rules:
    """Return the rules that make up an ordering; those of an elected worker where none do.

    They are written for each class by hand, so that a subclass, which may do anything, has none.
    With a topic, whose hot queue takes all links and texts, the elected worker computes all.

    Raises
    ------
    ConfigError
        if the frontier cannot keep the ordering: it ranks sites by a method of its own, or has them
        take turns; or it takes an elected worker, and there are several shards.
    """
    if ordering.site_share:
        raise ConfigError(
            f"ORDERING_OPTIONS of {name}: site_share is {ordering.site_share}, and a frontier in "
            "Redis lets no sites take turns; leave it out."
        )
    by_waiting_pages = isinstance(ordering, CompiledOrdering) and ordering.by_waiting_pages
    if not by_waiting_pages and type(ordering).site_key is not Ordering.site_key:
        raise ConfigError(
            f"ORDERING is {name!r}, whose class has a site_key of its own, which a frontier in "
            "Redis cannot ask; leave that out, or set CRAWLPRIO_FRONTIER = 'local'."
        )
    make = _RULES.get(type(ordering))
    has_rules = make is not None and (not isinstance(ordering, Opic) or ordering.runs_compiled)
    if make is None or not has_rules or has_topic:
        if n_shards > 1:
            raise ConfigError(
                f"ORDERING is {name!r}{' with a TOPIC' if has_topic else ''}, whose keys one "
                "elected worker computes from the visits in their order, and "
                f"CRAWLPRIO_REDIS_SHARDS is {n_shards}, which have none; use 1 shard, or an "
                "ordering that is computed in Redis."
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
        # Among pages of several shards only time says which of them was found first.
        return rules._replace(first_rule=AGE)
    return rules


def _location(ordering: Any) -> Rules:
    return Rules(GIVEN, number_of=lambda url, anchor: float(ordering.score(url)))


def _anchor_similarity(ordering: Any) -> Rules:
    count = ordering.topic.count
    return Rules(evidence_rule=RAISE, number_of=lambda url, anchor: float(count(anchor)))


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
