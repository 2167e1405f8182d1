"""The command `crawlprio frontier`: operates crawls in Redis."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from crawlprio.commands import OneLineCommand, Option, check_writable, write_json
from crawlprio.errors import CrawlprioError, printable
from crawlprio.measure.receipt_document import duration
from crawlprio.settings_table.kinds import Whole

_ACTIONS = "show CRAWL, pause CRAWL, drain CRAWL, resume CRAWL or delete CRAWL"

WIDTH = 80

_STATES = {"pause": "paused", "drain": "draining", "resume": ""}
_SAYS = {
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
        "drain, start workers again. delete: delete a crawl that has no brain from Redis; its "
        "store is kept. CRAWL is CRAWLPRIO_REDIS_CRAWL, or the name of the spider."
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
            Whole(1),
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
        from crawlprio.plugins.shared.far_crawls import FarCrawls

        with FarCrawls.of(self.settings) as crawls:
            if not args:
                found = {name: crawls.overview(name, 1) for name in crawls.names()}
                print(*lines_of_list(found), sep="\n")
                write_json(opts, lambda: found)
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
                print(f"{printable(crawl)}: {_SAYS[action]}{was}.")


def lines_of_list(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines that list crawls, by their names."""
    if not found:
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
        for name, view in found.items()
    )


_LISTS = {
    "workers": "Workers",
    "leases": "Leases, oldest first",
    "head": "Next pages, one for each site that is ready",
    "dead": "Dead letters, newest last",
}
"""The lists of a crawl, and their titles."""


def lines_of_crawl(crawl: str, view: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that describe a crawl, at most 80 characters each."""
    yield cut(f"{printable(crawl)}: {view['state'] or 'running'}, {view['ordering']}")
    if view["folder"]:
        yield cut(f"Its store is in {printable(view['folder'])} on {printable(view['host'])}.")
    yield ""
    counts = {
        "pages known": view["counts"]["pages"],
        "fetched": view["counts"]["visits"],
        "waiting": view["counts"]["waiting"],
        "leased": view["counts"]["leased"],
        "sites": view["sites"],
        "sites ready": view["counts"]["ready"],
        "sites in their delay": view["delayed"],
        "shards": view["shards"],
        "workers that died": view["counts"]["taken_over"],
        "dead letters": view["counts"]["dead"],
    }
    for name, count in counts.items():
        yield f"{count:>12,} {name}"
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
    for line in lines:
        cells = [
            cut(text, width).ljust(width)
            if isinstance(rows[0][name], str)
            else cut(text, width).rjust(width)
            for name, text, width in zip(names, line, widths, strict=True)
        ]
        yield cut("  ".join(cells).rstrip())


def cell(name: str, found: Any) -> str:
    """Return what a cell of a column shows."""
    if name in ("age", "dead_in"):
        return "now" if found < 0 else duration(found)
    if isinstance(found, str):
        return printable(found)
    return f"{found:.6g}" if isinstance(found, float) else f"{found:,}"


def cut(text: str, width: int = WIDTH) -> str:
    """Return a text of at most `width` characters, with an ellipsis if it was longer."""
    return text if len(text) <= width else f"{text[: width - 3]}..."
