"""Reading of access logs, line by line: combined, as of nginx and Apache, or JSON."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

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
_STATUS = re.compile(r"[0-9]{3}").fullmatch
_UNIX = re.compile(r"\d{9,11}(?:\.\d{1,9})?", re.ASCII).fullmatch
_TIME = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d:\d\d:\d\d) ([+-]\d{4})", re.ASCII).fullmatch
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))")
_EXTRA = re.compile(r"(?<![\d.])(\d{1,10}\.\d{3})(?![\d.])")
_AUTHORITY = re.compile(r"https?://([^/?#]+)", re.IGNORECASE).match
_FROM_2001 = 1e9

_KEYS = {
    "host": ("request.host", "http_host", "host", "server_name"),
    "address": ("request.client_ip", "request.remote_ip", "remote_addr"),
    "time": ("ts", "msec", "time_iso8601", "time_local"),
    "seconds": ("duration", "request_time"),
    "request": ("request",),
    "method": ("request.method", "request_method"),
    "target": ("request.uri", "request_uri"),
    "status": ("status",),
    "agent": ("request.headers.User-Agent", "http_user_agent"),
}
"""Where JSON logs have each field: Caddy's names first, then the names of nginx's variables."""


class LoggedRequest(NamedTuple):
    """One request of a log.

    `host` is the virtual host, if the line names one, and `address` that of the client. `time` is
    Unix time: of the end of the request in nginx, of its start in Apache; the true time may be
    later by up to `resolution` seconds. `seconds` is the duration, if the line ends with one that
    has milliseconds, as `$request_time` does. `target` starts with a slash, unless it is `*`.
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
    """The requests of one or several log files, plain or gzip, in order of time.

    Files are read in the order of their first request, one line at a time; one that cannot be read
    is a ConfigError. `n_lines` and `n_malformed` count the lines read so far and those in no known
    format, `malformed` has the first three of these as `file:line: text`, and `place` is file and
    line of the request read last.
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
    """Return the request of a line; None if it is in no known format.

    Cost: 5 µs.
    """
    if line.startswith("{"):
        return _parse_json(line)
    found = _LINE(line)
    if found is None:
        return None
    host, address, written, request, status, _, agent, rest = found.groups()
    moment, seconds = _moment(written), None
    for number in map(float, _EXTRA.findall(rest)) if rest else ():
        if number < _FROM_2001:
            seconds = number if seconds is None else seconds
        else:
            moment = moment and (number, MILLISECOND)
    return _logged(
        host or "", address, moment, seconds, unescaped(request), status, unescaped(agent)
    )


def _parse_json(line: str) -> LoggedRequest | None:
    """Return the request of a line of Caddy, or of nginx with the names of its variables."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    fields = {name: _first(said, keys) for name, keys in _KEYS.items()}
    try:
        seconds = float(fields["seconds"])
    except ValueError:
        seconds = -1.0
    return _logged(
        fields["host"],
        fields["address"],
        _moment(fields["time"]),
        seconds if 0 <= seconds < _FROM_2001 else None,
        fields["request"] or f"{fields['method']} {fields['target']}",
        fields["status"],
        fields["agent"],
    )


def _first(said: dict[str, Any], paths: Sequence[str]) -> str:
    """Return the first text or number of some places in a JSON object; empty if there is none."""
    for path in paths:
        found: Any = said
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        found = found[0] if isinstance(found, list) and found else found
        if isinstance(found, str | int | float) and found != "":
            return str(found)
    return ""


def _logged(
    host: str,
    address: str,
    moment: tuple[float, float] | None,
    seconds: float | None,
    request: str,
    status: str,
    agent: str,
) -> LoggedRequest | None:
    """Return a request by its fields; None if they are not those of one."""
    if moment is None or not address or not _STATUS(status):
        return None
    asked = _REQUEST(request)
    # Servers log requests that are not HTTP, too: a TLS handshake on a plain port, say.
    method, target = ("", "") if asked is None else asked.groups()
    whole = _AUTHORITY(target)
    if whole is not None:
        host, target = host or whole[1], target[whole.end() :] or "/"
    return LoggedRequest(
        host.lower(),
        address,
        *moment,
        seconds,
        method.upper(),
        target.partition("#")[0],
        int(status),
        agent,
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
def _moment(written: str) -> tuple[float, float] | None:
    """Return a log's time as Unix time with its resolution; None if it is no time.

    It may be `22/Nov/2026:23:48:26 +0000`, in ISO 8601, or the Unix time in seconds.
    """
    found = _TIME(written)
    try:
        if found is None:
            if _UNIX(written):
                return float(written), MILLISECOND if "." in written else SECOND
            moment = datetime.fromisoformat(written)
        else:
            day, month, year, clock, zone = found.groups()
            number = _MONTHS.index(month) + 1
            moment = datetime.fromisoformat(f"{year}-{number:02}-{day}T{clock}{zone}")
        return moment.timestamp(), MILLISECOND if moment.microsecond else SECOND
    except (ValueError, OverflowError):
        return None


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
