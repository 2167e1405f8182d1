"""When the state of a crawl is saved beside its store, and whether a resume may start from it."""

from __future__ import annotations

import logging
import secrets
from importlib.metadata import version
from pathlib import Path
from threading import Thread

from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store import Store
from crawlprio.store.saved_state import SavedState

logger = logging.getLogger("crawlprio")

LEAST_VISITS, SHARE = 20_000, 20
"""The state is saved after this many visits, or one part in so many of all, if that is more."""

_MARK = "state_mark"


class StateKeeper:
    """Saves the state of a crawl while it runs and when it ends, and reads it on resume.

    The state is that after a visit which the store has; a resume replays those that came later. It
    is of use only to the same version of crawlprio, under the same ordering and the same kinds of
    budgets, and only if its store is the one that it was saved for, perhaps continued. In any
    other case all visits are replayed, which takes longer and ends in the same state.

    One exception: of a page that was refused (by robots.txt, say) before the state was saved, and
    is fetched by a later run, the links are queued but are no evidence.

    The ordering of `config` must not be open yet.
    """

    def __init__(self, config: CrawlConfig) -> None:
        ordering = config.ordering
        of_a_site = config.max_pages_per_site, config.max_pages_per_domain
        budgets = *of_a_site, config.max_pages_per_pattern, config.max_sites
        # What compiling sets is left out: whether, and the rule, which names itself by its address.
        own = vars(ordering).items()
        options = sorted((name, each) for name, each in own if name not in ("_rule", "is_plain"))
        bounded = [budget is not None for budget in budgets]
        rest = repr((version("crawlprio"), bounded))
        self._maker = f"{rest} {type(ordering)!r} {options!r}"
        self._needed = self._maker if ordering.learns else rest
        self._saved_at = 0
        self._thread: Thread | None = None

    def read(self, store: Store) -> SavedState | None:
        """Return the state to resume from; None if all visits must be replayed."""
        path = state_path(store.path)
        try:
            state = SavedState.read(path)
            maker, mark, seq, n_pages, _, *last = state.facts["crawl"]
            if mark != store.get_meta(_MARK) or seq > store.last_seq or n_pages > store.n_pages:
                raise ValueError("it belongs to another store, or to an earlier state of this one")
            if last != _facts_of_visit(store, seq):
                raise ValueError("the store has other visits")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s is not used, and all visits are replayed: %s.", path, error)
            return None
        if not str(maker).startswith(self._needed):
            logger.info("%s was saved under other settings; all visits are replayed.", path)
            return None
        self._saved_at = seq
        return state

    def is_due(self, store: Store) -> bool:
        """Return whether it is time to save the state again. O(1)."""
        n_visits = store.last_seq
        return n_visits - self._saved_at >= max(LEAST_VISITS, n_visits // SHARE)

    def begun(self, store: Store, n_pages: int, n_sites: int) -> SavedState:
        """Return a state after all visits in a store, for `write` once the arrays are in it."""
        mark = store.get_meta(_MARK)
        if not mark:
            mark = secrets.token_hex(16)
            store.set_meta(_MARK, mark)
        self._saved_at = seq = store.last_seq
        last = _facts_of_visit(store, seq)
        state = SavedState()
        state.facts["crawl"] = [self._maker, mark, seq, n_pages, n_sites, *last]
        return state

    def write(self, state: SavedState, store: Store) -> None:
        """Write a state beside its store, in a thread."""
        self._thread = Thread(target=_write, args=(state, state_path(store.path)), daemon=True)
        self._thread.start()

    @property
    def is_writing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait until the state is on disk."""
        if self._thread is not None:
            self._thread.join()


def state_path(store: Path) -> Path:
    """Return the file in which the state of the crawl in a store is saved."""
    return store.with_name(f"{store.name}-state")


def n_known(state: SavedState) -> tuple[int, int, int]:
    """Return how many visits, pages and sites a state knows."""
    _, _, seq, n_pages, n_sites, *_ = state.facts["crawl"]
    return seq, n_pages, n_sites


def _facts_of_visit(store: Store, seq: int) -> list[object]:
    """Return what tells the visit of a number from others."""
    visit = next(store.visits(texts=False, anchors=False, history=True, after=seq - 1))
    return [visit.page, visit.fetched_at, visit.content_hash, len(visit.targets)]


def _write(state: SavedState, path: Path) -> None:
    try:
        state.write(path)
    except OSError as error:
        logger.warning(
            "%s: the state of the crawl cannot be saved (%s), so a resume takes longer.",
            path,
            error.strerror or error,
        )
