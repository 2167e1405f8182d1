"""What a robots.txt says to each robot, within limits, and how long it is valid.

Also what sites ask of those who use a page, which is recorded, and decides nothing that is fetched.
X-Robots-Tag and `meta name=robots` are Google's and Bing's; Content-Usage is that of the IETF
working group AIPREF (draft-ietf-aipref-attach-05): a header, or a line in a group of a robots.txt,
`Content-Usage: [PATH] PREFERENCES`.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from heapq import heappop, heappush
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from protego import Protego

from crawlprio.web.anchors import printable
from crawlprio.web.urls import MAX_URL_LENGTH

MAX_BYTES = 512 * 1024
"""Maximum number of bytes read of a robots.txt; RFC 9309, section 2.5, requires 500 KiB or more."""

MAX_LINES = 50_000
"""Maximum number of lines read from a robots.txt."""

MAX_RULES = 10_000
"""Maximum number of rules (Allow, Disallow and the like) obeyed for one robot: the first ones that
are no longer than a URL may be."""

MAX_WILDCARDS = 4_000
"""Maximum number of `*` and `$` in the rules for one robot; rules that exceed it are ignored."""

MAX_SITEMAPS = 1_000
"""Maximum number of sitemaps kept."""

MAX_AGE = 86_400
"""Seconds after which a robots.txt is fetched again: RFC 9309, section 2.4."""

ASK_AGAIN = 600
"""Seconds after which a robots.txt that could not be read is fetched again, and for which one that
was read is valid at least, whatever its Cache-Control says."""

MAX_ROBOTS = 4
"""Maximum number of robots whose rules are cached per file."""

_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_PRODUCT = re.compile(r"[^\s/,;()*]*").match
_WORD = re.compile(r"https?://[^\s;)]*|[^\s()<>;,]+").findall
_COMMENT_MARKS = re.compile(r"(?<!\\)([()])")
_NAME_IN_COMMENT = re.compile(
    # The item after `compatible`, or a whole item `name/version`.
    r"(?:^|;)\s*(?:compatible\s*;\s*([^\s;,/]+)|([^\s;,/]+)/v?[0-9][^\s;,/]*\s*(?=$|[;+]))"
).findall
_LINE_END = re.compile(r"\r\n?|\n")
_OTHER_BREAKS = re.compile("[\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What `str.splitlines` takes for the end of a line beside those of RFC 9309, section 2.2."""

_ENTRY_BYTES = 500
_PERCENT = "crawlprio-percent"


def _percent_encoded(error: UnicodeError) -> tuple[str, int]:
    """Return what replaces bytes that cannot be decoded, and where to continue."""
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(f"%{byte:02X}" for byte in wrong), error.end


codecs.register_error(_PERCENT, _percent_encoded)

_NAMES = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), "User-agent"),
    **dict.fromkeys(
        ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), "Disallow"
    ),
    "allow": "Allow",
    **dict.fromkeys(("crawl-delay", "crawl delay"), "Crawl-delay"),
    **dict.fromkeys(("request-rate", "request rate"), "Request-rate"),
    **dict.fromkeys(("visit-time", "visit time"), "Visit-time"),
    **dict.fromkeys(("sitemap", "sitemaps", "site-map"), "Sitemap"),
    "host": "Host",
    "content-usage": "Content-Usage",
}
"""The names of directives, by what is written for them."""

_OF_SITE = ("Sitemap", "Host")
"""Directives that belong to no robot."""


class RobotsTxt(NamedTuple):
    """What is known of the robots.txt of a site, which is one file for all robots.

    `packed` is the file, from `pack`. It was fetched at a Unix time for a robot (`agent`), and is
    to be fetched again after `lasts` seconds. `cause` says why it could not be read; empty if it
    was. `rules` has what `rules_for` returned for the robots that asked last.
    """

    packed: bytes
    fetched_at: float
    lasts: float
    cause: str = ""
    agent: str = ""
    rules: Mapping[str, str] = MappingProxyType({})

    @property
    def text(self) -> str:
        return zlib.decompress(self.packed).decode() if self.packed else ""

    def is_valid(self, now: float) -> bool:
        """Return whether it need not be fetched again yet, at a Unix time."""
        return 0 <= now - self.fetched_at < self.lasts

    def with_rules(self, agent: str, rules: str) -> RobotsTxt:
        """Return it with its rules for one more robot, in place of the oldest if there are many."""
        latest = list(self.rules.items())[1 - MAX_ROBOTS :]
        return self._replace(rules={**dict(latest), agent: rules})

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        n_rules = sum(map(len, self.rules.values()))
        return _ENTRY_BYTES * (1 + len(self.rules)) + len(self.packed) + n_rules


