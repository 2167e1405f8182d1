"""Normalisation of anchor texts and titles."""

from __future__ import annotations

import re

MAX_ANCHOR_LENGTH = 500
"""Length in characters to which anchor texts and titles are truncated."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]+")


def squeeze(text: str) -> str:
    """Normalise white space and truncate."""
    return " ".join(text.split())[:MAX_ANCHOR_LENGTH].rstrip()


def printable(text: str) -> str:
    """Remove control characters and bidirectional formatting characters."""
    return text if text.isprintable() else " ".join(_CONTROLS.sub(" ", text).split())
