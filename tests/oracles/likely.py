"""The coverage estimate by linear algebra: the rest of the web as one page of a small web."""

import numpy as np


def estimated_share(links, order, seeds, strange, *, returns, damping=0.85):
    """The share of fetched pages in a web whose other pages are one, `rest`.

    A surfer at `rest` does what surfers do at the siblings of unfetched pages: stop, go to a page
    fetched before the sibling, or stay at `rest`. Siblings are in the later half of the fetched
    pages and share a linking page with unfetched ones. That page shares among its fetched targets
    what it passes on to unfetched ones, for a surfer lost at unfetched pages; a sibling's weight is
    what it gets. Without any, all of the later half have the weight of a surfer's visits. A surfer
    who comes to a `strange` page, which is unfetched, never returns, or with `returns` does at once
    what those do who return from `rest`.
    """
    at = {page: place for place, page in enumerate(order)}
    n = len(order)
    rest, other = n, n + 1  # two more places
    follow = np.zeros((n + 2, n + 2))

    def place_of(page):
        return other if page in strange else at.get(page, rest)

    for page in order:
        for target in links[page]:
            follow[place_of(target), at[page]] += damping / len(links[page])
    start = np.zeros(n + 2)
    for seed in seeds:
        start[place_of(seed)] += 1 / len(seeds)
    visits = np.linalg.solve(np.eye(n + 2) - follow, start)  # nothing leaves `rest`
    later = order[n // 2 :]
    weights = dict.fromkeys(later, 0.0)
    for page in order:
        got = [target for target in links[page] if target in at]
        for sibling in got:
            if sibling in weights:
                to_rest = len(links[page]) - len(got)
                weights[sibling] += visits[at[page]] * to_rest / len(links[page]) / len(got)
    if not any(weights.values()):
        weights = {page: visits[at[page]] for page in later}
    everything = sum(weights.values())
    for page in later if everything else []:
        for target in links[page]:
            is_back = at.get(target, n) < at[page]
            part = damping * weights[page] / everything / len(links[page])
            follow[at[target] if is_back else rest, rest] += part
    if returns:
        back = follow[:n, rest]
        follow[:n, other] = damping * back / max(back.sum(), 1e-300)
    else:
        follow[other, other] = damping
    visits = np.linalg.solve(np.eye(n + 2) - follow, start)
    return float(visits[:n].sum() / visits.sum())
