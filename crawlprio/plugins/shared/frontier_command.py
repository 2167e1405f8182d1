"""The command `crawlprio frontier`: operates crawls in Redis."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from crawlprio.commands import OneLineCommand, Option, check_writable, write_json
from crawlprio.errors import CrawlprioError, printable
from crawlprio.measure.receipt_document import duration
from crawlprio.settings_table.setting_types import Int

_ACTIONS = "show CRAWL, pause CRAWL, drain CRAWL, resume CRAWL or delete CRAWL"

WIDTH = 80
_STATES = {"pause": "paused", "drain": "draining", "resume": ""}
_EFFECTS = {
    "pause": "no pages are handed out until it is resumed",
    "drain": "no pages are handed out, and its workers exit once their fetches have ended",
    "resume": "pages are handed out again",
}


class Command(OneLineCommand):
    """`crawlprio frontier` shows the crawls in Redis, pauses, drains and resumes them."""

    takes = "[options] [ACTION CRAWL]"
    does = "Show, pause, drain and delete crawls in Redis"
    about = (
        "Without arguments, list the crawls on the server (REDIS_URL). With arguments, run one "
        f"of {_ACTIONS}. show: print where the store is, counts, workers, leases, the next pages, "
        "and dead letters. pause: hand out no pages; workers wait. drain: hand out no pages; "
        "workers exit, and waiting pages stay in the store. resume: hand out pages again; after a "
        "drain, start workers again. delete: delete a crawl that has no coordinator from Redis; "
        "its store is kept. CRAWL is CRAWLPRIO_REDIS_CRAWL, or the name of the spider."
    )
    examples = (
        "frontier",
        "frontier show site --most 20",
        "frontier pause site",
        "frontier delete site --yes",
    )
    options: ClassVar = {
        "--json": Option("FILE", "also write the output to FILE as JSON"),
        "--yes": Option(None, "delete: do delete the crawl"),
        "--most": Option(
            "N",
            "how many pages, leases, sites and dead letters to show of each (default: 10)",
            Int(1),
            10,
        ),
    }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the action; raise `CrawlprioError` if it is impossible."""
        if opts.json:
            check_writable("--json", opts.json)
        action, crawl = args if len(args) == 2 else ("", "")
        if args and action not in ("show", "delete", *_STATES):
            given = " ".join(args)
            raise CrawlprioError(f"frontier: found {given}; expected: {_ACTIONS}, or nothing")
        from crawlprio.extras import require

        require("redis", "redis", "frontier")
        from crawlprio.plugins.shared.crawl_administration import CrawlAdministration

        with CrawlAdministration.of(self.settings) as crawls:
            if not args:
                views = {name: crawls.overview(name, 1) for name in crawls.names()}
                print(*lines_of_list(views), sep="\n")
                write_json(opts, lambda: views)
            elif action == "show":
                view = crawls.overview(crawl, opts.most)
                print(*lines_of_crawl(crawl, view), sep="\n")
                write_json(opts, lambda: view)
            elif action == "delete":
                deleted = crawls.delete(crawl, confirmed=opts.yes)
                print(f"{printable(crawl)}: deleted with {deleted}.")
            else:
                before = crawls.set_state(crawl, _STATES[action])
                was = "" if before != _STATES[action] else " (as before)"
                print(f"{printable(crawl)}: {_EFFECTS[action]}{was}.")


def lines_of_list(views: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines that list crawls, by their names."""
    if not views:
        yield "There is no crawl in Redis."
        return
    yield from table(
        {
            "crawl": name,
            "state": view["state"] or "running",
            "fetched": view["counts"]["visits"],
            **{count: view["counts"][count] for count in ("waiting", "leased")},
            "workers": len(view["workers"]),
        }
        for name, view in views.items()
    )


_COUNTS = {
    **{"pages": "pages known", "visits": "fetched", "waiting": "waiting", "leased": "leased"},
    **{"sites": "sites", "ready": "sites ready", "delayed": "sites in their delay"},
    **{"taken_over": "workers that died", "dead": "dead letters"},
}
"""The counts of a crawl, and their labels."""

_LISTS = {
    "workers": "Workers",
    "leases": "Leases, oldest first",
    "head": "Next pages, one for each site that is ready",
    "dead": "Dead letters, newest last",
}
"""The lists of a crawl, and their titles."""


def lines_of_crawl(crawl: str, view: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that describe a crawl, at most 80 characters each."""
    yield cut(printable(f"{crawl}: {view['state'] or 'running'}, {view['ordering']}"))
    if view["folder"]:
        yield cut(f"Its store is in {printable(view['folder'])} on {printable(view['host'])}.")
    yield ""
    counts = view["counts"] | {name: view[name] for name in ("sites", "delayed")}
    for name, label in _COUNTS.items():
        yield f"{counts[name]:>12,} {label}"
    for name, title in _LISTS.items():
        if view[name]:
            yield from ("", title, *table(view[name]))


def table(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield rows under their headings, in lines of at most 80 characters."""
    rows = list(rows)
    names = list(rows[0])
    lines = [[name.replace("_", " ") for name in names]]
    lines += [[cell(name, row[name]) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    most = max((WIDTH - 2 * len(widths)) // 2, 8)
    widths[:-1] = [min(width, most) for width in widths[:-1]]
    sides = ["<" if isinstance(value, str) else ">" for value in rows[0].values()]
    for line in lines:
        columns = zip(line, sides, widths, strict=True)
        yield cut("  ".join(f"{cut(text, n):{side}{n}}" for text, side, n in columns).rstrip())


def cell(name: str, value: Any) -> str:
    """Return the text of a cell of a column."""
    if name in ("age", "dead_in"):
        return "now" if value < 0 else duration(value)
    if isinstance(value, str):
        return printable(value)
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}"


def cut(text: str, width: int = WIDTH) -> str:
    """Return a text of at most `width` characters, with an ellipsis if it was longer."""
    return text if len(text) <= width else f"{text[: width - 3]}..."
