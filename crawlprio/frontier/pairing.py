"""A compiled pairing heap of pages per site, stored in the page records; the root leaves first.

Pages are ordered by larger priority class first, then larger key, then smaller id (the order of
discovery).

Source: Fredman, Sedgewick, Sleator & Tarjan, The pairing heap: a new form of self-adjusting heap,
Algorithmica 1, 1986 (two-pass variant). Departure: added pages are melded with each other by rank,
as in a binomial queue. Ranks serve no other purpose and need not match the size of the subtree.
"""

from __future__ import annotations

from crawlprio.frontier.struct_layouts import NONE, Records, wide
from crawlprio.graph.compiled import njit

LARGEST_RANK = 31

NEAR, MANY = 4, 32
"""Siblings looked at for the parent of a page before it is moved; children of a page that are
looked at one by one before they are joined."""


@njit(cache=True, inline="always")
def comes_before(pages: Records, a: int, b: int) -> bool:
    """Whether waiting page a leaves before b."""
    if pages[a].priority_class != pages[b].priority_class:
        return bool(pages[a].priority_class > pages[b].priority_class)
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
    """Meld a page and its subtree into a heap; return the root.

    The first two children of the root are then melded for as long as their ranks are equal, like
    the carry of a binary counter. A run of additions therefore leaves the root with O(log n)
    children instead of n, and the next pop costs no more than any other. Each carry saves that pop
    one link.
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
    """Detach a page other than the root, with its subtree, from its parent and siblings."""
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
    """Remove one page from a heap; return the root. Amortised O(log n)."""
    if page == root:
        return join_children(pages, root)
    cut(pages, page)
    return meld(pages, root, join_children(pages, page))


@njit(cache=True)
def comes_after_parent(pages: Records, page: int) -> bool:
    """Whether the parent of a page is found to come before it, by a short look."""
    child = wide(page)
    for _ in range(NEAR):
        before = wide(pages[child].prev)
        if pages[before].child == child:
            return comes_before(pages, before, page)
        child = before
    return False


@njit(cache=True)
def restore_heap(pages: Records, root: int, page: int, rises: bool) -> int:
    """Restore the heap after the key of a page was overwritten; return the root. O(log n).

    Several keys may be written first and their pages then resettled one by one, in any order,
    because every comparison uses the current keys, and a page moves with its subtree. Most pages
    stay where the keys of many change at once, as those of siblings do. `rises`: the key became
    larger, not smaller.
    """
    if rises:
        if page == root or comes_after_parent(pages, page):
            return root
        cut(pages, page)
        return add(pages, root, page)
    child = wide(pages[page].child)
    for _ in range(MANY):
        if child == NONE:
            return root
        after = wide(pages[child].next)
        if comes_before(pages, child, page):
            cut(pages, child)
            root = add(pages, root, child)
        child = after
    rest = join_children(pages, page)
    return meld(pages, rest, page) if page == root else meld(pages, root, rest)


@njit(cache=True)
def isolate(pages: Records, page: int) -> None:
    """Make a page a heap of its own, discarding its links to others."""
    pages[page].child = NONE
    pages[page].next = NONE
    pages[page].prev = NONE
    pages[page].rank = 0
