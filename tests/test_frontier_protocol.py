"""Every implementation of the `Frontier` protocol behaves the same, local or in another process."""

import pytest
from crawls import fetched_urls, run_spider
from remote_frontier import SettledRemote, local_frontier
from shared_frontier import SettledShared

import crawlprio.settings
from crawlprio.spiders.site import SiteSpider
from crawlprio.testing import FrontierContract


class TestInThisProcess(FrontierContract):
    def make_frontier(self, settings):
        return local_frontier(settings)


class TestInAnotherProcess(FrontierContract):
    def make_frontier(self, settings):
        return SettledRemote(settings)


class TestInABrain(FrontierContract):
    def make_frontier(self, settings):
        return SettledShared(settings)


class _Forgetful:
    """A local frontier that forgets to end leases: the contract must notice."""

    def __init__(self, settings):
        self._frontier = local_frontier(settings)

    def __getattr__(self, name):
        return getattr(self._frontier, name)

    def __len__(self):
        return len(self._frontier)

    def put_back(self, lease, *_):
        pass


def test_the_contract_notices_a_frontier_that_forgets_pages():
    class Contract(FrontierContract):
        def make_frontier(self, settings):
            return _Forgetful(settings)

    with pytest.raises(AssertionError):
        Contract().test_a_page_put_back_waits_where_it_was_with_the_given_request()
    Contract().test_pages_leave_by_priority_and_then_in_order_of_discovery()


@pytest.mark.parametrize("ordering", ["opic", "breadth-first"])
def test_a_crawl_over_a_remote_frontier_has_the_order_of_a_local_one(tmp_path, ordering):
    orders = []
    for scheduler in ("crawlprio.schedulers.Scheduler", "remote_frontier.RemoteScheduler"):
        log = tmp_path / f"{scheduler}.jsonl"
        settings = {
            **{name: value for name, value in vars(crawlprio.settings).items() if name.isupper()},
            "SCHEDULER": scheduler,
            "ORDERING": ordering,
            "CONCURRENT_REQUESTS": 1,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "RETRY_ENABLED": False,
            "CRAWLPRIO_DEMO_PAGES": 80,
            "CRAWLPRIO_DEMO_SITES": 4,
            "CRAWLPRIO_SERVER_LOG": str(log),
            "CRAWLPRIO_STORE": None,
            "CRAWLPRIO_PRINT": False,
            "CRAWLPRIO_PLOT": None,
            "CLOSESPIDER_TIMEOUT": 240,
        }
        run = run_spider(SiteSpider, settings, priority="cmdline")
        assert run.reason == "finished"
        orders.append(fetched_urls(log))
    assert len(orders[0]) >= 80
    assert orders[0] == orders[1]
