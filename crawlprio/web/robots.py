"""Extraction of the rules for one robot from a robots.txt, within limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MAX_LINES = 50_000
"""Maximum number of lines read from a robots.txt."""

MAX_RULES = 10_000
"""Maximum number of rules (Allow, Disallow and the like) obeyed for one robot: the first ones."""

MAX_STARS = 4_000
"""Maximum number of asterisks in the rules for one robot; rules that exceed it are ignored."""

MAX_SITEMAPS = 1_000
"""Maximum number of sitemaps kept."""

_ROBOT, _RULE, _SITE, _OTHER = range(4)
_KINDS = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), (_ROBOT, "User-agent")),
    **dict.fromkeys(
        ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"),
        (_RULE, "Disallow"),
    ),
    "allow": (_RULE, "Allow"),
    **dict.fromkeys(("crawl-delay", "crawl delay"), (_RULE, "Crawl-delay")),
    **dict.fromkeys(("request-rate", "request rate"), (_RULE, "Request-rate")),
    **dict.fromkeys(("visit-time", "visit time"), (_RULE, "Visit-time")),
    **dict.fromkeys(("sitemap", "sitemaps", "site-map"), (_SITE, "Sitemap")),
    "host": (_SITE, "Host"),
}


class RobotRules(NamedTuple):
    """A robots.txt reduced to the rules for one robot, under `User-agent: *`.

    Attributes
    ----------
    text
        The reduced file.
    n_rules
        Number of rules in it.
    is_cut
        Whether lines or rules were dropped because of the limits.
    """

    text: str
    n_rules: int
    is_cut: bool


def rules_for(text: str, agent: str) -> RobotRules:
    """Return the rules of a robots.txt that apply to one robot.

    The group is chosen as in Protego 0.7: by the longest name that occurs in `agent` at the start
    of a word, the first of them on a tie; otherwise `*`. Groups with that name are merged. Passing
    the whole file to a parser is dangerous, because it copies each rule to each name of its group:
    9 kB of gzip became 1.3 GB.

    Parameters
    ----------
    text
        The decoded file.
    agent
        Name of the robot, or its whole User-Agent header.

    Notes
    -----
    Cost: 1 µs per line, at most 0.1 s.
    """
    lines, every, is_cut = _read(text)
    winner = _best_name(every, agent.strip().lower())
    kept: list[str] = []
    n_rules = n_stars = 0
    for kind, name, value, robots in lines:
        if kind == _SITE:
            kept.append(f"{name}: {value}")
        elif winner in robots:
            n_here = value.count("*")
            if n_rules >= MAX_RULES or n_stars + n_here > MAX_STARS:
                is_cut = True
                continue
            n_rules += 1
            n_stars += n_here
            kept.append(f"{name}: {value}")
    return RobotRules("\n".join(("User-agent: *", *kept)), n_rules, is_cut)


class _Line(NamedTuple):
    """A directive with its value and the robot names of its group."""

    kind: int
    name: str
    value: str
    robots: dict[str, None]


def _read(text: str) -> tuple[list[_Line], dict[str, None], bool]:
    """Return the directives other than User-agent, all robot names in order, and whether cut."""
    every: dict[str, None] = {}
    robots: dict[str, None] = {}
    lines: list[_Line] = []
    n_sitemaps = 0
    is_ended = False
    for number, line in enumerate(text.splitlines()):
        if number >= MAX_LINES:
            return lines, every, True
        directive = _directive(line)
        if directive is None:
            continue
        kind, name, value = directive
        if kind == _ROBOT:
            if is_ended:
                robots, is_ended = {}, False
            if value:
                here = dict.fromkeys((value.lower(), value.lower().replace("*", "")))
                if value == "*":
                    here = {"*": None}
                here.pop("", None)
                robots |= here
                every |= here
        elif kind == _SITE:
            n_sitemaps += 1
            if value and n_sitemaps <= MAX_SITEMAPS:
                lines.append(_Line(kind, name, value, robots))
        else:
            # A line with an unknown name also ends the list of robots.
            is_ended = True
            if value and kind == _RULE:
                lines.append(_Line(kind, name, value, robots))
    return lines, every, False


def _directive(line: str) -> tuple[int, str, str] | None:
    """Return kind, name and value of a line, parsed as leniently as in Protego; None if empty."""
    if "#" in line:
        line = line[: line.index("#")]
    line = line.strip()
    if not line:
        return None
    written, colon, value = line.partition(":")
    if colon:
        known = _KINDS.get(written.strip().lower())
        if known is not None:
            return *known, value.strip()
        if not value or value[0].isspace():
            return _OTHER, "", ""
    words = line.split(maxsplit=2)
    for n_words in (1, 2):
        known = _KINDS.get(" ".join(words[:n_words]).lower())
        if known is not None:
            return *known, " ".join(line.split()[n_words:])
    return (_OTHER, "", "") if colon else None


def _best_name(names: Iterable[str], agent: str) -> str | None:
    """Return the best match for a robot: the longest name, the first of them on a tie."""
    best, best_score = None, 0
    for name in names:
        score = 1 if name == "*" else len(name)
        if score > best_score and (name == "*" or _stands_in(name, agent)):
            best, best_score = name, score
    return best


def _stands_in(name: str, agent: str) -> bool:
    """Whether a name occurs in a User-Agent at the start of a word."""
    at = agent.find(name)
    while at > 0 and (agent[at - 1].isalnum() or agent[at - 1] in "-_"):
        at = agent.find(name, at + 1)
    return at >= 0
