"""Cuts an HTML page on which a parser would need quadratic time or memory into pieces, or short.

It knows tags and sizes; it must not know links.
"""

from __future__ import annotations

import re

MAX_TAGS = 100_000
"""Tags of one page that are read, where its tags are so many that it is read in pieces."""

MAX_ATTRIBUTES = 1_000
"""Attributes of one tag; a page is cut where a tag has more."""

SMALL = 12_288
"""Bytes up to which a page is read whole: the parser needs half a second for it at most."""

_LONG = 65_536
_FEW_TAGS = 1_000
_MANY_TAGS = 10_000
_MANY_NODES = 1_000_000
_PIECE_TAGS = 500
_SHORT_PIECE_TAGS = 100
_SOME_FORMATTING = 50
_PATIENCE = 65_536

_SPACE = rb"\t\n\x0c\r "
_ATTRIBUTE = (
    rb"[%(space)s/]*+[^%(space)s/>][^%(space)s/>=]*+"
    rb"(?:[%(space)s]*+=[%(space)s]*+"
    rb"(?:\"[^\"]*+\"|'[^']*+'|[^\"'%(space)s>][^%(space)s>]*+|(?=>)))?+"
) % {b"space": _SPACE}
_SANE = re.compile(
    rb"(?:[^<]++|<(?![a-zA-Z])|<[a-zA-Z][^%(space)s/>]*+(?:%(attribute)s){0,%(most)d}+"
    rb"[%(space)s/]*+(?:>|\Z))*+"
    % {b"space": _SPACE, b"attribute": _ATTRIBUTE, b"most": MAX_ATTRIBUTES}
)


def _opening(names: str) -> re.Pattern[bytes]:
    """Return what finds these start tags, in any case; twice as fast as with re.IGNORECASE."""
    words = (
        "".join(f"[{char}{char.upper()}]" if char.isalpha() else char for char in name)
        for name in names.split()
    )
    return re.compile(b"<(?:%s)[%s/>]" % ("|".join(words).encode(), _SPACE))


_FORMATTING = _opening("b big code em font i nobr s small strike strong tt u")
_BLOCK = _opening("a dd div dt h1 h2 h3 h4 h5 h6 hr li ol p table td th tr ul")
_TO_PASS_OVER = ((b"<!--", b"-->"), (b"<script", b"</script"), (b"<style", b"</style"))


def pieces(html: bytes | str) -> tuple[list[bytes | str], str]:
    """Return a page in parts that a parser gets through fast, and why it was cut short, if it was.

    The parser compares each attribute with all others of its tag, walks up all open elements at
    many a tag, and repeats every unclosed formatting element (`b`, `font` and the like) in each
    block that follows, as the HTML standard has it: 25 kB of such a page became a tree of 1 GB in
    2.5 s. So a page is cut where a tag has more than `MAX_ATTRIBUTES` attributes (`attributes`);
    and a page of more than 10,000 tags, or whose tags times its formatting elements exceed a
    million, is read 500 tags at a time (100 where many of them format), and no further than
    `MAX_TAGS` (`tags`). Neither bound relies on how elements are closed, and so on no guess of what
    the parser makes of it.

    Returns
    -------
    parts : list
        The page itself, uncut, in nearly every case; else pieces that begin with a tag, outside
        scripts and comments where these end within 64 kB. An element that two pieces share ends
        with the first.
    cut : str
        `attributes`, `tags` or empty.

    Notes
    -----
    Cost: nothing up to 12 kB, then 0.7 ns a byte, and from 64 kB on a quarter of what the parser
    takes. Of 30,574 recorded pages of a university (64 kB at most) none was cut.
    """
    if len(html) <= SMALL:
        return [html], ""
    cut = ""
    if len(html) > _LONG:
        if isinstance(html, str):
            html = html.encode("utf-8", "replace")
        sane = _SANE.match(html)
        if sane is not None and sane.end() < len(html):
            html, cut = html[: sane.end()], "attributes"
    n_tags = html.count("<") if isinstance(html, str) else html.count(b"<")
    if n_tags <= _FEW_TAGS:
        return [html], cut
    if isinstance(html, str):
        html = html.encode("utf-8", "replace")
    if n_tags <= _MANY_TAGS:
        n_formatting = sum(1 for _ in _FORMATTING.finditer(html))
        if n_formatting * n_tags <= _MANY_NODES:
            return [html], cut
    parts: list[bytes | str] = []
    start = n_read = 0
    while start < len(html) and n_read < MAX_TAGS:
        n_tags = _PIECE_TAGS
        end = _piece_end(html, start, n_tags)
        if sum(1 for _ in _FORMATTING.finditer(html, start, end)) > _SOME_FORMATTING:
            n_tags = _SHORT_PIECE_TAGS
            end = _piece_end(html, start, n_tags)
        parts.append(html[start:end])
        n_read += n_tags
        start = end
    return parts, cut if start == len(html) else "tags"


def _piece_end(html: bytes, start: int, n_tags: int) -> int:
    """Return where the piece that begins at `start` ends: before a tag that opens something."""
    end = start
    for _ in range(n_tags):
        end = html.find(b"<", end + 1)
        if end < 0:
            return len(html)
    for opening, closing in _TO_PASS_OVER:
        if html.rfind(opening, start, end) > html.rfind(closing, start, end):
            closed = html.find(closing, end, end + _PATIENCE)
            end = html.find(b">", closed) + 1 if closed >= 0 else end
    better = _BLOCK.search(html, end, end + 4096)
    return end if better is None else better.start()
