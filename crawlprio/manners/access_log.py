"""Reading of access logs in the combined format of nginx and Apache, line by line."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import IO, NamedTuple

from crawlprio.errors import ConfigError, printable

MAX_LINE_BYTES = 65_536
"""Maximum length of a line in bytes; a longer one counts as malformed and is skipped."""

SECOND = 1.0
"""Resolution of the time in a combined log, in seconds."""

MILLISECOND = 0.001

_SHOWN = 100
_GZIP = b"\x1f\x8b"
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_LINE = re.compile(
    r"(?:(\S++) )?(\S++) \S++ \S++ \[([^\]]{20,30})\] "
    rf"{_QUOTED} (\d{{3}}) (?:\d++|-) {_QUOTED} {_QUOTED}(.*)",
    re.DOTALL,
).fullmatch
_REQUEST = re.compile(r"([A-Za-z]{1,20}) (\S++)(?: HTTP/[\d.]{1,5})?").fullmatch
_TIME = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)").fullmatch
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))")
_EXTRA = re.compile(r"(?<![\d.])(\d{1,10}\.\d{3})(?![\d.])")
_AUTHORITY = re.compile(r"https?://([^/?#]+)", re.IGNORECASE).match
_FROM_2001 = 1e9


class LoggedRequest(NamedTuple):
    """One request of a log.

    Attributes
    ----------
    host
        The virtual host, if the line names one; otherwise empty.
    address
        Address of the client.
    time
        Unix time: of the end of the request in nginx, of its start in Apache.
    resolution
        Seconds by which the true time may be later than `time`.
    seconds
        Duration, if the line ends with one that has milliseconds, as `$request_time` does.
    method, target, status, agent
        The request; `target` starts with a slash, unless it is `*`.
    """

    host: str
    address: str
    time: float
    resolution: float
    seconds: float | None
    method: str
    target: str
    status: int
    agent: str

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


class AccessLog:
    """The requests of one or several log files, in order of time.

    Files are read in the order of their first request. One line is in memory at a time.

    Parameters
    ----------
    paths
        The files, plain or gzip.

    Attributes
    ----------
    n_lines, n_malformed
        Lines read so far, and how many of them are not in the combined format.
    malformed
        The first three of these, as `file:line: text`.
    place
        File and line of the request read last.

    Raises
    ------
    ConfigError
        If a file cannot be read.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.n_lines = self.n_malformed = 0
        self.malformed: list[str] = []
        self._path = Path()
        self._number = 0
        self._paths = sorted(paths, key=_first_time) if len(paths) > 1 else list(paths)

    @property
    def place(self) -> str:
        return f"{self._path}:{self._number}"

    def __iter__(self) -> Iterator[LoggedRequest]:
        for path in self._paths:
            self._path, self._number = path, 0
            for line in read_lines(path):
                self._number += 1
                self.n_lines += 1
                request = None if line is None else parse_line(line)
                if request is not None:
                    yield request
                    continue
                self.n_malformed += 1
                if len(self.malformed) < 3:
                    said = f"longer than {MAX_LINE_BYTES:,} bytes" if line is None else line
                    self.malformed.append(shown(f"{self.place}: {said}", 160))


def read_lines(path: Path) -> Iterator[str | None]:
    """Yield the lines of a file, plain or gzip, without their ends; None for one too long."""
    try:
        with _open(path) as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                if len(line) <= MAX_LINE_BYTES or line.endswith(b"\n"):
                    yield line.rstrip(b"\r\n").decode("utf-8", "replace")
                    continue
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                yield None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{path} cannot be read ({reason}); give an access log, plain or gzip."
        ) from None


def parse_line(line: str) -> LoggedRequest | None:
    """Return the request of a line; None if it is not in the combined format.

    Cost: 5 µs.
    """
    found = _LINE(line)
    if found is None:
        return None
    host, address, written, request, status, _, agent, rest = found.groups()
    asked, ended = _REQUEST(unescaped(request)), _unix_time(written)
    if ended is None:
        return None
    # Servers log requests that are not HTTP, too: a TLS handshake on a plain port, say.
    method, target = ("", "") if asked is None else asked.groups()
    whole = _AUTHORITY(target)
    if whole is not None:
        host, target = host or whole[1], target[whole.end() :] or "/"
    time, resolution, seconds = ended, SECOND, None
    for number in map(float, _EXTRA.findall(rest)) if rest else ():
        if number < _FROM_2001:
            seconds = number if seconds is None else seconds
        else:
            time, resolution = number, MILLISECOND
    return LoggedRequest(
        (host or "").lower(),
        address,
        time,
        resolution,
        seconds,
        method.upper(),
        target.partition("#")[0],
        int(status),
        unescaped(agent),
    )


def unescaped(text: str) -> str:
    r"""Return a field without the escapes of nginx (`\x22`) and Apache (`\"`)."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


def shown(text: str, length: int = _SHOWN) -> str:
    """Return a text as it is safe to print: without control characters, and cut."""
    return printable(text if len(text) <= length else f"{text[: length - 3]}...")


@lru_cache(maxsize=1024)
def _unix_time(written: str) -> float | None:
    """Return the Unix time of a log's time: `22/Nov/2026:23:48:26 +0000`."""
    found = _TIME(written)
    if found is None or found[2] not in _MONTHS:
        return None
    day, month, year, hour, minute, second, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    try:
        moment = datetime(
            *(int(year), _MONTHS.index(month) + 1, int(day)),
            *(int(hour), int(minute), min(int(second), 59)),
            tzinfo=timezone(offset),
        )
    except ValueError:
        return None
    return moment.timestamp()


def _first_time(path: Path) -> float:
    """Return the time of the first request of a file; infinity if it has none."""
    for line in read_lines(path):
        request = None if line is None else parse_line(line)
        if request is not None:
            return request.time
    return float("inf")


def _open(path: Path) -> IO[bytes]:
    """Open a file, by its first bytes as gzip."""
    file = path.open("rb")
    is_packed = file.peek(2)[:2] == _GZIP
    return gzip.GzipFile(fileobj=file) if is_packed else file  # type: ignore[return-value]
