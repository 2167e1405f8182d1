"""Draws the figures of the reproduction from what is recorded of them: their lines and their axes.

    python experiments/drawing.py [docs/reproduction] [NAME...]

`NAME.csv` has the lines of a figure, and `figures.jsonl` its axes. An experiment records both, and
its picture is drawn from them; so they can all be drawn again without another crawl.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.special import zeta

from crawlprio.graph.arrays import Floats
from crawlprio.plugins.papers.distributions import LogHistogram, PowerLaw
from crawlprio.show.figures import Panel, Points, Series, plot_panels

COLOURS = 256
"""Of the palette of a picture."""
POINTS = 51
"""Most points of a line that are recorded."""
AXES = "figures.jsonl"
LINES = ("series", "references")

Figure = dict[str, Any]


def record(
    folder: Path,
    name: str,
    panels: Sequence[Panel],
    *,
    title: str = "",
    columns: int = 2,
    own_legends: bool = False,
    shown: Sequence[str] = (),
    lines: Sequence[str] = (),
) -> None:
    """Record a figure under its name, with at most `POINTS` points of each line, and draw it.

    `shown`, `lines`: titles of the panels and names of the lines to draw; all if there are none.
    """
    shown = [panel.title for panel in panels if panel.title in shown]
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("panel", "series", "x", "y", "low", "high"))
        for panel in panels:
            for label, line in _lines(panel):
                columns_of = np.asarray(line.points, dtype=np.float64).reshape(-1, 2).T
                band = () if line.low is None else (line.low, line.high)
                places = np.unique(np.linspace(0, columns_of.shape[1] - 1, POINTS).astype(int))
                for row in np.array([*columns_of, *band])[:, places].T.tolist():
                    writer.writerow((panel.title, label, *(f"{x:.5g}" for x in row)))
    kept = _axes(folder)
    kept[name] = {
        "title": title,
        "columns": columns,
        "own_legends": own_legends,
        **({"shown": shown} if shown else {}),
        **({"lines": list(lines)} if lines else {}),
        "panels": [_axes_of(panel) for panel in panels],
    }
    write_axes(folder, kept)
    draw(folder, name)


def draw(folder: Path, name: str) -> None:
    """Draw a recorded figure into `NAME.png`."""
    figure, path = _axes(folder)[name], folder / f"{name}.png"
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    groups = groupby(rows, key=lambda row: (row["panel"], row["series"]))
    recorded = iter([list(group) for _, group in groups])
    panels = []
    for axes in figure["panels"]:
        read = {
            kind: {label: _line(next(recorded), look) for label, look in axes.get(kind, {}).items()}
            for kind in LINES
        }
        if "lines" in figure:
            read["series"] = {n: read["series"][n] for n in figure["lines"] if n in read["series"]}
        if axes["title"] in figure.get("shown", [axes["title"]]):
            panels.append(Panel(**{**axes, **read}))
    options = {key: figure[key] for key in ("title", "columns", "own_legends")}
    plot_panels(panels, path, **options)
    _reduce_colours(path)


def write_axes(folder: Path, figures: Mapping[str, Figure]) -> None:
    """Write the axes of all figures of a folder, a figure a line."""
    lines = (
        json.dumps({"figure": name, **figure}, ensure_ascii=False)
        for name, figure in sorted(figures.items())
    )
    (folder / AXES).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _axes(folder: Path) -> dict[str, Figure]:
    """Return what is recorded of the axes of all figures of a folder."""
    path = folder / AXES
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    figures = map(json.loads, lines)
    return {figure.pop("figure"): figure for figure in figures}


def _axes_of(panel: Panel) -> dict[str, Any]:
    """Return all of a panel but the points of its lines and what is as usual."""
    axes = {
        field.name: getattr(panel, field.name)
        for field in fields(Panel)
        if field.name not in LINES and getattr(panel, field.name) != field.default
    }
    looks = {"mark": "line", "like": None}
    for kind in LINES:
        axes[kind] = {
            label: {
                look: getattr(line, look) for look in looks if getattr(line, look) != looks[look]
            }
            for label, line in _named(getattr(panel, kind))
        }
    return axes


def _lines(panel: Panel) -> list[tuple[str, Series]]:
    return [*_named(panel.series), *_named(panel.references)]


def _named(lines: Mapping[str, Points | Series]) -> list[tuple[str, Series]]:
    """Return the lines that have any points, with their names."""
    made = {n: line if isinstance(line, Series) else Series(line) for n, line in lines.items()}
    return [(name, line) for name, line in made.items() if len(line.points)]


def _line(rows: Sequence[Mapping[str, str]], look: Mapping[str, Any]) -> Series:
    """Return a line from its rows."""
    points = [(float(row["x"]), float(row["y"])) for row in rows]
    if not rows[0]["low"]:
        return Series(points, **look)
    low, high = ([float(row[edge]) for row in rows] for edge in ("low", "high"))
    return Series(points, low, high, **look)


def distribution_panel(
    histograms: Mapping[str, LogHistogram],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    fits: Mapping[str, PowerLaw] | None = None,
) -> Panel:
    """Return a panel of histograms as points on logarithmic axes, with lines for fitted laws.

    The height of a point is its `per_count`. `title`, `xlabel`, `ylabel`: as for `Panel`. `fits`:
    fitted laws by name of the histogram; the legend shows their exponents.
    """
    references = {}
    for name, law in (fits or {}).items():
        ends = np.array([law.minimum, histograms[name].last[-1]], dtype=np.float64)
        expected = law.n_tail / zeta(law.exponent, law.minimum) * ends**-law.exponent
        label = f"{name}: exponent {law.exponent:.2f} from {law.minimum} on"
        references[label] = Series(_points(ends, expected), like=name)
    return Panel(
        {
            name: Series(_points(found.centre, found.per_count), mark="points")
            for name, found in histograms.items()
        },
        title, xlabel, ylabel, "log", "log", references=references,
    )  # fmt: skip


def _points(x: Floats, y: Floats) -> list[tuple[float, float]]:
    return list(zip(x.tolist(), y.tolist(), strict=True))


def _reduce_colours(path: Path) -> None:
    """Write a PNG again with a palette, which takes a third of the room and looks the same."""
    with Image.open(path) as picture:
        drawn = picture.convert("RGB")
    rare_too = Image.Quantize.FASTOCTREE  # otherwise a line in few panels takes another's colour
    few = drawn.quantize(COLOURS, method=rare_too, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main() -> None:
    """Draw the named figures of a folder, or all."""
    folder, *names = sys.argv[1:] or ["docs/reproduction"]
    for name in names or _axes(Path(folder)):
        draw(Path(folder), name)


if __name__ == "__main__":
    main()
