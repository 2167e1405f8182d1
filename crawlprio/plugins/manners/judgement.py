"""What a judge found, as a table for people and as JSON for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from crawlprio.plugins.manners.access_log import AccessLog, shown
from crawlprio.plugins.manners.judge import ASKS, MAX_HOSTS, Judge, most_frequent

_MOST_HOSTS = 10
_MOST_NAMES = 10
_WIDTH = 80


def print_report(log: AccessLog, judge: Judge) -> None:
    """Print what was judged, one row per rule, and three examples of each that was broken."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, _WIDTH)
    console.print(_summary(log, judge), soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("Rule", "Verdict", "Broken", "Judged", "Asks the crawler to"):
        is_number = heading in ("Broken", "Judged")
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=not is_number)
    table.columns[-1].no_wrap = False
    for rule, finding in judge.findings.items():
        asks = ASKS[rule] + (f" ({finding.unjudged})" if finding.unjudged else "")
        table.add_row(rule, finding.verdict, f"{finding.n_broken:,}", f"{finding.n_judged:,}", asks)
    console.print(table)
    for rule, finding in judge.findings.items():
        if finding.n_broken:
            console.print(f"{rule} ({finding.n_broken:,}):", soft_wrap=True)
            for example in finding.examples:
                console.print(f"  {example}", soft_wrap=True)
    _print_gaps(console, judge)
    for remark in _remarks(log, judge):
        console.print(remark, soft_wrap=True)


def as_json(log: AccessLog, judge: Judge) -> dict[str, Any]:
    """Return all figures."""
    return {
        "lines": log.n_lines,
        "malformed": {"count": log.n_malformed, "examples": log.malformed},
        "requests": judge.n_requests,
        "robots_requests": judge.n_robots,
        "head_requests": judge.n_head,
        "not_judged_backwards": judge.n_backwards,
        "not_judged_hosts": judge.n_beyond,
        "first": judge.first,
        "last": judge.last,
        "agents": _largest(judge.agents),
        "addresses": _largest(judge.addresses),
        "hosts": [
            {
                "host": shown(host.name),
                "requests": host.gaps.n_requests,
                "shortest_gap": _finite(host.gaps.shortest),
                "median_gap": _finite(host.gaps.median),
            }
            for host in judge.hosts.values()
        ],
        "rules": [
            {
                "rule": rule,
                "asks": ASKS[rule],
                "verdict": finding.verdict,
                "broken": finding.n_broken,
                "judged": finding.n_judged,
                "examples": finding.examples,
                "not_judged_because": finding.unjudged or None,
            }
            for rule, finding in judge.findings.items()
        ],
        "kept": judge.is_kept,
    }


def _summary(log: AccessLog, judge: Judge) -> str:
    first, last = (datetime.fromtimestamp(time, UTC) for time in (judge.first, judge.last))
    return (
        f"{judge.n_requests:,} of {log.n_lines:,} lines, from {first:%Y-%m-%d %H:%M:%S} to "
        f"{last:%Y-%m-%d %H:%M:%S} UTC\n"
        f"robots.txt: {judge.n_robots:,}, HEAD: {judge.n_head:,}, hosts: {len(judge.hosts):,}, "
        f"addresses: {len(judge.addresses):,}, user agents: {len(judge.agents):,}, such as\n"
        f"  {most_frequent(judge.agents, 1)[0]}"
    )


def _print_gaps(console: Console, judge: Judge) -> None:
    """Print the gaps of the hosts with the shortest median."""
    hosts = [host for host in judge.hosts.values() if host.gaps.n_requests > 1]
    if not hosts:
        return
    hosts.sort(key=lambda host: (host.gaps.median, host.gaps.shortest))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Host", overflow="fold")
    for heading in ("Requests", "Shortest gap", "Median gap"):
        table.add_column(heading, justify="right", no_wrap=True)
    for host in hosts[:_MOST_HOSTS]:
        gaps = host.gaps
        name = shown(host.name, 60) or "(not in the log)"
        table.add_row(
            name, f"{gaps.n_requests:,}", f"{gaps.shortest:.3g} s", f"{gaps.median:.3g} s"
        )
    console.print(table)
    if len(hosts) > _MOST_HOSTS:
        console.print(f"The {_MOST_HOSTS} hosts of {len(hosts):,} with the shortest median gap.")


def _remarks(log: AccessLog, judge: Judge) -> list[str]:
    remarks = []
    if log.n_malformed:
        remarks.append(f"In no known format ({log.n_malformed:,}):")
        remarks += [f"  {line}" for line in log.malformed]
    if judge.n_backwards:
        remarks.append(
            f"{judge.n_backwards:,} requests are logged over a minute after later ones; their gaps "
            "are not judged: give the logs of one server."
        )
    if judge.n_beyond:
        remarks.append(
            f"{judge.n_beyond:,} requests to hosts beyond the first {MAX_HOSTS:,} are not judged."
        )
    return remarks


def _largest(counts: Mapping[str, int]) -> dict[str, int]:
    largest = sorted(counts.items(), key=lambda item: -item[1])[:_MOST_NAMES]
    return {shown(name): count for name, count in largest}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
