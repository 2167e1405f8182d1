"""The probability that a waiting page brings something new, and the pages put off by it."""

from __future__ import annotations

from array import array
from collections import Counter

from crawlprio.novelty.fingerprints import EXACT, Seen
from crawlprio.novelty.pieces import Chain, Outcome, Pieces, Twins, own_chain, pieces_of
from crawlprio.orderings.base import Pages
from crawlprio.orderings.rules import uniform
from crawlprio.pages import Visit
from crawlprio.store.hashtable import HashTable

N_LEVELS = 4
"""Halvings of the share of a group that keeps its place: at least 1 in 16 does."""

STRENGTHS = (4.0, 2.0, 4.0)
"""Fetches that the expectation of a wider group is worth, in each group of a chain."""

MAX_NAMES = 1_000
"""Names of groups of repeats that are counted apart."""


class Novelty:
    """Puts off waiting pages whose likes brought nothing new.

    A fetched page brings something new if its fingerprint differs from all before. For a waiting
    page, the probability p of that is learned by its site, its folder and the pattern of its URL,
    and, for each piece of its URL (host, a folder, the file, a parameter) without which or with
    another of which it would be the URL of a fetched page, or which a fetched page has more, by
    that piece. The smallest p counts.

    In a chain of three groups, each within the one before, p is the share of new pages among the
    fetches of the smallest, mixed with the p of the wider one as if it had `STRENGTHS` more
    fetches with that p; everything, which the widest is mixed with, has p = 1. The middle group is
    mixed with the mean of 1 and the p of the widest, so that each piece, and each folder, gets a
    try of its own. For a piece, a page counts as new if none of the fetched pages that differ in
    it has the same text; a page with the text of one of them counts for the piece only, not for
    its folder.

    If p < 1/2, half of the pages of the group keep their place; the others are put off. If
    p < 1/4, a quarter do, and so on down to 1 in 16, as the page's own draw decides. So what is
    learned can be unlearned, at a price that is bounded.

    Pages are judged when they are about to leave. Estimates are updated once the number of
    fetches that teach has grown by a share, `every`, at least 4; pages that are not to be put off
    any more then come back. Seeds, and pages fetched again, are never put off.

    Ours; near is Bar-Yossef, Keidar & Schonfeld, Do not crawl in the DUST, ACM TWEB 3(1), 2009, who
    learn rules for URLs with the same text from logs.

    Parameters
    ----------
    kind
        Which pages repeat others: `exact`, those with the same text; `near`, also those with
        almost the same.
    every
        See above; default 0.01.

    Attributes
    ----------
    n_fetched, n_repeats
        Pages fetched that have a fingerprint, and those of them that brought nothing new.
    n_put_off
        Pages that are put off now.
    repeats
        Pages that brought nothing new, by what their URLs have in common.
    """

    def __init__(self, kind: str = EXACT, every: float = 0.01) -> None:
        self._seen = Seen(kind)
        self._twins = Twins()
        self._every = every
        self._seeds: set[int] = set()
        self._groups = HashTable()
        self._counts = array("I")  # by group: fetches, new pages
        self._unused: list[Outcome] = []
        self._due = 0
        self._observed = bytearray()
        self._is_off = bytearray()
        self._put_off: dict[Chain, array[int]] = {}
        self.n_fetched = self.n_repeats = self.n_put_off = 0
        self.repeats: Counter[str] = Counter()

    def is_put_off(self, page: int) -> bool:
        """Return whether a page is put off now."""
        return page < len(self._is_off) and self._is_off[page] > 0

    def puts_off(self, page: int, pages: Pages) -> bool:
        """Judge a page that is about to leave; return whether it is put off from now on."""
        self._make_room(page)
        if self._is_off[page] or self._observed[page] or page in self._seeds:
            return False
        pieces = pieces_of(pages.url(page))
        chains = [own_chain(pieces), *self._twins.chains(pieces)]
        levels = list(map(self._level, chains))
        level = max(levels)
        if not _is_drawn(page, level):
            return False
        chain = chains[levels.index(level)]
        self._is_off[page] = 1
        self._put_off.setdefault(chain, array("i")).append(page)
        self.n_put_off += 1
        return True

    def observe(self, visit: Visit, pages: Pages) -> list[int]:
        """Learn from a visit; return the pages that are no longer put off, in no special order."""
        page = visit.page
        if page < 0:
            self._seeds.update(visit.targets.tolist())
            return []
        self._make_room(page)
        if self._observed[page]:
            return []
        self._observed[page] = 1
        back = [page] if self._forget(page) else []
        fingerprint = visit.fingerprint or visit.content_hash
        if not (fingerprint and 200 <= visit.status < 300):
            return back
        self._learn(pieces_of(pages.url(page)), *self._seen.add(fingerprint))
        if self.n_fetched >= self._due:
            self._due = self.n_fetched + max(4, int(self._every * self.n_fetched))
            back += self._update_estimates()
        return back

    def figures(self) -> dict[str, int | str]:
        """Return the rows of the report on a crawl, by what they say."""
        found: dict[str, int | str] = {"repeats fetched": self.n_repeats}
        if self.n_repeats:
            most = ", ".join(f"{name}: {n:,}" for name, n in self.repeats.most_common(3))
            share = self.n_repeats / self.n_fetched
            found["most repeats"] = f"{share:.0%} of {self.n_fetched:,} pages; {most}"
        if self.n_put_off:
            found["put off as likely repeats"] = self.n_put_off
        return found

    def _learn(self, pieces: Pieces, text: int, is_new: bool) -> None:
        """Note the outcome of a fetch for the next estimates."""
        self.n_fetched += 1
        own, twins = own_chain(pieces), self._twins.outcomes(pieces, text)
        if self._twins.has(pieces):
            twins = twins[:1]
        self._twins.add(pieces, text)
        self._unused += twins
        causes = [chain for chain, differs in twins if not differs]
        if not causes:
            self._unused.append(Outcome(own, is_new))
        if not is_new:
            self.n_repeats += 1
            name = (causes or [own])[0].name
            if len(self.repeats) >= MAX_NAMES and name not in self.repeats:
                name = "other places"
            self.repeats[name] += 1

    def _update_estimates(self) -> list[int]:
        """Use all outcomes so far; return the pages that are no longer put off."""
        for chain, is_new in self._unused:
            for group in chain[:3]:
                at = 2 * self._number(group)
                self._counts[at] += 1
                self._counts[at + 1] += is_new
        self._unused.clear()
        back: list[int] = []
        for chain, pages in list(self._put_off.items()):
            level = self._level(chain)
            here = [page for page in pages if self._is_off[page]]
            stay = [page for page in here if _is_drawn(page, level)]
            if len(stay) < len(here):
                back += [page for page in here if not _is_drawn(page, level)]
            if stay:
                self._put_off[chain] = array("i", stay)
            else:
                del self._put_off[chain]
        for page in back:
            self._forget(page)
        return back

    def _level(self, chain: Chain) -> int:
        """Return how often the share of pages of a chain that keep their place is halved."""
        p = self._p(chain)
        return sum(p < 0.5**at for at in range(1, N_LEVELS + 1))

    def _p(self, chain: Chain) -> float:
        """Return the estimate that a page of a chain brings something new."""
        p = 1.0
        for at, (group, strength) in enumerate(zip(chain[:3], STRENGTHS, strict=True)):
            number = self._groups.find(group)
            n, n_new = (0, 0) if number < 0 else self._counts[2 * number : 2 * number + 2]
            if at == 1:
                p = 0.5 + 0.5 * p
            p = (n_new + strength * p) / (n + strength)
        return p

    def _number(self, group: int) -> int:
        """Return the number of a group, the next one if it is new."""
        number = len(self._groups)
        if self._groups.add(group, number):
            self._counts.extend((0, 0))
            return number
        return self._groups.find(group)

    def _forget(self, page: int) -> bool:
        """Note that a page is not put off; return whether it was."""
        was_off = bool(self._is_off[page])
        self._is_off[page] = 0
        self.n_put_off -= was_off
        return was_off

    def _make_room(self, page: int) -> None:
        if page >= len(self._is_off):
            more = bytes(page + 4_096 - len(self._is_off))
            self._is_off.extend(more)
            self._observed.extend(more)


def _is_drawn(page: int, level: int) -> bool:
    """Return whether a page is one of those that do not keep their place at a level."""
    return level > 0 and uniform(0, page) >= 0.5**level
