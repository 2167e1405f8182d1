"""Random spiders bring the same with the add-on as without: nothing lost, nothing doubled.

By default some forty; `CRAWLPRIO_SPIDERS=1000 pytest tests/test_random_spiders.py` draws as many,
every 20th of which is killed. `CRAWLPRIO_SPIDERS_SEED` draws others. One alone, or cut down to what
a difference takes: `python tests/random_spiders.py SEED [--shrink]`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest
from planned_spider import PlannedSite, Record, takes_a_while
from random_spiders import PLAIN, compare, crawl
from spider_plans import Node, Plan, draw_plan

N_SPIDERS = int(os.environ.get("CRAWLPRIO_SPIDERS", "40"))
SEED = int(os.environ.get("CRAWLPRIO_SPIDERS_SEED", "20261122"))
N_KILLED = max(N_SPIDERS // 20, 2)
MAX_KILLED_SECONDS = 120.0
HERE = Path(__file__).parent


@pytest.mark.parametrize("seed", range(SEED, SEED + N_SPIDERS))
def test_a_random_spider_brings_the_same_with_the_addon(seed: int) -> None:
    print("seed", seed)
    assert compare(draw_plan(seed)) == []


class Log:
    """What the runs of a killed crawl wrote down, a record a line."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def records(self) -> list[Record]:
        if not self._file.exists():
            return []
        # A kill may cut the last line short.
        lines = self._file.read_text().splitlines()
        return [Record(*json.loads(line)) for line in lines if line.endswith("]")]

    def __len__(self) -> int:
        return len(self.records())

    def note_kill(self) -> None:
        """Mark where a kill was, after a line that it may have cut short."""
        with self._file.open("a") as file:
            file.write(f"\n{json.dumps(Record('kill', 0))}\n")


def run_until(plan: Path, log: Log, folder: Path, site: PlannedSite, n_records: int | None) -> bool:
    """Crawl a plan in another process until so many records are there; say if it was killed."""
    with (folder / "errors.txt").open("ab") as errors:
        process = subprocess.Popen(
            [
                *(sys.executable, str(HERE / "planned_spider.py")),
                *(str(plan), str(folder / "log"), str(folder / "job"), site.address),
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])},
            stdout=errors,
            stderr=errors,
        )
    deadline = monotonic() + MAX_KILLED_SECONDS
    while process.poll() is None:
        if n_records is not None and len(log) >= n_records:
            process.send_signal(signal.SIGKILL)
            process.wait()
            log.note_kill()
            return True
        if monotonic() > deadline:
            process.kill()
            process.wait()
            pytest.fail(f"did not end within {MAX_KILLED_SECONDS:g} s")
        sleep(0.005)
    assert process.returncode == 0, (folder / "errors.txt").read_text()[-3000:]
    return False


def unfinished(plan: Plan, records: list[Record], asked_for: Counter[int]) -> set[int]:
    """Return the tags whose fetches may not all have been recorded when a run was killed.

    Those are the ones asked for, or whose callbacks began, more often than callbacks ended; but for
    callbacks that ended just before: only if a request that was made later has been answered is
    their visit on disk for certain.
    """
    reached = [n for n, record in enumerate(records) if record.kind in ("callback", "errback")]
    made_by: dict[int, set[int]] = {tag: {tag} for tag in plan.nodes}
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


def led_to(node: Node) -> list[int]:
    """Return the tags of the requests that come of one."""
    led = [*node.children, *node.pushed, *(node.on_failure or ())]
    return led + [tag for tag in (node.inline, node.recovery) if tag is not None]


def descendants(plan: Plan, tags: set[int]) -> set[int]:
    """Return tags and all that they lead to."""
    found: set[int] = set()
    waiting = list(tags)
    while waiting:
        tag = waiting.pop()
        if tag in found:
            continue
        found.add(tag)
        waiting += led_to(plan.nodes[tag])
    return found


def alike_when_asked_again(plan: Plan) -> Plan:
    """Return a plan in which a request that is made again after a kill is answered alike.

    A server that redirects a request to itself the second time would make it a duplicate, and a
    callback would wait for ever for one that ended before the kill.
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


def came(records: Iterable[Record]) -> Counter[tuple[str, int, str]]:
    """Count what reached the spider, but for what a server answers otherwise the second time.

    An item on its way through the pipelines is not waited for before its page counts as done.
    """
    return Counter(
        (record.kind, record.tag, record.note if record.kind == "item" else "")
        for record in records
        if record.kind in ("callback", "errback", "inline")
        or (record.kind == "item" and not takes_a_while(record.tag))
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + N_KILLED))
def test_a_random_spider_that_is_killed_loses_nothing(tmp_path: Path, seed: int) -> None:
    """What was in flight at a kill, and what that leads to, may come twice; nothing else."""
    print("seed", seed)
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
