"""Chains and loops of redirects."""

from __future__ import annotations

import numpy as np

from crawlprio.audit.findings import Pages
from crawlprio.pages import NO_PAGE

MAX_HOPS = 20
"""Maximum number of redirects of a chain that are followed."""


def chains(hop: Pages) -> tuple[list[list[int]], list[list[int]]]:
    """Return the chains of two redirects or more, and the loops, the longest first.

    A chain begins at a redirect to which no redirect leads, and ends at its first page that is not
    one, or after `MAX_HOPS`. A chain that comes back to one of its pages is a loop; it ends with
    that page. A loop to which no redirect leads from outside begins at its first page.

    Parameters
    ----------
    hop
        int32, shape (n_pages,): where each page redirects to; `NO_PAGE` if it does not.
    """
    redirects = np.flatnonzero(hop != NO_PAGE)
    is_target = np.zeros(len(hop), dtype=np.bool_)
    is_target[hop[redirects]] = True
    ends, seen = hop.tolist(), np.zeros(len(hop), dtype=np.bool_)
    found = []
    for start in [*redirects[~is_target[redirects]].tolist(), *redirects.tolist()]:
        if seen[start]:
            continue
        chain = [start]
        while ends[chain[-1]] != NO_PAGE and len(chain) <= MAX_HOPS:
            chain.append(ends[chain[-1]])
            if chain[-1] in chain[:-1]:
                break
        seen[chain] = True
        found.append(chain)
    found.sort(key=lambda chain: (-len(chain), chain[0]))
    loops = [chain for chain in found if chain[-1] in chain[:-1]]
    return [c for c in found if len(c) > 2 and c[-1] not in c[:-1]], loops
