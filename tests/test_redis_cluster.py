"""Three servers of a Redis Cluster pass what one server passes, while a slot moves too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from redis_servers import (  # noqa: F401 - fixtures
    ClusterOfServers,
    migrate_slot,
    redis_cluster,
    shared_cluster,
)
from redis_workers import Workers, smallest_gap
from test_redis_collect import (  # noqa: F401 - run here again, on a cluster
    recorded,
    test_collecting_in_pieces_that_overlap_gives_the_store_of_a_local_crawl,
)
from test_redis_moving import (  # noqa: F401
    test_a_load_that_fails_leaves_nothing_in_redis,
    test_requests_that_wait_move_with_the_crawl_both_ways,
)
from test_redis_start_urls import *  # noqa: F403
from test_redis_twin import (  # noqa: F401
    test_four_workers_do_as_one_frontier_in_a_process_and_keep_every_invariant,
)
from test_redis_workers import DELAY, N_PAGES, N_SITES, SETTINGS

from crawlprio.redis.shards import prefix_of


@pytest.fixture
def redis_server(redis_cluster: ClusterOfServers) -> ClusterOfServers:  # noqa: F811
    """In place of the one server of the tests that are run here again."""
    return redis_cluster


def test_a_crawl_whose_slot_moves_to_another_node_waits_and_fetches_every_page_once(
    redis_cluster: ClusterOfServers,  # noqa: F811
    tmp_path: Path,
) -> None:
    workers = Workers(tmp_path, redis_cluster.url, pages=N_PAGES, sites=N_SITES, settings=SETTINGS)
    try:
        workers.start(2)
        workers.wait_for(N_PAGES // 4)
        before = redis_cluster.owner(prefix_of("site"))
        n_moved = migrate_slot(redis_cluster, prefix_of("site"), pause=0.05)
        assert workers.wait() == [0] * 2
        after = redis_cluster.owner(prefix_of("site"))
        fetches = workers.fetches()
    finally:
        workers.stop()
    assert n_moved > 10
    assert after != before
    times = Counter(fetch["url"] for fetch in fetches)
    assert len(times) == N_PAGES
    assert set(times.values()) == {1}
    assert smallest_gap(fetches) >= DELAY
    assert workers.logs().count("Redis answers again") == 2
