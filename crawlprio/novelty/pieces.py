"""The pieces of a URL, the groups that it belongs to, and the fetched URLs that differ in one."""

from __future__ import annotations

import re
from typing import NamedTuple

from crawlprio.store.hashtable import HashTable

MAX_PIECES = 12
"""Pieces of a path, and parameters, that are looked at; the rest are one piece."""

_DIGITS = re.compile(r"\d+")


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


class Twins:
    """The URLs that were fetched, to find those from which another differs in one piece.

    Memory: a hash per piece of each URL, 16 to 32 bytes.
    """

    def __init__(self) -> None:
        self._whole = HashTable()
        self._gaps = HashTable()

    def add(self, pieces: Pieces) -> None:
        """Note that a URL was fetched."""
        self._whole.add(_hash(pieces), 0)
        self._gaps.add(_host_gap(pieces), 0)
        for at in range(len(pieces.path) - 1):
            self._gaps.add(_gap("folder", _without_segment(pieces, at)), 0)
        for at in range(len(pieces.parameters)):
            self._gaps.add(_gap("parameter", _without_parameter(pieces, at)), 0)

    def has(self, pieces: Pieces) -> bool:
        """Return whether a URL with the same pieces was fetched."""
        return self._has(_hash(pieces))

    def chains(self, pieces: Pieces) -> list[Chain]:
        """Return the groups of a URL for each piece in which it differs from a fetched one.

        They are the URLs of the host that differ from others in that kind of piece; those of them
        that have the same piece; and those that have it in the same place, or, of a parameter, with
        the same value. If a fetched URL has the same pieces, the first is its spelling.
        """
        host, path, parameters = pieces.host, pieces.path, pieces.parameters
        folder = _folder(path)
        found = []
        if self.has(pieces):
            name = f"{pieces.scheme}://{host}/"
            found.append(_chain(host, "spelling", pieces.scheme, "", name))
        if (path or parameters) and self._has_gap(_host_gap(pieces)):
            first = word(path[0]) if len(path) > 1 else ""
            found.append(_chain(host, "host", first, folder, f"{host}/"))
        for at, parameter in enumerate(parameters):
            rest = _without_parameter(pieces, at)
            if self._has(rest) or self._has_gap(_gap("parameter", rest)):
                name, _, value = parameter.partition("=")
                what = word(name)
                found.append(_chain(host, "parameter", what, word(value), f"{host}/...?{what}="))
        for at in range(len(path) - 1):
            rest = _without_segment(pieces, at)
            if self._has(rest) or self._has_gap(_gap("folder", rest)):
                what = word(path[at])
                where = "/..." if at else ""
                found.append(_chain(host, "folder", what, folder, f"{host}{where}/{what}/"))
        if path and self._has(_without_segment(pieces, len(path) - 1)):
            what = word(path[-1])
            found.append(_chain(host, "file", what, folder, f"{host}/.../{what}"))
        whole = _hash(pieces)
        if self._has_gap(_gap("folder", whole)) or self._has_gap(_gap("parameter", whole)):
            found.append(_chain(host, "lacks", "", folder, f"{host}/{folder}"))
        distinct = {chain.own: chain for chain in reversed(found)}
        return list(distinct.values())[::-1]

    def _has(self, hashed: int) -> bool:
        return self._whole.find(hashed) >= 0

    def _has_gap(self, hashed: int) -> bool:
        return self._gaps.find(hashed) >= 0


def _chain(host: str, kind: str, what: str, context: str, name: str) -> Chain:
    """Return the groups of URLs that differ from others in a piece of a kind."""
    return Chain(
        hash((host, kind)), hash((host, kind, what)), hash((host, kind, what, context)), name
    )


def _folder(path: tuple[str, ...]) -> str:
    return "/".join(map(word, path[:-1]))


def _hash(pieces: Pieces) -> int:
    return hash(pieces[1:])


def _host_gap(pieces: Pieces) -> int:
    return hash(pieces[2:])


def _gap(kind: str, rest: int) -> int:
    return hash((kind, rest))


def _without_segment(pieces: Pieces, at: int) -> int:
    path = pieces.path
    return hash((pieces.host, path[:at] + path[at + 1 :], pieces.parameters))


def _without_parameter(pieces: Pieces, at: int) -> int:
    given = pieces.parameters
    return hash((pieces.host, pieces.path, given[:at] + given[at + 1 :]))
