"""The report of a reproduction: figures, tables and findings, written as Markdown as they come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import drawing
from verdicts import Case, by_web, in_words, judge

from crawlprio.show.figures import Panel

Cell = str | int | float | None


@dataclass
class Report:
    """One section of the report: `NAME.md` with its figures beside it, and `NAME.json`.

    `folder`: where the files go; it is made if it is not there. `name`: short name of the section,
    which all its files begin with. `title`: its heading.
    """

    folder: Path
    name: str
    title: str
    _lines: list[str] = field(default_factory=list, init=False)
    _figures: dict[str, Any] = field(default_factory=dict, init=False)
    _findings: list[dict[str, Any]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def heading(self, text: str) -> None:
        """Begin a part."""
        self._lines += [f"### {text}", ""]

    def text(self, text: str) -> None:
        """Write a paragraph."""
        self._lines += [text, ""]

    def figure(self, name: str, panels: Sequence[Panel], caption: str, **looks: Any) -> None:
        """Draw panels into `SECTION-NAME.png` and show them with a caption.

        The caption says what the paper's figure shows, and the choices that decide this one.
        `looks` are those of `drawing.record`, which can draw the figure again.
        """
        picture = f"{self.name}-{name}"
        drawing.record(self.folder, picture, panels, **looks)
        self._lines += [f"![{caption}]({picture}.png)", "", f"*{caption}*", ""]

    def table(
        self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str
    ) -> None:
        """Write a table; floats with four significant digits. Its rows go into the JSON too."""
        self._lines += [f"*{caption}*", ""]
        self._lines.append("| " + " | ".join(columns) + " |")
        self._lines.append("|" + "---|" * len(columns))
        self._lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
        self._lines.append("")
        self._figures[name] = {"columns": list(columns), "rows": [list(row) for row in rows]}

    def finding(
        self,
        claim: str,
        measured: str,
        cases: Sequence[Case],
        rule: str,
        *,
        why: str = "",
        picture: str = "",
        name: str = "",
    ) -> None:
        """Hold a claim of the paper against what was measured.

        `claim`: what the paper says, with its figure or table. `measured`: what came out here, in
        numbers. `cases`: the crawls that it was tested in; those of one web are put together.
        `rule`: when it holds in a case. `why`: what explains the outcome. `picture`: name of the
        figure of this section that shows it. `name`: by which the summary refers to it.
        """
        webs = by_web(cases)
        self._findings.append(
            {
                "name": name,
                "claim": claim,
                "measured": measured,
                "rule": rule,
                "cases": [case.as_json() for case in webs],
                "verdict": judge(webs),
                "why": why,
                "picture": f"{self.name}-{picture}.png" if picture else "",
            }
        )

    def write(self) -> Path:
        """Write the section and return its Markdown file."""
        lines = [f"## {self.title}", ""]
        if self._findings:
            lines += ["| the paper says | measured here | holds if | webs | verdict | |"]
            lines += ["|---|---|---|---|---|---|", *map(finding_row, self._findings), ""]
        path = self.folder / f"{self.name}.md"
        path.write_text("\n".join(lines + self._lines), encoding="utf-8")
        figures = {"tables": self._figures, "findings": self._findings}
        path.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        return path


def finding_row(finding: dict[str, Any]) -> str:
    """Return a finding, as the JSON has it, as a row of the table of findings."""
    cases = in_words([Case.from_json(case) for case in finding["cases"]])
    outcome = f"**{finding['verdict']}**" + (f": {finding['why']}" if finding["why"] else "")
    picture = f"[picture]({finding['picture']})" if finding["picture"] else ""
    cells = (finding["claim"], finding["measured"], finding["rule"], cases, outcome, picture)
    return f"| {' | '.join(cells)} |"


def _cell(value: Cell) -> str:
    """A cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
