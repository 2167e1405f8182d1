"""Connecting to Redis: what is waited for, and what is refused in one sentence."""

import threading
from functools import partial

import pytest
from redis_servers import RedisServer

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.plugins.shared.connection import Unavailable, check_server, connect, when_available


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
