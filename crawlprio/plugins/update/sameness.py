"""Whether two versions of a page say the same: its blocks of text, without what its site repeats.

Most of what changes in a page is no change of what it says: dates of a build, menus, footers. So
blocks of text that stand, digits apart, on a tenth of the pages of the site are left out, and the
rest is compared. Both versions are judged by the same counts, so a block that has become frequent
meanwhile makes no difference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from crawlprio.web.html import text_blocks

Blocks = NDArray[np.uint32]
"""Of each block of a page, in order: hashes of its text, and of its text with 0 for each number."""

MOST_BLOCKS = 2_000
"""Blocks that are compared; of a longer page, the first ones."""

LEAST, SHARE = 4, 0.1
"""A block is left out if it stands on so many copies at least, and on this share of all."""

SAMPLE, MOST_SITES = 1_000, 64
"""Copies of a site that are counted, besides those fetched meanwhile; sites in memory at once."""

_NUMBER = re.compile(r"\d+")


def blocks_of(body: bytes, content_type: str) -> Blocks:
    """Return the blocks of an HTML page; linear in its length."""
    texts = text_blocks(body, content_type)[:MOST_BLOCKS]
    both = ((text, _NUMBER.sub("0", text)) for text in texts)
    hashes = [[crc32(each.encode("utf-8", "replace")) for each in pair] for pair in both]
    return np.array(hashes, dtype="<u4").reshape(-1, 2)


def unpacked(written: bytes) -> Blocks:
    """Return blocks of which these are the bytes; none if they are not."""
    whole = written if len(written) % 8 == 0 else b""
    return np.frombuffer(whole, dtype="<u4").reshape(-1, 2)


class SiteCounts:
    """On how many copies of pages of a site each block stands, digits apart."""

    def __init__(self, copies: Iterable[tuple[int, Blocks]]) -> None:
        self._pages: set[int] = set()
        self._counts: Counter[int] = Counter()
        for page, blocks in copies:
            self.replace(page, None, blocks)

    def replace(self, page: int, old: Blocks | None, new: Blocks) -> None:
        """Count the new copy of a page in place of the old one."""
        if page in self._pages and old is not None:
            self._counts.subtract(set(old[:, 1].tolist()))
        self._pages.add(page)
        self._counts.update(set(new[:, 1].tolist()))

    def is_same(self, page: int, old: Blocks, new: Blocks) -> bool:
        """Return whether two copies of a page have the same core; count the new one."""
        self.replace(page, old, new)
        return self.core(old) == self.core(new)

    def core(self, blocks: Blocks) -> list[int]:
        """Return the blocks, digits included, that are the page's own."""
        bound = max(LEAST, SHARE * len(self._pages))
        counts = self._counts
        return [text for text, bare in blocks.tolist() if counts[bare] < bound]
