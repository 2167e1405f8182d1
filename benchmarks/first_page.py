"""How much processor time a crawl takes up to its first request, and how much memory as it ends.

A crawl of two pages by `crawlprio crawl`, whose server reads the process's time from /proc as the
first request for a page arrives: with nothing compiled, with everything compiled, and under each
ordering that is named. The peak of its resident memory is that of the whole process.

What it does not show: the disk's part, as Python's modules are in the page cache after the first
run, and how long a crawl of thousands of pages takes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def seconds_of(pid):
    """Return the processor time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Site(ThreadingHTTPServer):
    """A site whose home page links to another; `first` is the crawl's time at the first of them."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.pid = self.first = None


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server
        if self.path != "/robots.txt" and site.first is None:
            site.first = seconds_of(site.pid)
        body = b"<title>x</title><a href=/b>b</a>" if self.path != "/robots.txt" else b""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def crawl(cache, *options):
    """Return the processor seconds up to the first page and of the whole crawl, and its peak."""
    with Site() as site, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        line = [sys.executable, "-m", "crawlprio", "crawl", f"http://127.0.0.1:{site.server_port}/"]
        line += ["--folder", "job", "--pages", "2", "--contact", "me@example.org", *options]
        crawling = subprocess.Popen(
            line,
            cwd=folder,
            env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        site.pid = crawling.pid
        _, status, used = os.wait4(crawling.pid, 0)
        site.shutdown()
    assert status == 0, f"the crawl ended with status {status}"
    return {
        "first page, s": round(site.first, 2),
        "whole crawl, s": round(used.ru_utime + used.ru_stime, 2),
        "peak, MB": round(used.ru_maxrss * 1024 / 1e6),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ordering", nargs="*", default=["sibling-sampling", "rankmass"])
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as warm:
        compile_all = [sys.executable, "-m", "crawlprio", "compile"]
        environment = {**os.environ, "NUMBA_CACHE_DIR": warm}
        subprocess.run(compile_all, check=True, env=environment, stdout=subprocess.DEVNULL)
        for name in options.ordering:
            for run in range(options.runs):
                for cache in ("empty", "full"):
                    with tempfile.TemporaryDirectory() as cold:
                        folder = cold if cache == "empty" else warm
                        row = crawl(folder, "--ordering", name)
                    results.append({"ordering": name, "cache": cache, "run": run, **row})
                    print(results[-1], flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
