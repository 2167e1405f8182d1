"""Two states of the same documentation, as two Debian packages: pages appear, move and die."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from measured import Start
from numpy.typing import NDArray
from webs import Web, built

STARTS = 5
STATES = {
    "llvm": ("llvm-13", "llvm-14", "llvm-15", "llvm-16", "llvm-19"),
    "clang": ("clang-13", "clang-14", "clang-15", "clang-16", "clang-19"),
    "libstdc++": ("libstdc++-11", "libstdc++-12"),
    "boost": ("boost", "boost-1.81"),
}
"""Successive states of each web, by the names that `benchmarks/webs.py` builds them under."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two successive states of a web; pages are the same if their paths are."""

    web: str
    before: Web
    after: Web

    @property
    def name(self) -> str:
        return f"{self.web}, {self.before.name} to {self.after.name}"

    @cached_property
    def starts(self) -> list[Start]:
        """Starts in the later state."""
        return [Start(self.after, seeds) for seeds in self.after.starts(STARTS)]

    @cached_property
    def _earlier(self) -> NDArray[np.int64]:
        """The page that each page was in the earlier state, or -1."""
        place = {path: page for page, path in enumerate(_paths(self.before))}
        return np.array([place.get(path, -1) for path in _paths(self.after)])

    @cached_property
    def scores(self) -> dict[str, float]:
        """The earlier PageRank of the pages that there were, by URL now."""
        urls = self.after.graph.urls or ()
        pairs = zip(urls, self._earlier.tolist(), strict=True)
        return {url: float(self.before.ranks[page]) for url, page in pairs if page >= 0}

    def changes(self) -> tuple[int, str, str, str, str]:
        """Return pages, shares known, their PageRank, share gone, and the error of PageRank."""
        known = self._earlier >= 0
        now, then = self.after.ranks[known], self.before.ranks[self._earlier[known]]
        gone = 1.0 - known.sum() / self.before.graph.n_pages
        error = np.mean(np.abs(then / then.sum() - now / now.sum()) / (now / now.sum()))
        shares = (known.mean(), now.sum() / self.after.ranks.sum(), gone, error)
        return (self.after.graph.n_pages, *(f"{share:.1%}" for share in shares))


def pairs(folder: Path) -> Iterator[Pair]:
    """Yield each pair of successive states that is there."""
    for web, states in STATES.items():
        for before, after in pairwise(states):
            missing = [s for s in (before, after) if not (folder / f"{s}.npz").exists()]
            if missing:
                print(f"{folder} lacks {', '.join(missing)}; run make webs.", flush=True)
            else:
                yield Pair(web, built(folder, before), built(folder, after))


def _paths(web: Web) -> list[str]:
    """Return the path of each page below the folder of the home page, which has the version."""
    urls = web.graph.urls or ()
    folder = urls[web.start].rpartition("/")[0]
    return [url.removeprefix(folder) for url in urls]
