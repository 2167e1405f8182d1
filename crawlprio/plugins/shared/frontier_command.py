"""The command `crawlprio frontier`: operates crawls in Redis."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from crawlprio.commands import OneLineCommand, check_writable, write_text
from crawlprio.errors import CrawlprioError, printable
from crawlprio.settings_table.kinds import Whole, checked

if TYPE_CHECKING:
    from crawlprio.plugins.shared.connection import Client

SYNTAX = "[options] [ACTION CRAWL]"

_ACTIONS = "show CRAWL, pause CRAWL, drain CRAWL, resume CRAWL or delete CRAWL"

WIDTH = 80

_STATES = {"pause": "paused", "drain": "draining", "resume": ""}
_INSTEAD = {
    "load": "start its workers with the folder of the store as JOBDIR",
    "save": "the store of a crawl is in the folder that 'crawlprio frontier show CRAWL' names",
}
_SAYS = {
    "pause": "no pages are handed out until it is resumed",
    "drain": "no pages are handed out, and its workers exit once their fetches have ended",
    "resume": "pages are handed out again",
}


class Command(OneLineCommand):
    """`crawlprio frontier` shows the crawls in Redis, pauses, drains and resumes them."""

    examples = (
        "frontier",
        "frontier show site --most 20",
        "frontier pause site",
        "frontier delete site --yes",
    )

    def syntax(self) -> str:
        return SYNTAX

    def short_desc(self) -> str:
        return "Show, pause, drain and delete crawls in Redis"

    def long_desc(self) -> str:
        return (
            "Without arguments, list the crawls on the server (REDIS_URL). With arguments, run one "
            f"of {_ACTIONS}. show: print where the store is, counts, workers, leases, the next "
            "pages, and dead letters. pause: hand out no pages; workers wait. drain: hand out no "
            "pages; workers exit, and waiting pages stay in the store. resume: hand out pages "
            "again; after a drain, start workers again. delete: delete a crawl that has no brain "
            "from Redis; its store is kept. CRAWL is CRAWLPRIO_REDIS_CRAWL, or the name of the "
            "spider."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", metavar="FILE", help="also write the output to FILE as JSON")
        parser.add_argument("--yes", action="store_true", help="delete: do delete the crawl")
        parser.add_argument(
            "--most",
            metavar="N",
            default="10",
            help="how many pages, leases, sites and dead letters to show of each (default: 10)",
        )

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the action; raise `CrawlprioError` if it is impossible."""
        most = checked("--most", Whole(1), opts.most)
        if opts.json:
            check_writable("--json", opts.json)
        if not args:
            self._list(opts.json)
        elif len(args) == 2 and args[0] == "show":
            self._show(args[1], most, opts.json)
        elif len(args) == 2 and args[0] in _STATES:
            self._set(args[0], args[1])
        elif len(args) == 2 and args[0] == "delete":
            self._delete(args[1], confirmed=opts.yes)
        elif args[0] in _INSTEAD:
            raise CrawlprioError(
                f"frontier: there is no {args[0]}, as nothing has to be moved: {_INSTEAD[args[0]]}."
            )
        else:
            given = " ".join(args)
            raise CrawlprioError(f"frontier: found {given}; expected: {_ACTIONS}, or nothing")

    def _far(self) -> tuple[Any, Client]:
        """Return the module of crawls in Redis, which not everybody has installed, and a client."""
        from crawlprio.extras import require

        require("redis", "redis", "frontier")
        from crawlprio.plugins.shared import connection, far_crawls

        return far_crawls, connection.checked_client(self.settings)

    def _list(self, json_file: str | None) -> None:
        far, client = self._far()
        found = {name: far.overview(client, name, 1) for name in far.crawls(client)}
        rows = [
            [
                printable(name),
                view["state"] or "running",
                *(f"{int(view['counts'][count]):,}" for count in ("visits", "waiting", "leased")),
                str(len(view["workers"])),
            ]
            for name, view in found.items()
        ]
        header = ["crawl", "state", "fetched", "waiting", "leased", "workers"]
        lines = table([header, *rows]) if rows else ["There is no crawl in Redis."]
        self._print(lines, found, json_file)

    def _show(self, crawl: str, most: int, json_file: str | None) -> None:
        far, client = self._far()
        view = far.overview(client, crawl, most)
        self._print(lines_of_crawl(crawl, view), view, json_file)

    def _print(self, lines: Iterable[str], shown: dict[str, Any], json_file: str | None) -> None:
        for line in lines:
            print(line)
        if json_file:
            write_text("--json", json_file, json.dumps(shown) + "\n")

    def _set(self, action: str, crawl: str) -> None:
        far, client = self._far()
        before = far.set_state(client, crawl, _STATES[action])
        was = "" if before != _STATES[action] else " (as before)"
        print(f"{printable(crawl)}: {_SAYS[action]}{was}.")

    def _delete(self, crawl: str, *, confirmed: bool) -> None:
        far, client = self._far()
        print(f"{printable(crawl)}: deleted with {far.delete(client, crawl, confirmed=confirmed)}.")


