"""Random spiders have the same results with the add-on: nothing lost, nothing doubled.

By default 4 run, and 12 in `make test-long`. `CRAWLPRIO_SPIDERS=1000 pytest
tests/test_random_spiders.py` draws a thousand and kills every 20th. `CRAWLPRIO_SPIDERS_SEED` draws
others. `python tests/kit/random_spiders.py SEED` runs one.
"""

import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from examples import IS_LONG
from forked import Forked
from planned_spider import PlannedSite, Record, takes_a_while
from random_spiders import PLAIN, compare, crawl
from spider_plans import draw_plan
from waiting import until

pytestmark = pytest.mark.sampled
N_SPIDERS = int(os.environ.get("CRAWLPRIO_SPIDERS", "12" if IS_LONG else "4"))
SEED = int(os.environ.get("CRAWLPRIO_SPIDERS_SEED", "20261122"))
N_KILLED = max(N_SPIDERS // 20, 2)
HERE = Path(__file__).parent


@pytest.mark.parametrize("seed", range(SEED, SEED + N_SPIDERS))
def test_a_random_spider_has_the_same_results_with_the_addon(seed):
    assert compare(draw_plan(seed)) == []


class Log:
    """Return what the runs of a killed crawl wrote, one record per line."""

    def __init__(self, file):
        self._file = file

    def records(self):
        if not self._file.exists():
            return []
        # A kill may truncate the last line.
        lines = self._file.read_text().splitlines()
        return [Record(*json.loads(line)) for line in lines if line.endswith("]")]

    def __len__(self):
        return len(self.records())

    def note_kill(self):
        """Mark the time of a kill, after a line that it may have truncated."""
        with self._file.open("a") as file:
            file.write(f"\n{json.dumps(Record('kill', 0))}\n")


def run_until(plan, log, folder, site, n_records):
    """Crawl a plan in another process until there are so many records; return if it was killed."""
    errors = folder / "errors.txt"
    words = [plan, folder / "log", folder / "job", site.address]
    process = Forked(HERE / "kit" / "planned_spider.py", words, folder, stdout=errors)

    def is_time():
        return process.poll() is not None or (n_records is not None and len(log) >= n_records)

    try:
        until(is_time)
        if process.poll() is None:
            process.kill()
            process.wait()
            log.note_kill()
            return True
    finally:
        process.kill()
    assert process.returncode == 0, errors.read_text()[-3000:]
    return False


def unfinished(plan, records, asked_for):
    """Return the tags whose fetches may not all have been recorded when a run was killed.

    These are the tags requested, or whose callbacks began, more often than callbacks ended. They
    also include callbacks that ended just before: their visit is on disk for certain only if a
    later request has been answered.
    """
    reached = [n for n, record in enumerate(records) if record.kind in ("callback", "errback")]
    made_by = {tag: {tag} for tag in plan.nodes}
    for node in plan.nodes.values():
        for tag in led_to(node):
            made_by[tag].add(node.tag)
    since, first_began = 0, dict[int, int]()
    for n in reached:
        tag = records[n].tag
        makers = made_by[tag] & first_began.keys()
        since = max(since, min((first_began[maker] for maker in makers), default=0))
        first_began.setdefault(tag, n)
    begun = Counter(records[n].tag for n in reached) | asked_for
    done = Counter(record.tag for record in records[:since] if record.kind in ("end", "errback"))
    return {tag for tag, n_times in begun.items() if n_times > done[tag]}


def led_to(node):
    """Return the tags of the requests that result from one."""
    led = [*node.children, *node.pushed, *(node.on_failure or ())]
    return led + [tag for tag in (node.inline, node.recovery) if tag is not None]


def descendants(plan, tags):
    """Return tags and everything that they lead to."""
    found = set()
    waiting = list(tags)
    while waiting:
        tag = waiting.pop()
        if tag in found:
            continue
        found.add(tag)
        waiting += led_to(plan.nodes[tag])
    return found


def alike_when_asked_again(plan):
    """Return a plan in which a request that is repeated after a kill gets the same response.

    If a server redirected a request to itself the second time, it would be a duplicate, and a
    callback would wait forever for one that ended before the kill.
    """
    nodes = {
        tag: replace(
            node,
            replies=(200,) if not node.dont_filter and "self" in node.replies else node.replies,
            waits_for="",
        )
        for tag, node in plan.nodes.items()
    }
    return replace(plan, nodes=nodes)


def came(records):
    """Count what reached the spider, except what a server answers differently the second time.

    A page counts as done without waiting for an item on its way through the pipelines.
    """
    return Counter(
        (record.kind, record.tag, record.note if record.kind == "item" else "")
        for record in records
        if record.kind in ("callback", "errback", "inline")
        or (record.kind == "item" and not takes_a_while(record.tag))
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + N_KILLED))
def test_a_killed_random_spider_loses_nothing(tmp_path, seed):
    """Only what was in flight at a kill, and what follows from it, may arrive twice."""
    plan = alike_when_asked_again(draw_plan(seed, resumes=True))
    plain = crawl(plan, PLAIN)
    choose = random.Random(seed)
    n_records = sum(plain.records.values())
    kills = sorted(choose.randrange(1, n_records) for _ in range(3))
    plan_file, log = tmp_path / "plan.json", Log(tmp_path / "log")
    plan_file.write_text(json.dumps(plan.as_json()))
    may_double = {tag for tag in plan.starts if plan.nodes[tag].dont_filter}
    with PlannedSite(plan) as site:
        for kill_at in [*kills, None]:
            if not run_until(plan_file, log, tmp_path, site, kill_at):
                break
            asked_for = Counter(record.tag for record in site.requests().elements())
            may_double |= unfinished(plan, log.records(), asked_for)
    reached, once = came(log.records()), came(plain.records.elements())
    assert sorted(set(once) - set(reached)) == []
    doubled = {tag for kind, tag, n in reached if reached[kind, tag, n] > once[kind, tag, n]}
    assert sorted(doubled - descendants(plan, may_double)) == []
