"""Figures: the requested axes and numbers, colours by ordering, one legend for all panels."""

from xml.etree import ElementTree

import numpy as np
import pytest
from measures import mean_and_spread

from crawlprio.errors import ConfigError
from crawlprio.show.figures import (
    ORDERING_STYLES,
    Panel,
    figure_styles,
    number_text,
    plot_cumulative,
    plot_panels,
)

RISING = [(1.0, 0.1), (10.0, 0.5), (1000.0, 0.9)]


def texts_of(svg):
    """Return the texts of an SVG file, in drawing order."""
    root = ElementTree.parse(svg).getroot()
    texts = [text.removeprefix("\u200b") for text in root.itertext()]
    return [text for text in texts if text.strip() and "{" not in text]


def draw(path, series=None, **options):
    series = {"opic": RISING} if series is None else series
    plot_panels([Panel(series, "a small web", "N", "mean day", **options)], path)
    return texts_of(path) if path.suffix == ".svg" else []


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_lines_give_the_same_file(tmp_path, suffix):
    panels = [Panel({"opic": RISING, "mine": RISING}, "a", "x", "y") for _ in range(3)]
    for name in ("a", "b"):
        plot_panels(panels, tmp_path / f"{name}{suffix}", title="three")
    first, second = ((tmp_path / f"{n}{suffix}").read_bytes() for n in "ab")
    assert first == second
    assert len(first) > 5000


def test_axes_are_linear_or_logarithmic_in_percent_or_numbers(tmp_path):
    texts = draw(tmp_path / "a.svg", x_scale="log", y_percent=True)
    assert texts[texts.index("1") :][:4] == ["1", "10", "100", "1,000"]
    assert [t for t in texts if t.endswith("%")] == [f"{p} %" for p in (0, 20, 40, 60, 80, 100)]
    assert [t for t in texts if t in ("N", "mean day", "a small web")] == [
        "N",
        "mean day",
        "a small web",
    ]


def test_values_without_a_place_on_a_logarithmic_axis_are_left_out(tmp_path):
    line = [(0.0, 0.5), (1.0, 0.0), (10.0, float("nan")), (100.0, 2.0), (1000.0, 3.0)]
    draw(tmp_path / "a.svg", {"opic": line}, x_scale="log", y_scale="log")
    with pytest.raises(ConfigError, match="there is nothing to plot in 'a small web'"):
        draw(tmp_path / "b.svg", {"opic": line[:3]}, x_scale="log", y_scale="log")


def test_an_ordering_keeps_its_colour_in_all_its_variants():
    names = ["opic", "opic, r = 64", "larger-sites-first, r = 1", "larger-sites-first, r = 64", "x"]
    styles = figure_styles([names])
    assert styles["opic"] == ORDERING_STYLES["opic"]
    assert styles["opic, r = 64"][0] == ORDERING_STYLES["opic"][0]
    assert styles["larger-sites-first, r = 1"] == ORDERING_STYLES["larger-sites-first"]
    looks = [(colour, str(line)) for colour, line, _ in styles.values()]
    assert len(set(looks)) == 5


def test_the_mean_of_runs_has_a_band_of_one_deviation_or_their_range():
    runs = [[(0.0, 0.0), (1.0, 1.0)], [(0.0, 0.0), (0.5, 1.0), (2.0, 1.0)]]
    found = mean_and_spread(runs, points=3)
    assert np.asarray(found.points).tolist() == [[0.0, 0.0], [0.5, 0.75], [1.0, 1.0]]
    assert found.low is not None
    assert found.high is not None
    assert np.asarray(found.high)[1] - 0.75 == pytest.approx(0.25 * 2**0.5)
    found = mean_and_spread(runs, points=3, spread="range")
    assert (np.asarray(found.low).tolist(), np.asarray(found.high).tolist()) == (
        [0.0, 0.5, 1.0],
        [0.0, 1.0, 1.0],
    )
    alone = mean_and_spread(runs[:1], points=3)
    assert np.asarray(alone.low).tolist() == np.asarray(alone.points)[:, 1].tolist()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (1.0, "1"), (0.05, "0.05"), (-2.5, "-2.5"), (12000.0, "12,000"),
        (1e5, "100,000"), (1e6, "10⁶"), (2.5e-6, "2.5\u00d710⁻⁶"), (0.001, "0.001"),
    ],
)  # fmt: skip
def test_numbers_are_formatted_for_people(value, text):
    assert number_text(value) == text


def test_what_cannot_be_drawn_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"its name must end in \.png, \.svg or \.pdf"):
        draw(tmp_path / "a.jpg")
    with pytest.raises(ConfigError, match="there is no panel to plot"):
        plot_panels([], tmp_path / "a.svg")
    with pytest.raises(ConfigError, match="there is nothing to plot in 'a small web'"):
        draw(tmp_path / "a.svg", {})
    with pytest.raises(ConfigError, match="columns is 0"):
        plot_panels([Panel({"a": RISING}, "", "", "")], tmp_path / "a.svg", columns=0)
    with pytest.raises(ConfigError, match=r"a\.svg cannot be written: No such file"):
        draw(tmp_path / "none" / "a.svg")
    with pytest.raises(ConfigError, match="a mean needs at least one line"):
        mean_and_spread([])
    assert list(tmp_path.iterdir()) == []


CURVES = {
    "breadth-first": [(0.0, 0.0), (0.5, 0.6), (1.0, 1.0)],
    "opic": [(0.0, 0.0), (0.5, 0.8), (1.0, 1.0)],
}


def draw_curves(path, curves=None):
    plot_cumulative(CURVES if curves is None else curves, path, title="a small web")


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"")],
)
def test_the_file_name_determines_the_format(tmp_path, suffix, magic):
    path = tmp_path / f"plot{suffix}"
    draw_curves(path)
    assert path.read_bytes().startswith(magic)
    assert path.stat().st_size > 5000


def test_the_legend_names_the_curves_from_the_top_down(tmp_path):
    draw_curves(tmp_path / "plot.svg")
    texts = texts_of(tmp_path / "plot.svg")
    assert texts[-3:] == ["opic", "breadth-first", "random, expected"]
    assert "a small web" in texts
    assert "share of pages fetched" in texts
    assert "share of the PageRank of all pages" in texts


def test_axes_are_in_percent_of_the_longest_curve(tmp_path):
    draw_curves(tmp_path / "whole.svg")
    assert [t for t in texts_of(tmp_path / "whole.svg") if t.endswith("%")] == [
        f"{p} %" for p in (0, 20, 40, 60, 80, 100)
    ] * 2
    draw_curves(tmp_path / "part.svg", {"opic": [(0.0, 0.0), (0.01, 0.25)]})
    ticks = [t for t in texts_of(tmp_path / "part.svg") if t.endswith("%")]
    assert ticks[:6] == ["0 %", "0.2 %", "0.4 %", "0.6 %", "0.8 %", "1 %"]
    assert ticks[-1] in ("25 %", "20 %")


def test_a_plot_that_is_empty_or_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(ConfigError, match=r"plot\.png cannot be written: No such file"):
        draw_curves(tmp_path / "none" / "plot.png")
    with pytest.raises(ConfigError, match="there is no curve to plot"):
        draw_curves(tmp_path / "plot.png", {"opic": []})
