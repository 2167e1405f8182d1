"""The summary of the report: a table of all claims, and advice for practitioners.

Rules in this module turn the figures of the sections into every sentence that states a result. A
test checks the committed pages against them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from sources import HISTORIES, STATES, sources
from verdicts import MOST_NAMED, RULE, VERDICTS, Case, at_spreads, in_words, judge

SECTIONS = {
    "every_web": "Every real web",
    "cho": "Cho, Garcia-Molina & Page 1998",
    "cho_topics": "Cho et al. 1998: topics, other metrics",
    "najork": "Najork & Wiener 2001",
    "castillo": "Castillo et al. 2004",
    "baeza_yates": "Baeza-Yates et al. 2005",
    "baeza_history": "Baeza-Yates et al. 2005: history",
    "choices": "What matters besides the ordering",
    "generator": "The generator",
}
PAGERANK = ("batch-pagerank", "partial-pagerank")
OURS = "sibling-sampling"
"""The default, an ordering that is not in the papers."""
CHEAP = ("opic", "backlink-count", "breadth-first")
"""Orderings that compute no PageRank; larger sites first is breadth-first on nearly all webs."""
ALIKE = 0.01
"""Averages that differ by less count as equal."""


@dataclass(frozen=True)
class Found:
    """The results of the sections.

    `sections`: The JSON of each section, by name. `seconds`: The processor time of each section's
    last run, where the manifest has it.
    """

    sections: Mapping[str, Mapping[str, Any]]
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Found:
        """Return what the sections wrote into a folder; missing sections are left out."""
        paths = {name: folder / f"{name}.json" for name in (*SECTIONS, "manifest")}
        read = {
            name: json.loads(path.read_text(encoding="utf-8"))
            for name, path in paths.items()
            if path.exists()
        }
        runs = read.pop("manifest", {"sections": {}})["sections"]
        return cls(read, {name: run["processor seconds"] for name, run in runs.items()})

    def cost(self) -> str:
        """Return in words what the last run of each section took."""
        of_sections = ", ".join(
            f"{name} {self.seconds[name] / 60:.1f}" for name in SECTIONS if name in self.seconds
        )
        unknown = ", ".join(name for name in SECTIONS if name not in self.seconds)
        return (
            f"The last runs took {sum(self.seconds.values()) / 60:.0f} minutes of processor time "
            f"({of_sections}{f'; not recorded: {unknown}' if unknown else ''}), on a machine that "
            "did other work at the same time, so there is no wall-clock time for a full run."
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
        """Return on how many of the deciding webs the finding holds, in words."""
        decided = [case for case in self.cases(name) if case.decides]
        if not decided:
            return "no web decides it"
        if len(decided) == 1:
            made = " (synthetic)" if decided[0].web.startswith("country") else ""
            return f"{int(decided[0].holds)} of 1: {decided[0].web}{made}"
        failed = [case.name for case in decided if not case.holds]
        but = (
            f" (not {', '.join(failed)})"
            if 0 < len(failed) <= min(MOST_NAMED, len(decided) // 2)
            else ""
        )
        return f"{len(decided) - len(failed)} of {len(decided)} webs{but}"

    def holds(self, name: str) -> bool | None:
        """Return whether a claim holds on two thirds of its webs, on under a third, or neither."""
        verdict = self.verdict(name)
        if verdict in ("reproduced", "mostly reproduced"):
            return True
        return False if verdict in ("mostly not reproduced", "not reproduced") else None

    def left_out(self) -> str:
        """Return in a sentence which listed webs the last run on every web did without, or ''."""
        ran = {row[0] for row in self.sections["every_web"]["tables"]["webs"]["rows"]}
        of_time = (STATES, HISTORIES)
        webs = [s.name for s in sources() if s.kind not in of_time and s.name not in ran]
        return f" The last run on every web was without {' and '.join(webs)}." if webs else ""

    def averages(self, table: str = "averages") -> dict[str, dict[str, float]]:
        """Return a table's values by web and strategy."""
        stored = self.sections["every_web"]["tables"][table]
        return {
            row[0]: {
                name: float(str(cell).split(" ")[0])
                for name, cell in zip(stored["columns"], row, strict=True)
                if name not in ("web", "kind", "start")
            }
            for row in stored["rows"]
        }

    def kinds(self) -> dict[str, str]:
        """Return the kind of each web."""
        return {row[0]: row[1] for row in self.sections["every_web"]["tables"]["averages"]["rows"]}

    def span_behind_queue(self) -> str:
        """Return the typical and the largest difference between orderings behind a hot queue."""
        rows = self.sections["cho_topics"]["tables"]["topic"]["rows"]
        means = {
            f"`{topic}` ({web}, {kind})": sorted(map(float, cells[:3]))
            for web, topic, kind, queue, *cells in rows
            if queue == "modified"
        }
        widest = max(means, key=lambda topic: means[topic][-1] - means[topic][0])
        least, most = means[widest][0], means[widest][-1]
        between = median(each[-1] - each[0] for each in means.values())
        return (
            f"the best and the worst differ by {between:.3f} in the median, and most on {widest}: "
            f"{most:.3f} against {least:.3f}"
        )


