"""What a practitioner may do, by how the claims came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from summary import Found

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
