"""What a practitioner may do, by how the claims came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from summary import Found

OPEN = "open: these webs do not decide it; try it on yours with `scrapy simulate`"
"""Advice where no case decides."""


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
        return f"| {self.situation} | {text} | {verdict}: {found.count(self.finding)} |"


ADVICE = (
    Advice(
        "nothing is known of the web", "breadth-first-finds-top",
        "start anywhere: even `breadth-first` meets the best pages early from wherever it starts",
        "`breadth-first` meets the best pages early on some webs only",
        "do not count on `breadth-first` to meet the best pages early",
    ),
    Advice(
        "importance is PageRank", "pagerank-best-by-ir",
        "order by `pagerank`, which beats backlink counts and breadth-first",
        "`pagerank` is best on some webs only", "`pagerank` is not worth its cost",
    ),
    Advice(
        "importance is backlinks", "pagerank-over-backlinks-by-ib",
        "order by `pagerank` all the same", "`pagerank` or `backlink-count`: try both",
        "order by `backlink-count`: it beats `pagerank` with ties in order of discovery",
    ),
    Advice(
        "importance is where a page lies (few slashes, good domain)", "own-order-location",
        "order by `location`", "`location` is best in some crawls only",
        "`location` does not pay: deep pages lead to shallow ones",
    ),
    Advice(
        "an earlier crawl is at hand", "history-early",
        "use `historical-pagerank`: it leads at the beginning, where others know nothing",
        "`historical-pagerank` may help at the beginning: it depends on what has changed",
        "history does not help",
    ),
    Advice(
        "pages on a topic", "hot-queue-improves",
        "set `TOPIC`: the hot queue with the distance from hot pages improves every ordering",
        "the hot queue with the distance from hot pages helps some orderings only",
        "the distance from hot pages adds nothing to anchor texts and URLs",
    ),
    Advice(
        "pages on a topic, which ordering", "hot-queue-levels",
        "with the hot queue it matters little which ordering runs behind it",
        "the ordering behind the hot queue may matter",
        "the ordering behind the hot queue matters",
    ),
    Advice(
        "time counts, many small sites", "larger-sites-faster",
        "`larger-sites-first` finishes sooner than `breadth-first`",
        "`larger-sites-first` finishes sooner in some crawls; measure it with `scrapy simulate`",
        "`larger-sites-first` does not finish sooner: the largest site or the link bounds both",
    ),
    Advice(
        "one fetch at a time, no delay that binds", "larger-sites-first-over-breadth-first",
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
        "few sites, long delay", "keep-alive",
        "fetch many pages a connection, where the sites allow it",
        "many pages a connection pay where the link is not full; where it is, they change nothing",
        "many pages a connection change nothing",
    ),
    Advice(
        "only part of what is fetched can be kept", "buffer-pagerank-ir",
        "order by `pagerank`: it keeps more of the hot pages than a random crawl",
        "the order of the crawl hardly helps to keep the right pages",
        "do not judge pages by what was seen when they came: what is fetched early is dropped",
    ),
    Advice(
        "pages like a query, by inverse document frequency", "is-estimated-early",
        "estimate the frequencies from the first tenth of the crawl",
        "frequencies in the first tenth of the crawl may do",
        "do not trust frequencies in the first tenth of the crawl: go on counting",
    ),
    Advice(
        "how often keys are brought up to date", "choice-cadence",
        "as often as you can afford: it matters more than the ordering",
        "it can matter as much as the ordering", "it matters less than the ordering",
    ),
    Advice(
        "pages with equal keys", "choice-ties",
        "say how ties are broken: it matters more than the ordering",
        "say how ties are broken: on some webs it matters more than the ordering",
        "how ties are broken matters less than the ordering",
    ),
    Advice(
        "politeness", "choice-politeness",
        "compare orderings under your delays: they matter more than the ordering",
        "compare orderings under your delays: on some webs they matter more than the ordering",
        "delays matter less than the ordering",
    ),
)  # fmt: skip
