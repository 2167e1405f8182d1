"""A crawl with a job directory goes on where it was, however it ended."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import scrapy
from crawls import ADDON, ONE_AT_A_TIME, Run, Site, crawl_demo_web, options, page, run_spider

SETTINGS = {
    **ONE_AT_A_TIME,
    "CRAWLPRIO_DEMO_PAGES": 300,
    "CRAWLPRIO_DEMO_SITES": 8,
    "CRAWLPRIO_DEMO_SEED": 1,
    "LOG_LEVEL": "WARNING",
    "CRAWLPRIO_PLOT": None,
}


def visited(store: Path) -> list[str]:
    """The URLs visited, in order; none while the store is not made yet."""
    if not store.exists():
        return []
    with sqlite3.connect(store) as db:
        try:
            rows = db.execute(
                "SELECT url FROM visits JOIN pages ON pages.id = page ORDER BY seq"
            ).fetchall()
        except sqlite3.OperationalError:
            return []
    return [url for (url,) in rows]


def crawl_until_killed(folder: Path, ordering: str, n_pages: int) -> None:
    """Crawl until so many pages are in the store, then kill the process."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = crawlprio.settings\n")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "scrapy", "crawl", "site"),
            *options({**SETTINGS, "JOBDIR": "job", "ORDERING": ordering}),
        ],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = monotonic() + 60
    while len(visited(folder / "job" / "crawl.sqlite")) < n_pages:
        assert monotonic() < deadline, "the crawl does not get on"
        try:
            process.wait(timeout=0.01)
            break
        except subprocess.TimeoutExpired:
            pass
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("ordering", ["opic", "batch-pagerank"])
def test_killed_at_random_moments_it_fetches_the_same_pages_in_the_same_order(
    tmp_path: Path, ordering: str
) -> None:
    seed = 20261121
    print("seed", seed)
    choose = random.Random(seed)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    undisturbed.mkdir()
    killed.mkdir()
    whole = crawl_demo_web(undisturbed, {**SETTINGS, "ORDERING": ordering}, pages=300, sites=8)
    order = visited(whole.store)
    for n_pages in sorted(choose.sample(range(10, 200), 3)):
        crawl_until_killed(killed, ordering, n_pages)
        so_far = visited(killed / "job" / "crawl.sqlite")
        assert so_far == order[: len(so_far)]
    last = crawl_demo_web(killed, {**SETTINGS, "ORDERING": ordering, "JOBDIR": "job"})
    assert last.exit_status == 0
    assert visited(killed / "job" / "crawl.sqlite") == order


def test_it_goes_on_under_another_ordering_and_fetches_nothing_twice(tmp_path: Path) -> None:
    half = {**SETTINGS, "JOBDIR": "job", "CLOSESPIDER_PAGECOUNT": 100}
    crawl_demo_web(tmp_path, {**half, "ORDERING": "breadth-first"})
    first = visited(tmp_path / "job" / "crawl.sqlite")
    crawl_demo_web(tmp_path, {**SETTINGS, "JOBDIR": "job", "ORDERING": "opic"})
    both = visited(tmp_path / "job" / "crawl.sqlite")
    assert 90 <= len(first) < len(both)
    assert both[: len(first)] == first
    assert len(set(both)) == len(both)


ROOT = "http://shop.test"


class Catalogue(scrapy.Spider):
    """Requests that are more than links: callbacks, arguments, a body, a priority."""

    name = "catalogue"

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield scrapy.Request(f"{ROOT}/", dont_filter=True)

    def parse(self, response: Any) -> Iterator[Any]:
        for n in range(6):
            yield scrapy.Request(
                f"{ROOT}/item/{n}", callback=self.parse_item, cb_kwargs={"n": n}, priority=n % 2
            )
        yield scrapy.FormRequest(
            f"{ROOT}/form", formdata={"q": "word"}, callback=self.parse_form, meta={"of": "form"}
        )

    def parse_item(self, response: Any, n: int) -> Iterator[Any]:
        yield {"item": n, "path": response.url.rpartition("/")[2]}

    def parse_form(self, response: Any) -> Iterator[Any]:
        yield {"form": response.request.body.decode(), "meta": response.meta["of"]}


def test_requests_that_are_more_than_links_come_back_as_they_were(tmp_path: Path) -> None:
    def run(settings: dict[str, object]) -> Run:
        with Site({}, lambda host, path: page()) as site:
            return run_spider(Catalogue, {**ADDON, **settings}, site=site)

    one_at_a_time = {
        **ONE_AT_A_TIME,
        "JOBDIR": str(tmp_path / "job"),
        "CRAWLPRIO_STORE": "crawl.sqlite",
    }
    before = run({**one_at_a_time, "CLOSESPIDER_PAGECOUNT": 3})
    after = run(one_at_a_time)
    whole = run({**ONE_AT_A_TIME, "CRAWLPRIO_STORE": str(tmp_path / "other.sqlite")})
    assert len(before.items) == 2
    assert before.items + after.items == whole.items
    assert after.stats["crawlprio/pages_fetched_in_earlier_runs"] == 3
    assert after.stats["crawlprio/pages_fetched"] == whole.stats["crawlprio/pages_fetched"] == 8
