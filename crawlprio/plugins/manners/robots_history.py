"""Which robots.txt was in force when, for one robot."""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from protego import Protego

from crawlprio.errors import ConfigError
from crawlprio.web.robots_txt import MAX_BYTES, decoded, rules_for

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
