"""Orderings that look at no link: random, breadth-first, depth-first and larger sites first."""

from __future__ import annotations

from typing import ClassVar

from crawlprio.orderings import kernels
from crawlprio.orderings.base import CompiledOrdering, checked_seed


class Random(CompiledOrdering):
    """Waiting pages in random order: the line that any ordering has to beat.

    A page draws its key when it is discovered, so two crawls with the same seed that discover pages
    in the same order fetch them in the same order.

    Parameters
    ----------
    seed
        whole number of 0 or more, below 2**53; default 0.
    """

    first_key_rule = kernels.RANDOM

    def __init__(self, seed: int = 0) -> None:
        self.random_seed = checked_seed("random", seed)


class BreadthFirst(CompiledOrdering):
    """Pages in the order in which they were discovered.

    Source: Cho, Garcia-Molina & Page 1998, Fig. 2 (1); Najork & Wiener, Breadth-first search
    crawling yields high-quality pages, WWW10, 2001. O(1) per link.
    """


class DepthFirst(CompiledOrdering):
    """Links of the page fetched last first, in page order: follows one path down before the next.

    A page that is seen again keeps its place. O(1) per link.
    """

    first_key_rule = kernels.STEP


class LargerSitesFirst(CompiledOrdering):
    """The ready site with the most waiting pages first; within a site, order of discovery.

    Keeps many sites busy until the end, so that the delay between two fetches on a site binds less.
    Ties go to the site whose first waiting page was discovered first.

    Source: Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling algorithms for Web crawling, LA-WEB
    2004, section V ("Length"). O(log sites) per page.
    """

    by_waiting_pages: ClassVar[bool] = True

    def site_key(self, site: int, best_key: float, n_waiting: int) -> float:
        return n_waiting
