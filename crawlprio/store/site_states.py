"""The politeness state of sites as rows of SQLite values."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple


class SiteState(NamedTuple):
    """What a crawl knows about a site and keeps across a restart.

    Parameters
    ----------
    host
        the site, by name: its id may not be stored yet.
    crawl_delay
        seconds that its robots.txt asks for; None if it does not.
    refusals
        consecutive responses that asked for fewer fetches (429, 503).
    pause
        seconds for which the last of them, if any, stopped all fetches from the site.
    paused_until
        Unix time at which that pause ends.
    """

    host: str
    crawl_delay: float | None = None
    refusals: int = 0
    pause: float = 0.0
    paused_until: float = 0.0


def put_site_state(cursor: sqlite3.Cursor, state: SiteState) -> None:
    """Insert or replace the state of one site."""
    cursor.execute("INSERT OR REPLACE INTO site_states VALUES(?, ?, ?, ?, ?)", state)


def read_site_states(db: sqlite3.Connection) -> Iterator[SiteState]:
    """Yield the states on disk, by host; raise ValueError for an invalid row."""
    for row in db.execute(
        "SELECT host, crawl_delay, refusals, pause, paused_until FROM site_states ORDER BY host"
    ):
        state = SiteState(*row)
        seconds = (state.crawl_delay or 0.0, state.pause, state.paused_until)
        if not isinstance(state.host, str) or not isinstance(state.refusals, int):
            raise ValueError(f"not the state of a site: {tuple(row)}")
        if not all(isinstance(s, int | float) and 0 <= s < math.inf for s in seconds):
            raise ValueError(f"not the seconds of a site: {tuple(row)}")
        yield state
