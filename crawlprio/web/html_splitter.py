"""Splits HTML pages on which the parser would need quadratic time or memory into pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import njit

MAX_TAGS = 100_000
"""Maximum number of tags read of a page that is read in pieces."""

MAX_ATTRIBUTES = 1_000
"""Maximum number of attributes of a tag, or of all `html` and `body` tags of a piece."""

SMALL = 4_096
"""Size in bytes up to which a page is read whole: at most 0.15 s and 90 MB in the parser."""

_MANY_STEPS = 100_000_000
_MANY_ATTRIBUTES = 200_000
_MUCH = 48_000_000
_OF_ELEMENT, _OF_ATTRIBUTE = 265, 150  # bytes that the parser allocates
_PIECE_TAGS = 500
_PIECE_MUCH = 1_000_000
_ANY = 1 << 62
_PATIENCE = 16
_MAX_OPEN = 64

_SPACE = rb"\t\n\x0c\r "
_SENTINEL = b"><\"'>"
# The only character references that are shorter than their text in UTF-8: many of them make lexbor
# write past the end of its 16 kB buffer.
_GROWING = ((b"&nGt;", "\u226b\u20d2".encode()), (b"&nLt;", "\u226a\u20d2".encode()))


def _opening(names: str) -> bytes:
    """Return a case-insensitive pattern of these start tags; twice as fast as re.IGNORECASE."""
    words = (
        "".join(f"[{char}{char.upper()}]" if char.isalpha() else char for char in name)
        for name in names.split()
    )
    return b"<(?:%s)(?=[%s/>])" % ("|".join(words).encode(), _SPACE)


_FORMATTING_NAMES = "b big code em font i nobr s small strike strong tt u"
_WITHIN_NAMES = "span sub sup"
# If a piece begins with one of these, the parser cannot see a tag before its end.
_HIDDEN = b"|".join(
    (
        rb"<!--(?s:-?>|.*?(?:--!?>|\Z))",
        rb"%s(?s:.*?)(?:</[sS][cC][rR]|\Z)" % _opening("script"),
        rb"%s(?s:.*?)(?:</[sS][tT][yY]|\Z)" % _opening("style"),
    )
)
_HIDDEN_HERE = re.compile(_HIDDEN)
_BLOCK = _opening("a dd div dt h1 h2 h3 h4 h5 h6 hr li ol p table td th tr ul")
_BOUNDARY = re.compile(b"(%s)|%s" % (_BLOCK, _HIDDEN))


def _key(name: str) -> np.uint64:
    """Return a name of at most 8 letters packed into an integer, as `_scan` reads it."""
    return np.uint64(int.from_bytes(name.encode(), "big"))


_FORMATTING_KEYS = tuple(map(_key, _FORMATTING_NAMES.split()))
_WITHIN_KEYS = tuple(map(_key, _WITHIN_NAMES.split()))
_VOID_KEYS = tuple(map(_key, ["area", "br", "col", "hr", "img", "input", "link", "meta", "wbr"]))
_A, _HTML, _BODY = map(_key, ("a", "html", "body"))
_IS_SPACE, _IS_SLASH, _IS_EQUALS, _IS_END = 1, 2, 4, 8
_ENDS_NAME = _IS_SPACE | _IS_SLASH | _IS_END
_CLASS = np.zeros(256, np.uint8)
_CLASS[list(b"\t\n\x0c\r ")] = _IS_SPACE
_CLASS[ord("/")] = _IS_SLASH
_CLASS[ord("=")] = _IS_EQUALS
_CLASS[ord(">")] = _IS_END
_GREATER, _EQUALS, _SLASH, _QUOTE, _APOSTROPHE = b">=/\"'"
_FIRST_LETTER, _LAST_LETTER = b"az"

Page = NDArray[np.uint8] | bytes
"""A page and its sentinel."""


def pieces(html: bytes | str) -> tuple[list[bytes | str], str]:
    """Return a page in parts that can be parsed fast, and why it was truncated, if it was.

    As the HTML standard requires, the parser repeats every unclosed formatting element (`a`, `b`,
    `font` and the like), with all its attributes, in each block that follows: a page of 12 kB
    became a tree of 750 MB. At many tags it also walks up all open elements, and it compares each
    attribute with all others of its tag, or, for `html` and `body`, of all such tags.

    For every `<`, the parser repeats at most the formatting elements that were not closed for
    certain (`_scan`), but only one `a`, and it walks up at most the elements that may be open. A
    page is therefore read whole if its number of `<` times the memory of these formatting elements
    is below 48 MB, and times the number of these open elements below 100 million, and if it has at
    most `MAX_TAGS` `<`, 200,000 attributes, and 1,000 attributes per tag. Other pages are read in
    pieces of 500 tags, or fewer if the memory reaches 1 MB, up to `MAX_TAGS` (`tags`). The rest of
    a tag with more than `MAX_ATTRIBUTES` is read as text (`attributes`). Anything that could be a
    tag counts as one, so that no limit relies on how the parser interprets the page. A page whose
    tags could overlap many times over is truncated at that point (`attributes`). Character
    references that overflow a buffer of lexbor are replaced by their characters.

    Nearly all pages come back whole and unchanged. A piece begins with a tag outside scripts,
    styles and comments, and an element across two pieces ends with the first. The reason is
    `attributes`, `tags` or empty. Cost: nothing up to 4 kB, then 1.4 ns per byte: a twelfth of that
    of the parser. In Python 15 ns per byte where `_is_plainly_harmless` answers, otherwise 80.
    """
    global _n_scanned
    if len(html) <= SMALL:
        return [html], ""
    if isinstance(html, str):
        html = html.encode("utf-8", "replace")
    for reference, written in _GROWING:
        html = html.replace(reference, written)
    page: Page = html + _SENTINEL
    scan = _scan.plain
    if _scan.is_ready:
        scan, page = _scan, np.frombuffer(page, np.uint8)
    elif _is_plainly_harmless(html):
        return [html], ""
    else:
        _n_scanned += len(html)
    patience = _PATIENCE * len(html)
    end, n_tags, n_left, weight, link_weight, *_ = scan(page, 0, 0, MAX_TAGS, _ANY, patience)
    if (
        end == len(html)
        and n_tags * n_left <= _MANY_STEPS
        and n_tags * (weight + link_weight) <= _MUCH
    ):
        return [html], ""
    parts: list[bytes | str] = []
    cut = ""
    start = n_read = 0
    while start < len(html):
        if n_read >= MAX_TAGS:
            return parts, cut or "tags"
        hidden = _HIDDEN_HERE.match(html, start)
        shown = start if hidden is None else hidden.end()
        end, *_, patience, is_inside = scan(page, start, shown, _PIECE_TAGS, _PIECE_MUCH, patience)
        if is_inside or patience < 0:
            cut = "attributes"
        elif end < len(html):
            end = _boundary(html, max(start + 1, shown), end)
        parts.append(html[start:end])
        if patience < 0:
            break
        n_read += 1 + html.count(b"<", shown, end)
        start = end
    return parts, cut


_n_scanned = 0


def n_bytes_scanned() -> int:
    """Return how many bytes this process has scanned in Python: a second for each 12 MB."""
    return _n_scanned


def compile_scan() -> None:
    """Compile what `pieces` runs; until then it runs in Python, twenty times slower."""
    _scan(np.frombuffer(_SENTINEL, np.uint8), 0, 0, 0, 0, 0)


def _boundary(html: bytes, start: int, end: int) -> int:
    """Return where to end a piece, at `end` at most: before a block, outside hidden parts."""
    best = end
    for found in _BOUNDARY.finditer(html, start, end):
        if found[1] is None:
            if found.end() == end:
                best = found.start()
        elif found.start() > (start + end) // 2:
            best = found.start()
    return best


_FEW_TAGS, _FEW_ATTRIBUTES, _SHORT, _DEPTH = 9_000, 20, 500, 4
_PLAIN_ATTRIBUTE = (  # as `_ATTRIBUTE`, but without any `<`, and no quote is left open
    rb"[^></%b][^=></%b]*+[%b]*+"
    rb"""(?:=[%b]*+(?:"[^"<]*+"|'[^'<]*+'|(?!["'])[^><%b]*+)|(?!=))""" % ((_SPACE,) * 5)
)
_PLAIN_TAG = rb"[/%b]*+(?:%b[/%b]*+){0,%d}+>" % (_SPACE, _PLAIN_ATTRIBUTE, _SPACE, _FEW_ATTRIBUTES)
_ODD_TAG = re.compile(rb"<(?=/?[a-zA-Z])(?!/?[^></%b]++%b)" % (_SPACE, _PLAIN_TAG))
_LONG_LINK = re.compile(rb"%b[^<]{%d}" % (_opening("a"), _SHORT - 2))
_ROOT = re.compile(_opening("html body"))
_WEIGHTY = re.compile(_opening(f"{_FORMATTING_NAMES} html body") + _PLAIN_TAG)


