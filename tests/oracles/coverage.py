"""The importance of fetched pages, by linear algebra; nothing here knows how it is maintained."""

import numpy as np


def trusted_pagerank(links, seeds, damping=0.85):
    """PageRank of a surfer who starts at a seed, and restarts there if there are no links; sum 1.

    `links` has a row for every page; a row lists distinct other pages.
    """
    pages = list(links)
    place = {page: i for i, page in enumerate(pages)}
    start = np.zeros(len(pages))
    for seed in seeds:
        start[place[seed]] += 1 / len(seeds)
    follow = np.zeros((len(pages), len(pages)))
    for page, targets in links.items():
        for target in targets:
            follow[place[target], place[page]] = 1 / len(targets)
        if not targets:
            follow[:, place[page]] = start
    x = np.linalg.solve(np.eye(len(pages)) - damping * follow, (1 - damping) * start)
    return dict(zip(pages, x.tolist(), strict=True))


def least_coverage(links, fetched, seeds, damping=0.85, *, counted=None):
    """The share of all importance that is certain, whatever the unfetched pages link to.

    It is that of the pages `counted`, by default all that were fetched. A surfer who reaches an
    unfetched page is lost: these pages link only to themselves.
    """
    rows = {page: links[page] if page in set(fetched) else [page] for page in links}
    ranks = trusted_pagerank(rows, seeds, damping)
    return sum(ranks[page] for page in (fetched if counted is None else counted))
