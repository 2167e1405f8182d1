"""The summary of the report: a table of all claims, and advice for practitioners.

Rules in this module turn the figures of the sections into every sentence that states a result. A
test checks the committed pages against them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from advice import ADVICE
from verdicts import RULE, VERDICTS, Case, in_words

SECTIONS = {
    "cho": "Cho, Garcia-Molina & Page 1998",
    "cho_topics": "Cho et al. 1998: topics, other metrics",
    "najork": "Najork & Wiener 2001",
    "castillo": "Castillo et al. 2004",
    "baeza_yates": "Baeza-Yates et al. 2005",
    "choices": "What matters besides the ordering",
    "generator": "The generator",
}
PAGERANK = ("batch-pagerank", "partial-pagerank")
OURS = "sibling-sampling"
"""An ordering that is not in the papers."""
CHEAP = ("opic", "backlink-count", "breadth-first", "larger-sites-first")
ALIKE = 0.01
"""Averages that differ by less count as equal."""


@dataclass(frozen=True)
class Found:
    """The results of the sections.

    Parameters
    ----------
    sections
        The JSON of each section, by name.
    """

    sections: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> Found:
        """Return what the sections wrote into a folder; missing sections are left out."""
        paths = {name: folder / f"{name}.json" for name in SECTIONS}
        return cls(
            {
                name: json.loads(path.read_text(encoding="utf-8"))
                for name, path in paths.items()
                if path.exists()
            }
        )

    @cached_property
    def _by_name(self) -> dict[str, Mapping[str, Any]]:
        findings = (f for section in self.sections.values() for f in section["findings"])
        return {finding["name"]: finding for finding in findings if finding["name"]}

    def verdict(self, name: str) -> str:
        """Return the verdict on a named finding."""
        return str(self._by_name[name]["verdict"])

    def cases(self, name: str) -> list[Case]:
        """Return the cases of a named finding."""
        return [Case.from_json(case) for case in self._by_name[name]["cases"]]

    def count(self, name: str) -> str:
        """Return in how many of the deciding cases the finding holds, in words."""
        decided = [case for case in self.cases(name) if case.decides]
        return f"{sum(case.holds for case in decided)} of {len(decided)}"

    def holds(self, name: str) -> bool | None:
        """Return whether a claim holds in two thirds of its cases, in under a third, or neither."""
        verdict = self.verdict(name)
        if verdict in ("reproduced", "mostly reproduced"):
            return True
        return False if verdict in ("mostly not reproduced", "not reproduced") else None

    def averages(self, table: str) -> dict[str, dict[str, float]]:
        """Return a table's values by kind of crawl and strategy, for recorded webs only."""
        stored = self.sections["baeza_yates"]["tables"][table]
        kinds = {
            k: name.partition(" (")[0]
            for k, name in enumerate(stored["columns"])
            if k >= 2 and not name.startswith("countries")
        }
        return {
            kind: {row[0]: float(str(row[k]).split(" ")[0]) for row in stored["rows"]}
            for k, kind in kinds.items()
        }


def write(folder: Path, page: Path) -> None:
    """Write the table of claims into the folder, and the summary page next to it."""
    found = Found.read(folder)
    (folder / "README.md").write_text(table_of_claims(found), encoding="utf-8")
    if len(found.sections) == len(SECTIONS):
        page.write_text(summary_page(found), encoding="utf-8")


def table_of_claims(found: Found) -> str:
    """Return the page of all claims: counts by verdict, and each claim with its cases."""
    lines = ["# The papers' experiments: all claims", "", RULE, ""]
    lines += [f"| section | {' | '.join(VERDICTS)} |", "|" + "---|" * (len(VERDICTS) + 1)]
    for section, title in SECTIONS.items():
        if section in found.sections:
            counts = Counter(f["verdict"] for f in found.sections[section]["findings"])
            numbers = " | ".join(str(counts[verdict] or "-") for verdict in VERDICTS)
            lines.append(f"| [{title}]({section}.md) | {numbers} |")
    lines += ["", "The section of each claim gives the measurements.", ""]
    lines += ["| | claim | holds if | cases | verdict | |", "|---|---|---|---|---|---|"]
    for section in SECTIONS:
        for finding in found.sections.get(section, {}).get("findings", []):
            cases = in_words([Case.from_json(case) for case in finding["cases"]])
            picture = f"[picture]({finding['picture']})" if finding["picture"] else ""
            lines.append(
                f"| [{section}]({section}.md) | {finding['claim']} | {finding['rule']} | {cases} "
                f"| **{finding['verdict']}** | {picture} |"
            )
    return "\n".join(lines) + "\n"


