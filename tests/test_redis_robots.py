"""Each robots.txt is read once for all workers, and obeyed by all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from crawls import Answer, Site, page, run_spider
from redis_servers import RedisServer
from redis_workers import Workers
from settled_redis import SettledRedis
from test_permission import MANY, Two

from crawlprio.demo.web import DemoWeb
from crawlprio.plugins.redis.counts import read_counts

N_PAGES, N_SITES, N_WORKERS = 400, 40, 4
PREFIX = "crawlprio:{robots:0}"


def ask(frontier: SettledRedis, *arguments: Any) -> list[Any]:
    answers: list[Any] = []
    action, *rest = arguments
    frontier._call(0, "robots", action, "a.test", *rest, on_answer=answers.append)
    (answer,) = answers
    return list(answer.result)


def test_the_first_worker_to_ask_reads_a_file_and_the_others_wait_for_it(
    redis_server: RedisServer,
) -> None:
    one, other = (
        SettledRedis(redis_server.client(), "robots", 30.0, ORDERING="opic") for _ in range(2)
    )
    name = "a.test bot"
    assert ask(one, "find", name) == [2, b"", b"inf"]
    assert ask(other, "find", name)[:2] == [0, b""]
    assert ask(other, "find", "b.test bot")[:2] == [2, b""]
    assert ask(one, "find", name)[:2] == [2, b""], "a retry of the same worker"
    ask(one, "keep", name, "the file", "600.0")
    other.advance(500.0)
    state, file, age = ask(other, "find", name)
    assert (state, file, 500.0 <= float(age) < 600.0) == (1, b"the file", True)
    other.advance(100.0)
    one.advance(0.0)
    assert ask(other, "find", name)[:2] == [2, b"the file"], "no longer valid, but better than none"
    assert ask(one, "find", name)[:2] == [0, b"the file"]
    one.advance(31.0)
    assert ask(one, "find", name)[:2] == [2, b"the file"], "the reader takes too long"
    for frontier in (one, other):
        frontier.close()


def test_the_largest_files_go_first_when_all_are_too_large(redis_server: RedisServer) -> None:
    frontier = SettledRedis(redis_server.client(), "robots", ORDERING="opic")
    megabyte = 1024 * 1024
    for number in range(20):
        ask(frontier, "keep", f"{number}.test bot", "x" * (4 * megabyte), "600.0")
        ask(frontier, "keep", f"small {number}.test bot", "x", "600.0")
    client = redis_server.client()
    names = client.hkeys(f"{PREFIX}:robots")
    assert sum(name.startswith(b"small") for name in names) == 20
    assert len(names) == 35
    sizes = client.zrange(f"{PREFIX}:robots_sizes", 0, -1, withscores=True)
    assert sorted(name for name, _ in sizes) == sorted(names)
    assert read_counts(client, PREFIX)["robots"] == sum(size for _, size in sizes)
    frontier.close()


def test_a_file_is_read_once_for_all_workers_and_all_their_user_agents(
    redis_server: RedisServer,
) -> None:
    shared = {
        **MANY,
        "CRAWLPRIO_FRONTIER": "redis",
        "REDIS_URL": redis_server.url,
        "SCHEDULER_PERSIST": True,
    }
    robots = Answer(
        "User-agent: one\nDisallow: /no\nCrawl-delay: 0.01\n\n"
        "User-agent: two\nDisallow: /yes\nCrawl-delay: 0.02"
    )
    with Site({"/no": page(), "/yes": page(), "/robots.txt": robots}) as site:
        runs = [run_spider(Two, shared, site=site) for _ in range(2)]
    assert [run.reason for run in runs] == ["finished", "finished"]
    assert sorted(site.paths(robots=True)) == [*["/no"] * 2, "/robots.txt", *["/yes"] * 4]
    assert [run.spider.delays for run in runs] == [[0.01, 0.02], [0.02]]


def test_four_workers_read_each_robots_txt_once_and_fetch_nothing_that_it_forbids(
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    settings = {"ROBOTSTXT_OBEY": True, "DOWNLOAD_DELAY": 0.05, "CONCURRENT_REQUESTS": 8}
    workers = Workers(tmp_path, redis_server.url, pages=N_PAGES, sites=N_SITES, settings=settings)
    try:
        workers.start(N_WORKERS)
        assert workers.wait() == [0] * N_WORKERS
        times = Counter(fetch["url"] for fetch in workers.fetches())
    finally:
        workers.stop()
    web = DemoWeb(N_PAGES, N_SITES, seed=1)
    robots = {url: n for url, n in times.items() if url.endswith("/robots.txt")}
    pages = {url: n for url, n in times.items() if url not in robots}
    allowed = {url for url, is_allowed in zip(web.urls(), web.allowed, strict=True) if is_allowed}
    assert len(allowed) < N_PAGES
    assert set(pages) - allowed == set()
    assert allowed - set(pages) == set(), "every page that robots.txt allows is reachable"
    assert set(pages.values()) == {1}
    assert set(robots.values()) == {1}
    assert len(robots) == N_SITES
