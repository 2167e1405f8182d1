"""An ordering that samples siblings: a few of the pages found on one page stand for the rest.

The rules are in `sibling_rules`; the class keeps their arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from crawlprio.orderings.base import CompiledOrdering, Pages
from crawlprio.orderings.options import checked_number
from crawlprio.orderings.rules import State
from crawlprio.orderings.sibling_rules import (
    GROUP,
    LONGEST,
    NEAREST,
    PAGE,
    RULES,
    SITE,
    sample_siblings,
)
from crawlprio.pages import PageIds
from crawlprio.ranking.room import with_room

KEPT_LINKS = 2**22
"""Links of fetched pages that are kept by default: 16 MiB."""

N_DEPTHS = 1024


class SiblingSampling(CompiledOrdering):
    """Pages of the most mass first, corrected for what their siblings have not said yet.

    *Mass* is an estimate of PageRank. A page has mass of its own when it is discovered: seeds
    `seed_mass`, a page of depth k `decay`^k. A fetched page passes `damping` times its mass on to
    its distinct links in equal shares; when its mass has grown by a quarter since, it does so
    again: after each visit the next 16 fetched pages are looked at, around and around in the order
    fetched, and the first `n_passes` that gained that much, and whose links are kept, pass on what
    they gained. Kept are the links of the latest visits, `kept_links` in all, none of pages that
    have more than 10,000.

    *Siblings* are the pages that one page, their parent, was the first to show. They are linked
    alike: from the parent, and often from each other. So what of a page's mass came from its parent
    and siblings is scaled up by (n + 3/2) / (c + 3/2), where c of the n siblings are fetched: links
    of those not fetched are expected to be like those of the ones that are (the estimator of
    Horvitz & Thompson, A generalization of sampling without replacement from a finite universe,
    1952). While none is fetched, each of n siblings counts nearly all that their parent passes on:
    so a few of each group are fetched first, and the rest of a group comes according to what the
    few have shown.

    *New sites*: a key is multiplied by 1 + `novelty` * sqrt(ln(visits + 2) / (visits on its site +
    1)), as in bandit algorithms (Auer, Cesa-Bianchi & Fischer, Finite-time analysis of the
    multiarmed bandit problem, Machine Learning 47, 2002); but only on sites that have a seed, or
    were first shown by a page of a site that has 30 visits, for a farm can make sites that show
    each other at no cost.

    Keys are brought up to date for all pages to which mass is passed, and when the number of
    siblings fetched has grown by a quarter, for the 256 siblings that come after the page just
    fetched, around; others keep theirs. So a visit's work is bounded.

    Parameters
    ----------
    seed_mass
        mass of a seed; default 30, 0 or more.
    damping
        share of its mass that a page passes on; default 0.85, 0 or more, below 1.
    decay
        mass of its own that a page has, as a share of that of its parent; default 0.97, 0 or more,
        below 1. It keeps endless chains of pages, such as calendars, from gaining by their length;
        0.9 holds off farms and traps better, and finds a little less where there are none.
    novelty
        preference for sites with few visits; default 0.2, 0 or more.
    n_passes
        fetched pages that pass on again after each visit, at most; default 2.
    siblings
        whether to correct for siblings; default True.
    kept_links
        links of fetched pages that are kept, at most; default 4,194,304, 0 to 2^30.

    Notes
    -----
    A visit takes O(links) and at most 256 siblings and `n_passes` * 10,000 links besides. Memory:
    64 bytes per page known with its key, 13 per visit, and 4 per link kept: 16 MiB at most by
    default.
    """

    rule = sample_siblings
    changes_known: ClassVar[bool] = True

    def __init__(
        self,
        seed_mass: float = 30.0,
        damping: float = 0.85,
        decay: float = 0.97,
        novelty: float = 0.2,
        n_passes: int = 2,
        siblings: bool = True,
        kept_links: int = KEPT_LINKS,
    ) -> None:
        def number(
            option: str, value: object, below: float | None = None, *, whole: bool = False
        ) -> float:
            return checked_number(
                "sibling-sampling", option, value, least=0, below=below, whole=whole
            )

        self._options = (
            number("seed_mass", seed_mass),
            number("damping", damping, below=1),
            number("novelty", novelty),
            int(number("n_passes", n_passes, whole=True)),
            bool(siblings),
            int(number("kept_links", kept_links, below=2**30 + 1, whole=True)),
        )
        ratio = number("decay", decay, below=1)
        self._own_mass = np.array([ratio**k for k in range(N_DEPTHS)])

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        self._rules = np.zeros(1, dtype=RULES)
        for name, value in zip(
            ("seed_mass", "damping", "novelty", "n_passes", "by_siblings", "kept_links"),
            self._options,
            strict=True,
        ):
            self._rules[name] = value
        self._rules["cursor"] = -1
        state = self.empty_state()
        self._records, self._groups, self._sites, _, _, self._visited, self._has_gained = state[:7]
        self._ends, self._links, _, self._changed, self._before = state[7:]
        super().open(pages, truth)

    @classmethod
    def empty_state(cls) -> State:
        of_pages = (PAGE, GROUP, SITE, RULES, np.float64, np.int32, np.uint8, np.int64, np.int32)
        written = (np.int32, np.int32, np.float64)
        return tuple(np.zeros(0, dtype=dtype) for dtype in (*of_pages, *written))

    def state(self, sites: PageIds) -> State:
        return (
            self._records,
            self._groups,
            self._sites,
            self._rules,
            self._own_mass,
            self._visited,
            self._has_gained,
            self._ends,
            self._links,
            sites,
            self._changed,
            self._before,
        )

    def reserve(self, n_pages: int, n_sites: int, n_links: int, most_links: int) -> None:
        self._records = with_room(self._records, n_pages)
        self._groups = with_room(self._groups, n_pages)
        self._sites = with_room(self._sites, n_sites)
        self._visited = with_room(self._visited, n_pages)
        self._has_gained = with_room(self._has_gained, n_pages)
        self._ends = with_room(self._ends, n_pages + 1)
        # A power of two, as link numbers wrap around; the links before that are all kept.
        n_kept = min(n_links, int(self._rules["kept_links"][0]))
        self._links = with_room(self._links, 1 << max(n_kept - 1, 0).bit_length())
        room = most_links + NEAREST + int(self._rules["n_passes"][0]) * LONGEST
        self._changed = with_room(self._changed, room)
        self._before = with_room(self._before, room)