def summary_page(found: Found) -> str:
    """Return the page for practitioners."""
    findings = [f for section in found.sections.values() for f in section["findings"]]
    total = Counter(f["verdict"] for f in findings if not _is_ours(f))
    parts = [
        _INTRODUCTION,
        "## The papers' orderings on these webs",
        _WHICH,
        *_choosing(found),
        _table_of_averages(found),
        _BATCHES,
        "## What to take from the papers",
        _advice(found),
        "## Claims that were not reproduced",
        *_contradicted(found),
        "## How claims are judged",
        f"{RULE} The JSON of each section has the rules, the cases and their margins; the "
        f"verdicts and this page are computed from them. Of the papers' {total.total()} claims, "
        + ", ".join(
            f"{total[v]} {'is' if total[v] == 1 else 'are'} {v}" for v in VERDICTS if total[v]
        )
        + f". Another {len(findings) - total.total()} claims are ours; they are marked and judged "
        "in the same way.",
        _errors(found),
        _SCALE,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _choosing(found: Found) -> list[str]:
    """Sentences on averages over the recorded webs."""
    by_kind = found.averages("table-2-average")
    early = found.averages("at-20")
    webs = sorted({kind.partition(",")[0] for kind in by_kind})
    best = _ranking(by_kind, (*PAGERANK, *CHEAP))
    cheap = _ranking(by_kind, CHEAP)
    cheap_early = _ranking(early, CHEAP)
    sentences = [
        f"These figures are average cumulative PageRank, over {len(by_kind)} kinds of crawl of "
        f"{len(webs)} recorded webs ({', '.join(webs)}). Each web has the same weight.\n",
        f"* **If you can afford PageRank while crawling**: `{best[0][0]}` has the highest mean, "
        f"{best[0][1]:.3f}. It is the best, or within {ALIKE} of the best, in "
        f"{_near_best(by_kind, best[0][0], (*PAGERANK, *CHEAP))} kinds.",
        f"* **Without PageRank**: `{cheap[0][0]}` has the highest mean, {cheap[0][1]:.3f}, ahead "
        "of " + ", ".join(f"`{name}` {mean:.3f}" for name, mean in cheap[1:])
        + f". It is the best of these, or within {ALIKE} of the best, in "
        f"{_near_best(by_kind, cheap[0][0], CHEAP)} kinds"
        + (
            "." if _near_best_share(by_kind, cheap[0][0], CHEAP) >= 0.9
            else ", so no cheap ordering is best everywhere."
        ),
        f"* **If you fetch only a fifth of the pages**: `{cheap_early[0][0]}` has gathered the "
        f"most at 20 %, {cheap_early[0][1]:.0%} of the PageRank, ahead of "
        + ", ".join(f"`{name}` {share:.0%}" for name, share in cheap_early[1:])
        + f"; `random` has {_ranking(early, ('random',))[0][1]:.0%}.",
        _never_worse(by_kind),
        _against(by_kind, "opic", "breadth-first"),
        _beyond(by_kind, best[0][0]),
    ]  # fmt: skip
    few = (
        f"{len(webs)} webs are few. A result that holds in all kinds of crawl is likely to hold on "
        "your web too; one that holds in most is a guess. If you have a crawl of your web, "
        "`crawlprio simulate` gives the answer for it."
    )
    return ["\n".join(sentences), few]


def _never_worse(by_kind: Mapping[str, Mapping[str, float]]) -> str:
    """Which orderings lose to a random crawler, and where."""
    losing = {
        name: [kind for kind, averages in by_kind.items() if averages[name] < averages["random"]]
        for name in (*PAGERANK, *CHEAP)
    }
    safe = [f"`{name}`" for name, where in losing.items() if not where]
    lines = [
        f"`{name}` in {len(where)} of {len(by_kind)}" for name, where in losing.items() if where
    ]
    text = "* **Against a crawler that picks pages at random**: "
    if safe:
        text += f"{', '.join(safe)} {'is' if len(safe) == 1 else 'are'} ahead in all kinds"
    if lines:
        text += ("; it beats " if safe else "all orderings lose somewhere: ") + ", ".join(lines)
    return text + "."


def _against(by_kind: Mapping[str, Mapping[str, float]], one: str, other: str) -> str:
    """How often and by how much one ordering is ahead of another."""
    leads = {kind: averages[one] - averages[other] for kind, averages in by_kind.items()}
    ahead = sum(lead > 0 for lead in leads.values())
    return (
        f"* **`{one}` against `{other}`**: ahead in {ahead} of {len(leads)} kinds, by "
        f"{min(leads.values()):+.3f} to {max(leads.values()):+.3f}."
    )


def _beyond(by_kind: Mapping[str, Mapping[str, float]], best: str) -> str:
    """How an ordering of this project compares with the papers' best."""
    leads = [averages[OURS] - averages[best] for averages in by_kind.values()]
    return (
        f"* **Beyond the papers**: `{OURS}`, which computes no PageRank, has a mean of "
        f"{_ranking(by_kind, (OURS,))[0][1]:.3f}. It is ahead of `{best}` in "
        f"{sum(lead > 0 for lead in leads)} of {len(leads)} kinds, by {min(leads):+.3f} to "
        f"{max(leads):+.3f}. Its options were chosen on these webs, among others; see [its results "
        "on other webs](orderings/sibling-sampling.md)."
    )


def _ranking(
    by_kind: Mapping[str, Mapping[str, float]], names: Sequence[str]
) -> list[tuple[str, float]]:
    """The strategies, best first, by their mean over the kinds of each web and then over webs."""
    webs: dict[str, list[Mapping[str, float]]] = {}
    for kind, averages in by_kind.items():
        webs.setdefault(kind.partition(",")[0], []).append(averages)
    means = {
        name: sum(sum(a[name] for a in kinds) / len(kinds) for kinds in webs.values()) / len(webs)
        for name in names
    }
    return sorted(means.items(), key=lambda item: -item[1])


def _near_best_share(
    by_kind: Mapping[str, Mapping[str, float]], name: str, among: Sequence[str]
) -> float:
    """The share of the kinds in which a strategy is within `ALIKE` of the best."""
    near = [a[name] > max(a[n] for n in among) - ALIKE for a in by_kind.values()]
    return sum(near) / len(near)


def _near_best(by_kind: Mapping[str, Mapping[str, float]], name: str, among: Sequence[str]) -> str:
    """The same, in words."""
    share = _near_best_share(by_kind, name, among)
    return f"{round(share * len(by_kind))} of {len(by_kind)}"


def _table_of_averages(found: Found) -> str:
    """Average cumulative PageRank by strategy and kind of crawl."""
    by_kind = found.averages("table-2-average")
    names = ("omniscient", OURS, *PAGERANK, *CHEAP, "random")
    lines = [f"| | {' | '.join(by_kind)} |", "|" + "---|" * (len(by_kind) + 1)]
    for name in names:
        cells = " | ".join(f"{averages[name]:.3f}" for averages in by_kind.values())
        lines.append(f"| `{name}` | {cells} |")
    return "\n".join(lines)


def _advice(found: Found) -> str:
    """The table of advice."""
    lines = ["| situation | what to do | evidence: cases in which the underlying claim holds |"]
    lines += ["|---|---|---|", *(advice.row(found) for advice in ADVICE)]
    return "\n".join(lines)


def _contradicted(found: Found) -> list[str]:
    """The papers' claims that hold in at most a tenth of the cases, and the undecided ones."""

    def claims(wanted: Callable[[str], bool]) -> list[str]:
        return [
            f"* {finding['claim']} ([{SECTIONS[name]}](reproduction/{name}.md): {_count(finding)})"
            for name, section in found.sections.items()
            if name not in ("choices", "generator")
            for finding in section["findings"]
            if wanted(finding["verdict"]) and not _is_ours(finding)
        ]

    refuted = claims(lambda verdict: verdict == "not reproduced")
    open_ = claims(lambda verdict: verdict == "undecided")
    parts = ["These claims of the papers hold in fewer than a tenth of the deciding cases:"]
    parts.append("\n".join(refuted) if refuted else "None.")
    if open_:
        parts.append("These are undecided, because only synthetic webs or histories test them:")
        parts.append("\n".join(open_))
    return parts


def _is_ours(finding: Mapping[str, Any]) -> bool:
    """Whether a claim is not in the papers."""
    return str(finding["claim"]).startswith("(not in the paper")


def _count(finding: Mapping[str, Any]) -> str:
    cases = [Case.from_json(case) for case in finding["cases"]]
    decided = [case for case in cases if case.decides]
    return f"{sum(c.holds for c in decided)} of {len(decided)}" if decided else "no case decides"


def _errors(found: Found) -> str:
    """What synthetic webs cannot decide."""
    rows = {row[0]: row[1] for row in found.sections["generator"]["tables"]["errors"]["rows"]}
    return (
        f"Synthetic webs are wrong by {rows['lead']:.3f} in the difference between two orderings' "
        f"averages, by {rows['lead at a share']:.3f} in the difference between two curves, and by "
        f"{rows['tau lead']:.3f} in the difference between two values of Kendall's tau: nine of "
        "ten comparisons of recorded webs with synthetic twins differ by less ([the "
        "generator](reproduction/generator.md)). On a synthetic web, a smaller difference is "
        "undecided."
    )


_INTRODUCTION = """# The papers' experiments, reproduced

`make reproduce` repeats the experiments of Cho, Garcia-Molina & Page (1998), Najork & Wiener
(2001), Castillo et al. (2004) and Baeza-Yates et al. (2005). It draws their figures, prints their
tables next to the papers' numbers, and checks every claim that we found in the papers against the
measurements. This takes half an hour of processor time and needs the link graphs next to the clone
(`DATA=FOLDER`). `experiments/reproduce.py --only SECTION` runs one section.

[One table](reproduction/README.md) lists all claims with cases, rule and verdict. The sections are
[Cho et al.](reproduction/cho.md), [their topics and other metrics](reproduction/cho_topics.md),
[Najork & Wiener](reproduction/najork.md), [Castillo et al.](reproduction/castillo.md), [Baeza-Yates
et al.](reproduction/baeza_yates.md), [what matters besides the
ordering](reproduction/choices.md) and [the generator of synthetic webs](reproduction/generator.md).

The webs are two university crawls, the Italian CNR of 2000, and synthetic countries. None of them
is a web of the papers, which are not available.

![Cumulative PageRank of eight strategies](reproduction/baeza_yates-figure-4.png)
"""

_WHICH = """
Which ordering to choose is answered [in one place](orderings.md), from 43 webs: keep the default,
`sibling-sampling`. Do not choose by the three webs below. On other webs OPIC is often below
breadth-first ([figures](orderings/sibling-sampling.md#how-good-it-is)). What follows compares the
papers' orderings only.
"""

_BATCHES = """
**Batch PageRank.** The figures of `batch-pagerank` under w = 15 s and in rounds on these pages are
those with the option `fill`: pages outside a batch are fetched while its sites rest. They have not
been recomputed since the default became what Castillo et al. describe: m pages and, "once all of
those pages are retrieved", the next. Average cumulative PageRank, means over the same crawls:

| | with `fill` | a batch as in the paper |
|---|---|---|
| uci-ics, home pages, w = 15 s | 0.633 | 0.703 |
| uci-ics, home pages, rounds | 0.632 | 0.703 |
| uci-ics, one page, w = 15 s | 0.636 | 0.694 |
| hollins, home pages, w = 15 s | 0.619 | 0.621 |
| hollins, one page, w = 15 s | 0.611 | 0.615 |
| four countries, home pages, w = 15 s | 0.722 | 0.722 |
| four countries, home pages, rounds | 0.721 | 0.722 |
| four countries, one page, w = 15 s | 0.712 | 0.711 |
| country of 700,000 pages, home pages, w = 15 s | 0.738 | 0.738 |
| the same, rounds | 0.705 | 0.738 |

From home pages of uci-ics with w = 15 s, the paper's Batch is above greedy Optimal (0.686),
because it keeps the order of a crawl without delays; it takes 5.9 days instead of 5.5. Verdicts
were not recomputed; by these figures, Batch still beats Depth, Length and backlink count wherever
it did, and OPIC everywhere but on hollins. Sibling sampling is ahead of it in 3 of the 5 kinds of
crawl above, not in 5. The mean of the three webs is 0.658 instead of 0.642.
"""

_SCALE = """## Scale

`make scale` generates webs of 0.3, 3 and 30 million pages (300 million links, 50,000 sites) and
crawls them. The table is for 30 million pages, in processor seconds, on one core of a machine that
did other work at the same time:

| | order only | per page, against 0.3 million | r = 256, w = 15 s | per page, against 0.3 million |
|---|---|---|---|---|
| `breadth-first` | 28 s | 1.18 times | 118 s | 2.38 times |
| `depth-first` | 28 s | 1.25 times | 95 s | 2.02 times |
| `backlink-count` | 63 s | 1.95 times | 171 s | 2.90 times |
| `opic` | 78 s | 2.12 times | 166 s | 2.86 times |
| `larger-sites-first` | 29 s | 1.21 times | 104 s | 2.00 times |

Peak memory, including the web, was 3 GiB for crawls by order only and 4.1 GiB for timed crawls.
Generating the web took 11 s; its PageRank to 1e-10 took 89 s and 4.6 GiB. Work per page grows only
with the logarithm of the web. A page still costs up to three times as much, because the web no
longer fits in any cache.
"""
