"""A crawl with a priority queue alone, killed at random moments, loses no page when resumed."""

import random
from collections import Counter

import pytest
from forked import Forked
from logged_web import LoggedWeb
from stores import query
from waiting import until

N_PAGES = 60

SCRIPT = """
import scrapy
from scrapy.crawler import CrawlerProcess


class Links(scrapy.Spider):
    name = "links"

    async def start(self):
        yield scrapy.Request({seed!r})  # start_urls would be fetched again by each run

    def parse(self, response):
        yield from response.follow_all(css="a")


if __name__ == "__main__":
    process = CrawlerProcess({settings!r})
    process.crawl(Links)
    process.start()
"""


@pytest.mark.parametrize("n_at_once", [1, 8])
@pytest.mark.parametrize("queue", ["OpicQueue", "BreadthFirstQueue"])
def test_nothing_is_lost_and_only_what_was_in_flight_is_fetched_again(tmp_path, queue, n_at_once):
    seed = random.randrange(10**6)
    print("seed", seed)
    choose = random.Random(seed)
    settings = {
        "SCHEDULER_PRIORITY_QUEUE": f"crawlprio.schedulers.{queue}",
        "JOBDIR": str(tmp_path / "job"),
        "CONCURRENT_REQUESTS": n_at_once,
        "CONCURRENT_REQUESTS_PER_DOMAIN": n_at_once,
        "DOWNLOAD_DELAY": 0,
        "CRAWLPRIO_COMPILE": False,
        "LOG_LEVEL": "WARNING",
    }
    with LoggedWeb(n_pages=N_PAGES, n_sites=4, latency=0.02) as web:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(seed=web.url(0), settings=settings))
        n_kills = 0
        for _ in range(3):
            n_seen = len(web.seen) + choose.randint(1, N_PAGES // 4)
            process = Forked(script, [], tmp_path, stdout=tmp_path / "log.txt")
            until(lambda n=n_seen, p=process: len(web.seen) >= n or p.poll() is not None)
            n_kills += process.poll() is None
            process.kill()
            process.wait()
        process = Forked(script, [], tmp_path, stdout=tmp_path / "log.txt")
        assert process.wait(120) == 0, (tmp_path / "log.txt").read_text()
        fetches = Counter({url: n for url, n in web.fetches().items() if "private" not in url})
        everything = {web.url(page) for page in range(N_PAGES)}
    assert n_kills == 3
    assert set(fetches) == everything
    assert fetches.total() - N_PAGES <= n_kills * n_at_once
    sql = "SELECT url FROM visits JOIN pages ON id = page WHERE status = 200"
    recorded = [url for (url,) in query(tmp_path / "job" / "crawl.sqlite", sql)]
    assert sorted(recorded) == sorted(everything)
