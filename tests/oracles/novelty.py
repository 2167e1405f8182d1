"""Novelty, spelled out: which waiting pages are put off because their likes brought nothing new."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

from .base import splitmix

Group = tuple[object, ...]
Chain = tuple[Group, Group, Group]
"""Groups of pages, each within the one before."""


class TextWeb(NamedTuple):
    """Links in page order, URLs, and the fingerprint of each page (0: none)."""

    links: Mapping[int, Sequence[int]]
    urls: Sequence[str]
    prints: Sequence[int]


def word(piece):
    """Make digits equal, and all long pieces with three digits."""
    if len(piece) >= 8 and len(re.findall(r"\d", piece)) >= 3:
        return "#"
    return re.sub(r"\d+", "0", piece)


class Pieces(NamedTuple):
    scheme: str
    host: str
    path: tuple[str, ...]
    parameters: tuple[str, ...]


@cache
def pieces(url):
    parts = urlsplit(url)
    path = tuple(parts.path[1:].split("/"))
    path = path[:-1] if path[-1] == "" else path
    return Pieces(
        parts.scheme, parts.netloc, path, tuple(sorted(filter(None, parts.query.split("&"))))
    )


def without(items, at):
    return items[:at] + items[at + 1 :]


def folders(x):
    return "/".join(map(word, x.path[:-1]))


@cache
def differences(x, y):
    """Return in which piece alone x may differ from y: kind, what x has there, and its context.

    If both have the same pieces, it is any of them, besides the spelling.
    """
    here = folders(x)
    same_path, same_parameters = x.path == y.path, x.parameters == y.parameters
    found = set()
    if same_path and same_parameters and (x.path or x.parameters):
        found.add(("host", word(x.path[0]) if len(x.path) > 1 else "", here))
    if x.host != y.host:
        return found
    if same_path and same_parameters:
        found.add(("spelling", x.scheme, ""))
    if same_path:
        for at, parameter in enumerate(x.parameters):
            rest = without(x.parameters, at)
            others = [without(y.parameters, n) for n in range(len(y.parameters))]
            if rest in (y.parameters, *others):
                name, _, value = parameter.partition("=")
                found.add(("parameter", word(name), word(value)))
        for at, parameter in enumerate(y.parameters):
            if x.parameters == without(y.parameters, at):
                found.add(("lacks", f"parameter {word(parameter.partition('=')[0])}", here))
    if same_parameters:
        others = [without(y.path, n) for n in range(len(y.path) - 1)]
        for at in range(len(x.path) - 1):
            if without(x.path, at) in (y.path, *others):
                found.add(("folder", word(x.path[at]), here))
        if x.path and x.path[:-1] == y.path:
            found.add(("file", word(x.path[-1]), here))
        for at, rest in enumerate(others):
            if x.path == rest:
                found.add(("lacks", f"folder {word(y.path[at])}", here))
    return found


@dataclass
class Crawler:
    """A crawl of a web by keys that never change, with likely repeats put off."""

    web: TextWeb
    every: float = 0.01
    near: bool = False
    discovered: list[int] = field(default_factory=list)
    visited: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    """Fingerprints of the pages that brought something new."""
    texts: dict[int, int] = field(default_factory=dict)
    learned: list[list[tuple[Chain, bool]]] = field(default_factory=list)
    """For each fetch that taught, the groups and whether it counts as new in them."""
    n_used: int = 0
    """How many of those the estimates are made of."""
    due: int = 0

    def own_chain(self, page):
        """Return site, folder and pattern of a page."""
        x = pieces(self.web.urls[page])
        names = tuple(word(parameter.partition("=")[0]) for parameter in x.parameters)
        last = word(x.path[-1]) if x.path else ""
        return (x.host,), (x.host, folders(x)), (x.host, folders(x), last, names)

    def twins(self, page):
        """Return the groups of a page by pieces, and the fetched pages that differ in each."""
        x = pieces(self.web.urls[page])
        found = {}
        for other in self.visited:
            if other != page and self.web.prints[other]:
                for kind, what, context in differences(x, pieces(self.web.urls[other])):
                    chain = ((x.host, kind), (x.host, kind, what), (x.host, kind, what, context))
                    found.setdefault(chain, []).append(other)
        return found

    def estimate(self, chain):
        """Return the probability that a page of a chain of groups brings something new."""
        counts = []
        for group in chain:
            outcomes = [
                is_new
                for chains in self.learned[: self.n_used]
                for chain_of_fetch, is_new in chains
                if group in chain_of_fetch
            ]
            counts.append((len(outcomes), sum(outcomes)))
        (n1, new1), (n2, new2), (n3, new3) = counts
        widest = (new1 + 4.0) / (n1 + 4.0)
        middle = (new2 + 2.0 * (0.5 + 0.5 * widest)) / (n2 + 2.0)
        return (new3 + 4.0 * middle) / (n3 + 4.0)

    def is_demoted(self, page):
        p = min(map(self.estimate, [self.own_chain(page), *self.twins(page)]))
        level = sum(p < 0.5**at for at in (1, 2, 3, 4))
        return splitmix(self.discovered.index(page)) >= 0.5**level

    def text(self, page):
        """Return the fingerprint by which the text of a page is known."""
        bits = self.web.prints[page] % 2**64
        near = [
            ((bits ^ other).bit_count(), other)
            for other in self.known
            if (bits ^ other).bit_count() <= (3 if self.near else 0)
        ]
        return min(near)[1] if near else bits

    def visit(self, page):
        if self.web.prints[page]:
            text = self.texts[page] = self.text(page)
            is_new = text not in self.known
            twins = self.twins(page)
            spelled = {chain: like for chain, like in twins.items() if chain[0][1] == "spelling"}
            learned = [
                (chain, text not in map(self.texts.get, like))
                for chain, like in (spelled or twins).items()
            ]
            if all(differs for _, differs in learned):
                learned.append((self.own_chain(page), is_new))
            if is_new:
                self.known.append(text)
            self.learned.append(learned)
            if len(self.learned) >= self.due:
                n = self.n_used = len(self.learned)
                self.due = n + max(4, int(self.every * n))
        self.visited.append(page)

    def crawl(self, seeds, keys):
        """Fetch the page with the largest key until none waits, those put off behind all others."""
        self.discovered += dict.fromkeys(seeds)
        while waiting := [page for page in self.discovered if page not in self.visited]:
            first = [page for page in waiting if page in seeds or not self.is_demoted(page)]
            page = max(first or waiting, key=lambda page: keys[page])  # the first of equals
            self.discovered += [
                target
                for target in dict.fromkeys(self.web.links[page])
                if target not in self.discovered
            ]
            self.visit(page)
        return self.visited
