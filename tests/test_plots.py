"""Plots of crawl orders: file formats, stable styles, nothing hidden behind the legend."""

import pytest

from crawlprio.errors import ConfigError
from crawlprio.show.figures import plot_cumulative

CURVES = {
    "breadth-first": [(0.0, 0.0), (0.5, 0.6), (1.0, 1.0)],
    "opic": [(0.0, 0.0), (0.5, 0.8), (1.0, 1.0)],
}


def texts_of(svg):
    """Return the texts of an SVG file, in drawing order."""
    from xml.etree import ElementTree

    root = ElementTree.parse(svg).getroot()
    texts = [text.removeprefix("\u200b") for text in root.itertext()]
    return [text for text in texts if text.strip() and "{" not in text]


def draw(path, curves=None):
    plot_cumulative(CURVES if curves is None else curves, path, title="a small web")


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"")],
)
def test_the_file_name_determines_the_format(tmp_path, suffix, magic):
    path = tmp_path / f"plot{suffix}"
    draw(path)
    assert path.read_bytes().startswith(magic)
    assert path.stat().st_size > 5000


def test_the_legend_names_the_curves_from_the_top_down(tmp_path):
    draw(tmp_path / "plot.svg")
    texts = texts_of(tmp_path / "plot.svg")
    assert texts[-3:] == ["opic", "breadth-first", "random, expected"]
    assert "a small web" in texts
    assert "share of pages fetched" in texts
    assert "share of all PageRank" in texts


def test_axes_are_in_percent_of_the_longest_curve(tmp_path):
    draw(tmp_path / "whole.svg")
    assert [t for t in texts_of(tmp_path / "whole.svg") if t.endswith("%")] == [
        f"{p} %" for p in (0, 20, 40, 60, 80, 100)
    ] * 2
    draw(tmp_path / "part.svg", {"opic": [(0.0, 0.0), (0.01, 0.25)]})
    ticks = [t for t in texts_of(tmp_path / "part.svg") if t.endswith("%")]
    assert ticks[:6] == ["0 %", "0.2 %", "0.4 %", "0.6 %", "0.8 %", "1 %"]
    assert ticks[-1] in ("25 %", "20 %")


def test_a_plot_that_is_empty_or_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(ConfigError, match=r"plot\.png cannot be written: No such file"):
        draw(tmp_path / "none" / "plot.png")
    with pytest.raises(ConfigError, match="there is no curve to plot"):
        draw(tmp_path / "plot.png", {"opic": []})
