"""The report of a reproduction: figures, tables and findings, written as Markdown as they come.

It must not know papers, webs or crawls.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from crawlprio.evaluation.figures import Panel, plot_panels

Cell = str | int | float | None
Verdict = Literal["reproduced", "partly reproduced", "not reproduced", "not tested"]


@dataclass
class Report:
    """One section of the report: `NAME.md` with its figures beside it, and `NAME.json`.

    Parameters
    ----------
    folder
        where the files go; it is made if it is not there.
    name
        short name of the section, which all its files begin with.
    title
        its heading.
    """

    folder: Path
    name: str
    title: str
    _lines: list[str] = field(default_factory=list, init=False)
    _figures: dict[str, Any] = field(default_factory=dict, init=False)
    _findings: list[tuple[str, str, Verdict, str]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def heading(self, text: str) -> None:
        """Begin a part."""
        self._lines += [f"### {text}", ""]

    def text(self, text: str) -> None:
        """Write a paragraph."""
        self._lines += [text, ""]

    def figure(
        self, name: str, panels: Sequence[Panel], caption: str, *, title: str = "", columns: int = 2
    ) -> None:
        """Draw panels into `SECTION-NAME.png` and show them with a caption.

        The caption says what the paper's figure shows, and the choices that decide this one.
        """
        path = self.folder / f"{self.name}-{name}.png"
        plot_panels(panels, path, title=title, columns=columns)
        self._lines += [f"![{caption}]({path.name})", "", f"*{caption}*", ""]

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

    def finding(self, claim: str, measured: str, verdict: Verdict, why: str = "") -> None:
        """Hold a claim of the paper against what was measured.

        Parameters
        ----------
        claim
            what the paper says, with its figure or table.
        measured
            what came out here, in numbers.
        verdict, why
            whether it is reproduced, and what explains it if not.
        """
        self._findings.append((claim, measured, verdict, why))

    def write(self) -> Path:
        """Write the section and return its Markdown file."""
        lines = [f"## {self.title}", ""]
        if self._findings:
            lines += ["| the paper says | measured here | |", "|---|---|---|"]
            for claim, measured, verdict, why in self._findings:
                outcome = f"**{verdict}**" + (f": {why}" if why else "")
                lines.append(f"| {claim} | {measured} | {outcome} |")
            lines.append("")
        path = self.folder / f"{self.name}.md"
        path.write_text("\n".join(lines + self._lines), encoding="utf-8")
        figures = {
            "tables": self._figures,
            "findings": [
                dict(zip(("claim", "measured", "verdict", "why"), finding, strict=True))
                for finding in self._findings
            ],
        }
        path.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        return path


def _cell(value: Cell) -> str:
    """A cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
