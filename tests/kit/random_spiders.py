"""Crawls of random spiders, with and without crawlprio, and the differences between the two.

As a script it crawls one plan and prints what differs: `python tests/kit/random_spiders.py SEED`.
"""

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from pprint import pprint
from typing import Any, NamedTuple

from crawls import ADDON, run_spider
from planned_spider import PlannedSite, PlannedSpider, Record, components
from spider_plans import draw_plan

PLAIN = {}
MAX_SECONDS = 240.0
"""Seconds that a crawl may take, far longer than the slowest crawl on an idle machine."""

COMPARED_STATS = (
    *("downloader/exception_", "downloader/request_count", "downloader/response_count"),
    *("downloader/response_status_count/", "dupefilter/", "httperror/", "finish_reason", "item_"),
    *("log_count/ERROR", "response_received_count", "retry/", "scheduler/dequeued"),
    *("scheduler/enqueued", "spider_exceptions/"),
)

_REACHED = ("callback", "errback")


class Outcome(NamedTuple):
    """The results of a crawl, in one or several runs.

    Requests that are never answered are not among the fetches: on a busy machine they may time out
    before they are sent.
    """

    records: Counter[Record]
    fetches: Counter[Record]
    stats: dict[str, Any]
    """Only for a crawl in one run; otherwise empty."""
    n_runs: int


def crawl(plan, settings, jobdir=None, *, is_unsteady=False):
    """Crawl a plan in this process; with a job directory, in as many runs as the plan has stops.

    With `is_unsteady`, responses take a while and the event loop is blocked at random.
    """
    records = Counter()
    stops = [*plan.stops_after, None] if jobdir is not None else [None]
    every = {**plan.settings, **components(), **settings}
    if jobdir is not None:
        every |= {"JOBDIR": str(jobdir), "CRAWLPRIO_STORE": "crawl.sqlite"}
    unsteady = random.Random(plan.seed) if is_unsteady else None
    with PlannedSite(plan, unsteady) as site:
        for stop_after in stops:
            written = []
            run = run_spider(
                PlannedSpider,
                every,
                site=site,
                timeout=MAX_SECONDS,
                keeps_items=False,
                plan=plan,
                write=written.append,
                stop_after=stop_after,
            )
            records.update(written)
    stats = {
        name: value
        for name, value in run.stats.items()
        if name.startswith(COMPARED_STATS) and not name.endswith(("/memory", "/disk"))
    }
    # A page whose site turns out to be busy passes the scheduler and the middlewares once more.
    n_given_back = run.stats.get("crawlprio/given_back", 0)
    for name in ("downloader/request_count", "scheduler/dequeued", "scheduler/enqueued"):
        stats[name] = stats.get(name, 0) - n_given_back
    fetches = Counter(
        {
            fetch: n_times
            for fetch, n_times in site.requests().items()
            if "never" not in plan.nodes[fetch.tag].replies
        }
    )
    return Outcome(records, fetches, stats if len(stops) == 1 else {}, len(stops))


def differences(plan, plain, ours):
    """Return what the second crawl of a plan has more or less of than the first, one line each.

    As in Scrapy, start requests with `dont_filter`, their consequences and start items are repeated
    in each run. For a crawl in several runs, everything else is compared.
    """
    if plain.n_runs == ours.n_runs == 1:
        found = _unlike("reached", plain.records, ours.records)
        found += _unlike("asked for", plain.fetches, ours.fetches)
        return found + [
            f"stat {name}: {plain.stats.get(name)} -> {ours.stats.get(name)}"
            for name in sorted(plain.stats | ours.stats)
            if plain.stats.get(name) != ours.stats.get(name)
        ]
    repeated = repeated_tags(plan)
    found = _unlike("reached", _once(plain.records, repeated), _once(ours.records, repeated))
    lost = _of(plain.records, repeated) - _of(ours.records, repeated)
    found += [f"lost: {tuple(record)}" for record in sorted(lost)]
    for tag in plan.starts:
        node = plan.nodes[tag]
        once = _n_reached(plain.records, tag)
        most = ours.records[Record("start", tag)] * once
        # One that a run leaves waiting is sent once in the next, which yields it again.
        least = most - (ours.n_runs - 1) * once
        reached = _n_reached(ours.records, tag)
        # A server fails only at the first requests of all runs, and retries share one bound.
        is_alike = node.retries == 0 or node.replies == (200,)
        if node.dont_filter and is_alike and not max(least, once) <= reached <= most:
            found.append(
                f"start request {tag} reached the spider {reached} times, not {least} to {most}"
            )
    return found


def repeated_tags(plan):
    """Return the tags of start requests with `dont_filter`, and of what only they lead to."""
    repeated = set()
    waiting = [tag for tag in plan.starts if plan.nodes[tag].dont_filter]
    while waiting:
        tag = waiting.pop()
        node = plan.nodes[tag]
        if tag in repeated or (tag not in plan.starts and not node.dont_filter):
            continue
        repeated.add(tag)
        waiting += [*node.children, *node.pushed, *(node.on_failure or ())]
        waiting += [] if node.inline is None else [node.inline]
    return repeated


def _once(records, repeated):
    """Return the records that belong to one run.

    A page that a middleware refuses waits again in the next run, which refuses it again.
    """
    return Counter(
        {
            record: 1 if record.note == "IgnoreRequest" else n
            for record, n in records.items()
            if record.tag not in repeated and record.kind not in ("start", "start item", "stop")
        }
    )


def _n_reached(records, tag):
    """Return how often a request reached a callback or errback."""
    return sum(n for record, n in records.items() if record.tag == tag and record.kind in _REACHED)


def _of(records, tags):
    return Counter(
        {record: 1 for record in records if record.tag in tags and record.kind != "stop"}
    )


def _unlike(what, plain, ours):
    return [
        f"{what} {plain[record]} -> {ours[record]} times: {tuple(record)}"
        for record in sorted(plain | ours)
        if plain[record] != ours[record]
    ]


def compare(plan):
    """Crawl a plan with Scrapy alone, then with the add-on; return the differences, one line each.

    Scrapy alone crawls a plan without its stops.
    """
    plain = crawl(plan, PLAIN)
    with tempfile.TemporaryDirectory() as folder:
        jobdir = Path(folder, "job") if plan.resumes else None
        try:
            # Under Scrapy alone the outcome does not depend on it.
            ours = crawl(plan, ADDON, jobdir, is_unsteady=plan.seed % 2 == 1)
        except TimeoutError:
            return [f"did not end within {MAX_SECONDS:g} s"]
    return differences(plan, plain, ours)


if __name__ == "__main__":
    drawn = draw_plan(int(sys.argv[1]))
    pprint(drawn)
    print("\n".join(compare(drawn)) or "no difference")
