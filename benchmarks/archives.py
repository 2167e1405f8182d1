"""Link graphs of archived websites that are not documentation; run by hand.

    python benchmarks/archives.py FOLDER [--web NAME]... [--list]

Fetches a stated commit of public git repositories that hold websites as HTML (mailing lists,
forums, newspapers, wikis, sites of organisations), reads the links of every page
with the crawler's own parser, and writes one link graph for each: `FOLDER/NAME.npz`, `NAME.urls.gz`
and `NAME.homes.txt`, like `webs.py`. The repositories stay in `FOLDER/git`, about 2 GB.

A link leads to a page of the archive if its path is that of a file, of a folder with an
`index.html`, or of a file without its `.html`; its query belongs to the path where the archive kept
it in file names. Only pages that can be reached from the home pages are in the web.

A third of the webs, `HELD_OUT`, is set aside for judging: no ordering and no option may be chosen
by them. The rule was fixed before any crawl of them: those whose names have the smallest SHA-256.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import deque
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
from webs import LARGEST, write_web

from crawlprio.linkgraph import LinkGraph
from crawlprio.web.html import parse_page

HOST = "archive.example"
"""The host that stands for the archive where it has only one."""


class Archive(NamedTuple):
    """A website in a git repository."""

    kind: str
    repository: str
    """Owner and name on GitHub."""
    commit: str
    homes: tuple[str, ...]
    """Paths of the home pages, below `root`."""
    root: str = ""
    """The folder that holds the website."""
    prefixes: tuple[str, ...] = ()
    """Host and path under which its pages link to each other absolutely."""
    folders_are_sites: bool = False
    """Whether each folder at the top is a site of its own, otherwise all pages are on one."""


ARCHIVES = {
    "twisted-lists": Archive(
        "mailing lists",
        "twisted/pipermail",
        "75a0ed20ffa55cc4354dc11e725a2f2c096f566c",
        (
            *("twisted-python/index.html", "twisted-web/index.html", "inheritance/index.html"),
            *("reality/index.html", "divunal-list/index.html", "divunal-author/index.html"),
            "divunal-devel/index.html",
        ),
        prefixes=("twistedmatrix.com/pipermail", "www.twistedmatrix.com/pipermail"),
        folders_are_sites=True,
    ),
    "imagej-lists": Archive(
        "mailing lists",
        "imagej/pipermail",
        "e1ba8566b04f736fe4e2ef06b8cea2a97ef36897",
        ("index.html",),
        prefixes=("imagej.net/pipermail", "jenkins.imagej.net/pipermail"),
    ),
    "opendcl-forum": Archive(
        "forum",
        "opendcl/forum-archive",
        "ad10ae279fbf8f36dfcfe552356b1bfca6ecf94c",
        ("index.html",),
    ),
    "openenergy-forum": Archive(
        "forum",
        "openenergymonitor/forum-archive",
        "e0a42e321b9faca872ff9ef3f617757c3d97ef12",
        ("index.html",),
        prefixes=("openenergymonitor.org/emon", "openenergymonitor.org"),
    ),
    "ucf-news": Archive(
        "newspaper",
        "UCF/UCF-News-Static-Archive",
        "cd7992f11f0e4efa8533cba150e2e265af40837d",
        ("index.html",),
        root="news.ucf.edu/output/",
        prefixes=("news.ucf.edu/UCFnews", "news.ucf.edu"),
    ),
    "we-change": Archive(
        "newspaper",
        "amir-rashidi/we-change-static-archive",
        "0c7778fd4f361fc79f53ca3d0209eddeaf7e9546",
        ("index.html",),
        prefixes=(f"{HOST}/we-change-static-archive/site", f"{HOST}/we-change-static-archive"),
    ),
    "wikinotes": Archive(
        "wiki",
        "dellsystem/wikinotes-static-archive",
        "722deea52a084d1149b7060c8c94c8cbd1831280",
        ("index.html",),
        root="docs/",
    ),
    "mozilla-reps": Archive(
        "people and events",
        "irvin/reps-portal-static-archive",
        "9488c634fb8e9dc8bf57ff97c4c515f76e3ac65f",
        ("index.html",),
        prefixes=("reps.mozilla.org",),
    ),
    "openehr": Archive(
        "organisation",
        "openEHR/openehr.org-django-site-static-archive",
        "5f3b6bc6f7cfd32418145fa39362a45eedda3fa2",
        ("index.html",),
        prefixes=("openehr.org", "www.openehr.org"),
    ),
}
"""The webs, by name."""

HELD_OUT = sorted(ARCHIVES, key=lambda name: sha256(name.encode()).digest())[: len(ARCHIVES) // 3]
"""The webs that judge, and that nothing is tuned on."""


class Tree:
    """The files of a commit, read without checking it out."""

    def __init__(self, folder: Path, archive: Archive) -> None:
        self._git = ["git", "-C", str(folder)]
        if not folder.exists():
            folder.mkdir(parents=True)
            self._run("init", "--quiet", "--bare")
            url = f"https://github.com/{archive.repository}.git"
            self._run("fetch", "--quiet", "--depth", "1", url, archive.commit)
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
        """Return the first `LARGEST` bytes of a file."""
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        self._reader.stdin.write(f"{self.blobs[path]}\n".encode())
        self._reader.stdin.flush()
        size = int(self._reader.stdout.readline().split()[2])
        return self._reader.stdout.read(size + 1)[: min(size, LARGEST)]

    def close(self) -> None:
        """End the process that reads."""
        assert self._reader.stdin is not None
        self._reader.stdin.close()
        self._reader.wait()


def target_of(url: str, archive: Archive, blobs: Mapping[str, str]) -> str:
    """Return the path of the page that a URL leads to, or '' for none in the archive."""
    parts = urlsplit(url)
    address = f"{parts.netloc}{parts.path}"
    for prefix in (*archive.prefixes, HOST):
        if address == prefix or address.startswith(f"{prefix}/"):
            path = unquote(address[len(prefix) :]).lstrip("/")
            break
    else:
        if not archive.folders_are_sites:
            return ""
        path = unquote(address)
    named = [f"{path}?{unquote(parts.query)}"] if parts.query else []
    folder = f"{path.rstrip('/')}/".lstrip("/")
    for found in (*named, path):
        for candidate in (found, f"{found}.html"):
            if candidate in blobs:
                return candidate
    return f"{folder}index.html" if f"{folder}index.html" in blobs else ""


def read_archive(tree: Tree, archive: Archive) -> tuple[LinkGraph, list[int]]:
    """Return the graph of the pages reachable from the home pages, and the home pages."""
    number_of = {home: number for number, home in enumerate(archive.homes)}
    queue = deque(archive.homes)
    rows: list[list[int]] = []
    while queue:
        path = queue.popleft()
        row: dict[int, None] = {}
        is_on_own_site = archive.folders_are_sites and "/" in path
        base = f"http://{path}" if is_on_own_site else f"http://{HOST}/{path}"
        for url in parse_page(tree.read(path), base).urls:
            target = target_of(url, archive, tree.blobs)
            if target and target != path:
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
    return graph, list(range(len(archive.homes)))


def build(folder: Path, names: Iterable[str]) -> None:
    """Write the graphs of the given webs."""
    for name in names:
        archive = ARCHIVES[name]
        tree = Tree(folder / "git" / archive.repository.replace("/", "+"), archive)
        try:
            graph, homes = read_archive(tree, archive)
        finally:
            tree.close()
        write_web(folder / name, graph, homes)
        print(
            f"{name}: {archive.kind}, {graph.n_pages:,} of {len(tree.blobs):,} pages, "
            f"{graph.n_links:,} links",
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
