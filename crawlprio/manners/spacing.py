"""What the times of a log prove about the pauses of a crawler, and what they only show."""

from __future__ import annotations

import math
from collections import Counter, deque

TOLERANCE = 0.1
"""Seconds of a pause that the network may have eaten."""


class Spacing:
    """Decides whether a pause is proven too short, however coarse the log's times are.

    A log that rounds down to seconds shows two requests with a pause of 1.0 s as any of 0, 1 or 2
    seconds apart. So for each request the earliest moment is kept at which a crawler that makes the
    pauses could have made it. Only if that is later than the log's time allows was one too short.

    Parameters
    ----------
    n_apart
        How many requests earlier the one was from which a pause counts; default 1.
    """

    def __init__(self, n_apart: int = 1) -> None:
        self._earliest: deque[float] = deque([-math.inf] * n_apart, maxlen=n_apart)

    def is_too_soon(self, time: float, pause: float, resolution: float) -> bool:
        """Return whether a request at this time proves that the pause before it was too short.

        Parameters
        ----------
        time, resolution
            of the request, as in `LoggedRequest`.
        pause
            Seconds required.
        """
        earliest = max(time, self._earliest[0] + pause)
        is_proven = earliest - time >= resolution + TOLERANCE
        self._earliest.append(time if is_proven else earliest)
        return is_proven


class Gaps:
    """The gaps between successive requests on a host: shortest, and median to two digits."""

    def __init__(self) -> None:
        self.n_requests = 0
        self.shortest = math.inf
        self._last = -math.inf
        self._counts: Counter[float] = Counter()

    def add(self, time: float) -> None:
        self.n_requests += 1
        if self._last > -math.inf:
            gap = max(time - self._last, 0.0)
            self.shortest = min(self.shortest, gap)
            self._counts[float(f"{gap:.1e}")] += 1
        self._last = time

    @property
    def median(self) -> float:
        """The lower median; infinity with less than two requests."""
        half = (self.n_requests - 1) / 2
        for gap in sorted(self._counts):
            half -= self._counts[gap]
            if half <= 0:
                return gap
        return math.inf
