"""Plots of crawl orders: file formats, stable styles, nothing hidden behind the legend."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from crawlprio.errors import ConfigError
from crawlprio.show.figures import ORDERING_STYLES, OTHER_STYLES, plot_cumulative, styles_of

CURVES = {
    "breadth-first": [(0.0, 0.0), (0.5, 0.6), (1.0, 1.0)],
    "opic": [(0.0, 0.0), (0.5, 0.8), (1.0, 1.0)],
}


def texts_of(svg: Path) -> list[str]:
    """Return the texts of an SVG file, in drawing order."""
    from xml.etree import ElementTree

    root = ElementTree.parse(svg).getroot()
    texts = [text.removeprefix("\u200b") for text in root.itertext()]
    return [text for text in texts if text.strip() and "{" not in text]


def draw(path: Path, curves: dict[str, list[tuple[float, float]]] | None = None) -> None:
    plot_cumulative(CURVES if curves is None else curves, path, title="a small web")


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"")],
)
def test_the_file_name_determines_the_format(tmp_path: Path, suffix: str, magic: bytes) -> None:
    path = tmp_path / f"plot{suffix}"
    draw(path)
    assert path.read_bytes().startswith(magic)
    assert path.stat().st_size > 5000


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_curves_give_the_same_file(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        draw(tmp_path / f"{name}{suffix}")
    first, second = (zlib.crc32((tmp_path / f"{n}{suffix}").read_bytes()) for n in "ab")
    assert first == second


def test_the_legend_names_the_curves_from_the_top_down(tmp_path: Path) -> None:
    draw(tmp_path / "plot.svg")
    texts = texts_of(tmp_path / "plot.svg")
    assert texts[-3:] == ["opic", "breadth-first", "diagonal"]
    assert "a small web" in texts
    assert "share of pages fetched" in texts
    assert "share of all PageRank" in texts


def test_axes_are_in_percent_of_the_longest_curve(tmp_path: Path) -> None:
    draw(tmp_path / "whole.svg")
    assert [t for t in texts_of(tmp_path / "whole.svg") if t.endswith("%")] == [
        f"{p} %" for p in (0, 20, 40, 60, 80, 100)
    ] * 2
    draw(tmp_path / "part.svg", {"opic": [(0.0, 0.0), (0.01, 0.25)]})
    ticks = [t for t in texts_of(tmp_path / "part.svg") if t.endswith("%")]
    assert ticks[:6] == ["0 %", "0.2 %", "0.4 %", "0.6 %", "0.8 %", "1 %"]
    assert ticks[-1] in ("25 %", "20 %")


def test_names_are_drawn_as_given(tmp_path: Path) -> None:
    draw(tmp_path / "plot.svg", {"my_pkg.Own$order$": CURVES["opic"], "_x": CURVES["opic"]})
    texts = texts_of(tmp_path / "plot.svg")
    assert texts[-3:] == ["my_pkg.Own$order$", "_x", "diagonal"]


def test_each_ordering_looks_different_from_all_others() -> None:
    looks = [(colour, str(line)) for colour, line, _ in ORDERING_STYLES.values()]
    looks += [(colour, str(line)) for colour, line, _ in OTHER_STYLES]
    assert len(looks) == len(set(looks))


def test_a_known_ordering_keeps_its_style_in_any_company() -> None:
    alone = styles_of(["opic"])["opic"]
    together = styles_of(["mine.A", "opic", "mine.B"])
    assert together["opic"] == alone
    assert (together["mine.A"], together["mine.B"]) == OTHER_STYLES[:2]
    many = styles_of([f"mine.{k}" for k in range(10)])
    assert many["mine.7"] == OTHER_STYLES[1]


def test_a_name_that_is_not_a_plot_file_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match=r"its name must end in \.png, \.svg or \.pdf"):
        draw(tmp_path / "plot.jpg")
    assert list(tmp_path.iterdir()) == []


def test_a_plot_that_is_empty_or_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plot\.png cannot be written: No such file"):
        draw(tmp_path / "none" / "plot.png")
    with pytest.raises(ConfigError, match="there is no curve to plot"):
        draw(tmp_path / "plot.png", {"opic": []})
