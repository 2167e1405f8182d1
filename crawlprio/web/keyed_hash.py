"""A hash of URLs and names that hostile sites cannot aim at, and that outlives the process."""

from __future__ import annotations

import secrets
from hashlib import blake2b


class KeyedHash:
    """A 128-bit hash of texts, keyed at random, so that nobody can choose texts that collide.

    Python's own hash differs from process to process; this one can be kept with its key, which has
    16 bytes. BLAKE2b, some 1 µs each.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.key = secrets.token_bytes(16) if key is None else key
        self._empty = blake2b(digest_size=16, key=self.key)

    def __call__(self, text: bytes) -> bytes:
        hashed = self._empty.copy()
        hashed.update(text)
        return hashed.digest()
