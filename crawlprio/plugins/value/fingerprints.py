"""Fingerprints of pages: equal, or close, for pages that say the same."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from crawlprio.extras import require
from crawlprio.items import content_hash
from crawlprio.store.hashtable import HashTable
from crawlprio.web.anchors import words_of

EXACT, NEAR = "exact", "near"

MIN_WORDS = 20
"""Fewest words of a text by which a page is known; one with fewer is known by its body alone."""

MAX_TEXT = 300_000
"""Maximum number of characters of a text that are taken as words, some 50,000 of them."""

MAX_DISTANCE = 3
"""Bits in which the fingerprints of near-duplicates may differ."""

N_BITS = 64

_SHINGLE = 4
_MASK = 2**N_BITS - 1

Fingerprint = Callable[[str, int], int]
"""Returns the fingerprint of a page from its text and the hash of its body."""


def fingerprints(kind: str) -> Fingerprint:
    """Return what makes the fingerprints of a kind, 64-bit signed numbers.

    `exact` hashes the words of a text, and what is beyond `MAX_TEXT` as it is. `near` sees nothing
    beyond; it keeps one bit of each of 64 minimal hashes over its runs of four words: of two texts,
    about (1 - J) / 2 of the bits differ, where J is the Jaccard similarity of these runs.

    Source: Broder, On the resemblance and containment of documents, SEQUENCES 1997; Li & Koenig,
    b-Bit minwise hashing, WWW 2010, with b = 1.
    """
    if kind == EXACT:
        return _by_words(
            lambda words, rest: content_hash((" ".join(words) + rest).encode("utf-8", "replace"))
        )
    require("rensa", "novelty", "CRAWLPRIO_NOVELTY 'near'")
    from rensa import RMinHash

    def near(words: list[str], _: str) -> int:
        sketch = RMinHash(num_perm=N_BITS, seed=1)
        shingles = zip(*(words[at:] for at in range(_SHINGLE)), strict=False)
        sketch.update([" ".join(shingle) for shingle in shingles])
        bits: int = sum((minimum & 1) << at for at, minimum in enumerate(sketch.digest()))
        return bits - (bits >> 63 << 64)

    return _by_words(near)


def _by_words(of_words: Callable[[list[str], str], int]) -> Fingerprint:
    """Return a fingerprint by the words of a page, or by its body if it has few."""

    def fingerprint(text: str, body: int) -> int:
        words = words_of(text[:MAX_TEXT])
        return body if len(words) < MIN_WORDS else of_words(words, text[MAX_TEXT:])

    return fingerprint


class Seen:
    """The texts so far, each known by the first page that had it, and the fingerprint of that.

    Two fingerprints are of the same text if they are equal, or, with near-duplicates, if they
    differ in at most `MAX_DISTANCE` bits. Such two agree in one of four blocks of 16 bits (Manku,
    Jain & Das Sarma, Detecting near-duplicates for web crawling, WWW 2007, section 3), so only
    those that share a block are compared.

    Memory: 16 to 32 bytes per text, and 32 more with near-duplicates.
    """

    def __init__(self, kind: str) -> None:
        self._is_near = kind == NEAR
        self._exact = HashTable()
        self._blocks: list[dict[int, array[int]]] = [{} for _ in range(MAX_DISTANCE + 1)]

    def add(self, fingerprint: int, page: int) -> int:
        """Return the first page that had the text of a page: itself if the text is new.

        Of several texts, it is the nearest, and of those the one of the smallest fingerprint.
        """
        first = self._exact.find(fingerprint)
        if first >= 0:
            return first
        bits = fingerprint & _MASK
        if self._is_near:
            shares = [(blocks, bits >> 16 * at & 0xFFFF) for at, blocks in enumerate(self._blocks)]
            distance, nearest = min(
                (
                    ((bits ^ other).bit_count(), other)
                    for blocks, block in shares
                    for other in blocks.get(block, ())
                ),
                default=(N_BITS, 0),
            )
            if distance <= MAX_DISTANCE:
                return self._exact.find(nearest - (nearest >> N_BITS - 1 << N_BITS))
            for blocks, block in shares:
                blocks.setdefault(block, array("Q")).append(bits)
        self._exact.add(fingerprint, page)
        return page
