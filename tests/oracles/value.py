"""Orderings by value, spelled out: one crawl of a web whose values are known after each fetch."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class ValuedWeb(NamedTuple):
    """Links in page order as (target, anchor text), and the rest by page; value None: failed."""

    links: Mapping[int, Sequence[tuple[int, str]]]
    urls: Sequence[str]
    values: Sequence[float | None]
    statuses: Sequence[int]
    titles: Sequence[str]
    texts: Sequence[str]


@dataclass
class Seen:
    """What a crawler has seen: pages in order of discovery, visits, and the first link to each."""

    web: ValuedWeb
    discovered: list[int] = field(default_factory=list)
    visited: list[int] = field(default_factory=list)
    first_link: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Page -> URL of the page it was found on, and anchor text."""
    n_new: dict[int, int] = field(default_factory=dict)
    """Page -> number of pages that were found on it."""

    def teaches(self, page: int) -> bool:
        return not 300 <= self.web.statuses[page] < 400

    def parent_values(self, page: int) -> list[float]:
        """The values of the visited pages that link to a page, redirects left out."""
        return [
            self.web.values[source] or 0.0
            for source in self.visited
            if self.teaches(source) and page in [target for target, _ in self.web.links[source]]
        ]


Policy = Callable[[Seen], dict[int, float]]
"""Returns the keys of all discovered pages after a visit."""


def crawl(web: ValuedWeb, seeds: Sequence[int], policy: Policy) -> list[int]:
    """Fetch the page with the largest key until none waits; ties by order of discovery."""
    seen = Seen(web)
    for seed in seeds:
        seen.discovered.append(seed)
        seen.first_link[seed] = ("", "")
    keys = policy(seen)
    while waiting := [page for page in seen.discovered if page not in seen.visited]:
        page = max(waiting, key=lambda page: keys[page])  # the first of equals
        seen.n_new[page] = 0
        for target, anchor in web.links[page]:
            if target not in seen.first_link:
                seen.n_new[page] += 1
                seen.discovered.append(target)
                seen.first_link[target] = (web.urls[page], anchor)
        seen.visited.append(page)
        keys = policy(seen)
    return seen.visited


def best_first(seen: Seen) -> dict[int, float]:
    return {page: max(seen.parent_values(page), default=0.0) for page in seen.discovered}


def parent_quality(seen: Seen) -> dict[int, float]:
    found = {page: seen.parent_values(page) for page in seen.discovered}
    return {page: sum(values) / max(len(values), 1) for page, values in found.items()}


def words(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"[^\W_]+", text.casefold())))


def log_odds(mean: float) -> float:
    mean = min(max(mean, 1e-4), 1 - 1e-4)
    return math.log(mean / (1 - mean))


