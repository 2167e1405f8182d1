"""Folders of real pages, served by Debian's nginx on loopback addresses."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forked import running
from waiting import listens, until

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass
class Server:
    """nginx on one port of several loopback addresses."""

    port: int
    log: Path
    hosts: Sequence[str]

    def url(self, host, path):
        return f"http://{host}:{self.port}{path}"

    @property
    def seeds(self):
        return [self.url(host, "/index.html") for host in self.hosts]

    def requests(self):
        """Return host, path and status of each request so far."""
        found = []
        for line in self.log.read_text().splitlines():
            host, uri, status = line.split(" ")
            found.append((host, uri, int(status)))
        return found


@contextmanager
def serve(folder, sites, *, charset="charset utf-8;"):
    """Serve sites by their address: a folder of pages, and the paths that robots.txt forbids."""
    assert NGINX is not None
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    blocks = []
    for host, (root, forbidden) in sites.items():
        rules = "".join(f"Disallow: {path}\\n" for path in forbidden)
        blocks.append(
            f"server {{ listen {host}:{port}; root {root}; "
            f'location = /robots.txt {{ return 200 "User-agent: *\\n{rules}"; }} }}'
        )
    temporary = "".join(
        f"{kind}_temp_path {folder / kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;"
        "events { worker_connections 512; }"
        f"http {{ include /etc/nginx/mime.types; default_type application/octet-stream; {temporary}"
        f"gzip on; gzip_types text/plain text/css application/javascript; {charset}"
        "log_format short '$server_addr $request_uri $status';"
        f"access_log {folder}/access.log short; {' '.join(blocks)} }}"
    )
    line = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", f"{folder}/error.log"]
    with running(line, ends_by=signal.SIGTERM, stderr=subprocess.DEVNULL) as process:
        said = (folder / "error.log").read_text
        until(lambda: listens(next(iter(sites)), port), process=process, said=said)
        yield Server(port, folder / "access.log", list(sites))
