"""Judges a crawler by what a server saw of it: which rules of politeness it broke, and where."""

import re
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from datetime import timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from protego import Protego

from crawlprio.web.robots_txt import rules_for

LOG_FORMAT = (
    '\'$host:$server_port [$time_local] "$request" $status "$http_user_agent" $request_time $msec\''
)
"""The format of nginx's access log that `logged_by_nginx` reads."""

TOLERANCE = 0.1
"""Seconds of a pause that the network may have eaten."""

DAY = timedelta(days=1).total_seconds()

_LINE = re.compile(
    r'(\S+) \[[^\]]+\] "(\S+) (\S+)[^"]*" (\d{3}) "([^"]*)" (\d+\.\d{3}) (\d+\.\d{3})'
).fullmatch
_CONTACT = re.compile(r"https?://\S|[^\s()<>]@[^\s()<>.@]+\.").search


class Seen(NamedTuple):
    """A request that a server saw; times are in seconds, with milliseconds."""

    host: str
    target: str
    method: str
    status: int
    agent: str
    start: float
    end: float


class RobotsRules:
    """What a robots.txt asks of one robot."""

    def __init__(self, text, agent):
        rules, _ = rules_for(text, agent)
        self._parsed = Protego.parse(rules)
        self.crawl_delay = float(self._parsed.crawl_delay("*") or 0.0)
        self.allows = lru_cache(maxsize=4096)(self._allows)

    def _allows(self, target):
        return self._parsed.can_fetch(f"http://host{target}", "*")


def seen_by_site(fetches, busy=()):
    """Return what a `crawls.Site` saw; it answered 503 to requests of `busy`: host and start."""
    offset = time.time() - time.monotonic()
    return [
        Seen(
            fetch.host,
            fetch.path,
            fetch.method,
            503 if (fetch.host, fetch.start) in busy else 200,
            fetch.headers.get("user-agent", ""),
            fetch.start + offset,
            fetch.end + offset,
        )
        for fetch in fetches
    ]


def seen_by_nginx(log):
    """Return what nginx saw, from the lines of its access log in `LOG_FORMAT`."""
    seen = []
    for line in log:
        host, method, target, status, agent, seconds, end = _LINE(line.rstrip("\n")).groups()
        start = float(end) - float(seconds)
        seen.append(Seen(host, target, method, int(status), agent, start, float(end)))
    return seen


def broken_rules(seen, robots, *, delay=0.0, at_once=None, retry_after=1.0, queries=None):
    """Return the requests that broke each rule, by the rule's name.

    `robots` is the text of the robots.txt of each host, by host, or of all. A pause counts from
    the start of one request to the start of the next where several may be made at once, otherwise
    from the end of the one before.
    """
    of_host = defaultdict(list)
    for request in sorted(seen, key=lambda request: request.start):
        of_host[request.host].append(request)
    broken = defaultdict(list)
    for host, requests in of_host.items():
        text = robots[host] if isinstance(robots, dict) else robots
        rules = RobotsRules(text, requests[0].agent)
        pause = max(delay, rules.crawl_delay)
        _judge_robots(requests, rules, broken)
        _judge_pauses(requests, pause, at_once, broken)
        _judge_busy(requests, retry_after, broken)
        asked = Counter()
        for request in requests:
            path, query, _ = request.target.partition("?")
            asked[path] += bool(query)
            if queries is not None and query and asked[path] > queries:
                broken["queries"].append(request)
            if request.method not in ("GET", "HEAD"):
                broken["methods"].append(request)
            if not _CONTACT(request.agent):
                broken["contact"].append(request)
    return dict(broken)


def _judge_robots(requests, rules, broken):
    """Judge whether robots.txt was read first, again after a day, and obeyed."""
    read_at = None
    for request in requests:
        if request.target == "/robots.txt":
            read_at = request.start
        elif read_at is None:
            broken["robots-first"].append(request)
        elif request.start - read_at > DAY + 60:
            broken["robots-age"].append(request)
        if request.target != "/robots.txt" and not rules.allows(request.target):
            broken["disallowed"].append(request)


def _judge_pauses(requests, pause, at_once, broken):
    """Judge how soon requests followed each other, and how many were under way."""
    for before, request in pairwise(requests):
        since = before.start if (at_once or 1) > 1 else before.end
        if request.start - since < pause - TOLERANCE:
            broken["delay"].append(request)
    ends = []
    for request in requests:
        n_under_way = len(ends) - bisect_left(ends, request.start + 0.001)
        if at_once is not None and n_under_way >= at_once:
            broken["at-once"].append(request)
        ends.insert(bisect_left(ends, request.end), request.end)


def _judge_busy(requests, retry_after, broken):
    """Judge the pause after each 429 and 503, of requests that were not under way then."""
    for busy in requests:
        if busy.status in (429, 503):
            broken["back-off"] += [
                request
                for request in requests
                if busy.end < request.start < busy.end + retry_after - TOLERANCE
            ]
    if not broken["back-off"]:
        del broken["back-off"]
