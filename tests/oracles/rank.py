"""PageRank by linear algebra; independent of queues and orderings."""

import math

import numpy as np
from scipy import sparse

DENSE_PAGES = 400


def rounded(value):
    """Round to 8 significant digits, so that equal ranks tie."""
    return float(f"{value:.7e}")


def pagerank(links, damping=0.85):
    """Solve x = (1-d)/n + d (P'x + mass of dangling pages / n); the sum is 1.

    `links` has a row for every page; a row lists distinct other pages. An empty row is dangling.
    """
    if not links:
        return {}
    solve = solved if len(links) <= DENSE_PAGES else iterated
    return solve(links, damping)


def solved(links, damping):
    """Solve the dense system (I - dM) x = (1-d)/n directly."""
    pages = list(links)
    n = len(pages)
    place = {page: i for i, page in enumerate(pages)}
    follow = np.zeros((n, n))
    for u in pages:
        if links[u]:
            for v in links[u]:
                follow[place[v], place[u]] = 1.0 / len(links[u])
        else:
            follow[:, place[u]] = 1.0 / n
    x = np.linalg.solve(np.eye(n) - damping * follow, np.full(n, (1 - damping) / n))
    return dict(zip(pages, x.tolist(), strict=True))


def iterated(links, damping):
    """Iterate the equation until the remainder of the start is below 1e-18."""
    pages = list(links)
    n = len(pages)
    place = {page: i for i, page in enumerate(pages)}
    rows = [place[v] for u in pages for v in links[u]]
    columns = [place[u] for u in pages for _ in links[u]]
    shares = [1.0 / len(links[u]) for u in pages for _ in links[u]]
    follow = sparse.csr_matrix((shares, (rows, columns)), shape=(n, n))
    dangling = np.array([not links[u] for u in pages])
    x = np.full(n, 1.0 / n)
    for _ in range(math.ceil(42 / (1 - damping))):
        x = damping * (follow @ x + x[dangling].sum() / n) + (1 - damping) / n
        x /= x.sum()
    return dict(zip(pages, x.tolist(), strict=True))


def true_pagerank(web, damping=0.85):
    """Return the PageRank of the whole web, unreachable pages included, to 8 digits."""
    ranks = pagerank({u: web.links_of(u) for u in web.pages}, damping)
    return {u: rounded(rank) for u, rank in ranks.items()}


def partial_pagerank(record, damping=0.85):
    """Return the PageRank, to 8 digits, of all pages seen; unfetched pages are dangling."""
    links = {u: [] for u in record.discovered}
    for u, v in record.links:
        links[u].append(v)
    return {u: rounded(rank) for u, rank in pagerank(links, damping).items()}
