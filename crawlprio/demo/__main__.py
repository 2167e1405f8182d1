"""`python -m crawlprio.demo`: serve the demo web, or a recorded one, on loopback."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.outside.opening import open_file

if TYPE_CHECKING:
    from crawlprio.demo import Web


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; return 0, or 2 with one sentence on stderr for bad input."""
    parent = os.getppid()
    options = _parser().parse_args(arguments)
    try:
        _serve(options, parent)
    except CrawlprioError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _serve(options: argparse.Namespace, parent: int) -> None:
    from crawlprio.demo import server

    web = _web(options)
    try:
        file = nullcontext() if options.log is None else open_file(options.log, "w", buffering=1)
    except OSError as error:
        raise ConfigError(f"{options.log} cannot be written ({error.strerror}).") from error
    with file as log:
        port = server.listen(web, options.port, log)
        line = f"serving {len(web)} pages of {len(web.hosts)} sites at http://127.0.0.1:{port}"
        if options.until_stdin_closes:
            served = {"pages": len(web), "hosts": list(web.hosts), "seeds": list(web.seeds)}
            line = json.dumps({"port": port, **served})
        server.serve(
            lambda: print(line, flush=True),
            parent=parent,
            until_stdin_closes=options.until_stdin_closes,
        )


def _web(options: argparse.Namespace) -> Web:
    """Return the web to serve; import no more than it needs."""
    if options.recording is None:
        from crawlprio.demo.web import DemoWeb

        return DemoWeb(options.pages, options.sites, options.seed)
    from crawlprio.demo.recordings import open_web

    return open_web(options.recording)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m crawlprio.demo",
        description="Serve a synthetic or recorded web as an HTTP proxy on 127.0.0.1. The server "
        "answers every request itself and makes no connections. It stops on SIGTERM or SIGINT, or "
        "when its parent process is gone.",
    )
    parser.add_argument("--port", type=_port, default=0, help="port; 0, the default: any free one")
    parser.add_argument(
        "--pages", type=int, default=20_000, help="number of pages of the demo web (%(default)s)"
    )
    parser.add_argument(
        "--sites", type=int, default=200, help="number of sites of the demo web (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the demo web (%(default)s)")
    parser.add_argument(
        "--recording", type=Path, metavar="FILE", help="serve a WARC file or a crawl store instead"
    )
    parser.add_argument(
        "--log",
        type=Path,
        metavar="FILE",
        help="log each request as a line of JSON, with its times",
    )
    parser.add_argument(
        "--until-stdin-closes",
        action="store_true",
        help="also stop when standard input closes, and print what is served as JSON",
    )
    return parser


def _port(text: str) -> int:
    """Return a port number; raise the error that `argparse` expects if it is invalid."""
    if not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give 1 to 65535, or 0 for any")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
