"""The pieces of a URL, the groups that it belongs to, and the fetched URLs that differ in one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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
    """Three groups of pages, each within the one before, and what they have in common.

    Parameters
    ----------
    widest, middle, own
        Their hashes.
    name
        What the pages of the middle one have in common, for people.
    """

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
    """Return what a piece has in common with its likes: digits are equal, and so are long ids."""
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

    def chains(self, pieces: Pieces) -> list[Chain]:
        """Return the groups of a URL for each piece in which it differs from a fetched one.

        They are the URLs of the host that differ from others in that kind of piece; those of them
        that have the same piece; and those that have it in the same place, or, of a parameter, with
        the same value. If a fetched URL has the same pieces, the first is its spelling.
        """
        return [outcome.chain for outcome in self.outcomes(pieces)]

    def outcomes(self, pieces: Pieces, text: int = 0) -> list[Outcome]:
        """Return the same groups, each with whether no fetched URL of it has the same text."""
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
        """Note that a fetched URL is another with one piece more."""
        number = self._words.setdefault(what, len(self._words))
        if number == len(self._in_turn):
            self._in_turn.append(what)
        for at in range(MAX_PIECES):
            if self._known.add(hash((_LACKS, rest, at)), number):
                break
            if self._known.find(hash((_LACKS, rest, at))) == number:
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
