"""Links that were outside when their page was visited, and whose target became known later.

A visit keeps such a link in `outside`, because it was not evidence at that time; reading the graph
of a crawl finds its target by URL. For SQL queries, the table `late_links` lists these links; it is
filled when a run ends cleanly. Crawlprio does not read that table, which anyone may have written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from crawlprio.pages import NO_PAGE, PageTable
from crawlprio.store.visit_rows import pair_list, target_list
from crawlprio.web.urls import canonical, host_if_any

CREATE = """
CREATE TABLE IF NOT EXISTS late_links(
    source INTEGER NOT NULL, target INTEGER NOT NULL, anchor TEXT NOT NULL,
    PRIMARY KEY(source, target)) WITHOUT ROWID;
"""

# json_extract by position reuses SQLite's parsed copy of the anchors from one link to the next, and
# costs nothing if a query leaves anchors out; a join of two json_each would parse them per link.
# The + keeps the index on page for queries that name a page; all others read visits in order.
VIEW = """
CREATE VIEW links(source, target, anchor) AS
    SELECT v.page, t.value, ifnull(json_extract(v.anchors, '$[' || t.key || ']'), '')
    FROM visits v, json_each(v.targets) t WHERE +v.page >= 0
    UNION ALL SELECT source, target, anchor FROM late_links;
"""


def add_late_links(
    pages: PageTable, targets: list[int], anchors: list[str], outside: str | None, source: int
) -> tuple[list[int], list[str]]:
    """Return the targets and anchors of a visit, followed by those of its late links.

    Parameters
    ----------
    pages
        the current page table of the crawl.
    outside
        the visit's value of `outside`.

    Raises
    ------
    ValueError, TypeError
        The visit is damaged.
    """
    late = list(late_links(pages, source, targets, outside)) if outside else []
    if not late:
        return targets, anchors
    anchors = (anchors or [""] * len(targets)) + [anchor for _, anchor in late]
    return targets + [target for target, _ in late], anchors if any(anchors) else []


def late_links(
    pages: PageTable, source: int, targets: Iterable[int], outside: str
) -> Iterator[tuple[int, str]]:
    """Yield target and anchor text of the outside links whose target is now known."""
    links = pair_list(outside)
    found = pages.find_all([url for url, _ in links])
    taken = {source, *targets}
    for (url, anchor), page in zip(links, found, strict=True):
        if page == NO_PAGE and pages.knows_host(host_if_any(url)):
            identity = canonical(url)
            page = NO_PAGE if identity == url else pages.find(identity)
        if page != NO_PAGE and page not in taken:
            taken.add(page)
            yield page, anchor


def fill_table(cursor: sqlite3.Cursor, pages: PageTable) -> None:
    """Write the table, inside a transaction, for the visits stored so far.

    O(outside links), some 1 µs each; one visit at a time is in memory.
    """
    cursor.execute("DELETE FROM late_links")
    visits = cursor.connection.execute(
        "SELECT page, targets, outside FROM visits WHERE outside IS NOT NULL AND page >= 0"
    )
    cursor.executemany(
        "INSERT OR IGNORE INTO late_links VALUES(?, ?, ?)",
        (
            (page, target, anchor)
            for page, targets, outside in visits
            for target, anchor in late_links(pages, page, target_list(targets, len(pages)), outside)
        ),
    )