class Learned:
    """The ordering `value`, from its docstring; keys are kept until they are brought up to date."""

    prior = (1.0, 0.5, 0.3, 0.3, 0.15, 0.15, 0.3, 0.4, 0.1, 0.7, 0.4)

    def __init__(
        self,
        judge: Callable[[str], float] | None = None,
        explore: float = 0.3,
        strength: float = 5.0,
        every: float = 0.005,
        discovery: float = 0.8,
    ) -> None:
        self.judge, self.explore, self.every = judge, explore, every
        self.discovery, self.oldest, self.turn = discovery, 0, -1
        self.weights = list(self.prior)
        size = range(len(self.prior))
        self.inverse = [[1 / strength if i == j else 0.0 for j in size] for i in size]
        self.counts: dict[str, tuple[float, float, float]] = {}
        self.all = (1.0, 0.05, 3.0)
        self.keys: dict[int, float] = {}
        self.due = 0

    def groups(self, seen: Seen, page: int) -> tuple[list[str], list[str], list[str]]:
        """Return host, folder and pattern; the words of the anchor; those of the URL."""
        _, anchor = seen.first_link[page]
        host, _, rest = seen.web.urls[page].split("://")[1].partition("/")
        path, mark, query = rest.partition("?")
        three = [
            f"host {host}",
            f"folder {host}/{path.rpartition('/')[0]}",
            f"pattern {host}/" + re.sub(r"\d+", "0", path) + mark,
        ]
        return three, words(anchor)[:8], words(f"{path} {query}")[-8:]

    def mixed(self, n: float, total: float, wider: float, pages: float) -> float:
        """The mean of n pages, mixed with that of a wider group."""
        more = max(pages, 0.2 / max(wider, 1e-4))
        return (total + more * wider) / (n + more)

    def mean(self, group: str, wider: float, pages: float) -> float:
        n, total, _ = self.counts.get(group, (0.0, 0.0, 0.0))
        return self.mixed(n, total, wider, pages)

    def sources(self, seen: Seen, page: int, visited: Sequence[int]) -> list[int]:
        """The first eight visited pages that link to a page."""
        links = seen.web.links
        return [one for one in visited if page in [target for target, _ in links[one]]][:8]

    def targets(self, seen: Seen, source: int, visited: Sequence[int]) -> list[int]:
        """The visited pages that a page links to.

        A page counts for the first eight that linked to it before its visit, and for all later.
        """
        found = []
        for target, _ in seen.web.links[source]:
            if target in visited and seen.teaches(target):
                before = visited[: visited.index(target)]
                late = source not in before
                if late or source in self.sources(seen, target, before):
                    found.append(target)
        return found

    def targets_mean(self, seen: Seen, source: int, visited: Sequence[int], wider: float) -> float:
        """The mean value of these pages."""
        found = [seen.web.values[target] or 0.0 for target in self.targets(seen, source, visited)]
        return self.mixed(len(found), sum(found), wider, 2.0)

    def shows(self, seen: Seen, page: int) -> float:
        """The logarithm of the number of new pages that a page is expected to show."""
        (_, folder, pattern), anchor, _ = self.groups(seen, page)
        of_folder = self.shown(folder, self.all[2] / self.all[0])
        by_pattern = math.log(self.shown(pattern, of_folder) + 0.1)
        first = self.sources(seen, page, seen.visited)[:1]
        if not first:
            return by_pattern
        company = self.targets(seen, first[0], seen.visited)
        n_new = sum(seen.n_new[target] for target in company)
        by_company = math.log((n_new + 2 * of_folder) / (len(company) + 2) + 0.1)
        by_words = [math.log(self.shown(word, of_folder) + 0.1) for word in anchor]
        by_words = by_words or [math.log(of_folder + 0.1)]
        return (by_pattern + by_company + sum(by_words) / len(by_words)) / 3

    def shown(self, group: str, wider: float) -> float:
        """The mean number of new pages on the pages of a group."""
        n, _, n_new = self.counts.get(group, (0.0, 0.0, 0.0))
        return (n_new + 2 * wider) / (n + 2)

    def near(self, seen: Seen, page: int, visited: Sequence[int], wider: float) -> float:
        """The mean value of visited pages found within four places of a page, by 1 / distance."""
        place = seen.discovered.index(page)
        n, total = 2.0, 2 * wider
        for other in seen.discovered[max(0, place - 4) : place + 5]:
            same = self.sources(seen, other, visited)[:1] == self.sources(seen, page, visited)[:1]
            if other != page and same and other in visited and seen.teaches(other):
                weight = 1 / abs(seen.discovered.index(other) - place)
                n, total = n + weight, total + weight * (seen.web.values[other] or 0.0)
        return total / n

    def inputs(self, seen: Seen, page: int, visited: Sequence[int]) -> list[float]:
        overall = self.all[1] / self.all[0]
        base = log_odds(overall)
        (host, folder, pattern), anchor, url = self.groups(seen, page)
        of_host = self.mean(host, overall, 4.0)
        of_folder = self.mean(folder, of_host, 2.0)
        n_links, linked = 0.5, 0.5 * overall
        for source in visited:
            links = [target for target, _ in seen.web.links[source]]
            if seen.teaches(source) and page in links:
                weight = 1 / (1 + len(links) / 20)
                n_links += weight
                linked += weight * (seen.web.values[source] or 0.0)
        of_sources = [
            self.targets_mean(seen, source, visited, of_host)
            for source in self.sources(seen, page, visited)
        ] or [of_host]
        of_one = [
            linked / n_links,
            self.near(seen, page, visited, of_sources[0]),
            of_folder,
            self.mean(pattern, of_folder, 2.0),
        ]
        by_link, by_near, by_folder, by_pattern = (log_odds(mean) - base for mean in of_one)
        by_word = [
            sum(log_odds(self.mean(word, overall, 2.0)) - base for word in some)
            for some in (anchor, [f"own {word}" for word in anchor], url)
        ]
        by_source = sum(log_odds(mean) - base for mean in of_sources) / len(of_sources)
        by_said = [self.promise(group, overall) - base for group in self.said(seen, page, visited)]
        return [base, by_link, by_source, by_near, by_folder, by_pattern, *by_word, *by_said]

    def said(self, seen: Seen, page: int, visited: Sequence[int]) -> list[str]:
        """Return the class of the best anchor text of a page by the model, and that of its URL."""
        if self.judge is None:
            return ["anchors 0", "URL 0"]
        texts = [
            anchor
            for source in visited
            for target, anchor in seen.web.links[source]
            if target == page and anchor
        ]
        best = max((math.ceil(5 * self.judge(text)) for text in texts), default=0)
        address = seen.web.urls[page].split("://")[1]
        return [f"anchors {best}", f"URL {math.ceil(5 * self.judge(address))}"]

    def promise(self, group: str, overall: float) -> float:
        """The log-odds of the mean value of such a class."""
        if self.judge is None:
            return log_odds(overall)
        n, total, _ = self.counts.get(group, (0.0, 0.0, 0.0))
        grade = int(group.split()[1])
        if grade == 0:
            return log_odds(self.mixed(n, total, overall, 2.0))
        return log_odds((total + 2 * 0.4 * grade / 5 + 0.5 * overall) / (n + 2 + 0.5))

    def key(self, seen: Seen, page: int) -> float:
        inputs = self.inputs(seen, page, seen.visited)
        expected = sum(x * w for x, w in zip(inputs, self.weights, strict=True))
        (_, folder, _), _, _ = self.groups(seen, page)
        n_folder, _, _ = self.counts.get(folder, (0.0, 0.0, 0.0))
        first = self.sources(seen, page, seen.visited)[:1]
        n_targets = len(self.targets(seen, first[0], seen.visited)) if first else 0
        rare = 1 / math.sqrt(n_targets + 1) + 1 / math.sqrt(n_folder + 1)
        ahead = 1e3 if page == self.turn else 0.0
        return expected + self.explore * rare + self.discovery * self.shows(seen, page) + ahead

    def learn(self, seen: Seen, page: int) -> None:
        """Refit the weights to the page visited last, then count it."""
        x = self.inputs(seen, page, seen.visited[:-1])
        value = seen.web.values[page] or 0.0
        gain = [sum(a * b for a, b in zip(row, x, strict=True)) for row in self.inverse]
        expected = 1 / (1 + math.exp(-sum(a * b for a, b in zip(x, self.weights, strict=True))))
        slope = max(expected * (1 - expected), 0.01)
        scale = 1 / slope + sum(a * b for a, b in zip(x, gain, strict=True))
        error = (value - expected) / slope
        self.weights = [w + g / scale * error for w, g in zip(self.weights, gain, strict=True)]
        self.inverse = [
            [entry - g * h / scale for entry, h in zip(row, gain, strict=True)]
            for row, g in zip(self.inverse, gain, strict=True)
        ]
        n_new = seen.n_new[page]
        self.all = self.all[0] + 1, self.all[1] + value, self.all[2] + n_new
        three, anchor, url = self.groups(seen, page)
        text = f"{seen.web.titles[page]} {seen.web.texts[page]}"
        own = [f"own {word}" for word in words(text)]
        said = self.said(seen, page, seen.visited[:-1])
        for group in (*three, *anchor, *url, *own, *said):
            n, total, shown = self.counts.get(group, (0.0, 0.0, 0.0))
            self.counts[group] = n + 1, total + value, shown + n_new

    def next_turn(self, seen: Seen) -> list[int]:
        """Give the page that waits longest its turn; return it and the page that had one."""
        before = self.turn
        waiting = [at for at, page in enumerate(seen.discovered) if page not in seen.visited]
        at = min((at for at in waiting if at >= self.oldest), default=-1)
        self.turn = seen.discovered[at] if at >= 0 else -1
        self.oldest = at + 1 if at >= 0 else len(seen.discovered)
        return [page for page in (before, self.turn) if page >= 0]

    def __call__(self, seen: Seen) -> dict[int, float]:
        if not seen.visited:
            stale = seen.discovered
        else:
            page, n = seen.visited[-1], len(seen.visited)
            if seen.teaches(page):
                self.learn(seen, page)
            turns = self.next_turn(seen) if n % 10 == 0 else []
            if n >= self.due:
                self.due = n + max(4, int(self.every * n))
                stale = seen.discovered
            else:
                stale = [target for target, _ in seen.web.links[page]] + turns
        for page in stale:
            self.keys[page] = self.key(seen, page)
        return self.keys


class LearnedAndImportant(Learned):
    """The ordering `value-and-importance`, from its docstring."""

    def __init__(
        self, judge: Callable[[str], float] | None = None, importance: float = 0.2
    ) -> None:
        super().__init__(judge)
        self.importance = importance
        self.mass: dict[int, float] = {}

    def key(self, seen: Seen, page: int) -> float:
        mass = max(self.mass.get(page, 0.0), 1e-12)
        return super().key(seen, page) + self.importance * math.log(mass)

    def __call__(self, seen: Seen) -> dict[int, float]:
        if not seen.visited:
            self.mass = dict.fromkeys(seen.discovered, 1.0)
        else:
            source = seen.visited[-1]
            links = seen.web.links[source]
            for target, _ in links:
                share = 0.85 * self.mass[source] / len(links)
                self.mass[target] = self.mass.get(target, 0.0) + share
        return super().__call__(seen)
