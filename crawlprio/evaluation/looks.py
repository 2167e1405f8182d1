"""Styles of lines in figures; an ordering has the same colour in every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlprio.evaluation.plots import (
    BLACK,
    BLUE,
    DASH_DOT,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    ORDERING_STYLES,
    PURPLE,
    SKY,
    SOLID,
    VERMILION,
    Style,
    styles_of,
)

PLAIN_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
LINE_STYLES = (SOLID, DASHED, DASH_DOT, DOTTED)
THIN, WIDEST = 1.4, 3.4


def ordering_of(name: str) -> str | None:
    """Return the ordering that a name begins with, if any: `"opic, r = 64"` belongs to opic."""
    first = name.split(",")[0].split(" (")[0].strip()
    return first if first in ORDERING_STYLES else None


def figure_styles(panels: Sequence[Sequence[str]]) -> dict[str, Style]:
    """Return the style of each name of a figure, given the names in each of its panels.

    An ordering has its own style. Followed by a comma or parenthesis and more, it keeps the colour,
    and its variants differ by line style. Other names get solid lines in all colours in turn,
    except in panels with orderings, where `styles_of` applies.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel))
    beside = {name for panel in panels if any(map(ordering_of, panel)) for name in panel}
    styles = styles_of([n for n in names if n in beside and ordering_of(n) in (None, n)])
    used = {(colour, str(line)) for colour, line, _ in styles.values()}
    for name in names:
        ordering = ordering_of(name)
        if name in styles or ordering is None:
            continue
        colour, line, width = ORDERING_STYLES[ordering]
        free = [s for s in (line, *LINE_STYLES) if (colour, str(s)) not in used]
        chosen = free[0] if free else line
        used.add((colour, str(chosen)))
        styles[name] = (colour, chosen, width)
    plain = [(c, s) for s in LINE_STYLES for c in PLAIN_COLOURS if (c, str(s)) not in used]
    others = [name for name in names if name not in styles]
    for k, name in enumerate(others):
        beside_it = next(panel for panel in panels if name in panel)
        n_above = len(beside_it) - 1 - list(beside_it).index(name)
        # Lower lines are wider, so that a line covered by others shows on both sides of them.
        styles[name] = (*plain[k % len(plain)], min(2.0 + 0.35 * n_above, WIDEST))
    return {name: styles[name] for name in names}


def reference_style(name: str, like: str | None, styles: Mapping[str, Style]) -> Style:
    """Return a thin style: ideal dashed, random dotted, others dash-dotted; `like` colours it."""
    kind = name.split(",")[0].split(":")[0].strip()
    known = {"ideal": ORDERING_STYLES["upper-bound"], "random": ORDERING_STYLES["diagonal"]}
    known["diagonal"] = known["random"]
    colour, line, _ = known.get(kind, (GREY, DASHED if like else DASH_DOT, THIN))
    if like is not None and like in styles:
        colour = styles[like][0]
    return colour, line, THIN
