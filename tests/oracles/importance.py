"""Importance I(P) of the pages of a web, from the papers' definitions; independent of any order.

Each function returns a number for every page of the web. The source is Cho, Garcia-Molina & Page,
Efficient crawling through URL ordering, extended version, section 2, unless stated otherwise.
"""

import math
from urllib.parse import urlsplit

from .text import words

Values = dict[int, float]


def backlinks(web):
    """IB(P): the number of pages that link to the page."""
    return {p: float(sum(p in web.links_of(q) for q in web.pages)) for p in web.pages}


def forward_links(web):
    """IF(P): the number of links that leave the page."""
    return {p: float(web.out_degree(p)) for p in web.pages}


def cho_pagerank(web, damping=0.9):
    """IR(P), iterated from 1 until nothing changes; a page without links links to all pages."""
    return _iterated({p: web.links_of(p) for p in web.pages}, damping)


def remote_pagerank(web, damping=0.85):
    """PageRank over links between hosts, with the sum n: Najork & Wiener 2001, 4."""
    site = {p: web.site.get(p, 0) for p in web.pages}
    return _iterated(
        {p: [q for q in web.links_of(p) if site[q] != site[p]] for p in web.pages}, damping
    )


def weighted_pagerank(web, times=4.0, share=None, damping=0.85):
    """PageRank with heavier links between hosts: Najork & Wiener 2001; the sum is n."""
    site = {p: web.site.get(p, 0) for p in web.pages}
    ranks = dict.fromkeys(web.pages, 1.0)
    for _ in range(math.ceil(42 / (1 - damping))):
        new = dict.fromkeys(web.pages, 1 - damping)
        for p in web.pages:
            row = web.links_of(p) or web.pages
            remote = [q for q in row if site[q] != site[p]]
            local = [q for q in row if site[q] == site[p]]
            given = {q: 1.0 / len(row) for q in row}
            if remote and local and web.links_of(p):
                of_remote = times * len(remote) / (times * len(remote) + len(local))
                of_remote = of_remote if share is None else share
                given = {q: of_remote / len(remote) for q in remote}
                given |= {q: (1 - of_remote) / len(local) for q in local}
            for q, part in given.items():
                new[q] += damping * ranks[p] * part
        ranks = new
    return ranks


def _iterated(links, damping):
    """Solve R(p) = (1-d) + d sum R(t)/c(t)."""
    ranks = dict.fromkeys(links, 1.0)
    for _ in range(math.ceil(42 / (1 - damping))):
        new = dict.fromkeys(links, 1 - damping)
        to_all = sum(ranks[t] for t in links if not links[t])
        for t, row in links.items():
            for p in row:
                new[p] += damping * ranks[t] / len(row)
        ranks = {p: new[p] + damping * to_all / len(links) for p in links}
    return ranks


def location(web):
    """IL(P): .com and "home" are worth 1, each slash of the path after the first costs 1.

    The smallest value is subtracted from all values.
    """
    values = {}
    for page in web.pages:
        url = web.urls[page]
        slashes = urlsplit(url).path.count("/")
        host = urlsplit(url).hostname or ""
        values[page] = float(host.endswith(".com")) + ("home" in words(url)) - max(slashes - 1, 0)
    least = min(values.values())
    return {page: value - least for page, value in values.items()}


def similarity(web, query, *, idf="log", measure="cosine", title=10.0, crawled=None):
    """IS(P, Q): inner product or cosine of the vectors of page and query over the vocabulary."""
    pages = web.pages if crawled is None else list(crawled)
    asked = list(dict.fromkeys(filter(None, map(words, query))))
    documents = {p: (words(web.titles.get(p, "")), words(web.bodies.get(p, ""))) for p in pages}
    vocabulary = {(word,) for fields in documents.values() for field in fields for word in field}
    vocabulary |= set(asked)
    occurrences = {
        p: {term: [_occurrences(field, term) for field in fields] for term in vocabulary}
        for p, fields in documents.items()
    }
    with_words = [p for p in pages if any(documents[p])]
    factor = {}
    for term in vocabulary:
        everywhere = sum(sum(occurrences[p][term]) for p in pages)
        n_with = sum(any(occurrences[p][term]) for p in pages)
        if everywhere == 0:
            factor[term] = 0.0
        elif idf == "inverse":
            factor[term] = 1 / everywhere
        elif idf == "log":
            factor[term] = math.log(len(with_words) / n_with)
        else:
            factor[term] = 1.0
    vector_q = {term: factor[term] * (term in asked) for term in vocabulary}
    values = dict.fromkeys(web.pages, 0.0)
    for p in pages:
        vector = {
            term: factor[term] * (title * in_title + in_body)
            for term, (in_title, in_body) in occurrences[p].items()
        }
        inner = sum(vector[term] * vector_q[term] for term in vocabulary)
        length = math.hypot(*vector.values()) * math.hypot(*vector_q.values())
        values[p] = inner if measure == "inner" else inner / length if length else 0.0
    return values


def _occurrences(field, term):
    """Return the number of places in a text at which a term starts."""
    return sum(tuple(field[at : at + len(term)]) == term for at in range(len(field)))


def harmonic(web):
    """The sum over all other pages q of 1 / d(q, p), where d is infinite if there is no path."""
    values = dict.fromkeys(web.pages, 0.0)
    for start in web.pages:
        layer, seen, distance = {start}, {start}, 0
        while layer:
            layer = {v for u in layer for v in web.links_of(u)} - seen
            seen |= layer
            distance += 1
            for page in layer:
                values[page] += 1 / distance
    return values


def hits(web):
    """Kleinberg's hubs and authorities, iterated from all ones, each with sum 1."""
    hub = dict.fromkeys(web.pages, 1.0)
    authority = dict(hub)
    for _ in range(5000):
        authority = dict.fromkeys(web.pages, 0.0)
        for p in web.pages:
            for q in web.links_of(p):
                authority[q] += hub[p]
        authority = _scaled(authority, sum(authority.values()))
        new = {p: sum(authority[q] for q in web.links_of(p)) for p in web.pages}
        new = _scaled(new, sum(new.values()))
        if max(abs(new[p] - hub[p]) for p in hub) < 1e-15:
            break
        hub = new
    return hub, authority


def combined(parts):
    """IC(P) = k1 I1(P) + k2 I2(P) + ...: Cho et al. 1998, extended version, section 2."""
    return {p: sum(weight * part[p] for weight, part in parts) for p in parts[0][1]}


def combined_by_mean(parts):
    """The same with each part divided by its mean, which is not in the paper."""
    return combined(
        [(weight, _scaled(part, sum(part.values()) / len(part))) for weight, part in parts]
    )


def _scaled(values, unit):
    """Divide all values, unless they are all 0."""
    return {p: value / unit if unit else 0.0 for p, value in values.items()}


IMPORTANCES = {
    "backlinks": backlinks,
    "forward-links": forward_links,
    "cho-pagerank": cho_pagerank,
    "pagerank": lambda web: _scaled(cho_pagerank(web, 0.85), len(web.pages)),
    "remote-pagerank": remote_pagerank,
    "weighted-pagerank": weighted_pagerank,
    "location": location,
    "harmonic": harmonic,
    "hubs": lambda web: hits(web)[0],
    "authorities": lambda web: hits(web)[1],
    "similarity": lambda web: similarity(web, TOPIC),
    "term-count": lambda web: similarity(web, TOPIC, idf="none", measure="inner"),
}
"""All measures that need only a web; the last two use `TOPIC`."""

TOPIC = ("web crawling", "frontier")