def write(folder: Path, page: Path) -> None:
    """Write the table of claims into the folder, and the summary page next to it."""
    found = Found.read(folder)
    (folder / "README.md").write_text(table_of_claims(found), encoding="utf-8")
    if len(found.sections) == len(SECTIONS):
        page.write_text(summary_page(found), encoding="utf-8")


def table_of_claims(found: Found) -> str:
    """Return the page of all claims: counts by verdict, and each claim with its webs."""
    checklist = _CHECKLIST.strip().format(cost=found.cost(), left_out=found.left_out())
    lines = [checklist, "", "## All claims", "", RULE, ""]
    lines += [f"| section | {' | '.join(VERDICTS)} |", "|" + "---|" * (len(VERDICTS) + 1)]
    for section, title in SECTIONS.items():
        if section in found.sections:
            counts = Counter(f["verdict"] for f in found.sections[section]["findings"])
            numbers = " | ".join(str(counts[verdict] or "-") for verdict in VERDICTS)
            lines.append(f"| [{title}]({section}.md) | {numbers} |")
    lines += ["", two_spreads(found), "", "Margin and spread are medians over the webs.", ""]
    heads = ("", "claim", "holds if", "webs that decide", "for", "against", "undecided", "margin",
             "spread", "verdict")  # fmt: skip
    lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for section in SECTIONS:
        for finding in found.sections.get(section, {}).get("findings", []):
            cells = (finding["claim"], finding["rule"], *_webs(finding))
            lines.append(f"| [{section}]({section}.md) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def two_spreads(found: Found) -> str:
    """How many verdicts differ if margins have to exceed two spreads instead of one."""
    findings = [f for section in found.sections.values() for f in section["findings"]]
    cases = [[Case.from_json(case) for case in f["cases"]] for f in findings]
    judged = [(judge(each), judge(at_spreads(each, 2.0))) for each in cases]
    counts = [Counter(verdicts) for verdicts in zip(*judged, strict=True)]
    at_one, at_two = (
        ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict])
        for count in counts
    )
    n_changed = sum(one != two for one, two in judged)
    return (
        "One standard deviation decides, which is little. If margins had to exceed two (and twice "
        f"the generator's error), {n_changed} of {len(judged)} verdicts would be others: {at_two}, "
        f"instead of {at_one}."
    )