class RobotsFiles:
    """The robots.txt of many sites, in bounded memory: `max_bytes` for all of them together.

    Beyond the bound the largest file is dropped, to be fetched again when it is needed: files that
    one owner makes large never displace the small ones of others. Cost: O(log files) per call.
    """

    def __init__(self, max_bytes: int) -> None:
        self._room = max_bytes
        self._files: dict[str, RobotsTxt] = {}
        self._by_size: list[tuple[int, str]] = []

    def get(self, site: str) -> RobotsTxt | None:
        """Return the file of a site; None if it is not known."""
        return self._files.get(site)

    def keep(self, site: str, file: RobotsTxt) -> None:
        """Keep the file of a site, in place of an earlier one."""
        before = self._files.get(site)
        size_before = 0 if before is None else before.size
        self._files[site] = file
        self._room -= file.size - size_before
        if file.size != size_before:
            heappush(self._by_size, (-file.size, site))
        while self._room < 0 and self._by_size:
            size, site = heappop(self._by_size)
            largest = self._files.get(site)
            if largest is not None and -size == largest.size:
                del self._files[site]
                self._room -= size


def pack(text: str) -> bytes:
    """Return a robots.txt compressed, without what no robot reads: comments and empty lines."""
    lines = (line.partition("#")[0].strip() for line in _LINE_END.split(text)[:MAX_LINES])
    kept = "\n".join(line for line in lines if line)
    return zlib.compress(kept.encode(), 1) if kept else b""


def can_be_read(status: int) -> bool:
    """Return whether a response to a request for robots.txt says what is allowed.

    RFC 9309, section 2.3.1: after 4xx everything is allowed, after 5xx nothing is. Departures: 429
    asks for fewer requests, so nothing is allowed; nor is it after more than five redirects.
    """
    return 200 <= status < 300 or (400 <= status < 500 and status != 429)


def validity(cache_control: str) -> float:
    """Return for how many seconds a robots.txt with this Cache-Control header is valid."""
    found = _MAX_AGE.search(cache_control)
    return MAX_AGE if found is None else min(max(int(found[1]), ASK_AGAIN), MAX_AGE)


def decoded(body: bytes) -> str:
    """Return the text of a robots.txt up to `MAX_BYTES`, without a line that these cut.

    A byte-order mark is dropped, even a partial one. Bytes that are not UTF-8 are percent-encoded,
    as they are in a URL: /\\xe9 in Latin-1 forbids /%E9.
    """
    if len(body) > MAX_BYTES:
        end = max(body.rfind(line_end, 0, MAX_BYTES) for line_end in (b"\n", b"\r"))
        body = body[: max(end, 0) or MAX_BYTES]
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb"):
        body = body.removeprefix(mark)
    return body.decode("utf-8", _PERCENT)


def rules_for(text: str, agent: str) -> tuple[str, bool]:
    """Return the rules of a robots.txt for one robot, and whether the limits dropped any.

    They are returned as a robots.txt for `*`, so that no parser chooses the group by rules of its
    own. It is that of the `products` in `agent` (a name, or a whole User-Agent header), or that of
    `*` if the file names none of them (RFC 9309, section 2.2.1). All groups with such a name are
    merged; of their Crawl-delays the longest counts. `User-agent: Bot/2.1`, `Bot News` and `Bot*`
    name `bot`, and a line with an unknown name ends no list of robots (2.2.4). Passing the whole
    file to a parser is dangerous, too, because it copies each rule to each name of its group: 9 kB
    of gzip became 1.3 GB. Cost: 1 µs per line, at most 0.1 s.
    """
    lines, every, is_cut = _read(text)
    names = products(agent).intersection(every) or {"*"}
    kept: list[str] = []
    n_rules = n_wildcards = 0
    for name, value, robots in lines:
        if name in _OF_SITE:
            kept.append(f"{name}: {value}")
        elif not names.isdisjoint(robots):
            n_here = value.count("*") + value.count("$")
            if (
                n_rules >= MAX_RULES
                or n_wildcards + n_here > MAX_WILDCARDS
                or len(value) > MAX_URL_LENGTH
            ):
                is_cut = True
                continue
            n_rules += 1
            n_wildcards += n_here
            kept.append(f"{name}: {value}")
    kept.sort(key=_crawl_delay)  # a parser obeys the last
    return "\n".join(("User-agent: *", *kept)) if kept else "", is_cut


def _crawl_delay(line: str) -> float:
    """Return the seconds of a line with a Crawl-delay, and -1 for any other."""
    name, _, value = line.partition(": ")
    try:
        return max(-1, float(value)) if name == "Crawl-delay" else -1
    except ValueError:
        return -1


def permissions(rules: str) -> str:
    """Return the rules of `rules_for` that allow and forbid, without those for other ends."""
    kept = ("User-agent: ", "Allow: ", "Disallow: ")
    return "\n".join(line for line in rules.split("\n") if line.startswith(kept))


def _read(text: str) -> tuple[list[tuple[str, str, dict[str, None]]], dict[str, None], bool]:
    """Return the directives other than User-agent, all robot names in order, and whether cut.

    A directive is its name, its value and the robot names of its group.
    """
    every: dict[str, None] = {}
    robots: dict[str, None] = {}
    lines: list[tuple[str, str, dict[str, None]]] = []
    n_sitemaps = 0
    is_ended = False
    for number, line in enumerate(_LINE_END.split(text)):
        if number >= MAX_LINES:
            return lines, every, True
        directive = _directive(line)
        if directive is None:
            continue
        name, value = directive
        # For the parser that reads the rules, these end a line.
        value = _OTHER_BREAKS.sub(lambda char: quote(char[0]), value)
        if name == "User-agent":
            if is_ended:
                robots, is_ended = {}, False
            if value:
                product = _PRODUCT(value.lower())
                assert product is not None
                name = "*" if value.split()[0] == "*" else product[0]
                robots[name] = every[name] = None
        elif name in _OF_SITE:
            n_sitemaps += 1
            if 0 < len(value) <= MAX_URL_LENGTH and n_sitemaps <= MAX_SITEMAPS:
                lines.append((name, value, robots))
        else:
            is_ended = True
            if value:
                lines.append((name, value, robots))
    return lines, every, False