def lines_of_crawl(crawl: str, view: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that describe a crawl, at most 80 characters each."""
    counts = {name: f"{int(n):,}" for name, n in view["counts"].items()}
    yield cut(f"{printable(crawl)}: {view['state'] or 'running'}, {view['ordering']}")
    if view["folder"]:
        yield cut(f"Its store is in {printable(view['folder'])} on {printable(view['host'])}.")
    yield ""
    yield from table(
        [
            ["pages known", counts["pages"], "sites", f"{int(view['sites']):,}"],
            ["fetched", counts["visits"], "  ready", counts["ready"]],
            ["waiting", counts["waiting"], "  in their delay", f"{view['delayed']:,}"],
            ["leased", counts["leased"], "dead letters", counts["dead"]],
            ["workers that died", counts["taken_over"], "shards", f"{view['shards']:,}"],
        ],
        right=(1, 3),
    )
    for name, (title, header, cells, right) in _LISTS.items():
        if view[name]:
            yield from ("", title)
            rows = [list(map(printable, cells(row))) for row in view[name]]
            yield from table([header, *rows], right=right)


_Cells = Callable[[dict[str, Any]], list[str]]

_LISTS: dict[str, tuple[str, list[str], _Cells, Sequence[int]]] = {
    "workers": (
        "Workers",
        ["worker", "leases", "for", "dead in"],
        lambda row: [
            row["name"],
            f"{row['leases']:,}",
            *map(seconds, (row["age"], row["dead_in"])),
        ],
        (1, 2, 3),
    ),
    "leases": (
        "Leases, oldest first",
        ["for", "worker", "page"],
        lambda row: [seconds(row["age"]), row["worker"], row["url"]],
        (0,),
    ),
    "head": (
        "Next pages, one for each site that is ready",
        ["key", "page"],
        lambda row: [
            f"{row['key']:.6g}"
            + (" hot" if row["hot"] else "")
            + (f" p{row['priority']:+d}" if row["priority"] else ""),
            row["url"],
        ],
        (0,),
    ),
    "dead": (
        "Dead letters, newest last",
        ["page", "reason"],
        lambda row: [row["url"], row["reason"]],
        (),
    ),
}
"""The lists of a crawl: title, headings, the cells of a row, and which of them are numbers."""


def table(rows: list[list[str]], right: Sequence[int] = (2, 3, 4, 5)) -> Iterator[str]:
    """Yield rows as lines of at most 80 characters, truncating cells that are too long."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    most = max((WIDTH - 2 * len(widths)) // 2, 8)
    widths[:-1] = [min(width, most) for width in widths[:-1]]
    for row in rows:
        cells = [
            cut(cell, width).rjust(width) if at in right else cut(cell, width).ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield cut("  ".join(cells).rstrip())


def cut(text: str, width: int = WIDTH) -> str:
    """Return a text of at most `width` characters, with an ellipsis if it was longer."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


def seconds(number: float) -> str:
    """Return a time span formatted for people."""
    if number < 0:
        return "now"
    if number < 100:
        return f"{number:.1f} s"
    if number < 6000:
        return f"{number / 60:.0f} min"
    return f"{number / 3600:.1f} h"
