"""Figures: the requested axes and numbers, colours by ordering, one legend for all panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from distributions import distribution_panel, fit_power_law, log_histogram
from measures import mean_and_spread

from crawlprio.errors import ConfigError
from crawlprio.show.figures import (
    DASHED,
    DOTTED,
    ORDERING_STYLES,
    SOLID,
    Panel,
    Series,
    figure_styles,
    number_text,
    plot_panels,
    reference_style,
)

RISING = [(1.0, 0.1), (10.0, 0.5), (1000.0, 0.9)]


def texts_of(svg: Path) -> list[str]:
    root = ElementTree.parse(svg).getroot()
    return [text for text in root.itertext() if text.strip() and "{" not in text]


def ids_of(svg: Path) -> list[str]:
    root = ElementTree.parse(svg).getroot()
    return [element.attrib["id"] for element in root.iter() if "id" in element.attrib]


def draw(path: Path, series: dict[str, Any] | None = None, **options: Any) -> list[str]:
    series = {"opic": RISING} if series is None else series
    plot_panels([Panel(series, "a small web", "N", "mean day", **options)], path)
    return texts_of(path) if path.suffix == ".svg" else []


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_lines_give_the_same_file(tmp_path: Path, suffix: str) -> None:
    panels = [Panel({"opic": RISING, "mine": RISING}, "a", "x", "y") for _ in range(3)]
    for name in ("a", "b"):
        plot_panels(panels, tmp_path / f"{name}{suffix}", title="three")
    first, second = ((tmp_path / f"{n}{suffix}").read_bytes() for n in "ab")
    assert first == second
    assert len(first) > 5000


def test_axes_are_linear_or_logarithmic_in_percent_or_numbers(tmp_path: Path) -> None:
    texts = draw(tmp_path / "a.svg", x_scale="log", y_percent=True)
    assert texts[texts.index("1") :][:4] == ["1", "10", "100", "1,000"]
    assert [t for t in texts if t.endswith("%")] == [f"{p} %" for p in (0, 20, 40, 60, 80, 100)]
    assert [t for t in texts if t in ("N", "mean day", "a small web")] == [
        "N",
        "mean day",
        "a small web",
    ]


@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [(10, 20, ["10", "15", "20"]), (3, 60, ["5", "10", "20", "50"]), (2, 900, ["10"])],
)
def test_a_short_logarithmic_axis_has_labels_within_its_decade(
    tmp_path: Path, first: int, last: int, labels: list[str]
) -> None:
    line = [(float(first), 1.0), (float(last), 2.0)]
    texts = draw(tmp_path / "a.svg", {"opic": line}, x_scale="log", y_limits=(90.0, 91.0))
    assert [text for text in texts if text in map(str, range(80))] == labels


def test_values_without_a_place_on_a_logarithmic_axis_are_left_out(tmp_path: Path) -> None:
    line = [(0.0, 0.5), (1.0, 0.0), (10.0, float("nan")), (100.0, 2.0), (1000.0, 3.0)]
    draw(tmp_path / "a.svg", {"opic": line}, x_scale="log", y_scale="log")
    with pytest.raises(ConfigError, match="there is nothing to plot in 'a small web'"):
        draw(tmp_path / "b.svg", {"opic": line[:3]}, x_scale="log", y_scale="log")


def test_the_legend_lists_series_in_order_and_then_references(tmp_path: Path) -> None:
    series = {"opic": RISING, "breadth-first": RISING, "random": RISING}
    references = {"ideal": RISING, "random": RISING}
    texts = draw(tmp_path / "a.svg", series, references=references)
    assert texts[-5:] == ["opic", "breadth-first", "random", "ideal", "random (reference)"]


def test_a_single_line_needs_no_legend(tmp_path: Path) -> None:
    assert "opic" not in draw(tmp_path / "a.svg")


def test_panels_share_one_legend(tmp_path: Path) -> None:
    panels = [
        Panel({"opic": RISING, "breadth-first": RISING}, "first", "x", "y"),
        Panel({"breadth-first": RISING, "mine": RISING}, "second", "x", "y"),
    ]
    plot_panels(panels, tmp_path / "a.svg", title="both")
    texts = texts_of(tmp_path / "a.svg")
    assert texts[-3:] == ["opic", "breadth-first", "mine"]
    assert [texts.count(t) for t in ("first", "second", "both", "opic", "breadth-first")] == [1] * 5


def test_panels_with_their_own_legends_list_what_they_show(tmp_path: Path) -> None:
    references = {"ideal": RISING}
    panels = [
        Panel({"one": RISING, "two": RISING}, "first", "x", "y", references=references),
        Panel({"three": RISING, "four": RISING}, "second", "x", "y", references=references),
    ]
    plot_panels(panels, tmp_path / "a.svg", own_legends=True)
    texts = texts_of(tmp_path / "a.svg")
    ends = [texts.index(title) for title in ("first", "second")]
    assert [t for t in texts[ends[0] :] if t in ("one", "two", "three", "four", "ideal")] == [
        "one", "two", "ideal", "three", "four", "ideal",
    ]  # fmt: skip
    plot_panels(panels[:1], tmp_path / "b.svg", own_legends=True)
    assert texts_of(tmp_path / "b.svg")[-3:] == ["one", "two", "ideal"]


def test_a_line_under_others_is_wider() -> None:
    widths = [width for *_, width in figure_styles([["a", "b", "c"]]).values()]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3


def test_ids_in_a_file_are_distinct_even_if_names_repeat(tmp_path: Path) -> None:
    series = {"opic": RISING, "random": Series(RISING, mark="bars")}
    panel = Panel(series, "a", "x", "y", references={"random": RISING})
    plot_panels([panel, panel], tmp_path / "a.svg")
    ids = ids_of(tmp_path / "a.svg")
    assert len(ids) == len(set(ids))
    assert {"opic (1)", "opic (2)", "reference (1): random"} <= set(ids)


def test_bands_points_bars_and_steps_are_drawn(tmp_path: Path) -> None:
    series = {
        "with band": Series(RISING, [0.0, 0.4, 0.8], [0.2, 0.6, 1.0]),
        "steps": Series(RISING, mark="steps"),
        "points": Series(RISING, mark="points"),
        "bars": Series(RISING, mark="bars"),
    }
    texts = draw(tmp_path / "a.svg", series)
    assert texts[-4:] == list(series)
    ids = ids_of(tmp_path / "a.svg")
    assert [name for name in series if name in ids] == ["with band", "steps", "points"]
    assert any("FillBetween" in i or "PolyCollection" in i for i in ids)


def test_an_ordering_keeps_its_colour_in_all_its_variants() -> None:
    names = ["opic", "opic, r = 64", "larger-sites-first, r = 1", "larger-sites-first, r = 64", "x"]
    styles = figure_styles([names])
    assert styles["opic"] == ORDERING_STYLES["opic"]
    assert styles["opic, r = 64"][0] == ORDERING_STYLES["opic"][0]
    assert styles["larger-sites-first, r = 1"] == ORDERING_STYLES["larger-sites-first"]
    looks = [(colour, str(line)) for colour, line, _ in styles.values()]
    assert len(set(looks)) == 5


def test_other_names_are_solid_and_differ_from_all_orderings() -> None:
    styles = figure_styles([["G = 3", "G = 10"]])
    assert [line for _, line, _ in styles.values()] == [SOLID, SOLID]
    styles = figure_styles([["breadth-first", "opic"], [f"G = {k}" for k in range(9)]])
    looks = [(colour, str(line)) for colour, line, _ in styles.values()]
    assert len(set(looks)) == 11
    assert styles["breadth-first"] == ORDERING_STYLES["breadth-first"]


def test_ideal_is_dashed_random_dotted_and_like_gives_the_colour() -> None:
    styles = figure_styles([["G = 3"]])
    assert reference_style("ideal", None, styles)[1] == DASHED
    assert reference_style("random, expected", None, styles)[1] == DOTTED
    assert reference_style("ideal, G = 3", "G = 3", styles)[:2] == (styles["G = 3"][0], DASHED)


def test_the_mean_of_runs_has_a_band_of_one_deviation_or_their_range() -> None:
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


def test_a_distribution_shows_its_law_in_its_colour(tmp_path: Path) -> None:
    counts = np.random.default_rng(1).zipf(2.2, 3000)
    law = fit_power_law(counts, minimum=1)
    panel = distribution_panel(
        {"backlinks": log_histogram(counts)},
        title="links", xlabel="backlinks", ylabel="pages", fits={"backlinks": law},
    )  # fmt: skip
    plot_panels([panel], tmp_path / "a.svg")
    assert texts_of(tmp_path / "a.svg")[-2:] == [
        "backlinks",
        f"backlinks: exponent {law.exponent:.2f} from 1 on",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (1.0, "1"), (0.05, "0.05"), (-2.5, "-2.5"), (12000.0, "12,000"),
        (1e5, "100,000"), (1e6, "10⁶"), (2.5e-6, "2.5\u00d710⁻⁶"), (0.001, "0.001"),
    ],
)  # fmt: skip
def test_numbers_are_formatted_for_people(value: float, text: str) -> None:
    assert number_text(value) == text


def test_what_cannot_be_drawn_is_refused_before_anything_is_written(tmp_path: Path) -> None:
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
