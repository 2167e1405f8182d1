"""Access logs: written line by line, and by a crawl of a `crawls.Site`."""

import time
from datetime import UTC, datetime

BOT = "mybot/1.0 (+https://mybot.test/)"


def line(
    at=0, path="/", *, status=200, agent=BOT, method="GET", address="10.0.0.1", host="", extra=""
):
    """Return a line in the combined format, at some seconds after the start of the crawl."""
    moment = datetime.fromtimestamp(1_790_000_000 + int(at), UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
    return (
        f'{host}{" " if host else ""}{address} - - [{moment}] "{method} {path} HTTP/1.1" {status} '
        f'512 "-" "{agent}"{extra}'
    )


def robots_read(at=0, status=200, **how):
    return line(at, "/robots.txt", status=status, **how)


def write_log(path, lines):
    path.write_text("\n".join([*lines, ""]))
    return path


def logged(fetches):
    """Return what a server that logs `$request_time $msec` would say of these fetches."""
    offset = time.time() - time.monotonic()
    return [
        line(
            fetch.end + offset - 1_790_000_000,
            fetch.path,
            agent=fetch.headers.get("user-agent", "-"),
            method=fetch.method,
            address="127.0.0.1",
            host=f"{fetch.host}:80",
            extra=f" {fetch.end - fetch.start:.3f} {fetch.end + offset:.3f}",
        )
        for fetch in sorted(fetches, key=lambda fetch: fetch.end)
    ]
