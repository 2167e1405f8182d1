"""Workers pull start requests only as what callbacks find leaves room for them."""

import threading
from functools import partial

import pytest
from redis_servers import RedisServer

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.plugins.shared.connection import Unavailable, check_server, connect, when_available

pytest.importorskip("redis")

from shared_crawls import shared_crawl

crawl = shared_crawl

ENDLESS = """
class Endless(scrapy.Spider):
    name = "site"
    start_urls = ()

    async def start(self):
        number = 0
        while True:
            number += 1
            yield scrapy.Request(self.start_urls[0] + f"?seed={number}", dont_filter=True)

    def parse(self, response):
        for child in range(2):
            yield response.follow(f"{response.url}&child={child}", self.parse_child)

    def parse_child(self, response):
        pass
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("n_workers", "n_at_once"), [(1, 1), (1, 8), (2, 4)])
def test_children_of_an_endless_start_are_fetched_and_not_starved(crawl, n_workers, n_at_once):
    crawl.web.answer = lambda site, path: (200, "text/html", b"<p>page</p>")
    limits = {"CONCURRENT_REQUESTS": n_at_once, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}
    crawl.run_spider(ENDLESS, n_workers, **limits, DOWNLOAD_DELAY=0, CLOSESPIDER_PAGECOUNT=60)
    crawl.end()
    urls = [url for url in crawl.web.urls() if "seed=" in url]
    n_children = sum("child=" in url for url in urls)
    n_seeds = len({url for url in urls if "child=" not in url})  # each worker fetches them once
    assert len(urls) >= 50
    # Two children for each seed; of those not fetched, no more wait than are fetched at once.
    assert 2 * n_seeds - n_children <= 4 * n_workers * n_at_once


def test_start_requests_of_many_sites_do_not_wait_for_the_delays_of_one(crawl):
    crawl.web.answer = lambda site, path: (200, "text/html", b"<p>page</p>")
    spider = (
        ENDLESS.replace("while True:", "for host in range(1, 9):")
        .replace(
            'self.start_urls[0] + f"?seed={number}"',
            'self.start_urls[0].replace("77.1", f"77.{host}") + f"?seed={number}"',
        )
        .replace("range(2)", "range(6)")
    )
    crawl.run_spider(spider, 1, CONCURRENT_REQUESTS=2, DOWNLOAD_DELAY=0.3)
    crawl.end()
    urls = [url for url in crawl.web.urls() if "seed=" in url]
    assert len(urls) == len(set(urls)) == 8 * 7
    seeds = [place for place, url in enumerate(urls) if "child=" not in url]
    assert seeds[-1] < 40  # else the sites were crawled one after the other


@pytest.mark.parametrize("checks", [True, False], ids=["check", "later call"])
def test_a_worker_that_starts_waits_for_the_server(tmp_path, caplog, checks):
    server = RedisServer(tmp_path)
    starts = threading.Timer(1.0, server.start)
    starts.start()
    try:
        client = connect(server.url, {})
        when_available(partial(check_server, client, server.url) if checks else client.ping)
        assert client.ping()
    finally:
        starts.join()
        server.kill()
    waits = [record for record in caplog.records if "Waiting for up to" in record.message]
    assert len(waits) == 1


def test_the_wait_for_the_server_is_bounded_and_not_for_what_it_refuses(
    monkeypatch, caplog, redis_server
):
    with pytest.raises(CrawlprioError, match="unusable: unknown command 'NONE'"):
        when_available(partial(redis_server.client().execute_command, "NONE"))
    wrong = connect(redis_server.url, {"username": "nobody", "password": "x"})
    with pytest.raises(ConfigError, match=r"the server there cannot be used \(invalid user"):
        when_available(partial(check_server, wrong, redis_server.url))
    assert not caplog.records
    monkeypatch.setattr("crawlprio.plugins.shared.connection.START_SECONDS", 0.6)
    url = "redis://127.0.0.1:1/0"
    with pytest.raises(Unavailable, match="no server answers there"):
        when_available(lambda: check_server(connect(url, {}), url))


@pytest.mark.parametrize("fixture", ["redis_server", "redis_cluster"])
def test_a_server_of_which_a_node_may_evict_keys_is_refused(fixture, request):
    server = request.getfixturevalue(fixture)
    client, last = server.client(), server.nodes[-1].client()
    check_server(client, server.url)
    last.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ConfigError, match=r"allkeys-lru.* set it to noeviction"):
            check_server(client, server.url)
    finally:
        last.config_set("maxmemory-policy", "noeviction")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("redis+cluster://127.0.0.1:1", r"redis\+cluster://127.0.0.1:1'.* no server answers"),
        ("redis+cluster://127.0.0.1:1/3", "only database 0"),
        ("redis+sentinel://127.0.0.1:1", r"redis\+sentinel://HOST:PORT"),
        ("redis+sentinel://127.0.0.1:x/crawls/0", r"redis\+sentinel://HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(url, sentence):
    with pytest.raises(ConfigError, match=sentence):
        connect(url, {})
