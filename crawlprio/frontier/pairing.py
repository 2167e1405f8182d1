"""A compiled pairing heap of pages for each site, inside the page records; its root comes first.

Pages are ordered by larger tier first, then larger key, then smaller id (the order of discovery).

Source: Fredman, Sedgewick, Sleator & Tarjan, The pairing heap: a new form of self-adjusting heap,
Algorithmica 1, 1986 (two-pass variant). Departure: pages that are added are melded with each other
by rank, as in a binomial queue; ranks steer that alone, and need not be true of what is below.
"""

from __future__ import annotations

from crawlprio.compiled import njit
from crawlprio.frontier.records import NONE, Records, wide

LARGEST_RANK = 31


@njit(cache=True, inline="always")
def comes_before(pages: Records, a: int, b: int) -> bool:
    """Whether waiting page a leaves before b."""
    if pages[a].tier != pages[b].tier:
        return bool(pages[a].tier > pages[b].tier)
    if pages[a].key != pages[b].key:
        return bool(pages[a].key > pages[b].key)
    return a < b


@njit(cache=True)
def meld(pages: Records, a: int, b: int) -> int:
    """Join two heaps given by their roots; return the root."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    if not comes_before(pages, a, b):
        a, b = b, a
    child = wide(pages[a].child)
    pages[b].next = child
    if child != NONE:
        pages[child].prev = b
    pages[b].prev = a
    pages[a].child = b
    return a


@njit(cache=True)
def add(pages: Records, root: int, page: int) -> int:
    """Meld a page, with what is below it, into a heap; return the root.

    Then the first two children of the root are melded while their ranks are equal, as a counter
    carries. So pages added one after another leave the root O(log n) children, not n, and the first
    pop after them costs what any other does. Each carry spares that pop a link.
    """
    if root == NONE:
        return page
    root = meld(pages, root, page)
    child = wide(pages[root].child)
    second = wide(pages[child].next)
    while (
        second != NONE
        and pages[second].rank == pages[child].rank
        and pages[child].rank < LARGEST_RANK
    ):
        rest = wide(pages[second].next)
        pages[child].next = NONE
        pages[second].next = NONE
        child = meld(pages, child, second)
        pages[child].rank += 1
        pages[child].prev = root
        pages[child].next = rest
        pages[root].child = child
        if rest != NONE:
            pages[rest].prev = child
        second = rest
    return root


@njit(cache=True)
def join_children(pages: Records, root: int) -> int:
    """Meld the children of a root in two passes; return the new root."""
    joined = wide(NONE)
    child = wide(pages[root].child)
    pages[root].child = NONE
    while child != NONE:
        second = wide(pages[child].next)
        rest = wide(NONE) if second == NONE else wide(pages[second].next)
        pages[child].next = NONE
        pages[child].prev = NONE
        if second != NONE:
            pages[second].next = NONE
            pages[second].prev = NONE
        pair = meld(pages, child, second)
        pages[pair].next = joined
        joined = pair
        child = rest
    heap = wide(NONE)
    while joined != NONE:
        rest = wide(pages[joined].next)
        pages[joined].next = NONE
        heap = meld(pages, heap, joined)
        joined = rest
    return heap


@njit(cache=True)
def cut(pages: Records, page: int) -> None:
    """Cut a page that is not the root from its siblings, with all below it."""
    before = wide(pages[page].prev)
    after = wide(pages[page].next)
    if pages[before].child == page:
        pages[before].child = after
    else:
        pages[before].next = after
    if after != NONE:
        pages[after].prev = before
    pages[page].prev = NONE
    pages[page].next = NONE


@njit(cache=True)
def take_out(pages: Records, root: int, page: int) -> int:
    """Take one page out of a heap; return the root. Amortised O(log n)."""
    if page == root:
        return join_children(pages, root)
    cut(pages, page)
    return meld(pages, root, join_children(pages, page))


@njit(cache=True)
def resettle(pages: Records, root: int, page: int, rises: bool) -> int:
    """Move a page to where its key, written in place, puts it; return the root. O(log n).

    Several keys may be written before each of their pages is put where it belongs, in any order:
    what a page is joined with meanwhile compares the keys of now.

    Parameters
    ----------
    rises
        the key is larger than it was; False is correct for any key, and slower.
    """
    if not rises:
        rest = take_out(pages, root, page)
        stand_alone(pages, page)
        return add(pages, rest, page)
    if page == root:
        return root
    cut(pages, page)
    return add(pages, root, page)


@njit(cache=True)
def stand_alone(pages: Records, page: int) -> None:
    """Make a page a heap of its own, whatever it was part of before."""
    pages[page].child = NONE
    pages[page].next = NONE
    pages[page].prev = NONE
    pages[page].rank = 0
