"""Cho, Garcia-Molina & Page 1998: crawls on a topic, and the metrics that the paper only defines.

Graphs 6 and 7 are in `cho_topic`, similarity estimated while crawling in `cho_similarity`, and the
other metrics in `cho_metrics`.
"""

from __future__ import annotations

from pathlib import Path

import cho_metrics
import cho_topic
from report import Report
from verdicts import RULE
from webs import uci


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    report = Report(
        output, "cho_topics", "Cho, Garcia-Molina & Page 1998: topics and other metrics"
    )
    report.text(
        "Crawls as in [the first section on this paper](cho.md), but only of uci-ics, whose "
        "pages were recorded: one fetch at a time, without a clock, each from three seeds, to "
        "the end. " + RULE
    )
    cho_topic.add(report, shared)
    cho_metrics.add(report, uci(shared))
    report.write()
