"""Defers waiting pages when pages with similar URLs were duplicates."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from crawlprio.graph.pages import Visit
from crawlprio.orderings.base import Pages, uniform
from crawlprio.plugins.value.fingerprints import EXACT, Seen
from crawlprio.store.hashtable import HashTable

MAX_PIECES = 12
"""Pieces of a path, and parameters, that are looked at; the rest are one piece."""

_DIGITS = re.compile(r"\d+")

_WHOLE, _LACKS = "whole", "lacks"

_NAMES = {
    "top": "{host}/{what}/",
    "folder": "{host}/.../{what}/",
    "file": "{host}/.../{what}",
    "parameter": "{host}/...?{what}=",
}
"""How groups are named for people, by kind; `top` is a folder at the top."""


class Pieces(NamedTuple):
    """The pieces of a URL: a path is its folders and a file, parameters are sorted."""

    scheme: str
    host: str
    path: tuple[str, ...]
    parameters: tuple[str, ...]


class Chain(NamedTuple):
    """Hashes of three groups of pages, each within the one before; the middle one has a name."""

    widest: int
    middle: int
    own: int
    name: str


def pieces_of(url: str) -> Pieces:
    """Return the pieces of an absolute URL. A final slash does not count."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    rest, _, query = rest.partition("?")
    host, _, path = rest.partition("/")
    segments = path.split("/", MAX_PIECES)
    if not segments[-1]:
        segments.pop()
    parameters = sorted(filter(None, query.split("&", MAX_PIECES))) if query else ()
    return Pieces(scheme, host, tuple(segments), tuple(parameters))


def word(piece: str) -> str:
    """Return a piece of a URL with numbers as 0, or `#` for a long id, so that like equals like."""
    if piece.isalpha():
        return piece
    if len(piece) >= 8 and sum(map(str.isdecimal, piece)) >= 3:
        return "#"
    return _DIGITS.sub("0", piece)


def own_chain(pieces: Pieces) -> Chain:
    """Return the site, the folder and the pattern of a URL."""
    host, path = pieces.host, pieces.path
    folder = _folder(path)
    names = tuple(word(parameter.partition("=")[0]) for parameter in pieces.parameters)
    last = word(path[-1]) if path else ""
    return Chain(
        hash((host,)),
        hash((host, folder)),
        hash((host, folder, last, names)),
        f"{host}/{folder}/" if folder else f"{host}/",
    )


class Outcome(NamedTuple):
    """A piece in which a URL differs from fetched ones, and whether the text differs with it."""

    chain: Chain
    differs: bool


class Twins:
    """The URLs that were fetched and their texts, to find those that differ in one piece.

    Memory: some 20 hashes for a URL of four pieces, 16 to 32 bytes each.
    """

    def __init__(self) -> None:
        self._known = HashTable()
        self._words: dict[str, int] = {}
        self._in_turn: list[str] = []

    def add(self, pieces: Pieces, text: int) -> None:
        """Note that a URL was fetched, and its text."""
        self._note(text, _WHOLE, _hash(pieces))
        self._note(text, "host", hash(pieces[2:]))
        for kind, what, _, rest in _gaps(pieces):
            if kind != "file":
                self._note(text, kind, rest)
                self._note_missing(text, rest, f"{kind} {what}")

    def has(self, pieces: Pieces) -> bool:
        """Return whether a URL with the same pieces was fetched."""
        return self._has(_WHOLE, _hash(pieces))

    def outcomes(self, pieces: Pieces, text: int = 0) -> list[Outcome]:
        """Return the groups of a URL for each piece in which it differs from a fetched one.

        They are the URLs of the host that differ from others in that kind of piece; those of them
        that have the same piece; and those that have it in the same place, or, of a parameter, with
        the same value. If a fetched URL has the same pieces, the first is its spelling. Each comes
        with whether no fetched URL of it has the same text.
        """
        host, path = pieces.host, pieces.path
        folder, whole = _folder(path), _hash(pieces)
        found: dict[int, Outcome] = {}

        def note(chain: Chain, *keys: tuple[str | int, ...]) -> None:
            if any(self._has(*key) for key in keys):
                before = found.get(chain.own)
                is_same = any(self._has(*key, text) for key in keys)
                differs = not is_same and (before is None or before.differs)
                found[chain.own] = Outcome(chain, differs)

        name = f"{pieces.scheme}://{host}/"
        note(_chain(host, "spelling", pieces.scheme, "", name), (_WHOLE, whole))
        if path or pieces.parameters:
            first = word(path[0]) if len(path) > 1 else ""
            chain = _chain(host, "host", first, folder, f"{host}/")
            note(chain, ("host", hash(pieces[2:])))
        for kind, what, context, rest in _gaps(pieces):
            at_top = kind == "folder" and path[0] == what
            name = _NAMES["top" if at_top else kind].format(host=host, what=what)
            chain = _chain(host, kind, what, context, name)
            keys = [(_WHOLE, rest)] if kind == "file" else [(_WHOLE, rest), (kind, rest)]
            note(chain, *keys)
        for what in self._missing(whole):
            chain = _chain(host, _LACKS, what, folder, f"{host}/{folder}")
            note(chain, (_LACKS, whole, what))
        return list(found.values())

    def _note(self, text: int, *key: str | int) -> None:
        self._known.add(hash(key), 0)
        self._known.add(hash((*key, text)), 0)

    def _has(self, *key: str | int) -> bool:
        return self._known.find(hash(key)) >= 0

    def _note_missing(self, text: int, rest: int, what: str) -> None:
        """Note that one piece more makes another URL into a fetched one."""
        number = self._words.setdefault(what, len(self._words))
        if number == len(self._in_turn):
            self._in_turn.append(what)
        for at in range(MAX_PIECES):
            key = hash((_LACKS, rest, at))
            if self._known.add(key, number) or self._known.find(key) == number:
                break
        else:
            return
        self._note(text, _LACKS, rest, what)

    def _missing(self, whole: int) -> list[str]:
        """Return the pieces that fetched URLs have more than one, the first `MAX_PIECES`."""
        found: list[str] = []
        while (number := self._known.find(hash((_LACKS, whole, len(found))))) >= 0:
            found.append(self._in_turn[number])
        return found


