"""Histories of websites from public git repositories of their HTML; run by hand.

    python benchmarks/histories.py FOLDER [--web NAME]... [--list]

Clones the repositories of `HISTORIES` to `FOLDER/git`, about 2 GB, and writes each history to
`FOLDER/NAME.npz`: what a crawler could have seen on each day. The state of a day is that of its
last commit, along first parents. Of each version of a page the file has the blob, a number for its
core, and the pages of the site that it links to; of each state, which pages can be reached from the
home pages, and their PageRank. A core is what a page says: the blocks of its text without those
that stand, digits apart, on a tenth of all pages of the history. It is what
`crawlprio.plugins.update.sameness` looks for, but with hindsight.

How well that module finds changes without hindsight is measured on the way, and printed: each
version of each page is compared with the one before, by counts of the copies held then.

Half of the histories, `HELD_OUT`, is set aside for judging: no rule and no constant of an update
may be chosen by them. Chosen before any of the new histories was read: boost-site, and six of the
nine others that had not been seen, those whose names have the smallest SHA-256.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from crawlprio.plugins.update.sameness import LEAST, SHARE, Blocks, SiteCounts, blocks_of
from crawlprio.ranking.pagerank import pagerank
from crawlprio.web.html import parse_page

Floats = NDArray[np.float64]

GONE = -1
"""The version of a page that is not there."""


class Source(NamedTuple):
    """A website in a git repository.

    `repository`: owner and name on GitHub. `commit`: the last one that counts. `host`: of the
    website; further names of it are in `others`. `under`: the folder that holds it. `skip`: paths
    in it that are left out, a regular expression. `homes`: paths of its home pages.
    """

    kind: str
    repository: str
    commit: str
    host: str
    others: tuple[str, ...] = ()
    under: str = ""
    skip: str = "$^"
    homes: tuple[str, ...] = ("index.html",)


SEEN = {
    "sympy": Source(
        "software project",
        "sympy/sympy.github.com",
        "1282b9bb4dfd461c699648dc1c73e7ba00c5e0ad",
        "sympy.org",
    ),
    "kafka": Source(
        "software project",
        "apache/kafka-site",
        "49c301385a841f2b5eac00c2fe3971bd5fa24add",
        "kafka.apache.org",
        skip="javadoc",
    ),
    "htmldocs": Source(
        "documentation",
        "git/htmldocs",
        "4eb2b9c1b93402514bbab7ad58ab8181526cd874",
        "git.github.io",
        homes=("index.html", "git.html", "user-manual.html"),
    ),
    "flink": Source(
        "software project",
        "apache/flink-web",
        "eea4e25734cfebe4345122625d5b56635c49aa64",
        "flink.apache.org",
        under="content/",
    ),
}
"""Histories by which the design of updates was chosen."""

UNSEEN = {
    "asmeurer-blog": Source(
        "blog",
        "asmeurer/blog",
        "12d95e5e4158cd1cf1652ec1544415cf51e1da14",
        "asmeurer.github.io",
        ("asmeurer.com", "www.asmeurer.com"),
    ),
    "bakkesmod-wiki": Source(
        "wiki",
        "BakkesModWiki/BakkesModWiki.github.io",
        "4480d614efc5312c83eecd313b67aaec249873f3",
        "bakkesmodwiki.github.io",
        ("wiki.bakkesplugins.com",),
    ),
    "colah-blog": Source(
        "blog",
        "colah/colah.github.io",
        "786c102b0f7ca385059e6d5a93bc37f149420488",
        "colah.github.io",
    ),
    "ctf-wiki": Source(
        "wiki",
        "ctf-wiki/ctf-wiki",
        "6d5d980bc4305ee32c3f3e31b545cf232456ad88",
        "ctf-wiki.org",
        ("ctf-wiki.github.io", "ctf-wiki.org"),
    ),
    "foodcoopshop": Source(
        "manual of a shop",
        "foodcoopshop/foodcoopshop.github.io",
        "be94b33b1764322f055716d44c131805caff8d7c",
        "foodcoopshop.github.io",
    ),
    "kaitai-formats": Source(
        "catalogue",
        "kaitai-io/formats-kaitai-io.github.io",
        "26ee4f3c07d756ad8856bfdb29856b7f35b825df",
        "formats.kaitai.io",
    ),
    "kubaik-blog": Source(
        "daily articles",
        "kubaik/kubaik.github.io",
        "88df3d4aca41354167a384b37106c3970a56923d",
        "kubaik.github.io",
        under="docs/",
    ),
    "ps-wiki": Source(
        "wiki",
        "ps-wiki/ps-wiki.github.io",
        "f99d68c0ebe1d142adb00a93a7454eddcb11b28f",
        "ps-wiki.github.io",
    ),
    "zulip-archive": Source(
        "forum",
        "srid/zulip-archive",
        "c473eba4e974edf4b932e224e375d48384cb068f",
        "funprog.srid.ca",
    ),
}

MAGAZINE = Source(
    "magazine",
    "CaffeineHighZombie/the-chronicler-site",
    "69169e36be2f190552278dcba2a52d4af8b78173",
    "perpetual.fyi",
)

BOOST = Source(
    "software project",
    "boostorg/website",
    "99dec75ac850868f8188f4606905d61ec67809fb",
    "boost.org",
    skip="^(doc/fixes|generated|site-tools|patches|common|development/template)/",
)

HISTORIES = {**SEEN, **UNSEEN, "boost-site": BOOST, "the-chronicler": MAGAZINE}

HELD_OUT = {"boost-site", *sorted(UNSEEN, key=lambda name: sha256(name.encode()).digest())[:6]}


class Repository:
    """A bare git directory, and the blobs of its HTML files."""

    def __init__(self, folder: Path, source: Source) -> None:
        self._source = source
        self._git = ["git", "-C", str(folder)]
        if not folder.exists():
            url = f"https://github.com/{source.repository}.git"
            subprocess.run(["git", "clone", "--quiet", "--bare", url, str(folder)], check=True)
        self._cat = subprocess.Popen(
            [*self._git, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def days(self) -> list[tuple[int, dict[str, str]]]:
        """Return the days with commits, and the blobs of the pages that each changed, by path.

        The blob is empty if the file is removed. A clock of a committer that goes back stands.
        """
        source = self._source
        form = ("--raw", "--no-abbrev", "--no-renames", "-z", "--format=C%ct")
        line = [*self._git, "log", "--first-parent", "-m", "--reverse", *form, source.commit]
        log = subprocess.run(line, capture_output=True, check=True).stdout
        words = iter(log.decode("utf-8", "replace").replace("\n", "\0").split("\0"))
        skip, day = re.compile(source.skip), 0
        found: dict[int, dict[str, str]] = defaultdict(dict)
        for word in words:
            if re.fullmatch(r"C\d+", word):
                day = max(day, int(word[1:]) // 86_400)
            elif word.startswith(":"):
                blob, path = word.split(" ")[3], next(words)
                is_page = path.endswith((".html", ".htm")) and path.startswith(source.under)
                path = path[len(source.under) :]
                if is_page and not skip.search(path):
                    found[day][path] = blob if blob.strip("0") else ""
        return sorted(found.items())

    def read(self, blob: str) -> bytes | None:
        """Return a file; None if this copy of the repository lacks it."""
        assert self._cat.stdin is not None
        assert self._cat.stdout is not None
        self._cat.stdin.write(f"{blob}\n".encode())
        self._cat.stdin.flush()
        head = self._cat.stdout.readline().split()
        if len(head) < 3:
            return None
        body = self._cat.stdout.read(int(head[2]))
        self._cat.stdout.read(1)
        return body

    def close(self) -> None:
        """End the process that reads."""
        self._cat.communicate()


class History(NamedTuple):
    """A website over time.

    `paths`: of all pages that there ever were. `homes`: the home pages among them. `days` and
    `states`: by day with commits, the version of each page, `GONE` if there is none. `cores`,
    `blobs` and `links`: of each version, what it says, its bytes, and the pages that it links to.
    `reached` and `weights`: of each state, the pages that can be reached, and their PageRank.
    """

    paths: list[str]
    homes: list[int]
    days: list[int]
    states: list[NDArray[np.int32]]
    cores: NDArray[np.int64]
    blobs: NDArray[np.bytes_]
    links: list[NDArray[np.int32]]
    reached: NDArray[np.bool_]
    weights: NDArray[np.float32]

    def save(self, path: Path) -> None:
        states = np.stack([np.full(len(self.paths), GONE, np.int32), *self.states])
        at, page = np.nonzero(states[1:] != states[:-1])
        np.savez_compressed(
            path,
            paths=np.frombuffer("\n".join(self.paths).encode("utf-8", "replace"), np.uint8),
            homes=np.array(self.homes), days=np.array(self.days),
            events=np.stack([at, page, states[at + 1, page]]).astype(np.int32),
            cores=self.cores, blobs=self.blobs, indices=np.concatenate([_NONE, *self.links]),
            indptr=np.concatenate([[0], np.cumsum([len(row) for row in self.links])]),
            reached=np.packbits(self.reached, axis=1), weights=self.weights,
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> History:
        with np.load(path) as arrays:
            kept = {name: arrays[name] for name in arrays}
        paths = kept["paths"].tobytes().decode().split("\n")
        states = np.full((len(kept["days"]), len(paths)), GONE, np.int32)
        begins = np.searchsorted(kept["events"][0], range(len(states) + 1))
        for at in range(len(states)):
            states[at] = states[at - 1] if at else GONE
            _, pages, versions = kept["events"][:, begins[at] : begins[at + 1]]
            states[at][pages] = versions
        reached = np.unpackbits(kept["reached"], axis=1, count=len(paths)).astype(np.bool_)
        return cls(
            paths, kept["homes"].tolist(), kept["days"].tolist(), [*states], kept["cores"],
            kept["blobs"], np.split(kept["indices"], kept["indptr"][1:-1]), reached,
            kept["weights"],
        )  # fmt: skip


_NONE = np.zeros(0, np.int32)
_INCLUDE = re.compile(rb'<!--#include virtual="([^"]+)"')


class Sameness(NamedTuple):
    """How well changes are found without hindsight, over all versions of pages but the first.

    `n_raw`: those of which a byte differs from the version before. `n_true`: of which the core
    does. `n_false`: alarms without such a change. `n_missed`: changes without an alarm.
    """

    n_raw: int
    n_true: int
    n_false: int
    n_missed: int


def read_history(repository: Repository, source: Source) -> tuple[History, Sameness]:
    """Read all versions of all pages; those that are missing are left out."""
    days = repository.days()
    paths = sorted({path for _, changed in days for path in changed})
    place = {path: at for at, path in enumerate(paths)}
    versions: dict[tuple[int, str], int] = {}
    blocks: list[Blocks] = []
    blobs: list[str] = []
    links: list[NDArray[np.int32]] = []
    kept: dict[bytes, NDArray[np.int32]] = {}
    state = np.full(len(paths), GONE, np.int32)
    states: list[NDArray[np.int32]] = []
    for _, changed in days:
        state = state.copy()
        for path, blob in changed.items():
            page = place[path]
            body = repository.read(blob) if blob and (page, blob) not in versions else None
            if body is not None:
                versions[page, blob] = len(blocks)
                blocks.append(blocks_of(body, "text/html"))
                blobs.append(blob)
                base = f"http://{source.host}/{path}"
                urls = [*parse_page(body, base).urls, *_included(body, base)]
                found = {to for url in urls if (to := page_of(url, source, place)) is not None}
                row = np.array(sorted(found - {page}), np.int32)
                links.append(kept.setdefault(row.tobytes(), row))
            if not blob or (page, blob) in versions:
                state[page] = versions.get((page, blob), GONE)
        states.append(state)
    pages = np.array([page for page, _ in versions], np.int32)
    cores = _cores(blocks, pages, len(paths))
    homes = [place[path] for path in source.homes if path in place]
    truth = [*_truth(states, links, homes)]
    history = History(
        paths, homes, [day for day, _ in days], states, cores, np.array(blobs, "S40"), links,
        np.array([reached for reached, _ in truth]),
        np.array([ranks for _, ranks in truth], np.float32),
    )  # fmt: skip
    return history, _sameness(states, blocks, cores)


def _included(body: bytes, base: str) -> list[str]:
    """Return the URLs of what the server includes in a page, which count as links of it."""
    return [urljoin(base, path.decode("utf-8", "replace")) for path in _INCLUDE.findall(body)]


def page_of(url: str, source: Source, place: dict[str, int]) -> int | None:
    """Return the page that a URL leads to on the site itself."""
    parts = urlsplit(url)
    path = unquote(parts.path).lstrip("/")
    if parts.netloc.removeprefix("www.") not in (source.host, *source.others):
        return None
    for name in (path, f"{path}.html", posixpath.join(path, "index.html")):
        if name in place:
            return place[name]
    return None


def _cores(blocks: Sequence[Blocks], pages: NDArray[np.int32], n_pages: int) -> NDArray[np.int64]:
    """Return a number for what each version says, without what stands on many pages."""
    of_page: dict[int, set[int]] = defaultdict(set)
    for page, each in zip(pages.tolist(), blocks, strict=True):
        of_page[page].update(each[:, 1].tolist())
    counts = Counter(bare for every in of_page.values() for bare in every)
    bound = max(LEAST, SHARE * n_pages)
    common = np.array([bare for bare, n in counts.items() if n >= bound], np.uint32)
    digests = [
        blake2b(each[~np.isin(each[:, 1], common), 0].tobytes(), digest_size=8).digest()
        for each in blocks
    ]
    return np.frombuffer(b"".join(digests), "<i8")


def _sameness(
    states: Sequence[NDArray[np.int32]], blocks: Sequence[Blocks], cores: NDArray[np.int64]
) -> Sameness:
    """Compare each version with the one before as an update does that sees all of them."""
    counts = SiteCounts(())
    before = np.full(len(states[0]), GONE, np.int32)
    found = np.zeros(4, np.int64)
    for state in states:
        for page in np.flatnonzero((state != before) & (state != GONE)).tolist():
            new, old = blocks[state[page]], blocks[before[page]] if before[page] != GONE else None
            counts.replace(page, old, new)
            if old is not None:
                differs = bool(cores[state[page]] != cores[before[page]])
                alarms = counts.core(old) != counts.core(new)
                found += (1, differs, alarms and not differs, differs and not alarms)
        before = np.where(state == GONE, before, state)  # a copy of what is gone is kept
    return Sameness(*found.tolist())


def _truth(
    states: Sequence[NDArray[np.int32]], links: Sequence[NDArray[np.int32]], homes: Sequence[int]
) -> Iterator[tuple[NDArray[np.bool_], Floats]]:
    """Yield the pages that can be reached in each state, and their PageRank among themselves."""
    for state in states:
        reached = np.zeros(len(state), np.bool_)
        graph = graph_of(links, state)
        for home in homes:
            if not reached[home]:
                reached[breadth_first_order(graph, home, return_predecessors=False)] = True
        reached &= state != GONE
        yield reached, ranks_of(links, np.where(reached, state, GONE))


def graph_of(links: Sequence[NDArray[np.int32]], state: NDArray[np.int32]) -> csr_array:
    """Return the links of the pages that are there, as a matrix."""
    rows = [links[version] if version != GONE else _NONE for version in state.tolist()]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.concatenate([_NONE, *rows])
    return csr_array((np.ones(len(indices)), indices, indptr), shape=(len(rows), len(rows)))


def ranks_of(links: Sequence[NDArray[np.int32]], state: NDArray[np.int32]) -> Floats:
    """Return the PageRank of all pages."""
    graph = graph_of(links, state)
    return pagerank(graph.indptr.astype(np.int64), graph.indices.astype(np.int32))


def build(folder: Path, name: str) -> None:
    """Write a history, and print what it is."""
    source = HISTORIES[name]
    repository = Repository(folder / "git" / source.repository.replace("/", "+"), source)
    try:
        history, same = read_history(repository, source)
    finally:
        repository.close()
    history.save(folder / f"{name}.npz")
    n_reached = history.reached.sum(axis=1)
    print(
        f"{name}: {source.kind}, {history.days[-1] - history.days[0]:,} days, {len(history.days):,}"
        f" of them with commits, {len(history.paths):,} pages, {n_reached[-1]:,} reached at the end"
        f" (at most {n_reached.max():,}), {len(history.cores):,} versions; of {same.n_raw:,} raw "
        f"changes {same.n_true:,} true; {same.n_false:,} false alarms, {same.n_missed:,} missed",
        flush=True,
    )


def main() -> None:
    """Build histories, or list them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--web", action="append", choices=sorted(HISTORIES))
    parser.add_argument("--list", action="store_true", help="print the histories, and end")
    given = parser.parse_args()
    for name in given.web or HISTORIES:
        if given.list:
            judges = " (held out)" if name in HELD_OUT else ""
            source = HISTORIES[name]
            print(f"{name}: {source.kind}, github.com/{source.repository}{judges}")
        else:
            build(given.folder, name)


if __name__ == "__main__":
    main()
