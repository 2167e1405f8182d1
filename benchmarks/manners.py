"""Crawls a web behind nginx with the bundled project, and judges the crawl by nginx's log.

Needs nginx. The web: 50 hosts on loopback with 450 pages each, a tenth of them disallowed, two
hosts with a Crawl-delay. Prints the requests that broke a rule, and exits with 1 if any did.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep

sys.path.append(str(Path(__file__).parent.parent / "tests" / "kit"))

from log_judge import LOG_FORMAT, broken_rules, seen_by_nginx

HOSTS = [f"127.0.1.{n}" for n in range(1, 51)]
N_PAGES = 450
ROBOTS = "User-agent: *\nDisallow: /no\n"


def write_web(folder: Path) -> None:
    """Write the pages that all hosts serve, each with ten links to others."""
    draw = random.Random(1)
    names = [f"{'no' if n % 10 == 9 else 'p'}{n}.html" for n in range(N_PAGES)]
    for n, name in enumerate(names):
        near = [names[k] for k in range(2 * n + 1, min(2 * n + 5, N_PAGES))]
        links = near + draw.sample(names, 6)
        (folder / name).write_text("".join(f"<p><a href='/{link}'>{link}</a>" for link in links))
    (folder / "index.html").write_text("".join(f"<p><a href='/{n}'>{n}</a>" for n in names[:60]))


def write_robots(folder: Path, port: int) -> None:
    """Write the robots.txt of each host."""
    folder.mkdir()
    for n, host in enumerate(HOSTS):
        delay = "Crawl-delay: 2\n" if n < 2 else ""
        (folder / f"{host}:{port}.txt").write_text(ROBOTS + delay)


def configuration(folder: Path, port: int) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    servers = "".join(f"listen {host}:{port};" for host in HOSTS)
    user = "user root;" if os.getuid() == 0 else ""
    return (
        f"{user} daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;"
        f"events {{ worker_connections 512; }} http {{ {temporary}"
        "types { text/html html; text/plain txt; }"
        f"log_format manners {LOG_FORMAT}; access_log {folder}/access.log manners;"
        f"server {{ {servers} root {folder}/web;"
        f"location = /robots.txt {{ alias {folder}/robots/$host:{port}.txt; }} }} }}"
    )


def start_nginx(folder: Path, port: int) -> subprocess.Popen[bytes]:
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if nginx is None:
        sys.exit("nginx is not installed (apt-get install nginx-light).")
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, port))
    line = [nginx, "-p", str(folder), "-c", str(file), "-e", f"{folder}/error.log"]
    server = subprocess.Popen(line)
    deadline = monotonic() + 20
    while True:
        try:
            socket.create_connection((HOSTS[0], port), 1).close()
            return server
        except OSError:
            if server.poll() is not None or monotonic() > deadline:
                raise
            sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=20_200)
    parser.add_argument("--delay", type=float, default=0.5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with socket.socket() as free:
            free.bind((HOSTS[0], 0))
            port = free.getsockname()[1]
        (folder / "web").mkdir()
        write_web(folder / "web")
        write_robots(folder / "robots", port)
        server = start_nginx(folder, port)
        program = [sys.executable, "-m", "crawlprio.commands.cli"]
        try:
            crawl = [f"http://{host}:{port}/" for host in HOSTS]
            asked = ["--pages", str(options.pages), "--delay", str(options.delay)]
            asked += ["--at-once", "50", "--contact", "https://example.org/bot", "-L", "WARNING"]
            subprocess.run([*program, "crawl", *crawl, *asked], cwd=folder, check=True)
        finally:
            server.terminate()
            server.wait(10)
        with (folder / "access.log").open() as log:
            seen = seen_by_nginx(log)
        robots = {file.stem: file.read_text() for file in (folder / "robots").glob("*.txt")}
    broken = broken_rules(seen, robots, delay=options.delay, at_once=1)
    for rule, requests in broken.items():
        print(f"{rule}: broken by {len(requests):,} requests, such as {requests[0]}")
    print(f"{len(seen):,} requests to {len(robots)} hosts; rules broken: {len(broken)}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
