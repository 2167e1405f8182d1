"""What a queue and its ordering know, as arrays from which a large crawl resumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from crawlprio.frontier.page_queue import PageQueue
from crawlprio.frontier.priority_classes import DEMOTED
from crawlprio.frontier.struct_layouts import DONE, UNKNOWN, WAITING
from crawlprio.orderings.base import CompiledOrdering


def can_be_saved(queue: PageQueue) -> bool:
    """Return whether `arrays_of` returns all that a queue and its ordering know."""
    return queue.takes_rows and not queue.is_plain and queue.buffer is None


def arrays_of(queue: PageQueue, refused: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return what a queue that `can_be_saved` needs to go on as if its visits were replayed.

    Pages that are leased or were `refused` wait again; no request has a priority.
    """
    assert isinstance(queue.ordering, CompiledOrdering)
    queue.grow()
    records = queue.page_records
    is_done = records["observed"] > 0
    is_done[np.array(refused, dtype=np.int64)] = False
    states = np.where(records["state"] == UNKNOWN, UNKNOWN, np.where(is_done, DONE, WAITING))
    learned = queue.ordering.learned_arrays()
    return {f"ordering.{name}": array for name, array in learned.items()} | {
        "queue.states": states.astype(np.uint8),
        "queue.observed": records["observed"],
        "queue.turns": queue.site_records["turn"],
        "queue.turn": queue.totals["turn"],
    }


def restore_queue(queue: PageQueue, take: Callable[[str, DTypeLike], NDArray[Any]]) -> None:
    """Load what `arrays_of` returned, given by name, into an empty queue over these pages.

    `queue.build` must follow before a page may leave.
    """
    ordering = queue.ordering
    assert isinstance(ordering, CompiledOrdering)
    queue.grow()
    ordering.restore_learned(lambda name, dtype: take(f"ordering.{name}", dtype))
    states, observed = take("queue.states", np.uint8), take("queue.observed", np.uint8)
    turns, queue.totals["turn"] = take("queue.turns", np.int64), take("queue.turn", np.int64)
    queue.site_records["turn"][: len(turns)] = turns
    n_pages, n_known = len(states), min(ordering.n_pages, len(states))
    records, sites = queue.page_records[:n_pages], queue.pages.sites[:n_pages]
    records["state"], records["observed"], records["site"] = states, observed, sites
    records["key"] = ordering.initial_key
    records["key"][:n_known] = ordering.keys[:n_known]
    waiting = np.bincount(sites[states == WAITING], minlength=len(queue.site_records))
    queue.site_records["n_waiting"] = waiting
    queue.totals["n_waiting"] = waiting.sum()


def add_done(queue: PageQueue, pages: NDArray[np.int64]) -> None:
    """Have those of these pages that are done wait once more, as `PageQueue.add` does. O(pages).

    No site may take turns. `queue.accept`, with the keys of all pages, must follow.
    """
    queue.grow()
    records, sites = queue.page_records, queue.site_records
    again = pages[records["state"][pages] == DONE]
    classes = records["priority_class"][again] % 2
    if queue.demotion is not None or queue.buffer is not None:
        for at, page in enumerate(again.tolist()):
            classes[at] -= DEMOTED * queue.is_demoted(page)
            if queue.buffer is not None:
                queue.buffer.keep(page)
    records["priority_class"][again], records["state"][again] = classes, WAITING
    sites["n_waiting"] += np.bincount(records["site"][again], minlength=len(sites))
    queue.totals["n_waiting"] += len(again)
