"""Judges a crawler by the requests in a log: the rules, what coarse times prove, and the report."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, StrEnum, auto
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from protego import Protego
from rich import box
from rich.console import Console
from rich.table import Table

from crawlprio.errors import ConfigError
from crawlprio.measure.scores import finite
from crawlprio.plugins.manners.access_log import AccessLog, LoggedRequest, shown
from crawlprio.show.tables import wide_console
from crawlprio.web.robots_txt import MAX_AGE, MAX_BYTES, decoded, products, rules_for

ANY_HOST = ""

_NAME = re.compile(
    r"(?:(?P<host>.*?)(?:^|[-_@]))??"
    r"(?P<date>\d{4}-\d\d-\d\d)(?:T(?P<hour>\d\d)[:-]?(?P<minute>\d\d)(?:[:-]?(?P<second>\d\d))?Z?)?"
)
_FROM_THE_START = float("-inf")


class RobotsRules:
    """What one version of a robots.txt asks of one robot."""

    def __init__(self, text: str, agent: str) -> None:
        rules, _ = rules_for(text, agent)
        self._parsed = Protego.parse(rules)
        self.crawl_delay = float(self._parsed.crawl_delay("*") or 0.0)
        self._allows = lru_cache(maxsize=4096)(lambda url: self._parsed.can_fetch(url, "*"))

    def allows(self, target: str) -> bool:
        """Return whether the robot may fetch a path with its query."""
        return bool(self._allows(f"http://host{target}"))


class _Version(NamedTuple):
    since: float
    rules: RobotsRules


class RobotsHistory:
    """The robots.txt files that were in force on some hosts, for one robot.

    A file was in force all the time, on all hosts. A folder has files named after what they are:
    `robots.txt`; `DATE.txt`, in force from that UTC date or time on (`2026-11-22.txt`,
    `2026-11-22T10:30:00.txt`); `HOST.txt` or `HOST-DATE.txt`, on that host alone. What cannot be
    read, or has no such name, is a ConfigError.
    """

    def __init__(self, path: Path, agent: str) -> None:
        self._versions: dict[str, list[_Version]] = {}
        files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
        if not files:
            raise ConfigError(f"--robots {path} holds no .txt file; see docs/manners.md.")
        for file in files:
            host, since = _named(file) if path.is_dir() else (ANY_HOST, _FROM_THE_START)
            rules = RobotsRules(decoded(_read(file)), agent)
            self._versions.setdefault(host, []).append(_Version(since, rules))
        for versions in self._versions.values():
            versions.sort(key=lambda version: version.since)

    def at(self, host: str, time: float) -> RobotsRules | None:
        """Return the rules in force on a host at a Unix time; None if none are known."""
        for name in (host, host.rpartition(":")[0], ANY_HOST):
            versions = self._versions.get(name)
            if versions is not None:
                index = bisect_right(versions, time, key=lambda version: version.since)
                return versions[index - 1].rules if index else None
        return None


def _named(file: Path) -> tuple[str, float]:
    """Return host and start of a version by the name of its file."""
    if file.stem == "robots":
        return ANY_HOST, _FROM_THE_START
    found = _NAME.fullmatch(file.stem)
    if found is None:
        return file.stem.lower(), _FROM_THE_START
    clock = ":".join(found[part] or "00" for part in ("hour", "minute", "second"))
    try:
        since = datetime.fromisoformat(f"{found['date']}T{clock}+00:00")
    except ValueError:
        raise ConfigError(f"{file} is not named after a date; see docs/manners.md.") from None
    return (found["host"] or ANY_HOST).lower(), since.timestamp()


def _read(file: Path) -> bytes:
    """Return as much of a file as a robot reads."""
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"--robots {file} cannot be read ({error.strerror}).") from None


MAX_EXAMPLES = 3


class Rule(StrEnum):
    """A rule by its name in reports; `ASKS` says what each asks."""

    DISALLOWED = "disallowed"
    ROBOTS_FIRST = "robots-first"
    ROBOTS_AGE = "robots-age"
    ROBOTS_5XX = "robots-5xx"
    CRAWL_DELAY = "crawl-delay"
    DELAY = "delay"
    BACK_OFF = "back-off"
    AT_ONCE = "at-once"
    CONTACT = "contact"
    DISGUISE = "disguise"
    METHODS = "methods"
    QUERIES = "queries"


ASKS = {
    Rule.DISALLOWED: "fetch nothing that robots.txt disallows",
    Rule.ROBOTS_FIRST: "read robots.txt before any page of a host",
    Rule.ROBOTS_AGE: "read robots.txt again after 24 hours",
    Rule.ROBOTS_5XX: "fetch no page while robots.txt is 5xx and was never read",
    Rule.CRAWL_DELAY: "keep the Crawl-delay of robots.txt",
    Rule.DELAY: "keep the delay given with --delay",
    Rule.BACK_OFF: "pause after 429 and 503 as long as --retry-after says",
    Rule.AT_ONCE: "make no more requests at once on a host than --at-once",
    Rule.CONTACT: "name a URL or mail address in the user agent",
    Rule.DISGUISE: "send no other requests as a browser, or without a user agent, from its address",
    Rule.METHODS: "send only GET and HEAD",
    Rule.QUERIES: "ask one path for no more queries than --queries",
}


@dataclass
class Finding:
    """How a crawler did by one rule.

    Requests (or agents) were judged, and some broke the rule, of which `examples` has the first
    three. `unjudged` says why it was not judged; empty if it was.
    """

    rule: Rule
    n_judged: int = 0
    n_broken: int = 0
    examples: list[str] = field(default_factory=list)
    unjudged: str = ""

    @property
    def verdict(self) -> str:
        """`kept`, `broken`, or `not judged`."""
        if self.n_broken:
            return "broken"
        return "kept" if self.n_judged else "not judged"

    def count(self, example: str | None) -> None:
        """Count a judged request, which broke the rule if there is an example."""
        self.n_judged += 1
        if example is not None:
            self.n_broken += 1
            if len(self.examples) < MAX_EXAMPLES:
                self.examples.append(example)


TOLERANCE = 0.1
"""Seconds of a pause that the network may have eaten."""


class Spacing:
    """Decides whether a pause is proven too short, however coarse the log's times are.

    A log that rounds down to seconds shows two requests with a pause of 1.0 s as any of 0, 1 or 2
    seconds apart. So for each request the earliest moment is kept at which a crawler that makes the
    pauses could have made it. Only if that is later than the log's time allows was one too short. A
    pause counts from the request `n_apart` earlier.
    """

    def __init__(self, n_apart: int = 1) -> None:
        self._earliest: deque[float] = deque([-math.inf] * n_apart, maxlen=n_apart)

    def is_too_soon(self, time: float, pause: float, resolution: float) -> bool:
        """Return whether a request at this time proves that the pause before it was too short."""
        earliest = max(time, self._earliest[0] + pause)
        is_proven = earliest - time >= resolution + TOLERANCE
        self._earliest.append(time if is_proven else earliest)
        return is_proven


class Gaps:
    """The gaps between successive requests on a host: shortest, and median to two digits."""

    def __init__(self) -> None:
        self.n_requests = 0
        self.shortest = math.inf
        self._last = -math.inf
        self._counts: Counter[float] = Counter()

    def add(self, time: float) -> None:
        self.n_requests += 1
        if self._last > -math.inf:
            gap = max(time - self._last, 0.0)
            self.shortest = min(self.shortest, gap)
            self._counts[float(f"{gap:.1e}")] += 1
        self._last = time

    @property
    def median(self) -> float:
        """The lower median; infinity with fewer than two requests."""
        half = (self.n_requests - 1) / 2
        for gap in sorted(self._counts):
            half -= self._counts[gap]
            if half <= 0:
                return gap
        return math.inf


MAX_HOSTS = 10_000
"""Maximum number of hosts that are judged."""

MAX_NAMES = 10_000
"""Maximum number of addresses, and of user agents, that are remembered."""

MAX_PATHS = 10_000
"""Maximum number of paths per log for which queries are counted."""

BACKWARDS = 60.0
"""Seconds by which a request may be logged after a later one."""

_GRACE = 60.0
_CONTACT = re.compile(r"https?://\S|\bwww\.\S|[^\s()<>]@[^\s()<>.@]+\.").search
_BROWSER = re.compile(r"(?:Mozilla|Opera)/|-?$").match
_BUSY = (429, 503)


@dataclass(frozen=True)
class Limits:
    """What the owner of a server allows, beyond its robots.txt; None is not judged.

    `delay` is the minimum of seconds between requests to a host, and `retry_after` of those after a
    429 or 503; `at_once` is the maximum number of requests to a host at once, and `queries` of
    those with a query to one path. `is_continued` says that the log begins in the middle of the
    crawl: for a day, nothing tells then whether robots.txt was read before. Rules in `without` are
    not judged.
    """

    delay: float | None = None
    at_once: int | None = None
    retry_after: float = 1.0
    queries: int = 5_000
    is_continued: bool = False
    without: Sequence[Rule] = ()


class _Robots(Enum):
    """What the last answer to a crawler's request for robots.txt means to it."""

    NEVER_ASKED = auto()
    READ = auto()
    ALL_ALLOWED = auto()
    UNREACHABLE = auto()


