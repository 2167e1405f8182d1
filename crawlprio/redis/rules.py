"""Orderings as the scripts have them: two rules and a few numbers, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from crawlprio.errors import ConfigError
from crawlprio.orderings.backlink_count import BacklinkCount
from crawlprio.orderings.base import Ordering
from crawlprio.orderings.baseline import BreadthFirst, DepthFirst, LargerSitesFirst, Random
from crawlprio.orderings.fica import Fica
from crawlprio.orderings.location import Location
from crawlprio.orderings.opic import Opic
from crawlprio.orderings.rankmass import RankMass
from crawlprio.orderings.topical import AnchorSimilarity

CONSTANT, RANDOM, STEP, DISTANCE, GIVEN = 0, 1, 2, 3, 4
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
    number_of: Callable[[str, str], float] = _no_number


def rules_of(ordering: Ordering, name: str) -> Rules:
    """Return the rules that make up an ordering.

    They are written for each class by hand, so that a subclass, which may do anything, has none.

    Raises
    ------
    ConfigError
        if they cannot: the ordering computes its keys from all links, or is a class of the user's.
    """
    make = _RULES.get(type(ordering))
    if make is None or (isinstance(ordering, Opic) and not ordering.runs_compiled):
        raise ConfigError(
            f"ORDERING is {name!r} with these options, which a frontier in Redis cannot keep; "
            "choose one whose keys grow link by link: anchor-similarity, backlink-count, "
            "breadth-first, depth-first, fica, larger-sites-first, location, opic without pass_on "
            "and history, random or rankmass."
        )
    return make(ordering)


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
