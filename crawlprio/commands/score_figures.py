"""The options of `crawlprio score` that ask for figures of an order: models, days, tops."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from crawlprio.commands.arguments import checked_option
from crawlprio.errors import ConfigError
from crawlprio.setting_table.kinds import Number, Whole

if TYPE_CHECKING:
    from crawlprio.importance.order_figures import AskedFigures


def add_figure_options(group: argparse._ArgumentGroup) -> None:
    """Add the options to those of the command."""
    group.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help="report the order under a model of Cho et al.: crawl-stop (the share of pages "
        "fetched that are hot), threshold (the share of hot pages that are fetched) or buffer "
        "(the share of a buffer that is hot at the end); may be repeated",
    )
    group.add_argument(
        "--threshold",
        metavar="G",
        help="importance from which a page is hot under the model threshold; default: that of "
        "the top 1 %% of the pages",
    )
    group.add_argument(
        "--by-day",
        metavar="N",
        help="report the mean importance of the pages fetched in each of N stretches with "
        "equally many fetches (Najork & Wiener: 58 days)",
    )
    group.add_argument(
        "--top",
        metavar="N[,N...]",
        help="report when the N most important pages were fetched on average, as a share of "
        "all fetches",
    )


def asked_figures(opts: argparse.Namespace) -> AskedFigures:
    """Return the figures that the options request.

    Raises
    ------
    ConfigError
        if a model is unknown or a number is invalid.
    """
    from crawlprio.importance.order_figures import MODELS, AskedFigures

    models = tuple(dict.fromkeys(opts.model or ()))
    for name in models:
        if name not in MODELS:
            raise ConfigError(f"--model is {name!r}; known models: {', '.join(MODELS)}.")
    if opts.threshold is not None and "threshold" not in models:
        raise ConfigError(
            f"--threshold is {opts.threshold}, but no model uses it; add --model threshold."
        )
    tops = () if opts.top is None else opts.top.split(",")
    return AskedFigures(
        models,
        checked_option("--threshold", Number(), opts.threshold),
        checked_option("--by-day", Whole(1), opts.by_day) or 0,
        tuple(sorted({checked_option("--top", Whole(1), n) for n in tops})),
    )
