"""Link graphs of archived websites that are not documentation; run by hand.

    python benchmarks/archives.py FOLDER [--web NAME]... [--list]

Fetches a stated commit of the public git repositories in `archive_list.py`, which hold websites as
HTML, reads the links of every page with the crawler's own parser, and writes one link graph for
each: `FOLDER/NAME.npz`, `NAME.urls.gz` and `NAME.homes.txt`, like `webs.py`. The repositories stay
in `FOLDER/git`, about 5 GB.

A link leads to a page of the archive if its path is that of a file, of a folder with an
`index.html`, or of a file without its `.html`; its query belongs to the path where the archive kept
it in file names, and `?id=7&page=2` leads to `7/2.html` where it kept that. Only pages that can be
reached from the home pages are in the web. Beside pages and links it prints the share of the links
to the archive's own hosts that lead to a page it kept: where that is small, the archive has holes.

A third of the webs, `HELD_OUT`, is set aside for judging: no ordering and no option may be chosen
by them. The rule was fixed before any crawl of them: those whose names have the smallest SHA-256.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
from archive_list import ARCHIVES, HELD_OUT, HOST, Archive
from webs import LARGEST, write_web

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.web.html import parse_page

OFTEN_LEFT_OUT = 2**22
"""Bytes from which on a file counts as empty, as copies of repositories often lack such files."""


class Tree:
    """The files of a commit, read without checking it out."""

    def __init__(self, folder: Path, archive: Archive) -> None:
        self._git = ["git", "-C", str(folder)]
        if not folder.exists():
            folder.mkdir(parents=True)
            url = f"https://github.com/{archive.repository}.git"
            try:
                self._run("init", "--quiet", "--bare")
                self._run("fetch", "--quiet", "--depth", "1", url, archive.commit)
            except subprocess.CalledProcessError as error:
                shutil.rmtree(folder)  # otherwise the next run would take it for fetched
                raise SystemExit(
                    f"{url}: {error.stderr.decode(errors='replace').strip()}"
                ) from None
        listing = self._run("ls-tree", "-r", "-z", archive.commit)
        self.blobs: dict[str, str] = {}
        for entry in listing.split(b"\0"):
            facts, _, name = entry.partition(b"\t")
            path = name.decode("utf-8", "surrogateescape")
            if path.startswith(archive.root) and path.lower().endswith((".html", ".htm")):
                self.blobs[path.removeprefix(archive.root)] = facts.split()[2].decode()
        self._reader = subprocess.Popen(
            [*self._git, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def _run(self, *words: str) -> bytes:
        return subprocess.run([*self._git, *words], check=True, capture_output=True).stdout

    def read(self, path: str) -> bytes:
        """Return the first `LARGEST` bytes of a file; none of one that is too large."""
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        self._reader.stdin.write(f"{self.blobs[path]}\n".encode())
        self._reader.stdin.flush()
        facts = self._reader.stdout.readline().split()
        if facts[1] == b"missing":
            return b""
        size = int(facts[2])
        body = self._reader.stdout.read(size + 1)
        return b"" if size >= OFTEN_LEFT_OUT else body[: min(size, LARGEST)]

    def close(self) -> None:
        """End the process that reads."""
        assert self._reader.stdin is not None
        self._reader.stdin.close()
        self._reader.wait()


def path_of(url: str, archive: Archive) -> tuple[str, str] | None:
    """Return path and query of a URL on the hosts of the archive, otherwise None."""
    parts = urlsplit(url)
    address = f"{parts.netloc}{parts.path}"
    for prefix in (*archive.prefixes, HOST):
        if address == prefix or address.startswith(f"{prefix}/"):
            return unquote(address[len(prefix) :]).lstrip("/"), unquote(parts.query)
    return (unquote(address), unquote(parts.query)) if archive.folders_are_sites else None


def page_at(path: str, query: str, blobs: Mapping[str, str]) -> str:
    """Return the path of the file that path and query lead to, or '' for none in the archive."""
    folder = f"{path.rstrip('/')}/".lstrip("/")
    values = "/".join(value for _, value in parse_qsl(query))
    named = [f"{path}?{query}", f"{folder}{values}"] if query else []
    for found in (*named, path):
        for candidate in (found, f"{found}.html", f"{found}/index.html"):
            if candidate in blobs:
                return candidate
    return f"{folder}index.html" if f"{folder}index.html" in blobs else ""


def read_archive(tree: Tree, archive: Archive) -> tuple[LinkGraph, float]:
    """Return the graph of the pages reachable from the home pages, which come first.

    Also returns the share of the links to the archive's hosts that lead to one of its pages.
    """
    number_of = {home: number for number, home in enumerate(archive.homes)}
    queue = deque(archive.homes)
    rows: list[list[int]] = []
    n_within = n_found = 0
    while queue:
        page = queue.popleft()
        row: dict[int, None] = {}
        is_on_own_site = archive.folders_are_sites and "/" in page
        base = f"http://{page}" if is_on_own_site else f"http://{HOST}/{page}"
        for url in parse_page(tree.read(page), base).urls:
            address = path_of(url, archive)
            target = page_at(*address, tree.blobs) if address else ""
            n_within += address is not None
            n_found += bool(target)
            if target and target != page:
                if target not in number_of:
                    number_of[target] = len(number_of)
                    queue.append(target)
                row[number_of[target]] = None
        rows.append(list(row))
    sites: dict[str, int] = {}
    hosts = [
        path.partition("/")[0] if archive.folders_are_sites and "/" in path else HOST
        for path in number_of
    ]
    graph = LinkGraph.cleaned(
        np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
        np.fromiter((page for row in rows for page in row), dtype=np.int32),
        site=np.array([sites.setdefault(host, len(sites)) for host in hosts], dtype=np.int32),
        urls=[f"http://{HOST}/{path}" for path in number_of],
    )
    return graph, n_found / max(n_within, 1)


def build(folder: Path, names: Iterable[str]) -> None:
    """Write the graphs of the given webs."""
    for name in names:
        archive = ARCHIVES[name]
        tree = Tree(folder / "git" / archive.repository.replace("/", "+"), archive)
        try:
            graph, share_found = read_archive(tree, archive)
        finally:
            tree.close()
        write_web(folder / name, graph, range(len(archive.homes)))
        print(
            f"{name}: {archive.kind}, {graph.n_pages:,} of {len(tree.blobs):,} pages, "
            f"{graph.n_links:,} links, {share_found:.0%} of the links within lead to one",
            flush=True,
        )


def main() -> None:
    """Build webs, or list them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--web", action="append", choices=sorted(ARCHIVES))
    parser.add_argument("--list", action="store_true", help="print the webs, and end")
    given = parser.parse_args()
    if given.list:
        for name, archive in ARCHIVES.items():
            judges = " (held out)" if name in HELD_OUT else ""
            print(f"{name}: {archive.kind}, github.com/{archive.repository}{judges}")
        return
    build(given.folder, given.web or ARCHIVES)


if __name__ == "__main__":
    main()
