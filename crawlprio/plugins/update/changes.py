"""What changed in a crawl since one of its passes, as a list, and in all, for its report."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape

from crawlprio.errors import ConfigError
from crawlprio.graph.pages import NO_PAGE
from crawlprio.measure.receipt_document import OF_ALL
from crawlprio.plugins.update.updating import REVISIONS, Pass, read_passes
from crawlprio.ranking.pagerank import pagerank
from crawlprio.show.report_parts import ReportSection, cut, lines, number, text
from crawlprio.store import Store
from crawlprio.store.files import store_errors
from crawlprio.store.outcomes import failure_of
from crawlprio.store.reader import StoreReader

if TYPE_CHECKING:
    from crawlprio.show.report_page import ReportedCrawl


class Change(NamedTuple):
    """A page that is not as it was. `change`: new, changed, moved or gone.

    `seen_at` is when it was fetched. `what` says what changed (title, text, links, body), where it
    moved to, or why it is gone. `importance`: PageRank among the known pages.
    """

    url: str
    change: str
    seen_at: datetime
    what: list[str]
    title: str
    importance: float

    def record(self) -> dict[str, Any]:
        """Return its fields as JSON has them."""
        return self._asdict() | {"seen_at": self.seen_at.isoformat(timespec="seconds")}


def since_of(passes: Sequence[Pass], asked: str | None) -> int:
    """Return the place in the crawl of the first visit since a pass, or since a date.

    A pass is a number, 1 for the first crawl; None: the last pass. Raise ConfigError for others.
    """
    if asked is None:
        return passes[-1].first
    if asked.isascii() and asked.isdigit() and 1 <= int(asked) <= len(passes):
        return passes[int(asked) - 1].first
    try:
        date = datetime.fromisoformat(asked)
    except ValueError:
        raise ConfigError(
            f"--since is {asked!r}; give a pass from 1 to {len(passes)}, or a date such as "
            "2026-01-31."
        ) from None
    moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return next((each.first for each in passes if each.began >= moment), passes[-1].first + 2**62)


def read_changes(store: StoreReader, asked: str | None = None) -> list[Change]:
    """Return what changed since a pass, or a date, the most important first. O(pages + links)."""
    with store.snapshot():
        since = since_of(read_passes(store), asked)
        graph = store.link_graph()
        importance = pagerank(graph.indptr, graph.indices).tolist() if graph.n_pages else []
        assert graph.urls is not None
        # Whether the last visit before that succeeded, of each page that had one.
        is_got = "status / 100 = 2 OR (status / 100 = 3 AND targets <> '[]')"
        query = f"SELECT page, {is_got} FROM visits WHERE page >= 0 AND seq < ? ORDER BY seq"
        with store_errors(store.path):
            was_got = dict(store._db.execute(query, (since,)))
        found = []
        for visit in store.visits(
            texts=False, anchors=False, titles=True, after=since - 1, beside=(REVISIONS,)
        ):
            page, cause = visit.page, failure_of(visit)
            if page == NO_PAGE or (cause and not was_got.get(page)):
                continue
            if cause:
                change, what = "gone", [cause]
            elif not was_got.get(page):
                change, what = "new", []
            elif 300 <= visit.status < 400:
                change, what = "moved", [graph.urls[int(visit.targets[0])]]
            else:
                (said,) = visit.extras.get(REVISIONS.name, ("",))
                change, what = "changed", said.split(", ") if said else []
            seen_at = datetime.fromtimestamp(visit.fetched_at, UTC)
            rank = float(f"{importance[page]:.6g}")
            found.append(Change(graph.urls[page], change, seen_at, what, visit.title, rank))
    return sorted(found, key=lambda change: -change.importance)


def report_section(crawl: ReportedCrawl) -> ReportSection | None:
    """Return the section of `score --report`; None of a crawl that was never updated."""
    with Store.open(crawl.repository.name, readonly=True) as store:
        passes = read_passes(store)[1:]
    if not passes:
        return None
    numbered, kinds = [*enumerate(passes, 2)], ("changed", "new", "gone")
    found = {kind: [(at, getattr(each, f"n_{kind}")) for at, each in numbered] for kind in kinds}
    fresh = {"likely to be current": [(at, each.fresh) for at, each in numbered]}
    drawn = (
        lines("updates", "What each update found", found, ("update", "pages")),
        lines(
            "freshness", "Freshness when each update began", fresh,
            ("update", f"share of the importance {OF_ALL}"), (False, True),
        ),
    )  # fmt: skip
    rows = (
        [number(at), text(datetime.fromtimestamp(each.began, UTC).date()),
         number(each.fresh, ".1%"), *map(number, each[3:7])]
        for at, each in reversed(numbered)
    )  # fmt: skip
    headings = ["update", "began", "freshness", "as they were", *kinds]
    table = cut("Updates, the last one first; 1 is the first crawl", headings, rows, len(passes))
    return ReportSection("updates", "Updates", (), [each._replace(table=table) for each in drawn])


def as_json(changes: Sequence[Change]) -> str:
    return json.dumps([each.record() for each in changes], indent=1)


def as_csv(changes: Sequence[Change]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, Change._fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows(each.record() | {"what": ", ".join(each.what)} for each in changes)
    return text.getvalue().rstrip("\n")


def as_table(changes: Sequence[Change]) -> str:
    """Return a line for each change, and one that counts them."""
    lines = [
        f"{each.change:<8}{each.importance:>9.5f}  {each.url} "
        f"{'->' * (each.change == 'moved')} {', '.join(each.what)}".rstrip()
        for each in changes
    ]
    n = Counter(each.change for each in changes)
    counts = ", ".join(f"{n[kind]:,} {kind}" for kind in ("new", "changed", "moved", "gone"))
    n_bytes = sum(each.what == ["body"] for each in changes)
    hint = f" {n_bytes:,} may differ by bytes alone: no earlier text was kept (CRAWLPRIO_UPDATE)."
    return "\n".join([*lines, f"{counts}.{hint if n_bytes else ''}"])


def as_rss(changes: Sequence[Change]) -> str:
    """Return an RSS 2.0 feed, which any reader of feeds can subscribe to."""
    items = [
        f"<item><title>{_xml(f'{each.change}: {each.title or each.url}')}</title>"
        f"<link>{_xml(each.url)}</link>"
        f'<guid isPermaLink="false">{_xml(each.url)}#{each.seen_at.timestamp():.0f}</guid>'
        f"<pubDate>{format_datetime(each.seen_at)}</pubDate>"
        f"<category>{each.change}</category>"
        f"<description>{_xml(', '.join(each.what))}</description></item>"
        for each in changes
    ]
    link = _xml(changes[0].url) if changes else "about:blank"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0"><channel>'
        f"<title>Changed pages</title><link>{link}</link><description>crawlprio</description>"
        f"{''.join(items)}</channel></rss>"
    )


def _xml(text: str) -> str:
    """Return a text for XML, without the characters that XML cannot have."""
    return escape("".join(char for char in text if char.isprintable()))


FORMATS = {"table": as_table, "csv": as_csv, "json": as_json, "rss": as_rss}
