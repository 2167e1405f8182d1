"""Orderings as the scripts have them: two rules and a few numbers, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from crawlprio.errors import ConfigError
from crawlprio.orderings.base import CompiledOrdering, Ordering
from crawlprio.orderings.kernels import (
    CONSTANT,
    COUNT_BACKLINKS,
    NOTHING,
    PARENT_SHARE,
    RANDOM,
    SPREAD_CASH,
    STEP,
)
from crawlprio.orderings.location import Location
from crawlprio.orderings.topical import AnchorSimilarity

GIVEN = 4
"""A rule of the scripts alone: the caller gives the first key of each new page."""

RAISE = 3
"""A rule of the scripts alone: a target's key is at least the number that the caller gives."""

_FIRST_RULES = (CONSTANT, RANDOM, STEP, PARENT_SHARE)
_EVIDENCE_RULES = (NOTHING, COUNT_BACKLINKS, SPREAD_CASH)


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
    random_seed
        of the rule `RANDOM`.
    by_waiting_pages
        whether sites rank by their number of waiting pages.
    number_of
        what a link says by its URL and anchor text alone, where a rule asks for it.
    needs_anchors
        whether `number_of` reads the anchor text.
    """

    first_rule: int = CONSTANT
    evidence_rule: int = NOTHING
    initial_key: float = 0.0
    new_key: float = 0.0
    seed_key: float = 0.0
    random_seed: int = 0
    by_waiting_pages: bool = False
    number_of: Callable[[str, str], float] = _no_number
    needs_anchors: bool = False


def rules_of(ordering: Ordering, name: str) -> Rules:
    """Return the rules that make up an ordering.

    Raises
    ------
    ConfigError
        if they cannot: the ordering computes its keys from all links, or is a class of the user's.
    """
    if type(ordering) is Location:
        score = ordering.score
        return Rules(GIVEN, number_of=lambda url, anchor: score(url))
    if type(ordering) is AnchorSimilarity:
        count = ordering.topic.count
        return Rules(
            CONSTANT,
            RAISE,
            number_of=lambda url, anchor: float(count(anchor)),
            needs_anchors=True,
        )
    if (
        isinstance(ordering, CompiledOrdering)
        and ordering.runs_in_loop
        and not ordering.needs_truth
        and type(ordering).compute_keys is CompiledOrdering.compute_keys
        and type(ordering).graph_scores is CompiledOrdering.graph_scores
        and ordering.first_key_rule in _FIRST_RULES
        and ordering.evidence_rule in _EVIDENCE_RULES
    ):
        return Rules(
            ordering.first_key_rule,
            ordering.evidence_rule,
            ordering.initial_key,
            ordering.new_key,
            ordering.seed_key,
            ordering.random_seed,
            ordering.by_waiting_pages,
        )
    raise ConfigError(
        f"ORDERING is {name!r}, which a frontier in Redis cannot keep; choose one whose keys are "
        "sums of what links bring: breadth-first, depth-first, random, backlink-count, opic, "
        "larger-sites-first, location or anchor-similarity."
    )