def _webs(finding: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the webs decide a claim, margin and spread, and the verdict."""
    cases = [Case.from_json(case) for case in finding["cases"]]
    decided = [case for case in cases if case.decides]
    n_for = sum(case.holds for case in decided)
    alone = f": {decided[0].web}" if len(decided) == 1 else ""
    counts = (f"{len(decided)}{alone}", n_for, len(decided) - n_for, len(cases) - len(decided))
    if not cases:
        return (*map(str, counts), "-", "-", f"**{finding['verdict']}**")
    margin, spread = median(c.margin for c in cases), median(c.error for c in cases)
    spread_in_words = f"{spread:.3f}" if math.isfinite(spread) else "generated"
    return (*map(str, counts), f"{margin:+.3f}", spread_in_words, f"**{finding['verdict']}**")


def summary_page(found: Found) -> str:
    """Return the page for practitioners."""
    findings = [f for section in found.sections.values() for f in section["findings"]]
    total = Counter(f["verdict"] for f in findings if not _is_ours(f))
    parts = [
        _INTRODUCTION,
        "## The papers' orderings on these webs",
        f"{which(found)} The advice is [in one place](orderings.md).",
        _choosing(found),
        _table_of_averages(found),
        "On webs of few sites, which are nearly all of these, `larger-sites-first` fetches in the "
        "order of `breadth-first`.",
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
        + f". Another {len(findings) - total.total()} claims are ours; they "
        "are marked and judged in the same way.",
        two_spreads(found),
        _errors(found),
        _SCALE,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def which(found: Found) -> str:
    """Which ordering to choose, in the words that docs/orderings.md repeats."""
    by_web = found.averages()
    names = (OURS, "rankmass", *PAGERANK, *CHEAP)
    means = dict(_ranking(by_web, names))
    near = {name: _near_best(by_web, name, names) for name in names}
    worst = {
        name: min((a[name] - a["breadth-first"], web) for web, a in by_web.items())
        for name in (OURS, "opic")
    }
    return (
        f"On {len(by_web)} real webs, with w = 15 s, the default `{OURS}` has a mean average "
        f"cumulative PageRank of {means[OURS]:.3f}, and is the best of seven orderings or within "
        f"{ALIKE} of the best on {near[OURS]} of them. `rankmass` has {means['rankmass']:.3f} "
        f"({near['rankmass']} webs), `batch-pagerank` {means['batch-pagerank']:.3f} "
        f"({near['batch-pagerank']}), `breadth-first` {means['breadth-first']:.3f} "
        f"({near['breadth-first']}), `opic` {means['opic']:.3f} ({near['opic']}). Against "
        f"breadth-first, `{OURS}` loses at most {-worst[OURS][0]:.3f} (on {worst[OURS][1]}), "
        f"`opic` {-worst['opic'][0]:.3f} (on {worst['opic'][1]})."
    )


def _choosing(found: Found) -> str:
    """Sentences on averages over the webs."""
    by_web, early = found.averages(), found.averages("at-20")
    cheap, cheap_early = _ranking(by_web, CHEAP), _ranking(early, CHEAP)
    best = _ranking(by_web, (*PAGERANK, *CHEAP))[0]
    return "\n".join(
        (
            "What follows compares the papers' orderings only, by average cumulative PageRank with "
            f"w = 15 s on {len(by_web)} webs, each of which has the same weight.\n",
            f"* **If you can afford PageRank while crawling**: `{best[0]}` has the highest mean, "
            f"{best[1]:.3f}. It is the best, or within {ALIKE} of the best, on "
            f"{_near_best(by_web, best[0], (*PAGERANK, *CHEAP))} webs.",
            f"* **Without PageRank**: `{cheap[0][0]}` has the highest mean, {cheap[0][1]:.3f}, "
            "ahead of " + ", ".join(f"`{name}` {mean:.3f}" for name, mean in cheap[1:])
            + f". It is the best of these, or within {ALIKE} of the best, on "
            f"{_near_best(by_web, cheap[0][0], CHEAP)} webs.",
            f"* **If you fetch only a fifth of the pages**: `{cheap_early[0][0]}` has gathered the "
            f"most at 20 %, {cheap_early[0][1]:.0%} of the PageRank, ahead of "
            + ", ".join(f"`{name}` {share:.0%}" for name, share in cheap_early[1:])
            + f"; `random` has {_ranking(early, ('random',))[0][1]:.0%}.",
            _never_worse(by_web),
            "* **`opic` against `breadth-first`**: ahead on "
            f"{found.count('opic-over-breadth-first')} that decide it, by "
            f"{_leads(by_web, 'opic', 'breadth-first')}.",
            f"* **Beyond the papers**: `{OURS}`, which computes no PageRank, is ahead of "
            f"`{best[0]}` on {sum(a[OURS] > a[best[0]] for a in by_web.values())} webs, by "
            f"{_leads(by_web, OURS, best[0])}. Its options were chosen on most of these webs; see "
            "[its results on webs held out](orderings/sibling-sampling.md).",
        )
    )  # fmt: skip


def _never_worse(by_web: Mapping[str, Mapping[str, float]]) -> str:
    """How many webs on which each ordering beats a random crawler."""
    won = {
        name: sum(averages[name] > averages["random"] for averages in by_web.values())
        for name in (*PAGERANK, *CHEAP)
    }
    beaten = ", ".join(f"`{name}` on {n}" for name, n in won.items())
    return (
        "* **Against `random`, which draws from the pages that wait**, of "
        f"{len(by_web)} webs: {beaten} have the higher average."
    )


def _leads(by_web: Mapping[str, Mapping[str, float]], one: str, other: str) -> str:
    """Return the least and the greatest lead of one ordering over another."""
    leads = [averages[one] - averages[other] for averages in by_web.values()]
    return f"{min(leads):+.3f} to {max(leads):+.3f}"


def _ranking(
    by_web: Mapping[str, Mapping[str, float]], names: Sequence[str]
) -> list[tuple[str, float]]:
    """The strategies, best first, by their mean over the webs."""
    means = {name: fmean(a[name] for a in by_web.values()) for name in names}
    return sorted(means.items(), key=lambda item: -item[1])


def _near_best(by_web: Mapping[str, Mapping[str, float]], name: str, among: Sequence[str]) -> int:
    """Return the number of webs on which a strategy is within `ALIKE` of the best."""
    return sum(a[name] > max(a[n] for n in among) - ALIKE for a in by_web.values())


def _table_of_averages(found: Found) -> str:
    """Average cumulative PageRank by strategy and kind of web."""
    by_web, kinds = found.averages(), found.kinds()
    by_kind = {
        kind: {web: by_web[web] for web in by_web if kinds[web] == kind}
        for kind in sorted(set(kinds.values()))
    }
    names = ("omniscient", OURS, "rankmass", *PAGERANK, *CHEAP, "random")
    heads = [f"{kind} ({len(webs)})" for kind, webs in by_kind.items()]
    lines = [f"| | {' | '.join(heads)} | all |", "|" + "---|" * (len(heads) + 2)]
    for name in names:
        means = [_ranking(webs, (name,))[0][1] for webs in (*by_kind.values(), by_web)]
        lines.append(f"| `{name}` | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    return "\n".join(lines)


OPEN = "open: these webs do not decide it; try it on your own with `crawlprio simulate`"
"""Advice where no web decides."""


@dataclass(frozen=True)
class Advice:
    """What to do in a situation, by how a named claim came out."""

    situation: str
    finding: str
    if_it_holds: str
    if_mixed: str
    if_not: str

    def row(self, found: Found) -> str:
        """Return the row of the table."""
        holds = found.holds(self.finding)
        verdict = found.verdict(self.finding)
        text = {True: self.if_it_holds, False: self.if_not, None: self.if_mixed}[holds]
        if verdict in ("undecided", "not tested"):
            text = OPEN
        span = found.span_behind_queue() if "{span}" in text else ""
        return f"| {self.situation} | {text.format(span=span)} | {found.count(self.finding)} |"


ADVICE = (
    Advice(
        "you know nothing about the web", "breadth-first-finds-top",
        "start at any page that reaches the web: even `breadth-first` finds the best pages early",
        "`breadth-first` finds the best pages early on some webs only",
        "do not count on `breadth-first` to find the best pages early",
    ),
    Advice(
        "importance is PageRank", "pagerank-best-by-ir",
        "order by `pagerank`, which beats backlink counts and breadth-first",
        "`pagerank` is best on some webs only", "`pagerank` is not worth its cost",
    ),
    Advice(
        "importance is backlinks", "pagerank-over-backlinks-by-ib",
        "order by `pagerank` even then", "`pagerank` or `backlink-count`: try both",
        "order by `backlink-count`: it beats `pagerank`",
    ),
    Advice(
        "importance is the page's location (few slashes, good domain)", "own-order-location",
        "order by `location`", "`location` is best in some crawls only",
        "`location` does not pay: deep pages lead to shallow ones",
    ),
    Advice(
        "you have an earlier crawl (here of documentation)", "history-early",
        "use `historical-pagerank`: it leads at the beginning, when the others know nothing yet",
        "`historical-pagerank` may help at the beginning: it depends on what has changed",
        "history does not help",
    ),
    Advice(
        "pages on a topic", "hot-queue-other-topic",
        "set `TOPIC`: the hot queue finds them sooner, under every ordering",
        "set `TOPIC`, and compare: the hot queue helps some orderings only",
        "the hot queue does not find them sooner under every ordering",
    ),
    Advice(
        "pages on a topic, how far from hot pages", "hot-queue-improves",
        "use the distance from hot pages too: it improves every ordering",
        "the distance from hot pages helps on some webs only",
        "try `distance` 0 too: the distance from hot pages does not improve every ordering",
    ),
    Advice(
        "pages on a topic, which ordering", "hot-queue-levels",
        "the distance from hot pages brings the orderings closer together, but not level: {span}",
        "compare orderings behind your own hot queue: {span}",
        "the ordering behind the hot queue matters: {span}",
    ),
    Advice(
        "time matters, many small sites", "larger-sites-faster",
        "`larger-sites-first` finishes sooner than `breadth-first`",
        "`larger-sites-first` finishes sooner in some crawls; measure it with `crawlprio simulate`",
        "`larger-sites-first` does not finish sooner: the largest site or the link bounds both",
    ),
    Advice(
        "many sites, long delays", "larger-sites-first-over-breadth-first",
        "`larger-sites-first` gathers more than `breadth-first`",
        "`larger-sites-first` is ahead of `breadth-first` in some crawls only",
        "do not use `larger-sites-first`: it gathers less than `breadth-first`",
    ),
    Advice(
        "the link is full", "saturation",
        "more fetches in flight do not help", "more fetches in flight help little",
        "more fetches in flight still help",
    ),
    Advice(
        "few sites, long delays", "keep-alive",
        "fetch many pages per connection, if the sites allow it and the link is not full",
        "many pages per connection pay off if the link is not full; otherwise they change nothing",
        "many pages per connection change nothing",
    ),
    Advice(
        "you can keep only part of what you fetch", "buffer-ir",
        "choose an ordering: it keeps more of the hot pages than a random crawl",
        "the crawl order hardly helps to keep the right pages",
        "do not judge pages by what was known when they were fetched: early pages are dropped",
    ),
    Advice(
        "importance is similarity to a query (tf-idf)", "is-estimated-early",
        "estimate the frequencies from the first tenth of the crawl",
        "frequencies from the first tenth of the crawl may suffice",
        "do not trust frequencies from the first tenth of the crawl: keep counting",
    ),
    Advice(
        "how often keys are updated", "choice-cadence",
        "update as often as you can afford: it matters more than the ordering",
        "it can matter as much as the ordering", "it matters less than the ordering",
    ),
    Advice(
        "pages with equal keys", "choice-ties",
        "state how ties are broken: it matters more than the ordering",
        "state how ties are broken: on some webs it matters more than the ordering",
        "how ties are broken matters less than the ordering",
    ),
    Advice(
        "politeness", "choice-politeness",
        "compare orderings under your own delays: they matter more than the ordering",
        "compare orderings under your own delays: on some webs they matter more than the ordering",
        "delays matter less than the ordering",
    ),
)  # fmt: skip


def _advice(found: Found) -> str:
    """The table of advice."""
    lines = ["| situation | what to do | the underlying claim holds on, of those that decide it |"]
    lines += ["|---|---|---|", *(advice.row(found) for advice in ADVICE)]
    return "\n".join(lines)


def _contradicted(found: Found) -> list[str]:
    """The papers' claims that hold on at most a tenth of the webs, and the undecided ones."""

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
    parts = ["These claims of the papers hold on fewer than a tenth of the webs that decide them:"]
    parts.append("\n".join(refuted) if refuted else "None.")
    if open_:
        parts.append("These are undecided, because no margin exceeds its spread:")
        parts.append("\n".join(open_))
    return parts


def _is_ours(finding: Mapping[str, Any]) -> bool:
    """Whether a claim is not in the papers."""
    return str(finding["claim"]).startswith("(not in the paper")


def _count(finding: Mapping[str, Any]) -> str:
    return in_words([Case.from_json(case) for case in finding["cases"]])


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
measurements. [What is needed, and how to check it](reproduction/README.md), lists all claims with
webs, rule and verdict. Claims that need neither page sizes nor bandwidth are judged on [every real
web](reproduction/every_web.md). The other sections are
[Cho et al.](reproduction/cho.md), [their topics and other metrics](reproduction/cho_topics.md),
[Najork & Wiener](reproduction/najork.md), [Castillo et al.](reproduction/castillo.md), [Baeza-Yates
et al.](reproduction/baeza_yates.md), [their history](reproduction/baeza_history.md), [what matters
besides the ordering](reproduction/choices.md) and [the generator of synthetic
webs](reproduction/generator.md).

The webs are documentation, mailing lists, forums, wikis, blogs and other sites, two university
crawls, the Italian CNR of 2000, and synthetic countries. None of them is a web of the papers, which
are not available.

![PageRank gathered by five orderings on nine real webs](reproduction/every_web-curves.png)
"""

_CHECKLIST = """# The papers' experiments: how to repeat them, and all claims

* **Run**: `make reproduce`. {cost} Two sections run at a time, and
  `make webs` takes a quarter of an hour before. 8 GB of memory, 10 GB of disk.
  On the same data it writes the same JSON again; only `manifest.json` and the minutes here differ.
* **Software**: Python 3.11 or later; `make` installs the rest. `apt-get` and `dpkg-deb` (Debian
  12) for the webs of documentation, `git` for the others. The [manifest](manifest.json) has the
  versions of the committed figures.
* **Data that is fetched**: `make webs` builds the webs that [the list](every_web.md) takes from
  Debian packages or a stated commit of a public git repository, and compares their SHA-256 with
  the recorded one. For the crawls on a topic it keeps the texts of four webs. Another Debian
  release has other documentation; packages of other versions are named. What cannot be had is
  named too, and its web is left out.
* **Data to bring**, into the folder `DATA` (default `../shared/data`): `cnr-2000.npz` (LAW
  Milano, `cnr-2000`), `hollins.npz` (K. Massey's graph of hollins.edu), both converted with
  `crawlprio links export`; `uk1996-hosts.npz` (hosts of the .uk web of 1996, UK Web Archive,
  CC0). `uci-ics.npz` and its WARC hold pages without a licence and are not published; without
  them only the sections on every real web, on history and on topics are run.
* **Seeds** are fixed and in the manifest. No experiment uses the network.
* **Results**: for each section a page, its figures as PNG, their lines as CSV (up to 51 points
  each), and a JSON with all tables, margins and spreads. Verdicts and [the
  summary](../reproduction.md) are computed from the JSON; `pytest tests/test_reproduction.py`
  checks the committed pages against it.
* **Not repeated**: the papers' own webs, which are not available, and the crawl of a country. The
  in-link threshold of the Connectivity Server (Najork & Wiener) concerns pages that were linked to
  and not crawled. It is left out: our copy of the paper has lost the number, and only the
  claims on figure 3 use PageRank while there are such pages.{left_out}
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
