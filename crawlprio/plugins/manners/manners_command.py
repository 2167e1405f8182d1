"""The command `crawlprio manners`: judges a crawler by the access log of a server."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import ClassVar

from crawlprio.commands import (
    OneLineCommand,
    Option,
    check_outputs,
    named_outputs,
    program,
    refuse_unknown_options,
    write_json,
)
from crawlprio.errors import ConfigError
from crawlprio.settings_table.kinds import Choice, Number, Whole, checked


class Command(OneLineCommand):
    """`crawlprio manners LOG...` judges any crawler by a server's log."""

    takes = "[options] LOG... --agent NAME"
    does = "Judge a crawler by the access log of a server"
    about = (
        "Judge the crawler NAME by LOG, the access log of a server, plain or gzip: in the "
        "combined format of nginx or Apache, with or without the virtual host before it, and "
        "with any fields after it (durations as of nginx's $request_time and times as of $msec "
        "are used); or as JSON, of Caddy, or of nginx with the names of its variables. Several "
        "files are read in the order of their first request. The exit status is 1 if the "
        "crawler broke a rule, and 2 if nothing could be judged."
    )
    examples = (
        "manners access.log --agent mybot --robots robots.txt",
        "manners access.log* --agent mybot --robots folder --delay 1",
        "manners access.log --agent mybot --at-once 1 --json manners.json",
    )
    title = "Manners"
    options: ClassVar = {
        "--agent": Option("NAME", "name of the crawler, as in its user agent"),
        "--robots": Option(
            "FILE",
            "the robots.txt in force, or a folder of robots.txt files by host and date "
            "(2026-11-22.txt, example.org-2026-11-22T10:30.txt)",
        ),
        "--delay": Option(
            "SECONDS", "minimum gap between requests to a host", Number(above_zero=True)
        ),
        "--at-once": Option("N", "maximum requests at once on a host", Whole(1)),
        "--retry-after": Option(
            "SECONDS", "minimum pause on a host after a 429 or 503; default: 1", Number(), 1.0
        ),
        "--queries": Option(
            "N", "maximum requests with a query to one path; default: 5000", Whole(1), 5000
        ),
        "--continued": Option(
            None,
            "the log begins in the middle of the crawl: do not ask for a request for robots.txt "
            "before the pages of its first 24 hours",
        ),
        "--without": Option("RULE[,RULE]", "rules that are not judged: disguise, say"),
        "--json": Option("FILE", "write the figures as JSON"),
    }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        refuse_unknown_options(args)
        if not args:
            raise ConfigError(f"{program()} manners was given no log; name one or more files.")
        from crawlprio.plugins.manners.access_log import AccessLog
        from crawlprio.plugins.manners.judge import (
            Judge,
            Limits,
            RobotsHistory,
            Rule,
            as_json,
            most_frequent,
            print_report,
        )
        from crawlprio.web.robots_txt import products

        if not products(opts.agent or ""):
            raise ConfigError("--agent is missing; give the name of a crawler, as in its agent.")
        limits = Limits(
            delay=opts.delay,
            at_once=opts.at_once,
            retry_after=opts.retry_after,
            queries=opts.queries,
            is_continued=bool(opts.continued),
            without=[
                Rule(checked("--without", Choice(tuple(Rule)), name.strip()))
                for name in (opts.without or "").split(",")
                if name.strip()
            ],
        )
        check_outputs(
            named_outputs(opts, "--json"),
            inputs={**{f"LOG {path}": path for path in args}, "--robots": opts.robots},
        )
        agent = opts.agent.strip()
        robots = None if opts.robots is None else RobotsHistory(Path(opts.robots), agent)
        log = AccessLog(list(map(Path, args)))
        judge = Judge(log, agent, limits, robots)
        judge.run()
        if not judge.n_requests:
            seen = "; ".join(most_frequent(judge.others, 3)) or "none in a known format"
            raise ConfigError(
                f"{', '.join(args)}: no line names {agent} in its user agent; the most frequent "
                f"of its user agents: {seen}."
            )
        write_json(opts, lambda: as_json(log, judge))
        print_report(log, judge)
        self.exitcode = 0 if judge.is_kept else 1