def _gaps(pieces: Pieces) -> Iterator[tuple[str, str, str, int]]:
    """Yield each piece but the host: kind, word, context, and the hash of the URL without it."""
    _, host, path, parameters = pieces
    folder = _folder(path)
    for at, segment in enumerate(path):
        kind = "file" if at == len(path) - 1 else "folder"
        yield kind, word(segment), folder, hash((host, path[:at] + path[at + 1 :], parameters))
    for at, parameter in enumerate(parameters):
        name, _, value = parameter.partition("=")
        rest = hash((host, path, parameters[:at] + parameters[at + 1 :]))
        yield "parameter", word(name), word(value), rest


def _chain(host: str, kind: str, what: str, context: str, name: str) -> Chain:
    """Return the groups of URLs that differ from others in a piece of a kind."""
    return Chain(
        hash((host, kind)), hash((host, kind, what)), hash((host, kind, what, context)), name
    )


def _folder(path: tuple[str, ...]) -> str:
    return "/".join(map(word, path[:-1]))


def _hash(pieces: Pieces) -> int:
    return hash(pieces[1:])


N_LEVELS = 4
"""Halvings of the share of a group that keeps its place: at least 1 in 16 does."""

STRENGTHS = (4.0, 2.0, 4.0)
"""Fetches that the expectation of a wider group is worth, in each group of a chain."""

MAX_NAMES = 1_000
"""Names of groups of repeats that are counted apart."""


class Novelty:
    """Puts off waiting pages when similar ones brought nothing new.

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

    If p < 1/2, half of the pages of the group keep their place; the others are demoted. If
    p < 1/4, a quarter do, and so on down to 1 in 16, as the page's own draw decides. So what is
    learned can be unlearned, at a price that is bounded.

    Pages are judged when they are about to leave. Estimates are updated once the number of
    fetches that teach has grown by a share, `every`, at least 4; pages that are not to be demoted
    any more then come back. Seeds, and pages fetched again, are never demoted.

    Ours; near is Bar-Yossef, Keidar & Schonfeld, Do not crawl in the DUST, ACM TWEB 3(1), 2009, who
    learn rules for URLs with the same text from logs.

    Pages with the same text repeat others; with the kind `near`, so do those with almost the same.
    Only pages that have a fingerprint count as fetched. `repeats` counts those that brought nothing
    new by what their URLs have in common.
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
        self._demoted: dict[Chain, array[int]] = {}
        self.n_fetched = self.n_repeats = self.n_demoted = 0
        self.repeats: Counter[str] = Counter()

    def is_demoted(self, page: int) -> bool:
        return page < len(self._is_off) and self._is_off[page] > 0

    def puts_off(self, page: int, pages: Pages) -> bool:
        """Judge a page that is about to leave; return whether it is demoted from now on."""
        self._make_room(page)
        if self._is_off[page] or self._observed[page] or page in self._seeds:
            return False
        pieces = pieces_of(pages.url(page))
        chains = [own_chain(pieces), *(twin.chain for twin in self._twins.outcomes(pieces))]
        levels = list(map(self._level, chains))
        level = max(levels)
        if not _is_drawn(page, level):
            return False
        chain = chains[levels.index(level)]
        self._is_off[page] = 1
        self._demoted.setdefault(chain, array("i")).append(page)
        self.n_demoted += 1
        return True

    def observe(self, visit: Visit, pages: Pages) -> list[int]:
        """Learn from a visit; return the pages that are no longer demoted, in no special order."""
        page = visit.page
        if page < 0:
            self._seeds.update(visit.targets.tolist())
            return []
        self._make_room(page)
        if self._observed[page]:
            return []
        self._observed[page] = 1
        back = [page] if self._forget(page) else []
        fingerprint = visit.extras.get("fingerprints", (0,))[0] or visit.content_hash
        if not (fingerprint and 200 <= visit.status < 300):
            return back
        first = self._seen.add(fingerprint, page)
        self._learn(pieces_of(pages.url(page)), first, first == page)
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
        if self.n_demoted:
            found["put off as likely repeats"] = self.n_demoted
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
        """Use all outcomes so far; return the pages that are no longer demoted."""
        for chain, is_new in self._unused:
            for group in chain[:3]:
                at = 2 * self._number(group)
                self._counts[at] += 1
                self._counts[at + 1] += is_new
        self._unused.clear()
        back: list[int] = []
        for chain, pages in list(self._demoted.items()):
            level = self._level(chain)
            stay = self._demoted[chain] = array("i")
            for page in filter(self._is_off.__getitem__, pages):
                (stay if _is_drawn(page, level) else back).append(page)
            if not stay:
                del self._demoted[chain]
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
        """Demote a page no longer; return whether it was demoted."""
        was_off = bool(self._is_off[page])
        self._is_off[page] = 0
        self.n_demoted -= was_off
        return was_off

    def _make_room(self, page: int) -> None:
        if page >= len(self._is_off):
            more = bytes(page + 4_096 - len(self._is_off))
            self._is_off.extend(more)
            self._observed.extend(more)


def _is_drawn(page: int, level: int) -> bool:
    """Return whether a page is one of those that do not keep their place at a level."""
    return level > 0 and uniform(0, page) >= 0.5**level
