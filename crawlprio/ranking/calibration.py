"""By how much the coverage estimate of `likely` erred on known webs.

Computed by `experiments/calibration.py` from simulated crawls of 25 webs: 12 of documentation, 6
archives (mailing lists, a forum, a newspaper, a wiki, sites of organisations), 2 universities, the
pages of one country's domain, the hosts of another, and 3 synthetic ones; from up to four starts
each, under sibling-sampling, breadth-first and opic, stopped at 2 to 95 % of the pages. Each web
counts once. `docs/coverage.md` says how often the interval holds on webs left out.

An error is the logit of the true part minus that of the estimated one, where the part is the share
of the importance beyond the certain bound that was fetched.
"""

from __future__ import annotations

CONFIDENCE = 0.9
"""Share of crawls of other webs in which the interval is to hold the truth."""

BEYOND = 0.03
"""Share of the known errors that is left out on either side. With 0.05 the interval held in 90 % of
all crawls of webs left out, but not at every stop; there are few webs."""

LEAST = 0.02
"""Parts are taken to be at least this, and at most 1 minus this, before the logit."""

CLASSES = ((0.3, -2.13, 2.55), (0.6, -1.58, 1.33), (1.0, -1.54, 0.65))
"""`(bound up to which it applies, lower error, upper error)`."""

Classes = tuple[tuple[float, float, float], ...]


def errors_at(bound: float, classes: Classes = CLASSES) -> tuple[float, float]:
    """Return the lower and the upper error for a bound."""
    return next((low, high) for most, low, high in classes if bound <= most)
