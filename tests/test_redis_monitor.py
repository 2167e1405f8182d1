"""The live view of a worker in Redis shows and changes the whole crawl."""

from __future__ import annotations

from pathlib import Path
from time import sleep

from redis_servers import RedisServer
from redis_workers import Workers
from watched_crawls import ADDRESS, Client, until


def test_one_worker_shows_pauses_and_stops_all(redis_server: RedisServer, tmp_path: Path) -> None:
    settings = {"CRAWLPRIO_MONITOR": 0, "DOWNLOAD_DELAY": 0.2, "LOG_LEVEL": "INFO"}
    workers = Workers(tmp_path, redis_server.url, pages=400, sites=20, settings=settings)
    try:
        workers.start(2)
        workers.wait_until_joined(2)
        workers.wait_until_logged("live view at")
        told = ADDRESS.search((tmp_path / "worker1.log").read_text())
        assert told is not None
        client = Client(int(told[1]), told[2])
        workers.wait_for(20)
        seen = client.state()
        assert seen["state"] == "running"
        assert len(seen["tables"]["workers"]) == 2
        assert {row[3] for row in seen["tables"]["workers"]} == {"alive"}

        def counts_the_other() -> bool:
            """Whether the view has pages of the other worker, which may begin later."""
            shown = client.state()
            of_all, own = dict(shown["shared"])["Fetched"], dict(shown["figures"])["Fetched"]
            return int(of_all.replace(",", "")) > int(own.replace(",", ""))

        until(counts_the_other)
        assert seen["tables"]["next"] or seen["tables"]["resting"]
        assert client.post("/first", url="http://s1.test/never-linked").status in (200, 409)
        assert client.post("/pause").body["said"].startswith("Paused")
        until(lambda: dict(client.state()["shared"])["Leased"] == "0")
        n_before = workers.n_fetched()
        sleep(1.0)
        assert (workers.n_fetched(), client.state()["state"]) == (n_before, "paused")
        assert client.post("/resume").status == 200
        workers.wait_for(n_before + 10)
        assert client.post("/stop").status == 200
        assert workers.wait() == [0, 0]
        assert workers.n_logs_with("Spider closed (drained)") == 2
    finally:
        workers.stop()