@dataclass
class _Host:
    """A host, as the crawler has seen it so far."""

    name: str
    overlaps: Spacing
    robots: _Robots = _Robots.NEVER_ASKED
    asked_at: float = -math.inf
    busy_at: float = -math.inf
    last: float = -math.inf
    delays: Spacing = field(default_factory=Spacing)
    crawl_delays: Spacing = field(default_factory=Spacing)
    gaps: Gaps = field(default_factory=Gaps)


class Judge:
    """Judges a crawler by what a server logged, and the limits that its owner sets.

    Requests whose User-Agent has `agent` among its products are the crawler's own, as in the choice
    of a group of robots.txt. `robots` are the files in force, for that agent; without, what needs
    them is not judged. Once `run` has returned, there is a finding for each rule; the hosts are in
    order of first request. Of the crawler's requests, `n_backwards` were logged over `BACKWARDS`
    after a later one, so that their pauses are not judged, and `n_beyond` went to hosts beyond
    `MAX_HOSTS`. Cost: 7 µs per line and 30 µs per request of the crawler.
    """

    def __init__(
        self, log: AccessLog, agent: str, limits: Limits, robots: RobotsHistory | None = None
    ) -> None:
        self._log = log
        self._products = products(agent)
        self._limits = limits
        self._history = robots
        self._queries: Counter[tuple[str, str]] = Counter()
        self._knows_durations = False
        self._names: dict[str, bool] = {}
        self.findings = {rule: Finding(rule) for rule in Rule}
        self.hosts: dict[str, _Host] = {}
        self.agents: Counter[str] = Counter()
        self.addresses: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.n_requests = self.n_backwards = self.n_robots = self.n_head = self.n_beyond = 0
        self.first, self.last = math.inf, -math.inf

    @property
    def is_kept(self) -> bool:
        """Whether no rule was broken."""
        return not any(finding.n_broken for finding in self.findings.values())

    def run(self) -> None:
        """Read the log to its end."""
        for request in self._log:
            if self._is_own(request.agent):
                self._judge(request)
            else:
                self._look_for_disguise(request)
        for agent in self.agents:
            has_contact = _CONTACT(agent) is not None
            self.findings[Rule.CONTACT].count(None if has_contact else shown(agent))
        self.findings[Rule.DISGUISE].n_judged += self.n_requests
        self._say_what_was_not_judged()

    def _is_own(self, agent: str) -> bool:
        is_own = self._names.get(agent)
        if is_own is None:
            if len(self._names) >= MAX_NAMES:
                self._names.clear()
            is_own = self._names[agent] = self._products <= products(agent)
        return is_own

    def _judge(self, request: LoggedRequest) -> None:
        self.n_requests += 1
        self.first, self.last = min(self.first, request.time), max(self.last, request.time)
        _count(self.agents, request.agent)
        _count(self.addresses, request.address)
        host = self._host(request.host)
        if host is None:
            self.n_beyond += 1
            return
        self.n_head += request.method == "HEAD"
        self._check(Rule.METHODS, request, request.method not in ("GET", "HEAD"))
        is_robots = request.path == "/robots.txt"
        self.n_robots += is_robots
        self._judge_pauses(host, request)
        if not is_robots:
            self._judge_page(host, request)
        elif request.method == "GET":
            self._note_robots(host, request)
        if request.status in _BUSY:
            host.busy_at = request.time

    def _host(self, name: str) -> _Host | None:
        host = self.hosts.get(name)
        if host is None and len(self.hosts) < MAX_HOSTS:
            overlaps = Spacing(self._limits.at_once or 1)
            host = self.hosts[name] = _Host(name, overlaps)
        return host

    def _judge_pauses(self, host: _Host, request: LoggedRequest) -> None:
        """Judge how soon a request came, and how many were under way."""
        if request.time < host.last - BACKWARDS:
            self.n_backwards += 1
            return
        host.last = max(host.last, request.time)
        seconds, resolution = request.seconds, request.resolution
        start = request.time - (seconds or 0.0)
        host.gaps.add(start)
        if self._limits.delay:
            is_soon = host.delays.is_too_soon(start, self._limits.delay, resolution)
            self._check(Rule.DELAY, request, is_soon, "too soon after the request before")
        rules = self._rules(host, request)
        if rules is not None and rules.crawl_delay:
            is_soon = host.crawl_delays.is_too_soon(start, rules.crawl_delay, resolution)
            why = f"Crawl-delay: {rules.crawl_delay:g}"
            self._check(Rule.CRAWL_DELAY, request, is_soon, why)
        waited = start - host.busy_at
        is_soon = waited >= 0 and waited + resolution <= self._limits.retry_after
        self._check(Rule.BACK_OFF, request, is_soon, f"{waited:.3g} s after a 429 or 503")
        if seconds is not None:
            self._knows_durations = True
            if self._limits.at_once is not None:
                is_soon = host.overlaps.is_too_soon(request.time, seconds, resolution)
                why = f"{seconds:g} s, while {self._limits.at_once} others were under way"
                self._check(Rule.AT_ONCE, request, is_soon, why)

    def _judge_page(self, host: _Host, request: LoggedRequest) -> None:
        age = request.time - host.asked_at
        is_unasked = host.robots is _Robots.NEVER_ASKED
        if not (is_unasked and self._limits.is_continued and request.time < self.first + MAX_AGE):
            self._check(Rule.ROBOTS_FIRST, request, is_unasked)
        if not is_unasked:
            is_old = age > MAX_AGE + _GRACE
            self._check(Rule.ROBOTS_AGE, request, is_old, f"{age / 3600:.1f} h after it was read")
            self._check(Rule.ROBOTS_5XX, request, host.robots is _Robots.UNREACHABLE)
        rules = self._rules(host, request)
        if rules is not None or (self._history is not None and not is_unasked):
            is_open = rules is None or request.target == "*" or rules.allows(request.target)
            self._check(Rule.DISALLOWED, request, not is_open)
        if "?" in request.target:
            place = host.name, request.path
            if place in self._queries or len(self._queries) < MAX_PATHS:
                self._queries[place] += 1
                self._check(Rule.QUERIES, request, self._queries[place] > self._limits.queries)

    def _note_robots(self, host: _Host, request: LoggedRequest) -> None:
        """Keep what an answer to a request for robots.txt means: RFC 9309, section 2.3.1."""
        status = request.status
        if status >= 500 or status == 499:  # nginx: the client went away before the answer
            if host.robots in (_Robots.NEVER_ASKED, _Robots.UNREACHABLE):
                host.robots = _Robots.UNREACHABLE
        else:
            host.robots = _Robots.ALL_ALLOWED if status >= 400 else _Robots.READ
        host.asked_at = request.time

    def _rules(self, host: _Host, request: LoggedRequest) -> RobotsRules | None:
        """Return the rules that the crawler read last, or else those in force now."""
        if self._history is None or host.robots in (_Robots.ALL_ALLOWED, _Robots.UNREACHABLE):
            return None
        read = host.robots is _Robots.READ
        return self._history.at(host.name, host.asked_at if read else request.time)

    def _look_for_disguise(self, request: LoggedRequest) -> None:
        """Note another user agent, which breaks a rule if the crawler may hide behind it.

        It may if it comes from the crawler's address and names nobody: a browser, or nothing. What
        names itself is somebody else who shares the address.
        """
        _count(self.others, request.agent)
        names_nobody = _BROWSER(request.agent) and not _CONTACT(request.agent)
        if names_nobody and request.address in self.addresses:
            why = f"{request.address} as {request.agent}"
            self._check(Rule.DISGUISE, request, True, why)

    def _check(self, rule: Rule, request: LoggedRequest, is_broken: bool, why: str = "") -> None:
        """Count a judged request."""
        self.findings[rule].count(self._example(request, why) if is_broken else None)

    def _example(self, request: LoggedRequest, why: str) -> str:
        moment = datetime.fromtimestamp(request.time, UTC).strftime("%Y-%m-%d %H:%M:%S")
        text = f"{self._log.place} {moment} {request.method} {request.host}{request.target}"
        return f"{shown(text)} ({shown(why)})" if why else shown(text)

    def _say_what_was_not_judged(self) -> None:
        reasons = {
            Rule.DISALLOWED: "give --robots",
            Rule.CRAWL_DELAY: "the robots.txt has none" if self._history else "give --robots",
            Rule.DELAY: "give --delay",
            Rule.AT_ONCE: "give --at-once" if self._knows_durations else "no durations in the log",
            Rule.ROBOTS_FIRST: "no pages whose robots.txt is known",
            Rule.ROBOTS_AGE: "robots.txt was never read",
            Rule.ROBOTS_5XX: "robots.txt was never read",
            Rule.QUERIES: "no queries",
        }
        for rule, reason in reasons.items():
            finding = self.findings[rule]
            finding.unjudged = "" if finding.n_judged else reason
        for rule in self._limits.without:
            self.findings[rule] = Finding(rule, unjudged="left out")


def most_frequent(counts: Counter[str], n: int) -> Sequence[str]:
    """Return the most frequent of some names, as they are safe to print."""
    return [shown(name) for name, _ in counts.most_common(n)]


def _count(counts: Counter[str], name: str) -> None:
    """Count a name, unless too many others are known."""
    if name in counts or len(counts) < MAX_NAMES:
        counts[name] += 1


_MOST_HOSTS = 10
_MOST_NAMES = 10


def print_report(log: AccessLog, judge: Judge) -> None:
    """Print what was judged, one row per rule, and three examples of each that was broken."""
    console = wide_console()
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
                "shortest_gap": finite(host.gaps.shortest),
                "median_gap": finite(host.gaps.median),
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
