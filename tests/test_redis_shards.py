"""Sites of a crawl spread over several shards: each visit counts once in each of them."""

from __future__ import annotations

from redis_servers import RedisServer, redis_server, shared_server  # noqa: F401 - fixtures
from settled_redis import SettledRedis
from test_redis_order import drive


def test_try(redis_server: RedisServer) -> None:
    for n in (1, 4):
        f = SettledRedis(redis_server.client(), n_shards=n, ORDERING="opic", DOWNLOAD_DELAY=0)
        seen = drive(f, 3)
        f.close()
        print(n, [s for s in seen if "http" in s][:20], seen[-1])
