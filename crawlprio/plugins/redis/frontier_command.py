"""The command `crawlprio frontier`: operates crawls in Redis."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlprio.commands import OneLineCommand
from crawlprio.commands.arguments import check_writable, write_text
from crawlprio.errors import CrawlprioError, printable
from crawlprio.settings_table.kinds import Whole, checked

if TYPE_CHECKING:
    from crawlprio.plugins.redis.scripts import Client

SYNTAX = "[options] [ACTION CRAWL]"

_ACTIONS = (
    "show CRAWL, pause CRAWL, drain CRAWL, resume CRAWL, delete CRAWL, load STORE CRAWL or save "
    "CRAWL STORE"
)

WIDTH = 80

_STATES = {"pause": "paused", "drain": "draining", "resume": ""}
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
        "frontier save site crawl.sqlite",
    )

    def syntax(self) -> str:
        return SYNTAX

    def short_desc(self) -> str:
        return "Show, pause, drain, delete, load and save crawls in Redis"

    def long_desc(self) -> str:
        return (
            "Without arguments, list the crawls on the server (REDIS_URL). With arguments, run one "
            f"of {_ACTIONS}. show: print counts, workers, leases, the next pages, and dead "
            "letters. pause: hand out no pages; workers wait. drain: hand out no pages; workers "
            "exit, and waiting pages stay in Redis. resume: hand out pages again; after a drain, "
            "start workers again. delete: delete a crawl that has no workers, with its visits. "
            "load: copy the crawl of a crawl store into Redis, where workers resume it; give the "
            "settings that the workers have. save: collect a crawl without workers into a crawl "
            "store, with the waiting requests; a crawl whose JOBDIR is the folder of the store "
            "resumes it. CRAWL is CRAWLPRIO_REDIS_CRAWL, or the name of the spider."
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
        elif len(args) == 3 and args[0] == "load":
            self._load(Path(args[1]), args[2])
        elif len(args) == 3 and args[0] == "save":
            self._save(args[1], Path(args[2]))
        else:
            given = " ".join(args)
            raise CrawlprioError(f"frontier: found {given}; expected: {_ACTIONS}, or nothing")

    def _client(self) -> Client:
        from crawlprio.extras import require
        from crawlprio.settings_table.config import read_setting

        require("redis", "redis", "frontier")
        from crawlprio.plugins.redis.connection import check_server, connect

        url = read_setting(self.settings, "REDIS_URL")
        client = connect(url, read_setting(self.settings, "REDIS_PARAMS"))
        check_server(client, url)
        return client

    def _list(self, json_file: str | None) -> None:
        client = self._client()
        from crawlprio.plugins.redis.operating import crawls, overview
        from crawlprio.plugins.redis.shards import prefix_of

        found = {name: overview(client, prefix_of(name), 1) for name in crawls(client)}
        rows = [
            [
                printable(name),
                view["state"] or "running",
                *(f"{int(view['counts'][count]):,}" for count in ("visits", "waiting", "leased")),
                str(len(view["workers"])),
            ]
            for name, view in found.items()
        ]
        if not rows:
            print("There is no crawl in Redis.")
        else:
            header = ["crawl", "state", "fetched", "waiting", "leased", "workers"]
            for line in table([header, *rows]):
                print(line)
        if json_file:
            write_text("--json", json_file, json.dumps(found) + "\n")

    def _show(self, crawl: str, most: int, json_file: str | None) -> None:
        client = self._client()
        from crawlprio.plugins.redis.operating import overview
        from crawlprio.plugins.redis.shards import prefix_of

        view = overview(client, prefix_of(crawl), most)
        for line in lines_of_crawl(crawl, view):
            print(line)
        if json_file:
            write_text("--json", json_file, json.dumps(view) + "\n")

    def _set(self, action: str, crawl: str) -> None:
        client = self._client()
        from crawlprio.plugins.redis.operating import set_state
        from crawlprio.plugins.redis.shards import prefix_of

        before = set_state(client, prefix_of(crawl), _STATES[action])
        was = "" if before != _STATES[action] else " (as before)"
        print(f"{printable(crawl)}: {_SAYS[action]}{was}.")

    def _delete(self, crawl: str, *, confirmed: bool) -> None:
        client = self._client()
        from crawlprio.plugins.redis.operating import delete
        from crawlprio.plugins.redis.shards import prefix_of

        what = delete(client, prefix_of(crawl), confirmed=confirmed)
        print(f"{printable(crawl)}: deleted with {what}.")

    def _load(self, store: Path, crawl: str) -> None:
        client = self._client()
        from crawlprio.plugins.redis.moving import load
        from crawlprio.plugins.redis.shards import prefix_of

        moved = load(client, prefix_of(crawl), store, self.settings)
        print(
            f"{store}: {moved.n_visits:,} visits and {moved.n_pages:,} pages loaded into crawl "
            f"{printable(crawl)} in Redis"
        )

    def _save(self, crawl: str, store: Path) -> None:
        client = self._client()
        from crawlprio.plugins.redis.moving import save
        from crawlprio.plugins.redis.shards import prefix_of

        moved = save(client, prefix_of(crawl), store)
        print(
            f"{store}: {moved.n_visits:,} more visits, {moved.n_pages:,} more pages of crawl "
            f"{printable(crawl)}, and all waiting requests"
        )


def lines_of_crawl(crawl: str, view: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that describe a crawl, at most 80 characters each."""
    now, counts = view["now"], {name: int(n) for name, n in view["counts"].items()}
    yield cut(f"{printable(crawl)}: {view['state'] or 'running'}, {view['ordering']}")
    yield ""
    n_sites = int(view["sites"])
    yield from table(
        [
            ["pages known", f"{counts['pages']:,}", "sites", f"{n_sites:,}"],
            ["fetched", f"{counts['visits']:,}", "  ready", f"{counts['ready']:,}"],
            ["waiting", f"{counts['waiting']:,}", "  in their delay", f"{view['delayed']:,}"],
            ["leased", f"{counts['leased']:,}", "dead letters", f"{counts['dead']:,}"],
            [
                "visits in Redis",
                f"{view['streamed']:,}",
                "taken over",
                f"{counts['taken_over']:,}",
            ],
        ],
        right=(1, 3),
    )
    if view["is_elected"]:
        elected = view["elected"]
        behind = counts["recorded"] - int(elected["read"])
        name = printable(elected["name"]) if elected["until_"] >= now else ""
        yield ""
        yield cut(f"Keys are computed by {name or 'no worker'}, {behind:,} entries behind.")
    yield from section(
        "Workers",
        ["worker", "leases", "for", "dead in"],
        [
            [
                printable(worker["name"]),
                f"{worker['leases']:,}",
                seconds(now - worker["since"]),
                seconds(worker["dead_at"] - now),
            ]
            for worker in view["workers"]
        ],
    )
    yield from section(
        "Leases, oldest first",
        ["for", "worker", "page"],
        [
            [
                seconds(now - lease["since"]),
                printable(lease["worker"]),
                printable(lease.get("url") or f"{lease['site']} (robots.txt or media)"),
            ]
            for lease in view["leases"]
        ],
        right=(0,),
    )
    yield from section(
        "Next pages, one for each site that is ready",
        ["key", "page"],
        [
            [
                f"{float(page['key']):.6g}"
                + (" hot" if page["hot"] else "")
                + (f" p{page['priority']:+d}" if page["priority"] else ""),
                printable(page["url"]),
            ]
            for page in view["head"]
        ],
        right=(0,),
    )
    yield from section(
        "Sites whose delay ends first",
        ["in", "waiting", "site"],
        [
            [seconds(site["ready_at"] - now), f"{site['waiting']:,}", printable(site["site"])]
            for site in view["next"]
        ],
        right=(0, 1),
    )
    yield from section(
        "Dead letters, newest last",
        ["page", "reason"],
        [
            [printable(str(letter.get("url"))), printable(letter["reason"])]
            for letter in view["dead"]
        ],
        right=(),
    )


def section(
    title: str, header: list[str], rows: list[list[str]], right: Sequence[int] = (1, 2, 3)
) -> Iterator[str]:
    """Yield a titled table, or nothing if there are no rows."""
    if rows:
        yield ""
        yield title
        yield from table([header, *rows], right=right)


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
