"""Styles and files of plots; an ordering has the same colour and line style in every plot.

matplotlib is imported when the first plot is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from crawlprio.errors import ConfigError
from crawlprio.outside.opening import open_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = tuple[str, Any, float]
"""Colour, line style in matplotlib's notation, line width in points."""

BLUE, SKY, GREEN, VERMILION = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
PURPLE, ORANGE, BLACK, GREY = "#B0508C", "#E69F00", "#1A1A1A", "#8C8C8C"
WINE = "#7A1230"
SOLID, DASHED, DOTTED, DASH_DOT = "-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.6, 1.2, 1.6))

ORDERING_STYLES: dict[str, Style] = {
    "omniscient": (BLACK, SOLID, 2.0),
    "sibling-sampling": (WINE, SOLID, 2.4),
    "scout": (WINE, DASHED, 2.0),
    "opic": (VERMILION, SOLID, 2.4),
    "pagerank": (PURPLE, SOLID, 2.0),
    "batch-pagerank": (PURPLE, DASHED, 2.0),
    "partial-pagerank": (PURPLE, DASH_DOT, 2.0),
    "historical-pagerank": (PURPLE, DOTTED, 2.2),
    "backlink-count": (GREEN, SOLID, 2.0),
    "breadth-first": (BLUE, SOLID, 2.0),
    "depth-first": (BLUE, DASHED, 2.0),
    "larger-sites-first": (ORANGE, SOLID, 2.0),
    "location": (ORANGE, DASHED, 2.0),
    "anchor-similarity": (SKY, SOLID, 2.0),
    "combined": (SKY, DASHED, 2.0),
    "fica": (GREEN, DASHED, 2.0),
    "rankmass": (GREEN, DASH_DOT, 2.0),
    "random": (GREY, SOLID, 2.0),
    "upper-bound": (BLACK, DASHED, 1.4),
    "diagonal": (GREY, DOTTED, 1.4),
}
"""Styles by ordering name, one colour per family. The colours are those of Okabe and Ito (Color
universal design, 2008), which people with common forms of colour blindness can distinguish."""

FOREMOST = ("sibling-sampling", "opic")
"""Orderings that are drawn on top of the others."""

OTHER_STYLES: tuple[Style, ...] = (
    (SKY, DASH_DOT, 2.0),
    (ORANGE, DASH_DOT, 2.0),
    (BLUE, DASH_DOT, 2.0),
    (SKY, DOTTED, 2.2),
    (ORANGE, DOTTED, 2.2),
    (GREEN, DOTTED, 2.2),
)
"""Styles for user-defined orderings, in turn."""

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150


class Drawing:
    """A plot, drawn when it is saved or when a notebook shows it.

    `draw`: draws it into a file in the format of its suffix, and raises `ConfigError` if it cannot.
    """

    def __init__(self, draw: Callable[[Path], None]) -> None:
        self.save = draw

    def svg(self) -> str:
        """Return the plot as an SVG document."""
        with TemporaryDirectory() as folder:
            file = Path(folder, "plot.svg")
            self.save(file)
            return file.read_text("utf-8")

    _repr_svg_ = svg


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure, size in inches, with settings that make the output reproducible."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.hashsalt": "crawlprio",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "text.parse_math": False,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the file's suffix, without a timestamp."""
    kind = path.suffix[1:].lower()
    stamp = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}[kind]
    try:
        with open_file(path, "wb") as file:
            figure.savefig(file, format=kind, metadata={stamp: None})
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error


def check_plot_path(path: str | Path) -> None:
    """Raise `ConfigError` for an unsupported suffix; call it before the work to be plotted."""
    if Path(path).suffix.lower() not in PLOT_SUFFIXES:
        raise ConfigError(f"{path} is not a plot file; its name must end in .png, .svg or .pdf.")


def styles_of(names: Sequence[str]) -> dict[str, Style]:
    """Return the style of each name: its own, or the next one for other orderings."""
    others = [name for name in names if name not in ORDERING_STYLES]
    spare = {name: OTHER_STYLES[k % len(OTHER_STYLES)] for k, name in enumerate(others)}
    return {name: ORDERING_STYLES.get(name) or spare[name] for name in names}


def frame(axes: Axes, title: str, xlabel: str, ylabel: str, size: float = 13.0) -> None:
    """Label the axes and draw a light grid; `size` is the font size of the title in points."""
    axes.set_title(title, loc="left", fontsize=size, fontweight="bold", pad=12)
    axes.set_xlabel(xlabel, fontsize=size - 1, labelpad=7)
    axes.set_ylabel(ylabel, fontsize=size - 1, labelpad=7)
    axes.tick_params(labelsize=size - 2, length=0, pad=6)
    axes.grid(color="#E3E3E3", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#9A9A9A")