def _closed(names: str) -> re.Pattern[bytes]:
    """Return a pattern of these elements that contain only text."""
    opening = _opening(names).replace(b"(?:", b"(", 1)
    return re.compile(rb"%b%b[^<]*+</\1[%b]*+>" % (opening, _PLAIN_TAG, _SPACE))


_CLOSED_FORMATTING = _closed(_FORMATTING_NAMES)
_CLOSED_WITHIN = _closed(_WITHIN_NAMES)


def _is_plainly_harmless(html: bytes) -> bool:
    """Return whether a few patterns show that, by `_scan`, a page is to be read whole.

    If no tag has a `<` inside or many attributes, it remains to bound the weight of formatting
    elements: those that contain only text, or also `_WITHIN` elements of only text, weigh nothing.
    """
    n_tags = html.count(b"<")
    if n_tags > _FEW_TAGS or _ODD_TAG.search(html) or _LONG_LINK.search(html):
        return False
    if _FEW_ATTRIBUTES * len(_ROOT.findall(html)) > MAX_ATTRIBUTES:
        return False
    link_weight = _OF_ELEMENT + _OF_ATTRIBUTE * _FEW_ATTRIBUTES + _SHORT
    for _ in range(_DEPTH):
        weighty = _WEIGHTY.findall(_CLOSED_FORMATTING.sub(b"", html))
        # An attribute takes at least two bytes of a tag.
        weight = sum(_OF_ELEMENT + (_OF_ATTRIBUTE // 2 + 1) * len(tag) for tag in weighty)
        if n_tags * (weight + link_weight) <= _MUCH:
            return True
        html = _CLOSED_WITHIN.sub(b"", html)
    return False


# What follows is called by `_scan`, compiled or in Python, where the page is `bytes`. The functions
# in Python that `njit` is given are the same by regular expressions, 20 times as fast.

_NAME = re.compile(rb"[^%s/>]*" % _SPACE).match
_ATTRIBUTE = rb"""[^>/%b][^=>/%b]*+[%b]*+(?:=[%b]*+(?:"[^"]*+"|'[^']*+'|[^>%b]*+))?+""" % (
    (_SPACE,) * 5
)
_ATTRIBUTES = re.compile(
    rb"[/%b]*+(?:%b[/%b]*+){0,%d}+" % (_SPACE, _ATTRIBUTE, _SPACE, MAX_ATTRIBUTES)
).match
_EACH_ATTRIBUTE = re.compile(_ATTRIBUTE)
_LOWER = bytes(byte | 32 for byte in range(256))


def _tag_end_by_pattern(page: bytes, at: int, size: int) -> tuple[int, int]:
    if page[at] == _GREATER and at < size:
        return at + 1, 0
    found: Any = _ATTRIBUTES(page, at)
    end = found.end()
    if end >= size:  # in the sentinel, which has no attributes
        every = _EACH_ATTRIBUTE.finditer(page, at, end)
        return size, sum(one.start() < size for one in every)
    n_attributes = len(_EACH_ATTRIBUTE.findall(page, at, end))
    return (end + 1, n_attributes) if page[end] == _GREATER else (end, n_attributes + 1)


@njit(cache=True, plain=_tag_end_by_pattern)
def _tag_end(page: Page, at: int, size: int) -> tuple[int, int]:
    """Return the end of a tag whose name ends at `at`, and its number of attributes.

    Beyond `MAX_ATTRIBUTES`, the end of that many, and one more.
    """
    n_attributes = 0
    while True:
        while _CLASS[page[at]] & (_IS_SPACE | _IS_SLASH):
            at += 1
        if at >= size:
            return size, n_attributes
        if page[at] == _GREATER:
            return at + 1, n_attributes
        n_attributes += 1
        if n_attributes > MAX_ATTRIBUTES:
            return at, n_attributes
        at += 1
        while _CLASS[page[at]] == 0:
            at += 1
        while _CLASS[page[at]] == _IS_SPACE:
            at += 1
        if page[at] == _EQUALS:
            at += 1
            while _CLASS[page[at]] == _IS_SPACE:
                at += 1
            quote = page[at]
            if quote in (_QUOTE, _APOSTROPHE):
                at += 1
                while page[at] != quote:
                    at += 1
                at += 1
            else:
                while not _CLASS[page[at]] & (_IS_SPACE | _IS_END):
                    at += 1


@njit(cache=True, plain=bytes.find)
def _find(page: Page, char: bytes, at: int) -> int:
    """Return where a character is next, which the page has."""
    while page[at] != char[0]:
        at += 1
    return at


def _name_by_pattern(page: bytes, at: int) -> tuple[int, int]:
    found: Any = _NAME(page, at)
    name: bytes = found[0]
    return found.end(), int.from_bytes(name[-8:].translate(_LOWER), "big")


@njit(cache=True, plain=_name_by_pattern)
def _name(page: Page, at: int) -> tuple[int, np.uint64]:
    """Return the end of the name of a tag, and its last eight letters packed into an integer."""
    key = np.uint64(0)
    while not _CLASS[page[at]] & _ENDS_NAME:
        key = (key << np.uint64(8)) | np.uint64(page[at] | 32)
        at += 1
    return at, key


@njit(cache=True, plain=lambda: ([0] * _MAX_OPEN, [()] * _MAX_OPEN))
def _no_elements() -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return room for the elements that are open: their names, and what was before each."""
    return np.empty(_MAX_OPEN, np.uint64), np.empty((_MAX_OPEN, 4), np.int64)


@njit(cache=True, plain=lambda keys, key: key in keys)
def _is_among(keys: Iterable[np.uint64], key: np.uint64) -> bool:
    found = False
    for one in keys:
        found |= one == key
    return found


def _is_same_by_pattern(page: bytes, one: int, other: int) -> bool:
    names: Any = _NAME(page, one), _NAME(page, other)
    return bool(names[0][0] == names[1][0])


@njit(cache=True, plain=_is_same_by_pattern)
def _is_same_name(page: Page, one: int, other: int) -> bool:
    """Return whether the tag names at two places are the same, byte for byte."""
    while page[one] == page[other] and not _CLASS[page[one]] & _ENDS_NAME:
        one += 1
        other += 1
    return bool(_CLASS[page[one]] & _ENDS_NAME and _CLASS[page[other]] & _ENDS_NAME)


@njit(cache=True)
def _scan(
    page: Page, start: int, shown: int, max_tags: int, max_weight: int, patience: int
) -> tuple[int, int, int, int, int, int, bool]:
    """Return how far a piece may extend, and statistics of its content.

    Returns the end; the number of `<` before it; how many elements may still be open there; the
    weight of the formatting elements except `a`, and of the heaviest `a`; the rest of the patience,
    in bytes of tags; and whether the end is inside the first tag. Before `shown` only the first tag
    counts. The page ends with the sentinel, which stops every loop.

    An element is closed for certain by its end tag if only text and elements closed in their turn
    are between its tags: in text no comment, script or attribute can begin, so that the parser sees
    the end tag if it saw the start tag. If besides all these elements are formatting elements or in
    `_WITHIN`, nothing that follows repeats it, so that it weighs nothing.
    """
    size = len(page) - len(_SENTINEL)
    n_tags = n_attributes = n_of_root = n_left = weight = link_weight = 0
    n_open = last_end = last_block = 0
    open_keys, before = _no_elements()
    at = start
    while True:
        at = _find(page, b"<", at)
        if at >= size:
            return size, n_tags, n_left, weight, link_weight, patience, False
        tag = at
        if n_tags == max_tags:
            return tag, n_tags, n_left, weight, link_weight, patience, False
        at += 1
        is_end_tag = page[at] == _SLASH
        at += is_end_tag
        new_left, new_weight, new_link_weight = n_left, weight, link_weight
        is_tag = _FIRST_LETTER <= (page[at] | 32) <= _LAST_LETTER
        if not is_tag or tag < last_end:
            n_open = 0
        if is_tag:
            name = at
            at, key = _name(page, at)
            # The attributes of end tags are compared as well.
            last_end, n_here = _tag_end(page, at, size)
            patience -= last_end - tag
            n_attributes += n_here
            if is_end_tag:
                n_open -= 1
                if n_open >= 0 and _is_same_name(page, before[n_open][0] + 1, name):
                    opened_at, new_left, weight_then, link_weight_then = before[n_open]
                    if last_block < opened_at:
                        new_weight, new_link_weight = weight_then, link_weight_then
                else:
                    n_open = 0
            elif _is_among(_VOID_KEYS, key):
                new_left += 1  # in SVG and MathML, some of them are not void
            else:
                is_formatting = key == _A or _is_among(_FORMATTING_KEYS, key)
                if not is_formatting and not _is_among(_WITHIN_KEYS, key):
                    last_block = tag
                # Formatting elements get room for `_DEPTH` elements inside.
                most_open = _MAX_OPEN - _DEPTH if is_formatting else _MAX_OPEN
                if n_open >= most_open or (is_formatting and _is_among(open_keys[:n_open], key)):
                    n_open = 0
                open_keys[n_open] = key
                before[n_open] = tag, n_left, weight, link_weight
                n_open += 1
                new_left += 1
                here = _OF_ELEMENT + _OF_ATTRIBUTE * n_here + (last_end - tag)
                if key == _A:
                    new_link_weight = max(link_weight, here)
                elif is_formatting:
                    new_weight = weight + here
                elif key in (_HTML, _BODY):
                    n_of_root += n_here
            if n_here > MAX_ATTRIBUTES and tag == start:
                return last_end, 1, new_left, new_weight, new_link_weight, patience, True
            if (
                n_here > MAX_ATTRIBUTES
                or patience < 0
                or (n_tags > 0 and n_of_root > MAX_ATTRIBUTES)
                or (n_tags > 0 and n_attributes > _MANY_ATTRIBUTES)
            ):
                return tag, n_tags, n_left, weight, link_weight, patience, False
        if n_tags > 0 and (n_tags + 1) * (new_weight + new_link_weight) > max_weight:
            return tag, n_tags, n_left, weight, link_weight, patience, False
        n_tags += 1
        n_left, weight, link_weight = new_left, new_weight, new_link_weight
        if tag == start and at < shown:
            at = shown
            n_open = 0