def _directive(line: str) -> tuple[str, str] | None:
    """Return name and value of a line, parsed as leniently as in Protego; None if it has none."""
    line = line.partition("#")[0].strip()
    written, colon, value = line.partition(":")
    if colon:
        known = _NAMES.get(written.strip().lower())
        if known is not None:
            return known, value.strip()
        if not value or value[0].isspace():
            return None
    words = line.split(maxsplit=2)
    for n_words in (1, 2):
        known = _NAMES.get(" ".join(words[:n_words]).lower())
        if known is not None:
            return known, " ".join(line.split()[n_words:])
    return None


@lru_cache(maxsize=64)
def products(agent: str) -> frozenset[str]:
    """Return the products that a User-Agent names, in lower case, without their versions.

    URLs and mail addresses name none, and neither do comments (RFC 9110, section 10.1.5), but for
    the names that robots write where browsers write theirs: an item `name/version`, and the item
    after `compatible`. `Mozilla/5.0 (compatible; MyBot/1.0; a crawler)` names mozilla and mybot.
    Cost: 1 µs per word, once per User-Agent.
    """
    names: list[str] = []
    depth = 0
    for part in _COMMENT_MARKS.split(agent.lower()):
        if part in ("(", ")"):
            depth = max(depth + (1 if part == "(" else -1), 0)
        elif depth:
            names += (one or other for one, other in _NAME_IN_COMMENT(part))
        else:
            words = (word for word in _WORD(part) if "@" not in word and "://" not in word)
            names += (word.partition("/")[0].strip("+:'\"[]{}") for word in words)
    return frozenset(names) - {""}


_WITH_VALUE = re.compile(r"max-[\w-]+\s*:\s*[^\s,]*|unavailable_after\s*:")
_ADDRESSED = re.compile(
    # A name of a robot, before something that is known to be said to robots.
    r"\s*(\*|[a-z_][\w.+-]*)(?:/\S*)?\s*:(?=\s*(?:all|index\w*|follow|no\w+)\b)"
).match


def forbids(directive: str, said: Iterable[str], names: Collection[str] = ()) -> bool:
    """Return whether a robot is told `directive` (`nofollow` or `noindex`) or `none`.

    `said` has X-Robots-Tag fields, or the contents of `meta` elements. What follows the name of a
    robot, up to the next such name, is for that robot alone; `names` are those of the robot that
    asks, in lower case. Values are skipped (`max-image-preview: none`, the date of
    `unavailable_after`, with or without a comma), and so is what is unknown.
    """
    for value in said:
        is_meant = True
        for rule in _WITH_VALUE.sub("all ", value.lower()).split(","):
            addressed = _ADDRESSED(rule)
            if addressed is not None:
                is_meant = addressed[1] == "*" or addressed[1] in names
                rule = rule[addressed.end() :]
            if is_meant and not {directive, "none"}.isdisjoint(rule.replace(";", " ").split()):
                return True
    return False


MAX_LENGTH = 1_000
"""Maximum number of characters kept of a directive for those who use a page."""

USAGE_LINE = "Content-Usage: "


def joined(values: Iterable[str]) -> str:
    """Return some values of one directive as one text, printable and cut at `MAX_LENGTH`."""
    return printable(", ".join(filter(None, (value.strip() for value in values))))[:MAX_LENGTH]


class UsageRules:
    """The Content-Usage lines of a robots.txt as `rules_for` returns it, for one robot.

    Departure from the draft: preferences for one path that differ are all kept, for the vocabulary
    to combine.
    """

    def __init__(self, rules: str) -> None:
        self._rules: list[tuple[int, Protego, str]] = []
        for line in rules.split("\n"):
            if line.startswith(USAGE_LINE):
                value = line.removeprefix(USAGE_LINE)
                words = value.split(maxsplit=1) if value.startswith("/") else ["/", value]
                if len(words) == 2:
                    path, preferences = words
                    # Its paths match as those of Disallow do.
                    matcher = Protego.parse(f"User-agent: *\nDisallow: {path}")
                    length = len(path.encode()) if value.startswith("/") else 0
                    self._rules.append((length, matcher, preferences))

    def preferences(self, url: str) -> str:
        """Return the preferences for a URL by the longest path; empty if there are none."""
        found = [
            (length, said)
            for length, matcher, said in self._rules
            if not matcher.can_fetch(url, "*")
        ]
        longest = max((length for length, _ in found), default=0)
        return joined(dict.fromkeys(said for length, said in found if length == longest))
