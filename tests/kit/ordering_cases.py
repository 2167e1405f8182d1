"""The orderings with the options under which they are tried, on webs whose pages have URLs."""

import dataclasses

import oracles
from graphs import EARLIER_SCORES, TOPIC_PHRASES
from linkgraphs import graph_of_web

from crawlprio.orderings import ORDERINGS, make_ordering

WORDS = list(TOPIC_PHRASES)

CASES = {
    "random": [{}, {"seed": 2**52 + 1}],
    "opic": [{}, {"seed_cash": 3.0}, {"pass_on": 0.5, "pass_on_budget": 10}],
    "location": [
        {},
        {"slashes": 0.5, "tlds": {"org": 2.0}, "words": {"Frontier": 3.0}},
        {"words": {"Front": 3.0, "o": -0.5}, "whole_words": False},
    ],
    "pagerank": [{"every": 1}, {"every": 4}, {"every": 1, "damping": 0.5}],
    "partial-pagerank": [{}, {"every": 2}, {"every": 3}],
    "batch-pagerank": [{}, {"every": 1}, {"every": 3}, {"every": 3, "fill": True}],
    "historical-pagerank": [
        {"scores": EARLIER_SCORES, "new": new, "seed": 5}
        for new in ("zero", "random", "parent", "omniscient")
    ],
    "anchor-similarity": [{"words": WORDS}],
    "batched": [
        {},
        {"every": 3},
        {"every": 1, "weights": {"larger-sites-first": 1.0}},
        {"every": 4, "weights": {"larger-sites-first": 1.0}},
        {"weights": {"larger-sites-first": 2}},
        {"every": 5, "weights": {"breadth-first": 1.0, "backlink-count": 2.0}},
    ],
    "combined": [
        {"weights": {"opic": 0.5, "location": 2.0}},
        {
            "weights": {
                "batch-pagerank": 50.0,
                "partial-pagerank": -30.0,
                "anchor-similarity": 0.125,
                "depth-first": 0.25,
            },
            "options": {
                "batch-pagerank": {"every": 2, "fill": True},
                "partial-pagerank": {"every": 3},
                "anchor-similarity": {"words": WORDS},
            },
        },
    ],
}

ALL_CASES = [
    (name, case) for name in ORDERINGS for case in CASES.get(name, oracles.ORDERINGS[name].cases)
]


def url_of(web, page):
    return web.urls.get(page) or f"http://s{web.site.get(page, 0)}.example/{page}"


def with_urls(web):
    """Give every page its own URL."""
    return dataclasses.replace(web, urls={page: url_of(web, page) for page in web.pages})


def ours(web, options):
    """Convert the oracle's options to ours: earlier scores are by URL."""
    if "scores" not in options:
        return dict(options)
    scores = {url_of(web, page): score for page, score in options["scores"].items()}
    return {**options, "scores": scores}


def graph_of(web):
    """Convert a web of the oracle, whose pages are numbered from 0, to a graph."""
    return graph_of_web(web, urls=[url_of(web, page) for page in range(max(web.pages) + 1)])


def ordering_of(web, name, options):
    return make_ordering(name, ours(web, options))
