"""Cho, Garcia-Molina & Page 1998: crawls on a topic, and the metrics that the paper only defines.

Graphs 6 and 7 are in `cho_topic`, similarity estimated while crawling in `cho_similarity`, and the
other metrics in `cho_metrics`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cho_metrics
import cho_similarity
import cho_topic
from report import Report
from topic_webs import QUERY, SHORT, UCI, topic_webs
from verdicts import RULE
from webs import uci


def run(shared: Path, output: Path, webs: Path) -> None:
    """Write the section."""
    report = Report(
        output, "cho_topics", "Cho, Garcia-Molina & Page 1998: topics and other metrics"
    )
    report.text(
        "Crawls as in [the first section on this paper](cho.md), but of webs whose pages are kept "
        "with their texts: one fetch at a time, without a clock, each from five seeds, to the end. "
        "The spread of a web is over its topics and starts. " + RULE
    )
    with tempfile.TemporaryDirectory() as folder:
        with_texts = list(topic_webs(shared, webs, Path(folder)))
        cho_topic.add(report, with_texts)
        for each in with_texts:
            if each.web.name == UCI:
                cho_metrics.on_text(report, each.web, each.path, each.words[0], each.kinds[SHORT])
                cho_similarity.add(report, each.web, each.path, QUERY, each.kinds[SHORT])
    if (shared / f"{UCI}.npz").exists():
        cho_metrics.add(report, uci(shared))
    report.write()
